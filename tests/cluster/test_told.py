"""What a program is told of what it holds and of nodes while it waits in ocm_event_next() and does nothing else."""
import contextlib
import signal
import threading
import time

import pytest

from harness import FAILURE_DEADLINE_S, outcome, wait_for
from ocmlib import DEDICATED, Session

MIB = 1 << 20
SOON_S = FAILURE_DEADLINE_S / 2  # nobody waited for a time-out


def published(cluster, home, name="shared", by="n1", uid=None):
    owner = cluster.program(cluster[by], uid=uid)
    a = owner.alloc(MIB, nodes=[home], flags=DEDICATED)
    a.publish(name, 0o606)
    return owner


def watches(program):
    """It has begun; what is so already is passed over."""
    program.session("events", 0.05)
    return program


def is_told(program, kind, action) -> dict:
    """What `program`, which waits meanwhile, is told soon after the action began."""
    program.start({"do": "call", "on": "session", "method": "event_of", "args": [kind]})
    time.sleep(0.1)  # it waits
    began = time.monotonic()
    action()
    event = program.finish()
    took_s = time.monotonic() - began
    assert event is not None and took_s < SOON_S, (event, took_s)
    return event


@pytest.mark.parametrize("home", ["n1", "n2", "n3"])
def test_the_end_of_a_name_is_told_to_who_has_attached_it(cluster, home):
    owner = published(cluster, home)
    reader = cluster.program(cluster["n2"])
    handle = reader.attach("shared")
    other = watches(cluster.program(cluster["n2"]))
    watches(reader)
    event = is_told(reader, "revoked", lambda: owner.session("remove", "shared"))
    assert event["name"] == "shared" and event["node"] == home
    assert event["allocation"] == handle.id()
    assert outcome(lambda: handle.get(0, 8)) == "REVOKED"
    assert other.session("events", 0.3) == []  # it has not attached it
    assert reader.session("events", 0.3) == []  # once


def test_what_ended_before_a_program_asked_is_told_first(cluster):
    owner = published(cluster, "n3")
    reader = cluster.program(cluster["n2"])
    reader.attach("shared")
    owner.session("remove", "shared")
    assert reader.session("event_of", "revoked", SOON_S)["name"] == "shared"


def test_what_is_held_is_not_revoked_until_its_hold_ends(cluster):
    owner = published(cluster, "n3")
    holder, reader = cluster.program(cluster["n1"]), watches(cluster.program(cluster["n2"]))
    held = holder.attach("shared", "r+hold")
    reader.attach("shared", "r")
    owner.session("remove", "shared")
    assert reader.session("events", 0.3) == []
    assert is_told(reader, "revoked", held.free)["name"] == "shared"


def test_what_a_program_frees_itself_is_not_told(cluster):
    p = watches(cluster.program(cluster["n2"]))
    for _ in range(20):
        p.alloc(MIB, nodes=["n3"], flags=DEDICATED).free()
    owner = published(cluster, "n3")
    held = p.attach("shared", "r+hold")
    owner.session("remove", "shared")
    held.free()
    assert p.session("events", 0.3) == []


@pytest.mark.parametrize("seeds", [False, True])
def test_a_node_that_is_told_to_stop_is_told_of(make_cluster, seeds):
    cluster = make_cluster(seeds=seeds)
    p = watches(cluster.program(cluster["n2"]))
    p.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    event = is_told(p, "node_draining", lambda: cluster["n3"].signal(signal.SIGTERM))
    assert event["node"] == "n3"


def test_a_daemon_that_is_killed_is_told_of_before_it_counts_as_dead(cluster):
    p = cluster.program(cluster["n2"])
    a = p.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    watches(p)
    event = is_told(p, "node_suspect", cluster["n3"].kill)
    assert event["node"] == "n3"
    assert p.session("event_of", "node_dead")["node"] == "n3"
    cluster["n3"].start().wait_ready()
    told = [p.session("event"), p.session("event")]
    alive = next(event for event in told if event["kind"] == "node_alive")
    revoked = next(event for event in told if event["kind"] == "revoked")
    assert alive["node"] == "n3" and revoked["partition"] != alive["partition"]
    assert revoked["allocation"] == a.id()


def test_a_program_that_does_not_read_misses_nothing(cluster):
    count = 300
    owner = cluster.program(cluster["n1"])
    slow = watches(cluster.program(cluster["n2"]))
    for i in range(count):
        owner.alloc(4096, nodes=["n3"], flags=DEDICATED).publish(f"s{i}", 0o606)
        slow.attach(f"s{i}", "r")
    slow.kill(signal.SIGSTOP)
    for i in range(count):
        owner.session("remove", f"s{i}")
    quick = watches(cluster.program(cluster["n2"]))  # others are told meanwhile
    last = owner.alloc(4096, nodes=["n3"], flags=DEDICATED)
    last.publish("last", 0o606)
    quick.attach("last", "r")
    assert is_told(quick, "revoked", lambda: owner.session("remove", "last"))["name"] == "last"
    slow.kill(signal.SIGCONT)
    names = [event["name"] for event in slow.session("events", SOON_S) if event["kind"] == "revoked"]
    assert sorted(names) == sorted(f"s{i}" for i in range(count))


@pytest.mark.parametrize("deadlines", [0.5, 3])
@pytest.mark.parametrize("way", [("n3", "n2"), ("n2", "n3")])
def test_after_a_cut_in_one_direction_what_ended_meanwhile_is_told(netns_cluster, way, deadlines):
    cluster = netns_cluster
    owner = published(cluster, "n3")
    reader = cluster.program(cluster["n2"])
    reader.attach("shared")
    watches(reader)
    sender, receiver = (cluster[name] for name in way)
    cluster.cut_one_way(sender, receiver)
    owner.session("remove", "shared")
    time.sleep(deadlines * FAILURE_DEADLINE_S)
    cluster.restore_one_way(sender, receiver)
    assert reader.session("event_of", "revoked", 8 * FAILURE_DEADLINE_S)["name"] == "shared"
    assert [event for event in reader.session("events", SOON_S) if event["kind"] == "revoked"] == []


@pytest.mark.parametrize("meanwhile", [False, True])
def test_a_session_goes_on_under_a_daemon_that_was_started_again(cluster, meanwhile):
    owner = published(cluster, "n3")
    reader = cluster.program(cluster["n2"])
    reader.attach("shared")
    watches(reader)
    cluster["n2"].kill()
    if meanwhile:
        owner.session("remove", "shared")
    cluster["n2"].start().wait_ready()
    assert reader.session("event_of", "resync") is not None
    if not meanwhile:
        assert not [event for event in reader.session("events", SOON_S) if event["kind"] == "revoked"]
        owner.session("remove", "shared")
    assert reader.session("event_of", "revoked", 4 * FAILURE_DEADLINE_S)["name"] == "shared"


def test_a_home_that_was_started_again_has_nothing_of_before(cluster):
    owner = published(cluster, "n3")
    reader = cluster.program(cluster["n2"])
    reader.attach("shared")
    watches(reader)
    cluster["n3"].kill()
    cluster["n3"].start().wait_ready()
    assert reader.session("event_of", "revoked", 4 * FAILURE_DEADLINE_S)["name"] == "shared"
    owner.close()


def test_a_replica_that_is_lost_is_no_end(cluster):
    owner = cluster.program(cluster["n1"])
    a = owner.alloc(MIB, layout="replicated", nodes=["n1", "n3"], flags=DEDICATED)
    a.publish("twice", 0o606)
    reader = cluster.program(cluster["n2"])
    reader.attach("twice", "r")
    watches(reader)
    cluster["n3"].kill()
    wait_for("n3 is dead", lambda: owner.nodes()["n3"]["state"] == "dead")
    a.fill(0, 1, MIB)
    assert not [event for event in reader.session("events", SOON_S) if event["kind"] == "revoked"]
    owner.session("remove", "twice")
    assert reader.session("event_of", "revoked", 4 * FAILURE_DEADLINE_S)["name"] == "twice"


@pytest.mark.parametrize("homes", [("n1", "n3"), ("n2", "n3"), ("n3", "n1")])
def test_who_holds_a_part_that_is_made_again_is_told_wherever_its_homes_are(make_cluster, homes):
    """Also on the node of the replica that is left, and on the one that gets the new replica."""
    cluster = make_cluster(extra=("--replicas-again-after-ms", "200"))
    owner = cluster.program(cluster["n1"])
    a = owner.alloc(MIB, layout="replicated", nodes=list(homes), flags=DEDICATED)
    a.publish("twice", 0o606)
    readers = [cluster.program(cluster[node]) for node in ("n1", "n2")]
    handles = [reader.attach("twice", "r") for reader in readers]
    for reader in readers:
        watches(reader)
    cluster["n3"].kill()
    for reader, handle in zip(readers, handles):
        event = reader.session("event_of", "moved", 8 * FAILURE_DEADLINE_S)
        assert event is not None and event["name"] == "twice" and event["allocation"] == handle.id()
        assert event["node"] in ("n1", "n2")
        assert not [e for e in reader.session("events", SOON_S) if e["kind"] == "moved"]  # once


def test_a_user_is_not_told_of_what_others_hold(cluster):
    owner = published(cluster, "n3", uid=4001)
    mine, others = cluster.program(cluster["n2"], uid=4001), cluster.program(cluster["n2"], uid=4002)
    mine.attach("shared")
    a = others.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    watches(mine), watches(others)
    assert is_told(mine, "revoked", lambda: owner.session("remove", "shared"))["name"] == "shared"
    a.free()
    assert mine.session("events", 0.3) == [] and others.session("events", 0.3) == []


def test_a_handle_that_comes_while_another_is_given_back_is_told(cluster):
    """The last handle, which had a hold, is freed while another thread attaches the same name."""
    owner, reader = (Session(str(cluster[node].socket_path)) for node in ("n1", "n2"))
    with contextlib.closing(owner), contextlib.closing(reader):
        reader.events(0.05)
        for i in range(20):
            a = owner.alloc(4096, nodes=["n3"], flags=DEDICATED)
            a.publish(f"x{i}", 0o606)
            first, second = reader.attach(f"x{i}", "r+hold"), []
            other = threading.Thread(target=lambda: second.append(reader.attach(f"x{i}", "r")))  # noqa: B023
            other.start()
            first.free()
            other.join()
            owner.remove(f"x{i}")
            assert reader.event_of("revoked", SOON_S)["name"] == f"x{i}"
            second[0].free()


def test_parts_that_nobody_can_answer_for_hold_up_no_other(make_netns_cluster):
    """One home of them is cut off and the other one forgot."""
    cluster = make_netns_cluster(names=("n1", "n2", "n3", "n4", "n5"), seeds=True)
    owner, reader = cluster.program(cluster["n1"]), cluster.program(cluster["n2"])
    for _ in range(40):
        reader.alloc(4096, layout="replicated", nodes=["n3", "n4"], flags=DEDICATED)
    owner.alloc(4096, layout="replicated", nodes=["n1", "n5"], flags=DEDICATED).publish("shared", 0o606)
    reader.attach("shared")
    watches(reader)
    cluster.cut(cluster["n4"])
    cluster["n3"].kill()
    cluster["n3"].start().wait_ready()
    wait_for("n4 is dead", lambda: owner.nodes()["n4"]["state"] == "dead")
    wait_for("n3 is back", lambda: owner.nodes()["n3"]["state"] == "alive")
    began = time.monotonic()
    owner.session("remove", "shared")
    assert reader.session("event_of", "revoked", 10)["name"] == "shared"
    assert time.monotonic() - began < 4  # those take 8 seconds, one after the other
