"""What DuckDB (2.0 and later) asks of an object that it scans: columns by position, and predicates to take over.

DuckDB looks at `isinstance(obj, duckdb._sources.Source)`, then calls `rows()`, `__arrow_c_schema__()`, `accepts()`
for each predicate and `stream()`. A Table is a Source as soon as DuckDB was imported, without importing it. A
statement reads the version of the moment in which it is bound.

DuckDB filters faster than pyarrow does, so a predicate is taken over only when it leaves out whole row groups, more
of them than have to be filtered here: the predicate's truth is then known from the bounds for most rows.
"""
from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import InvalidArgument
from ..tables.bounds import FALSE, NULL, TRUE, columns_of, outcomes
from ..tables.predicate import renumbered, to_expression
from ..tables.streams import reader_of

if TYPE_CHECKING:
    from ..snapshot import Field, Snapshot

_COMPARISONS = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_PLAIN = frozenset(("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER",
                    "UBIGINT", "FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP"))


# DuckDB binds a statement once for each place that names the table, one after another, and streams only then: all of
# that is one version, opened once.
_BIND_S = 0.01
changes = [0]


class _Foreign(Exception):
    """A predicate that the bounds say nothing about."""


def _value(literal: Any) -> Any:
    if literal.value is None or not (literal.type in _PLAIN or literal.type.startswith("DECIMAL(")):
        raise _Foreign
    return literal.value


def _tree(node: Any, positions: dict[str, int]) -> tuple:
    """DuckDB's predicate as a tree of `_bounds`."""
    kind = type(node).__name__
    if kind == "Binary" and node.op in ("AND", "OR"):
        return (node.op.lower(), _tree(node.left, positions), _tree(node.right, positions))
    if kind == "Unary" and node.op == "NOT":
        return ("not", _tree(node.operand, positions))
    column = node.left if kind == "Binary" else getattr(node, "operand", None)
    parts: Sequence[str] = getattr(column, "parts", ())
    if len(parts) != 1 or parts[0] not in positions:
        raise _Foreign
    position = positions[parts[0]]
    if kind == "Binary" and node.op in _COMPARISONS:
        return ("cmp", _COMPARISONS[node.op], position, _value(node.right))
    if kind == "Postfix" and node.op in ("IS NULL", "IS NOT NULL"):
        return ("null" if node.op == "IS NULL" else "valid", position)
    if kind == "In" and node.values:
        out: tuple = ("cmp", "==", position, _value(node.values[0]))
        for value in node.values[1:]:
            out = ("or", out, ("cmp", "==", position, _value(value)))
        return out
    raise _Foreign


def _positions(fields: list[Field]) -> dict[str, int]:
    """The columns with a name of their own."""
    names = [field.name for field in fields]
    return {name: i for i, name in enumerate(names) if names.count(name) == 1}


def _have_pyarrow() -> bool:
    try:
        import pyarrow.compute  # noqa: F401
    except ImportError:
        return False
    return True


def _worth_it(tree: tuple, snapshot: Snapshot) -> bool:
    """Whether more rows are left out than are filtered here."""
    found = outcomes(tree, snapshot)
    rows = [chunk.rows for chunk in snapshot.chunks(0)]
    left_out = sum(n for n, outcome in zip(rows, found) if not outcome & TRUE)
    filtered = sum(n for n, outcome in zip(rows, found) if outcome & TRUE and outcome & (FALSE | NULL))
    return left_out > filtered and (filtered == 0 or _have_pyarrow())


class _Bound(NamedTuple):
    """The version that a statement was bound to, when last, and the number of this program's changes by then."""
    snapshot: Snapshot
    at_s: float
    changes: int


class DuckdbSource:
    """DuckDB's scan protocol, for tables and snapshots."""

    name: str
    one_shot = False
    schema_is_stable = False
    pull_under_gil = False
    _bound: _Bound | None = None
    _is_read = False  # the statement under way is bound
    _declared: list[Field] | None = None

    @property  # type: ignore[misc]  # object's can be set, this one has no need to
    def __class__(self) -> type:  # what isinstance() asks after the real type
        sources = sys.modules.get("duckdb._sources")
        return getattr(sources, "ArrowScanSource", type(self))

    def newest(self) -> Snapshot:
        """The version to read, opened anew only where the one that was read last is no longer it."""
        raise NotImplementedError

    def rows(self) -> int:
        """How many rows, for DuckDB's planner."""
        return self._statement().info["rows"]

    def __arrow_c_schema__(self) -> Any:
        """The schema as an `arrow_schema` capsule."""
        bound, now_s = self._bound, time.monotonic()
        if bound is None or self._is_read or now_s - bound.at_s > _BIND_S or bound.changes != changes[0]:
            bound = _Bound(self.newest(), now_s, changes[0])
        self._bound, self._is_read = bound._replace(at_s=now_s), False
        self._declared = bound.snapshot.fields
        return bound.snapshot.handle.schema()

    def _statement(self) -> Snapshot:
        """The version that the statement under way was bound to."""
        return self.newest() if self._bound is None else self._bound.snapshot

    def accepts(self, predicate: Any) -> bool:
        """Whether `stream()` is to give only rows for which the predicate holds; else DuckDB filters."""
        snapshot = self._statement()
        try:
            return snapshot.groups > 0 and _worth_it(_tree(predicate, _positions(snapshot.fields)), snapshot)
        except _Foreign:
            return False

    def stream(self, columns: Sequence[int] | None, filters: Sequence[Any]) -> tuple[Any, bool]:
        """A stream capsule, and whether it has exactly `columns` (positions; None: all) in that order."""
        snapshot = self._statement()
        self._is_read = True
        if self._declared is not None and self._declared != snapshot.fields:
            raise InvalidArgument(f"table {self.name} was replaced by one with other columns: run the query again")
        wanted = None if columns is None else list(columns)
        if not filters:
            return snapshot.scan(wanted), wanted is not None
        return _filtered(snapshot, wanted, filters), wanted is not None


def _filtered(snapshot: Snapshot, wanted: list[int] | None, filters: Sequence[Any]) -> Any:
    """The row groups that may have rows that pass; those of which not all rows do are filtered here, exactly."""
    positions = _positions(snapshot.fields)
    trees = [_tree(predicate, positions) for predicate in filters]
    found = [outcomes(tree, snapshot) for tree in trees]
    groups = [g for g in range(snapshot.groups) if all(outcome[g] & TRUE for outcome in found)]
    mixed = {g for g in groups if any(outcome[g] != TRUE for outcome in found)}
    if not mixed:
        return snapshot.scan(wanted, groups)
    return _filter_groups(snapshot, wanted, groups, mixed, trees)


def _filter_groups(snapshot: Snapshot, wanted: list[int] | None, groups: list[int], mixed: set[int],
                   trees: list[tuple]) -> Any:
    import pyarrow
    wanted = list(range(len(snapshot.fields))) if wanted is None else wanted
    read = sorted({*wanted, *(column for tree in trees for column in columns_of(tree))})
    output = [read.index(column) for column in wanted]
    reader = reader_of(snapshot.scan(read, groups))
    numbers = {column: i for i, column in enumerate(read)}
    passes = None
    for tree in trees:
        one = to_expression(renumbered(tree, numbers), reader.schema, nan_is_largest=True)
        passes = one if passes is None else passes & one
    rows_left = [snapshot.chunks(0)[group].rows for group in groups]

    def batches() -> Any:
        at = 0
        for batch in reader:
            while rows_left[at] == 0:
                at += 1
            rows_left[at] -= batch.num_rows
            kept = batch.filter(passes) if groups[at] in mixed else batch
            if kept.num_rows:
                yield kept.select(output)

    schema = pyarrow.schema([reader.schema.field(i) for i in output])
    return pyarrow.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__()
