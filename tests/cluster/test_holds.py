"""What a handle with a hold keeps, wherever its replicas go, and until its end."""
import signal
import time

import pytest

from harness import FAILURE_DEADLINE_S, only_mapped, outcome, wait_for
from ocmlib import DEDICATED
from test_stop import NEVER, SAFE, SOON, UNSAFE, stop_check

MIB = 1 << 20
FOUR = ("n1", "n2", "n3", "n4")


def extents(cluster):
    return [node.status()["extents"] for node in cluster.nodes]


def held_by_n4(cluster):
    """A published allocation with replicas on n2 and n3, and a handle of it with a hold."""
    owner, holder = cluster.program(cluster["n1"]), cluster.program(cluster["n4"])
    a = owner.alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    a.publish("x", 0o606)
    return owner, holder.attach("x", "r+hold")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_hold_goes_where_replicas_are_made_again(make_cluster, how):
    cluster = make_cluster(names=FOUR, extra=SOON)
    n1, n2, n3, n4 = cluster.nodes
    owner, held = held_by_n4(cluster)
    for node in (n2, n3):  # neither of the homes that were asked for the hold has it any more
        node.stop() if how == signal.SIGTERM else node.kill()
        node.start().wait_ready()
        cluster.wait_members(at=node)
        time.sleep(FAILURE_DEADLINE_S)  # the loss is known
        wait_for("both replicas are there",
                 lambda: all(name["replicas_missing"] == 0 for name in n1.status()["names"])
                 and all(one.status()["replicas_waiting"] == 0 for one in cluster.nodes), 20 * FAILURE_DEADLINE_S)
    before = extents(cluster)
    assert sum(before) == 2
    owner.session("remove", "x")
    time.sleep(1)  # longer than it takes to free them
    assert extents(cluster) == before and held.holds(0, 1, MIB)
    held.free()
    wait_for("nothing is used", lambda: sum(extents(cluster)) == 0)


@only_mapped
@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_pointers_outlive_the_daemon_that_gave_them(make_cluster, how, removed):
    """With a hold, also where the name is gone and the hold was the last to keep the memory; and to own memory."""
    cluster = make_cluster(names=FOUR, extra=SOON)
    n1, n2, n3, n4 = cluster.nodes
    owner, reader = cluster.program(n1), cluster.program(n3)
    a = owner.alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    a.publish("x", 0o606)
    held = reader.attach("x", "r+hold")
    held.keep_pointer(0, MIB)
    own = reader.alloc(MIB, layout="single", nodes=["n3"], flags=DEDICATED)
    own.fill(0, 1, MIB)
    own.keep_pointer(0, MIB)
    before = held.peek(MIB)
    assert before != bytes(MIB) and own.peek(MIB) == before
    if removed:
        owner.session("remove", "x")
    n3.stop() if how == signal.SIGTERM else n3.kill()
    assert held.peek(MIB) == before and own.peek(MIB) == before
    n3.start().wait_ready()
    cluster.wait_members(at=n3)
    assert held.peek(MIB) == before and own.peek(MIB) == before
    assert removed or held.holds(0, 1, MIB)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_hold_comes_to_a_home_that_did_not_hear_of_it(make_netns_cluster, restarts):
    """n3 and the holder's daemon do not reach each other; all others do. Also where that daemon restarts meanwhile."""
    cluster = make_netns_cluster(names=FOUR, extra=NEVER)
    n1, n2, n3, n4 = cluster.nodes
    cluster.cut_pair(n3, n4)
    n4.kill()  # so that nothing of it lies in a stream to n3
    n4.start().wait_ready()
    cluster.wait_members(at=n4)
    owner, held = held_by_n4(cluster)
    if restarts:
        n4.kill()
        n4.start().wait_ready()
        cluster.wait_members(at=n4)
    cluster.restore_pair(n3, n4)
    time.sleep(3 * FAILURE_DEADLINE_S)
    owner.session("remove", "x")
    n2.kill()
    wait_for("n3 is read", lambda: outcome(lambda: held.holds(0, 1, MIB)) is True, 10 * FAILURE_DEADLINE_S)
    held.free()
    wait_for("nothing is used", lambda: n3.status()["extents"] == 0)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_held_handle_that_is_freed_while_its_daemon_is_away_keeps_nothing(make_cluster, how):
    """Nor at a home that stands still while that daemon starts again."""
    cluster = make_cluster(names=FOUR, extra=NEVER)
    n1, n2, n3, n4 = cluster.nodes
    owner, held = held_by_n4(cluster)
    owner.session("remove", "x")
    n3.signal(signal.SIGSTOP)
    n4.stop() if how == signal.SIGTERM else n4.kill()
    assert outcome(held.free) is None
    n4.start().wait_ready()
    time.sleep(2 * FAILURE_DEADLINE_S)
    n3.signal(signal.SIGCONT)
    wait_for("nothing is used", lambda: sum(extents(cluster)) == 0, 20 * FAILURE_DEADLINE_S)


def test_a_stop_waits_for_a_last_copy_that_only_a_hold_keeps(make_cluster):
    cluster = make_cluster(names=FOUR, extra=NEVER)
    n1, n2, n3, n4 = cluster.nodes
    owner, held = held_by_n4(cluster)
    owner.session("remove", "x")
    assert stop_check(n1, "n3") == SAFE
    n2.kill()
    n2.start().wait_ready()
    wait_for("it is the last copy", lambda: stop_check(n1, "n3") == UNSAFE, 10 * FAILURE_DEADLINE_S)
    n3.signal(signal.SIGTERM)
    wait_for("it says what it waits for", lambda: "stop_waits" in n3.log())
    assert held.holds(0, 1, MIB)
    held.free()
    n3.process.wait(20)
