"""One program puts a table, another attaches it, while the first appends. Needs a cluster: `ocm up --nodes 3`."""
import subprocess
import sys

import pyarrow as pa

import oncilla

READER = """
import duckdb, oncilla
with oncilla.connect() as session:
    orders = session.table("shared-orders")
    with orders.snapshot() as seen:
        print(duckdb.sql("select count(*) as orders, sum(price) as total from seen"))
"""


def batch(first: int) -> pa.RecordBatch:
    keys = range(first, first + 1000)
    return pa.record_batch({"key": pa.array(keys), "price": pa.array([key % 90 + 10 for key in keys])})


with oncilla.connect() as session:
    orders = session.table("shared-orders").put([batch(0)], place="rows", replace=True)
    subprocess.run([sys.executable, "-c", READER], check=True)
    orders.append([batch(1000), batch(2000)])  # one step for every reader
    subprocess.run([sys.executable, "-c", READER], check=True)
    print({column: list(nodes) for column, nodes in orders.placement().items()})
    orders.drop()
