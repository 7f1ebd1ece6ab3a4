"""What of a file the page cache holds, and how to have it dropped."""
from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
_MAP_FAILED = ctypes.c_void_p(-1).value


def _check(result: int | None, bad: int | None) -> int | None:
    if result == bad:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def resident_bytes(paths: Iterable[str]) -> int:
    """How many bytes of these files are in the page cache, in whole pages."""
    pages = 0
    for path in paths:
        with open(path, "rb") as file:
            length = os.fstat(file.fileno()).st_size
            if length == 0:
                continue
            address = _check(_libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0), _MAP_FAILED)
            try:
                flags = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
                _check(_libc.mincore(address, length, flags), -1)
                pages += sum(flag & 1 for flag in flags.raw)
            finally:
                _libc.munmap(address, length)
    return pages * mmap.PAGESIZE


def drop(paths: Iterable[str]) -> int:
    """Drops these files from the page cache. -> the bytes that are still there: 0 where it worked."""
    paths = list(paths)
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return resident_bytes(paths)


def fill(paths: Iterable[str]) -> None:
    """Reads these files, so that the page cache holds them."""
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(8 << 20):
                pass
