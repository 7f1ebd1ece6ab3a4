"""`ocm://` for fsspec: files in the memory of the cluster.

    import pandas, oncilla.fs                     # installed, the import of oncilla.fs is not needed
    frame.to_parquet("ocm://sales/2026.parquet")
    pandas.read_parquet("ocm://sales/2026.parquet", columns=["price"])

A file is a published allocation; `ocm put FILE NAME` makes one too. Folders exist while a file lies in them. A file
is never changed: writing its path again replaces it, and readers that have it open go on with the old bytes.
"""
from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any

import fsspec
from fsspec import AbstractFileSystem
from fsspec.utils import stringify_path

from ..core.errors import Error, NotFound
from .file import Content, OcmReader, OcmWriter, is_table
from .names import EMPTY_MARK, escaped, name_of, path_of
from .session import Shared, no_file, os_errors

__all__ = ["OcmFileSystem", "OcmReader", "OcmWriter", "register"]

_FILES_AT_ONCE_MAX = 8


class OcmFileSystem(AbstractFileSystem):
    """Files in the memory of the cluster.

    Args:
        socket: of the daemon of this node; None: $OCM_SOCKET, else /run/oncilla/oncillad.sock.
        nodes: names of the nodes where new files go, parts in turns; None: the cluster chooses, nearest first.
        replicas: copies of new files on different nodes.
        mode: who may read and write new files, bits like a file's: owner 0o600 (the default), others 0o006.

    All instances of a process share one session for each socket; after fork() the child has its own. Methods may be
    called from any thread, and raise FileNotFoundError, FileExistsError, PermissionError or another OSError, whose
    `__cause__` is the `oncilla.Error`.
    """

    protocol = "ocm"
    root_marker = ""

    def __init__(self, socket: str | os.PathLike | None = None, nodes: str | Iterable[str] | None = None,
                 replicas: int = 1, mode: int = 0o600, **storage_options: Any) -> None:
        super().__init__(**storage_options)
        self.socket = None if socket is None else os.fspath(socket)
        self.nodes = [nodes] if isinstance(nodes, str) else list(nodes or ())
        self.replicas, self.mode_bits = replicas, mode
        self._shared: Shared | None = None

    @property
    def shared(self) -> Shared:
        """What the file systems of this process share for the daemon."""
        shared = self._shared
        if shared is None or shared.pid != os.getpid() or shared.session.closed:
            shared = self._shared = Shared.get(self.socket)
        return shared

    @property
    def bytes_moved(self) -> int:
        """Bytes that reads of this process moved from other nodes, over all file systems with this daemon."""
        return self.shared.moved_bytes

    def placement_of_part(self, index: int) -> dict[str, Any]:
        """Arguments of `Session.allocate()` for part `index` of a new file."""
        options: dict[str, Any] = {}
        if self.replicas > 1:
            options.update(layout="replicated", extents=self.replicas)
        if self.nodes:
            count = min(self.replicas, len(self.nodes))
            options["nodes"] = [self.nodes[(index + i) % len(self.nodes)] for i in range(count)]
        return options

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return stringify_path(path).removeprefix("ocm://").strip("/")

    # ---------------------------------------------------------------- what is there

    def _files(self, prefix: str) -> dict[str, dict[str, Any]]:
        """Every file whose path starts with `prefix`, by path."""
        with os_errors(prefix):
            names = self.shared.session.names(escaped(prefix))
        files: dict[str, dict[str, Any]] = {}
        for name in names:
            empty = name.name.endswith(EMPTY_MARK)
            path = path_of(name.name.removesuffix(EMPTY_MARK))
            if path is None or (name.layout == "sequence" and not name.lost and self._is_table(path)):
                continue
            if not (empty and path in files):
                files[path] = {"name": path, "size": 0 if empty else name.nbytes, "type": "file"}
        return files

    def _is_table(self, path: str) -> bool:
        if "/" in path:
            return False
        try:
            with self.shared.session.attach(name_of(path)) as allocation:
                return is_table(path, allocation)
        except Error:  # removed just now, or not to be read
            return False

    def _below(self, path: str, maxdepth: int | None, folders: bool) -> dict[str, dict[str, Any]]:
        """The files in the folder `path`, and with `folders` those in it, to `maxdepth`."""
        prefix = f"{path}/" if path else ""
        found: dict[str, dict[str, Any]] = {}
        for name, info in self._files(prefix).items():
            parts = name[len(prefix):].split("/")
            shown = len(parts) if maxdepth is None else maxdepth
            for count in range(1, min(len(parts), shown + 1) if folders else 0):
                folder = prefix + "/".join(parts[:count])
                found.setdefault(folder, _folder(folder))
            if len(parts) <= shown:
                found[name] = info
        return found

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """The files and folders in the folder `path`, or the file. Raises FileNotFoundError."""
        path = self._strip_protocol(path)
        found = self._below(path, 1, True)
        if not found and path:
            found = {path: self.info(path)}
        return [found[name] if detail else name for name in sorted(found)]

    def find(self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False,
             **kwargs: Any) -> Any:
        """All files below the folder `path`, with `withdirs` folders and itself too; or the file `path`."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        path = self._strip_protocol(path)
        found = self._below(path, maxdepth, withdirs)
        if path and found and withdirs:
            found[path] = _folder(path)
        if path and not found and self.isfile(path):
            found[path] = self.info(path)
        names = sorted(found)
        return {name: found[name] for name in names} if detail else names

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Its "name", "size" in bytes and "type" ("file" or "directory"). Raises FileNotFoundError."""
        path = self._strip_protocol(path)
        if not path:
            return _folder("")
        try:
            content = Content(self.shared, path, hold=False)
        except FileNotFoundError:
            if self._files(f"{path}/"):
                return _folder(path)
            raise
        return {"name": path, "size": content.size, "type": "file"}

    def ukey(self, path: str) -> str:
        """A text that changes when the file's content is replaced."""
        path = self._strip_protocol(path)
        return hashlib.sha256(repr((path, Content(self.shared, path, hold=False).identity)).encode()).hexdigest()

    def checksum(self, path: str) -> int:
        """`ukey()` as a number."""
        return int(self.ukey(path), 16)

    def modified(self, path: str) -> datetime:
        """Not the time of writing, which is not recorded, but a time derived from the content: it changes when the file
        is replaced. Caches, such as DuckDB's, compare it."""
        return datetime.fromtimestamp(self.checksum(path) % 10**9, timezone.utc)

    # ---------------------------------------------------------------- reading

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, autocommit: bool = True,
              cache_options: Any = None, **kwargs: Any) -> OcmReader | OcmWriter:
        path = self._strip_protocol(path)
        if mode == "rb":
            return OcmReader(self, path)
        if mode in ("wb", "xb"):
            return OcmWriter(self, path, exclusive=mode == "xb", autocommit=autocommit)
        raise io.UnsupportedOperation(f"mode {mode!r}: a file in cluster memory is read, or written whole")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """The bytes [start, end) of the file; negative ones count from its end."""
        content = Content(self.shared, self._strip_protocol(path))
        low, high, _ = slice(start, end).indices(content.size)
        return content.get(low, max(0, high - low))

    def cat_ranges(self, paths: list[str], starts: Any, ends: Any, max_gap: int | None = None,
                   on_error: str = "return", **kwargs: Any) -> list[Any]:
        """The bytes [start, end) of each path: one vectored get for each file, several files at a time."""
        starts = starts if isinstance(starts, Iterable) else [starts] * len(paths)
        ends = ends if isinstance(ends, Iterable) else [ends] * len(paths)
        wanted: dict[str, list[tuple[int, Any, Any]]] = {}
        for index, (path, start, end) in enumerate(zip(paths, starts, ends, strict=True)):
            wanted.setdefault(self._strip_protocol(path), []).append((index, start, end))
        out: list[Any] = [None] * len(paths)

        def fill(path: str) -> None:
            try:
                for (index, _, _), data in zip(wanted[path], self._ranges(path, wanted[path])):
                    out[index] = data
            except Exception as error:
                if on_error != "return":
                    raise
                for index, _, _ in wanted[path]:
                    out[index] = error

        if len(wanted) < 2:
            for path in wanted:
                fill(path)
        else:
            with ThreadPoolExecutor(min(len(wanted), _FILES_AT_ONCE_MAX), "oncilla-fs") as executor:
                list(executor.map(fill, wanted))
        return out

    def _ranges(self, path: str, wanted: list[tuple[int, Any, Any]]) -> list[bytes]:
        content = Content(self.shared, path)
        ranges = [slice(start, end).indices(content.size)[:2] for _, start, end in wanted]
        if len(ranges) == 1 or content.view is not None:
            return [content.get(start, max(0, end - start)) for start, end in ranges]
        whole = bytearray(sum(max(0, end - start) for start, end in ranges))
        pieces, done = [], 0
        for start, end in ranges:
            nbytes = max(0, end - start)
            pieces.append((start, memoryview(whole)[done:done + nbytes]))
            done += nbytes
        content.getv(pieces)
        return [bytes(buffer) for _, buffer in pieces]

    # ---------------------------------------------------------------- writing

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        """Makes `value` (a buffer) the content of the file; `mode` "create": FileExistsError if there is one."""
        with self.open(path, "xb" if mode == "create" else "wb") as file:
            file.write_whole(value)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copies a file from node to node; not through this program."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if source == target or self.isdir(source):
            return
        content = Content(self.shared, source)
        with OcmWriter(self, target) as file:
            file.copy_from(content)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Makes an empty file, in place of what there is if `truncate`."""
        if truncate or not self.exists(path):
            self.pipe_file(path, b"")

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Does nothing: folders exist while they contain a file."""

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Does nothing: folders exist while they contain a file."""

    def rmdir(self, path: str) -> None:
        """Nothing for an empty folder. Raises OSError where files lie in it."""
        if self._files(f"{self._strip_protocol(path)}/"):
            raise OSError(errno.ENOTEMPTY, "files lie in the folder", path)

    # ---------------------------------------------------------------- removing

    def remove_name(self, path: str, name: str) -> bool:
        """Removes the published name; False if there is none. `path`: what errors are about."""
        with os_errors(path):
            try:
                self.shared.session.remove(name)
            except NotFound:
                return False
        return True

    def _rm(self, path: str) -> None:
        path = self._strip_protocol(path)
        name = name_of(path)
        Content(self.shared, path, hold=False).close()  # it is a file
        removed = [self.remove_name(path, name), self.remove_name(path, name + EMPTY_MARK)]
        if not any(removed):
            raise no_file(path)

    rm_file = _rm

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, and with `recursive` folders. Raises FileNotFoundError, IsADirectoryError."""
        for one in self.expand_path(path, recursive=recursive, maxdepth=maxdepth):
            if self.isfile(one):
                self._rm(one)
            elif not recursive and self.isdir(one):
                raise IsADirectoryError(errno.EISDIR, "a folder: give recursive=True", f"ocm://{one}")
            elif not recursive:
                raise no_file(one)


def _folder(path: str) -> dict[str, Any]:
    return {"name": path, "size": 0, "type": "directory"}


def register() -> None:
    """Makes fsspec know `ocm://` where the package is not installed, as in the development tree."""
    fsspec.register_implementation("ocm", OcmFileSystem, clobber=True)


register()
