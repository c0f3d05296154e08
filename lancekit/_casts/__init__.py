"""The rule of casts: what becomes of a value of one type in another, as data, and its kernels."""
