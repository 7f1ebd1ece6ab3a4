"""Times of queries over several sources of the same data, in rounds in which every source has its turn (A B A B).

What is timed is a query from its text to its whole answer as an Arrow table. Every answer is checked.
"""
from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable, Mapping

import duckdb
import pyarrow as pa

from . import answers
from .queries import Query

THREADS = 2


class Skipped(Exception):
    """A source cannot be measured here; the text says why."""


class Source:
    """Where the tables of a query come from."""

    key = ""
    title = ""
    relations: Mapping[str, str] = {}  # table: what stands for it in SQL

    def attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Makes what `relations` names known to the engine."""

    def before(self, query: Query) -> None:
        """Brings about the state that the source stands for, outside the time. Errors: Skipped."""

    def moved_bytes(self, query: Query) -> int | None:
        """How many bytes the turn moved from where they lie; None: not known."""
        return None

    def turn(self, connection: duckdb.DuckDBPyConnection, query: Query,
             right: answers.Summary) -> tuple[float, int | None]:
        """One query. -> seconds and bytes moved. Errors: answers.Wrong, Skipped."""
        self.before(query)
        start = time.perf_counter()
        table = answer(connection, query.text(self.relations))
        took_s = time.perf_counter() - start
        moved_bytes = self.moved_bytes(query)
        answers.check(query, answers.summary(table), right, self.title)
        return took_s, moved_bytes


@dataclasses.dataclass
class Cell:
    """The turns of one query from one source."""

    seconds: list[float] = dataclasses.field(default_factory=list)
    moved_bytes: int | None = None  # of the last turn

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)


def engine() -> duckdb.DuckDBPyConnection:
    """DuckDB as it is measured: two threads, nothing kept of the files that it reads."""
    connection = duckdb.connect()
    connection.execute(f"set threads = {THREADS}")
    connection.execute("set enable_progress_bar = false")
    return connection


def answer(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    return connection.sql(sql).to_arrow_table()


def expected(connection: duckdb.DuckDBPyConnection, source: Source, queries: Iterable[Query],
             published: bool) -> dict[str, answers.Summary]:
    """Query: the right answer, which is that of `source`, held against the published numbers at SF 1.

    Errors: answers.Wrong.
    """
    found = {}
    source.attach(connection)
    for query in queries:
        table = answer(connection, query.text(source.relations))
        if published:
            answers.check_published(query, table)
        found[query.name] = answers.summary(table)
    return found


class Board:
    """What was measured: (source's key, query's name) -> Cell."""

    def __init__(self, right: Mapping[str, answers.Summary]) -> None:
        self.right = right
        self.cells: dict[tuple[str, str], Cell] = {}
        self.skipped: dict[str, str] = {}
        self.checks = 0

    def turn(self, connection: duckdb.DuckDBPyConnection, source: Source, query: Query) -> None:
        """Errors: answers.Wrong, and those of the source."""
        took_s, moved_bytes = source.turn(connection, query, self.right[query.name])
        cell = self.cells.setdefault((source.key, query.name), Cell())
        cell.seconds.append(took_s)
        cell.moved_bytes = moved_bytes
        self.checks += 1

    def rounds(self, connection: duckdb.DuckDBPyConnection, sources: Iterable[Source], queries: Iterable[Query],
               count: int, advanced: Callable[[Source, Query], None] = lambda source, query: None) -> None:
        """`count` turns of each source with each query; the sources alternate within each query."""
        sources = list(sources)
        for source in sources:
            source.attach(connection)
        for _ in range(count):
            for query in queries:
                for source in sources:
                    if source.key not in self.skipped:
                        try:
                            self.turn(connection, source, query)
                        except Skipped as reason:
                            self.skipped[source.key] = str(reason)
                    advanced(source, query)

    def median_s(self, source: str, query: str) -> float | None:
        cell = self.cells.get((source, query))
        return cell.median_s if cell and cell.seconds else None

    def geometric_means_s(self, source: str, queries: Iterable[Query]) -> list[float]:
        """Over the queries, of each round."""
        turns = [self.cells[source, query.name].seconds for query in queries if (source, query.name) in self.cells]
        return [statistics.geometric_mean(one) for one in zip(*turns)]

    def geometric_mean_s(self, source: str, queries: Iterable[Query]) -> float | None:
        """Over the queries; None where one is missing."""
        found = [self.median_s(source, query.name) for query in queries]
        medians = [median_s for median_s in found if median_s]
        return statistics.geometric_mean(medians) if medians and len(medians) == len(found) else None
