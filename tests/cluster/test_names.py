"""Names whose requests get no answer: what is told is true, and nothing stays of which nobody was told."""
import signal

import pytest

from harness import FAILURE_DEADLINE_S, outcome, used, wait_for
from ocmlib import DEDICATED

MIB = 1 << 20


def wait_until_nothing_is_left(program, *homes):
    wait_for("there is no such name, and no memory of it",
             lambda: outcome(lambda: program.session("names")) == {} and all(used(home) == 0 for home in homes),
             10 * FAILURE_DEADLINE_S)


def publish_without_an_answer(cluster):
    """The coordinator stands still until the program was told that there is none: its request waits in the socket."""
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n3, deadline_s=20)
    mine = program.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    mine.fill(0, 1, MIB)
    n1.signal(signal.SIGSTOP)
    assert outcome(lambda: mine.publish("x", 0o606)) == "NO_COORDINATOR"
    return program, mine


@pytest.mark.parametrize("how", ["killed", "closed", "freed"])
def test_nothing_stays_of_a_publish_of_which_nobody_was_told(cluster, how):
    n1, n2, n3 = cluster.nodes
    program, mine = publish_without_an_answer(cluster)
    if how == "freed":
        mine.free()
    elif how == "closed":
        program.close()
    else:
        program.kill()
    n1.signal(signal.SIGCONT)
    cluster.wait_members(at=n2)
    other = cluster.program(n2)
    wait_until_nothing_is_left(other, n2)
    other.alloc(MIB, flags=DEDICATED).publish("x")
    other.session("remove", "x")


def test_a_publish_without_an_answer_is_done_when_it_is_asked_for_again(cluster):
    n1, n2, n3 = cluster.nodes
    program, mine = publish_without_an_answer(cluster)
    n1.signal(signal.SIGCONT)
    cluster.wait_members(at=n3)
    assert wait_for("it is published", lambda: outcome(lambda: mine.publish("x", 0o606)) is None)
    assert outcome(lambda: mine.publish("x", 0o606)) == "EXISTS"
    program.kill()
    other = cluster.program(n1)
    wait_for("it is there without its program", lambda: outcome(lambda: other.attach("x").holds(0, 1, MIB)) is True)
    other.session("remove", "x")
    wait_for("its memory is free", lambda: used(n2) == 0)


def test_what_may_be_published_is_not_joined(cluster):
    n1, n2, n3 = cluster.nodes
    program, mine = publish_without_an_answer(cluster)
    other = program.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    n1.signal(signal.SIGCONT)
    assert outcome(lambda: program.join(mine, other)) == "INVALID_ARGUMENT"
    mine.free()
    other.free()
    wait_for("all of it is free", lambda: used(n2) == 0 and outcome(lambda: program.session("names")) == {})


@pytest.mark.parametrize("then", ["again", "freed", "killed"])
def test_a_publish_stays_in_doubt_when_the_daemon_restarts(cluster, then):
    n1, n2, n3 = cluster.nodes
    program, mine = publish_without_an_answer(cluster)
    n3.kill()
    n3.start().wait_ready()
    n1.signal(signal.SIGCONT)
    cluster.wait_members(at=n3)
    wait_for("the session goes on", lambda: outcome(lambda: mine.holds(0, 1, MIB)) is True)
    other = cluster.program(n2)
    if then == "again":
        assert wait_for("it is published", lambda: outcome(lambda: mine.publish("x", 0o606)) is None)
        program.kill()
        assert wait_for("it is there", lambda: outcome(lambda: other.attach("x").holds(0, 1, MIB)) is True)
        other.session("remove", "x")
    elif then == "freed":
        mine.free()
    else:
        program.kill()
    wait_until_nothing_is_left(other, n2)


def test_what_is_freed_while_its_publish_is_under_way_has_no_name(cluster):
    """The program gave up earlier than its daemon."""
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n3, deadline_s=0.3)
    mine = program.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    n1.signal(signal.SIGSTOP)
    assert outcome(lambda: mine.publish("x", 0o606)) == "DEADLINE"
    mine.free()
    n1.signal(signal.SIGCONT)
    cluster.wait_members(at=n2)
    other = cluster.program(n2)
    wait_until_nothing_is_left(other, n2)


@pytest.mark.parametrize("layout", ["striped", "replicated"])
def test_half_a_name_does_not_outlive_its_program(make_netns_cluster, layout):
    """One home was told of it, then the coordinator and the program end."""
    cluster = make_netns_cluster(names=("n1", "n2", "n3", "n4"))
    n1, n2, n3, n4 = cluster.nodes
    program = cluster.program(n3, deadline_s=20)
    mine = program.alloc(2 * MIB, layout=layout, nodes=["n2", "n4"], flags=DEDICATED)
    other = cluster.program(n2)
    program.alloc(MIB, nodes=["n4"], flags=DEDICATED).publish("first")  # n1 and n4 have a connection: it will wait
    program.session("remove", "first")
    cluster.cut_pair(n1, n4)
    program.start(mine.command("publish", "x", 0o606))
    wait_for("it is being published", lambda: "x" in other.session("names"))
    n1.kill()
    program.kill()
    cluster.restore_pair(n1, n4)
    n1.start().wait_ready()
    for node in cluster.nodes:
        cluster.wait_members(at=node)
    wait_until_nothing_is_left(other, n2, n4)


@pytest.mark.parametrize("first, then", [(0o606, 0o600), (0o600, 0o606)])
def test_published_again_it_has_the_mode_that_was_acknowledged(cluster, first, then):
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n3, deadline_s=20)
    mine = program.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    n1.signal(signal.SIGSTOP)
    assert outcome(lambda: mine.publish("x", first)) == "NO_COORDINATOR"
    n1.signal(signal.SIGCONT)
    cluster.wait_members(at=n3)
    assert wait_for("it is published", lambda: outcome(lambda: mine.publish("x", then)) is None)
    assert program.session("names")["x"]["mode"] == then


@pytest.mark.parametrize("layout, homes", [("single", ["n4"]), ("striped", ["n2", "n4"])])
def test_a_removal_that_one_home_missed_outlives_the_coordinator(make_netns_cluster, layout, homes):
    cluster = make_netns_cluster(names=("n1", "n2", "n3", "n4"))
    n1, n2, n3, n4 = cluster.nodes
    program = cluster.program(n3, deadline_s=20)
    mine = program.alloc(2 * MIB, layout=layout, nodes=homes, flags=DEDICATED)
    mine.publish("x", 0o606)
    other = cluster.program(n2)
    cluster.cut_pair(n1, n4)
    program.start({"do": "call", "on": "session", "method": "remove", "args": ["x"]})
    wait_for("it is removed, and n2 knows", lambda: other.session("names") == {} and used(n2) == 0)
    n1.kill()
    n1.start().wait_ready()
    assert outcome(program.finish) is None
    cluster.restore_pair(n1, n4)
    cluster.wait_members(at=n4)
    wait_for("its memory is free", lambda: used(n2) == used(n4) == 0, 10 * FAILURE_DEADLINE_S)
    assert other.session("names") == {}


def test_a_mode_that_a_home_has_not_heard_is_not_acknowledged(make_netns_cluster):
    """Another run of the coordinator would have the former one from that home."""
    cluster = make_netns_cluster()
    n1, n2, n3 = cluster.nodes
    program, other = cluster.program(n2, deadline_s=0.05), cluster.program(n2)
    mine = program.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    n3.signal(signal.SIGSTOP)
    assert outcome(lambda: mine.publish("x", 0o606)) == "DEADLINE"
    n3.signal(signal.SIGCONT)
    wait_for("it is done", lambda: "x" in other.session("names"))
    cluster.cut_pair(n1, n3)
    wait_for("it is asked for", lambda: outcome(lambda: mine.publish("x", 0o600)) != "EXISTS")
    wait_for("it is done", lambda: other.session("names")["x"]["mode"] == 0o600)
    assert outcome(lambda: mine.publish("x", 0o600)) is not None
    assert other.session("names")["x"]["mode"] == 0o600
    assert outcome(lambda: mine.publish("x", 0o600)) is not None
    cluster.restore_pair(n1, n3)
    wait_for("it is acknowledged", lambda: outcome(lambda: mine.publish("x", 0o600)) is None)
    n1.kill()
    n1.start().wait_ready()
    cluster.wait_members(at=n1)
    wait_for("the name is known again", lambda: "x" in outcome(lambda: other.session("names")))
    assert other.session("names")["x"]["mode"] == 0o600


def test_what_another_program_has_removed_is_not_published_again(cluster):
    n3 = cluster["n3"]
    program, other = cluster.program(cluster["n2"], deadline_s=0.05), cluster.program(cluster["n2"])
    mine = program.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    n3.signal(signal.SIGSTOP)
    assert outcome(lambda: mine.publish("x", 0o606)) == "DEADLINE"
    n3.signal(signal.SIGCONT)
    wait_for("it is done", lambda: "x" in other.session("names"))
    other.session("remove", "x")
    assert outcome(lambda: mine.publish("x", 0o606)) in ("REVOKED", "DEADLINE")
    assert wait_for("it says so", lambda: outcome(lambda: mine.publish("x", 0o606)) == "REVOKED")
