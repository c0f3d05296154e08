"""Layouts of pages (chapters 7 to 10): encoders and decoders."""
