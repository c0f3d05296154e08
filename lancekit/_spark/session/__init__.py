"""The session: Java, settings, start, both kinds of connection."""
