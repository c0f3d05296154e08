"""Lossless casts of values from one type to another."""
