"""A pyarrow file system over files in the memory of the cluster, without Python in the data path.

    import pyarrow.dataset, oncilla.arrow
    files = oncilla.arrow.filesystem()
    pyarrow.dataset.dataset("sales", filesystem=files).to_table(columns=["price"])
    pyarrow.parquet.read_table("ocm://sales/2026.parquet")      # the same, once oncilla.arrow was imported

The file system is C++ in a library beside this file, built against one release of Arrow. Where pyarrow is another
one, `filesystem()` gives the same files through fsspec, says so once, and is slower.
"""
from __future__ import annotations

import ctypes
import glob
import os
import warnings
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

import pyarrow
import pyarrow.fs

from .session import Session

__all__ = ["bytes_moved", "filesystem", "is_native"]

_warned = False


def _load() -> ctypes.PyDLL | None:
    """The library, which registers itself with pyarrow's libarrow; None if it was not built or needs another one."""
    for path in glob.glob(os.path.join(os.path.dirname(__file__), "_arrowfs*.so")):
        try:
            library = ctypes.PyDLL(path)  # its libarrow is the one that pyarrow loaded, or is not found
        except OSError:
            continue
        library.oncilla_arrowfs_bytes_moved.restype = ctypes.c_uint64
        return library
    return None


_library = _load()


def is_native() -> bool:
    """True if no Python is in the data path of `filesystem()`."""
    return _library is not None


def bytes_moved() -> int:
    """Bytes that reads of this process through native file systems moved from other nodes."""
    return _library.oncilla_arrowfs_bytes_moved() if _library is not None else 0


class OcmArrowFileSystem(pyarrow.fs.SubTreeFileSystem):
    """Files in cluster memory, in C++. Made by `filesystem()`; can be pickled."""

    def __init__(self, **options: Any) -> None:
        native, _ = pyarrow.fs.FileSystem.from_uri(f"ocm:///?{urlencode(options)}")
        super().__init__("", native)
        self._options = options

    def __repr__(self) -> str:
        return f"OcmArrowFileSystem({', '.join(f'{key}={value!r}' for key, value in self._options.items())})"

    def __reduce__(self) -> tuple:
        return _unpickled, (self._options,)


def _unpickled(options: dict[str, Any]) -> pyarrow.fs.FileSystem:
    return OcmArrowFileSystem(**options)


def filesystem(pool: Session | None = None, *, nodes: str | Iterable[str] | None = None, replicas: int = 1,
               mode: int = 0o600) -> pyarrow.fs.FileSystem:
    """Files in the memory of the cluster, for all of pyarrow.

    Args:
        pool: a session with the daemon to use (the file system has one of its own with it); None: $OCM_SOCKET.
        nodes, replicas, mode: of new files, as in `oncilla.fs.OcmFileSystem`.

    Raises OSError when first used where no daemon answers.
    """
    socket = None if pool is None else pool.socket
    if not is_native():
        return _through_fsspec(socket, nodes, replicas, mode)
    options: dict[str, Any] = {}
    if socket is not None:
        options["socket"] = socket
    if nodes:
        options["nodes"] = nodes if isinstance(nodes, str) else ",".join(nodes)
    if replicas != 1:
        options["replicas"] = replicas
    if mode != 0o600:
        options["mode"] = f"{mode:o}"
    return OcmArrowFileSystem(**options)


def _through_fsspec(socket: str | None, nodes: Any, replicas: int, mode: int) -> pyarrow.fs.FileSystem:
    global _warned
    from .fs import OcmFileSystem
    if not _warned:
        _warned = True
        warnings.warn(f"no native file system for Arrow {pyarrow.cpp_version} was built: ocm:// goes through fsspec, "
                      "which is slower; build oncilla with `pip install --no-build-isolation .` beside this pyarrow "
                      "for the native one", RuntimeWarning, stacklevel=3)
    files = OcmFileSystem(socket=socket, nodes=nodes, replicas=replicas, mode=mode)
    return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(files))
