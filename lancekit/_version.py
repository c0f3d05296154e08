"""The version, in one place: reading it from the package's metadata would cost 30 ms of import."""

__version__ = "0.1.0"
