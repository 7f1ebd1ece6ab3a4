"""Parquet files as streams: the same rows, dictionaries where the files have them, errors of missing files."""
from __future__ import annotations

import decimal

import numpy
import pyarrow
import pyarrow.fs
import pyarrow.parquet
import pytest

import oncilla.parquet

ROWS = 50_000


@pytest.fixture(scope="module")
def rows():
    numbers = numpy.random.default_rng(3)
    few = pyarrow.array(["red", "green", "", "blue"]).take(pyarrow.array(numbers.integers(0, 4, ROWS)))
    with_nulls = pyarrow.array([None if i % 7 == 0 else f"k{i % 50}" for i in range(ROWS)])
    return pyarrow.table({"n": numpy.arange(ROWS), "few": few, "nulls": with_nulls,
                          "all": pyarrow.array([f"a text of its own {i}" for i in range(ROWS)]),
                          "d": pyarrow.array([decimal.Decimal(i % 100) for i in range(ROWS)],
                                             pyarrow.decimal128(15, 2)),
                          "bytes": few.cast(pyarrow.binary())})


@pytest.fixture(scope="module")
def folder(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("parquet")
    for part in range(4):
        pyarrow.parquet.write_table(rows.slice(part * ROWS // 4, ROWS // 4), folder / f"part-{part}.parquet",
                                    row_group_size=5_000)
    return folder


def plain(table):
    kinds = [field.type.value_type if pyarrow.types.is_dictionary(field.type) else field.type for field in table.schema]
    return table.cast(pyarrow.schema(zip(table.column_names, kinds)))


@pytest.mark.parametrize("source", [lambda f: f, lambda f: str(f / "part-*.parquet"),
                                    lambda f: [f / f"part-{i}.parquet" for i in range(4)]],
                         ids=["folder", "pattern", "list"])
def test_the_rows_come_in_order_with_the_files_dictionaries(source, folder, rows):
    reader = oncilla.parquet.read(source(folder), batch_rows=3_000)
    kinds = {field.name for field in reader.schema if pyarrow.types.is_dictionary(field.type)}
    assert kinds == {"few", "nulls"}
    batches = list(reader)
    assert max(batch.num_rows for batch in batches) <= 3_000
    assert plain(pyarrow.Table.from_batches(batches)) == rows


def test_columns_in_the_wanted_order(folder, rows):
    got = oncilla.parquet.read(folder, ["few", "n"]).read_all()
    assert plain(got) == rows.select(["few", "n"])


@pytest.mark.parametrize("options", [{}, {"compact": True}, {"compact": True, "packed": True}], ids=str)
def test_what_is_loaded_is_what_the_files_have(options, folder, rows, cluster):
    with oncilla.connect(cluster["n1"].socket_path) as session:
        table = session.table("from-parquet").put(oncilla.parquet.read(folder), group_rows=7_000, **options)
        try:
            table.append(oncilla.parquet.read(folder))
            got = pyarrow.table(table.snapshot())
            assert got.schema.field("few").type.index_type == (pyarrow.int8() if options else pyarrow.int32())
            want = pyarrow.concat_tables([rows, rows])
            assert plain(got).cast(want.schema) == want
        finally:
            table.drop()


def test_files_in_cluster_memory(folder, rows, cluster):
    import oncilla.arrow
    with oncilla.connect(cluster["n1"].socket_path) as session:
        files = oncilla.arrow.filesystem(session)
        pyarrow.fs.copy_files(str(folder), "stored/parquet", destination_filesystem=files)
        try:
            assert plain(oncilla.parquet.read("stored/parquet", filesystem=files).read_all()) == rows
        finally:
            files.delete_dir("stored")


def test_no_rows_and_no_files(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"s": pyarrow.array([], pyarrow.string())}), tmp_path / "none.parquet")
    assert oncilla.parquet.read(tmp_path / "none.parquet").read_all().num_rows == 0
    with pytest.raises(FileNotFoundError, match="missing"):
        oncilla.parquet.read(str(tmp_path / "missing-*.parquet"))
    with pytest.raises(FileNotFoundError):
        oncilla.parquet.read(tmp_path / "missing.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty"):
        oncilla.parquet.read(tmp_path / "empty")
    (tmp_path / "garbage.parquet").write_bytes(b"PAR1 this is none")
    with pytest.raises(pyarrow.ArrowInvalid):
        oncilla.parquet.read(tmp_path / "garbage.parquet")
