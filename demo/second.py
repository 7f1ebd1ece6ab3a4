"""A second process: it finds the tables by name and answers a query, and loads nothing. Prints one JSON line."""
from __future__ import annotations

import inspect
import json
import textwrap
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def main() -> None:
    started = time.perf_counter()
    # [ what the report shows
    import duckdb

    import oncilla

    session = oncilla.connect()
    lineitem = session.table("lineitem").snapshot()
    orders = session.table("orders").snapshot()
    # ]
    opened = time.perf_counter()
    # [
    answer = duckdb.execute("""
        select o_orderpriority, count(*) as n, sum(l_extendedprice) as price
        from lineitem join orders on l_orderkey = o_orderkey
        where l_shipdate >= date '1995-03-01' and l_shipdate < date '1995-04-01'
        group by all order by all""").fetchall()
    # ]
    answered = time.perf_counter()
    print(json.dumps({"attach_ms": (opened - started) * 1e3, "query_ms": (answered - opened) * 1e3,
                      "answer": [[str(value) for value in row] for row in answer],
                      "moved_bytes": lineitem.bytes_moved + orders.bytes_moved}))


def code() -> str:
    """The lines of main() between the marks."""
    parts = inspect.getsource(main).split("    # [")[1:]
    return "\n".join(textwrap.dedent(part.split("\n", 1)[1].split("    # ]")[0]).strip("\n") for part in parts)


def expected(connection: duckdb.DuckDBPyConnection, relations: Mapping[str, str]) -> list[list[str]]:
    """The same query over other relations (table: what to write in its place)."""
    sql = inspect.getsource(main).split('"""')[1]
    for table, relation in relations.items():
        sql = sql.replace(f"from {table} ", f"from {relation} as {table} ").replace(
            f"join {table} ", f"join {relation} as {table} ")
    return [[str(value) for value in row] for row in connection.sql(sql).fetchall()]


if __name__ == "__main__":
    main()
