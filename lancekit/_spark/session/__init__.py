"""Spark sessions: Java, settings, start, and both kinds of connection."""
