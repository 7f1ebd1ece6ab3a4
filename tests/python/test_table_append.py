"""Rows that are appended lie as the table's do: as many copies, on those nodes."""
from __future__ import annotations

import pytest

import oncilla
from tables import assert_same, fresh, numbered

ROWS = 40


@pytest.fixture
def table(session):
    table = session.table(fresh())
    yield table
    table.drop(missing_ok=True)


def nodes_of(table: oncilla.table.Table) -> dict[str, set[str]]:
    """For each column the nodes of its chunks."""
    return {column: set(nodes) for column, nodes in table.placement().items()}


def replicas_of(table: oncilla.table.Table) -> int:
    with table.snapshot() as seen:
        return seen.info["replicas"]


def test_appended_rows_survive_the_node_that_the_table_survives(make_cluster):
    cluster = make_cluster(3, budget=64 << 20)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        table = session.table("t").put(numbered(ROWS), replicas=2, nodes=["n2", "n3"], group_rows=10)
        table.append(numbered(ROWS, ROWS), group_rows=10)
        assert replicas_of(table) == 2
        assert set().union(*nodes_of(table).values()) <= {"n2", "n3"}
        cluster["n2"].kill()
        assert_same(table.to_arrow(), numbered(2 * ROWS))
        # The rows of a table that has lost a node's copies get as many as the others, or none.
        cluster.wait_members(2, cluster["n1"])
        with pytest.raises(oncilla.PoolFull, match="2 replicas need as many nodes, and 1 can be used"):
            table.append(numbered(1))
        table.append(numbered(ROWS, 2 * ROWS), nodes=["n3", "n1"])
        assert replicas_of(table) == 2
        assert_same(table.to_arrow(), numbered(3 * ROWS))


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_appended_rows_that_went_with_the_coordinator_are_missed(make_cluster, how):
    """Its next run knows a name from the homes that are left; the rows of this one were on no other node."""
    cluster = make_cluster(2, budget=64 << 20)
    with oncilla.connect(cluster["n2"].socket_path) as session:
        table = session.table("t").put(numbered(ROWS), nodes=["n2"])
        table.append(numbered(ROWS, ROWS), nodes=["n1"]).append(numbered(ROWS, 2 * ROWS), nodes=["n2"])
        assert_same(table.to_arrow(), numbered(3 * ROWS))
        if how == "killed":
            cluster["n1"].kill()
        else:
            cluster["n1"].process.terminate()
            cluster["n1"].process.wait(15)
        cluster["n1"].start().wait_ready()
        cluster.wait_members(2, cluster["n1"])
    with oncilla.connect(cluster["n2"].socket_path) as session:
        with pytest.raises((oncilla.Lost, oncilla.Revoked, oncilla.PeerLost), match="table t"):
            session.table("t").to_arrow()


def test_info_tells_the_smallest_number_of_replicas(table):
    table.put(numbered(ROWS), replicas=2)
    table.append(numbered(ROWS), replicas=3)
    assert replicas_of(table) == 2
    table.append(numbered(ROWS), replicas=1)
    assert replicas_of(table) == 1
    table.append(numbered(ROWS))
    with table.snapshot() as seen:
        assert seen.info["replicas"] == 1 and seen.info["segments"] == 4


@pytest.mark.parametrize("options, nodes", [
    ({"nodes": ["n3"]}, ["n3"]),
    ({"nodes": ["n3", "n2"]}, ["n2", "n3"]),
    ({"remote": True}, ["n2", "n3"]),
    ({"place": "whole"}, ["n1"]),
    ({"place": "whole", "nodes": ["n2", "n3"]}, ["n2"]),
    ({"place": "whole", "remote": True}, ["n2"]),
], ids=str)
def test_appended_rows_go_where_the_table_was_put(cluster, table, options, nodes):
    table.put(numbered(ROWS), group_rows=10, **options)
    for home in ("n1", "n3"):
        with oncilla.connect(cluster[home].socket_path) as other:
            other.table(table.name).append(numbered(ROWS), group_rows=10)
    assert sorted(set(nodes_of(table)["k"])) == nodes


def test_columns_stay_each_on_its_node(cluster, table):
    table.put(numbered(ROWS), place="column", group_rows=10)
    before = nodes_of(table)
    assert all(len(nodes) == 1 for nodes in before.values()) and len({*map(tuple, before.values())}) == 3
    with oncilla.connect(cluster["n2"].socket_path) as other:
        other.table(table.name).append(numbered(ROWS), group_rows=10)
    assert nodes_of(table) == before


def test_rows_that_may_lie_anywhere_go_to_the_appenders_node_first(cluster, table):
    table.put(numbered(ROWS))
    with oncilla.connect(cluster["n2"].socket_path) as other:
        other.table(table.name).append(numbered(ROWS))
    assert nodes_of(table)["k"] == {"n1", "n2"}


def test_what_append_is_told_holds(table):
    table.put(numbered(ROWS), place="whole", nodes="n2", replicas=1)
    table.append(numbered(ROWS), nodes="n3")
    assert nodes_of(table)["k"] == {"n2", "n3"}
    table.append(numbered(ROWS), place="rows", nodes=["n1", "n3"], replicas=2)
    assert replicas_of(table) == 1
    for bad in ({"place": "rows?"}, {"replicas": 0}):
        with pytest.raises(oncilla.InvalidArgument):
            table.append(numbered(1), **bad)


def test_a_number_that_stays_free_hides_no_later_rows(session, table):
    """As after an append whose home fell silent while it was published, and another one that took the next number."""
    table.put(numbered(ROWS))
    for turn in range(1, 4):
        table.append(numbered(ROWS, turn * ROWS))
    second, = [one.name for one in session.names(f"{table.name}~") if one.name.endswith("~2")]
    session.remove(second)
    seen = table.to_arrow()
    assert seen["k"].to_pylist() == [*range(2 * ROWS), *range(3 * ROWS, 4 * ROWS)]
    table.append(numbered(ROWS, 4 * ROWS))
    assert table.to_arrow().num_rows == 4 * ROWS


@pytest.mark.parametrize("engine", ["arrow", "duckdb"])
def test_other_rows_of_the_same_number_are_other_rows(cluster, engine):
    """Rows that were appended without an answer may go away again, and the next ones have their number."""
    with oncilla.connect(cluster["n1"].socket_path) as session:
        session.cache(8 << 20)
        orders = session.table(fresh()).put(numbered(ROWS), nodes="n2")

        def rows():
            if engine == "arrow":
                return orders.to_arrow()
            duckdb = pytest.importorskip("duckdb")
            return duckdb.sql("select * from orders").arrow().read_all()

        for begin in (ROWS, 10 * ROWS):
            orders.append(numbered(ROWS, begin), nodes="n2")
            seen = rows()
            assert seen.num_rows == 2 * ROWS and max(seen["k"].to_pylist()) == begin + ROWS - 1
            last = [one.name for one in session.names(f"{orders.name}~") if one.name.endswith("~1")]
            if begin == ROWS:
                session.remove(*last)
        orders.drop()
