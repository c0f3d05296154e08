"""Minimal linker: maps the machine code of an object file into memory.

It supports one kind of file: position-independent code that LLVM emits for 64-bit Linux on x86.
llvmlite links any object file, but its import takes 30 times as long as this linker.
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

#: functions of the C library that machine code may call
C_FUNCTIONS = frozenset({"memcpy", "memmove", "memset", "memcmp", "bcmp"})

# names from the ELF specification
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_ADDRESS = struct.Struct("<Q")
_MAGIC, _REL, _X86_64 = b"\x7fELF\x02\x01", 1, 62
_PROGBITS, _SYMTAB, _RELA, _ALLOC = 1, 2, 4, 2
#: relocation of a full eight-byte address
_R_X86_64_64 = 1


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code linked into this process: the address of each symbol, and the memory's owner."""

    address: Callable[[str], int]
    owner: object


class _UnsupportedObjectError(Exception):
    """The object file needs llvmlite's linker."""


class _Section(NamedTuple):
    kind: int
    flags: int
    data: bytes
    link: int
    info: int
    align: int


def linked(content: bytes) -> Code:
    """Link an object file; raise ``OSError`` if the system forbids executable anonymous memory."""
    try:
        return _link_elf(content)
    except _UnsupportedObjectError:
        return _link_with_llvmlite(content)


def _link_with_llvmlite(content: bytes) -> Code:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(content))
    engine.finalize_object()
    return Code(engine.get_function_address, engine)


def _link_elf(content: bytes) -> Code:
    """Copy the allocated sections into one block of memory and resolve their relocations."""
    sections = _sections(content)
    places, size = {}, 0
    for index, section in enumerate(sections):
        if section.flags & _ALLOC and section.data:
            if section.kind != _PROGBITS:
                raise _UnsupportedObjectError
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
                    raise _UnsupportedObjectError
                _ADDRESS.pack_into(memory, places[section.info] + at, target + addend)
        elif section.kind == _SYMTAB:
            found = _symbols(sections, sections.index(section), begins)
            names = {name: address for name, address in found if address is not None}
    _make_executable(start, len(memory))
    return Code(names.__getitem__, memory)


def _sections(content: bytes) -> list[_Section]:
    header = _HEADER.unpack_from(content)
    if not (links_quickly() and content.startswith(_MAGIC) and header[1:3] == (_REL, _X86_64)):
        raise _UnsupportedObjectError
    begin, count = header[6], header[12]
    table = content[begin : begin + count * _SECTION.size]
    return [
        _Section(kind, flags, content[at : at + size], link, info, align)
        for _, kind, flags, _, at, size, link, info, align, _ in _SECTION.iter_unpack(table)
    ]


def _symbols(
    sections: list[_Section], table: int, begins: dict[int, int]
) -> list[tuple[str, int | None]]:
    """Return a table's symbols, each with its address, or ``None`` if it is undefined."""
    texts = sections[sections[table].link].data
    found: list[tuple[str, int | None]] = []
    for at, _, _, section, value, _ in _SYMBOL.iter_unpack(sections[table].data):
        name = texts[at : texts.index(b"\0", at)].decode()
        if section in begins:
            found.append((name, begins[section] + value))
        else:
            found.append((name, _c_library_address(name) if name in C_FUNCTIONS else None))
    return found


def _c_library_address(name: str) -> int | None:
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value


def _make_executable(start: int, size: int) -> None:
    """Make memory executable and no longer writable."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if library.mprotect(start, size, mmap.PROT_READ | mmap.PROT_EXEC):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
