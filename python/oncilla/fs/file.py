"""Files in cluster memory: one to read, and one to write.

Reading. Where all bytes lie on this host a read points into them (`read_buffer`) or copies them once. Otherwise a
read of SMALL_BYTES or more is one get of just its bytes. Smaller ones go through a window: it is at least
FLOOR_BYTES, or the last TAIL_BYTES where it reaches the end (a footer), and grows to an eighth of what was read in a
row, so that lines cost few gets and random reads move little more than they ask for. What lies in the window is not
moved again. A get lets other threads run, which may seek and read the same file, as DuckDB's do: so a read takes its
position and the window once, and puts back what they became at its end.

Writing. Parts go into extents of their own as they fill; close() joins them and gives the name in one step. A file
that is discarded, or whose program dies, leaves no name and no memory. Most that write know nothing of discard(): what
leaves a `with` block of theirs by an exception calls close(), and so does a `finally`. So close() publishes nothing
after a write() that failed, nor under an exception that was not there when the file was opened.
"""
from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from threading import get_ident
from typing import TYPE_CHECKING, Any

from ..core.allocation import copy
from ..core.errors import Exists, Lost, NotFound, PeerLost, Unsupported
from .names import EMPTY_MARK, name_of
from .session import Shared, no_file, os_errors

if TYPE_CHECKING:
    from ..core.allocation import Allocation
    from . import OcmFileSystem

SMALL_BYTES = 64 << 10
FLOOR_BYTES = 4 << 10
TAIL_BYTES = 16 << 10
AHEAD_BYTES_MAX = 4 << 20
PART_BYTES_MIN = 8 << 20
PART_BYTES_MAX = 256 << 20
_ATTEMPTS_MAX = 100  # programs that write the same path at once take turns


def is_table(path: str, allocation: Allocation) -> bool:
    """True if it is a table's first segment. Raises oncilla.Error."""
    if "/" in path:  # no table has such a name
        return False
    try:
        return allocation._is_table()
    except (PeerLost, Lost):  # nobody can tell
        return False


class Content:
    """The bytes of a file, held: they stay as they are until it is closed, also when the file is replaced.

    `allocation` is None for an empty file. Threads: any.
    """

    def __init__(self, shared: Shared, path: str, hold: bool = True) -> None:
        """`hold` False: only to say what it is. Raises FileNotFoundError, PermissionError, OSError."""
        self.shared, self.path = shared, path
        self.allocation: Allocation | None = None
        name = name_of(path)
        with os_errors(path):
            try:
                self.allocation = shared.session.attach(name, hold=hold)
            except NotFound:
                self._find_empty(name)
            table = self.allocation is not None and is_table(path, self.allocation)
        if table:
            raise OSError(errno.EINVAL, "a table, not a file: see oncilla.Session.table()", f"ocm://{path}")
        self.size = self.allocation.nbytes if self.allocation is not None else 0
        extents = self.allocation.extents() if self.allocation is not None else []
        self.identity = (self.size, *((extent.global_address, extent.generation) for extent in extents))
        replicas = self.allocation is not None and self.allocation.info.layout == "replicated"
        self._local = (any if replicas else all)(extent.local for extent in extents)
        self.view = memoryview(b"") if self.allocation is None else None
        if self.allocation is not None and extents and self._local:
            try:
                self.view = memoryview(self.allocation)
            except (Unsupported, BufferError):  # several parts: no pointer to all of it
                pass

    def _find_empty(self, name: str) -> None:
        try:
            self.shared.session.attach(name + EMPTY_MARK).free()
        except NotFound as error:
            raise no_file(self.path) from error

    def get(self, start: int, nbytes: int) -> bytes:
        """[start, start + nbytes), which lies inside. Raises OSError."""
        if self.view is not None and nbytes < SMALL_BYTES:
            return bytes(self.view[start:start + nbytes])
        if nbytes == 0:
            return b""
        assert self.allocation is not None  # an empty file has no such bytes
        with os_errors(self.path):
            data = self.allocation.get(start, nbytes)
        self._count(nbytes)
        return data

    def getv(self, pieces: list[tuple[int, memoryview]]) -> None:
        """Fills each of the (offset, buffer), in one window of operations. Raises OSError."""
        pieces = [(start, buffer) for start, buffer in pieces if len(buffer) > 0]
        if not pieces:
            return
        assert self.allocation is not None  # an empty file has no such bytes
        with os_errors(self.path):
            self.allocation.getv(pieces)
        self._count(sum(len(buffer) for _, buffer in pieces))

    def _count(self, nbytes: int) -> None:
        if not self._local:
            self.shared.count(nbytes)

    def close(self) -> None:
        """Lets go of the bytes; what still points into them keeps them."""
        self.view = None
        self.allocation = None


class OcmReader(io.RawIOBase):
    """A file opened for reading. Seekable. Survives fork() and pickling.

    Threads: any may seek and then read while others do, for a seek holds for the next read of its thread. Reads
    without a seek, and close(): one thread at a time.
    """

    mode = "rb"

    def __init__(self, fs: OcmFileSystem, path: str) -> None:
        """Raises FileNotFoundError, PermissionError, OSError."""
        self.fs, self.path = fs, path
        self._content = Content(fs.shared, path)
        self.size = self._content.size
        self._position = 0
        self._sought: dict[int, int] = {}  # thread: where its next read starts; else at the position
        self._window = 0, b""  # the offset of these bytes
        self._run_start = self._run_end = 0  # of reads in a row

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position in bytes."""
        return self._sought.get(get_ident(), self._position)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to `offset` bytes from the start (0), the position (1) or the end (2)."""
        self._check_open()
        position = offset + (0, self.tell(), self.size)[whence]
        if position < 0:
            raise ValueError(f"cannot seek to {position}")
        self._position = self._sought[get_ident()] = position
        return position

    def read(self, size: int | None = -1) -> bytes:
        """At most `size` bytes, fewer only at the end. Raises OSError."""
        content, start, nbytes = self._start(size)
        if content.view is None and nbytes < SMALL_BYTES:
            data = self._small(content, start, nbytes)
        else:
            head = _part(self._window, start, nbytes)
            rest = content.get(start + len(head), nbytes - len(head))
            data = head + rest if head else rest
        self._advance(start, nbytes)
        return data

    read1 = read

    def readinto(self, buffer: Any) -> int:
        """Fills `buffer` from the position, wholly but at the end, without a copy between. Raises OSError."""
        target = memoryview(buffer).cast("B")
        content, start, nbytes = self._start(len(target))
        if content.view is None and nbytes < SMALL_BYTES:
            target[:nbytes] = self._small(content, start, nbytes)
        else:
            head = _part(self._window, start, nbytes)
            target[:len(head)] = head
            content.getv([(start + len(head), target[len(head):nbytes])])
        self._advance(start, nbytes)
        return nbytes

    readinto1 = readinto

    def read_buffer(self, size: int = -1) -> memoryview | bytes:
        """As `read()`, but where the bytes lie on this host it points to them. pyarrow calls it."""
        content, start, nbytes = self._start(size)
        if content.view is None:
            return self.read(nbytes)
        self._advance(start, nbytes)
        return content.view[start:start + nbytes]

    def peek(self, size: int = 1) -> bytes:
        """Bytes from the position on, at least one but at the end, without moving it; `readline()` uses it."""
        content, start, nbytes = self._start(max(size, 1))
        if content.view is not None:
            return bytes(content.view[start:start + FLOOR_BYTES])
        first = self._small(content, start, min(nbytes, 1))
        return _part(self._window, start, FLOOR_BYTES) or first

    def info(self) -> dict[str, Any]:
        """As `OcmFileSystem.info()`."""
        return {"name": self.path, "size": self.size, "type": "file"}

    def close(self) -> None:
        """Lets go of the bytes."""
        if not self.closed:
            self._content.close()
            self._window = 0, b""
        super().close()

    def __reduce__(self) -> tuple:
        return _reopened, (self.fs, self.path, self.tell())

    # ---------------------------------------------------------------- parts of a read

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the file is closed")

    def _start(self, size: int | None) -> tuple[Content, int, int]:
        """The content, where a read of `size` by this thread starts, and how many bytes it gives."""
        self._check_open()
        if self._content.shared.pid != os.getpid():
            self._reattach()
        start = self.tell()
        left = max(0, self.size - start)
        return self._content, start, left if size is None or size < 0 else min(size, left)

    def _reattach(self) -> None:
        """After fork(): the same bytes over this process' own session."""
        content = Content(self.fs.shared, self.path)
        if content.identity != self._content.identity:
            raise OSError(errno.ESTALE, "the file was replaced since it was opened: open it again", self.path)
        self._content = content

    def _advance(self, start: int, nbytes: int) -> None:
        """After a read of `nbytes` at `start`."""
        if start != self._run_end:
            self._run_start = start
        self._position = self._run_end = start + nbytes
        if self._sought.pop(get_ident(), None) is None:
            self._sought.clear()  # the file was handed on: it read on from another thread's seek

    def _small(self, content: Content, start: int, nbytes: int) -> bytes:
        """The `nbytes` at `start`, through the window."""
        head = _part(self._window, start, nbytes)
        if len(head) == nbytes:
            return head
        missing = start + len(head)
        run = start - self._run_start if start == self._run_end else 0
        wanted = max(nbytes - len(head), FLOOR_BYTES, min(run // 8, AHEAD_BYTES_MAX))
        end = min(missing + wanted, self.size)
        if end == self.size and run == 0 and not head:
            missing = min(missing, max(0, end - TAIL_BYTES))
        window = self._window = missing - len(head), head + content.get(missing, end - missing)
        return _part(window, start, nbytes)


def _part(window: tuple[int, bytes], start: int, nbytes: int) -> bytes:
    """The first of the `nbytes` at `start` that are in the window."""
    offset, data = window
    return data[start - offset:start - offset + nbytes] if 0 <= start - offset < len(data) else b""


def _reopened(fs: OcmFileSystem, path: str, position: int) -> OcmReader:
    file = OcmReader(fs, path)
    file.seek(position)
    return file


class OcmWriter(io.RawIOBase):
    """A file being written. Its name appears, or changes, at close(), unless a write() failed before.

    An exception that leaves the block in which the file is written discards it, whoever calls close(). So does close()
    in an `except` block that was entered after the file was opened: it raises the exception again, with a note.
    One thread at a time. `exclusive`: close() raises FileExistsError where the path has a file. Without `autocommit`
    close() leaves the name to commit().
    """

    mode = "wb"

    def __init__(self, fs: OcmFileSystem, path: str, exclusive: bool = False, autocommit: bool = True) -> None:
        """Raises OSError for a path that is no name."""
        self._parts: list[Allocation] = []
        self._shared = fs.shared
        self.fs, self.path, self._name = fs, path, name_of(path)
        self._exclusive, self._autocommit = exclusive, autocommit
        self._held = bytearray()
        self._stored_bytes = 0
        self._opened_under = sys.exc_info()[1]
        self._failure: BaseException | None = None  # of the first write that failed: nothing is published
        self._dropped = False

    def writable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """How many bytes were written."""
        return self._stored_bytes + len(self._held)

    @property
    def size(self) -> int:
        """How many bytes were written."""
        return self.tell()

    def write(self, data: Any) -> int:
        """Appends the buffer `data`. Raises OSError (ENOSPC where the cluster is full); the file is lost then."""
        self._check_writable()
        with memoryview(data) as whole, whole.cast("B") as rest:
            if not self._dropped:
                try:
                    self._append(rest)
                except BaseException as error:
                    self._poison(error)
                    raise
            return len(rest)

    def write_whole(self, data: Any) -> None:
        """All bytes of the file at once: one extent of just their length."""
        with memoryview(data) as whole, whole.cast("B") as rest:
            if len(rest) > 0:
                self._store(rest)

    def copy_from(self, source: Content) -> None:
        """All bytes of the file at once: those of another, from node to node. Raises OSError."""
        while self._stored_bytes < source.size:
            start = self._stored_bytes
            part = self._allocate(min(self._part_bytes(), source.size - start))
            with os_errors(self.path):
                copy(part, (source.allocation, start), part.nbytes)

    def commit(self) -> None:
        """Gives the closed file its name. Raises FileExistsError, PermissionError, OSError; nothing stays then."""
        if not self._parts:
            return
        marked = self._name + EMPTY_MARK
        wanted, other = (marked, self._name) if self._stored_bytes == 0 else (self._name, marked)
        try:
            if self._exclusive and self.fs.exists(self.path):
                raise FileExistsError(errno.EEXIST, "the path has a file", f"ocm://{self.path}")
            with os_errors(self.path):
                if wanted == marked:
                    self._refuse_table()
                self._publish(wanted)
        finally:
            self._free()
        if not self._exclusive:
            self.fs.remove_name(self.path, other)

    def discard(self) -> None:
        """Leaves nothing."""
        self._free()
        self._failure = self._opened_under = None
        super().close()

    def close(self) -> None:
        """Publishes the file. Raises as commit(), and OSError after a write() that failed; nothing stays then."""
        if self.closed:
            return
        under, failure = self._under(), self._failure
        if self._dropped or failure is not None or under is not None:
            self.discard()
            self._raise_lost(under, failure)
            return
        try:
            self._finish()
            if self._autocommit:
                self.commit()
        except BaseException:
            self._free()
            raise
        finally:
            self._opened_under = None
            super().close()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.discard()
        else:
            self.close()

    def __del__(self) -> None:
        # Not closed: nobody said that the bytes are all there.
        if not self.closed and hasattr(self, "_dropped"):
            if self._failure is None:
                self._dealloc_warn(self)
            self.discard()

    def _dealloc_warn(self, source: Any) -> None:
        """What the wrappers of `io` call before the close() of one that is dropped."""
        if self._shared.pid == os.getpid():
            warnings.warn(f"ocm://{self.path} was not closed: nothing was published", ResourceWarning, stacklevel=2,
                          source=source)
        self._dropped = True
        self._free()

    # ---------------------------------------------------------------- what ends it early

    def _under(self) -> BaseException | None:
        """The exception that is handled now, unless the file was opened while it was."""
        handled, known = sys.exc_info()[1], self._opened_under
        while known is not None and known is not handled:
            known = known.__context__
        return None if known is handled else handled

    def _raise_lost(self, under: BaseException | None, failure: BaseException | None) -> None:
        """Says that nothing was published; an exception under way goes on."""
        if under is not None:
            if hasattr(under, "add_note"):  # Python 3.11
                under.add_note(f"ocm://{self.path} was closed while this exception was handled: nothing was published")
            raise under
        if failure is not None:
            raise self._lost("nothing was published", failure) from failure

    def _lost(self, what: str, failure: BaseException) -> OSError:
        return OSError(getattr(failure, "errno", None) or errno.EIO, f"{what}, since a write failed: {failure}",
                       f"ocm://{self.path}")

    def _poison(self, error: BaseException) -> None:
        """A write failed: the memory goes back, and nothing will be published."""
        self._failure = error
        self._free()

    # ---------------------------------------------------------------- parts

    def _check_writable(self) -> None:
        if self.closed:
            raise ValueError("the file is closed")
        if self._shared.pid != os.getpid():
            raise OSError(errno.EBADF, "the file was opened before fork(): open one in this process", self.path)
        if self._failure is not None:
            raise self._lost("nothing will be published", self._failure) from self._failure

    def _append(self, rest: memoryview) -> None:
        done = 0
        while done < len(rest):
            part_bytes = self._part_bytes()
            if not self._held and len(rest) - done >= part_bytes:
                self._store(rest[done:done + part_bytes])
                done += part_bytes
                continue
            taken = min(len(rest) - done, part_bytes - len(self._held))
            self._held += rest[done:done + taken]
            done += taken
            if len(self._held) == part_bytes:
                self._store_held()

    def _part_bytes(self) -> int:
        """Grows with the file, so that a large one has few parts and a small one needs little of the program."""
        nbytes = PART_BYTES_MIN
        while nbytes < PART_BYTES_MAX and nbytes * 16 <= self._stored_bytes:
            nbytes *= 2
        return nbytes

    def _allocate(self, nbytes: int) -> Allocation:
        with os_errors(self.path):
            part = self._shared.session.allocate(nbytes, dedicated=True, **self.fs.placement_of_part(len(self._parts)))
        self._parts.append(part)
        self._stored_bytes += nbytes
        return part

    def _store(self, data: Any) -> None:
        part = self._allocate(len(data))
        with os_errors(self.path):
            part.put_from(data)

    def _store_held(self) -> None:
        held, self._held = self._held, bytearray()
        self._store(held)

    def _finish(self) -> None:
        """One allocation of the parts."""
        self._check_writable()
        if self._held:
            self._store_held()
        if not self._parts:
            self._store(b"\0")
            self._stored_bytes = 0
        if len(self._parts) > 1:
            with os_errors(self.path):
                self._parts = [self._shared.session.join(self._parts)]

    def _publish(self, name: str) -> None:
        for attempt in range(_ATTEMPTS_MAX):
            try:
                self._parts[0].publish(name, self.fs.mode_bits)
                return
            except Exists:
                if self._exclusive or attempt + 1 == _ATTEMPTS_MAX:
                    raise
            self._refuse_table()
            self.fs.remove_name(self.path, name)

    def _refuse_table(self) -> None:
        """Raises FileExistsError where the name to be given, or to be removed, is a table's."""
        try:
            with self._shared.session.attach(self._name) as taken:
                table = is_table(self.path, taken)
        except NotFound:
            return
        if table:
            raise FileExistsError(errno.EEXIST, "a table has the name: drop it first, or choose another",
                                  f"ocm://{self.path}")

    def _free(self) -> None:
        parts, self._parts = self._parts, []
        self._held = bytearray()
        if self._shared.pid == os.getpid():
            for part in parts:
                part.free()
