"""Format messages as frozen dataclasses, and their encoding: no I/O, no engine.

Only this package and ``lancekit._file`` use the generated protobuf classes (``_format.pb``).
"""
