"""Scalar indices: what each kind is, how their files are written (`build`) and asked (`search`)."""
