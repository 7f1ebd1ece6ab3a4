"""Which names are tables, and `register`: one entry that is none, or that is lost, leaves the others usable."""
from __future__ import annotations

import decimal
import warnings

import duckdb
import pyarrow as pa
import pytest

import oncilla
import oncilla.fs
from oncilla.duckdb import register
from tables import fresh, numbered

PART = 4096


def joined(session: oncilla.Session, name: str, end: bytes = b"") -> None:
    """Publishes two parts as one; the last bytes are `end`."""
    parts = [session.allocate(PART, dedicated=True) for _ in range(2)]
    parts[1].put_from(end, PART - len(end)) if end else None
    session.join(parts).publish(name)


@pytest.fixture
def prefix(session):
    """Of the names of one test, removed at the end."""
    prefix = fresh("r")
    yield prefix
    for name in session.names(prefix):
        session.remove(name.name)


def counts(connection, views: list[str]) -> list[int]:
    return [connection.sql(f'select count(*) from "{view}"').fetchall()[0][0] for view in views]


def test_a_large_file_is_no_table(cluster, session, prefix):
    files = oncilla.fs.OcmFileSystem(socket=str(cluster["n1"].socket_path))
    with files.open(f"{prefix}b.parquet", "wb") as file:
        for _ in range(9):
            file.write(bytes(1 << 20))  # two parts
    joined(session, f"{prefix}joined")
    session.table(f"{prefix}c").put(numbered(3))
    session.table(f"{prefix}c").append(numbered(1))
    assert [name for name in session.tables() if name.startswith(prefix)] == [f"{prefix}c"]
    connection = duckdb.connect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert register(connection, session, prefix) == [f"{prefix}c"]
    assert counts(connection, [f"{prefix}c"]) == [4]


def test_what_looks_like_a_table_and_is_none_is_left_out_with_a_warning(session, prefix):
    joined(session, f"{prefix}bad", b"OCMTABLE" + bytes(56))
    session.table(f"{prefix}a").put(numbered(1))
    session.table(f"{prefix}c").put(numbered(3))
    connection = duckdb.connect()
    with pytest.warns(RuntimeWarning, match=f"table {prefix}bad is left out: .*PROTOCOL"):
        views = register(connection, session, prefix)
    assert views == [f"{prefix}a", f"{prefix}c"] and counts(connection, views) == [1, 3]


@pytest.mark.parametrize("name", ["Mine", "my_view", "duckdb_tables", "pg_class"])
def test_a_table_hides_nothing_of_the_database(session, prefix, name):
    session.table(name).put(numbered(3))
    try:
        connection = duckdb.connect()
        connection.execute("create table mine as select 1 as k; create view my_view as select 1 as k")
        with pytest.warns(RuntimeWarning, match=f"table {name} is left out: the database has a table or view of that"):
            assert name not in register(connection, session)
        assert counts(connection, ["mine", "my_view"]) == [1, 1]
        assert connection.sql("show tables").fetchall() and counts(connection, ["pg_class"])[0] < 100_000
    finally:
        session.table(name).drop()


@pytest.mark.parametrize("column", [
    pa.array([1.5], pa.float64()).cast(pa.float16()),
    pa.array([decimal.Decimal("1.5")], pa.decimal256(50, 2)),
    pa.array([decimal.Decimal("100")], pa.decimal128(10, -2)),
    None,
], ids=lambda column: "nothing" if column is None else str(column.type))
def test_a_table_that_duckdb_cannot_read_is_left_out_with_a_warning(session, prefix, column):
    session.table(f"{prefix}a").put(numbered(1))
    session.table(f"{prefix}bad").put(pa.table({} if column is None else {"x": column}))
    session.table(f"{prefix}c").put(numbered(3))
    connection = duckdb.connect()
    with pytest.warns(RuntimeWarning, match=f"table {prefix}bad is left out: "):
        views = register(connection, session, prefix)
    assert views == [f"{prefix}a", f"{prefix}c"] and counts(connection, views) == [1, 3]


def test_tables_whose_names_differ_in_case_only_are_left_out_with_a_warning(session, prefix):
    session.table(f"{prefix}case").put(numbered(1))
    session.table(f"{prefix}Case").put(numbered(2))
    session.table(f"{prefix}other").put(numbered(3))
    session.table(f"{prefix}ä").put(numbered(4))
    session.table(f"{prefix}Ä").put(numbered(5))
    connection = duckdb.connect()
    with pytest.warns(RuntimeWarning) as warned:
        views = register(connection, session, prefix)
    assert len(warned) == 2
    for warning, name in zip(warned, (f"{prefix}Case", f"{prefix}case")):
        text = str(warning.message)
        assert f"table {name} is left out" in text and f"{prefix}Case, {prefix}case" in text
        assert warning.filename == __file__
    assert views == [f"{prefix}other", f"{prefix}Ä", f"{prefix}ä"] and counts(connection, views) == [3, 5, 4]
    connection.register(f"{prefix}case", session.table(f"{prefix}Case"))
    assert counts(connection, [f"{prefix}case"]) == [2]


def test_a_lost_table_is_left_out_with_a_warning(make_cluster):
    cluster = make_cluster(2, budget=32 << 20)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        session.table("gone").put(numbered(10), nodes="n2")
        session.table("here").put(numbered(10), nodes="n1")
        cluster["n2"].kill()
        cluster.wait_members(1, cluster["n1"])
        assert session.tables() == ["gone", "here"]
        connection = duckdb.connect()
        with pytest.warns(RuntimeWarning, match="table gone is left out"):
            assert register(connection, session) == ["here"]
        assert counts(connection, ["here"]) == [10]
