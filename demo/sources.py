"""Sources of the tables outside of the cluster: Parquet files, and Arrow data in this process."""
from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from . import pagecache
from .measure import Skipped, Source
from .queries import Query
from .tpch import TABLES, Dataset


class Parquet(Source):
    """The files, read by DuckDB's own reader: from the page cache, or from the disk after they were dropped from it."""

    def __init__(self, dataset: Dataset, cold: bool) -> None:
        self.key = "cold" if cold else "cached"
        self.title = "Parquet, cold disk" if cold else "Parquet, page cache"
        self.cold = cold
        self.files = {table: dataset.files(table) for table in TABLES}
        quoted = {table: ", ".join("'" + path.replace("'", "''") + "'" for path in files)
                  for table, files in self.files.items()}
        self.relations = {table: f"read_parquet([{files}])" for table, files in quoted.items()}

    def _of(self, query: Query) -> list[str]:
        return [path for table in query.reads for path in self.files[table]]

    def before(self, query: Query) -> None:
        files = self._of(query)
        if not self.cold:
            pagecache.fill(files)
            return
        left = pagecache.drop(files)
        if left:
            raise Skipped(f"the page cache keeps {left:,} bytes of the files: their file system does not let go of "
                          "them (tmpfs?); set OCM_DEMO_DIR to a folder on a disk")

    def moved_bytes(self, query: Query) -> int | None:
        """Cold: what the page cache holds afterwards is what came from the disk, read-ahead included."""
        return pagecache.resident_bytes(self._of(query)) if self.cold else None


def private_copy(source: object) -> pa.Table:
    """The same batches with the same types in memory of this process, from anything with `__arrow_c_stream__`."""
    reader = pa.RecordBatchReader.from_stream(source)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


class InProcess(Source):
    """Arrow tables of this process, with the types that the cluster's tables have."""

    key, title = "process", "Arrow in the process"

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self.tables = tables
        self.relations = {table: f"process_{table}" for table in tables}

    def attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        for table, data in self.tables.items():
            connection.register(self.relations[table], data)
