"""Operations that go on while their program does something else, or sleeps in an event loop."""
import os
import signal
import time

import pytest

from agent import pattern
from harness import FAILURE_DEADLINE_S, wait_for
from ocmlib import DEDICATED, OcmError

MIB = 1 << 20
LONG = 96 * MIB  # more than all buffers on the way
COMPUTES_S = float(os.environ.get("OCM_COMPUTES_S", 3 * FAILURE_DEADLINE_S))


@pytest.fixture
def far(netns_cluster):
    """An allocation on another host."""
    return netns_cluster.program(netns_cluster["n1"]).alloc(LONG, nodes=["n2"], flags=DEDICATED)


def test_what_was_started_ends_while_nobody_waits(netns_cluster, far):
    """A put of many windows, and gets of which an eventfd tells: no call of the library in between."""
    far.fill(LONG - MIB, 3, MIB)
    far.publish("long", 0o606)
    other = netns_cluster.program(netns_cluster["n2"]).attach("long")
    far.call("start", "put", 0, LONG)
    wait_for("all of it is there", lambda: other.get(LONG - MIB, MIB) == bytes(MIB), 40 * FAILURE_DEADLINE_S)
    far.call("wait")
    far.fill(0, 5, 16 * MIB)
    far.call("start_many", 16, MIB)
    assert far.call("told_within", 10 * FAILURE_DEADLINE_S) == 16
    assert far.call("end_many") == pattern(5, 16 * MIB)


@pytest.mark.parametrize("what", ["get", "put"])
def test_an_operation_waits_while_its_program_computes(netns_cluster, far, what):
    """Nobody takes what the home has sent, nor sends the rest, for longer than a node may be silent."""
    far.fill(0, 5, LONG)
    far.call("start", what, 0, LONG)
    far.program.kill(signal.SIGSTOP)
    time.sleep(COMPUTES_S)
    far.program.kill(signal.SIGCONT)
    far.call("wait")
    assert far.call("moved", LONG - MIB, MIB) == far.get(LONG - MIB, MIB)
    assert far.get(LONG - MIB, MIB) == (pattern(5, LONG)[-MIB:] if what == "get" else bytes(MIB))


def test_a_node_that_dies_ends_what_nobody_waits_for(netns_cluster, far):
    """It is told as complete, with its error."""
    far.call("start_many", 4, 24 * MIB)
    netns_cluster.cut(netns_cluster["n2"])
    assert far.call("told_within", 20 * FAILURE_DEADLINE_S) == 4
    with pytest.raises(OcmError, match="PEER_LOST"):
        far.call("end_many")


def test_thousands_that_fail_together_end_together(netns_cluster, far):
    """The first of them asks whether their part goes on elsewhere."""
    far.get(0, 1)  # connected
    netns_cluster["n2"].signal(signal.SIGSTOP)
    try:
        far.call("start_many", 5000, 512)
        assert far.call("told_within", 20 * FAILURE_DEADLINE_S) == 5000
    finally:
        netns_cluster["n2"].signal(signal.SIGCONT)


@pytest.mark.parametrize("node", ["n1", "n2"], ids=["here", "there"])
def test_words_are_changed_in_the_order_in_which_that_was_started(netns_cluster, node):
    words = netns_cluster.program(netns_cluster["n1"]).alloc(MIB, nodes=[node], flags=DEDICATED)
    assert words.call("words_started", 64, 300) == [*range(300), 300]
    assert words.call("fetch_add", 64, 0) == 1000
    assert words.get(72, 8) == b"notified"
    assert words.call("fetch_add", 80, 0) == 7


def test_words_are_changed_while_another_node_is_dead(netns_cluster):
    cluster = netns_cluster
    words = cluster.program(cluster["n1"]).alloc(MIB, nodes=["n2"], flags=DEDICATED)
    assert words.call("fetch_add", 64, 5) == 0
    cluster["n3"].kill()
    wait_for("n3 is dead", lambda: ("n3", "dead") in {(node["name"], node["state"])
                                                      for node in cluster["n1"].status()["nodes"]},
             10 * FAILURE_DEADLINE_S)
    assert words.call("fetch_add", 64, 5) == 5
    words.call("put_notify", 0, b"", 64, 2)
    assert words.call("words_started", 128, 20) == [*range(20), 20]
    assert words.call("fetch_add", 64, 0) == 12


@pytest.mark.parametrize("handles", [1, 2])
@pytest.mark.parametrize("layout", ["single", "replicated", "striped", "here"])
def test_what_follows_a_long_operation_comes_after_all_of_it(netns_cluster, layout, handles):
    """By the same handle, or by another one of the same allocation."""
    nodes = {"single": ["n2"], "here": ["n1"]}.get(layout, ["n2", "n3"])
    layout, more = layout.replace("here", "single"), {"chunk": 64 * 1024} if layout == "striped" else {}
    program = netns_cluster.program(netns_cluster["n1"])
    far = program.alloc(64 * MIB, layout=layout, nodes=nodes, flags=DEDICATED, **more)
    far.publish("long", 0o606)
    by = far if handles == 1 else program.attach("long")
    assert far.call("long_and_then", 1000, 10_000, by) == bytes([1 + 999 % 250]) * 10_000
    assert far.call("fence_behind", 1000, 10_000, by)
    other = program.alloc(64 * MIB, nodes=["n3"], flags=DEDICATED)
    other.fill(0, 7, MIB)
    assert far.call("copy_and_then", other, 64 * MIB, b"later", by) == b"later"


def test_a_copy_within_an_allocation_overlaps_by_two_handles_too(netns_cluster):
    program = netns_cluster.program(netns_cluster["n1"])
    a = program.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    a.publish("a", 0o606)
    with pytest.raises(OcmError, match="overlap"):
        a.call("copy_from", 0, program.attach("a"), 1000, 2000)


def test_segments_of_the_same_bytes_keep_their_order_where_a_connection_breaks(netns_cluster):
    """The one to the first replica breaks, while the second one does not answer yet: both end with the last segment."""
    cluster, count, each = netns_cluster, 70, 256 * 1024
    far = cluster.program(cluster["n1"]).alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
    far.publish("same", 0o606)
    far.call("prepare_same_bytes", count, each)
    far.call("start_segments")
    far.call("wait")
    for turn in range(3):
        for home in ("n2", "n3"):
            cluster[home].signal(signal.SIGSTOP)
        far.call("start_segments")
        assert far.call("break_connections_to", cluster["n2"].host) > 0
        for home in ("n2", "n3"):
            cluster[home].signal(signal.SIGCONT)
            time.sleep(0.02)
        far.call("wait")
        for home in ("n2", "n3"):
            there = cluster.program(cluster[home]).attach("same", "r").get(0, each)
            assert there == bytes([1 + (count - 1) % 250]) * each, (turn, home, there[0])


@pytest.mark.parametrize("silent", ["n2", "n3"])
def test_a_get_that_moves_on_to_another_replica_comes_before_a_put_behind_it(netns_cluster, silent):
    cluster = netns_cluster
    far = cluster.program(cluster["n1"]).alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
    far.fill(0, 1, MIB)
    cluster[silent].signal(signal.SIGSTOP)
    try:
        assert far.call("get_and_then_put", MIB, bytes(1000)) == pattern(1, MIB)
    finally:
        cluster[silent].signal(signal.SIGCONT)
    assert far.get(0, 1000) == bytes(1000)


def test_an_idle_session_needs_no_processor_afterwards(netns_cluster, far):
    far.call("start_many", 16, MIB)
    assert far.call("told_within", 10 * FAILURE_DEADLINE_S) == 16
    far.call("end_many")
    time.sleep(1)
    stat = f"/proc/{far.program.process.pid}/stat"

    def ticks():
        with open(stat) as file:
            return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
    before = ticks()
    time.sleep(2)
    assert ticks() - before <= os.sysconf("SC_CLK_TCK") // 50
    wait_for("it still works", lambda: far.holds(0, 0, 0))
