"""Explanations of operations: their plans, without execution."""
