"""Tables on devices: larger than all memory of the nodes, and read as others are."""
from __future__ import annotations

import pathlib
import resource
import subprocess

import numpy as np
import pyarrow as pa
import pytest

import oncilla
from harness import Cluster, find_binary, wait_for
from tables import assert_same, numbered

MIB = 1 << 20
ROWS, WIDE_BYTES = 40_000, 128  # a batch of wide(): 5 MiB


@pytest.fixture
def small(make_cluster, tmp_path):
    """Two nodes with 8 MiB of memory and 64 MiB on devices each."""
    return make_cluster(2, budget=8 * MIB, extra=("--nvme", str(64 * MIB), "--nvme-path", str(tmp_path)))


@pytest.fixture
def session(small):
    with oncilla.connect(small["n1"].socket_path) as session:
        yield session


def used(node, kind: str) -> int:
    return {pool["kind"]: pool["bytes_used"] for pool in node.status()["pools"]}[kind]


def is_unused(cluster) -> bool:
    return not any(used(node, kind) for node in cluster.nodes for kind in ("nvme", "dram"))


def wide(i: int) -> pa.Table:
    filling = np.random.default_rng(i).bytes(ROWS * WIDE_BYTES)
    return pa.table({"k": pa.array(np.arange(i * ROWS, (i + 1) * ROWS)),
                     "filling": pa.Array.from_buffers(pa.binary(WIDE_BYTES), ROWS, [None, pa.py_buffer(filling)])})


def batches(count: int):
    return (wide(i).to_batches()[0] for i in range(count))


def test_a_table_larger_than_all_memory_is_scanned_and_queried(session, small):
    duckdb = pytest.importorskip("duckdb")
    with pytest.raises(oncilla.PoolFull):
        session.table("t").put(batches(8), group_rows=ROWS)
    stored = session.table("t").put(batches(8), kind="nvme", group_rows=ROWS)
    assert sum(used(node, "nvme") for node in small.nodes) > 40 * MIB
    assert all(used(node, "dram") < MIB for node in small.nodes)
    with stored.snapshot() as seen:
        assert seen.info["kind"] == 1 and seen.info["rows"] == 8 * ROWS
    assert duckdb.sql("select max(k), count(*) from stored").fetchall() == [(8 * ROWS - 1, 8 * ROWS)]
    assert_same(stored.to_arrow().slice(5 * ROWS, ROWS), wide(5))
    with oncilla.connect(small["n2"].socket_path) as other:
        assert_same(other.table("t").to_arrow().slice(0, ROWS), wide(0))
    assert ", on nvme" in stored._repr_html_()
    stored.drop()
    wait_for("nothing is used", lambda: is_unused(small))


def test_appended_rows_go_where_the_tables_are_unless_told(session, small):
    table = session.table("t").put(numbered(100), kind="nvme", nodes="n2", replicas=1)
    before = used(small["n2"], "nvme")
    table.append(numbered(100, 100))
    assert used(small["n2"], "nvme") > before and not used(small["n2"], "dram")
    table.append(numbered(100, 200), kind="dram")
    assert used(small["n2"], "dram") > 0
    assert_same(table.to_arrow(), numbered(300))
    table.drop()


def test_where_a_device_takes_no_more_tables_go_elsewhere(make_cluster, tmp_path):
    small = make_cluster(2, budget=8 * MIB,
                         extra=("--nvme", str(64 * MIB), "--nvme-path", str(tmp_path), "--cache", "0"))
    with oncilla.connect(small["n1"].socket_path) as session:
        check_where_a_device_takes_no_more(session, small)


def check_where_a_device_takes_no_more(session, small):
    first = session.table("first").put(numbered(100), kind="nvme", nodes="n1", replicas=1)
    resource.prlimit(small["n1"].process.pid, resource.RLIMIT_FSIZE, (0, 0))
    with pytest.raises(oncilla.errors.IoError):
        session.table("there").put(numbered(100), kind="nvme", nodes="n1", replicas=1)
    for i in range(3):
        table = session.table(f"elsewhere{i}").put(wide(i), kind="nvme")
        assert_same(table.to_arrow(), wide(i))
        table.drop()
    assert_same(first.to_arrow(), numbered(100))
    first.drop()


def test_copies_on_devices_are_refused_with_nothing_left(session, small):
    with pytest.raises(oncilla.Unsupported, match="nvme"):
        session.table("t").put(numbered(5000), kind="nvme", replicas=2)
    assert is_unused(small)


def test_a_kind_that_no_node_has_or_nobody_knows_is_told(cluster):
    with oncilla.connect(cluster["n1"].socket_path) as session:
        with pytest.raises(oncilla.Unsupported, match="no node offers memory of kind nvme"):
            session.table("none").put(numbered(1), kind="nvme")
        with pytest.raises(oncilla.InvalidArgument, match="kind is 'disk'; it must be one of dram, nvme, gpu"):
            session.table("none").put(numbered(1), kind="disk")


def make_pools(tmp_path) -> Cluster:
    cluster = Cluster(tmp_path / "durable", names=("n1", "n2"), dram=32 * MIB, start=False)
    for node in cluster.nodes:
        subprocess.run([find_binary("ocm"), "pool", "create", str(pool_file(node)), "--bytes", "48MiB"], check=True,
                       capture_output=True, timeout=60)
    cluster.start_all(start)
    return cluster


def pool_file(node) -> pathlib.Path:
    return node.cluster.directory / f"{node.name}.pool"


def start(node):
    return node.start(["--nvme", str(48 * MIB), "--nvme-path", str(pool_file(node))])


def test_a_durable_table_is_there_after_all_its_nodes_were_killed(tmp_path):
    cluster = make_pools(tmp_path)
    try:
        with oncilla.connect(cluster["n1"].socket_path) as session:
            table = session.table("t").put(batches(4), durable=True, group_rows=ROWS)
            with table.snapshot() as seen:
                assert seen.info["kind"] == 1
            assert [(name.name, name.durable) for name in session.names() if name.name == "t"] == [("t", True)]
        for node in cluster.nodes:
            node.process.kill()
        for node in cluster.nodes:
            node.process.wait(10)
            start(node)
        for node in cluster.nodes:
            node.wait_ready()
        with oncilla.connect(cluster["n2"].socket_path) as session:
            table = session.table("t")
            wait_for("both nodes are there", lambda: len(session.nodes()) == 2 and "t" in
                     {name.name for name in session.names() if not name.lost})
            assert_same(table.to_arrow().slice(3 * ROWS, ROWS), wide(3))
            table.append(wide(4))
            cluster["n1"].kill()
            start(cluster["n1"])
            cluster["n1"].wait_ready()
            wait_for("it is whole", lambda: not any(name.lost for name in session.names()))
            assert_same(table.to_arrow().slice(4 * ROWS, ROWS), wide(4))
            table.drop()
    finally:
        cluster.close()


def test_a_durable_table_needs_a_pool(session, small):
    with pytest.raises(oncilla.Unsupported, match="ocm pool create"):
        session.table("t").put(numbered(100), durable=True)
    with pytest.raises(oncilla.Unsupported, match="dram"):
        session.table("t").put(numbered(100), kind="dram", durable=True)
    assert is_unused(small)
