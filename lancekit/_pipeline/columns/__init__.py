"""Columns made for the rows of fragments."""
