"""Spark jobs: the input of tasks, their results, and their failures."""
