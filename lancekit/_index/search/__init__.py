"""Search in scalar indices; `registry` has the functions of each kind."""
