"""lancekit: a Jupyter-first toolkit for Lance datasets."""
