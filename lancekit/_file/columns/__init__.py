"""A field's columns: how they are divided into pages, written and read."""
