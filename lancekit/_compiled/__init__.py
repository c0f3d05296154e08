"""Kernels that are compiled, where Numba is installed (the extra ``fast``).

A kernel stands beside its NumPy twin, in the module of what both do, as a plain function that
`kernel` declares.  The twin serves until the kernel is ready, wherever it cannot be, and whenever
the kernel finds something wrong: what to say of damaged bytes, only the twin knows.

``kernel`` declares them and calls them; `hooks` say in which modules they are; ``state`` when
this process loads them; ``store`` is the file that they are kept in, which fits this processor;
``linking`` puts what is in it into memory; ``build`` is the process that makes it, the only one
that imports Numba.  What is loaded is machine code, and nothing can be compiled by mistake.
"""
