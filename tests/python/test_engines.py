"""Every engine over tables in every place gives what it gives over the same data in the program."""
from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
import threading
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest

import oncilla
from harness import wait_for
from tables import fresh

ROWS = 2000
PLACES: dict[str, dict[str, Any]] = {
    "local": {"nodes": "n1"}, "remote": {"nodes": "n2"}, "rows": {"nodes": ["n1", "n2", "n3"]},
    "column": {"place": "column"}, "replicas": {"replicas": 2, "remote": True}, "compact": {"compact": True},
    "packed": {"packed": True}, "packed remote": {"packed": True, "compact": True, "remote": True},
}


def data() -> pa.Table:
    """Orders by day: `day` and `k` ascend, so that bounds tell row groups apart."""
    first = datetime.date(2020, 1, 1)
    return pa.table({
        "k": pa.array(range(ROWS), pa.int64()),
        "day": pa.array([first + datetime.timedelta(days=i // 20) for i in range(ROWS)]),
        "price": pa.array([None if i % 50 == 0 else i * 7 % 1000 / 4 for i in range(ROWS)], pa.float64()),
        "money": pa.array([decimal.Decimal(i) / 4 for i in range(ROWS)], pa.decimal128(15, 2)),
        "city": pa.array([("Berlin", "Lima", "Oslo", None)[i % 4] for i in range(ROWS)]),
        "tags": pa.array([["a"] * (i % 3) for i in range(ROWS)]),
        "spot": pa.array([{"x": i, "y": float(i)} for i in range(ROWS)]),
    })


@pytest.fixture(scope="module")
def stored(cluster):
    """The same data in each place, by the place's name."""
    with oncilla.connect(cluster["n1"].socket_path) as session:
        tables = {place: session.table(fresh("e")).put(data(), group_rows=150, **options)
                  for place, options in PLACES.items()}
        yield tables
        for table in tables.values():
            table.drop()


@pytest.fixture(params=PLACES)
def t(request, stored):
    """The data as a table in one place."""
    return stored[request.param]


QUERIES = {
    "all": "select * from t order by k",
    "sum": "select sum(k), sum(money), count(*), count(price) from t",
    "filter": "select k, price from t where day >= date '2020-02-01' and day < date '2020-02-11' order by k",
    "one": "select * from t where k = 777",
    "none": "select count(*), sum(price) from t where k > 100000",
    "money": "select count(*), sum(money) from t where money between 100.00 and 200.50",
    "text": "select city, count(*) from t where city in ('Lima', 'Oslo') group by city order by city",
    "null": "select count(*) from t where price is null or city is null",
    "not": "select count(*) from t where not (k < 1900) and city is not null",
    "or": "select sum(k) from t where k < 10 or k >= 1990 or (day = date '2020-03-01' and price > 5)",
    "join": "select count(*), sum(b.k) from t a join t b on a.k = b.k + 1 where a.k < 500 and b.city = 'Lima'",
    "nested": "select sum(len(tags)), sum(spot.x) from t where spot.y > 100",
    "limit": "select k from t where k >= 150 order by k limit 3",
    "empty": "select count(*) from t",
}


@pytest.mark.parametrize("query", QUERIES)
def test_duckdb_replacement_scan(t, query):
    got = duckdb.connect().sql(QUERIES[query]).fetchall()
    t = data()  # noqa: F841
    assert got == duckdb.connect().sql(QUERIES[query]).fetchall()


class Moved:
    """Bytes that a table moved inside a with block."""

    def __init__(self, table: oncilla.Table):
        self.table = table

    def __enter__(self):
        self.before = self.table.bytes_moved
        return self

    def __exit__(self, *_):
        self.nbytes = self.table.bytes_moved - self.before


def test_duckdb_moves_only_the_columns_of_the_query(stored):
    t = stored["remote"]
    connection = duckdb.connect()
    with Moved(t) as one:
        connection.sql("select sum(k) from t").fetchall()
    assert 8 * ROWS <= one.nbytes <= 8 * ROWS * 1.05
    with Moved(t) as two:
        connection.sql("select sum(money), max(k) from t").fetchall()
    assert 24 * ROWS <= two.nbytes <= 24 * ROWS * 1.05


def test_duckdb_leaves_out_row_groups_by_their_bounds(stored):
    t = stored["remote"]
    connection = duckdb.connect()
    with Moved(t) as everything:
        connection.sql("select sum(k), sum(price) from t").fetchall()
    with Moved(t) as some:
        connection.sql("select sum(price) from t where k between 300 and 310").fetchall()
    assert 0 < some.nbytes <= everything.nbytes / 6
    with Moved(t) as none:
        connection.sql("select sum(price) from t where k < 0").fetchall()
    assert none.nbytes == 0
    with Moved(t) as days:
        connection.sql("select sum(k) from t where day > date '2020-03-20' and city = 'Lima'").fetchall()
    assert 0 < days.nbytes < everything.nbytes / 2


def test_duckdb_takes_over_a_filter_only_where_it_leaves_out_more_than_it_has_to_filter(stored):
    t = stored["local"]  # noqa: F841
    connection = duckdb.connect()
    for where, filters in (("k < 400", False), ("k < 1900", True), ("price > 1", True), ("city = 'Lima'", True)):
        plan = connection.sql(f"explain select sum(price) from t where {where}").fetchall()[0][1]
        assert ("─ Filter ─" in plan) == filters, plan


def test_duckdb_knows_how_many_rows_there_are(stored):
    t = stored["remote"]  # noqa: F841
    assert "2,000 rows" in duckdb.connect().sql("explain select k from t").fetchall()[0][1]


def test_duckdb_sees_appends_and_snapshots(cluster):
    with oncilla.connect(cluster["n1"].socket_path) as session:
        t = session.table(fresh()).put({"k": [1, 2]})
        connection = duckdb.connect()
        connection.register("kept", t)
        with t.snapshot() as s:  # noqa: F841
            t.append({"k": [10]})
            assert connection.sql("select sum(k) from s").fetchall() == [(3,)]
        assert connection.sql("select sum(k) from t").fetchall() == [(13,)]
        assert connection.sql("select sum(k) from kept where k > 5").fetchall() == [(10,)]
        t.put({"other": ["x"]}, replace=True)
        assert connection.sql("select * from kept").fetchall() == [("x",)]
        t.drop()


def test_duckdb_reads_one_version_where_a_statement_names_a_table_twice(cluster):
    with oncilla.connect(cluster["n1"].socket_path) as session, oncilla.connect(cluster["n2"].socket_path) as other:
        name = fresh("twice")
        t = session.table(name).put(pa.table({"a": [1]}))
        ended = threading.Event()

        def append():
            for _ in range(400):  # each costs every later statement a little
                if ended.wait(0.003):
                    return
                other.table(name).append(pa.table({"a": [1] * 100}))
        writer = threading.Thread(target=append)
        writer.start()
        try:
            with duckdb.connect() as connection:
                connection.register("t", t)
                rows: list = []
                while writer.is_alive() and (len(rows) < 20 or len(set(rows)) == 1):
                    rows.append(connection.execute("select (select count(*) from t), (select sum(a) from t), "
                                                   "(select count(*) from t where a > 0)").fetchone())
        finally:
            ended.set()
            writer.join()
        assert all(len(set(row)) == 1 for row in rows), rows
        assert len(set(rows)) > 1, "each statement the newest version"
        t.drop()


def test_duckdb_prepared_statements_and_relations_run_again(stored):
    t = stored["rows"]  # noqa: F841
    connection = duckdb.connect()
    relation = connection.sql("select count(*) as n from t where k < 300")
    prepared = connection.execute("select count(*) from t where k < $1", [300]).fetchall()
    assert relation.fetchall() == prepared == [(300,)]
    assert relation.filter("n > 5").fetchall() == [(300,)]


def test_duckdb_views_of_all_tables(cluster):
    with oncilla.connect(cluster["n1"].socket_path) as session:
        for i in range(2):
            session.table(f"views_{i}").put({"k": [i, i]})
        connection = duckdb.connect()
        from oncilla.duckdb import register
        assert register(connection, session, prefix="views_") == ["views_0", "views_1"]
        sums = "select (select sum(k) from views_0), (select sum(k) from views_1)"
        assert connection.sql(sums).fetchall() == [(0, 2)]
        for i in range(2):
            session.table(f"views_{i}").drop()


def test_duckdb_without_pyarrow(cluster):
    program = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('pyarrow', 'pandas'):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
import duckdb, oncilla, polars
with oncilla.connect({str(cluster['n1'].socket_path)!r}) as session:
    t = session.table('bare').put(duckdb.sql("select i as k, i * 2 as v from range(1000) r(i)"), group_rows=100)
    assert duckdb.sql("select sum(v) from t where k < 300").fetchall() == [(89700,)]
    assert duckdb.sql("select sum(v) from t where k = 250").fetchall() == [(500,)]
    assert polars.DataFrame(t)["v"].sum() == 999000
    assert t.scan_polars().filter(polars.col("k") < 300).select("v").sum().collect().item() == 89700
    assert len(t) == 1000 and t.column_names == ["k", "v"]
    t.drop()
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "fine\n", done.stderr


def test_importing_oncilla_imports_no_engine():
    program = "import sys, oncilla, oncilla.table; print([m for m in ('pyarrow', 'duckdb', 'polars', 'pandas', " \
              "'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("use", [
    "t.select(['k'], filter=[('k', '>', 1)]).to_arrow()", "t.select(filter=[('k', 'in', [1])]).count()",
    "t.select().to_pandas()", "t.scan_polars().collect()", "t.dataset().to_table()", "t.stats('k')",
    "t.append({'k': [4]})"])
def test_every_use_imports_what_it_needs(session, use):
    t = session.table("imports").put({"k": [1, 2, 3]}, replace=True)
    program = f"import oncilla; t = oncilla.connect({str(session.socket)!r}).table('imports'); {use}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    t.drop()
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------ Polars

def frame(source) -> polars.LazyFrame:
    return source.scan_polars() if isinstance(source, oncilla.table.Table) else polars.DataFrame(source).lazy()


LAZY = {
    "all": lambda f: f,
    "columns": lambda f: f.select("price", "k"),
    "filter": lambda f: f.filter(polars.col("k") >= 1990).select("city", "k"),
    "between": lambda f: f.filter(
        polars.col("day").is_between(datetime.date(2020, 2, 1), datetime.date(2020, 2, 5))),
    "both": lambda f: f.filter((polars.col("k") < 30) & (polars.col("city") == "Lima")),
    "or": lambda f: f.filter((polars.col("k") < 3) | (polars.col("k") > 1997)),
    "mirrored": lambda f: f.filter(1995 < polars.col("k")),
    "null": lambda f: f.filter(polars.col("price").is_null()).select("k"),
    "group": lambda f: f.group_by("city").agg(polars.col("k").sum(), polars.len()).sort("city", nulls_last=True),
    "head": lambda f: f.filter(polars.col("k") > 149).head(7),
    "top": lambda f: f.select("k").sort("k", descending=True).head(3),
    "join": lambda f: f.join(f.select("k", right="price"), on="k").filter(polars.col("k") < 5).select(
        "k", "right").sort("k"),
    "count": lambda f: f.select(polars.len()),
    "computed": lambda f: f.filter(polars.col("k") * 2 > 3990).select(polars.col("price") + 1),
    "list": lambda f: f.filter(polars.col("tags").list.len() == 2).select("k", "tags", "spot").tail(2),
}


@pytest.mark.parametrize("query", LAZY)
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars_scan(t, query, engine):
    wanted = LAZY[query](frame(data())).collect()
    got = LAZY[query](frame(t)).collect(engine=engine)
    if "city" in got.columns:  # compact: dictionaries
        got = got.with_columns(polars.col("city").cast(polars.String))
    if "city" in got.columns and query == "group":
        got = got.sort("city", nulls_last=True)
    assert got.equals(wanted)


def test_polars_moves_only_what_it_needs(stored):
    t = stored["remote"]
    with Moved(t) as column:
        t.scan_polars().select("k").collect()
    assert 8 * ROWS <= column.nbytes <= 8 * ROWS * 1.05
    with Moved(t) as few:
        t.scan_polars().filter(polars.col("k") == 777).select("price").collect()
    assert 0 < few.nbytes <= 16 * 150 * 1.3
    with Moved(t) as none:
        t.scan_polars().filter(polars.col("k") < 0).collect()
    assert none.nbytes == 0


@pytest.mark.parametrize("column", ["stamp", "time", "length"])
def test_polars_filters_by_values_that_python_has_no_type_for(session, column):
    stamps = [1_700_000_000_000_000_000 + 100 * i for i in range(200)]
    times = [3_600_000_000_000 + 100 * i for i in range(200)]
    data = pa.table({"stamp": pa.array(stamps).cast(pa.timestamp("ns")), "time": pa.array(times).cast(pa.time64("ns")),
                     "length": pa.array(times).cast(pa.duration("ns"))})
    t = session.table(fresh("ns")).put(data, group_rows=10)
    frame = polars.DataFrame(data)
    values = stamps if column == "stamp" else times
    for value in (values[0], values[3], values[10], values[155]):
        literal = polars.lit(value).cast(frame.schema[column])
        for condition in (polars.col(column) < literal, polars.col(column) <= literal,
                          polars.col(column) == literal, literal < polars.col(column)):
            assert t.scan_polars().filter(condition).collect().equals(frame.filter(condition)), condition
    t.drop()


def test_polars_takes_the_first_rows_before_it_filters(t):
    frame = polars.DataFrame(data())
    for rows in (5, 170, 3000):
        for condition in (polars.col("k") >= 4, polars.col("k") > 160, polars.col("city") == "Oslo"):
            got = t.scan_polars().head(rows).filter(condition).select("k", "city").collect()
            assert got.equals(frame.head(rows).filter(condition).select("k", "city"))
            got = t.scan_polars().filter(condition).head(rows).select("k", "city").collect()
            assert got.equals(frame.filter(condition).head(rows).select("k", "city"))


def test_polars_frames_from_tables_and_selections(t):
    wanted = polars.DataFrame(data()).drop("city")
    names = [name for name in data().column_names if name != "city"]
    for got in (t.select(names).to_polars(), polars.DataFrame(t.select(names)), t.to_polars().drop("city")):
        assert got.equals(wanted)


# ------------------------------------------------------------------ pandas, pyarrow, capsules

def test_pandas(t):
    wanted = data().to_pandas()
    got = t.to_pandas()
    got["city"] = got["city"].astype(object).where(got["city"].notna(), None)
    wanted["city"] = wanted["city"].astype(object).where(wanted["city"].notna(), None)
    pandas.testing.assert_frame_equal(got, wanted)
    arrow = t.select(["k", "price", "money"]).to_pandas(arrow_dtypes=True)
    assert all(isinstance(kind, pandas.ArrowDtype) for kind in arrow.dtypes)
    assert arrow["price"].isna().sum() == ROWS // 50 and arrow["k"].sum() == sum(range(ROWS))


def test_pyarrow(t):
    reader = pa.RecordBatchReader.from_stream(t)
    assert reader.schema == t.schema
    assert reader.read_all().cast(data().schema).equals(data())
    assert pa.table(t).cast(data().schema).equals(data()) and pa.schema(t) == t.schema
    assert pa.table(t.select(["k"], [("k", "<", 5)]))["k"].to_pylist() == [0, 1, 2, 3, 4]


def test_pyarrow_dataset(t):
    dataset = t.dataset()
    assert isinstance(dataset, pyarrow.dataset.Dataset) and dataset.schema == t.schema
    wanted = data().filter(pc.field("k") > 1990)
    condition = pc.field("k") > 1990
    assert dataset.to_table(columns=["price"], filter=condition).equals(wanted.select(["price"]))
    assert dataset.count_rows() == ROWS and dataset.count_rows(filter=condition) == 9
    assert dataset.filter(condition).count_rows(filter=pc.field("k") < 1995) == 4
    assert dataset.head(3)["k"].to_pylist() == [0, 1, 2] and dataset.take([5, 2])["k"].to_pylist() == [5, 2]
    assert sum(batch.num_rows for batch in dataset.to_batches(columns=["k"])) == ROWS
    doubled = dataset.to_table(columns={"twice": pc.field("k") * 2}, filter=condition)
    assert doubled["twice"].to_pylist() == [2 * k for k in range(1991, ROWS)]
    assert dataset.sort_by([("k", "descending")]).head(1)["k"].to_pylist() == [ROWS - 1]
    other = pyarrow.dataset.dataset(pa.table({"k": [3, 4], "z": [30, 40]}))
    pair = t.select(["k", "price"])
    assert pair.to_arrow().join(other.to_table(), "k", join_type="inner").num_rows == 2
    scanner = dataset.scanner(columns=["k"], batch_size=100)
    assert scanner.projected_schema.names == ["k"] and scanner.to_reader().read_next_batch().num_rows <= 100


def test_no_method_of_a_dataset_reaches_the_missing_one(stored):
    """Every attribute that pyarrow's Dataset has is overridden or refused: nothing may crash."""
    dataset = stored["local"].dataset()
    own = type(dataset)
    for name in dir(pyarrow.dataset.Dataset):
        if not name.startswith("__"):
            assert name in vars(own), name
    for refused in (dataset.get_fragments, lambda: dataset.replace_schema(dataset.schema),
                    lambda: dataset._scan_options):
        with pytest.raises(oncilla.Unsupported):
            result = refused()
            result and result()
    with pytest.raises(oncilla.Unsupported):
        import pickle
        pickle.dumps(dataset)


def test_duckdb_over_a_dataset_pushes_into_it(stored):
    t = stored["remote"]
    dataset = t.dataset()  # noqa: F841
    before = duckdb.connect().sql("select sum(price), count(*) from dataset where k between 300 and 310").fetchall()
    assert before == duckdb.connect().sql("select sum(price), count(*) from t where k between 300 and 310").fetchall()


# ------------------------------------------------------------------ the version that stays open for engines

def test_engines_see_what_another_program_did(cluster):
    with oncilla.connect(cluster["n1"].socket_path) as session, oncilla.connect(cluster["n2"].socket_path) as other:
        t = session.table(fresh()).put({"k": [1, 2]})
        elsewhere = other.table(t.name)
        connection = duckdb.connect()
        for change, wanted in ((lambda: None, 3), (lambda: elsewhere.append({"k": [10]}), 13),
                               (lambda: elsewhere.put({"k": [4, 5]}, replace=True), 9)):
            change()
            assert connection.sql("select sum(k) from t").fetchall() == [(wanted,)]
            assert t.scan_polars().sum().collect().item() == wanted
        elsewhere.drop()
        with pytest.raises(duckdb.Error, match="NOT_FOUND"):
            connection.sql("select sum(k) from t").fetchall()


def test_the_version_that_stays_open_is_let_go(make_cluster):
    cluster = make_cluster(1, budget=64 << 20)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        t = session.table("kept").put({"k": range(1 << 20)})
        assert duckdb.connect().sql("select max(k) from t").fetchall() == [((1 << 20) - 1,)]
        session.table("kept").drop()
        assert session.nodes()[0].used_bytes >= 8 << 20
        t.release()
        wait_for("the memory is back", lambda: session.nodes()[0].used_bytes < 1 << 20)
        t.put({"k": range(1 << 20)})
        assert duckdb.connect().sql("select max(k) from t").fetchall() == [((1 << 20) - 1,)]
        session.table("kept").drop()
        assert not t.exists
        with pytest.raises(duckdb.Error, match="NOT_FOUND"):
            duckdb.connect().sql("select max(k) from t").fetchall()
        wait_for("the memory is back", lambda: session.nodes()[0].used_bytes < 1 << 20)
