"""Parquet, Arrow IPC and CSV files in cluster memory from pandas, Polars, DuckDB and pyarrow: answers, bytes moved."""
from __future__ import annotations

import io
import random
from concurrent.futures import ThreadPoolExecutor

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

import oncilla.duckdb
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
        assert oncilla.duckdb.register_files(connection, files) is files
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


def test_duckdb_leaves_out_what_stands_between(files, options):
    """Columns of 80 kB with 40 kB between them, which DuckDB may take along for files that it thinks far."""
    numbers = numpy.random.default_rng(5)
    rows = pyarrow.table({f"c{i}": numbers.random(ROWS) if i % 5 == 0 else numbers.integers(0, 250, ROWS)
                          for i in range(COLUMNS)})
    raw = io.BytesIO()
    pyarrow.parquet.write_table(rows, raw, row_group_size=10_000)
    fsspec.filesystem("ocm", nodes="n2", **options).pipe_file("engines/between.parquet", raw.getvalue())
    metadata = pyarrow.parquet.read_metadata(raw)
    wanted = range(0, COLUMNS, 5)
    needed_bytes = sum(metadata.row_group(group).column(column).total_compressed_size
                       for group in range(metadata.num_row_groups) for column in wanted)
    before = files.bytes_moved
    with duckdb.connect() as connection:
        oncilla.duckdb.register_files(connection, files)
        for one in (connection, connection.cursor()):
            assert one.execute("select current_setting('parquet_prefetch_column_gap')").fetchone() == (16_384,)
        sums = connection.execute(f"select {', '.join(f'sum(c{i})' for i in wanted)} "
                                  "from read_parquet('ocm://engines/between.parquet')").fetchone()
    assert sums == pytest.approx([numpy.sum(rows[f"c{i}"].to_numpy()) for i in wanted])
    assert files.bytes_moved - before <= MOVED_MAX * needed_bytes


def test_threads_seek_and_read_one_file(stored, files):
    path, _ = stored
    whole = files.cat_file(path)

    def look(file, seed):
        where = random.Random(seed)
        for _ in range(200):
            start, nbytes = where.randrange(len(whole)), where.choice((1, 500, 9_000, 50_000, 300_000))
            file.seek(start)
            if file.tell() != start or file.read(nbytes) != whole[start:start + nbytes]:
                return f"{nbytes} bytes at {start}"
        return None

    with files.open(path) as file, ThreadPoolExecutor(8) as threads:
        assert list(threads.map(look, [file] * 8, range(8))) == [None] * 8


def test_a_file_that_is_handed_to_another_thread_reads_on(stored, files):
    path, _ = stored
    whole = files.cat_file(path, 0, 600)
    with files.open(path) as file, ThreadPoolExecutor(1) as other:
        file.seek(100)
        assert other.submit(file.read, 100).result() == whole[100:200]
        assert file.tell() == 200 and file.read(100) == whole[200:300]
        other.submit(file.seek, 400).result()
        assert file.tell() == 400 and file.read(100) == whole[400:500]
        assert other.submit(file.read, 100).result() == whole[500:600]


@pytest.mark.parametrize("threads", [1, 2])
def test_duckdb_reads_in_parallel(threads, files, options, stored):
    there = fsspec.filesystem("ocm", nodes="n2", **options)
    keys = numpy.random.default_rng(2).permutation(ROWS)
    between = numpy.random.default_rng(3).random(ROWS)  # so that columns are read apart, small and large
    left = pyarrow.table({"k": keys, "x": between, "d": keys % 11, "y": between, "v": keys * 3})
    right = pyarrow.table({"k": numpy.arange(ROWS), "w": numpy.arange(ROWS) % 7})
    for name, rows in (("left", left), ("right", right)):
        for part in range(2):
            with there.open(f"engines/parallel/{name}.{part}.parquet", "wb") as file:
                pyarrow.parquet.write_table(rows.slice(part * ROWS // 2, ROWS // 2), file, row_group_size=ROWS // 8)
    of_left, of_right = (f"read_parquet('ocm://engines/parallel/{name}.*.parquet')" for name in ("left", "right"))
    chosen = numpy.arange(ROWS) % 11 == 3
    wanted = [(ROWS, 3 * (ROWS - 1) * ROWS // 2, int(numpy.sum(right["w"].to_numpy()))),
              (int(numpy.sum(chosen)), int(3 * numpy.sum(numpy.arange(ROWS)[chosen])))]
    for _ in range(10):
        with duckdb.connect(config={"threads": threads}) as connection:  # anew: nothing is in its cache
            connection.register_filesystem(files)
            joined = connection.execute(f"select count(*), sum(v), sum(w) from {of_left} join {of_right} using (k)")
            assert joined.fetchall() == [wanted[0]]
            assert connection.execute(f"select count(*), sum(v) from {of_left} where d = 3").fetchall() == [wanted[1]]


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
        polars.DataFrame(small).write_parquet(file)
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
