"""The values of a page (chapter 11): what they are stored as, and back."""
