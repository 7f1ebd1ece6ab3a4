"""What the bounds of a row group say about a predicate: whether it may, must or cannot hold for its rows.

A predicate is a tree of tuples over column indices:
    ("cmp", op, column, value)   op: "==", "!=", "<", "<=", ">", ">="
    ("in", column, values)       values without None; FALSE where the row is null, as pyarrow has it
    ("null", column), ("valid", column)
    ("and", a, b), ("or", a, b), ("not", a)
    ("unknown",)                 anything else: every outcome is possible
Outcomes are sets (bits) of TRUE, FALSE and NULL, as in SQL. They err on the large side only, so that a group
without TRUE may be left out, and in a group with nothing but TRUE every row passes.
"""
from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..snapshot import Chunk, Snapshot

TRUE, FALSE, NULL = 1, 2, 4
_UNITS_PER_SECOND = {"s": 1, "m": 1_000, "u": 1_000_000, "n": 1_000_000_000}
_EPOCH = datetime.date(1970, 1, 1)
_INTEGERS = frozenset("cCsSiIlL")
_FLOATS = {"e": "e", "f": "f", "g": "d"}


class _Untold(Exception):
    """The value has no place among the column's stored values that every engine agrees on."""


def _micros(delta: datetime.timedelta) -> int:
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool) and math.isfinite(value)


def _stored_float(value: Any, code: str) -> float:
    """`value` where the column can hold it exactly: engines differ in how they round it otherwise."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        value = float(value)
    if not isinstance(value, float) or not math.isfinite(value):
        raise _Untold
    try:
        if struct.unpack(code, struct.pack(code, value))[0] != value:
            raise _Untold
    except OverflowError:
        raise _Untold from None
    return value


def _stored_time(value: Any, unit: str) -> Fraction:
    if not isinstance(value, datetime.time) or value.tzinfo is not None:
        raise _Untold
    micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return Fraction(micros * _UNITS_PER_SECOND[unit], 1_000_000)


def _stored_timestamp(value: Any, unit: str, zone: str) -> Fraction:
    if not isinstance(value, datetime.datetime) or (value.tzinfo is not None) != bool(zone):
        raise _Untold
    if getattr(value, "nanosecond", 0):  # a pandas.Timestamp
        raise _Untold
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc if zone else None)
    return Fraction(_micros(value - epoch) * _UNITS_PER_SECOND[unit], 1_000_000)


def stored(value: Any, format: str) -> int | float | Fraction | Decimal:
    """`value` on the scale of a column's bounds, exactly.

    `format` is that of the Arrow C data interface. Raises _Untold where the bounds say nothing about the value.
    """
    code = format[0]
    if format in _INTEGERS and _is_number(value):
        return value
    if format == "b" and isinstance(value, bool):
        return int(value)
    if format in _FLOATS:
        return _stored_float(value, _FLOATS[format])
    if code == "d" and _is_number(value):
        return Fraction(value) * 10 ** int(format[2:].split(",")[1])
    if format == "tdD" and isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return (value - _EPOCH).days
    if format[:2] == "tt":
        return _stored_time(value, format[2])
    if format[:2] == "ts":
        return _stored_timestamp(value, format[2], format[4:])
    raise _Untold


def python_value(number: int | float | None, format: str) -> Any:
    """The Python value that a bound stands for; the stored integer where Python has no type that holds it."""
    if number is None or format in _INTEGERS or format in _FLOATS or format == "?":
        return number
    if format == "b":
        return bool(number)
    if format[0] == "d":
        return Decimal(number).scaleb(-int(format[2:].split(",")[1]))
    unit = format[2:3]
    try:
        if format[:2] == "td":
            return _EPOCH + datetime.timedelta(days=number if unit == "D" else number // 86_400_000)
        if format[:2] in ("tt", "ts") and number * 1_000_000 % _UNITS_PER_SECOND[unit] == 0:
            since = datetime.timedelta(microseconds=number * 1_000_000 // _UNITS_PER_SECOND[unit])
            zone = datetime.timezone.utc if format[4:] and format[1] == "s" else None
            moment = datetime.datetime(1970, 1, 1, tzinfo=zone) + since
            return moment if format[1] == "s" else moment.time()
    except OverflowError:
        pass
    return number


_COMPARISONS: dict[str, Callable[[Any, Any, Any], tuple[bool, bool]]] = {
    # (may hold, may fail) for values in [low, high]
    "==": lambda low, high, v: (low <= v <= high, not low == v == high),
    "!=": lambda low, high, v: (not low == v == high, low <= v <= high),
    "<": lambda low, high, v: (low < v, high >= v),
    "<=": lambda low, high, v: (low <= v, high > v),
    ">": lambda low, high, v: (high > v, low <= v),
    ">=": lambda low, high, v: (high >= v, low < v),
}


def _compared(op: str, chunk: Chunk, format: str, value: Any) -> int:
    null = NULL if chunk.nulls else 0
    if chunk.nulls == chunk.rows:
        return NULL
    if chunk.minimum is None:
        return TRUE | FALSE | null
    try:
        holds, fails = _COMPARISONS[op](chunk.minimum, chunk.maximum, stored(value, format))
    except (_Untold, TypeError, ValueError, OverflowError):
        return TRUE | FALSE | null
    return (TRUE if holds else 0) | (FALSE if fails else 0) | null


def _either(a: int, b: int) -> int:
    """The outcomes of `a OR b`."""
    out = (a | b) & TRUE
    if a & FALSE and b & FALSE:
        out |= FALSE
    if (a & NULL and b & (NULL | FALSE)) or (b & NULL and a & (NULL | FALSE)):
        out |= NULL
    return out


def _opposite(a: int) -> int:
    return (a & NULL) | (FALSE if a & TRUE else 0) | (TRUE if a & FALSE else 0)


def _outcomes(node: tuple, chunk_of: Callable[[int], Chunk], format_of: Callable[[int], str]) -> int:
    kind = node[0]
    if kind == "cmp":
        _, op, column, value = node
        return _compared(op, chunk_of(column), format_of(column), value)
    if kind == "in":
        _, column, values = node
        out = FALSE
        for value in values:
            out = _either(out, _compared("==", chunk_of(column), format_of(column), value))
        return (out & ~NULL) | FALSE if out & NULL else out
    if kind in ("null", "valid"):
        chunk = chunk_of(node[1])
        out = (TRUE if chunk.nulls else 0) | (FALSE if chunk.nulls < chunk.rows else 0)
        return out if kind == "null" else _opposite(out)
    if kind == "not":
        return _opposite(_outcomes(node[1], chunk_of, format_of))
    if kind in ("and", "or"):
        a, b = (_outcomes(child, chunk_of, format_of) for child in node[1:])
        return _either(a, b) if kind == "or" else _opposite(_either(_opposite(a), _opposite(b)))
    return TRUE | FALSE | NULL


def outcomes(node: tuple, table: Snapshot) -> list[int]:
    """The possible outcomes of the predicate in each row group of `table`."""
    formats = ["?" if field.values else field.format for field in table.fields]  # a dictionary's are of no use

    def of_group(group: int) -> int:
        return _outcomes(node, lambda column: table.chunks(column)[group], formats.__getitem__)
    return [of_group(group) for group in range(table.groups)]


def columns_of(node: tuple) -> set[int]:
    """The columns that the predicate reads, as far as it is known."""
    kind = node[0]
    if kind in ("and", "or", "not"):
        return set().union(*(columns_of(child) for child in node[1:]))
    return {node[2]} if kind == "cmp" else {node[1]} if kind in ("in", "null", "valid") else set()


def all_of(nodes: Iterable[tuple]) -> tuple | None:
    """The nodes joined by AND; None for none."""
    iterator: Iterator[tuple] = iter(nodes)
    out = next(iterator, None)
    for node in iterator:
        out = ("and", out, node)
    return out
