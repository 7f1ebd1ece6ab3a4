"""One link cut, or one direction of it, while everybody still reaches somebody."""
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import FAILURE_DEADLINE_S, outcome, wait_for
from ocmlib import DEDICATED
from rawprogram import RawProgram

MIB = 1 << 20
PEER_LOST = -40


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
        cluster.restore_pair(n2, n3)
    else:
        cluster.restore_one_way(n2, n3)
    wait_for("the link is used again", lambda: outcome(lambda: a.holds(0, 1, MIB)) is True, 20 * FAILURE_DEADLINE_S)


def test_a_connection_whose_home_ended_behind_a_cut_fails_no_allocation_made_later(netns_cluster):
    """Nothing says to the program that its idle connection is over: the first to use it is told."""
    cluster = netns_cluster
    n2, n3 = cluster["n2"], cluster["n3"]
    p = cluster.program(n2)
    p.alloc(MIB, nodes=["n3"]).fill(0, 1, MIB)
    n3.output_of("sh", "-c", "echo 1 > /proc/sys/net/ipv4/tcp_orphan_retries")
    cluster.cut_pair(n2, n3)
    n3.kill()
    wait_for("its kernel gives up what it had to say", lambda: not n3.output_of("ss", "-Htn", "dst", n2.host))
    n3.start()
    wait_for("its new run is known", lambda: "node_heard node=n3 how=restarted" in cluster["n1"].log())
    cluster.restore_pair(n2, n3)
    wait_for("it gives memory", lambda: outcome(lambda: p.alloc(MIB, nodes=["n3"]).free()) is None)
    again = p.alloc(MIB, nodes=["n3"])
    again.fill(0, 2, MIB)
    assert again.holds(0, 2, MIB)


def test_a_name_is_held_at_a_home_or_the_hold_is_refused(netns_cluster):
    """The coordinator is cut off and takes all homes for dead: a hold that no home knows would keep nothing."""
    cluster = netns_cluster
    n1, n2, n3 = cluster.nodes
    owner, holder = cluster.program(n2), cluster.program(n1)
    a = owner.alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    a.publish("x", 0o606)
    wait_for("the coordinator knows the name", lambda: outcome(lambda: holder.attach("x").free()) is None)
    cluster.cut(n1)
    wait_for("all others look dead", lambda: sum(n["state"] == "dead" for n in holder.nodes().values()) == 2)
    assert outcome(lambda: holder.attach("x", "r+hold")) == "PEER_LOST"
    cluster.restore(n1)
    held = wait_for("the homes are back",
                    lambda: outcome(lambda: holder.attach("x", "r+hold")) not in ("PEER_LOST", "NO_COORDINATOR")
                    and holder.attach("x", "r+hold"))
    owner.session("remove", "x")
    assert held.holds(0, 1, MIB)


@pytest.fixture
def four_nodes(make_netns_cluster):
    return make_netns_cluster(names=("n1", "n2", "n3", "n4"))


def written_and_read(cluster, homes):
    """Replicas, written by a program on n1 and read by one on n4: the reader, and the handle of each."""
    writer, reader = cluster.program(cluster["n1"]), cluster.program(cluster["n4"])
    written = writer.alloc(MIB, layout="replicated", nodes=homes, flags=DEDICATED)
    written.fill(0, 1, MIB)
    written.publish("replicas", 0o606)
    seen = reader.attach("replicas")
    assert seen.holds(0, 1, MIB)
    return reader, written, seen


def test_a_copy_never_takes_old_bytes_from_a_replica_without_a_lease(four_nodes):
    cluster = four_nodes
    n1, n2, n3, n4 = cluster.nodes
    y, r, seen = written_and_read(cluster, homes=["n3", "n2"])
    t = y.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    wait_for("three of the four vote", lambda: "number=2" in n1.log() or "number=3" in n1.log())
    cluster.cut_pair(n1, n3)
    cluster.cut_pair(n2, n3)
    r.fill(0, 2, MIB)  # acknowledged: n3 can no longer serve its replica, though n4 reaches it
    for _ in range(3):
        copied = outcome(lambda: t.copy_from(0, seen, 0, MIB))
        if copied is None:
            assert t.holds(0, 2, MIB)
        else:  # n3 reaches no other replica
            assert copied == "PEER_LOST"
    assert seen.holds(0, 2, MIB)
    back = y.alloc(MIB, nodes=["n4"], flags=DEDICATED)
    back.fill(0, 3, MIB)
    wait_for("a copy into them is done", lambda: outcome(lambda: seen.copy_from(0, back, 0, MIB)) is None)
    for reader in (seen, r, cluster.program(n2).attach("replicas")):
        assert reader.holds(0, 3, MIB)
    cluster.restore_pair(n1, n3)
    cluster.restore_pair(n2, n3)


def test_no_copy_goes_into_a_replica_without_a_lease(netns_cluster):
    cluster = netns_cluster
    n3 = cluster["n3"]
    a = cluster.program(cluster["n1"]).alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
    a.publish("replicas", 0o606)
    raw = RawProgram(n3)
    raw.hello()
    attached = raw.call("attach", name="replicas", access=3)["allocation"]["extents"]
    target = next(extent for extent in attached if extent["node"] == "n3")
    source = raw.call("allocate", bytes_total=MIB, flags=DEDICATED, nodes=["n3"])["allocation"]["extents"][0]
    cluster.cut(n3)  # from all, so that it does not hear that its replica is lost
    a.fill(0, 2, MIB)
    refused = raw.call("copy", target=target, source=source, bytes_total=MIB)
    assert refused["code"] == PEER_LOST and "lease" in refused["detail"], refused
    raw.close()
    cluster.restore(n3)


def test_a_writer_that_was_cut_off_gives_up_no_replica_of_a_well_node(four_nodes):
    """A put reached one replica, then its node, the coordinator's, was cut off. Back again, it asks first."""
    cluster = four_nodes
    n1, n2, n3, _ = cluster.nodes
    _, a, seen = written_and_read(cluster, homes=["n2", "n3"])
    wait_for("the council is made", lambda: n1.log().count("info council") >= 1)
    councils = n1.log().count("info council")
    cluster.cut_pair(n1, n2)
    with ThreadPoolExecutor(1) as pool:
        put = pool.submit(outcome, lambda: a.fill(0, 2, 4096))
        time.sleep(0.1)
        cluster.cut(n1)
        time.sleep(1.5 * FAILURE_DEADLINE_S)
        cluster.restore_pair(n1, n2)
        cluster.restore(n1)
        assert put.result() in (None, "PEER_LOST")
    wait_for("it can write again", lambda: outcome(lambda: a.fill(0, 3, MIB)) is None)
    assert not any(word in node.log() for node in cluster.nodes for word in ("replica_lost", "replica_dropped"))
    assert "voters=n1\n" not in n1.log() and n1.log().count("info council") == councils
    n3.kill()
    wait_for("one replica is enough", lambda: outcome(lambda: seen.holds(0, 3, MIB)) is True)


def test_a_long_cut_is_over_when_the_network_is_well(make_netns_cluster):
    """TCP tries an old connection again as long after a cut as it lasted: here 11 s."""
    cluster = make_netns_cluster(seeds=False)
    n1, n2, n3 = cluster.nodes
    p, q = cluster.program(n1), cluster.program(n2)
    cluster.cut(n1)
    time.sleep(13.5)
    cluster.restore(n1)
    restored = time.monotonic()
    wait_for("all are heard", lambda: all(node["state"] == "alive" for node in p.nodes().values()), 30)
    assert time.monotonic() - restored < 4 * FAILURE_DEADLINE_S
    assert outcome(lambda: q.alloc(MIB, nodes=["n1"]).free()) is None
