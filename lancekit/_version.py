"""Version of the package; reading it from the metadata would add 30 ms to the import."""

__version__ = "0.1.0"
