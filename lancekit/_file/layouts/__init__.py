"""The layouts of a page (chapters 7 to 10), to be written and to be read."""
