"""Doors to what pylance keeps to itself, and code for it has imported all the same."""
