"""What is measured beside the queries: transfer, loading, files through fsspec, operator by operator, BFS."""
from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import duckdb
import pyarrow as pa
import pyarrow.parquet

import oncilla
import oncilla.duckdb
from demo import bfs, measure, queries, warehouse
from demo.cluster import BINARIES, run
from demo.queries import Query
from demo.sources import Parquet
from demo.tpch import TABLES, Dataset
from oncilla.fs import OcmFileSystem
from oncilla_bench import install, network, programs, subjects

RAW_BYTES = 64 << 20


class RawLoop:
    """The raw socket loop over this machine's loopback: what any transport here can move."""

    def __init__(self) -> None:
        self.place = network.Loopback()
        reasons: dict[str, str] = {}
        install.build("tcp_raw", *install.BUILT["tcp_raw"], reasons)
        self.limits = [subject for subject in subjects.limits(reasons)
                       if subject.fabric == "tcp" and not subject.missing]
        self.missing = reasons.get("tcp_raw", "")

    def rate(self, seconds: float) -> float:
        """GB/s of gets by the best variant of the loop. Errors: programs.Failed."""
        rates = []
        for subject in self.limits:
            for found in subject.run(self.place, [RAW_BYTES], seconds):
                if found["op"] == "get":
                    rates.append(found["bytes"] / found["us"] / 1e3)
        if not rates:
            raise programs.Failed(self.missing or "the raw loop gave no rate")
        return max(rates)


class Transfer:
    """All columns that the queries read of lineitem, moved and not looked at.

    Not packed, and a batch for each row group: what takes time is to move, not to widen or to make objects of Python.
    """

    def __init__(self, session: oncilla.Session, nodes: Sequence[str], rows_max: int) -> None:
        self.session, self.nodes, self.rows_max = session, nodes, rows_max
        self.table = session.table("wire.lineitem")

    def __enter__(self) -> Transfer:
        self.table.put(self.session.table("lineitem").select(queries.columns_read()["lineitem"]), nodes=self.nodes,
                       group_rows=self.rows_max)
        return self

    def __exit__(self, *_: object) -> None:
        self.table.drop(missing_ok=True)

    def ours(self) -> float:
        """GB/s."""
        self.session.cache.clear()
        with self.table.snapshot() as snapshot:
            start = time.perf_counter()
            for batch in pa.RecordBatchReader.from_stream(snapshot.select(batch_rows=self.rows_max)):
                del batch
            took_s = time.perf_counter() - start
            return snapshot.bytes_moved / took_s / 1e9


def load_ours(session: oncilla.Session, dataset: Dataset, nodes: Sequence[str]) -> float:
    """Seconds to store all tables from Parquet, by rows over the nodes."""
    for table in TABLES:
        session.table(f"load.{table}").drop(missing_ok=True)
    start = time.perf_counter()
    for table in TABLES:
        session.table(f"load.{table}").put(warehouse.reader(dataset, table), place="rows", nodes=nodes, compact=True,
                                        packed=True)
    took_s = time.perf_counter() - start
    for table in TABLES:
        session.table(f"load.{table}").drop()
    return took_s


def load_duckdb(dataset: Dataset) -> float:
    """Seconds until DuckDB has all tables of its own in memory."""
    relations = Parquet(dataset, cold=False).relations
    connection = measure.engine()
    start = time.perf_counter()
    for table in TABLES:
        connection.execute(f"create table {table} as select * from {relations[table]}")
    took_s = time.perf_counter() - start
    connection.close()
    return took_s


class Files(measure.Source):
    """The Parquet files in the memory of other nodes, read by DuckDB through fsspec (`ocm://`)."""

    key, title = "fsspec", "Parquet in cluster memory, fsspec"

    def __init__(self, dataset: Dataset, socket: str, nodes: Sequence[str]) -> None:
        self.files = OcmFileSystem(socket=socket, nodes=list(nodes))
        self.columns: dict[str, dict[str, int]] = {}  # table: column: bytes of its chunks in the files
        self.relations = {}
        for table in queries.columns_read():
            paths = []
            for number, path in enumerate(dataset.files(table)):
                paths.append(f"ocm://warehouse/{table}/{number}.parquet")
                self.files.put_file(path, paths[-1])
                self._count(table, path)
            self.relations[table] = "read_parquet([" + ", ".join(f"'{path}'" for path in paths) + "])"
        self._moved = 0

    def _count(self, table: str, path: str) -> None:
        metadata = pa.parquet.read_metadata(path)
        sizes = self.columns.setdefault(table, {})
        for group in range(metadata.num_row_groups):
            for number in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(number)
                sizes[chunk.path_in_schema] = sizes.get(chunk.path_in_schema, 0) + chunk.total_compressed_size

    def attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        oncilla.duckdb.register_files(connection, self.files)

    def before(self, query: Query) -> None:
        self._moved = self.files.bytes_moved

    def moved_bytes(self, query: Query) -> int:
        return self.files.bytes_moved - self._moved

    def needed_bytes(self, query: Query) -> int:
        return sum(self.columns[table][column] for table, columns in query.reads.items() for column in columns)

    def close(self) -> None:
        self.files.rm("warehouse", recursive=True)


def whole_scan(connection: duckdb.DuckDBPyConnection, sources: Sequence[measure.Source], rounds: int,
               moved: Callable[[str], None]) -> dict[str, list[float]]:
    """Seconds to touch every value of lineitem that the queries read, by source."""
    columns = queries.columns_read()["lineitem"]
    sums = ", ".join(f"max({column})" for column in columns)
    found: dict[str, list[float]] = {source.key: [] for source in sources}
    for _ in range(rounds):
        for source in sources:
            start = time.perf_counter()
            connection.sql(f"select {sums} from {source.relations['lineitem']}").fetchall()
            found[source.key].append(time.perf_counter() - start)
        moved("scan")
    return found


def search(socket: str, node: str, scales: str, roots: int, runs: int) -> list[dict]:
    """The lines of oncilla-bfs, with goals of its own in them. Errors: cluster.Failed."""
    command = [str(BINARIES / "apps" / "bfs" / "oncilla-bfs"), "--json", "--node", node, "--scale", scales, "--roots",
               str(roots), "--runs", str(runs)]
    return bfs.lines(run(command, 400, env={**os.environ, "OCM_SOCKET": socket}))
