"""TPC-H in the memory of the cluster: where tables go, how they come there, and how queries read them.

Names: a table as it was loaded has its TPC-H name. `local.` and `remote.` copies hold the columns that the queries
read, whole on the session's own node and by rows on the others, so that the two can be told apart.
"""
from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping

import duckdb
import pyarrow as pa
import pyarrow.parquet

import oncilla
import oncilla.parquet
from oncilla.snapshot import Snapshot

from . import measure
from .queries import Query, columns_read
from .tpch import Dataset


@dataclasses.dataclass(frozen=True)
class Plan:
    """Where a table goes."""

    table: str
    place: str  # as Table.put() has it
    nodes: tuple[str, ...]
    replicas: int
    how: str


def plans(nodes: Iterable[str]) -> list[Plan]:
    """For the nodes of a cluster, the session's own first: at least three.

    The own node takes a share of the largest table only, so that it has room for what the queries keep there.
    """
    own, *others = nodes
    everywhere, last = (own, *others), others[-1]
    return [
        Plan("lineitem", "rows", everywhere, 1, "row groups over all nodes"),
        Plan("orders", "rows", tuple(others[-2:]), 2, "row groups, two copies"),
        Plan("partsupp", "column", tuple(others), 1, "by column"),
        Plan("part", "rows", everywhere, 1, "row groups over all nodes"),
        Plan("customer", "whole", (others[0],), 1, "whole, on one node"),
        Plan("supplier", "whole", (own,), 1, "whole, on one node"),
        Plan("nation", "whole", (own, last), 2, "two copies"),
        Plan("region", "whole", (own, last), 2, "two copies"),
    ]


def rows_in(dataset: Dataset, table: str) -> int:
    return sum(pa.parquet.read_metadata(path).num_rows for path in dataset.files(table))


def reader(dataset: Dataset, table: str) -> pa.RecordBatchReader:
    """The table's rows in order, as a stream of record batches."""
    return oncilla.parquet.read(dataset.files(table))


def group_rows(scale: float, nodes: int) -> int:
    """Of a row group: lineitem has four on each node, unless they would be small or larger than is usual."""
    return max(8_192, min(524_288, int(6_002_000 * scale / (4 * nodes))))


def load(session: oncilla.Session, dataset: Dataset, plan: Plan, rows_max: int,
         progress: Callable[[int, int], None]) -> dict:
    """Streams one table from its files into the cluster, in row groups of `rows_max`. -> name, rows, bytes, seconds."""
    start = time.perf_counter()
    stored = session.table(plan.table)
    stored.put(reader(dataset, plan.table), place=plan.place, nodes=plan.nodes, replicas=plan.replicas,
               compact=True, group_rows=rows_max, progress=progress)
    took_s = time.perf_counter() - start
    return {"name": plan.table, "rows": stored.num_rows, "bytes": stored.nbytes, "seconds": took_s}


def on_nodes(session: oncilla.Session, table: str) -> dict[str, int]:
    """node: the bytes that it gives to the table, all copies and the catalogue included."""
    found: dict[str, int] = {}
    with session.attach(table) as memory:
        for extent in memory.extents():
            found[extent.node] = found.get(extent.node, 0) + extent.nbytes
    return found


def needed_bytes(snapshot: Snapshot, columns: Iterable[str]) -> int:
    """The buffers of these columns, all row groups."""
    return sum(chunk.nbytes for column in columns for chunk in snapshot.chunks(snapshot.index(column)))


def copies(session: oncilla.Session, prefix: str, nodes: tuple[str, ...], rows_max: int, packed: bool = False) -> None:
    """Makes `prefix`.TABLE of each table that the queries read, with the columns that they read.

    packed: for what is read from elsewhere, where bytes are time; else a scan on their node copies nothing.
    """
    place = "whole" if len(nodes) == 1 else "rows"
    for table, columns in columns_read().items():
        session.table(f"{prefix}.{table}").put(session.table(table).select(columns), place=place, nodes=nodes,
                                          packed=packed, group_rows=rows_max)


class Pool(measure.Source):
    """Tables of the cluster, as snapshots that the engine reads by replacement scans.

    `again`: the session's cache holds the remote columns, else every turn moves them anew.
    """

    def __init__(self, session: oncilla.Session, key: str, title: str, prefix: str = "", again: bool = False) -> None:
        self.session, self.key, self.title, self.again = session, key, title, again
        self.snapshots = {table: session.table(prefix + table).snapshot() for table in columns_read()}
        self.relations: Mapping[str, str] = {table: f"{key}_{table}" for table in self.snapshots}
        self._moved = 0

    def attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        for table, snapshot in self.snapshots.items():
            connection.register(self.relations[table], snapshot)

    def _all_moved(self) -> int:
        return sum(snapshot.bytes_moved for snapshot in self.snapshots.values())

    def before(self, query: Query) -> None:
        if not self.again:
            self.session.cache.clear()
        self._moved = self._all_moved()

    def moved_bytes(self, query: Query) -> int:
        return self._all_moved() - self._moved

    def needed_bytes(self, query: Query) -> int:
        return sum(needed_bytes(self.snapshots[table], columns) for table, columns in query.reads.items())

    def close(self) -> None:
        for snapshot in self.snapshots.values():
            snapshot.close()


@dataclasses.dataclass
class Stepped:
    """A query operator by operator: its answer, its time, and what was written in between."""

    answer: pa.Table
    seconds: float
    written_bytes: int


def stepped(session: oncilla.Session, connection: duckdb.DuckDBPyConnection, query: Query, source: Pool,
            nodes: tuple[str, ...], rows_max: int) -> Stepped:
    """Each operator's output becomes a table on `nodes`, the next one reads it; what is used up is dropped."""
    place = "whole" if len(nodes) == 1 else "rows"
    relations = dict(source.relations)
    stored: list[oncilla.Table] = []
    written = 0
    source.before(query)
    start = time.perf_counter()
    try:
        for number, step in enumerate(query.steps[:-1], 1):
            table = session.table(f"step.{query.name}.{number}")
            table.put(connection.sql(_over(step, relations)), place=place, nodes=nodes, compact=True,
                      group_rows=rows_max)
            stored.append(table)
            written += table.nbytes
            relations[str(number)] = f"step_{query.name}_{number}"
            connection.register(relations[str(number)], table)
        answer = measure.answer(connection, _over(query.steps[-1], relations))
        took_s = time.perf_counter() - start
    finally:
        for number, table in enumerate(stored, 1):
            connection.unregister(f"step_{query.name}_{number}")
            table.drop()
    return Stepped(answer, took_s, written)


def _over(step: str, relations: Mapping[str, str]) -> str:
    """The step's SQL over tables by name and stored steps by number."""
    for name, relation in relations.items():
        step = step.replace(f"{{{name}}}", relation)
    return step
