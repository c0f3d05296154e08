"""Conditions that a table has to meet: stored, evaluated, and tried by commits."""
