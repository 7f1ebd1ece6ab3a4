"""What every peer program does: store the tables once, then answer queries that come on standard input.

usage: NAME_peer.py --data FOLDER --right FILE [options of its own]

FOLDER has an Arrow IPC file for each table, with the columns that the queries read and the batches of ours. FILE is the
pickled right answers. A line {"query": NAME} on standard input is answered by one with seconds and moved_bytes: from
the moment that the columns are asked of the store until the engine's whole answer is here. The answer is checked. The
program ends when its input does.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import pickle
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Protocol

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

import pyarrow as pa  # noqa: E402

from demo import answers, measure, queries  # noqa: E402

GROUP_ROWS = 524_288  # of a value, as a row group of ours


class Store(Protocol):
    def put(self, table: str, data: pa.Table) -> None:
        """Stores the table where others than this process can have it."""

    def forget(self, query: queries.Query) -> None:
        """Whatever makes the next fetch a first touch, outside the time."""

    def fetch(self, table: str, columns: Iterable[str]) -> pa.Table:
        """These columns of a stored table."""

    def moved_bytes(self) -> int | None:
        """By fetches so far; None: not known."""


def arguments(**more: type) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--right", type=pathlib.Path, required=True)
    for name, kind in more.items():
        parser.add_argument(f"--{name}", type=kind, required=True)
    return parser.parse_args()


def tables(folder: pathlib.Path) -> dict[str, pa.Table]:
    """The tables of FOLDER, mapped."""
    return {path.stem: pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in sorted(folder.glob("*.arrow"))}


def values(data: pa.Table, column: str) -> list[pa.Buffer]:
    """The column as Arrow IPC streams of at most GROUP_ROWS rows each."""
    parts = []
    for start in range(0, max(1, data.num_rows), GROUP_ROWS):
        part = data.select([column]).slice(start, GROUP_ROWS).combine_chunks()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part)
        parts.append(sink.getvalue())
    return parts


def assembled(columns: Mapping[str, list]) -> pa.Table:
    """A table of columns that are given as the IPC streams of values(), without a copy."""
    chunks = {name: [pa.ipc.open_stream(part).read_all().column(0) for part in parts]
              for name, parts in columns.items()}
    return pa.table({name: pa.chunked_array([chunk for one in found for chunk in one.chunks])
                     for name, found in chunks.items()})


def serve(store: Store, options: argparse.Namespace) -> None:
    with open(options.right, "rb") as file:
        right = pickle.load(file)
    start = time.perf_counter()
    for name, data in tables(options.data).items():
        store.put(name, data)
    _say(ready=True, store_seconds=time.perf_counter() - start)
    connection = measure.engine()
    known = {query.name: query for query in queries.ALL}
    for line in sys.stdin:
        query = known[json.loads(line)["query"]]
        store.forget(query)
        before = store.moved_bytes()
        start = time.perf_counter()
        for table, columns in query.reads.items():
            connection.register(table, store.fetch(table, columns))
        answer = measure.answer(connection, query.text({table: table for table in query.reads}))
        took_s = time.perf_counter() - start
        answers.check(query, answers.summary(answer), right[query.name], pathlib.Path(sys.argv[0]).stem)
        for table in query.reads:
            connection.unregister(table)
        after = store.moved_bytes()
        _say(seconds=took_s, moved_bytes=None if after is None else after - before)


def _say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)
