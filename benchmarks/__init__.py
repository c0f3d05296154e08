"""Measurements against the reference, as ratios in one run; `make bench` runs them."""
