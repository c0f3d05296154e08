"""Kernels that are compiled, where Numba is installed (the extra ``fast``).

Each kernel is a plain function, declared by `kernel`, next to a NumPy function with the same
result.  The NumPy function runs until the kernel is loaded, where kernels cannot be loaded, and
whenever a kernel reports a fault: only the NumPy function raises errors about damaged bytes.

``kernel`` declares and calls kernels; `hooks` list their modules; ``state`` decides when this
process loads them.  ``store`` is the file of machine code for this processor, ``linking`` maps it
into memory, and ``build`` compiles it in a separate process: no other process imports Numba.
"""
