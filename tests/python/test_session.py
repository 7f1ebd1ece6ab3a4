"""Sessions: opening, closing, nodes and names, and how they look."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

import oncilla
from harness import wait_for


def test_connects_by_path_and_by_environment(cluster, monkeypatch):
    monkeypatch.setenv("OCM_SOCKET", str(cluster["n2"].socket_path))
    with oncilla.connect() as by_environment, oncilla.connect(cluster["n1"].socket_path) as by_path:
        assert [node.name for node in by_environment.nodes() if node.self] == ["n2"]
        assert [node.name for node in by_path.nodes() if node.self] == ["n1"]


def test_nodes_are_told(session):
    nodes = {node.name: node for node in session.nodes()}
    assert sorted(nodes) == ["n1", "n2", "n3"]
    assert {node.state for node in nodes.values()} == {"alive"}
    assert [name for name, node in nodes.items() if node.coordinator] == ["n1"]
    assert nodes["n2"].pool_bytes == 512 << 20
    assert nodes["n2"].free_bytes == nodes["n2"].pool_bytes - nodes["n2"].used_bytes
    assert 0 <= nodes["n2"].heartbeat_age_s < 60


def test_a_name_lives_until_it_is_removed(cluster, session):
    session.allocate(100).publish("session-name", 0o606)
    with oncilla.connect(cluster["n2"].socket_path) as other:
        name, = other.names("session-")
        assert (name.name, name.nbytes, name.layout, name.mode) == ("session-name", 100, "single", 0o606)
        assert not name.lost and name.owner_uid == os.getuid()
        other.remove("session-name")
    assert session.names("session-") == []
    with pytest.raises(oncilla.NotFound):
        session.remove("session-name")


def test_a_name_tells_how_many_of_its_replicas_are_missing(make_cluster):
    cluster = make_cluster(3)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        session.allocate(4096, nodes=["n2", "n3"], layout="replicated").publish("twice")
        name, = session.names()
        assert (name.extents, name.replicas_missing, name.lost) == (2, 0, False)
        cluster["n3"].kill()
        wait_for("the loss is known", lambda: session.names()[0].replicas_missing == 1)
        assert not session.names()[0].lost
        cluster["n2"].kill()
        wait_for("the bytes are lost", lambda: session.names()[0].lost)
        assert session.names()[0].replicas_missing == 0


def test_an_embedded_node_needs_no_daemon():
    with oncilla.connect(embedded=True, embedded_bytes=8 << 20) as session:
        node, = session.nodes()
        assert node.pool_bytes == 8 << 20
        with pytest.raises(oncilla.PoolFull) as full:
            session.allocate(16 << 20)
        assert "8.00 MiB" in str(full.value) and isinstance(full.value, MemoryError)


def test_the_fallback_is_taken_only_without_a_daemon(cluster, tmp_path):
    with oncilla.connect(cluster["n3"].socket_path, embedded="fallback") as real:
        assert len(real.nodes()) == 3
    with oncilla.connect(tmp_path / "none", embedded="fallback", embedded_bytes=1 << 20) as inside:
        assert [node.name for node in inside.nodes()] == ["embedded"]


def test_without_a_daemon_the_error_says_what_to_do(tmp_path):
    with pytest.raises(oncilla.NoDaemon) as error:
        oncilla.connect(tmp_path / "none")
    assert isinstance(error.value, ConnectionError)
    assert "ocm up" in str(error.value) and str(tmp_path / "none") in str(error.value)


@pytest.mark.parametrize("options", [{"fabric": "pigeon"}, {"embedded": "maybe"}])
def test_wrong_options_are_refused(options):
    with pytest.raises(oncilla.InvalidArgument):
        oncilla.connect(**options)


def test_a_closed_session_frees_its_memory_and_refuses_work(cluster, session):
    def used():
        return next(node.used_bytes for node in session.nodes() if node.self)
    before = used()
    other = oncilla.connect(cluster["n1"].socket_path)
    allocation = other.allocate(1 << 20, local=True)
    other.close()
    other.close()
    assert other.closed and allocation.freed and "closed" in repr(other)
    for call in (other.nodes, other.names, other.fence, lambda: other.allocate(1), allocation.get,
                 lambda: other.attach("x"), lambda: other.remove("x"), allocation.fence):
        with pytest.raises(oncilla.Cancelled, match="closed"):
            call()
    wait_for("the memory is back", lambda: used() == before)


def test_it_shows_itself(session):
    assert "3 nodes" in repr(session) and "n1" in repr(session)
    html = session._repr_html_()
    assert html.count("<tr>") == 4 and "coordinator" in html and "512.00 MiB" in html
    closed = oncilla.connect(embedded=True, embedded_bytes=1 << 20)
    closed.close()
    assert "closed" in closed._repr_html_()


def test_importing_pulls_in_nothing_heavy():
    code = ("import sys, oncilla; print([m for m in ('numpy', 'pyarrow', 'asyncio', 'rich', 'pandas', 'polars', "
            "'duckdb', 'fsspec', 'concurrent') if m in sys.modules])")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          timeout=60).stdout == "[]\n"


def test_all_that_is_named_is_there():
    for name in oncilla.__all__:
        assert getattr(oncilla, name) is not None
    assert set(oncilla.__all__) <= set(dir(oncilla))
    with pytest.raises(AttributeError):
        _ = oncilla.nothing
    assert (pathlib.Path(oncilla.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("text", ["\udcff", "x\ud800", "a\0b"])
def test_text_that_no_other_program_can_give_is_invalid(session, text):
    kept = session.allocate(4096, dedicated=True)
    kept[0:4] = b"kept"
    for call in (lambda: session.attach(text), lambda: kept.publish(text), lambda: session.remove(text),
                 lambda: session.names(text), lambda: session.allocate(4096, nodes=[text]),
                 lambda: session.table(text).drop(), lambda: oncilla.connect("/\ud800")):
        with pytest.raises(oncilla.InvalidArgument):
            call()
    assert kept.get(0, 4) == b"kept" and session.allocate(4096, dedicated=True).nbytes == 4096


def test_a_socket_is_any_path_of_the_system():
    paths: list[Any] = ["/none\udcff", b"/none\xff", pathlib.Path("/none")]
    for path in paths:
        with pytest.raises(oncilla.NoDaemon, match="/none"):
            oncilla.connect(path)
    with pytest.raises(oncilla.InvalidArgument, match="socket"):
        oncilla.connect("/none\0")


def test_a_program_of_any_name_is_welcome(cluster):
    with oncilla.connect(cluster["n1"].socket_path, program="caf\u00e9 \udcff") as session:
        assert session.allocate(4096).nbytes == 4096
