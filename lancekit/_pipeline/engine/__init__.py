"""Where work runs, and what rows come in."""
