"""Tables: what goes in comes out, where it lies, and what is refused."""
from __future__ import annotations

import asyncio
import datetime
import decimal
import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest

import oncilla
from tables import assert_same, every_type, fresh, numbered, plain

PLACES: dict[str, dict[str, Any]] = {
    "rows": {"place": "rows", "group_rows": 100},
    "column": {"place": "column", "group_rows": 400},
    "whole": {"place": "whole"},
    "remote": {"place": "rows", "remote": True, "group_rows": 100},
    "one remote": {"place": "whole", "nodes": "n3"},
    "replicas": {"place": "rows", "replicas": 2, "group_rows": 300},
}


@pytest.fixture
def table(session):
    """A table object with a fresh name; dropped after the test."""
    made = session.table(fresh())
    yield made
    made.drop(missing_ok=True)


# ------------------------------------------------------------------ what goes in comes out

@pytest.mark.parametrize("place", PLACES)
def test_rows_come_back_in_order(table, place):
    data = numbered(1000)
    table.put(data, **PLACES[place])
    assert_same(table.to_arrow(), data)
    assert len(table) == 1000 and table.column_names == ["k", "v", "s"] and table.schema == data.schema


@pytest.mark.parametrize("options", [{}, {"nodes": "n2"}, {"compact": True, "nodes": "n2"}, {"packed": True},
                                     {"packed": True, "compact": True, "nodes": "n2"}], ids=str)
def test_every_type_comes_back(table, options):
    data = every_type()
    table.put(data, **options)
    got = table.to_arrow()
    if options.get("compact"):
        assert got.column("decimal128").type == pa.decimal64(18, 2) or got.column("decimal128").type == data.column(
            "decimal128").type
        got = got.cast(plain(data).schema)
    assert_same(got, plain(data))


def test_slices_with_offsets_come_back(table):
    data = pa.concat_tables([every_type()] * 9).slice(5, 25)
    table.put(data, group_rows=7)
    assert_same(table.to_arrow(), plain(data))


def _sources(data: pa.Table, folder) -> dict:
    import duckdb
    import pandas
    import polars
    pyarrow.dataset.write_dataset(data, folder, format="parquet")
    dataset = pyarrow.dataset.dataset(folder)
    return {
        "table": data, "batch": data.combine_chunks().to_batches()[0], "batches": data.to_batches(max_chunksize=30),
        "generator": (batch for batch in data.to_batches(max_chunksize=30)), "reader": data.to_reader(),
        "capsule": data.__arrow_c_stream__(), "dict": {name: data[name] for name in data.column_names},
        "dataset": dataset, "scanner": dataset.scanner(), "pandas": pandas.DataFrame(data.to_pandas()),
        "polars": polars.DataFrame(data), "lazy": polars.DataFrame(data).lazy(),
        "duckdb": duckdb.connect().from_arrow(data),
    }


@pytest.mark.parametrize("source", ["table", "batch", "batches", "generator", "reader", "capsule", "dict", "dataset",
                                    "scanner", "pandas", "polars", "lazy", "duckdb"])
def test_anything_with_arrow_inside_goes_in(table, source, tmp_path):
    data = numbered(100)
    table.put(_sources(data, tmp_path / "data")[source])
    got = table.to_arrow()
    assert got.cast(data.schema).sort_by("k").equals(data.combine_chunks())


def test_another_table_and_a_selection_go_in(session, table):
    table.put(numbered(100))
    with_filter = session.table(fresh()).put(table.select(["v"], [("k", "<", 10)]))
    assert with_filter.to_arrow()["v"].to_pylist() == [3 * k for k in range(10)]
    with_filter.drop()
    copy = session.table(fresh()).put(table)
    assert_same(copy.to_arrow(), numbered(100))
    copy.drop()


@pytest.mark.parametrize("wrong", [5, "file.parquet", b"bytes", None])
def test_what_is_no_arrow_data_is_refused(table, wrong):
    with pytest.raises(TypeError, match="not Arrow data"):
        table.put(wrong)


def test_a_consumed_reader_is_refused_or_empty(table):
    capsule = numbered(3).__arrow_c_stream__()
    table.put(capsule)
    with pytest.raises(TypeError, match="consumed"):
        table.append(capsule)
    assert len(table) == 3


# ------------------------------------------------------------------ odd shapes

def test_zero_rows(table):
    data = numbered(0)
    table.put(data)
    assert_same(table.to_arrow(), data)
    assert len(table) == 0 and table and table.exists
    assert table.select(["v"], pc.field("k") > 1).to_arrow().num_rows == 0
    assert table.append(numbered(2)).to_arrow().num_rows == 2


def test_empty_batches_in_between(table):
    batches = [batch for start in range(0, 6, 2) for batch in numbered(2, start).to_batches()]
    empty = pa.RecordBatch.from_pylist([], schema=numbered(0).schema)
    table.put([empty, batches[0], empty, *batches[1:], empty])
    assert_same(table.to_arrow(), numbered(6))


def test_batches_are_made_alike_or_refused(table):
    small, large = pa.record_batch({"k": pa.array([1, 2], "i4")}), pa.record_batch({"k": pa.array([3, 4], "i8")})
    assert table.put(iter([small]), schema=large.schema).to_arrow().equals(pa.table({"k": pa.array([1, 2], "i8")}))
    assert table.put([large, small], replace=True).to_arrow()["k"].to_pylist() == [3, 4, 1, 2]
    table.drop()
    for other in (pa.record_batch({"z": [1]}), pa.record_batch({"k": ["x"]}), pa.record_batch({"k": [1], "z": [1]})):
        with pytest.raises(oncilla.InvalidArgument, match="other columns"):
            table.put([large, other])
    for items in ([1, 2], np.arange(3), [large, 1]):
        with pytest.raises(TypeError, match="not Arrow data"):
            table.put(items)
    assert not table.exists


def test_numbers_out_of_bounds_are_refused(table):
    for wrong in ({"replicas": 0}, {"replicas": -1}, {"group_rows": -1}, {"group_bytes": -1}, {"mode": -1}):
        [(option, value)] = wrong.items()
        with pytest.raises(oncilla.InvalidArgument, match=f"{option} is {value}; it must"):
            table.put(numbered(3), **wrong)
    assert not table.exists


def test_no_batches_need_a_schema(table):
    with pytest.raises(oncilla.InvalidArgument, match="schema="):
        table.put([])
    assert len(table.put([], schema=numbered(0).schema)) == 0


def test_all_null_columns(table):
    data = pa.table({"a": pa.nulls(500, pa.int64()), "b": pa.nulls(500, pa.string()), "c": pa.nulls(500)})
    table.put(data, group_rows=100)
    assert_same(table.to_arrow(), data)
    assert table.select(["a"], [("a", ">", 0)]).count() == 0
    assert table.select(["a"], pc.field("a").is_null()).count() == 500
    assert table.stats("a")["nulls"].to_pylist() == [100] * 5


def test_no_columns_selected_still_counts_rows(table):
    table.put(numbered(100), group_rows=30)
    assert sum(batch.num_rows for batch in table.select([]).batches()) == 100
    assert table.select([], [("k", ">=", 95)]).count() == 5


def test_columns_with_the_same_name(table):
    data = pa.table([pa.array([1, 2, 3]), pa.array([4, 5, 6])], names=["x", "x"])
    table.put(data)
    assert table.to_arrow().equals(data)
    assert table.select([1]).to_arrow().column(0).to_pylist() == [4, 5, 6]
    with pytest.raises(oncilla.InvalidArgument, match="2 columns named 'x'"):
        table.select(["x"])


@pytest.mark.parametrize("name", ["ünïcode ☃", "a b", "x" * 200, "quote'\""])
def test_names_of_tables(session, name):
    made = session.table(name).put(numbered(3))
    assert name in session.tables()
    made.drop()
    assert name not in session.tables()


@pytest.mark.parametrize("name", ["", "x" * 201, "a/b", "a~b", "nul\0"])
def test_impossible_names_are_refused(session, name):
    with pytest.raises((oncilla.InvalidArgument, oncilla.TooLarge)):
        session.table(name).put(numbered(3))


def test_text_that_is_no_utf8(table):
    bad = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(np.array([0, 2, 3], np.int32)),
                                                 pa.py_buffer(b"\xff\xfex")])
    try:
        table.put(pa.table({"good": pa.array([1, 2]), "bad": bad}))
    except oncilla.Error as error:
        assert "bad" in str(error) and not table.exists
    else:  # bytes are kept as they are
        assert table.to_arrow()["bad"].combine_chunks().buffers()[2].to_pybytes()[:3] == b"\xff\xfex"


def test_too_many_columns_are_refused_with_the_limit(table):
    many = pa.table({f"c{i}": pa.array([], pa.int8()) for i in range(70_000)})
    with pytest.raises(oncilla.TooLarge, match="65,?536"):
        table.put(many)
    assert not table.exists


@pytest.mark.parametrize("column", [
    pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
    pa.RunEndEncodedArray.from_arrays([2], ["x"]),
])
def test_unsupported_types_name_the_column(table, column):
    with pytest.raises(oncilla.Unsupported, match="odd_one") as caught:
        table.put(pa.table({"fine": pa.array([1, 2]), "odd_one": column}))
    assert caught.value.code == "UNSUPPORTED" and not table.exists


# ------------------------------------------------------------------ names

def test_a_name_is_taken_once(table):
    table.put(numbered(3))
    with pytest.raises(oncilla.Exists, match=table.name):
        table.put(numbered(4))
    assert len(table) == 3
    assert len(table.put(numbered(5), replace=True)) == 5


def test_a_name_is_a_string(session):
    with pytest.raises(TypeError, match="a str, not int"):
        session.table(3)


def test_unknown_names(session):
    missing = session.table("no_such_table")
    assert not missing.exists and "no_such_table" in repr(missing)
    for use in (missing.to_arrow, lambda: missing.schema, lambda: len(missing), missing.drop, missing.stats,
                missing.snapshot, lambda: missing.append(numbered(1)), lambda: missing.select(["k"])):
        with pytest.raises(oncilla.NotFound, match="no_such_table"):
            use()
    missing.drop(missing_ok=True)


def test_an_allocation_is_no_table(session):
    name = fresh("allocation")
    with session.allocate(4096, dedicated=True) as allocation:
        allocation.publish(name)
        with pytest.raises(oncilla.Error, match=name):
            session.table(name).to_arrow()
        with pytest.raises(oncilla.Error, match=name):
            session.table(name).put(numbered(1))
        with pytest.raises(oncilla.Error, match=name):
            session.table(name).drop()
        assert name not in session.tables()
        session.remove(name)


def test_unknown_columns_say_what_there_is(table):
    table.put(numbered(3))
    for use in (lambda: table.select(["k", "z"]), lambda: table.stats("z"), lambda: table.column("z"),
                lambda: table.select(None, [("z", "=", 1)])):
        with pytest.raises(oncilla.NotFound, match="no column 'z'; it has k, v, s"):
            use()
    with pytest.raises(oncilla.OutOfRange, match="3 columns"):
        table.select([3])


def test_wrong_options_are_refused(table):
    for options in ({"place": "sideways"}, {"nodes": ["nowhere"]}, {"replicas": 9}):
        with pytest.raises(oncilla.Error):
            table.put(numbered(3), **options)
    assert not table.exists


# ------------------------------------------------------------------ selections

def test_columns_come_in_the_wanted_order(table):
    data = numbered(50)
    table.put(data, nodes="n2")
    assert_same(table.select(["s", "k"]).to_arrow(), data.select(["s", "k"]))
    assert_same(table.select("v").to_arrow(), data.select(["v"]))
    assert_same(table.select([2, -3]).to_arrow(), data.select(["s", "k"]))


FILTERS = [
    [("k", "<", 10)], [("k", ">=", 990)], [("k", "=", 500)], [("k", "!=", 500)], ("k", "==", 3),
    [("k", ">", 100), ("v", "<", 600)], [[("k", "<", 5)], [("k", ">", 995)]], [("k", "in", {1, 500, 9999})],
    [("k", "not in", [1, 2])], [("s", "=", "77")], [("s", "in", ["1", "2"])], [("k", ">", 10.5)], [("k", ">", 5000)],
    pc.field("k") < 10, (pc.field("k") > 500) & (pc.field("s") == "777"), pc.field("k") + pc.field("v") > 3900,
    ~(pc.field("k") < 990), pc.field("k").isin([3, 4]), pc.field("s").is_null(), pc.starts_with(pc.field("s"), "99"),
]


@pytest.mark.parametrize("condition", FILTERS, ids=str)
@pytest.mark.parametrize("nodes", ["n1", "n2"])
def test_filters_are_exact(table, condition, nodes):
    import pyarrow.parquet
    data = numbered(1000)
    table.put(data, nodes=nodes, group_rows=100)
    expression = condition
    if not isinstance(condition, pc.Expression):
        expression = pyarrow.parquet.filters_to_expression([condition] if isinstance(condition, tuple) else condition)
    wanted = data.filter(expression)
    selection = table.select(["v"], condition)
    assert selection.to_arrow()["v"].to_pylist() == wanted["v"].to_pylist()
    assert selection.count() == wanted.num_rows
    assert table.select(None, condition).to_arrow().equals(wanted.combine_chunks()) or wanted.num_rows == 0


def test_row_groups_outside_the_bounds_are_not_moved(table):
    table.put(numbered(1000), nodes="n2", group_rows=100)
    everything = table.select(["v"])
    everything.to_arrow()
    for condition in ([("k", "=", 550)], pc.field("k") == 550, (pc.field("k") >= 550) & (pc.field("k") < 560)):
        selection = table.select(["v"], condition)
        assert selection.to_arrow()["v"].to_pylist()[0] == 1650
        # one group of ten, of two columns instead of one
        assert 0 < selection.bytes_moved <= everything.bytes_moved / 10 * 2 * 1.2
    nothing = table.select(["v"], [("k", ">", 10_000)])
    assert nothing.to_arrow().num_rows == 0 and nothing.bytes_moved == 0


def test_only_wanted_columns_are_moved(table):
    table.put(numbered(1000), nodes="n2")
    selection = table.select(["k"])
    selection.to_arrow()
    assert 8000 <= selection.bytes_moved <= 8000 * 1.05
    assert table.bytes_moved == selection.bytes_moved
    table.to_arrow()
    assert table.bytes_moved >= selection.bytes_moved + table.nbytes * 0.99


def test_local_rows_are_not_moved(table):
    table.put(numbered(1000), nodes="n1")
    table.to_arrow()
    assert table.bytes_moved == 0


@pytest.mark.parametrize("wrong", [[("k", "~", 1)], [("k",)], [], [[]], [("k", "in", "abc")], [("k", "=", None)],
                                   ["k"]], ids=str)
def test_malformed_filters_are_refused(table, wrong):
    table.put(numbered(3))
    with pytest.raises(oncilla.InvalidArgument):
        table.select(None, wrong)


@pytest.mark.parametrize("op", ["<", "in"])
def test_integers_of_more_than_64_bits_are_refused_by_name(table, op):
    table.put(numbered(3))
    with pytest.raises(oncilla.InvalidArgument, match="column 'k' of int64.*more than 64 bits"):
        table.select(None, [("k", op, [10 ** 30] if op == "in" else 10 ** 30)]).to_arrow()


def test_batches_are_no_longer_than_asked(table):
    table.put(numbered(1000), nodes="n2", group_rows=400)
    lengths = [batch.num_rows for batch in table.select(batch_rows=150).batches()]
    assert max(lengths) <= 150 and sum(lengths) == 1000


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_offsets_can_be_checked_in_a_copy(table, node):
    table.put(numbered(1000), nodes=node)
    selection = table.select(validate=True)
    assert_same(selection.to_arrow(), numbered(1000))
    assert selection.bytes_moved >= table.nbytes * 0.99, "the writer could change them after the check"


def test_a_requested_schema_is_cast_where_it_can_be(table):
    table.put(numbered(3))
    wanted = pa.schema([("k", pa.int32()), ("v", pa.float64()), ("s", pa.large_string())])
    reader = pa.RecordBatchReader.from_stream(table, schema=wanted)
    assert reader.schema == wanted and reader.read_all()["k"].to_pylist() == [0, 1, 2]
    odd = pa.schema([("k", pa.struct([("a", pa.int8())]))])
    capsule = table.__arrow_c_stream__(odd.__arrow_c_schema__())
    assert pa.RecordBatchReader._import_from_c_capsule(capsule).schema == table.schema


# ------------------------------------------------------------------ what is known of it

def test_stats(table):
    day, moment = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)
    data = pa.table({
        "i": pa.array([3, None, 1, 7], pa.int32()), "d": pa.array([day, day, None, None]),
        "m": pa.array([decimal.Decimal("1.50"), decimal.Decimal("-2.25"), None, None], pa.decimal64(10, 2)),
        "f": pa.array([0.5, float("nan"), 2.5, 1.5]), "b": pa.array([True, True, False, True]),
        "t": pa.array([moment, None, moment, moment], pa.timestamp("ns", "UTC")), "s": pa.array(["x"] * 4),
        "c": pa.array(["x"] * 4).dictionary_encode()})
    table.put(data, group_rows=2, nodes=["n1", "n2"])
    stats = table.stats()
    assert stats.num_rows == 16 and set(stats["node"].to_pylist()) == {"n1", "n2"}
    plain_ones = stats.filter(pc.field("column") != "c")  # a dictionary counts in each group that uses it
    assert sum(plain_ones["nbytes"].to_pylist()) < table.nbytes <= sum(stats["nbytes"].to_pylist())
    typed = {name: (table.stats(name)["minimum"].to_pylist(), table.stats(name)["maximum"].to_pylist())
             for name in data.column_names}
    assert typed["i"] == ([3, 1], [3, 7])
    assert typed["d"] == ([day, None], [day, None])
    assert typed["m"] == ([decimal.Decimal("-2.25"), None], [decimal.Decimal("1.50"), None])
    assert typed["f"] == ([None, 1.5], [None, 2.5])
    assert typed["b"] == ([True, False], [True, True])
    assert table.stats("t")["minimum"].type == pa.timestamp("ns", "UTC") and typed["t"][0][0].year == 2020
    assert typed["s"] == typed["c"] == ([None, None], [None, None])
    assert stats.filter(pc.field("column") == "m")["minimum"].to_pylist() == ["-2.25", None]


def test_placement_by_rows_and_by_columns(session, table):
    table.put(numbered(1000), place="rows", nodes=["n2", "n3"], group_rows=100)
    assert set(table.placement()["k"]) == {"n2", "n3"}
    table.put(numbered(1000), place="column", nodes=["n1", "n2", "n3"], replace=True)
    nodes = [set(on) for on in table.placement().values()]
    assert all(len(on) == 1 for on in nodes) and len(set.union(*nodes)) == 3
    table.put(numbered(1000), place="whole", nodes="n3", replace=True)
    assert {node for on in table.placement().values() for node in on} == {"n3"}
    table.put(numbered(1000), remote=True, group_rows=100, replace=True)
    assert "n1" not in table.placement()["k"]


def test_html_shows_every_node_and_column(table):
    table.put(pa.table({"<b>": [1, 2], "y": [3, 4]}), group_rows=1, nodes=["n1", "n3"])
    html = table._repr_html_()
    assert "&lt;b&gt;" in html and "<b>:" not in html and "n1" in html and "n3" in html
    assert "color:#000" not in html and "background:white" not in html
    with table.snapshot() as snapshot:
        assert "2 rows" in repr(snapshot) and snapshot._repr_html_() == html
    assert "closed" in repr(snapshot)


def test_a_table_of_many_row_groups_and_columns_still_has_a_short_picture(table):
    table.put(pa.table({f"c{i}": range(300) for i in range(80)}), group_rows=2)
    assert "16 more columns" in table._repr_html_() and len(table._repr_html_()) < 2_000_000


# ------------------------------------------------------------------ copies and lifetimes

def test_local_arrays_point_into_cluster_memory(table):
    with table.put(numbered(1000), nodes="n1").snapshot() as snapshot:
        first, second = snapshot.to_arrow(), snapshot.to_arrow()
        for name in ("k", "v"):
            a, b = (one[name].chunk(0).buffers()[1].address for one in (first, second))
            assert a == b
        array = snapshot.column("k").to_numpy()
    assert array.ctypes.data == first["k"].chunk(0).buffers()[1].address and not array.flags.writeable
    assert array.tolist() == list(range(1000))


def test_a_column_of_many_groups_is_copied_together(table):
    table.put(numbered(1000), group_rows=100)
    assert table.column("v").to_numpy().tolist() == [3 * k for k in range(1000)]
    assert table.column(0).to_arrow().num_chunks == 10


@pytest.mark.parametrize("nodes", ["n1", "n2"])
def test_arrays_outlive_the_session_and_the_table(cluster, nodes):
    with oncilla.connect(cluster["n1"].socket_path) as session:
        table = session.table(fresh()).put(numbered(1000), nodes=nodes)
        arrow, array = table.to_arrow(), table.column("k").to_numpy()
        batches = table.select(batch_rows=10).batches()
        first = next(batches)
        del batches
        table.drop()
    assert_same(arrow, numbered(1000))
    assert array.sum() == 499_500 and first["k"].to_pylist() == list(range(10))
    with pytest.raises(oncilla.Cancelled):
        table.to_arrow()


def test_a_snapshot_does_not_see_an_append(table):
    table.put(numbered(10))
    with table.snapshot() as before:
        table.append(numbered(5, 10))
        assert len(before) == 10 and len(table) == 15
        assert_same(before.to_arrow(), numbered(10))
        with table.snapshot() as after:
            assert_same(after.to_arrow(), numbered(15))
            assert after.info["segments"] == 2 and before.info["segments"] == 1
    with pytest.raises(oncilla.InvalidArgument, match="snapshot was closed"):
        before.to_arrow()
    before.close()


def test_a_snapshot_lives_when_its_table_is_dropped(table):
    table.put(numbered(100), nodes=["n1", "n2"], group_rows=50)
    with table.snapshot() as snapshot:
        table.drop()
        assert not table.exists
        assert_same(snapshot.to_arrow(), numbered(100))
        table.put(numbered(3))
        assert len(snapshot) == 100 and len(table) == 3


def test_appends_must_have_the_same_columns(table):
    table.put(numbered(10))
    for wrong in (pa.table({"k": [1]}), numbered(2).rename_columns(["k", "v", "z"]),
                  numbered(2).set_column(1, "v", pa.array(["a", "b"]))):
        with pytest.raises(oncilla.Error, match=table.name):
            table.append(wrong)
    assert len(table) == 10


def test_compact_keeps_the_values(table):
    data = pa.table({"m": pa.array([decimal.Decimal(k).scaleb(-2) for k in range(1000)], pa.decimal128(15, 2)),
                     "c": pa.array([("low", "high")[k % 2] for k in range(1000)])})
    table.put(data, compact=True)
    got = table.to_arrow()
    assert got["m"].type == pa.decimal64(15, 2) and got["c"].type == pa.dictionary(pa.int8(), pa.string())
    assert_same(got.cast(data.schema), data)
    table.append(data, compact=True)
    assert table.to_arrow().cast(data.schema).equals(pa.concat_tables([data, data]))


def packable(rows: int) -> pa.Table:
    """Columns without nulls that need few bits of each value."""
    return pa.table({"k": pa.array(range(rows), pa.int64()),
                     "day": pa.array([18_000 + k // 100 for k in range(rows)], pa.int32()).cast(pa.date32()),
                     "m": pa.array([decimal.Decimal(k * 7 % 1000) / 100 for k in range(rows)], pa.decimal64(15, 2)),
                     "at": pa.array([1_700_000_000_000 + k * 1000 for k in range(rows)], pa.timestamp("ms")),
                     "u": pa.array([k % 50 for k in range(rows)], pa.uint16())})


def test_packed_columns_are_moved_as_they_are_stored(session, table):
    data = packable(10_000)
    table.put(data, nodes="n2", group_rows=3000, packed=True)
    plain_one = session.table(fresh()).put(data, nodes="n2", group_rows=3000)
    with table.snapshot() as seen:
        assert_same(seen.to_arrow(), data)
        # No padding: a packed block is a multiple of 64 bytes.
        assert seen.bytes_moved == seen.nbytes == sum(chunk.nbytes for i in range(5) for chunk in seen.chunks(i))
        before = seen.bytes_moved
        assert seen.select(["day", "u"], [("k", "<", 3000)]).to_arrow().equals(data.select(["day", "u"]).slice(0, 3000))
        assert seen.bytes_moved - before == sum(seen.chunks(seen.index(name))[0].nbytes for name in ("k", "day", "u"))
    assert_same(plain_one.to_arrow(), data)
    assert table.nbytes < plain_one.bytes_moved / 2
    plain_one.drop()


def test_packing_leaves_schema_and_bounds(session, table):
    data = every_type()
    data = pa.concat_tables([data] * 100)
    table.put(data, packed=True)
    plain_one = session.table(fresh()).put(data)
    assert table.schema == plain_one.schema and table.nbytes < plain_one.nbytes
    kept = ["group", "column", "rows", "nulls", "minimum", "maximum"]
    assert table.stats().select(kept).equals(plain_one.stats().select(kept))
    for name in ("int64", "date32", "decimal64", "zoned"):
        assert table.stats(name)["minimum"].equals(plain_one.stats(name)["minimum"])
    plain_one.drop()


def test_appends_follow_a_packed_table(table):
    data = packable(5000)
    table.put(data.slice(0, 0), packed=True)
    table.append(data).append(data, packed=True)
    assert_same(table.to_arrow(), pa.concat_tables([data, data]))
    first, second = table.snapshot().chunks(0)
    assert first.nbytes == second.nbytes < data["k"].nbytes / 2


def shared_dictionary(rows: int, index: pa.DataType) -> pa.Table:
    """A dictionary of a megabyte whose buffers are whole 64 bytes, which are stored without padding."""
    words = pa.array([f"{k:064d}" for k in range(16_383)])
    return pa.table({"d": pa.DictionaryArray.from_arrays(pa.array([k * 7 % 16_383 for k in range(rows)], index), words),
                     "k": pa.array(range(rows), pa.int64())})


@pytest.mark.parametrize("options", [{}, {"packed": True}, {"compact": True}, {"packed": True, "compact": True}],
                         ids=str)
def test_a_dictionary_that_row_groups_share_is_moved_once(table, options):
    data = shared_dictionary(16_384, pa.int32())
    table.put(data, nodes=["n2", "n3"], group_rows=2048, **options)
    index = pa.int16() if options.get("compact") else pa.int32()
    wanted = data.set_column(0, "d", data["d"].cast(pa.dictionary(index, pa.string())))
    with table.snapshot() as seen:
        assert_same(seen.to_arrow(), wanted)
        assert seen.bytes_moved == seen.nbytes
        chunks = seen.chunks(0)
        dictionary_bytes = 64 * 1024 + 64 * 16_383
        assert len(chunks) == 8 and all(chunk.nbytes > dictionary_bytes for chunk in chunks)
        alone = sum(chunk.nbytes - dictionary_bytes for chunk in chunks) + dictionary_bytes
        assert alone + sum(chunk.nbytes for chunk in seen.chunks(1)) == seen.nbytes
        # Each scan moves it anew, and another segment has its own.
        before = seen.bytes_moved
        assert_same(seen.select(["d"]).to_arrow(), wanted.select(["d"]))
        assert seen.bytes_moved - before == alone
    table.append(data, nodes="n2", group_rows=2048)
    with table.snapshot() as seen:
        assert_same(seen.select(["d"]).to_arrow(), pa.concat_tables([wanted, wanted]).select(["d"]))
        assert seen.bytes_moved == 2 * alone


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("nodes", [["n2", "n1"], ["n1", "n2"]], ids=str)
def test_row_groups_here_may_have_their_dictionary_elsewhere(table, nodes, packed):
    data = shared_dictionary(16_384, pa.int32()).select(["d"])
    table.put(data, nodes=nodes, group_rows=2048, packed=packed)
    dictionary_bytes = 64 * 1024 + 64 * 16_383
    with table.snapshot() as seen:
        assert [chunk.local for chunk in seen.chunks(0)] == [node == "n1" for node in nodes] * 4
        assert_same(seen.to_arrow(), data)
        # It lies where the first row group does.
        elsewhere = sum(chunk.nbytes - dictionary_bytes for chunk in seen.chunks(0) if not chunk.local)
        assert seen.bytes_moved == elsewhere + (dictionary_bytes if nodes[0] == "n2" else 0)


@pytest.mark.parametrize("cached", [False, True])
def test_indices_of_no_bits_have_a_dictionary_that_is_moved(cluster, cached):
    with oncilla.connect(cluster["n1"].socket_path) as session:
        word = "w" * 64_000
        data = pa.table({"z": pa.DictionaryArray.from_arrays(pa.array([0, 0, None, 0] * 2000, pa.int32()), [word]),
                         "same": pa.DictionaryArray.from_arrays(pa.array([0] * 8000, pa.int16()), [word + "."])})
        table = session.table(fresh()).put(data, nodes="n2", group_rows=2000, packed=True)
        session.cache(cached << 20)
        assert_same(table.select(["same"]).to_arrow(), data.select(["same"]))
        moved_bytes = 64 + 64_064  # two offsets and the word, both padded
        assert table.bytes_moved == moved_bytes
        assert_same(table.select(["same"]).to_arrow(), data.select(["same"]))
        assert table.bytes_moved == (moved_bytes if cached else 2 * moved_bytes)
        before = table.bytes_moved
        assert_same(table.select(["z"]).to_arrow(), data.select(["z"]))
        assert table.bytes_moved - before == 64 + 64_000 + 4 * 256  # and four bitmaps of 250 bytes
        table.drop()


def test_values_that_are_all_the_same_take_no_bytes_and_lie_on_no_node(table):
    data = pa.table({"x": pa.array([7] * 5000, pa.int64()), "y": pa.array(range(5000), pa.int64()),
                     "z": pa.array(["same"] * 5000).dictionary_encode()})
    table.put(data, nodes="n2", packed=True)
    assert_same(table.to_arrow(), data)
    dictionary_bytes = 2 * 4 + len("same")
    assert table.placement() == {"x": {}, "y": {"n2": table.nbytes - dictionary_bytes}, "z": {"n2": dictionary_bytes}}
    assert [chunk.local for i in range(3) for chunk in table.snapshot().chunks(i)] == [True, False, False]
    assert table.stats("x")["minimum"].to_pylist() == [7]
    assert table.column("x").to_numpy().tolist() == [7] * 5000
    page = table._repr_html_()
    assert page.count("n2") == 3 and "rows 0 to 5,000, 0 B" in page  # the legend, and the cells of y and z


# ------------------------------------------------------------------ progress, asyncio, cache

def test_progress_is_told_and_can_stop(session, table):
    told = []
    table.put(numbered(1000), group_rows=100, progress=lambda rows, nbytes: told.append((rows, nbytes)))
    assert [rows for rows, _ in told] == list(range(100, 1001, 100)) and told[-1][1] >= table.nbytes * 0.9
    other = session.table(fresh())
    with pytest.raises(oncilla.Cancelled):
        other.put(numbered(1000), group_rows=100, progress=lambda rows, _: rows < 300)
    assert not other.exists

    def raising(rows, nbytes):
        raise ZeroDivisionError("on purpose")
    with pytest.raises(ZeroDivisionError):
        other.put(numbered(1000), group_rows=100, progress=raising)
    assert not other.exists


def test_a_bar_is_drawn(table, capsys):
    table.put(numbered(1000), group_rows=100, progress=True)
    assert "done" in capsys.readouterr().err


def test_what_a_source_raises_is_raised(table):
    def broken():
        yield from numbered(10).to_batches()
        raise ZeroDivisionError("on purpose")
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        table.put(broken())
    reader = pa.RecordBatchReader.from_batches(numbered(0).schema, broken())
    with pytest.raises(oncilla.IoError, match="on purpose"):
        table.put(reader)
    assert not table.exists


def test_asyncio(session, table):
    async def work():
        await asyncio.gather(table.aput(numbered(100), group_rows=10),
                             session.table(table.name + "2").aput(numbered(5)))
        await table.aappend(numbered(100, 100))
        return [batch.num_rows async for batch in table.select(["k"], batch_rows=50).abatches()]
    assert sum(asyncio.run(work())) == 200
    session.table(table.name + "2").drop()


def test_cancelling_a_put_leaves_nothing(table):
    async def work():
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def endless():
            while True:
                loop.call_soon_threadsafe(begun.set)
                yield numbered(100).combine_chunks().to_batches()[0]
        task = asyncio.ensure_future(table.aput(endless(), group_rows=100))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    asyncio.run(work())
    assert not table.exists


def test_the_cache_makes_the_second_scan_local(cluster):
    with oncilla.connect(cluster["n1"].socket_path) as session:
        table = session.table(fresh()).put(numbered(1000), nodes="n2")
        session.cache(1 << 20)
        for _ in range(2):
            assert_same(table.select(["k", "v"]).to_arrow(), numbered(1000).select(["k", "v"]))
        moved = table.bytes_moved
        assert 16_000 <= moved <= 17_000
        info = session.cache.info()
        assert info["limit_bytes"] == 1 << 20 and info["hits"] == 2 and info["misses"] == 2
        assert 16_000 <= info["used_bytes"] <= 1 << 20 and "of 1.00 MiB" in repr(session.cache)
        session.cache.clear()
        table.select(["k"]).to_arrow()
        assert table.bytes_moved > moved
        session.cache(0)
        assert session.cache.info()["used_bytes"] == 0
        table.drop()


def test_an_embedded_pool_has_tables(embedded):
    table = embedded.table("inside").put(every_type())
    assert_same(table.to_arrow(), plain(every_type()))
    assert embedded.tables() == ["inside"]


def test_fork_leaves_the_parent_its_tables(session, table):
    table.put(numbered(100), nodes=["n1", "n2"], group_rows=50)
    mine = table.to_arrow()
    child = os.fork()
    if child == 0:
        try:
            table.to_arrow()
        except oncilla.Error:
            del mine
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert_same(mine, numbered(100))
    assert_same(table.to_arrow(), numbered(100))
