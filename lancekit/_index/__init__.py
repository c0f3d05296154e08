"""Indices: of scalars, vectors (`ivf`) and texts (`inverted`); written (`build`) and asked."""
