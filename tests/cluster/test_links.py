"""One link cut, or one direction of it, while everybody still reaches somebody."""
import pytest

from harness import FAILURE_DEADLINE_S, wait_for
from ocmlib import OcmError

MIB = 1 << 20


def outcome(action):
    """The error's name, or what the action gave."""
    try:
        return action()
    except OcmError as error:
        return error.name


@pytest.mark.parametrize("cut", ["both ways", "one way"])
def test_a_cut_link_is_an_error_to_who_uses_it_and_to_nobody_else(netns_cluster, cut):
    cluster = netns_cluster
    n2, n3 = cluster["n2"], cluster["n3"]
    p, q = cluster.program(n2), cluster.program(cluster["n1"])
    a = p.alloc(MIB, nodes=["n3"])
    a.fill(0, 1, MIB)
    a.publish("far", 0o606)
    b = q.attach("far")
    if cut == "both ways":
        cluster.cut_pair(n2, n3)
    else:
        cluster.cut_one_way(n2, n3)
    assert outcome(lambda: a.holds(0, 1, MIB)) == "PEER_LOST"
    assert b.holds(0, 1, MIB)
    assert all(node["state"] == "alive" for node in q.nodes().values())  # the coordinator hears both
    if cut == "both ways":
        cluster.mend_pair(n2, n3)
    else:
        cluster.mend_one_way(n2, n3)
    wait_for("the link is used again", lambda: outcome(lambda: a.holds(0, 1, MIB)) is True, 20 * FAILURE_DEADLINE_S)
