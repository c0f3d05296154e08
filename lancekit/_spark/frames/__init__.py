"""Fragments as DataFrames, and rows on their way there."""
