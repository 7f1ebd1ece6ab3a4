"""The queries of the warehouse workload, fused and operator by operator.

A, B and C are Kernel-Weaver-style patterns (Oncilla, Cluster '13, V): two selections in a row before a third, two joins
in a row, a join of two selections. Fused, a query is one pipeline. Otherwise each operator stores what it gives
as a table, and the next one reads that table.

In the SQL `{lineitem}` and so on stand for the relation to read; in a step `{1}` is what the first step stored.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Query:
    name: str
    what: str  # in the algebra's notation, for the table of results
    sql: str
    reads: Mapping[str, tuple[str, ...]]  # table: the columns that an engine must read
    steps: tuple[str, ...] = ()  # operator by operator; the last one's output is the answer. Empty: not measured so

    def text(self, relations: Mapping[str, str]) -> str:
        """The SQL over these relations (table: what to write in its place)."""
        return self.sql.format(**relations)


SELECT = Query(
    "select", "σ(l_shipdate < 1995-06-17), π(3 columns)",
    "select l_orderkey, l_extendedprice, l_discount from {lineitem} where l_shipdate < date '1995-06-17'",
    {"lineitem": ("l_orderkey", "l_extendedprice", "l_discount", "l_shipdate")})

JOIN = Query(
    "join", "lineitem ⋈ orders; count, 2 sums",
    "select count(*) as n, sum(l_extendedprice) as price, sum(o_totalprice) as total "
    "from {lineitem} join {orders} on l_orderkey = o_orderkey",
    {"lineitem": ("l_orderkey", "l_extendedprice"), "orders": ("o_orderkey", "o_totalprice")})

A = Query(
    "A", "σ, σ, σ, π of lineitem",
    "select l_orderkey, l_extendedprice, l_discount from {lineitem} "
    "where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01' and l_quantity < 24",
    {"lineitem": ("l_orderkey", "l_extendedprice", "l_discount", "l_shipdate", "l_quantity")},
    ("select l_orderkey, l_extendedprice, l_discount, l_shipdate, l_quantity from {lineitem} "
     "where l_shipdate >= date '1994-01-01'",
     "select * from {1} where l_shipdate < date '1995-01-01'",
     "select * from {2} where l_quantity < 24",
     "select l_orderkey, l_extendedprice, l_discount from {3}"))

B = Query(
    "B", "lineitem ⋈ orders ⋈ customer; count, 3 sums",
    "select count(*) as n, sum(l_extendedprice) as price, sum(o_totalprice) as total, sum(c_acctbal) as balance "
    "from {lineitem} join {orders} on l_orderkey = o_orderkey join {customer} on o_custkey = c_custkey",
    {"lineitem": ("l_orderkey", "l_extendedprice"), "orders": ("o_orderkey", "o_custkey", "o_totalprice"),
     "customer": ("c_custkey", "c_acctbal")},
    ("select l_extendedprice, o_totalprice, o_custkey from {lineitem} join {orders} on l_orderkey = o_orderkey",
     "select l_extendedprice, o_totalprice, c_acctbal from {1} join {customer} on o_custkey = c_custkey",
     "select count(*) as n, sum(l_extendedprice) as price, sum(o_totalprice) as total, sum(c_acctbal) as balance "
     "from {2}"))

C = Query(
    "C", "σ(lineitem) ⋈ σ(orders), π(arithmetic)",
    "select l_extendedprice * (1 - l_discount) as revenue, o_orderdate, o_shippriority "
    "from {lineitem} join {orders} on l_orderkey = o_orderkey "
    "where l_shipdate > date '1995-03-15' and o_orderdate < date '1995-03-15'",
    {"lineitem": ("l_orderkey", "l_extendedprice", "l_discount", "l_shipdate"),
     "orders": ("o_orderkey", "o_orderdate", "o_shippriority")},
    ("select l_orderkey, l_extendedprice, l_discount from {lineitem} where l_shipdate > date '1995-03-15'",
     "select o_orderkey, o_orderdate, o_shippriority from {orders} where o_orderdate < date '1995-03-15'",
     "select l_extendedprice, l_discount, o_orderdate, o_shippriority from {1} join {2} on l_orderkey = o_orderkey",
     "select l_extendedprice * (1 - l_discount) as revenue, o_orderdate, o_shippriority from {3}"))

Q1 = Query(
    "Q1", "TPC-H 1: 8 aggregates in 4 groups",
    "select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price, "
    "sum(l_extendedprice * (1 - l_discount)) as sum_disc_price, "
    "sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge, avg(l_quantity) as avg_qty, "
    "avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc, count(*) as count_order from {lineitem} "
    "where l_shipdate <= date '1998-09-02' group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus",
    {"lineitem": ("l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_tax",
                  "l_shipdate")})

Q6 = Query(
    "Q6", "TPC-H 6: σ, one sum",
    "select sum(l_extendedprice * l_discount) as revenue from {lineitem} where l_shipdate >= date '1994-01-01' "
    "and l_shipdate < date '1995-01-01' and l_discount between 0.05 and 0.07 and l_quantity < 24",
    {"lineitem": ("l_extendedprice", "l_discount", "l_shipdate", "l_quantity")})

ALL = (SELECT, JOIN, A, B, C, Q1, Q6)
STEPPED = tuple(query for query in ALL if query.steps)


def columns_read() -> dict[str, list[str]]:
    """table: every column that one of the queries reads, each once."""
    found: dict[str, dict[str, None]] = {}
    for query in ALL:
        for table, columns in query.reads.items():
            found.setdefault(table, {}).update(dict.fromkeys(columns))
    return {table: list(columns) for table, columns in found.items()}
