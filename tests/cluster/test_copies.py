"""Copies between nodes that a hostile local program asks for: its daemon serves it, and is not its tool."""
import contextlib
import os
import signal
import socket
import time

import pytest

from harness import FAILURE_DEADLINE_S, outcome, resident_bytes, wait_for
from ocmlib import DEDICATED
from rawprogram import RawProgram

MIB = 1 << 20
TCP = 2
ANOTHER_USER = 1002


def raw_program(node, uid=None) -> RawProgram:
    raw = RawProgram(node, uid=uid)
    raw.hello()
    return raw


def allocate(raw: RawProgram, node: str, count: int = MIB) -> dict:
    reply = raw.call("allocate", bytes_total=count, flags=DEDICATED, nodes=[node])
    assert reply["code"] == 0, reply
    return reply["allocation"]["extents"][0]


def test_a_daemon_pulls_from_the_nodes_of_its_cluster_only(cluster):
    raw = raw_program(cluster["n1"])
    target, source = allocate(raw, "n1"), allocate(raw, "n2")
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        address = f"127.0.0.1:{elsewhere.getsockname()[1]}".encode()
        reply = raw.call("copy", target=target, source={**source, "addresses": [{"fabric": TCP, "address": address}]},
                         bytes_total=MIB)
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
    assert reply["code"] == 0, reply
    nowhere = raw.call("copy", target=target, source={**source, "node": "n9"}, bytes_total=MIB)
    assert "n9" in nowhere["detail"]
    for field, bad in (("node", "x" * 300), ("capability", b"short")):
        assert raw.call("copy", target=target, source={**source, field: bad}, bytes_total=1)["code"] < 0
        assert raw.call("copy", target={**target, field: bad}, source=source, bytes_total=1)["code"] < 0
    raw.close()


def test_copies_that_wait_for_a_dead_node_hold_up_no_other_user(cluster):
    if os.geteuid() != 0:
        pytest.skip("acting as another user needs root")
    n1, n3 = cluster["n1"], cluster["n3"]
    hostile, other = raw_program(n1, ANOTHER_USER), raw_program(n1)
    far, near = allocate(hostile, "n3"), allocate(hostile, "n1")
    target, source = allocate(other, "n1", 64 * MIB), allocate(other, "n2", 64 * MIB)
    before = resident_bytes(n1)
    n3.signal(signal.SIGSTOP)
    try:
        padding = [{"fabric": TCP, "address": bytes(3 * MIB)}]
        for _ in range(100):
            hostile.send("copy", target=near, source={**far, "addresses": padding}, bytes_total=MIB)
        for _ in range(100):
            hostile.send("copy", target=near, source=far, bytes_total=MIB)
        began = time.monotonic()
        reply = other.call("copy", target=target, source=source, bytes_total=64 * MIB)
        assert reply["code"] == 0, reply
        # A thread is held for one failure deadline at most, then it is another user's turn.
        assert time.monotonic() - began < 4 * FAILURE_DEADLINE_S
        assert resident_bytes(n1) < before + (64 + 64) * MIB  # the target's pages, and some
        for _ in range(200):
            assert hostile.receive()["code"] < 0
    finally:
        n3.signal(signal.SIGCONT)
    wait_for("n3 answers again", lambda: hostile.call("copy", target=near, source=far, bytes_total=MIB)["code"] == 0)
    for raw in (hostile, other):
        raw.close()


def test_a_long_copy_of_one_user_leaves_the_threads_to_others(make_cluster):
    if os.geteuid() != 0:
        pytest.skip("acting as another user needs root")
    cluster = make_cluster(names=("n1",), dram=1 << 30)
    hostile, other = raw_program(cluster["n1"], ANOTHER_USER), raw_program(cluster["n1"])
    big, bigger = (allocate(hostile, "n1", 256 * MIB) for _ in range(2))
    target, source = allocate(other, "n1"), allocate(other, "n1")
    for _ in range(60):
        hostile.send("copy", target=big, source=bigger, bytes_total=256 * MIB)
    assert other.call("copy", target=target, source=source, bytes_total=MIB)["code"] == 0
    done = 0
    hostile.socket.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            hostile.receive()
            done += 1
    assert done < 30  # the other user did not wait for all of them
    for raw in (hostile, other):
        raw.close()


@pytest.mark.parametrize("layout", ["replicated", "single"])
def test_a_node_that_restarted_is_copied_from_at_once(cluster, layout):
    """The home of the target has a connection to the run of before, which nobody has used since; and an error of the
    source's end is no reason to give up a replica of the target."""
    program = cluster.program(cluster["n1"])
    target = program.alloc(MIB, layout=layout, nodes=["n2", "n1"] if layout == "replicated" else ["n2"])

    def source():
        made = program.alloc(MIB, nodes=["n3"], flags=DEDICATED)
        # The program's own connection may be one of before, too.
        wait_for("it is filled", lambda: outcome(lambda: made.fill(0, 7, MIB)) is None)
        return made
    before = source()
    for _ in range(4):  # each thread that copies has a connection of its own
        target.copy_from(0, before, 0, MIB)
    cluster["n3"].kill()
    cluster["n3"].start()
    cluster["n3"].wait_ready()
    cluster.wait_members(at=cluster["n1"])
    after = source()
    for _ in range(4):
        target.fill(0, 1, MIB)
        target.copy_from(0, after, 0, MIB)
        assert target.holds(0, 7, MIB)
    assert outcome(lambda: target.copy_from(0, before, 0, MIB)) in ("PEER_LOST", "REVOKED")  # it went with its node
    assert not any(extent["lost"] for extent in target.extents())
    assert "replica_lost" not in cluster["n1"].log()


@pytest.mark.parametrize("waits_for", ["a node that stands still", "memory"])
def test_copies_do_not_hold_up_a_daemon_that_stops(make_cluster, waits_for):
    """Each of a hundred would wait for a failure deadline, or take a while by itself."""
    cluster = make_cluster(names=("n1", "n2"), dram=1 << 30)
    n1, n2 = cluster["n1"], cluster["n2"]
    raw = raw_program(n1)
    far = waits_for != "memory"
    target, source = allocate(raw, "n1", 256 * MIB), allocate(raw, "n2" if far else "n1", 256 * MIB)
    if far:
        n2.signal(signal.SIGSTOP)
    try:
        for _ in range(100):
            raw.send("copy", target=target, source=source, bytes_total=256 * MIB)
        time.sleep(0.3)  # some of them are under way
        n1.process.terminate()
        began = time.monotonic()
        assert n1.process.wait(30) == 0
        assert time.monotonic() - began < 3 * FAILURE_DEADLINE_S
        codes = []
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                codes.append(raw.receive()["code"])
        assert not far or all(code < 0 for code in codes)
    finally:
        n2.signal(signal.SIGCONT)
    raw.close()
    n1.start()
    n1.wait_ready()
    cluster.wait_members(at=n1)
    back = raw_program(n1)
    target, source = allocate(back, "n1"), allocate(back, "n2")
    assert back.call("copy", target=target, source=source, bytes_total=MIB)["code"] == 0
    back.close()
