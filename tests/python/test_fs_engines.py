"""Parquet, Arrow IPC and CSV files in cluster memory from pandas, Polars, DuckDB and pyarrow: answers, bytes moved."""
from __future__ import annotations

import io

import duckdb
import fsspec
import numpy
import pandas
import polars
import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest

import oncilla.fs  # noqa: F401  (registers ocm://)

ROWS, COLUMNS = 200_000, 16
WANTED = ["c1", "c7", "c12"]
MOVED_MAX = 1.15  # times the needed bytes


@pytest.fixture(scope="module")
def table():
    numbers = numpy.random.default_rng(7)
    return pyarrow.table({f"c{i}": numbers.random(ROWS) for i in range(COLUMNS)})


@pytest.fixture(scope="module")
def options(cluster):
    return {"socket": str(cluster["n1"].socket_path)}


@pytest.fixture(scope="module")
def files(options):
    return fsspec.filesystem("ocm", **options)


@pytest.fixture(scope="module")
def stored(files, options, table):
    """The table as a file on another node, and the bytes of the wanted columns in it."""
    raw = io.BytesIO()
    pyarrow.parquet.write_table(table, raw, row_group_size=50_000)
    there = fsspec.filesystem("ocm", nodes="n2", **options)
    there.pipe_file("engines/t.parquet", raw.getvalue())
    metadata = pyarrow.parquet.read_metadata(raw)
    wanted = [table.column_names.index(name) for name in WANTED]
    yield "engines/t.parquet", sum(metadata.row_group(group).column(column).total_compressed_size
                                   for group in range(metadata.num_row_groups) for column in wanted)
    files.rm("engines", recursive=True)


def by_pandas(path, files, options):
    return pandas.read_parquet(f"ocm://{path}", columns=WANTED, storage_options=options)


def by_pyarrow(path, files, options):
    return pyarrow.parquet.read_table(path, columns=WANTED, filesystem=files).to_pandas()


def by_dataset(path, files, options):
    return pyarrow.dataset.dataset(path, filesystem=files).to_table(columns=WANTED).to_pandas()


def by_duckdb(path, files, options):
    with duckdb.connect() as connection:
        connection.register_filesystem(files)
        return connection.execute(f"select {', '.join(WANTED)} from read_parquet('ocm://{path}')").df()


def by_polars_over_dataset(path, files, options):
    dataset = pyarrow.dataset.dataset(path, filesystem=files)
    return polars.scan_pyarrow_dataset(dataset).select(WANTED).collect().to_pandas()


def by_polars_with_pyarrow(path, files, options):
    return polars.read_parquet(f"ocm://{path}", columns=WANTED, use_pyarrow=True, storage_options=options).to_pandas()


READERS = [by_pandas, by_pyarrow, by_dataset, by_duckdb, by_polars_over_dataset, by_polars_with_pyarrow]


@pytest.mark.parametrize("read", READERS)
def test_three_of_sixteen_columns_move_little_more_than_they_are(read, stored, files, options, table):
    path, needed_bytes = stored
    before = files.bytes_moved
    frame = read(path, files, options)
    moved = files.bytes_moved - before
    pandas.testing.assert_frame_equal(frame, table.select(WANTED).to_pandas())
    assert needed_bytes <= moved <= MOVED_MAX * needed_bytes


def test_polars_reads_a_file_object_whole(stored, files, table):
    path, _ = stored
    with files.open(path) as file:
        assert polars.scan_parquet(file).select(WANTED).collect().to_arrow().cast(table.select(WANTED).schema) == \
            table.select(WANTED)


def test_a_row_group_that_a_filter_rules_out_is_not_moved(files, options, stored):
    there = fsspec.filesystem("ocm", nodes="n2", **options)
    rows = pyarrow.table({"k": numpy.arange(ROWS), "v": numpy.random.default_rng(1).random(ROWS)})
    with there.open("engines/sorted.parquet", "wb") as file:
        pyarrow.parquet.write_table(rows, file, row_group_size=ROWS // 10)
    before = files.bytes_moved
    with duckdb.connect() as connection:
        connection.register_filesystem(files)
        source = "read_parquet('ocm://engines/sorted.parquet')"
        assert connection.execute(f"select count(*) from {source} where k < {ROWS // 10}").fetchall() == [(ROWS // 10,)]
    assert files.bytes_moved - before < files.size("engines/sorted.parquet") / 4


def test_every_engine_writes_what_every_other_reads(files, options, table, stored):
    small = table.slice(0, 5000)
    small.to_pandas().to_parquet("ocm://engines/w/pandas.parquet", storage_options=options)
    with files.open("engines/w/polars.parquet", "wb") as file:
        polars.from_arrow(small).write_parquet(file)
    pyarrow.parquet.write_table(small, "engines/w/pyarrow.parquet", filesystem=files)
    with duckdb.connect() as connection:
        connection.register_filesystem(files)
        connection.execute("copy small to 'ocm://engines/w/duckdb.parquet' (format parquet)")
        both = connection.execute("select count(*), sum(c1) from read_parquet('ocm://engines/w/*.parquet')").fetchall()
    assert both[0][0] == 4 * 5000
    assert both[0][1] == pytest.approx(4 * numpy.sum(small["c1"].to_numpy()))
    assert pyarrow.dataset.dataset("engines/w", filesystem=files).count_rows() == 4 * 5000
    for name in ("pandas", "polars", "pyarrow", "duckdb"):
        assert pandas.read_parquet(f"ocm://engines/w/{name}.parquet", storage_options=options).equals(small.to_pandas())


def test_a_partitioned_dataset(files, table, stored):
    keyed = table.slice(0, 9000).append_column("key", pyarrow.array(numpy.arange(9000) % 3))
    pyarrow.dataset.write_dataset(keyed, "engines/parts", filesystem=files, format="parquet",
                                  partitioning=["key"], partitioning_flavor="hive")
    dataset = pyarrow.dataset.dataset("engines/parts", filesystem=files, partitioning="hive")
    assert sorted(dataset.files) == [f"engines/parts/key={key}/part-0.parquet" for key in range(3)]
    found = dataset.to_table(filter=pyarrow.dataset.field("key") == 1)
    assert found.num_rows == 3000 and set(found["key"].to_pylist()) == {1}


def test_arrow_ipc_files(files, options, table, stored):
    for fs in (files, fsspec.filesystem("ocm", nodes="n3", **options)):
        with fs.open("engines/t.arrow", "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        with files.open("engines/t.arrow") as file:
            before = pyarrow.total_allocated_bytes()
            read = pyarrow.ipc.open_file(file).read_all()
            copied = pyarrow.total_allocated_bytes() - before
        assert read == table
        assert (copied < table.nbytes / 100) or fs is not files  # what is local is pointed to
        del read


def test_csv(files, options, stored):
    frame = pandas.DataFrame({"a": range(50_000), "b": [f"text {i}" for i in range(50_000)]})
    there = {**options, "nodes": "n2"}
    frame.to_csv("ocm://engines/x.csv", index=False, storage_options=there)
    before, size = files.bytes_moved, files.size("engines/x.csv")
    assert pandas.read_csv("ocm://engines/x.csv", storage_options=options).equals(frame)
    assert files.bytes_moved - before <= MOVED_MAX * size
    with files.open("engines/x.csv") as file:
        assert polars.read_csv(file).to_pandas().equals(polars.from_pandas(frame).to_pandas())
    with files.open("engines/x.csv") as file:
        assert pyarrow.csv.read_csv(file).num_rows == 50_000
    with duckdb.connect() as connection:
        connection.register_filesystem(files)
        found = connection.execute("select sum(a) from read_csv('ocm://engines/x.csv')").fetchall()
        assert found == [(sum(range(50_000)),)]
