"""Scalar, vector (`ivf`) and full-text indices (`inverted`): `build` writes, `search` reads."""
