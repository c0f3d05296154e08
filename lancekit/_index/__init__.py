"""Indices: of scalars, vectors (`ivf`) and texts (`inverted`); writing (`build`) and search."""
