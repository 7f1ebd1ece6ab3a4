"""Tables of a pool as views of a DuckDB connection.

    import duckdb, oncilla, oncilla.duckdb
    pool, connection = oncilla.connect(), duckdb.connect()
    oncilla.duckdb.register(connection, pool)
    connection.sql("select count(*) from lineitem")

A table that is held by a Python variable needs none of it: DuckDB finds the variable.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

    from .session import Session

__all__ = ["register"]


def register(connection: duckdb.DuckDBPyConnection, pool: Session, prefix: str = "") -> list[str]:
    """Makes every table of the pool whose name starts with `prefix` a view of the connection.

    Each query reads the tables' newest versions, and moves the columns and row groups that it needs.
    Returns the names of the views. Raises: NoCoordinator.
    """
    names = sorted(name for name in pool.tables() if name.startswith(prefix))
    for name in names:
        connection.register(name, pool.table(name))
    return names
