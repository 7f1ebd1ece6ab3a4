"""Lost replicas are made again by themselves: what was acknowledged stays, handles follow, and nothing is left over."""
import datetime
import json
import re
import subprocess
import time

import pytest

from harness import FAILURE_DEADLINE_S, outcome, wait_for
from ocmlib import DEDICATED, find_binary

MIB = 1 << 20
SOON = ("--replicas-again-after-ms", "300")  # a dead node's replicas
NAMES = ("n1", "n2", "n3", "n4", "n5")
PATIENCE_S = 12 * FAILURE_DEADLINE_S


@pytest.fixture
def five(make_cluster):
    return make_cluster(names=NAMES, extra=SOON)


def made_again(node) -> int:
    """How many parts the node's daemon has led to a new copy."""
    return len(re.findall("replica_made_again", node.log()))


def wait_made_again(cluster, count: int, deadline_s: float = PATIENCE_S) -> None:
    wait_for("the copies are made again", lambda: sum(made_again(node) for node in cluster.nodes) >= count, deadline_s)


def good_parts_beside(cluster, others: int) -> list:
    """20 parts of n5's program on n3 and n2, with bytes, beside so many `others` on n3 and n4."""
    program = cluster.program(cluster["n5"])
    for _ in range(others):
        program.alloc(4096, layout="replicated", nodes=["n3", "n4"])
    good = [program.alloc(4096, layout="replicated", nodes=["n3", "n2"]) for _ in range(20)]
    for one in good:
        one.fill(0, 1, 4096)
    return good


def homes_left(cluster, dead: set) -> list:
    """The nodes that have extents: the shared names of this file leave nothing else behind."""
    return [node.name for node in cluster.nodes if node.name not in dead and node.status()["extents"] > 0]


def restart(node) -> None:
    node.kill()
    node.start()
    node.wait_ready()


def replicated(cluster, at="n1", nodes=("n2", "n3"), count=MIB):
    handle = cluster.program(cluster[at]).alloc(count, layout="replicated", nodes=list(nodes))
    handle.fill(0, 1, count)
    return handle


def test_what_a_coordinator_held_that_restarts_at_once_is_made_again(cluster):
    """Its next run counts what happens to nodes from the beginning, and comes to the same number."""
    names = [f"x{i}" for i in range(3)]
    program = cluster.program(cluster["n2"])
    for name in names:
        handle = program.alloc(MIB, layout="replicated", nodes=["n1", "n3"])
        handle.fill(0, 7, MIB)
        handle.publish(name, 0o600)
    for _ in range(3):
        restart(cluster["n1"])
        cluster.wait_members(at=cluster["n1"])
        wait_for("the names are known again", lambda: set(program.session("names")) == set(names), PATIENCE_S)

        def complete():
            return all(one["replicas_missing"] == 0 for one in cluster["n1"].status()["names"])
        time.sleep(FAILURE_DEADLINE_S)
        wait_for("the copies are made again", complete, PATIENCE_S)
    restart(cluster["n3"])
    cluster.wait_members(at=cluster["n3"])
    reader = cluster.program(cluster["n2"])
    for name in names:
        wait_for("it is whole", lambda name=name: outcome(lambda: reader.attach(name).holds(0, 7, MIB)) is True)


def test_a_part_survives_both_its_nodes_one_after_the_other(five):
    a = replicated(five)
    five["n2"].kill()
    a.fill(0, 2, MIB)  # and so the cluster learns of it
    wait_made_again(five, 1)
    five["n3"].kill()
    assert a.holds(0, 2, MIB)
    a.fill(0, 3, MIB)
    assert a.holds(0, 3, MIB)
    wait_made_again(five, 2)


def test_nobody_needs_to_write_for_a_copy_to_be_made(five):
    a = replicated(five)
    a.publish("idle", 0o600)
    b = replicated(five)
    restart(five["n2"])  # it comes back without its bytes
    wait_made_again(five, 2)
    five["n3"].kill()
    assert a.holds(0, 1, MIB) and b.holds(0, 1, MIB)
    assert five.program(five["n1"]).attach("idle").holds(0, 1, MIB)


def test_writers_go_on_while_the_copy_is_made(make_cluster):
    cluster = make_cluster(names=NAMES, extra=(*SOON, "--replicas-bytes-per-second", str(64 * MIB)))
    a = replicated(cluster, count=64 * MIB)
    a.publish("busy", 0o600)
    other = cluster.program(cluster["n4"]).attach("busy")
    cluster["n2"].kill()
    newest, end = {}, time.monotonic() + PATIENCE_S
    for turn in range(10**6):
        for handle, first in ((a, 0), (other, 32)):
            place = first + turn % 32
            handle.fill(place * MIB, turn, 4096)
            newest[place] = turn
        if sum(made_again(node) for node in cluster.nodes) > 0 or time.monotonic() > end:
            break
    assert made_again(cluster["n3"]) == 1
    for handle in (a, other):  # also by the one that wrote before it knew of the new copy
        handle.fill(63 * MIB, 7777, 4096)
    newest[63] = 7777
    cluster["n3"].kill()
    for place, seed in newest.items():
        assert a.holds(place * MIB, seed, 4096), place
        assert other.holds(place * MIB, seed, 4096), place


def times(node, event: str) -> list:
    """When its daemon wrote so to its log."""
    lines = node.log_path.read_text().splitlines()
    return [datetime.datetime.fromisoformat(line.split()[0].rstrip("Z")) for line in lines if f" {event} " in line]


def test_a_copy_keeps_to_its_rate_and_ocm_status_shows_it(make_cluster):
    cluster = make_cluster(extra=(*SOON, "--replicas-bytes-per-second", str(8 * MIB), "--log-level", "debug"))
    n1, n2, n3 = cluster.nodes
    a = replicated(cluster, count=32 * MIB)

    def status(*options):
        return subprocess.run([find_binary("ocm"), "--socket", str(n1.socket_path), "status", *options], check=True,
                              capture_output=True, text=True, timeout=20).stdout

    n2.kill()
    a.fill(0, 2, 4096)
    wait_for("ocm status tells",
             lambda: re.search(r"replicas: 1 of 2 in 1 part, copying [1-9]\d* % \(on n3\)", status()), PATIENCE_S)
    # The program's daemon tells of a replica that is away until it hears that the home gave it up.
    wait_for("the home alone tells",
             lambda: [one["node"] for one in json.loads(status("--json"))["replicas_missing"]] == ["n3"], PATIENCE_S)
    missing, = json.loads(status("--json"))["replicas_missing"]
    assert (missing["node"], missing["parts"], missing["replica_copy_bytes"]) == ("n3", 1, 32 * MIB)
    assert (missing["replicas_left"], missing["replicas_wanted"]) == (1, 2)
    assert 0 < missing["replica_copy_bytes_done"] <= 32 * MIB
    wait_made_again(cluster, 1)
    took = times(n3, "replica_made_again")[0] - times(n3, "replica_copying")[-1]
    assert took.total_seconds() >= 3  # 4, less what a clock may be set back
    wait_for("and no more", lambda: json.loads(status("--json"))["replicas_missing"] == [])
    n3.kill()
    assert a.holds(0, 2, 4096)


@pytest.mark.parametrize("owner", [0, 1001])
def test_a_long_copy_is_set_aside_for_what_is_lost_meanwhile(make_cluster, owner):
    cluster = make_cluster(names=NAMES,
                           extra=(*SOON, "--replicas-bytes-per-second", str(2 * MIB), "--log-level", "debug"))
    big = cluster.program(cluster["n1"], uid=owner).alloc(64 * MIB, layout="replicated", nodes=["n2", "n3"])
    small = [replicated(cluster, nodes=("n2", "n5"), count=4096) for _ in range(5)]
    cluster["n3"].kill()
    wait_for("the long one is being copied", lambda: "replica_copying" in cluster["n2"].log(), PATIENCE_S)
    cluster["n5"].kill()
    wait_made_again(cluster, 5)
    assert re.findall(r"replica_made_again .*bytes=(\d+)", cluster["n2"].log()) == ["4096"] * 5
    for one in small:
        assert one.holds(0, 1, 4096)
    big.free()  # in the middle of its copy
    for one in small:
        one.free()
    wait_for("nothing is left", lambda: not homes_left(cluster, {"n3", "n5"}), PATIENCE_S)


def test_what_lost_all_its_replicas_keeps_nothing_else_from_being_made_again(five):
    """To give it up is asked for until the deadline, for no home of the part says that it has the bytes."""
    others = [replicated(five, nodes=("n3", "n5"), count=4096) for _ in range(6)]
    led_here = [replicated(five, at="n5", nodes=("n1", "n3"), count=4096) for _ in range(6)]
    program = five.program(five["n1"], uid=1001)
    for _ in range(5):
        program.alloc(4096, layout="replicated", nodes=["n3", "n4"])
    five["n3"].kill()
    five["n4"].kill()
    wait_made_again(five, len(others) + len(led_here))
    five["n5"].kill()
    for one in others:
        assert one.holds(0, 1, 4096)


def test_parts_whose_other_home_is_not_reached_keep_no_others_waiting(make_netns_cluster):
    """As far as the view tells that home lives, so only asking shows that they have to wait."""
    cluster = make_netns_cluster(names=NAMES, extra=SOON)
    good = good_parts_beside(cluster, 100)
    cluster.cut_pair(cluster["n5"], cluster["n4"])
    cluster["n3"].kill()
    wait_made_again(cluster, len(good))
    cluster["n2"].kill()
    for one in good:
        assert one.holds(0, 1, 4096)


def test_an_owner_that_was_cut_off_knows_again_whose_homes_answer(make_netns_cluster):
    """What failed because it was itself cut off says nothing about the others: 8 failure deadlines would pass else."""
    cluster = make_netns_cluster(names=NAMES, extra=SOON)
    good = good_parts_beside(cluster, 200)
    cluster["n3"].kill()
    cluster["n4"].kill()
    wait_for("they are known to be dead", lambda: {node["state"] for node in cluster["n5"].status()["nodes"]
                                                   if node["name"] in ("n3", "n4")} == {"dead"}, PATIENCE_S)
    time.sleep(0.7 * FAILURE_DEADLINE_S)  # it is about to have their replicas given up
    cluster.cut(cluster["n5"])
    time.sleep(2 * FAILURE_DEADLINE_S)
    cluster.restore(cluster["n5"])
    wait_made_again(cluster, len(good), 7 * FAILURE_DEADLINE_S)
    cluster["n2"].kill()
    for one in good:
        assert one.holds(0, 1, 4096)


def test_a_part_is_not_made_again_where_its_writer_does_not_reach_it(make_netns_cluster):
    cluster = make_netns_cluster(names=NAMES, extra=SOON)
    a = replicated(cluster, at="n2", nodes=("n3", "n1"), count=4096)
    others = [replicated(cluster, nodes=nodes) for nodes in (("n4", "n5"), ("n2", "n4"))]  # n3 has the most room
    cluster.cut_pair(cluster["n2"], cluster["n3"])
    a.fill(0, 1, 4096)
    wait_made_again(cluster, 1)
    for value in range(2, 6):  # given up again, each had its next replica on n3
        a.fill(0, value, 4096)
    assert sum(made_again(node) for node in cluster.nodes) == 1
    assert cluster["n2"].log().count(" replica_lost ") == 1
    cluster["n1"].kill()
    assert a.holds(0, 5, 4096)
    for one in others:
        one.free()


def test_a_handle_that_slept_through_many_copies_finds_its_bytes(five):
    a = replicated(five, at="n5")
    a.publish("old", 0o600)
    sleeper = five.program(five["n5"]).attach("old")
    homes = ["n2", "n3"]
    for turn in range(3):  # the home that leads is the next one to go
        five[homes[0]].kill()
        a.fill(0, 10 + turn, MIB)
        wait_made_again(five, turn + 1)
        leader = homes[1]
        five[homes[0]].start()
        five[homes[0]].wait_ready()
        five.wait_members(5)
        spare = next(name for name in homes_left(five, set()) if name not in (leader, homes[0]))
        homes = [leader, spare]
    assert sleeper.holds(0, 12, MIB)
    sleeper.fill(0, 20, MIB)
    assert a.holds(0, 20, MIB)


def test_another_node_takes_the_copy_where_the_first_refuses(make_netns_cluster):
    # n4 has the most room and cannot be reached by the home that leads.
    cluster = make_netns_cluster(names=NAMES, extra=SOON)
    filler = cluster.program(cluster["n1"]).alloc(64 * MIB, nodes=["n5"])
    also = cluster.program(cluster["n1"]).alloc(64 * MIB, nodes=["n1"])
    a = replicated(cluster)
    cluster.cut_pair(cluster["n3"], cluster["n4"])
    cluster["n2"].kill()
    a.fill(0, 2, MIB)
    wait_made_again(cluster, 1)
    cluster["n3"].kill()
    assert a.holds(0, 2, MIB)
    filler.free()
    also.free()


@pytest.mark.parametrize("end", ["free", "end of the session", "removal of the name"])
def test_nothing_is_left_of_a_part_that_ends_while_it_is_copied(make_cluster, end):
    cluster = make_cluster(names=NAMES, extra=(*SOON, "--replicas-bytes-per-second", str(8 * MIB)))
    a = replicated(cluster, count=16 * MIB)
    if end == "removal of the name":
        a.publish("short", 0o600)
    cluster["n2"].kill()
    a.fill(0, 2, 4096)
    wait_for("the copy has begun", lambda: cluster["n3"].status()["replica_copy_bytes_done"] > 0, PATIENCE_S)
    if end == "free":
        a.free()
    elif end == "end of the session":
        a.program.kill()
    else:
        a.program.session("remove", "short")
        a.free()
    cluster["n2"].start()
    cluster["n2"].wait_ready()
    wait_for("nothing is used", lambda: not homes_left(cluster, set()), PATIENCE_S)


def test_after_the_copy_the_owner_frees_all_of_it(five):
    a, b, c = replicated(five), replicated(five), replicated(five)
    b.publish("freed", 0o600)
    c.publish("joined", 0o600)
    restart(five["n2"])
    wait_made_again(five, 3)
    a.free()  # by a handle that has not followed
    b.program.session("remove", "freed")
    fresh = five.program(five["n4"]).attach("joined")
    assert fresh.holds(0, 1, MIB)
    fresh.program.session("remove", "joined")
    for handle in (b, c):
        handle.program.close()
    fresh.program.close()
    wait_for("nothing is used", lambda: not homes_left(five, set()), PATIENCE_S)


def test_publishing_goes_on_after_the_copy(five):
    a = replicated(five)
    restart(five["n2"])
    wait_made_again(five, 1)
    a.publish("later", 0o600)
    b = five.program(five["n4"]).attach("later")
    b.fill(0, 5, MIB)
    five["n3"].kill()
    assert a.holds(0, 5, MIB)
    assert outcome(lambda: five.program(five["n1"]).attach("later").fill(0, 6, MIB)) is None
    assert a.holds(0, 6, MIB)


def test_a_second_handle_of_a_name_knows_the_new_copy(five):
    replicated(five).publish("twice", 0o600)
    program = five.program(five["n5"])
    first = program.attach("twice")
    restart(five["n2"])
    wait_made_again(five, 1)
    second = program.attach("twice")
    second.fill(0, 4, MIB)
    five["n3"].kill()  # the new copy is the last one, and the program must give up the other
    second.fill(0, 5, MIB)
    assert first.holds(0, 5, MIB)


@pytest.mark.parametrize("access", ["r", "r+hold"])
def test_a_reader_reads_on_where_its_program_attached_the_name_again_after_the_copy(five, access):
    replicated(five).publish("again", 0o606)
    program = five.program(five["n5"])
    first = program.attach("again", access)
    restart(five["n2"])
    wait_made_again(five, 1)
    second = program.attach("again", access)
    five["n3"].kill()
    assert second.holds(0, 1, MIB) and first.holds(0, 1, MIB)


@pytest.mark.parametrize("order", [("r", "rw"), ("rw", "r"), ("r+hold", "rw+hold")])
def test_handles_of_one_program_keep_each_its_own_access(five, order):
    replicated(five).publish("both", 0o600)
    program = five.program(five["n5"])
    handles = {access.split("+")[0]: program.attach("both", access) for access in order}
    restart(five["n2"])
    wait_made_again(five, 1)
    five["n3"].kill()  # nothing is left of the extents that were attached
    assert handles["rw"].holds(0, 1, MIB) and handles["r"].holds(0, 1, MIB)
    assert outcome(lambda: handles["rw"].fill(0, 2, MIB)) is None
    assert handles["r"].holds(0, 2, MIB)
    assert outcome(lambda: handles["r"].fill(0, 3, MIB)) == "PERMISSION"


def test_a_restarted_node_keeps_the_replica_that_it_just_made(five):
    program = five.program(five["n1"])
    program.alloc(MIB, nodes=["n2"]).fill(0, 1, MIB)  # a connection to the run before
    restart(five["n2"])
    five.wait_members(5)
    a = program.alloc(MIB, layout="replicated", nodes=["n2", "n3"])
    a.fill(0, 2, MIB)
    five["n3"].kill()
    assert a.holds(0, 2, MIB)
    assert "replica_dropped" not in five["n2"].log()


def test_what_a_former_council_gave_up_is_made_again(make_cluster):
    """Its only voter takes what it decided with it; the homes know, and tell the next."""
    cluster = make_cluster(extra=("--replicas-again-after-ms", "1500"))
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n3)
    data = bytes(range(256)) * 256
    homes = (["n1", "n2"], ["n2", "n3"], ["n3", "n2"], ["n1", "n3"])
    for i in range(6):
        part = program.alloc(len(data), layout="replicated", nodes=homes[i % 4])
        part.put(0, data)
        part.publish(f"former-{i}", 0o606)
    for node in (n2, n1):  # told once: n1 is the lone voter then, and waits until the last copies are elsewhere
        node.process.terminate()
        assert node.process.wait(60) == 0
    for node in (n1, n2):
        node.start().wait_ready()
    cluster.wait_members(3)

    def whole():
        names = json.loads(subprocess.run([find_binary("ocm"), "-s", n3.socket_path, "ls", "--json"],
                                          capture_output=True, text=True, timeout=20).stdout or "[]")
        return len(names) == 6 and all(name["replicas_missing"] == 0 for name in names)
    wait_for("every name has two replicas again", whole, 3 * PATIENCE_S)
    reader = cluster.program(n1)
    for i in range(6):
        assert reader.attach(f"former-{i}").get(0, len(data)) == data


def test_a_home_that_has_no_extent_left_for_it_says_so(make_cluster):
    cluster = make_cluster(names=("n1", "n2", "n3"), extra=(*SOON, "--limit-extents", "2"))
    program = cluster.program(cluster["n1"])
    first, second = (program.alloc(MIB, layout="replicated", nodes=["n2", "n3"]) for _ in range(2))
    cluster["n3"].kill()
    wait_for("n2 says why the copies wait", lambda: re.search("replica_waits node=n2 why=.*limit of 2 extents",
                                                             cluster["n2"].log()), PATIENCE_S)
    first.free()
    wait_made_again(cluster, 1)
    second.fill(0, 1, MIB)
    assert second.holds(0, 1, MIB)


@pytest.mark.parametrize("what", ["idle", "published", "restarted"])
def test_what_a_home_freed_as_an_orphans_is_made_again_when_its_daemon_is_back(make_netns_cluster, what):
    """n3 and the coordinator do not hear n5 for longer than the grace; its program goes on with the other replicas."""
    cluster = make_netns_cluster(names=NAMES, extra=[*SOON, "--orphan-grace-ms", "500"])
    n1, n2, n3, n4, n5 = cluster.nodes
    program = cluster.program(n5)
    parts = [program.alloc(4096, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED) for _ in range(10)]
    for part in parts:
        part.fill(0, 1, 4096)
    for other in (n1, n3):
        cluster.cut_pair(n5, other)
    wait_for("n3 has freed its replicas", lambda: n3.status()["extents"] == 0, 10 * FAILURE_DEADLINE_S)
    if what == "restarted":
        n5.kill()
    for other in (n1, n3):
        cluster.restore_pair(n5, other)
    if what == "restarted":
        n5.start().wait_ready()
        wait_for("its program is back", lambda: outcome(lambda: program.alloc(4096, nodes=["n4"])) != "NO_DAEMON")
    cluster.wait_members(at=n5)
    if what == "published":
        for i, part in enumerate(parts):
            part.publish(f"part{i}")
    wait_made_again(cluster, len(parts))
    n2.kill()
    assert all(part.holds(0, 1, 4096) for part in parts)


def test_a_daemon_that_the_coordinator_does_not_reach_may_start_again(make_netns_cluster):
    """Homes that it does reach ask for its sessions, and one question in vain while it starts is not enough."""
    grace_s = 0.3
    cluster = make_netns_cluster(names=NAMES, extra=["--orphan-grace-ms", str(int(grace_s * 1000))])
    n1, n2, n3, n4, n5 = cluster.nodes
    program, other = cluster.program(n5), cluster.program(n4)
    shown = 0
    for _ in range(3):
        part = program.alloc(4096, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
        cluster.cut_pair(n5, n1)
        wait_for("n5 is dead", lambda: other.nodes()["n5"]["state"] == "dead", 4 * FAILURE_DEADLINE_S)
        time.sleep(3 * grace_s)  # it is asked, and answers
        silent_since = time.monotonic()
        n5.kill()
        time.sleep(grace_s + 0.2)  # it is asked in vain
        n5.start().wait_ready()
        cluster.restore_pair(n5, n1)
        wait_for("its program is back", lambda: outcome(lambda: program.alloc(4096, nodes=["n4"])) != "NO_DAEMON")
        was_silent_s = time.monotonic() - silent_since
        cluster.wait_members(at=n5)
        freed = "orphan_freed" in n2.log() + n3.log()
        if was_silent_s >= FAILURE_DEADLINE_S:
            continue
        shown += 1
        assert not freed
        part.fill(0, 1, 4096)
        assert part.holds(0, 1, 4096)
    if shown == 0:
        pytest.skip("the machine is too busy: each time the daemon was silent for longer than the failure deadline")
