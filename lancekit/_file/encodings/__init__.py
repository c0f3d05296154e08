"""Encodings of values (chapter 11): one module for each, and the choice between them."""
