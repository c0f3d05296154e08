"""Spark lives here and nowhere else: the managed session, Java, the type mapping, the runner."""
