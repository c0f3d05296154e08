"""Machine code out of an object file, put where it can run: what kernels need of a linker.

llvmlite links any object file, but importing it takes thirty times as long as what is here does for
the files of one kind of system: those of 64-bit Linux on x86, as LLVM makes them for code that may
lie anywhere.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from lancekit._machine import links_quickly

#: what machine code may ask the C library for
KNOWN = frozenset({"memcpy", "memmove", "memset", "memcmp", "bcmp"})

# the names are those of the format, ELF
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_ADDRESS = struct.Struct("<Q")
_MAGIC, _REL, _X86_64 = b"\x7fELF\x02\x01", 1, 62
_PROGBITS, _SYMTAB, _RELA, _ALLOC = 1, 2, 4, 2
#: the eight bytes of an address
_R_X86_64_64 = 1


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code that is linked into this process: where each symbol is, and what holds it."""

    address: Callable[[str], int]
    held: object


class _NotKnownError(Exception):
    """An object file that is left to llvmlite."""


class _Section(NamedTuple):
    kind: int
    flags: int
    data: bytes
    link: int
    info: int
    align: int


def linked(content: bytes) -> Code:
    """Link an object file; ``OSError`` where the system lets nobody run what was not a file."""
    try:
        return _placed(content)
    except _NotKnownError:
        return _linked_by_llvmlite(content)


def _linked_by_llvmlite(content: bytes) -> Code:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(content))
    engine.finalize_object()
    return Code(engine.get_function_address, engine)


def _placed(content: bytes) -> Code:
    """Put the sections that a program needs behind each other, with the addresses they lack."""
    sections = _sections(content)
    places, size = {}, 0
    for index, section in enumerate(sections):
        if section.flags & _ALLOC and section.data:
            if section.kind != _PROGBITS:
                raise _NotKnownError
            size += -size % max(section.align, 1)
            places[index] = size
            size += len(section.data)
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for index, place in places.items():
        data = sections[index].data
        memory[place : place + len(data)] = data
    begins = {index: start + place for index, place in places.items()}
    names: dict[str, int] = {}
    for section in sections:
        if section.kind == _RELA and section.info in places:
            symbols = _symbols(sections, section.link, begins)
            for at, info, addend in _RELOCATION.iter_unpack(section.data):
                _, target = symbols[info >> 32]
                if info & 0xFFFFFFFF != _R_X86_64_64 or target is None:
                    raise _NotKnownError
                _ADDRESS.pack_into(memory, places[section.info] + at, target + addend)
        elif section.kind == _SYMTAB:
            found = _symbols(sections, sections.index(section), begins)
            names = {name: address for name, address in found if address is not None}
    _let_run(start, len(memory))
    return Code(names.__getitem__, memory)


def _sections(content: bytes) -> list[_Section]:
    header = _HEADER.unpack_from(content)
    if not (links_quickly() and content.startswith(_MAGIC) and header[1:3] == (_REL, _X86_64)):
        raise _NotKnownError
    begin, count = header[6], header[12]
    table = content[begin : begin + count * _SECTION.size]
    return [
        _Section(kind, flags, content[at : at + size], link, info, align)
        for _, kind, flags, _, at, size, link, info, align, _ in _SECTION.iter_unpack(table)
    ]


def _symbols(
    sections: list[_Section], table: int, begins: dict[int, int]
) -> list[tuple[str, int | None]]:
    """Return the symbols of a table, each with its address if it has one here."""
    texts = sections[sections[table].link].data
    found: list[tuple[str, int | None]] = []
    for at, _, _, section, value, _ in _SYMBOL.iter_unpack(sections[table].data):
        name = texts[at : texts.index(b"\0", at)].decode()
        if section in begins:
            found.append((name, begins[section] + value))
        else:
            found.append((name, _of_the_c_library(name) if name in KNOWN else None))
    return found


def _of_the_c_library(name: str) -> int | None:
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value


def _let_run(start: int, size: int) -> None:
    """Let memory be run, and not be written any more."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if library.mprotect(start, size, mmap.PROT_READ | mmap.PROT_EXEC):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
