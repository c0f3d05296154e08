"""Rows that a repair moved aside: read, judged, and put back."""
