"""Tables of the cluster as views of a DuckDB connection, and its files as DuckDB's.

    import duckdb, oncilla, oncilla.duckdb
    session, connection = oncilla.connect(), duckdb.connect()
    oncilla.duckdb.register(connection, session)
    connection.sql("select count(*) from lineitem")

A table that is held by a Python variable needs none of it: DuckDB finds the variable.

    oncilla.duckdb.register_files(connection)
    connection.sql("select count(*) from 'ocm://sales/*.parquet'")
"""
from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING

from .core.errors import NoCoordinator, NotFound

if TYPE_CHECKING:
    import duckdb

    from .fs import OcmFileSystem
    from .session import Session

__all__ = ["register", "register_files"]

_GAP_BYTES = 16_384


def register(connection: duckdb.DuckDBPyConnection, pool: Session, prefix: str = "") -> list[str]:
    """Makes every table of the cluster whose name starts with `prefix` a view of the connection.

    Each query reads the tables' newest versions, and moves the columns and row groups that it needs.
    One that cannot be opened, or has a type that DuckDB does not know, is left out with a warning, and so are tables
    whose names differ in case only, which DuckDB ignores: register one of them by itself,
    `connection.register("name", session.table("Name"))`. So is one that would hide a table or view of the database, or
    of DuckDB's own catalogue. A view hides a file or a Python variable of its name, and other users' tables get views
    too: where that matters, give a `prefix`. Returns the names of the views. Raises: NoCoordinator.
    """
    names = sorted(name for name in pool.tables() if name.startswith(prefix))
    counts = Counter(map(_folded, names))
    taken = _taken(connection)
    views = []
    for name in names:
        if counts[_folded(name)] > 1:
            alike = ", ".join(other for other in names if _folded(other) == _folded(name))
            _leave_out(name, f"DuckDB takes the names {alike} for one")
            continue
        if _folded(name) in taken:
            _leave_out(name, "the database has a table or view of that name")
            continue
        table = pool.table(name)
        try:
            table.newest()
            connection.register(name, table)
        except NotFound:
            continue  # dropped just now
        except NoCoordinator:
            raise
        except Exception as error:  # whatever another user stored ends this one alone
            _leave_out(name, str(error))
            continue
        views.append(name)
    return views


def _taken(connection: duckdb.DuckDBPyConnection) -> set[bytes]:
    """What a temporary view would hide."""
    with connection.cursor() as cursor:  # for what was executed before may not be fetched yet
        rows = cursor.execute("select table_name from duckdb_tables() union all "
                              "select view_name from duckdb_views() where internal or not temporary").fetchall()
    return {_folded(name) for name, in rows}


def _folded(name: str) -> bytes:
    """The same for names that DuckDB takes for one: it folds ASCII."""
    return name.encode().lower()


def _leave_out(name: str, why: str) -> None:
    warnings.warn(f"table {name} is left out: {why}", RuntimeWarning, stacklevel=3)


def register_files(connection: duckdb.DuckDBPyConnection, files: OcmFileSystem | None = None) -> OcmFileSystem:
    """Lets the connection read and write `ocm://` files, of `files` or of a new file system, which is returned.

    DuckDB treats files that are not local as far away, and reads columns that it does not need when they lie
    between those that it does, to save requests. Here a request costs microseconds: `parquet_prefetch_column_gap`
    is set to 16 KiB (DuckDB 2). That applies to all files of the database instance; set it again afterwards if it also
    reads from far away.
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
