"""Nesting (chapter 6): fields as trees, and repetition and definition levels."""
