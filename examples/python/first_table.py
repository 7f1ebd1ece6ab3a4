"""A table in cluster memory, queried by four engines. Runs alone: a node lives in this process."""
import datetime

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

import oncilla

ROWS = 1_000_000
random = np.random.default_rng(1)
first_day = np.datetime64("2026-01-01")
data = pa.table({
    "day": pa.array(first_day + random.integers(0, 365, ROWS).astype("timedelta64[D]")),
    "zone": pa.array(random.choice(["north", "south", "east", "west"], ROWS)),
    "fare": pa.array(random.integers(300, 9000, ROWS) / 100),
})

with oncilla.connect(embedded="fallback") as session:  # the daemon of this node, if there is one
    trips = session.table("first-table-trips").put(data, compact=True, replace=True)
    print(trips.schema, trips.num_rows, "rows,", trips.nbytes, "bytes")

    print(duckdb.sql("select zone, count(*), avg(fare) from trips group by zone order by zone"))

    by_zone = trips.scan_polars().filter(pl.col("day") >= datetime.date(2026, 7, 1)).group_by("zone").agg(pl.len())
    print(by_zone.sort("zone").collect())

    summer = [("day", ">=", datetime.date(2026, 6, 1)), ("day", "<", datetime.date(2026, 9, 1))]
    print(trips.select(["fare"], filter=summer).to_pandas().describe())

    assert trips.to_arrow().column("fare").equals(data.column("fare"))
    trips.drop()
