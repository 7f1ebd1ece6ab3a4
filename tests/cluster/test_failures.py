"""Bad luck: programs and nodes killed, stopped and cut off. Errors reach their users and nobody else."""
import os
import signal
import time

import pytest

from harness import FAILURE_DEADLINE_S, wait_for
from ocmlib import DEDICATED, OcmError

MIB = 1 << 20
# The default stall bound of a session equals the failure deadline; a loaded machine adds some.
SLACK_S = 3.0


def error_of(action):
    with pytest.raises(OcmError) as caught:
        action()
    return caught.value.name


def used(program, node):
    return program.nodes()[node]["used"]


def test_a_killed_program_gives_its_memory_back_within_a_second(cluster):
    watcher, victim = cluster.program(cluster["n1"]), cluster.program(cluster["n1"])
    before = {name: cluster[name].status() for name in ("n1", "n2", "n3")}
    for node in ("n1", "n2", "n3"):
        victim.alloc(8 * MIB, nodes=[node]).fill(0, 1, 8 * MIB)
    victim.kill()
    began = time.monotonic()

    def all_back():
        return all(pool_used(cluster[name].status()) == pool_used(before[name]) for name in before)
    wait_for("the memory is back", all_back, 5)
    assert time.monotonic() - began < 1.0 + 0.5
    assert watcher.alloc(200 * MIB, nodes=["n2"])


def pool_used(status):
    return next(p["bytes_used"] for p in status["pools"] if p["kind"] == "dram")


def test_a_program_killed_in_the_middle_of_a_put_harms_nobody(cluster):
    watcher = cluster.program(cluster["n1"])
    a = watcher.alloc(64 * MIB, nodes=["n2"])
    a.publish("target")
    for _ in range(5):
        victim = cluster.program(cluster["n3"])
        h = victim.attach("target")
        victim.start({"do": "call", "on": h.name, "method": "put", "args": [0, {"pattern": [9, 60 * MIB]}]})
        time.sleep(0.15)
        victim.kill()
    a.fill(0, 4, 64 * MIB)
    assert a.holds(0, 4, 64 * MIB)


def test_a_killed_node_is_an_error_to_its_users_and_to_nobody_else(cluster):
    p = cluster.program(cluster["n1"])
    on2, on3 = p.alloc(4 * MIB, nodes=["n2"]), p.alloc(4 * MIB, nodes=["n3"])
    for a in (on2, on3):
        a.fill(0, 5, 4 * MIB)
    cluster["n2"].kill()
    assert error_of(lambda: on2.get(0, 100)) == "PEER_LOST"
    assert p.seconds < FAILURE_DEADLINE_S + SLACK_S
    assert on3.holds(0, 5, 4 * MIB)
    wait_for("n2 is declared dead", lambda: p.nodes()["n2"]["state"] == "dead")
    assert error_of(lambda: p.alloc(MIB, nodes=["n2"])) in ("PEER_LOST", "POOL_FULL", "UNKNOWN_NODE")
    assert p.alloc(MIB, nodes=["n3"])


def test_an_error_names_its_node_and_its_subject_as_fields(cluster):
    p = cluster.program(cluster["n1"])
    on2 = p.alloc(MIB, nodes=["n2"])

    def about(action):
        with pytest.raises(OcmError) as caught:
            action()
        return caught.value.name, caught.value.node, caught.value.subject
    assert about(lambda: p.attach("nothing")) == ("NOT_FOUND", "", "nothing")
    assert about(lambda: p.alloc(MIB, nodes=["n9"])) == ("UNKNOWN_NODE", "n9", "")
    assert about(lambda: p.alloc(1 << 40, nodes=["n3"])) == ("POOL_FULL", "", "")  # of the cluster
    cluster["n2"].kill()
    assert about(lambda: on2.get(0, 100)) == ("PEER_LOST", "n2", "")
    assert about(lambda: on2.publish("lost")) == ("PEER_LOST", "n2", "lost")  # what n1 and the coordinator say


def test_a_replicated_allocation_survives_a_killed_node(cluster):
    p = cluster.program(cluster["n1"])
    a = p.alloc(4 * MIB, layout="replicated", nodes=["n2", "n3"])
    a.fill(0, 6, 4 * MIB)
    cluster["n2"].kill()
    assert a.holds(0, 6, 4 * MIB)
    a.fill(0, 7, 4 * MIB)
    assert a.holds(0, 7, 4 * MIB)


def test_a_replicated_allocation_ends_when_all_its_nodes_die_at_once(cluster):
    p = cluster.program(cluster["n1"])
    a = p.alloc(4 * MIB, layout="replicated", nodes=["n2", "n3"])
    a.fill(0, 6, 4 * MIB)
    for node in ("n2", "n3"):  # one after the other leaves time to make a copy on n1: test_remake.py
        cluster[node].kill()
    assert error_of(lambda: a.get(0, 1)) in ("LOST", "PEER_LOST")


def test_a_killed_node_that_comes_back_never_answers_old_handles(cluster):
    p = cluster.program(cluster["n1"])
    a = p.alloc(MIB, nodes=["n2"])
    a.fill(0, 8, MIB)
    cluster["n2"].kill()
    cluster["n2"].start().wait_ready()
    wait_for("n2 is back", lambda: p.nodes()["n2"]["state"] == "alive")
    other = cluster.program(cluster["n2"])
    other.alloc(MIB, flags=DEDICATED).fill(0, 9, MIB)
    for _ in range(3):
        assert error_of(lambda: a.get(0, 64)) in ("PEER_LOST", "REVOKED", "NOT_FOUND", "LOST", "PERMISSION")
    assert p.alloc(MIB, nodes=["n2"]).get(0, 8) == bytes(8)


def test_a_stopped_node_is_lost_in_time_and_usable_when_it_goes_on(cluster):
    p = cluster.program(cluster["n1"])
    a, other = p.alloc(MIB, nodes=["n3"]), p.alloc(MIB, nodes=["n2"])
    a.fill(0, 1, MIB)
    cluster["n3"].signal(signal.SIGSTOP)
    assert error_of(lambda: a.get(0, 100)) == "PEER_LOST"
    assert p.seconds < FAILURE_DEADLINE_S + SLACK_S
    other.fill(0, 2, MIB)
    cluster["n3"].signal(signal.SIGCONT)
    q = cluster.program(cluster["n2"])
    for program in (p, q):  # n2 hears of it with its next heartbeat
        wait_for("n3 is back", lambda program=program: program.nodes()["n3"]["state"] == "alive")
    b = q.alloc(MIB, nodes=["n3"])
    b.fill(0, 3, MIB)
    assert b.holds(0, 3, MIB)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_put_that_failed_never_overwrites_a_newer_one(make_cluster, threads):
    cluster = make_cluster(extra=["--tcp-threads", str(threads)])
    p = cluster.program(cluster["n1"], deadline_s=0.7)
    a = p.alloc(16 * MIB, flags=DEDICATED, nodes=["n3"])
    a.publish("overwritten")
    newer = p.attach("overwritten")
    for i in range(6):
        a.fill(0, 1, 16 * MIB)
        cluster["n3"].signal(signal.SIGSTOP)
        assert error_of(lambda: a.fill(0, 2, 16 * MIB)) == "PEER_LOST"  # much of it lies in sockets
        place, count = i * MIB, 64 * 1024
        p.start({"do": "call", "on": newer.name, "method": "put", "args": [place, {"pattern": [3, count]}]})
        time.sleep(0.1)  # the new connection waits at the home too
        cluster["n3"].signal(signal.SIGCONT)
        p.finish()
        for _ in range(10):
            assert newer.holds(place, 3, count)
            time.sleep(0.02)


def test_a_stopped_replica_never_answers_with_old_bytes(cluster):
    p, q = cluster.program(cluster["n1"]), cluster.program(cluster["n1"])
    a = p.alloc(MIB, layout="replicated", nodes=["n2", "n3"])
    a.publish("replicas", 0o606)
    a.fill(0, 1, MIB)
    b = q.attach("replicas")
    assert b.holds(0, 1, MIB)
    cluster["n2"].signal(signal.SIGSTOP)
    a.fill(0, 2, MIB)  # acknowledged with n2 dropped
    cluster["n2"].signal(signal.SIGCONT)
    for _ in range(20):
        assert b.holds(0, 2, MIB)
        time.sleep(0.05)
    late = cluster.program(cluster["n2"])
    assert late.attach("replicas").holds(0, 2, MIB)


def test_what_a_stopped_node_makes_too_late_is_given_back(cluster):
    p = cluster.program(cluster["n1"])
    p.alloc(MIB, nodes=["n2"], flags=DEDICATED).free()  # there is a connection
    cluster["n2"].signal(signal.SIGSTOP)
    assert error_of(lambda: p.alloc(32 * MIB, nodes=["n2"], flags=DEDICATED)) != "OK"
    cluster["n2"].signal(signal.SIGCONT)
    wait_for("n2 is back", lambda: p.nodes()["n2"]["state"] == "alive")
    time.sleep(1.0)  # what was sent to it has been read
    wait_for("it keeps nothing", lambda: pool_used(cluster["n2"].status()) == 0)


def test_the_coordinator_killed_and_started_again_loses_nothing(cluster):
    p = cluster.program(cluster["n2"])
    private, named = p.alloc(MIB, nodes=["n3"]), p.alloc(MIB, layout="striped", nodes=["n2", "n3"])
    private.fill(0, 1, MIB)
    named.fill(0, 2, MIB)
    named.publish("survives")
    cluster["n1"].kill()
    assert private.holds(0, 1, MIB)
    during = p.alloc(MIB, nodes=["n3"])  # homes are the truth: allocation goes on
    during.fill(0, 3, MIB)
    assert error_of(lambda: p.attach("survives-not")) in ("NO_COORDINATOR", "PEER_LOST")
    cluster["n1"].start().wait_ready()
    cluster.wait_members(3)
    assert private.holds(0, 1, MIB) and during.holds(0, 3, MIB) and named.holds(0, 2, MIB)
    q = cluster.program(cluster["n3"])
    wait_for("the name is known again", lambda: "survives" in q.session("names"))
    assert q.attach("survives").holds(0, 2, MIB)
    assert error_of(lambda: p.alloc(MIB, flags=DEDICATED).publish("survives")) == "EXISTS"


def council_of(cluster, size):
    """Waits until as many nodes vote; the coordinator's log says so."""
    wait_for(f"{size} voters", lambda: any(len(voters) == size for _, voters in cluster.councils()))


def test_replicas_go_on_when_the_coordinator_is_killed_for_good(cluster):
    p, q = cluster.program(cluster["n2"]), cluster.program(cluster["n3"])
    a = p.alloc(MIB, layout="replicated", nodes=["n2", "n3"])
    b = p.alloc(MIB, layout="replicated", nodes=["n1", "n3"])
    b.fill(0, 9, MIB)
    a.publish("orphan", 0o606)
    reader = q.attach("orphan")
    council_of(cluster, 3)
    cluster["n1"].kill()
    began, seed = time.monotonic(), 0
    while time.monotonic() < began + 4 * FAILURE_DEADLINE_S:
        seed += 1
        a.fill(0, seed, MIB)
        assert reader.holds(0, seed, MIB)
        time.sleep(0.02)
    assert b.holds(0, 9, MIB)
    b.fill(0, 10, MIB)  # acknowledged once n1 could not serve it any more
    assert p.seconds < 3 * FAILURE_DEADLINE_S
    assert b.holds(0, 10, MIB)
    late = p.alloc(MIB, layout="replicated", nodes=["n2", "n3"])
    late.fill(0, 11, MIB)
    assert late.holds(0, 11, MIB)


def test_a_replica_on_the_coordinators_node_is_lost_within_its_lease(cluster):
    p = cluster.program(cluster["n2"])
    a = p.alloc(MIB, layout="replicated", nodes=["n1", "n3"])
    a.fill(0, 1, MIB)
    council_of(cluster, 3)
    cluster["n1"].kill()
    a.fill(0, 2, MIB)
    assert p.seconds < 3 * FAILURE_DEADLINE_S
    assert a.holds(0, 2, MIB)


def test_a_stopped_coordinator_never_serves_the_replica_that_was_dropped(make_cluster):
    # Once its copy is made n3 has it under another id, which only a daemon that runs tells the program of.
    cluster = make_cluster(extra=("--replicas-bytes-per-second", "16KiB"))
    p, behind = cluster.program(cluster["n2"]), cluster.program(cluster["n1"])
    a = p.alloc(MIB, layout="replicated", nodes=["n1", "n3"])
    a.publish("stopped", 0o606)
    a.fill(0, 1, MIB)
    b = behind.attach("stopped", "r")
    assert b.holds(0, 1, MIB)
    council_of(cluster, 3)
    cluster["n1"].signal(signal.SIGSTOP)
    a.fill(0, 2, MIB)
    assert p.seconds < 3 * FAILURE_DEADLINE_S + SLACK_S
    for _ in range(3):
        assert b.holds(0, 2, MIB)  # its own replica has no lease: the bytes come from n3
    cluster["n1"].signal(signal.SIGCONT)
    for _ in range(60):
        assert b.holds(0, 2, MIB)
        time.sleep(0.05)
    cluster.wait_members(3)
    fresh = cluster.program(cluster["n1"])
    assert fresh.attach("stopped").holds(0, 2, MIB)


def test_replicas_outlive_a_new_run_of_the_coordinator(cluster):
    p = cluster.program(cluster["n2"])
    a = p.alloc(MIB, layout="replicated", nodes=["n2", "n3"])
    a.fill(0, 1, MIB)
    council_of(cluster, 3)
    for seed in (2, 3):
        cluster["n1"].kill()
        a.fill(0, seed, MIB)
        cluster["n1"].log_path.unlink()
        cluster["n1"].start().wait_ready()
        cluster.wait_members(3)
        council_of(cluster, 3)
        assert a.holds(0, seed, MIB)
    time.sleep(2 * FAILURE_DEADLINE_S)  # no lease of before runs any more
    a.fill(0, 4, MIB)
    assert a.holds(0, 4, MIB)
    cluster["n3"].kill()
    a.fill(0, 5, MIB)
    assert a.holds(0, 5, MIB)


@pytest.mark.parametrize("method,args", [("get", [0, 8]), ("put", [0, b"12345678"]), ("fetch_add", [0, 1])])
def test_an_error_names_its_node_once(cluster, method, args):
    a = cluster.program(cluster["n1"]).alloc(MIB, nodes=["n3"], flags=DEDICATED)
    cluster["n3"].kill()
    with pytest.raises(OcmError) as caught:  # nothing was connected before
        a.call(method, *args)
    assert caught.value.name == "PEER_LOST" and caught.value.detail.count("node n3") == 1, caught.value.detail


def test_two_nodes_go_on_without_the_one_that_is_not_the_coordinator(make_cluster):
    cluster = make_cluster(names=("n1", "n2"))
    p = cluster.program(cluster["n1"])
    a = p.alloc(MIB, layout="replicated", nodes=["n1", "n2"])
    a.fill(0, 1, MIB)
    cluster["n2"].kill()
    a.fill(0, 2, MIB)
    assert p.seconds < 3 * FAILURE_DEADLINE_S
    assert a.holds(0, 2, MIB)


def test_sessions_of_the_coordinators_node_go_on_after_its_restart(cluster):
    p = cluster.program(cluster["n1"])
    a = p.alloc(MIB, nodes=["n2"])
    a.fill(0, 4, MIB)
    cluster["n1"].kill()
    assert a.holds(0, 4, MIB)
    cluster["n1"].start().wait_ready()
    cluster.wait_members(3)
    time.sleep(1.0)
    assert a.holds(0, 4, MIB)
    wait_for("the session allocates again", lambda: _allocates(p))


@pytest.mark.parametrize("token", ["kept", "lost"])
def test_sessions_go_on_after_the_restart_of_a_daemon_without_a_token_file(make_cluster, token):
    cluster = make_cluster(names=("n1",), start=False)
    node = cluster["n1"]
    drawn = ["--token-file", ""]  # the last one holds: none
    node.start(drawn).wait_ready()
    p = cluster.program(node)
    before = p.alloc(MIB)
    before.fill(0, 1, MIB)
    kept = (node.run_dir / "token").read_text()
    assert (node.run_dir / "token").stat().st_mode & 0o777 == 0o600
    node.kill()
    if token == "lost":
        (node.run_dir / "token").unlink()
    node.start(drawn).wait_ready()

    def allocates():
        try:
            a = p.alloc(MIB)
            a.fill(0, 2, MIB)
            return a.holds(0, 2, MIB)
        except OcmError:
            return False
    wait_for("the session allocates again", allocates)
    assert error_of(lambda: before.get(0, 1)) in ("PEER_LOST", "REVOKED")
    assert ((node.run_dir / "token").read_text() == kept) == (token == "kept")


def _allocates(program):
    try:
        program.alloc(MIB, nodes=["n3"]).fill(0, 1, MIB)
        return True
    except OcmError:
        return False


def test_a_dead_daemon_is_noticed_on_shared_memory_too(cluster):
    p = cluster.program(cluster["n2"])
    a = p.alloc(MIB, nodes=["n2"])
    a.put(0, b"x")
    cluster["n2"].kill()
    wait_for("the put fails", lambda: _fails_with(a, "PEER_LOST"), FAILURE_DEADLINE_S + SLACK_S)


def _fails_with(handle, name):
    try:
        handle.put(0, b"x")
    except OcmError as error:
        assert error.name == name
        return True
    return False


def test_two_nodes_cut_off_from_each_other(netns_cluster):
    cluster = netns_cluster
    p, q = cluster.program(cluster["n2"]), cluster.program(cluster["n3"])
    a = p.alloc(MIB, nodes=["n3"])
    a.fill(0, 1, MIB)
    local = q.alloc(MIB, nodes=["n3"])
    cluster.cut(cluster["n3"])
    assert error_of(lambda: a.get(0, 64)) == "PEER_LOST"
    assert p.seconds < FAILURE_DEADLINE_S + SLACK_S
    local.fill(0, 2, MIB)
    assert local.holds(0, 2, MIB)
    wait_for("n3 is declared dead", lambda: p.nodes()["n3"]["state"] == "dead")
    assert p.alloc(MIB, nodes=["n1"])
    cluster.restore(cluster["n3"])
    wait_for("n3 is alive again", lambda: p.nodes()["n3"]["state"] == "alive", 30)
    assert p.alloc(MIB, nodes=["n3"])


def test_a_replica_behind_a_cut_link_never_answers_with_old_bytes(netns_cluster):
    cluster = netns_cluster
    p, behind = cluster.program(cluster["n1"]), cluster.program(cluster["n3"])
    a = p.alloc(MIB, layout="replicated", nodes=["n2", "n3"])
    a.publish("cut", 0o606)
    a.fill(0, 1, MIB)
    b = behind.attach("cut", "r")
    assert b.holds(0, 1, MIB)
    cluster.cut(cluster["n3"])
    a.fill(0, 2, MIB)  # acknowledged once n3 can no longer serve its replica
    for _ in range(5):  # a reader on the wrong side gets an error or the new bytes, never the old ones
        try:
            assert b.holds(0, 2, MIB)
        except OcmError as error:
            assert error.name in ("PEER_LOST", "LOST", "REVOKED")
    cluster.restore(cluster["n3"])
    fresh = cluster.program(cluster["n1"])
    assert fresh.attach("cut").holds(0, 2, MIB)


def test_sigterm_drains_and_tells_the_others(cluster):
    p = cluster.program(cluster["n1"])
    assert cluster["n3"].stop() == 0
    wait_for("n3 left", lambda: p.nodes().get("n3", {"state": "gone"})["state"] in ("dead", "draining", "gone"),
             FAILURE_DEADLINE_S)


@pytest.mark.parametrize("wait_for_state", ["", "dead"])
def test_what_was_removed_while_its_home_stood_still_is_freed_when_it_is_back(cluster, wait_for_state):
    program = cluster.program(cluster["n1"])
    program.alloc(8 * MIB, nodes=["n3"]).publish("left")
    before = pool_used(cluster["n3"].status())
    assert before >= 8 * MIB
    cluster["n3"].signal(signal.SIGSTOP)
    try:
        if wait_for_state:
            wait_for("n3 is dead", lambda: any(node["name"] == "n3" and node["state"] == wait_for_state
                                               for node in cluster["n1"].status()["nodes"]))
        program.session("remove", "left")
    finally:
        cluster["n3"].signal(signal.SIGCONT)
    wait_for("the memory is back", lambda: pool_used(cluster["n3"].status()) <= before - 8 * MIB, 20)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a process a clock of its own")
def test_deadlines_hold_where_the_machine_was_suspended(make_cluster):
    """In a suspend CLOCK_BOOTTIME runs on and CLOCK_MONOTONIC, the clock of Asio's timers, does not: here they
    differ by a day."""
    cluster = make_cluster(start=False)
    cluster.start_all(lambda node: node.start(prefix=["unshare", "--time", "--boottime", "86400"]))
    program = cluster.program(cluster["n1"], deadline_s=1)
    program.alloc(4096, nodes=["n2"], flags=DEDICATED).fill(0, 1, 4096)
    cluster["n2"].signal(signal.SIGSTOP)
    with pytest.raises(OcmError) as caught:
        program.alloc(4096, nodes=["n2"], flags=DEDICATED)
    assert caught.value.name in ("DEADLINE", "PEER_LOST", "POOL_FULL", "UNKNOWN_NODE")
    assert program.seconds < 10
