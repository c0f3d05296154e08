"""Reads: the filter language, projection, the scanner, take."""
