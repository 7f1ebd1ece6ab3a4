"""A column by itself, and tables where an engine or a notebook asks for what is not there."""
from __future__ import annotations

import numpy
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest

import oncilla
from tables import assert_same, fresh, numbered


@pytest.fixture
def table(session):
    table = session.table(fresh()).put(numbered(100), group_rows=30)
    yield table
    table.drop(missing_ok=True)


def test_numpy_reads_a_column(table):
    column = table.column("v")
    assert len(column) == 100 and repr(column) == f"<oncilla.Column 'v' of table {table.name}>"
    for array in (numpy.asarray(column), numpy.array(column), column.to_numpy()):
        assert array.dtype == numpy.int64 and array.tolist() == [k * 3 for k in range(100)]
    assert numpy.asarray(column, dtype="float32").dtype == numpy.float32
    assert numpy.asarray(table.column("s")).tolist() == [str(k) for k in range(100)]
    assert numpy.add(column, 1).tolist()[:2] == [1, 4]
    numpy.array(column)[0] = 5  # a copy may be written
    with pytest.raises(ValueError, match="copied"):
        column.__array__("float32", copy=False)


def test_a_column_of_one_local_row_group_is_not_copied(session):
    table = session.table(fresh()).put(numbered(100), nodes="n1")
    with table.snapshot() as seen:
        first, second = (numpy.asarray(seen.column("k")) for _ in range(2))
        assert first.ctypes.data == second.ctypes.data
    table.drop()


def test_arrow_and_polars_read_a_column(table):
    column = table.column("s")
    assert pa.chunked_array(column).to_pylist() == [str(k) for k in range(100)]
    assert polars.Series(column).to_list() == [str(k) for k in range(100)]


def test_a_notebook_shows_what_is_not_there(cluster):
    session = oncilla.connect(cluster["n1"].socket_path)
    missing = session.table("<not there>")
    assert "&lt;not there&gt;" in missing._repr_html_() and "NOT_FOUND" in missing._repr_html_()
    there = session.table(fresh()).put(numbered(1))
    assert "NOT_FOUND" not in there._repr_html_()
    there.drop()
    session.close()
    assert "was closed" in there._repr_html_() and "closed" in session._repr_html_()


def test_polars_says_that_two_columns_have_one_name(session):
    data = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "b", "a"])
    table = session.table(fresh()).put(data)
    with pytest.raises(oncilla.InvalidArgument, match=f"{table.name} has more than one column called 'a'"):
        table.scan_polars()
    table.drop()


def test_pyarrow_writes_the_dataset_of_a_table(table, tmp_path):
    for written, wanted in ((table.dataset(), numbered(100)),
                            (table.dataset().filter(pyarrow.dataset.field("k") < 10), numbered(10))):
        folder = tmp_path / str(wanted.num_rows)
        pyarrow.dataset.write_dataset(written, folder, format="parquet")
        # Arrow writes batches as its threads finish them.
        assert_same(pyarrow.dataset.dataset(folder).to_table().sort_by("k"), wanted)
