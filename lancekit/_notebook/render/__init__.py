"""Models of cards, and renderers that turn them into text, HTML and widgets."""
