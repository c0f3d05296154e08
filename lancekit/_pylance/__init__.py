"""Modules that exist for compatibility with pylance; no other room of lancekit imports them."""
