"""Ctrl-C while a node stands still: every wait for it ends at once, and leaves the program's buffers alone."""
from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import oncilla

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pandas")  # now: Ctrl-C in an import leaves half a module

DEADLINE_S = 30
# Far below the failure deadline, and far above the slices of the waits (50 ms) on a machine that others use.
AT_ONCE_S = 6
BYTES = 1 << 20
MIB = 1 << 20


@pytest.fixture
def nodes(make_cluster):
    """n1, which answers, and n2, which can be frozen; nobody is called dead while a test runs."""
    cluster = make_cluster(2, budget=256 * MIB, extra=("--failure-deadline-ms", str(DEADLINE_S * 1000)))
    yield cluster
    cluster["n2"].signal(signal.SIGCONT)


@pytest.fixture
def session(nodes):
    with oncilla.connect(nodes["n1"].socket_path) as session:
        yield session
        nodes["n2"].signal(signal.SIGCONT)


def interrupted(call, *, wanted=KeyboardInterrupt, number=signal.SIGINT) -> float:
    """Seconds between a real signal and its exception."""
    sent = []

    def send():
        time.sleep(0.3)
        sent.append(time.monotonic())
        os.kill(os.getpid(), number)
    thread = threading.Thread(target=send)
    thread.start()
    try:
        with pytest.raises(wanted):
            call()
            time.sleep(0.1)  # the exception of a call that another library made comes with the next line of Python
        return time.monotonic() - sent[0]
    finally:
        thread.join()


def target() -> np.ndarray:
    return np.zeros(BYTES, "u1")


CALLS = {
    "get": lambda block: block.get(0, BYTES),
    "get of a word": lambda block: block.get(0, 8),
    "put": lambda block: block.put_from(bytes(4 * MIB)),
    "put of a word": lambda block: block.put_from(bytes(8)),
    "putv": lambda block: block.putv([(0, bytes(9)), (99, bytes(9))]),
    "put_strided": lambda block: block.put_strided(target(), 0, 4096, 1024),
    "get_strided": lambda block: block.get_strided(target(), 0, 4096, 1024),
    "copy": lambda block: oncilla.copy(bytearray(BYTES), block, BYTES),
    "fetch_add": lambda block: block.fetch_add(0, 1),
    "compare_swap": lambda block: block.compare_swap(0, 0, 1),
    "put_notify": lambda block: block.put_notify(bytes(4096), 4096, 0),
    "wait_at_least": lambda block: block.wait_at_least(0, 1 << 60),
    "wait_at_least with a deadline": lambda block: block.wait_at_least(0, 1 << 60, deadline_s=DEADLINE_S),
}


@pytest.mark.parametrize("is_used", [True, False], ids=["used", "fresh"])
def test_ctrl_c_ends_every_call_at_once(nodes, session, is_used):
    """Of a handle that was used before, and of one whose first use must reach the node: a call of each kind, one after
    the other, so that each finds what the ones before left behind."""
    block = session.allocate(8 * MIB, nodes="n2")
    if is_used:
        block[:8] = bytes(8)
    nodes["n2"].signal(signal.SIGSTOP)
    for name, call in CALLS.items():
        seconds = interrupted(lambda call=call: call(block))
        assert seconds < AT_ONCE_S, f"{name}: {seconds:.1f} s"
    nodes["n2"].signal(signal.SIGCONT)
    before = block.fetch_add(8 * MIB - 8, 3)
    assert block.fetch_add(8 * MIB - 8, 1) == before + 3
    data = np.random.default_rng(1).integers(0, 255, 2 * MIB, "u1")
    block.put_from(data, 4 * MIB)
    assert (np.frombuffer(block.get(4 * MIB, data.nbytes), "u1") == data).all()
    begin = time.monotonic()
    block.free()
    assert time.monotonic() - begin < AT_ONCE_S


@pytest.mark.parametrize("bytes_of", [8, 4096, BYTES, 40 * MIB])
def test_a_buffer_is_the_programs_again_after_the_exception(nodes, session, bytes_of):
    block = session.allocate(64 * MIB, nodes="n2")
    block.put_from(np.full(64 * MIB, 7, "u1"))
    room, source = np.zeros(bytes_of, "u1"), np.full(bytes_of, 5, "u1")
    nodes["n2"].signal(signal.SIGSTOP)
    assert interrupted(lambda: block.get_into(room)) < AT_ONCE_S
    kept = room.copy()
    assert interrupted(lambda: block.put_from(source)) < AT_ONCE_S
    source[:] = 99  # never seen by the home
    nodes["n2"].signal(signal.SIGCONT)
    assert block.get(64 * MIB - 8, 8) == bytes([7] * 8)
    there = np.frombuffer(block.get(0, bytes_of), "u1")
    assert set(np.unique(there)) <= {5, 7}
    assert (room == kept).all()


def test_the_end_of_the_session_waits_for_nothing_of_it(nodes):
    with oncilla.connect(nodes["n1"].socket_path) as session:
        block = session.allocate(MIB, nodes="n2")
        block[:8] = bytes(8)
        nodes["n2"].signal(signal.SIGSTOP)
        assert interrupted(block.get) < AT_ONCE_S
        begin = time.monotonic()
    assert time.monotonic() - begin < AT_ONCE_S


def test_a_handler_may_raise_what_it_likes_and_call(nodes, session):
    class Enough(Exception):
        pass
    block, here = session.allocate(8 * MIB, nodes="n2"), session.allocate(4096, local=True)
    block[:8] = bytes(8)
    seen: list[object] = []

    def handler(*_):
        here.put_from(b"from the handler")
        seen.append(bytes(here.get(0, 16)))
        seen.append(len(session.nodes()))
        raise Enough

    def counting(*_):
        seen.append(session.allocate(64, local=True).fetch_add(0, 0))
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        nodes["n2"].signal(signal.SIGSTOP)
        for call in CALLS.values():
            seen.clear()
            assert interrupted(lambda call=call: call(block), wanted=Enough, number=signal.SIGUSR1) < AT_ONCE_S
            assert seen == [b"from the handler", 2]
        signal.signal(signal.SIGUSR1, counting)
        seen.clear()
        threading.Timer(1.5, nodes["n2"].signal, [signal.SIGCONT]).start()
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGUSR1]).start()
        block.fetch_add(0, 1)  # a handler that raises nothing ends nothing
        assert len(seen) == 1
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_another_threads_calls_go_on(nodes, session):
    block = session.allocate(MIB, nodes="n2")
    block[:8] = bytes(8)
    nodes["n2"].signal(signal.SIGSTOP)
    out: list[int] = []
    other = threading.Thread(target=lambda: out.extend(block.fetch_add(0, 1) for _ in range(3)))
    other.start()
    time.sleep(0.2)
    assert interrupted(lambda: block.get(0, BYTES)) < AT_ONCE_S
    assert interrupted(lambda: block.put_from(bytes(BYTES - 64), 64)) < AT_ONCE_S
    nodes["n2"].signal(signal.SIGCONT)
    other.join(DEADLINE_S)
    assert out == [0, 1, 2]


# ------------------------------------------------------------------ tables

def rows(count: int = 200_000):
    return pa.table({"x": np.arange(count), "y": np.random.default_rng(2).random(count)})


def test_ctrl_c_ends_a_put_of_a_table(nodes, session):
    nodes["n2"].signal(signal.SIGSTOP)
    assert interrupted(lambda: session.table("t").put(rows(), nodes="n2")) < AT_ONCE_S
    nodes["n2"].signal(signal.SIGCONT)
    session.table("t").put(rows(), nodes="n2")
    assert session.table("t").to_arrow().num_rows == 200_000


def test_ctrl_c_ends_a_put_whose_rows_are_under_way(nodes, session):
    """The node stops while the rows are read, of which the first groups are there."""
    def batches():
        batch = rows(4 * MIB // 16).to_batches()[0]
        for i in range(64):
            if i == 8:
                nodes["n2"].signal(signal.SIGSTOP)
            yield batch
    assert interrupted(lambda: session.table("t").put(batches(), nodes="n2")) < AT_ONCE_S + 2
    nodes["n2"].signal(signal.SIGCONT)
    assert not session.table("t").exists


@pytest.mark.parametrize("read", ["to_arrow", "to_pandas", "column"])
@pytest.mark.parametrize("is_open", [True, False], ids=["snapshot", "table"])
def test_ctrl_c_ends_a_scan(nodes, session, read, is_open):
    table = session.table("t")
    table.put(rows(), nodes="n2", group_rows=50_000)
    opened = table.snapshot() if is_open else table
    nodes["n2"].signal(signal.SIGSTOP)
    work = (lambda: opened.column("x").to_arrow()) if read == "column" else getattr(opened, read)
    assert interrupted(work) < AT_ONCE_S
    nodes["n2"].signal(signal.SIGCONT)
    assert opened.to_arrow().equals(rows())


def test_ctrl_c_ends_a_query_of_duckdb(nodes, session):
    """On one thread: with more, DuckDB waits for those of its own that read, and a signal is not theirs."""
    duckdb = pytest.importorskip("duckdb")
    table = session.table("t")
    table.put(rows(), nodes="n2", group_rows=50_000)
    connection = duckdb.connect(config={"threads": 1})
    connection.register("source", table)
    query = connection.sql("select sum(x) from source").fetchall
    nodes["n2"].signal(signal.SIGSTOP)
    seconds = interrupted(query, wanted=(KeyboardInterrupt, RuntimeError, duckdb.Error))
    assert seconds < AT_ONCE_S
    nodes["n2"].signal(signal.SIGCONT)
    assert connection.sql("select count(*) from source").fetchall() == [(200_000,)]
