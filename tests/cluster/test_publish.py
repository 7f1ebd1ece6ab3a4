"""Names that could not be given: the memory is freed or its program's again, and the name is whose it is meanwhile."""
import signal
import time

import pytest

from harness import FAILURE_DEADLINE_S, outcome, used, wait_for
from ocmlib import DEDICATED, OcmError
from rawprogram import RawProgram, done

MIB = 1 << 20


def test_what_a_killed_program_was_publishing_is_freed_at_all_its_homes(cluster):
    n1, n2, n3 = cluster.nodes
    program, beside = cluster.program(n1), cluster.program(n1)
    a = program.alloc(8 * MIB, layout="striped", nodes=["n2", "n3"], flags=DEDICATED)
    n3.signal(signal.SIGSTOP)
    program.start(a.command("publish", "half"))
    wait_for("it is under way", lambda: "half" in beside.session("names"))
    program.kill()
    wait_for("it has failed", lambda: "half" not in beside.session("names"))
    n3.signal(signal.SIGCONT)
    wait_for("n3 is back", lambda: beside.nodes()["n3"]["state"] == "alive")
    wait_for("nobody has it", lambda: used(n2) == used(n3) == 0)
    assert outcome(lambda: beside.attach("half")) == "NOT_FOUND"


@pytest.mark.parametrize("asker", ["n1", "n2"])
def test_a_home_that_does_not_answer_is_named_and_not_taken_for_the_coordinator(cluster, asker):
    program = cluster.program(cluster[asker], deadline_s=3)
    a = program.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    cluster["n3"].signal(signal.SIGSTOP)
    with pytest.raises(OcmError, match="PEER_LOST.*node n3 has a part of it and does not answer"):
        a.publish("silent")
    cluster["n3"].signal(signal.SIGCONT)
    wait_for("it is published", lambda: outcome(lambda: a.publish("silent")) is None)
    program.session("remove", "silent")
    wait_for("nobody has it", lambda: used(cluster["n3"]) == 0)


def test_what_a_program_publishes_twice_at_once_is_published(make_cluster):
    cluster = make_cluster(extra=("--failure-deadline-ms", "3000"))
    program = cluster.program(cluster["n1"], deadline_s=0.3)
    a = program.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    cluster["n3"].signal(signal.SIGSTOP)
    assert outcome(lambda: a.publish("twice")) == "DEADLINE"
    program.start(a.command("publish", "twice"))  # while the first one is under way
    cluster["n3"].signal(signal.SIGCONT)
    second = outcome(program.finish)
    assert second != "EXISTS", "it is no other's name"
    if isinstance(second, str):
        wait_for("it is published", lambda: outcome(lambda: a.publish("twice")) is None)
    assert "twice" in program.session("names")


@pytest.mark.parametrize("nodes", [["n3"], ["n2", "n3"]])
def test_what_was_removed_is_not_published_again_and_says_so_at_once(make_cluster, nodes):
    """Also while a reader holds it: nothing of it is on its way."""
    cluster = make_cluster(extra=("--failure-deadline-ms", "20000"))
    program = RawProgram(cluster["n1"])
    program.hello()
    layout = {"layout": 2, "extents": 2} if len(nodes) == 2 else {}
    made = program.call("allocate", bytes_total=MIB, nodes=nodes, flags=DEDICATED, **layout)["allocation"]
    done(program.call("publish", allocation_id=made["allocation_id"], name="x", mode=0o606))
    reader = cluster.program(cluster["n2"])
    reader.attach("x", "r+hold")
    reader.session("remove", "x")
    begun_s = time.monotonic()
    again = program.call("publish", allocation_id=made["allocation_id"], name="x", mode=0o606)
    assert again["code"] == -23 and "removed" in again["detail"]
    assert time.monotonic() - begun_s < 20


def test_a_name_that_another_program_took_stays_when_the_first_publish_fails(make_cluster):
    cluster = make_cluster(extra=("--failure-deadline-ms", "3000"))  # time to remove the name and to give it again
    n1, n2, n3 = cluster.nodes
    first, remover, other = (cluster.program(n1) for _ in range(3))
    a, b = first.alloc(MIB, nodes=["n3"], flags=DEDICATED), other.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    b.fill(0, 2, MIB)
    n3.signal(signal.SIGSTOP)
    first.start(a.command("publish", "x", 0o606))
    wait_for("it is under way", lambda: "x" in other.session("names"))
    remover.start({"do": "call", "on": "session", "method": "remove", "args": ["x"]})  # waits for n3
    wait_for("it is removed", lambda: "x" not in other.session("names"))
    b.publish("x", 0o606)
    assert isinstance(outcome(first.finish), str), "the first publish fails"
    outcome(remover.finish)
    assert other.attach("x").holds(0, 2, MIB)
    n3.signal(signal.SIGCONT)
    wait_for("n3 is back", lambda: other.nodes()["n3"]["state"] == "alive")
    wait_for("n3 keeps nothing", lambda: used(n3) == 0)
    reader = cluster.program(n3)
    assert reader.attach("x").holds(0, 2, MIB)
    other.session("remove", "x")
    wait_for("its memory is back", lambda: used(n2) == 0)


@pytest.mark.parametrize("end", ["dead", "restarted"])
@pytest.mark.parametrize("joined", [False, True])
def test_what_has_replicas_is_published_without_the_home_that_died(make_cluster, end, joined):
    cluster = make_cluster(names=("n1", "n2", "n3", "n4"), extra=("--replicas-again-after-ms", "60000"))
    program, other = cluster.program(cluster["n1"]), cluster.program(cluster["n4"])
    parts = [program.alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED) for _ in range(2)]
    for part in parts:
        part.fill(0, 3, MIB)
    a = program.join(*parts) if joined else parts[0]
    cluster["n3"].kill()
    if end == "restarted":
        cluster["n3"].start().wait_ready()
        cluster.wait_members(at=cluster["n1"])
    else:
        wait_for("the death is known", lambda: any(
            node["name"] == "n3" and node["state"] == "dead" for node in cluster["n1"].status()["nodes"]))
    a.publish("x", 0o606)
    assert other.attach("x", "r").holds(0, 3, MIB)
    other.session("remove", "x")
    if not joined:
        parts[1].free()
    wait_for("nothing is used", lambda: all(node.status()["extents"] == 0 for node in cluster.nodes
                                            if end == "restarted" or node.name != "n3"))


@pytest.mark.parametrize("end", ["dead", "restarted"])
def test_what_lost_all_replicas_is_not_published_and_says_so_in_time(make_cluster, end):
    cluster = make_cluster(names=("n1", "n2", "n3", "n4"), extra=("--replicas-again-after-ms", "60000"))
    program = cluster.program(cluster["n1"])
    a = program.alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
    for name in ("n2", "n3"):
        cluster[name].kill()
    if end == "restarted":
        for name in ("n2", "n3"):
            cluster[name].start().wait_ready()
        cluster.wait_members(at=cluster["n1"])
    else:
        wait_for("the deaths are known", lambda: sum(
            node["state"] == "dead" for node in cluster["n1"].status()["nodes"]) == 2)
    begin = time.monotonic()
    assert outcome(lambda: a.publish("x", 0o606)) in ("PEER_LOST", "LOST")
    assert time.monotonic() - begin < 2 * FAILURE_DEADLINE_S + 2


def test_a_home_restarts_while_the_coordinator_is_silent_and_the_name_is_given(make_cluster):
    deadline_s = 4  # so long that a slow start of n2 takes a small part of it
    cluster = make_cluster(extra=("--failure-deadline-ms", str(1000 * deadline_s)))
    n1, n2, n3 = cluster.nodes
    program, other = cluster.program(n3), cluster.program(n1)
    a = program.alloc(MIB, layout="replicated", nodes=["n3", "n2"], flags=DEDICATED)
    a.fill(0, 5, MIB)
    n1.signal(signal.SIGSTOP)
    begin = time.monotonic()
    program.start(a.command("publish", "x", 0o606))
    n2.kill()
    n2.start()
    time.sleep(max(0, begin + 0.7 * deadline_s - time.monotonic()))
    n1.signal(signal.SIGCONT)
    was_silent = time.monotonic() - begin
    answer = outcome(program.finish)
    if was_silent > 0.9 * deadline_s and answer == "NO_COORDINATOR":  # this machine stood still
        answer = outcome(lambda: a.publish("x", 0o606))
    assert answer is None
    assert other.attach("x", "r").holds(0, 5, MIB)


@pytest.mark.parametrize("layout, nodes", [("single", ["n2"]), ("striped", ["n2", "n3"])])
def test_what_its_home_lost_by_a_restart_is_not_published_and_the_error_tells_why(cluster, layout, nodes):
    program = cluster.program(cluster["n1"])
    a = program.alloc(MIB, layout=layout, nodes=nodes, flags=DEDICATED)
    cluster["n2"].kill()
    cluster["n2"].start().wait_ready()
    cluster.wait_members(at=cluster["n1"])
    with pytest.raises(OcmError, match="restarted") as failed:
        a.publish("x", 0o606)
    assert failed.value.name == "PEER_LOST"
    assert outcome(lambda: cluster.program(cluster["n3"]).attach("x")) == "NOT_FOUND"


@pytest.mark.parametrize("nodes", [["n3"], ["n1", "n3"]])
def test_who_holds_what_was_published_without_an_answer_keeps_it_when_it_is_freed(netns_cluster, nodes):
    cluster = netns_cluster
    n1, n2, n3 = cluster.nodes
    publisher, reader = cluster.program(n2), cluster.program(n3)
    layout = "single" if len(nodes) == 1 else "replicated"
    a = publisher.alloc(MIB, layout=layout, nodes=nodes, flags=DEDICATED)
    a.fill(0, 9, MIB)
    cluster.cut_one_way(n1, n2)
    publisher.start(a.command("publish", "x", 0o606))
    wait_for("the name is there", lambda: "x" in reader.session("names"))
    held = reader.attach("x", "r+hold")
    assert outcome(publisher.finish) in ("NO_COORDINATOR", "PEER_LOST", "NO_DAEMON", "DEADLINE")
    cluster.restore_one_way(n1, n2)
    a.free()
    wait_for("the name is gone", lambda: "x" not in reader.session("names"))
    assert held.holds(0, 9, MIB)
    held.free()
    wait_for("nobody has it", lambda: all(used(node) == 0 for node in cluster.nodes))
