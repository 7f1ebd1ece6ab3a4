"""Tables as a polars.LazyFrame that moves what a query needs."""
from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..core.errors import InvalidArgument
from ..tables.bounds import TRUE, outcomes
from ..tables.streams import Stream, for_polars, guarded, reader_of

if TYPE_CHECKING:
    import polars

    from ..snapshot import Readable, Snapshot

_COMPARISONS = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_UNKNOWN = ("unknown",)


def _literal(node: Any) -> Any:
    """The Python value of a serialized literal. Raises KeyError or ValueError for what is none."""
    import polars
    expression = polars.Expr.deserialize(json.dumps(node).encode(), format="json")
    series = polars.select(expression).to_series()
    value = series.item()
    if value is None:
        raise ValueError
    in_ns = series.dtype == polars.Time or getattr(series.dtype, "time_unit", None) == "ns"
    if in_ns and series.to_physical().item() % 1000:
        raise ValueError("Python's value has microseconds")
    return value


def _tree(node: Any, positions: dict[str, int]) -> tuple:
    """A serialized predicate as a tree of `_bounds`, as far as it is understood: the rest may have any outcome."""
    if not isinstance(node, dict) or len(node) != 1:
        return _UNKNOWN
    (kind, body), = node.items()
    if kind != "BinaryExpr":
        return _UNKNOWN
    if body["op"] in ("And", "LogicalAnd", "Or", "LogicalOr"):
        a, b = (_tree(body[side], positions) for side in ("left", "right"))
        return ("and" if body["op"].endswith("And") else "or", a, b)
    if body["op"] not in _COMPARISONS:
        return _UNKNOWN
    op, left, right = _COMPARISONS[body["op"]], body["left"], body["right"]
    if "Column" in right:
        op, left, right = _MIRRORED[op], right, left
    if "Column" not in left or left["Column"] not in positions:
        return _UNKNOWN
    return ("cmp", op, positions[left["Column"]], _literal(right))


def _groups(snapshot: Snapshot, predicate: polars.Expr) -> list[int] | None:
    """The row groups that may have rows that pass; None: all. Polars does not promise the form of what it
    serializes, so anything that is not understood leaves nothing out."""
    try:
        tree = _tree(json.loads(predicate.meta.serialize(format="json")),
                     {field.name: i for i, field in enumerate(snapshot.fields)})
        found = outcomes(tree, snapshot)
    except Exception:  # noqa: BLE001
        return None
    return [group for group, outcome in enumerate(found) if outcome & TRUE]


def _frames(snapshot: Snapshot, wanted: list[int] | None, groups: list[int] | None,
            batch_rows: int) -> Iterator[polars.DataFrame]:
    """The batches, at least one. Without pyarrow a row group at a time."""
    import polars
    from_batches: Any = None
    try:  # before the first: a program may end as soon as it has that, where it is of another type
        import pyarrow
        from_batches = pyarrow.Table.from_batches
    except ImportError:
        pass
    yield polars.DataFrame(Stream(snapshot.scan(wanted, [])))
    if from_batches is None:
        formats = [snapshot.fields[i].format for i in (range(len(snapshot.fields)) if wanted is None else wanted)]
        for group in range(snapshot.groups) if groups is None else groups:
            yield polars.DataFrame(Stream(for_polars(snapshot.scan(wanted, [group]), formats)))
        return
    for batch in guarded(reader_of(snapshot.scan(wanted, groups, batch_rows=batch_rows))):
        yield polars.DataFrame(from_batches([batch]))  # of a batch it leaves decimal64 as it is


def scan(table: Readable) -> polars.LazyFrame:
    """As `Readable.scan_polars()`."""
    import polars
    from polars.io.plugins import register_io_source

    def source(with_columns: list[str] | None, predicate: polars.Expr | None, n_rows: int | None,
               batch_size: int | None) -> Iterator[polars.DataFrame]:
        snapshot = table.newest()
        wanted = None if with_columns is None else [snapshot.index(name) for name in with_columns]
        # The first n_rows rows are those of the table, whether they pass or not.
        groups = None if predicate is None or n_rows is not None else _groups(snapshot, predicate)
        for frame in _frames(snapshot, wanted, groups, batch_size or 0):
            if n_rows is not None:
                frame = frame.head(n_rows)
                n_rows -= frame.height
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame
            if n_rows == 0:
                return

    snapshot = table.opened()
    names = [field.name for field in snapshot.fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidArgument(f"table {table.name} has more than one column called {', '.join(map(repr, twice))}, "
                              "which a LazyFrame cannot have: select() columns by position, or put() it with other "
                              "names")
    return register_io_source(source, schema=polars.DataFrame(Stream(snapshot.scan(None, []))).schema)
