"""What a daemon tells its programs unasked: they need not wait out their own patience with a node that is dead."""
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import FAILURE_DEADLINE_S, outcome, wait_for
from ocmlib import DEDICATED

MIB = 1 << 20
PATIENCE_S = 40 * FAILURE_DEADLINE_S  # of the program's session: much longer than anything here may take


def state_of(program, node: str) -> str:
    return program.nodes()[node]["state"]


def patient_program_with_memory_on_n3(cluster):
    p = cluster.program(cluster["n2"], deadline_s=PATIENCE_S)
    a = p.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    return p, a


@pytest.mark.parametrize("call", ["get", "put", "add"])
def test_a_call_that_waits_for_a_node_ends_when_the_node_is_dead(netns_cluster, call):
    cluster = netns_cluster
    _, a = patient_program_with_memory_on_n3(cluster)
    other = cluster.program(cluster["n1"])
    calls = {"get": lambda: a.holds(0, 1, MIB), "put": lambda: a.fill(0, 2, MIB), "add": lambda: a.fetch_add(0, 1)}
    assert outcome(calls[call]) in (True, None) or call == "add"
    cluster.cut(cluster["n3"])
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(outcome, calls[call])
        wait_for("n3 is dead", lambda: state_of(other, "n3") == "dead")
        assert waits.result() == "PEER_LOST"
    assert time.monotonic() - began < PATIENCE_S / 2
    cluster.restore(cluster["n3"])
    wait_for("n3 is used again", lambda: outcome(lambda: a.fill(0, 3, MIB)) is None, 20 * FAILURE_DEADLINE_S)


def test_a_session_that_opens_later_knows_who_is_dead(netns_cluster):
    cluster = netns_cluster
    p, a = patient_program_with_memory_on_n3(cluster)
    a.publish("far", 0o606)
    cluster["n3"].signal(signal.SIGSTOP)
    wait_for("n3 is dead", lambda: state_of(p, "n3") == "dead")
    late = cluster.program(cluster["n2"], deadline_s=PATIENCE_S)
    began = time.monotonic()
    assert outcome(lambda: late.attach("far").holds(0, 1, MIB)) == "PEER_LOST"
    assert time.monotonic() - began < PATIENCE_S / 2
    cluster["n3"].signal(signal.SIGCONT)


def test_a_node_that_only_the_coordinator_misses_is_used_on(netns_cluster):
    cluster = netns_cluster
    p, a = patient_program_with_memory_on_n3(cluster)
    cluster.cut_pair(cluster["n1"], cluster["n3"])
    wait_for("n3 is called dead", lambda: state_of(p, "n3") == "dead")
    for value in range(20):
        a.fill(0, value, MIB)
        assert a.holds(0, value, MIB)
