"""All 22 TPC-H queries at SF 0.1: tables spread over three nodes give what DuckDB gives on the Parquet files."""
from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import duckdb
import pytest

import oncilla

SCALE = 0.1
QUERIES = sorted((pathlib.Path(__file__).parent / "tpch").glob("q*.sql"))
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
ROWS = {"customer": 15_000, "lineitem": 600_572, "nation": 25, "orders": 150_000, "part": 20_000,
        "partsupp": 80_000, "region": 5, "supplier": 1_000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The Parquet files."""
    made = tmp_path_factory.mktemp("tpch")
    generator = pathlib.Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run([generator, "parquet", "-s", str(SCALE), "--output-dir", made], check=True, capture_output=True,
                   timeout=100)
    return made


@pytest.fixture(scope="module")
def reference(folder):
    """DuckDB on the files."""
    with duckdb.connect() as connection:
        for name in TABLES:
            connection.execute(f"create view {name} as select * from read_parquet('{folder / name}.parquet')")
        yield connection


@pytest.fixture(scope="module", params=["rows", "column", "remote"])
def spread(request, folder, cluster):
    """DuckDB on tables in cluster memory, loaded from the files as streams."""
    import pyarrow.parquet
    ways: dict[str, dict[str, Any]] = {
        "rows": {"place": "rows", "nodes": ["n1", "n2", "n3"], "group_rows": 50_000},
        "column": {"place": "column", "nodes": ["n1", "n2", "n3"], "compact": True},
        "remote": {"place": "rows", "remote": True, "replicas": 2, "compact": True, "packed": True}}
    options = ways[request.param]
    from oncilla.duckdb import register
    with oncilla.connect(cluster["n1"].socket_path) as session, duckdb.connect() as connection:
        for name in TABLES:
            file = pyarrow.parquet.ParquetFile(folder / f"{name}.parquet")
            session.table(name).put(file.iter_batches(), schema=file.schema_arrow, **options)
        assert register(connection, session) == list(TABLES)
        yield connection
        for name in TABLES:
            session.table(name).drop()


def test_all_rows_are_there(spread):
    for name in TABLES:
        assert spread.sql(f"select count(*) from {name}").fetchall() == [(ROWS[name],)]


def test_there_are_22():
    assert [path.name for path in QUERIES] == [f"q{i:02}.sql" for i in range(1, 23)]


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_query(spread, reference, path):
    # Every query orders its rows wholly (ties are broken beyond the specification), so the answers are lists.
    text = path.read_text().replace("{sf}", str(SCALE))
    wanted = reference.sql(text)
    got = spread.sql(text)
    assert got.columns == wanted.columns
    rows = wanted.fetchall()
    assert got.fetchall() == rows and rows
