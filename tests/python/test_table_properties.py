"""Hypothesis: whatever table goes in comes out as pyarrow has it, whole, in columns and filtered."""
from __future__ import annotations

import datetime
import decimal
import operator

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tables import assert_same, fresh, plain

PROFILE = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
PLACES = [{"nodes": "n1"}, {"nodes": "n2"}, {"place": "column"}, {"nodes": ["n1", "n2", "n3"]}, {"remote": True}]

_integers = {kind: st.integers(*bounds) for kind, bounds in {
    pa.int8(): (-2**7, 2**7 - 1), pa.int16(): (-2**15, 2**15 - 1), pa.int32(): (-2**31, 2**31 - 1),
    pa.int64(): (-2**63, 2**63 - 1), pa.uint8(): (0, 2**8 - 1), pa.uint16(): (0, 2**16 - 1),
    pa.uint32(): (0, 2**32 - 1), pa.uint64(): (0, 2**64 - 1)}.items()}
_days = st.dates(datetime.date(1700, 1, 1), datetime.date(2200, 1, 1))
_moments = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def _decimals(precision: int, scale: int):
    top = 10**precision - 1
    return st.integers(-top, top).map(lambda n: decimal.Decimal(n).scaleb(-scale, decimal.Context(prec=80)))


# What can be compared, with a strategy for its values.
ORDERED = {
    **_integers, pa.bool_(): st.booleans(), pa.float32(): st.floats(width=32, allow_nan=True),
    pa.float64(): st.floats(allow_nan=True), pa.date32(): _days,
    pa.timestamp("us"): _moments, pa.timestamp("s"): _moments.map(lambda m: m.replace(microsecond=0)),
    pa.timestamp("ns", "UTC"): _moments.map(lambda m: m.replace(tzinfo=datetime.timezone.utc)),
    pa.time64("us"): st.times(), pa.decimal64(15, 2): _decimals(15, 2), pa.decimal128(15, 2): _decimals(15, 2),
    pa.decimal128(38, 10): _decimals(38, 10), pa.string(): _texts, pa.large_string(): _texts,
}
OTHER = {
    pa.null(): st.none(), pa.string_view(): _texts, pa.binary(): st.binary(max_size=20),
    pa.binary(5): st.binary(min_size=5, max_size=5), pa.binary_view(): st.binary(max_size=20),
    pa.duration("ms"): st.timedeltas().map(lambda d: d - d % datetime.timedelta(milliseconds=1)),
    pa.decimal256(60, 5): _decimals(60, 5),
}


@st.composite
def kinds(draw, depth: int = 2):
    """A type and a strategy for its values."""
    plain_ones = st.sampled_from([*ORDERED.items(), *OTHER.items()])
    if depth == 0:
        return draw(plain_ones)
    shape = draw(st.sampled_from(["plain"] * 5 + ["dictionary", "list", "large_list", "fixed", "struct", "map"]))
    if shape == "plain":
        return draw(plain_ones)
    if shape == "dictionary":
        index = draw(st.sampled_from([pa.int8(), pa.int16(), pa.int32()]))
        return pa.dictionary(index, pa.string()), st.sampled_from(["a", "b", "", "längst"])
    inner, values = draw(kinds(depth - 1))
    if pa.types.is_dictionary(inner) or inner in (pa.null(), pa.string_view(), pa.binary_view()):
        inner, values = pa.string(), _texts  # pyarrow itself casts and slices those wrongly inside others
    items = st.none() | values
    if shape == "list":
        return pa.list_(inner), st.lists(items, max_size=4)
    if shape == "large_list":
        return pa.large_list(inner), st.lists(items, max_size=4)
    if shape == "fixed":
        return pa.list_(inner, 2), st.lists(items, min_size=2, max_size=2)
    if shape == "map":
        return pa.map_(pa.string(), inner), st.lists(st.tuples(_texts, items), max_size=3)
    return pa.struct([("p", inner), ("q", pa.int32())]), st.fixed_dictionaries(
        {"p": items, "q": st.none() | _integers[pa.int32()]})


ANY_KIND = kinds()


@st.composite
def tables(draw, choice=ANY_KIND, rows_max: int = 40):
    """A table of up to four columns, cut out of a longer one (so that offsets are not 0), in chunks."""
    rows = draw(st.integers(0, rows_max))
    before, after = draw(st.integers(0, 9)), draw(st.integers(0, 3))
    columns = {}
    for i in range(draw(st.integers(1, 4))):
        kind, values = draw(choice)
        count = before + rows + after
        some = st.none() | values if draw(st.booleans()) else values
        columns[f"c{i}"] = pa.array(draw(st.lists(some, min_size=count, max_size=count)), kind)
    cut = pa.table(columns).slice(before, rows)
    at = draw(st.lists(st.integers(0, rows), max_size=3).map(sorted))
    pieces = [cut.slice(a, b - a) for a, b in zip([0, *at], [*at, rows])]
    return pa.concat_tables(pieces)


@pytest.fixture
def made(session):
    """Stores a table under a fresh name; all are dropped after the test."""
    stored = []

    def make(data: pa.Table, **options):
        stored.append(session.table(fresh("p")).put(data, **options))
        return stored[-1]
    yield make
    for table in stored:
        table.drop(missing_ok=True)


@PROFILE
@given(data=tables(), place=st.sampled_from(PLACES), group_rows=st.integers(1, 50), compact=st.booleans(),
       packed=st.booleans())
def test_what_goes_in_comes_out(made, data, place, group_rows, compact, packed):
    table = made(data, group_rows=group_rows, compact=compact, packed=packed, **place)
    got = table.to_arrow()
    if compact:
        got = got.cast(plain(data).schema)
    assert_same(got, plain(data))
    table.drop()


@st.composite
def narrow_tables(draw):
    """Thousands of rows of integers in small ranges anywhere in their type, cut out of a longer table, in chunks."""
    rows = draw(st.integers(1, 5000))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns = {}
    for i in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from([*_integers, pa.date32(), pa.timestamp("us"), pa.decimal64(18, 2), pa.bool_()]))
        width = 64 if kind == pa.bool_() else kind.bit_width
        signed = not str(kind).startswith("uint")
        low, high = (-2**(width - 1), 2**(width - 1) - 1) if signed else (0, 2**width - 1)
        if pa.types.is_decimal(kind):
            low, high = -10**18 + 1, 10**18 - 1
        base = draw(st.integers(low, high) | st.sampled_from([low, 0, high]))
        distance = random.integers(0, 2**draw(st.integers(0, min(width, 33))), rows, np.uint64, endpoint=True)
        values = [min(base + int(one), high) for one in distance]
        nulls = random.random(rows) < draw(st.sampled_from([0, 0.3, 1]))
        if kind == pa.bool_():
            array = pa.array([value % 2 == 1 for value in values], mask=nulls)
        else:
            plain_kind = pa.from_numpy_dtype(f"{'int' if signed else 'uint'}{width}")
            array = pa.array(values, plain_kind, mask=nulls).view(kind)
        columns[f"c{i}"] = array
    data = pa.table(columns).slice(draw(st.integers(0, 9)))
    at = draw(st.lists(st.integers(0, data.num_rows), max_size=3).map(sorted))
    return pa.concat_tables([data.slice(a, b - a) for a, b in zip([0, *at], [*at, data.num_rows])])


@PROFILE
@given(data=narrow_tables(), place=st.sampled_from(PLACES), group_rows=st.integers(900, 5000),
       batch_rows=st.integers(100, 3000))
def test_packed_rows_come_out_in_batches_of_any_length(made, data, place, group_rows, batch_rows):
    table = made(data, group_rows=group_rows, packed=True, **place)
    assert_same(table.select(batch_rows=batch_rows, validate=True).to_arrow(), data)
    plain_one = made(data, group_rows=group_rows, **place)
    assert table.nbytes <= plain_one.nbytes
    for name in data.column_names:
        assert table.snapshot().bounds(name) == plain_one.snapshot().bounds(name)
    table.drop()
    plain_one.drop()


@PROFILE
@given(data=tables(), more=st.integers(0, 2), place=st.sampled_from(PLACES), group_rows=st.integers(1, 50),
       packed=st.booleans())
def test_appends_come_out_behind(made, data, more, place, group_rows, packed):
    table = made(data, group_rows=group_rows, packed=packed, **place)
    for _ in range(more):
        table.append(data, **place)
    assert_same(table.to_arrow(), plain(pa.concat_tables([data] * (more + 1))))
    table.drop()


@PROFILE
@given(data=tables(), place=st.sampled_from(PLACES), group_rows=st.integers(1, 50), packed=st.booleans(),
       pick=st.data())
def test_columns_alone_are_the_same_columns(made, data, place, group_rows, packed, pick):
    table = made(data, group_rows=group_rows, packed=packed, **place)
    names = pick.draw(st.lists(st.sampled_from(data.column_names), unique=True))
    got = table.select(names, batch_rows=pick.draw(st.integers(1, 60))).to_arrow()
    if names:
        assert_same(got, plain(data).select(names))
    else:
        assert sum(batch.num_rows for batch in table.select([]).batches()) == data.num_rows
    table.drop()


def ascending(data: pa.Table) -> pa.Table:
    """The rows by the first column, so that bounds tell row groups apart; nulls and NaN last."""
    values = data[data.column_names[0]].to_pylist()
    odd = [value is None or value != value for value in values]
    order = sorted((i for i in range(len(values)) if not odd[i]), key=values.__getitem__)
    return data.take(pa.array([*order, *(i for i in range(len(values)) if odd[i])], pa.int64()))


OPERATORS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
             ">=": operator.ge}


@st.composite
def terms(draw, data: pa.Table):
    """(column, operator, value), the value often one of the column's."""
    column = draw(st.sampled_from(data.column_names))
    kind = data.schema.field(column).type
    there = [value for value in data[column].to_pylist() if value is not None]
    value = draw(st.sampled_from(there) if there and draw(st.booleans()) else ORDERED[kind])
    if draw(st.integers(0, 4)) == 0 and not pa.types.is_floating(kind):
        return column, draw(st.sampled_from(["in", "not in"])), [value, *there[:2]]
    return column, draw(st.sampled_from(sorted(OPERATORS))), value


def expression(term, schema: pa.Schema) -> pc.Expression:
    """The oracle's own form of a term, with scalars of the column's type."""
    column, op, value = term
    kind = schema.field(column).type
    if op in ("in", "not in"):
        if pa.types.is_decimal(kind) and kind.bit_width < 128:  # where pyarrow has no is_in
            members = pc.field(column).cast(pa.decimal128(kind.precision, kind.scale)).isin(
                pa.array(value, pa.decimal128(kind.precision, kind.scale)))
        else:
            members = pc.field(column).isin(pa.array(value, kind))
        return members if op == "in" else ~members
    return OPERATORS[op](pc.field(column), pa.scalar(value, kind))


@PROFILE
@given(data=tables(st.sampled_from(list(ORDERED.items()))), place=st.sampled_from(PLACES),
       group_rows=st.integers(1, 50), packed=st.booleans(), ordered=st.booleans(), pick=st.data())
def test_filters_are_pyarrows(made, data, place, group_rows, packed, ordered, pick):
    data = ascending(data) if ordered else data
    table = made(data, group_rows=group_rows, packed=packed, **place)
    either = pick.draw(st.lists(st.lists(terms(data), min_size=1, max_size=2), min_size=1, max_size=2))
    wanted = None
    for group in either:
        one = expression(group[0], data.schema)
        for term in group[1:]:
            one = one & expression(term, data.schema)
        wanted = one if wanted is None else wanted | one
    expected = data.filter(wanted)
    names = pick.draw(st.lists(st.sampled_from(data.column_names), unique=True, min_size=1))
    for condition in (either, wanted):
        assert_same(table.select(names, condition).to_arrow(), expected.select(names))
        assert table.select(names, condition).count() == expected.num_rows
    table.drop()


@pytest.fixture(scope="module")
def connection():
    """A DuckDB connection for many statements."""
    with duckdb.connect() as one:
        yield one


@PROFILE
@given(data=tables(st.sampled_from(list(ORDERED.items()))), group_rows=st.integers(1, 20), pick=st.data())
def test_duckdb_and_polars_filter_as_they_do_alone(made, connection, data, group_rows, pick):
    data = ascending(data)
    table = made(data, group_rows=group_rows, nodes=["n1", "n2"])
    column, op, value = pick.draw(terms(data).filter(lambda term: "in" not in term[1]))
    # DuckDB: the same statement over the pyarrow.Table; Polars: the same expression over the frame.
    kind = data.schema.field(column).type
    if not (pa.types.is_decimal(kind) or pa.types.is_time(kind) or kind == pa.timestamp("ns", "UTC")):
        sql = f"select columns(*)::varchar from source where {column} {'=' if op == '==' else op} $1"
        typed = connection.execute(f"select typeof({column}) from data limit 1").fetchone()
        sql = sql.replace("$1", f"$1::{typed[0]}") if typed else sql
        answers = [repr(connection.execute(sql, [value]).fetchall()) for source in (table, data)]
        assert answers[0] == answers[1]
    frame = polars.DataFrame(data)
    condition = OPERATORS[op](polars.col(column), polars.lit(value, dtype=frame.schema[column]))
    assert table.scan_polars().filter(condition).collect().equals(frame.filter(condition))
    table.drop()
