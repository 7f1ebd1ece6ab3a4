"""Tables of a pool as views of a DuckDB connection, and its files as DuckDB's.

    import duckdb, oncilla, oncilla.duckdb
    pool, connection = oncilla.connect(), duckdb.connect()
    oncilla.duckdb.register(connection, pool)
    connection.sql("select count(*) from lineitem")

A table that is held by a Python variable needs none of it: DuckDB finds the variable.

    oncilla.duckdb.register_files(connection)
    connection.sql("select count(*) from 'ocm://sales/*.parquet'")
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

    from .fs import OcmFileSystem
    from .session import Session

__all__ = ["register", "register_files"]

_GAP_BYTES = 16_384


def register(connection: duckdb.DuckDBPyConnection, pool: Session, prefix: str = "") -> list[str]:
    """Makes every table of the pool whose name starts with `prefix` a view of the connection.

    Each query reads the tables' newest versions, and moves the columns and row groups that it needs.
    Returns the names of the views. Raises: NoCoordinator.
    """
    names = sorted(name for name in pool.tables() if name.startswith(prefix))
    for name in names:
        connection.register(name, pool.table(name))
    return names


def register_files(connection: duckdb.DuckDBPyConnection, files: OcmFileSystem | None = None) -> OcmFileSystem:
    """Lets the connection read and write `ocm://` files, of `files` or of a new file system, which is returned.

    DuckDB takes files that are not local for far ones, and reads columns that it does not need when they stand
    between those that it does, to save requests. Here a request costs microseconds: `parquet_prefetch_column_gap`
    is set to 16 KiB (DuckDB 2). That holds for all files of the database instance; set it anew afterwards if it reads
    from far away too.
    """
    import duckdb

    if files is None:
        from .fs import OcmFileSystem
        files = OcmFileSystem()
    connection.register_filesystem(files)
    try:
        connection.execute(f"set global parquet_prefetch_column_gap = {_GAP_BYTES}")
    except duckdb.CatalogException:
        pass  # before DuckDB 2
    return files
