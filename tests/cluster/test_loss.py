"""Replicas that are given up: two writers on two sides of a cut never give up both, whoever asks and however late."""
import json
import subprocess
import time

import pytest

from harness import FAILURE_DEADLINE_S, outcome, wait_for
from ocmlib import find_binary
from rawprogram import RawProgram

MIB = 1 << 20


def start_fill(handle, seed):
    handle.program.start({"do": "call", "on": handle.name, "method": "put", "args": [0, {"pattern": [seed, MIB]}]})


def finish(handle):
    return outcome(handle.program.finish) or "OK"


def replicated(cluster, writers, nodes=("n2", "n3")):
    """An allocation of n1's with a known content, and a handle of it on each of the writers' nodes."""
    owner = cluster.program(cluster["n1"])
    a = owner.alloc(MIB, layout="replicated", nodes=list(nodes))
    a.fill(0, 1, MIB)
    a.publish("replicas", 0o606)
    handles = [cluster.program(cluster[name]).attach("replicas") for name in writers]
    for handle in handles:
        assert handle.holds(0, 1, MIB)
    return a, handles


def wait_writes(handle, seed):
    wait_for("the handle writes again", lambda: outcome(lambda: handle.fill(0, seed, MIB)) is None,
             10 * FAILURE_DEADLINE_S)


@pytest.mark.parametrize("other", ["n3", "n1"])
@pytest.mark.parametrize("restored_after_s", [0.3, 2.6, 3.5])
def test_a_cut_of_one_node_never_takes_both_replicas(netns_cluster, other, restored_after_s):
    cluster = netns_cluster
    a, (x, y) = replicated(cluster, ["n2", other])
    cluster.cut(cluster["n2"])
    start_fill(x, 2)
    start_fill(y, 3)
    time.sleep(restored_after_s)
    cluster.restore(cluster["n2"])
    outcomes = {2: finish(x), 3: finish(y)}
    cluster.wait_members(3)
    wanted = [seed for seed, what in outcomes.items() if what == "OK"]
    for _ in range(10):
        for reader in (a, cluster.program(cluster["n1"]).attach("replicas")):
            if len(wanted) == 1:
                assert reader.holds(0, wanted[0], MIB), outcomes
            else:  # both writes may be there, or neither
                assert any(reader.holds(0, seed, MIB) for seed in wanted or (1, 2, 3)), outcomes
        time.sleep(0.1)
    for seed, handle in ((4, x), (5, y), (6, a)):
        wait_writes(handle, seed)
        assert a.holds(0, seed, MIB)


def test_only_the_first_write_waits_for_a_node_that_is_dead_and_silent(netns_cluster):
    cluster = netns_cluster
    writer = cluster.program(cluster["n1"])
    parts = [writer.alloc(4096, layout="replicated", nodes=["n2", "n3"]) for _ in range(24)]
    cluster.cut(cluster["n3"])
    cluster.wait_members(2, at=cluster["n1"])
    started = time.monotonic()
    for seed, part in enumerate(parts):
        part.fill(0, seed, 4096)
    assert time.monotonic() - started < 5 * FAILURE_DEADLINE_S  # 12 if each waits for half of one
    assert all(part.holds(0, seed, 4096) for seed, part in enumerate(parts))
    cluster.restore(cluster["n3"])


@pytest.mark.parametrize("room", [False, True], ids=["no room for a copy", "room for a copy"])
def test_a_cut_link_between_two_replicas_never_takes_both(netns_cluster, room):
    cluster = netns_cluster
    a, (x, y) = replicated(cluster, ["n2", "n3"])
    filler = None if room else cluster.program(cluster["n1"]).alloc(cluster.dram - MIB // 2, nodes=["n1"])
    cluster.cut_pair(cluster["n2"], cluster["n3"])
    start_fill(x, 2)
    start_fill(y, 3)
    outcomes = {2: finish(x), 3: finish(y)}
    good = [seed for seed, what in outcomes.items() if what == "OK"]
    if room:  # the side that was given up may have followed to the copy on n1, and written after the other one
        assert good, outcomes
    else:
        assert len(good) == 1, f"one side goes on and the other one is told: {outcomes}"
    newest = [seed for seed in good if a.holds(0, seed, MIB)]
    assert len(newest) == 1, outcomes
    cluster.restore_pair(cluster["n2"], cluster["n3"])
    for handle in (x, y, a):
        assert handle.holds(0, newest[0], MIB), outcomes
    for seed, handle in ((4, x), (5, y), (6, a)):
        wait_writes(handle, seed)
        assert a.holds(0, seed, MIB)
    if filler:
        filler.free()


def test_a_writer_goes_on_while_a_link_stays_cut(netns_cluster):
    """The home that was given up lives, frees its replica and says so: the writer hears "lost" all the same."""
    cluster = netns_cluster
    a, (x,) = replicated(cluster, ["n2"])
    cluster.cut_pair(cluster["n2"], cluster["n3"])
    x.fill(0, 2, MIB)
    assert x.program.seconds < 4 * FAILURE_DEADLINE_S
    x.fill(0, 3, MIB)
    assert x.program.seconds < FAILURE_DEADLINE_S
    assert a.holds(0, 3, MIB)


def test_a_namesake_of_a_cut_off_node_does_not_tell_its_replica_lost(make_netns_cluster):
    """It was started elsewhere, has the addresses and no such replica; who reads the old one may go on until its lease
    is over."""
    cluster = make_netns_cluster(extra=("--failure-deadline-ms", "3000"))  # time to start it
    n3 = cluster["n3"]
    a, (x,) = replicated(cluster, ["n3"])
    former = a.program.nodes()["n3"]["partition"]
    namesake = cluster.namesake(n3)
    namesake.start().wait_ready()

    def is_taken_for_n3():
        seen = a.program.nodes()["n3"]
        return seen["partition"] != former and seen["state"] == "alive"
    wait_for("it is n3 now", is_taken_for_n3)
    a.fill(0, 2, MIB)  # acknowledged once the old n3 can no longer serve its replica

    def is_old():
        return outcome(lambda: x.holds(0, 2, MIB)) is False
    assert not is_old()
    namesake.kill()
    cluster.cut(namesake)
    cluster.restore(n3)

    def is_new():
        assert not is_old()
        return outcome(lambda: x.holds(0, 2, MIB)) is True
    wait_for("it reads the other replica", is_new, 20 * FAILURE_DEADLINE_S)


def test_a_node_that_comes_back_after_its_namesake_was_there_for_long_frees_what_it_had(make_netns_cluster):
    """The part was made again meanwhile, and the voters have forgotten what it was: what n3 has is old."""
    cluster = make_netns_cluster(names=("n1", "n2", "n3", "n4"), extra=("--replicas-again-after-ms", "300"))
    n2, n3 = cluster["n2"], cluster["n3"]
    a, (x,) = replicated(cluster, ["n3"])
    former = a.program.nodes()["n3"]["partition"]
    namesake = cluster.namesake(n3)
    namesake.start().wait_ready()
    wait_for("it is n3 now", lambda: a.program.nodes()["n3"]["partition"] != former)
    a.fill(0, 2, MIB)
    wait_for("the part is made again", lambda: "replica_made_again" in n2.log())
    time.sleep(5 * FAILURE_DEADLINE_S)  # n3's run is taken for over
    namesake.kill()
    cluster.cut(namesake)
    cluster.restore(n3)
    wait_for("it freed its replica", lambda: "replicas_freed" in n3.log(), 20 * FAILURE_DEADLINE_S)

    def is_new():
        assert outcome(lambda: x.holds(0, 2, MIB)) is not False
        return outcome(lambda: x.holds(0, 2, MIB)) is True
    wait_for("it reads the new replica", is_new, 20 * FAILURE_DEADLINE_S)

    def has_replicas():
        return outcome(lambda: a.program.alloc(MIB, layout="replicated", nodes=["n2", "n3"]).fill(0, 3, MIB)) is None
    wait_for("n3 takes replicas again", has_replicas, 20 * FAILURE_DEADLINE_S)


def test_what_was_given_up_alone_and_forgotten_is_freed_when_it_comes_back(make_netns_cluster):
    """The coordinator votes alone, gives up n3's replica and restarts: only the newest record of the name knows."""
    cluster = make_netns_cluster(names=("n1", "n2", "n3"), extra=("--replicas-again-after-ms", "300"))
    n1, _, n3 = cluster.nodes
    owner = cluster.program(cluster["n2"])
    a = owner.alloc(MIB, layout="replicated", nodes=["n2", "n3"])
    a.fill(0, 1, MIB)
    a.publish("x", 0o600)
    cluster.cut(n3)
    a.fill(0, 2, MIB)
    wait_for("the part is made again", lambda: n1.status()["extents"] == 1)
    n1.kill()
    n1.start().wait_ready()
    cluster.restore(n3)
    wait_for("the former replica is freed", lambda: n3.status()["extents"] == 0)

    def read(program):
        """None until the only voter, which has started anew, may vote: the replica's home has no lease then."""
        got = outcome(lambda: program.attach("x").holds(0, 2, MIB))
        return None if got == "PEER_LOST" else (got,)
    for node in cluster.nodes:
        program = cluster.program(node)
        assert wait_for("it reads the replica", lambda p=program: read(p), 3 * FAILURE_DEADLINE_S) == (True,)
    owner.session("remove", "x")
    wait_for("nothing is left", lambda: not any(node.status()["extents"] for node in cluster.nodes))


@pytest.mark.parametrize("sender, receiver", [("n2", "n3"), ("n3", "n2")])
def test_a_link_cut_in_one_direction(netns_cluster, sender, receiver):
    cluster = netns_cluster
    a, (x, y) = replicated(cluster, ["n2", "n3"])
    cluster.cut_one_way(cluster[sender], cluster[receiver])
    start_fill(x, 2)
    start_fill(y, 3)
    outcomes = {2: finish(x), 3: finish(y)}
    good = [seed for seed, what in outcomes.items() if what == "OK"]
    assert good, outcomes
    assert any(a.holds(0, seed, MIB) for seed in good)
    cluster.restore_one_way(cluster[sender], cluster[receiver])
    wait_writes(a, 4)
    assert a.holds(0, 4, MIB)


def test_a_program_cannot_have_all_replicas_given_up(cluster):
    a, _ = replicated(cluster, [])
    raw = RawProgram(cluster["n1"])
    raw.hello()
    attached = raw.call("attach", name="replicas", access=3)["allocation"]
    for extent in attached["extents"]:
        raw.send("lost_replica", allocation_id=attached["allocation_id"], address=extent["address"],
                 generation=extent["generation"])
    codes = sorted(raw.receive()["code"] for _ in attached["extents"])
    assert codes[-1] == 0 and codes[0] != 0, codes
    raw.close()
    assert a.holds(0, 1, MIB)
    wait_writes(a, 2)
    assert cluster.program(cluster["n2"]).attach("replicas").holds(0, 2, MIB)


def test_what_a_session_owns_and_misses_a_replica_is_shown_before_it_is_given_up(make_cluster):
    cluster = make_cluster(extra=("--replicas-again-after-ms", "600000"))
    n1 = cluster["n1"]
    owner = cluster.program(n1)
    a = owner.alloc(MIB, layout="replicated", nodes=["n2", "n3"])

    def told():
        status = n1.status()
        return status["replicas_waiting"], status["replicas_left"], status["replicas_wanted"]
    assert told() == (0, 0, 0)
    cluster["n2"].kill()
    wait_for("one of two is left", lambda: told() == (1, 1, 2))
    assert "oncilla_replicas_waiting 1\n" in n1.http_get("/metrics")
    status = json.loads(subprocess.run([find_binary("ocm"), "--socket", str(n1.socket_path), "status", "--json"],
                                       check=True, capture_output=True, text=True, timeout=20).stdout)
    assert [(one["node"], one["parts"], one["replicas_left"]) for one in status["replicas_missing"]] == [("n1", 1, 1)]
    cluster["n3"].kill()
    wait_for("none is left", lambda: told() == (1, 0, 2))
    assert "replicas_away parts=1 left=1 of=2" in n1.log()
    a.free()
    wait_for("nothing is missed", lambda: told() == (0, 0, 0))


def test_what_misses_a_replica_is_shown(cluster):
    a, _ = replicated(cluster, [])
    # No room for another copy.
    filler = cluster.program(cluster["n1"]).alloc(cluster.dram - MIB // 2, nodes=["n1"])
    cluster["n3"].kill()
    a.fill(0, 2, MIB)
    wait_for("a metric tells", lambda: "oncilla_names_degraded 1" in cluster["n1"].http_get("/metrics"))
    assert "replica_missing name=replicas" in cluster["n1"].log()

    def ocm(*command):
        return subprocess.run([find_binary("ocm"), "--socket", str(cluster["n1"].socket_path), *command],
                              check=True, capture_output=True, text=True, timeout=20).stdout

    def in_ls():
        return {name["name"]: (name["lost"], name["replicas_missing"]) for name in json.loads(ocm("ls", "--json"))}

    def in_status():
        return {name["name"]: (name["lost"], name["replicas_missing"]) for name in cluster["n1"].status()["names"]}
    wait_for("ocm ls tells", lambda: in_ls() == {"replicas": (False, 1)})
    assert in_status() == {"replicas": (False, 1)}
    assert "replicas (degraded: 1 missing)" in ocm("ls") and "(lost)" not in ocm("ls")
    assert "1 degraded: " in ocm("status") and " lost: " not in ocm("status")
    assert "oncilla_names_lost 0\n" in cluster["n1"].http_get("/metrics")
    single = cluster.program(cluster["n1"]).alloc(MIB, nodes=["n2"])
    single.publish("single", 0o606)
    kept = cluster.program(cluster["n1"]).alloc(4096, nodes=["n1"])
    kept.publish("kept", 0o606)
    cluster["n2"].kill()
    wait_for("the metrics tell", lambda: "oncilla_names_lost 2\n" in cluster["n1"].http_get("/metrics"))
    wait_for("the log names it", lambda: "data_lost name=single" in cluster["n1"].log())
    told = {"replicas": (True, 0), "single": (True, 0), "kept": (False, 0)}
    assert in_ls() == in_status() == told
    lines = ocm("ls").splitlines()
    assert sorted(line for line in lines if line.endswith("(lost)")) == [
        line for end in ("replicas (lost)", "single (lost)") for line in lines if line.endswith(end)]
    assert len([line for line in lines if "(lost)" in line]) == 2 and "degraded" not in "".join(lines)
    assert "2 lost: bytes were on a node that is gone" in ocm("status") and "degraded: " not in ocm("status")
    status = json.loads(ocm("status", "--json"))
    assert (status["names"], status["names_lost"], status["names_degraded"]) == (3, 2, 0)
    filler.free()


def test_what_lost_all_is_shown_as_lost_though_nobody_could_tell_the_coordinator(make_netns_cluster):
    """n1, the coordinator, is cut off while its replica is given up; the other home dies before it could say so."""
    cluster = make_netns_cluster(names=("n1", "n2", "n3", "n4"), extra=("--replicas-again-after-ms", "600000"))
    n1, n2, n3, _ = cluster.nodes
    writer = cluster.program(n2)
    a = writer.alloc(MIB, layout="replicated", nodes=["n1", "n2"])
    a.fill(0, 1, MIB)
    a.publish("x", 0o606)
    cluster.cut(n1)
    wait_for("n1's replica is given up", lambda: outcome(lambda: a.fill(0, 2, MIB)) is None)
    n2.kill()
    cluster.restore(n1)
    n2.start().wait_ready()
    for node in cluster.nodes:
        cluster.wait_members(at=node)
    names = cluster.program(n3)
    wait_for("it is lost", lambda: names.session("names")["x"]["lost"])
    wait_for("the log says so", lambda: "data_lost name=x" in n1.log())
