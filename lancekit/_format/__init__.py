"""Bytes to frozen dataclasses and back: no I/O, no engine.

Generated protobuf classes (``format.pb``) do not leave this package and ``lancekit.file``.
"""
