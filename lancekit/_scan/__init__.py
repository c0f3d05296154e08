"""Reads: the filter language, fragments, scans, takes, and searches."""
