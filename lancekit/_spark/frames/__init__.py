"""Fragments and other rows as Spark DataFrames."""
