"""Sessions that end soon after they read: nothing of them stays in the program."""
from __future__ import annotations

import os

import duckdb
import polars
import pytest

import oncilla
from harness import wait_for
from tables import fresh, numbered

SESSIONS = 1000
WARM = 20
RSS_PAGES_MAX = 4096  # 16 MiB: what allocators keep; a session that stays has 80 KiB or more


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def resident_pages() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1])


def sessions_of(session: oncilla.Session) -> int:
    """How many sessions the daemon of this node has."""
    return next(node.sessions for node in session.nodes() if node.self)


@pytest.mark.timeout(600)  # seconds on an idle machine
def test_sessions_that_close_soon_after_a_remote_read_leave_nothing(cluster):
    socket, name = cluster["n1"].socket_path, fresh()
    data = numbered(200)
    with oncilla.connect(socket) as session:
        session.table(name).put(data, remote=True, group_rows=100)
        sessions_before = sessions_of(session)

    def read(times: int) -> None:
        for _ in range(times):
            other = oncilla.connect(socket)
            assert other.table(name).to_arrow().num_rows == data.num_rows
            other.close()

    read(WARM)
    before = descriptors(), threads(), resident_pages()
    read(SESSIONS)
    wait_for("descriptors are back", lambda: descriptors() <= before[0])
    wait_for("threads have ended", lambda: threads() <= before[1])
    assert resident_pages() - before[2] < RSS_PAGES_MAX
    with oncilla.connect(socket) as session:
        wait_for("the daemon has no session more", lambda: sessions_of(session) <= sessions_before)
        session.table(name).drop()


@pytest.mark.parametrize("engine", ["duckdb", "polars", "batches", "one batch"])
def test_every_way_to_read_lets_the_session_end(cluster, engine):
    socket, name = cluster["n1"].socket_path, fresh()
    with oncilla.connect(socket) as session:
        session.table(name).put(numbered(400), remote=True, group_rows=50)

    def read(times: int) -> None:
        for _ in range(times):
            with oncilla.connect(socket) as other:
                remote = other.table(name)
                if engine == "duckdb":
                    assert duckdb.sql("select sum(k) from remote").fetchall() == [(399 * 200,)]
                elif engine == "polars":
                    assert remote.scan_polars().select(polars.col("k").sum()).collect().item() == 399 * 200
                elif engine == "batches":
                    assert sum(batch.num_rows for batch in remote.select().batches()) == 400
                else:
                    assert next(iter(remote.select().batches())).num_rows == 50

    read(WARM)
    before = descriptors(), threads()
    read(50)
    wait_for("descriptors are back", lambda: descriptors() <= before[0])
    wait_for("threads have ended", lambda: threads() <= before[1])
    with oncilla.connect(socket) as session:
        session.table(name).drop()
