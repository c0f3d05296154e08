"""Compilation of all kernels into one object file, in a separate process."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import numpy as np

from lancekit._compiled.kernel import NUMBER, WRITTEN, Kernel, Variant
from lancekit._compiled.linking import C_FUNCTIONS
from lancekit._compiled.store import BuildError, file_of_kernels, put
from lancekit._hooks import hooks


def main(path: str, *modules: str) -> None:
    """Compile the kernels of the modules into the file at `path`."""
    hooks.kernels = modules
    os.nice(10)
    wanted = Path(path)
    if wanted != file_of_kernels():
        raise BuildError("the process that compiles sees another lancekit")
    put(wanted, compiled(all_kernels()))


def all_kernels() -> list[Kernel]:
    """Return the kernels that the modules of `hooks` define."""
    found = [value for home in hooks.kernels for value in vars(import_module(home)).values()]
    return [value for value in found if isinstance(value, Kernel)]


def compiled(kernels: list[Kernel]) -> bytes:
    """Compile kernels for this processor and return one object file."""
    from llvmlite import binding

    units = [
        binding.parse_assembly(_code(kernel, variant))
        for kernel in kernels
        for variant in kernel.variants
    ]
    whole = binding.parse_assembly("")
    for unit in units:
        whole.link_in(unit)
    symbols = {variant.symbol for kernel in kernels for variant in kernel.variants}
    for function in whole.functions:
        if not function.is_declaration and function.name not in symbols:
            function.linkage = "internal"
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )
    builder = binding.create_pass_builder(
        machine, binding.create_pipeline_tuning_options(speed_level=3)
    )
    builder.getModulePassManager().run(whole, builder)
    declared = {function.name for function in whole.functions if function.is_declaration}
    missing = {name for name in declared if not name.startswith("llvm.")} - C_FUNCTIONS
    if missing:  # Numba's runtime is not linked where the kernels are loaded
        raise BuildError(f"kernels need {', '.join(sorted(missing))}")
    code: bytes = machine.emit_object(whole)
    return code


def _code(kernel: Kernel, variant: Variant) -> str:
    """Return LLVM assembly of one kernel, with an entry point that takes addresses and lengths."""
    import numba

    parameters: list[str] = []
    arguments: list[str] = []
    types: list[object] = []
    for number, text in enumerate(variant.parameters):
        if text == NUMBER:
            parameters.append(f"n{number}")
            arguments.append(f"n{number}")
            types.append(numba.int64)
        else:
            parameters += (f"p{number}", f"n{number}")
            arguments.append(f"carray(p{number}, (n{number},))")
            values = numba.from_dtype(np.dtype(text.lstrip(WRITTEN)))
            types += (numba.types.CPointer(values), numba.int64)
    inner = numba.njit(forceinline=True, error_model="numpy", boundscheck=False)(kernel.function)
    names: dict[str, object] = {"carray": numba.carray, "kernel": inner}
    source = f"def entry({', '.join(parameters)}): return kernel({', '.join(arguments)})"
    exec(source, names)  # noqa: S102  # built from the declaration only
    entry = numba.cfunc(numba.int64(*types), error_model="numpy")(names["entry"])
    code: str = entry.inspect_llvm()
    return code.replace(entry.native_name, variant.symbol)
