"""Numpy arrays over allocations: views of local memory, copies of remote memory, and views that move only what is
asked for."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .errors import InvalidArgument, OutOfRange, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import DTypeLike

    from .allocation import Allocation

_GATHER_BYTES = 1 << 16  # a range of at most so much is moved whole, gaps and all


def raw_bytes(array: Any) -> np.ndarray:
    """The array's bytes in C order as uint8, without a copy where it is contiguous. Raises: InvalidArgument."""
    array = np.asarray(array)
    if array.dtype.hasobject:
        raise InvalidArgument("an array of Python objects has no bytes to put: convert it to a fixed dtype")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _shape(allocation: Allocation, dtype: np.dtype, shape: int | tuple[int, ...] | None,
           offset: int) -> tuple[int, ...]:
    """The shape in full, checked against the allocation's length."""
    if dtype.hasobject or dtype.itemsize == 0:
        raise InvalidArgument(f"dtype {dtype} has no fixed bytes")
    if not 0 <= offset <= allocation.nbytes:
        raise OutOfRange(f"offset {offset} leaves the allocation of {allocation.nbytes} bytes")
    room = allocation.nbytes - offset
    if shape is None:
        return (room // dtype.itemsize,)
    full = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if any(length < 0 for length in full):
        raise InvalidArgument(f"a length of the shape {full} is negative")
    if math.prod(full) * dtype.itemsize > room:
        raise OutOfRange(f"{full} items of {dtype} at {offset} leave the allocation of {allocation.nbytes} bytes")
    return full


def view_array(allocation: Allocation, dtype: DTypeLike, shape: int | tuple[int, ...] | None,
               offset: int) -> np.ndarray:
    """`Allocation.numpy()`."""
    kind = np.dtype(dtype)
    full = _shape(allocation, kind, shape, offset)
    raw = np.frombuffer(memoryview(allocation), np.uint8)[offset:offset + math.prod(full) * kind.itemsize]
    return raw.view(kind).reshape(full)


def read_array(allocation: Allocation, dtype: DTypeLike, shape: int | tuple[int, ...] | None,
               offset: int) -> np.ndarray:
    """`Allocation.read_array()`."""
    kind = np.dtype(dtype)
    array = np.empty(_shape(allocation, kind, shape, offset), kind)
    allocation.get_into(array.reshape(-1).view(np.uint8), offset)
    return array


def as_array(allocation: Allocation, dtype: DTypeLike | None, copy: bool | None) -> np.ndarray:
    """`Allocation.__array__()`: a view where it is local and no copy is asked for, else a copy."""
    if not copy:
        try:
            view = allocation.numpy()
            return view if dtype is None else view.astype(dtype, copy=False)
        except Unsupported:
            if copy is False:
                raise
    array = allocation.read_array()
    return array if dtype is None else array.astype(dtype, copy=False)


class Layout(NamedTuple):
    """Items in an allocation: where the first one lies, and how far apart they are, in bytes. No negative strides."""
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def span(self) -> int:
        """Bytes from the first to the end of the last item; 0 if there is none."""
        if 0 in self.shape:
            return 0
        return sum((n - 1) * stride for n, stride in zip(self.shape, self.strides)) + self.itemsize

    @property
    def wanted(self) -> int:
        """Bytes of the items themselves."""
        return math.prod(self.shape) * self.itemsize

    def rows(self, start: int, stop: int) -> Layout:
        """Rows [start, stop) of the first axis."""
        return self._replace(offset=self.offset + start * self.strides[0], shape=(stop - start, *self.shape[1:]))

    def row(self, index: int) -> Layout:
        """One row of the first axis, without that axis."""
        return self._replace(offset=self.offset + index * self.strides[0], shape=self.shape[1:],
                             strides=self.strides[1:])


def _dense_parts(layout: Layout, out: np.ndarray) -> Iterator[tuple[Layout, np.ndarray]]:
    """Parts that are worth one get each, with the part of `out` that they fill."""
    if layout.span <= max(2 * layout.wanted, _GATHER_BYTES):
        yield layout, out
        return
    at_once = 1 + max(0, _GATHER_BYTES - layout.row(0).span) // layout.strides[0]
    for start in range(0, layout.shape[0], at_once):
        stop = min(start + at_once, layout.shape[0])
        if stop - start > 1:
            yield layout.rows(start, stop), out[start:stop]
        else:
            yield from _dense_parts(layout.row(start), out[start])


def _contiguous_parts(layout: Layout, values: np.ndarray) -> Iterator[tuple[Layout, np.ndarray]]:
    """Parts without gaps, or of one axis: a put must not touch what lies between."""
    if layout.span == layout.wanted or len(layout.shape) == 1:
        yield layout, values
        return
    for index in range(layout.shape[0]):
        yield from _contiguous_parts(layout.row(index), values[index])


class ArrayView:
    """An allocation as an array of `shape` and `dtype` that stays where it is.

    `view[index]` gets, and `view[index] = values` puts, with integers, slices and `...` as in numpy. A read moves
    the ranges that are asked for (small gaps between them too) and gives an array or scalar of its own; a write
    moves the items only.
    """

    def __init__(self, allocation: Allocation, dtype: DTypeLike, shape: int | tuple[int, ...] | None,
                 offset: int) -> None:
        self.allocation = allocation
        self.dtype = np.dtype(dtype)
        self.shape = _shape(allocation, self.dtype, shape, offset)
        self.offset = offset

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all items."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    __iter__ = None  # an item at a time is never what is wanted of remote memory

    def _layout(self, index: Any) -> tuple[Layout, tuple[slice, ...]]:
        """Where the items of a basic index lie, and the slices that turn reversed axes round again."""
        parts = index if isinstance(index, tuple) else (index,)
        if not all(part is Ellipsis or isinstance(part, (int, np.integer, slice)) and not isinstance(part, bool)
                   for part in parts):
            given = ", ".join(type(part).__name__ for part in parts)
            raise TypeError(f"an index of {given} is not of integers, slices and `...`: read the array instead")
        whole = (slice(None),) * (self.ndim - sum(part is not Ellipsis for part in parts))
        at = parts.index(Ellipsis) if Ellipsis in parts else len(parts)
        parts = (*parts[:at], *whole, *parts[at + 1:])
        if len(parts) != self.ndim:
            raise IndexError(f"{len(parts)} indices for an array of {self.ndim} axes")
        offset, axes = self.offset, []
        for axis, part in enumerate(parts):
            length, stride = self.shape[axis], math.prod(self.shape[axis + 1:]) * self.dtype.itemsize
            if not isinstance(part, slice):
                if not -length <= part < length:
                    raise IndexError(f"index {part} is out of range for axis {axis} of length {length}")
                offset += int(part) % length * stride
                continue
            picked = range(*part.indices(length))
            turned = picked.step < 0
            offset += (picked[-1] if turned else picked.start) * stride if picked else 0
            axes.append((len(picked), abs(picked.step) * stride, slice(None, None, -1 if turned else 1)))
        shape, strides, turns = (tuple(each) for each in zip(*axes)) if axes else ((), (), ())
        return Layout(offset, shape, strides, self.dtype.itemsize), turns

    def __getitem__(self, index: Any) -> Any:
        """The items, copied. Raises: IndexError, and those of `Allocation.getv()`."""
        layout, turns = self._layout(index)
        out = np.empty(layout.shape, self.dtype)
        if out.size:
            parts = [(np.empty(part.span, np.uint8), part, target) for part, target in _dense_parts(layout, out)]
            self.allocation.getv([(part.offset, raw) for raw, part, _ in parts])
            for raw, part, target in parts:
                target[...] = np.ndarray(part.shape, self.dtype, raw, 0, part.strides)
        return out[turns] if out.ndim else out[()]

    def __setitem__(self, index: Any, values: Any) -> None:
        """Puts the items. Raises: IndexError, ValueError (the shapes do not fit), and those of `putv()`."""
        layout, turns = self._layout(index)
        shape = layout.shape
        fresh = np.ascontiguousarray(np.broadcast_to(np.asarray(values, self.dtype), shape)[turns]).reshape(shape)
        if not fresh.size:
            return
        pieces = []
        for part, items in _contiguous_parts(layout, fresh):
            if part.span == part.wanted:
                pieces.append((part.offset, raw_bytes(items)))
            else:
                self.allocation.put_strided(raw_bytes(items), part.offset, part.strides[0], part.itemsize)
        self.allocation.putv(pieces)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("the array may be remote: it cannot be had without a copy")
        array = self.allocation.read_array(self.dtype, self.shape, self.offset)
        return array if dtype is None else array.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<oncilla array {self.shape} of {self.dtype} in {self.allocation!r}>"
