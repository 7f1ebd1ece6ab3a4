"""The coordinator's role passes on: any one of three nodes dies, stands still or is cut off, and names work again."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

from harness import FAILURE_DEADLINE_S, outcome, used, wait_for
from ocmlib import DEDICATED, OcmError, find_binary
from test_failures import SLACK_S
from test_stop import ocm

MIB = 1 << 20
NAMES_AGAIN_S = 1.5 * FAILURE_DEADLINE_S + 1 + SLACK_S


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(seeds=True)


@pytest.fixture
def netns(make_netns_cluster):
    return make_netns_cluster(seeds=True)


def coordinator_at(node) -> str:
    return node.status()["coordinator"]


def others(cluster, *without):
    return [node for node in cluster.nodes if node not in without]


def all_follow(cluster, nodes, one_of=None):
    """Waits until these nodes have one coordinator, and gives its name."""
    def agree():
        names = {coordinator_at(node) for node in nodes}
        return names.pop() if len(names) == 1 and (one_of is None or names <= set(one_of)) else None
    return wait_for("all follow one coordinator", agree)


def whole(cluster, name) -> bool:
    leader = cluster[all_follow(cluster, cluster.nodes)]
    return any(one["name"] == name and not one["replicas_missing"] and not one["lost"]
               for one in leader.status()["names"])


def replicated(program, name, nodes, seed=1):
    a = program.alloc(MIB, layout="replicated", nodes=nodes, flags=DEDICATED)
    a.fill(0, seed, MIB)
    a.publish(name, 0o606)
    return a


def until_done(what, seconds):
    """Repeats what answers that no coordinator is there."""
    end = time.monotonic() + seconds
    while True:
        try:
            return what()
        except OcmError as error:
            assert error.name == "NO_COORDINATOR", error
            assert time.monotonic() < end, "names did not work again in time"
            time.sleep(0.02)


@pytest.mark.parametrize("victim", ["n1", "n2", "n3"])
def test_names_work_again_when_any_node_dies(cluster, victim):
    assert all_follow(cluster, cluster.nodes) == "n1"
    living = others(cluster, cluster[victim])
    one, other = (cluster.program(node) for node in living)
    replicated(one, "before", [node.name for node in living])
    replicated(one, "removed", [node.name for node in living])
    cluster[victim].kill()
    died = time.monotonic()
    until_done(lambda: other.attach("before", "r").holds(0, 1, MIB), NAMES_AGAIN_S)
    a = other.alloc(MIB, nodes=[living[0].name])
    until_done(lambda: a.publish("after", 0o606), NAMES_AGAIN_S)
    until_done(lambda: one.session("remove", "removed"), NAMES_AGAIN_S)
    assert time.monotonic() - died < NAMES_AGAIN_S
    assert one.attach("after", "r").get(0, 8) == bytes(8)
    assert outcome(lambda: other.attach("removed")) == "NOT_FOUND"
    leader = all_follow(cluster, living, [node.name for node in living])
    cluster[victim].start().wait_ready()
    cluster.wait_members(at=cluster[victim])
    assert all_follow(cluster, cluster.nodes) == leader
    late = cluster.program(cluster[victim])
    assert late.attach("before", "r").holds(0, 1, MIB)
    assert outcome(lambda: late.attach("removed")) == "NOT_FOUND"


def test_puts_and_gets_of_replicas_go_on_meanwhile(cluster):
    writer = cluster.program(cluster["n2"])
    a = replicated(writer, "x", ["n2", "n3"])
    cluster["n1"].kill()
    seed, end = 1, time.monotonic() + 3 * FAILURE_DEADLINE_S
    while time.monotonic() < end:
        seed += 1
        a.fill(0, seed, 4096)
        assert a.holds(0, seed, 4096)
    assert all_follow(cluster, others(cluster, cluster["n1"])) in ("n2", "n3")


def test_a_coordinator_that_is_cut_off_answers_for_no_name(netns):
    n1, n2, n3 = netns.nodes
    near, far = netns.program(n1), netns.program(n2)
    replicated(far, "x", ["n2", "n3"])
    netns.cut(n1)
    all_follow(netns, [n2, n3], ("n2", "n3"))
    until_done(lambda: far.session("remove", "x"), NAMES_AGAIN_S)
    until_done(lambda: replicated(far, "y", ["n2", "n3"], 2), NAMES_AGAIN_S)
    assert outcome(lambda: near.attach("x")) == "NO_COORDINATOR"
    assert coordinator_at(n1) == ""
    netns.restore(n1)
    leader = all_follow(netns, netns.nodes, ("n2", "n3"))
    assert near.attach("y", "r").holds(0, 2, MIB)
    assert outcome(lambda: near.attach("x")) == "NOT_FOUND"
    assert leader == coordinator_at(n1)


@pytest.mark.parametrize("direction", ["to", "from", "both"])
def test_a_cut_from_one_voter_deposes_nobody(netns, direction):
    n1, n2, n3 = netns.nodes
    all_follow(netns, netns.nodes)
    if direction in ("to", "both"):
        netns.cut_one_way(n1, n3)
    if direction in ("from", "both"):
        netns.cut_one_way(n3, n1)
    time.sleep(3 * FAILURE_DEADLINE_S)
    program = netns.program(n2)
    assert coordinator_at(n1) == coordinator_at(n2) == "n1"
    replicated(program, "x", ["n1", "n2"])
    if direction in ("to", "both"):
        netns.restore_one_way(n1, n3)
    if direction in ("from", "both"):
        netns.restore_one_way(n3, n1)
    assert all_follow(netns, netns.nodes) == "n1"
    assert "coordinates node=n3" not in n3.log()
    reader = netns.program(n3)
    wait_for("n3 sees names", lambda: outcome(lambda: reader.attach("x", "r").holds(0, 1, MIB)) is True)


@pytest.mark.parametrize("part_of_deadline", [0.4, 2.5])
def test_a_coordinator_that_stands_still_comes_back_as_what_it_is_then(cluster, part_of_deadline):
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n2)
    replicated(program, "x", ["n2", "n3"])
    n1.signal(signal.SIGSTOP)
    time.sleep(part_of_deadline * FAILURE_DEADLINE_S)
    if part_of_deadline > 1:
        until_done(lambda: program.session("remove", "x"), NAMES_AGAIN_S)
    n1.signal(signal.SIGCONT)
    leader = all_follow(cluster, cluster.nodes)
    assert (leader == "n1") == (part_of_deadline < 1)
    reader = cluster.program(n1)
    wait_for("names work there", lambda: outcome(lambda: reader.session("names")) != "NO_COORDINATOR")
    assert (outcome(lambda: reader.attach("x", "r").holds(0, 1, MIB)) is True) == (part_of_deadline < 1)


def test_each_node_is_restarted_in_turn_and_nothing_is_lost(make_cluster):
    cluster = make_cluster(seeds=True, extra=("--replicas-again-after-ms", "200"))
    program = cluster.program(cluster["n3"])
    a = replicated(program, "x", ["n1", "n2"])
    for turn, name in enumerate(("n1", "n2", "n3")):
        node = cluster[name]
        assert node.stop() == 0
        node.start().wait_ready()
        cluster.wait_members(at=node)
        all_follow(cluster, cluster.nodes)
        wait_for("two copies again", lambda: whole(cluster, "x"))
        wait_for("written", lambda turn=turn: outcome(lambda: a.fill(0, 10 + turn, MIB)) is None)
        assert a.holds(0, 10 + turn, MIB)
    assert cluster.program(cluster["n1"]).attach("x", "r").holds(0, 12, MIB)


def test_a_coordinator_that_is_told_to_stop_hands_the_role_over(cluster):
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n2)
    replicated(program, "x", ["n2", "n3"])
    wait_for("all vote", lambda: 'voters="n1 n2 n3"' in n1.log())
    time.sleep(FAILURE_DEADLINE_S / 2)  # some heartbeats: all know that they do
    assert json.loads(n1.local_get("/stop-check?node=n1"))["hands_over"]
    assert n1.stop() == 0
    until_done(lambda: program.session("remove", "x"), NAMES_AGAIN_S)
    assert all_follow(cluster, [n2, n3]) in ("n2", "n3")
    assert 'coordinates_no_more node=n1 why="it stops"' in n1.log()
    for node in (n2, n3):
        assert "coordinator_lost" not in node.log(), "nobody had to wait for the failure deadline"


def test_a_coordinator_that_voted_alone_comes_back(cluster):
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n3)
    replicated(program, "x", ["n2", "n3"])
    n1.kill()
    leader = all_follow(cluster, [n2, n3], ("n2", "n3"))
    wait_for("it votes alone", lambda: re.search(rf"info council number=\d+ voters={leader}\n", cluster[leader].log()))
    cluster[leader].kill()
    cluster[leader].start().wait_ready()
    cluster.wait_members(2, at=cluster[leader])
    watcher = cluster.program(cluster[leader])
    wait_for("names work", lambda: outcome(lambda: watcher.session("names")) != "NO_COORDINATOR")
    n1.start().wait_ready()
    cluster.wait_members(at=n1)
    assert all_follow(cluster, cluster.nodes) == leader
    cluster.program(n1).alloc(MIB, nodes=["n1"]).publish("y")


@pytest.mark.parametrize("order", [("n1", "n2", "n3"), ("n3", "n2", "n1"), ("n2", "n1", "n3")])
def test_the_cluster_begins_in_any_order(make_cluster, order):
    cluster = make_cluster(seeds=True, start=False)
    for name in order:
        cluster[name].start().wait_ready()
        time.sleep(0.3)
    for node in cluster.nodes:
        cluster.wait_members(at=node)
    assert all_follow(cluster, cluster.nodes) == "n1"
    assert sum(node.log().count("council_founded") for node in cluster.nodes) == 1


def test_a_whole_cluster_that_restarts_begins_anew(cluster):
    for node in cluster.nodes:
        node.kill()
    for node in cluster.nodes:
        node.start()
    for node in cluster.nodes:
        node.wait_ready()
        cluster.wait_members(at=node)
    assert all_follow(cluster, cluster.nodes) == "n1"
    replicated(cluster.program(cluster["n2"]), "x", ["n1", "n3"])


def test_without_the_seed_that_founds_the_others_wait_and_say_so(make_cluster):
    cluster = make_cluster(seeds=True, start=False)
    for node in cluster.nodes[1:]:
        node.start().wait_ready()
    program = cluster.program(cluster["n2"])
    time.sleep(2 * FAILURE_DEADLINE_S)
    assert outcome(lambda: program.session("names")) == "NO_COORDINATOR"
    assert "no_council" in cluster["n2"].log()
    cluster["n1"].start().wait_ready()
    cluster.wait_members(at=cluster["n2"])
    assert outcome(lambda: program.session("names")) == {}


@pytest.mark.parametrize("where", [{"nodes": ["OTHER"]}, {"layout": "replicated", "extents": 2}])
def test_a_coordinator_that_is_started_again_at_once_knows_its_neighbours_again(cluster, where):
    leader = cluster[all_follow(cluster, cluster.nodes)]
    [other, _] = others(cluster, leader)
    wanted = {key: [other.name] if key == "nodes" else value for key, value in where.items()}
    leader.kill()
    leader.start().wait_ready()
    assert isinstance(cluster.program(leader).alloc(MIB, flags=DEDICATED, **wanted).extents(), list)


def test_who_asks_while_all_start_waits_for_the_others_to_join(make_cluster):
    cluster = make_cluster(seeds=True, start=False)
    for node in cluster.nodes:
        node.start()
    for node in cluster.nodes:
        node.wait_ready()
    for node in cluster.nodes:
        program = cluster.program(node)
        for other in others(cluster, node):
            program.alloc(MIB, nodes=[other.name], flags=DEDICATED).free()
        program.alloc(MIB, layout="replicated", extents=2).free()


def all_note(node):
    """Every node is known to note names, and what was named before is noted."""
    wait_for("names are noted", lambda: json.loads(ocm(node, "cluster", "show", "--json").stdout)["features_all"] & 1)
    time.sleep(3 * 0.2)


@pytest.mark.parametrize("removed", [True, False])
def test_a_name_whose_home_is_away_is_known_to_the_next_coordinator(make_netns_cluster, removed):
    """Its removal is answered, and the name stays removed when the home is back; or nobody else gets it meanwhile."""
    cluster = make_netns_cluster(seeds=True, names=("n1", "n2", "n3", "n4", "n5"))
    leader = cluster[all_follow(cluster, cluster.nodes)]
    home = cluster["n5"]
    living = others(cluster, home, leader)
    far, one, other = cluster.program(home), cluster.program(living[0]), cluster.program(living[1])
    all_note(living[0])
    a = far.alloc(MIB, nodes=["n5"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    a.publish("x", 0o606)
    cluster.cut(home)
    if removed:
        one.session("remove", "x")
    leader.kill()
    b = one.alloc(MIB, nodes=[living[0].name])
    b.fill(0, 2, MIB)
    if removed:
        until_done(lambda: b.publish("x", 0o606), NAMES_AGAIN_S)
    else:
        until_done(lambda: one.session("names"), NAMES_AGAIN_S)
        assert outcome(lambda: b.publish("x", 0o606)) == "EXISTS"
        assert outcome(lambda: other.attach("x")) == "LOST"
        listed = next(name for name in cluster[coordinator_at(living[0])].status()["names"] if name["name"] == "x")
        assert listed["lost"]
    cluster.restore(home)
    wait_for("n5 is back", lambda: coordinator_at(home) == coordinator_at(living[0]) != "")
    newest = 2 if removed else 1
    wait_for("its names are told", lambda: outcome(lambda: other.attach("x", "r").holds(0, newest, MIB)) is True)
    late = cluster.program(living[0])
    assert late.attach("x", "r").holds(0, newest, MIB)
    if removed:  # of the removed one nothing is left
        wait_for("n5 frees it", lambda: used(home) == 0)


def voters_at(node) -> dict:
    shown = ocm(node, "cluster", "show", "--json")
    found = json.loads(shown.stdout)
    assert (shown.returncode == 0) == (found["coordinator"] != ""), shown
    return {voter["node"]: voter["state"] for voter in found["council"]["voters"]}


def found(node, at, *options):
    return ocm(node, "cluster", "found", "--node", at, *options)


def test_an_operator_founds_the_cluster_where_most_voters_are_gone(cluster):
    assert all_follow(cluster, cluster.nodes) == "n1"
    wait_for("three vote", lambda: len(voters_at(cluster["n3"])) == 3)
    refused = found(cluster["n3"], "n3", "--yes")
    assert refused.returncode == 5 and "n1 is the coordinator" in refused.stderr
    n3 = cluster["n3"]
    program = cluster.program(n3)
    a = program.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    a.publish("single", 0o606)
    replicated(program, "replicated", ["n2", "n3"])
    for node in (cluster["n1"], cluster["n2"]):
        node.kill()
    wait_for("the others are missed", lambda: sorted(voters_at(n3).values()) == ["answers", "silent", "silent"])
    wait_for("the coordinator, too", lambda: coordinator_at(n3) == "")
    assert "n2" in ocm(n3, "cluster", "show").stdout
    dry = found(n3, "n3")
    assert dry.returncode == 2 and "free all their replicas" in dry.stderr and "--yes" in dry.stderr
    assert found(n3, "nobody", "--yes").returncode == 4
    assert coordinator_at(n3) == ""
    done = found(n3, "n3", "--yes", "--json")
    assert done.returncode == 0 and json.loads(done.stdout) == {"founded_at": "n3"}, done
    assert "founded_by_hand" in n3.log()
    until_done(lambda: program.attach("single", "r").holds(0, 1, MIB), NAMES_AGAIN_S)
    b = program.alloc(MIB, nodes=["n3"])
    until_done(lambda: b.publish("after", 0o606), NAMES_AGAIN_S)
    assert voters_at(n3) == {"n3": "answers"}
    again = found(n3, "n3", "--yes")
    assert again.returncode == 5 and "this node is the coordinator" in again.stderr
    wait_for("nobody knows which replicas are old", lambda: "replicas_freed" in n3.log(), 15 * FAILURE_DEADLINE_S)
    for node in (cluster["n1"], cluster["n2"]):
        node.start().wait_ready()
    assert all_follow(cluster, cluster.nodes) == "n3"
    late = cluster.program(cluster["n1"])
    assert late.attach("single", "r").holds(0, 1, MIB) and late.attach("after", "r")


def test_an_operator_founds_the_first_cluster_where_the_first_seed_is_not_there(make_cluster):
    cluster = make_cluster(seeds=True, start=False)
    for name in ("n2", "n3"):
        cluster[name].start().wait_ready()
    wait_for("it has been there for a failure deadline",
             lambda: found(cluster["n2"], "n2", "--yes").returncode == 0, 5 * FAILURE_DEADLINE_S)
    assert all_follow(cluster, [cluster["n2"], cluster["n3"]]) == "n2"
    cluster["n1"].start().wait_ready()
    assert all_follow(cluster, cluster.nodes) == "n2"


@pytest.mark.skipif(os.geteuid() != 0, reason="acting as another user needs root")
def test_users_do_not_found_clusters(cluster):
    all_follow(cluster, cluster.nodes)
    cluster.let_others_in()
    n1 = cluster["n1"]
    asked = subprocess.run([str(find_binary("ocm")), "-s", str(n1.socket_path), "cluster", "found", "--node", "n1",
                            "--yes"], capture_output=True, text=True, timeout=60, user=1002, env={})
    assert asked.returncode == 7 and "root" in asked.stderr, asked
