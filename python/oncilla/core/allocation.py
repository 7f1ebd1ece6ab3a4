"""Allocations: memory of the cluster as a Python object with slices, buffers and arrays."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _core
from .errors import Error, InvalidArgument, OutOfRange
from .nodes import AllocationInfo, Extent, extent_from, info_from
from .operations import Awaited, Operation, see_through, started
from .shown import shown_in

if TYPE_CHECKING:
    from numpy import ndarray
    from numpy.typing import DTypeLike

    from ..session import Session  # what users have; here one of core is enough

_GATHER_STEP_BYTES = 4096  # a larger step costs less as rows of one byte than as the whole range


class Allocation(Awaited):
    """Memory of the cluster, `nbytes` long, made by `Session.allocate()` or `Session.attach()`.

    `alloc[a:b]` gets bytes, `alloc[a:b] = buffer` puts them, with Python's rules for indices. Where all of it lies
    on this host it has the buffer protocol, and `numpy()` copies nothing. So it is, on every node, for one extent of
    kind "nvme": memoryview(alloc) and numpy.frombuffer(alloc) load from pages that the daemon caches and store to them,
    coherently with all nodes; what cannot be had ends the program with SIGBUS (see ocm_allocation_map in oncilla.h).
    A context manager: its end frees it.
    """

    def __init__(self, session: Any, *what: Any) -> None:
        """Made by `Session.allocate()` and `Session.attach()`."""
        super().__init__(session, *what)
        self.session: Session = session

    if TYPE_CHECKING:
        def __buffer__(self, flags: int, /) -> memoryview: ...  # the extension has it

    def __enter__(self) -> Allocation:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.free()
        else:  # the traceback may hold arrays: they must not hide what went wrong
            self._leave()

    def __len__(self) -> int:
        return self.nbytes

    if TYPE_CHECKING:  # the module has it
        def __buffer__(self, flags: int, /) -> memoryview: ...

    __iter__ = None  # a byte at a time is never what is wanted of remote memory
    __hash__ = object.__hash__

    @property
    def info(self) -> AllocationInfo:
        """What it is: kind, layout, access, whether it was published, whose the name is and who may open it."""
        return info_from(self._query())

    def extents(self) -> list[Extent]:
        """Where its parts live."""
        return [extent_from(row) for row in self._extent_list()]

    # ---------------------------------------------------------------- slices

    def __getitem__(self, index: int | slice) -> int | bytes:
        """The byte, or the bytes of the slice, as a copy. Raises: OutOfRange and those of `get()`."""
        if not isinstance(index, slice):
            return self.get(self._index(index), 1)[0]
        start, stop, step = index.indices(self.nbytes)
        count = len(range(start, stop, step))
        if count == 0:
            return b""
        if step == 1:
            return self.get(start, count)
        low, high = sorted((start, start + (count - 1) * step))
        if abs(step) <= _GATHER_STEP_BYTES:
            return self.get(low, high - low + 1)[::step]
        rows = bytearray(count)
        self.get_strided(rows, low, abs(step), 1)
        return bytes(rows if step > 0 else rows[::-1])

    def __setitem__(self, index: int | slice, value: Any) -> None:
        """Puts a byte, or a buffer as long as the slice. Raises: InvalidArgument and those of `put_from()`."""
        if not isinstance(index, slice):
            self.put_from(bytes((value,)), self._index(index))
            return
        start, stop, step = index.indices(self.nbytes)
        count = len(range(start, stop, step))
        raw = memoryview(value)
        if raw.nbytes != count:
            raise InvalidArgument(f"the slice has {count} bytes, the value {raw.nbytes}")
        if count == 0:
            return
        if step == 1:
            self.put_from(value, start)
            return
        rows = raw.tobytes() if step > 0 else raw.tobytes()[::-1]
        self.put_strided(rows, min(start, start + (count - 1) * step), abs(step), 1)

    def _index(self, index: int) -> int:
        offset = index.__index__()
        if not -self.nbytes <= offset < self.nbytes:
            raise OutOfRange(f"byte {offset} leaves the allocation of {self.nbytes} bytes")
        return offset % self.nbytes

    # ---------------------------------------------------------------- arrays

    def numpy(self, dtype: DTypeLike = "u1", shape: int | tuple[int, ...] | None = None,
              offset: int = 0) -> ndarray:
        """An array over the memory itself, nothing is copied; read-only where it was attached so.

        `shape` None: all whole items from `offset` (in bytes) on. The array keeps the memory: `free()` raises
        BufferError while it lives. Raises: Unsupported where the bytes are not in one piece on this host
        (`read_array()` copies then), OutOfRange.
        """
        from .arrays import view_array
        return view_array(self, dtype, shape, offset)

    def read_array(self, dtype: DTypeLike = "u1", shape: int | tuple[int, ...] | None = None,
                   offset: int = 0) -> ndarray:
        """A fresh array with the bytes from `offset` on, wherever they live. Raises: as `get_into()`."""
        from .arrays import read_array
        return read_array(self, dtype, shape, offset)

    def array(self, dtype: DTypeLike = "u1", shape: int | tuple[int, ...] | None = None, offset: int = 0) -> Any:
        """A view with numpy's indices whose reads get, and whose writes put, only the ranges that are needed."""
        from .arrays import ArrayView
        return ArrayView(self, dtype, shape, offset)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ndarray:
        from .arrays import as_array
        return as_array(self, dtype, copy)

    def __bytes__(self) -> bytes:
        return self.get()

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the memory of the processor

    # ---------------------------------------------------------------- looks

    def __repr__(self) -> str:
        from .html import size
        if self.freed:
            return f"<oncilla.Allocation of {size(self.nbytes)}, freed>"
        try:
            info = self.info
            where = ", ".join(dict.fromkeys(extent.node for extent in self.extents()))
        except Error as error:
            return f"<oncilla.Allocation of {size(self.nbytes)}: {error}>"
        return f"<oncilla.Allocation of {size(self.nbytes)}, {info.layout} on {where}>"

    def _repr_html_(self) -> str:
        from .html import allocation_html
        return allocation_html(self)


def _place(place: Any) -> tuple[Any, int]:
    return place if isinstance(place, tuple) else (place, 0)


shown_in("oncilla.allocation", Allocation)


def copy(target: Any, source: Any, nbytes: int | None = None) -> int:
    """Copies between two places, each an allocation, a buffer, or (either, offset in bytes). Returns the bytes copied.

    `nbytes` None: to the end of the source. From node to node the bytes do not pass through this program.
    Raises: OutOfRange, InvalidArgument (overlapping ranges, allocations of two sessions, two plain buffers),
    Permission, Revoked, PeerLost.
    """
    return _core.copy(*_place(target), *_place(source), nbytes)


async def acopy(target: Any, source: Any, nbytes: int | None = None) -> int:
    """`copy()` for asyncio."""
    places = (*_place(target), *_place(source))
    plan = _core.plan_copy(*places, nbytes)
    session = next(place.session for place in (places[0], places[2]) if isinstance(place, Allocation))
    return await see_through(session, plan)


def start_copy(target: Any, source: Any, nbytes: int | None = None) -> Operation:
    """`copy()`, only started; its result is the number of bytes. Cancelled, it may still be made."""
    return started(_core.plan_copy(*_place(target), *_place(source), nbytes))
