"""A stop that would take a last copy says so and waits, ocm stop-check tells before, and a rolling restart keeps
every replicated byte."""
import functools
import itertools
import json
import os
import re
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import FAILURE_DEADLINE_S, outcome, wait_for
from ocmlib import DEDICATED, find_binary
from rawprogram import RawNode

MIB = 1 << 20
DRAINING = -64
SAFE, NO_DAEMON, NOT_FOUND, LOST, UNSAFE = 0, 3, 4, 8, 9
NEVER = ("--replicas-again-after-ms", "600000")
SOON = ("--replicas-again-after-ms", "300")


def ocm(node, *arguments):
    environment = {**os.environ, "OCM_SOCKET": str(node.socket_path)}
    environment.pop("OCM_HTTP", None)
    return subprocess.run([str(find_binary("ocm")), *map(str, arguments)], env=environment, capture_output=True,
                          text=True, timeout=60)


def stop_check(node, name, *options):
    return ocm(node, "stop-check", name, *options).returncode


def told(node, name):
    return json.loads(ocm(node, "stop-check", name, "--json").stdout)


def publish(cluster, name, nodes, seed, mode=0o606):
    program = cluster.program(cluster["n1"])
    a = program.alloc(MIB, layout="replicated", nodes=nodes)
    a.fill(0, seed, MIB)
    a.publish(name, mode)
    return a


def waits(node):
    wait_for("the stop waits", lambda: "stop_waits" in node.log_path.read_text())
    assert node.process.poll() is None


def test_a_stop_that_takes_a_last_copy_waits_to_be_told_twice(make_cluster):
    cluster = make_cluster(extra=NEVER)
    n1, n2, n3 = cluster.nodes
    a = publish(cluster, "kept", ["n2", "n3"], 1)
    assert stop_check(n1, "n3") == stop_check(n3, "n3") == SAFE
    n2.kill()
    assert stop_check(n1, "n3") == stop_check(n3, "n3") == UNSAFE
    found = told(n1, "n3")
    assert (found["last_parts"], found["last_bytes"]) == (1, MIB)
    assert found["names"] == [{"name": "kept", "parts": 1, "bytes": MIB}]
    text = ocm(n1, "stop-check", "n3").stdout
    assert "unsafe" in text and "kept: 1 part" in text and "1.00 MiB" in text

    n3.process.terminate()
    waits(n3)
    assert f"bytes={MIB}" in n3.log() and "SIGTERM again" in n3.log()
    assert n3.status()["node"] == "n3" and told(n1, "n3")["stopping"]
    peer = RawNode(n3, "peer", cluster.token_file.read_bytes())  # whose view is older
    refused = peer.call("reserve", session_id=os.urandom(16), owner_node="peer", owner_incarnation=os.urandom(16),
                        allocation_id=os.urandom(16), bytes_total=4096)
    peer.close()
    assert (refused["code"], refused["failed_node"]) == (DRAINING, "n3")
    wait_for("the others know it", lambda: a.program.nodes()["n3"]["state"] == "draining")
    assert outcome(lambda: a.program.alloc(MIB, nodes=["n3"])) in ("PEER_LOST", "DRAINING", "POOL_FULL")
    assert a.holds(0, 1, MIB)
    n3.signal(signal.SIGHUP)  # is none of the two
    assert n3.status()["node"] == "n3"
    assert n3.stop() == 0


def test_a_stop_ends_by_itself_when_the_copy_is_made(make_cluster):
    cluster = make_cluster(names=("n1", "n2", "n3", "n4"), extra=SOON)
    publish(cluster, "kept", ["n2", "n3"], 1)
    cluster["n2"].kill()
    cluster["n3"].process.terminate()
    assert cluster["n3"].process.wait(60) == 0, "the copy is made, and it stops"
    assert "stop_waits" in cluster["n3"].log_path.read_text()
    assert cluster.program(cluster["n4"]).attach("kept").holds(0, 1, MIB)


@pytest.mark.parametrize("stops", ["n1", "n2"])
def test_when_all_others_restart_a_voter_that_waits_in_its_stop_goes_on(make_cluster, stops):
    """Nobody but it can make a council with them; afterwards its copy is made, and it ends."""
    cluster = make_cluster(seeds=True, extra=SOON + ("--replicas-bytes-per-second", "128KiB"))
    wait_for("three vote", lambda: 'council number=2 voters="' in cluster["n1"].log())
    others = [node for node in cluster.nodes if node.name != stops]
    program = cluster.program(cluster[stops])
    a = program.alloc(MIB, layout="replicated", nodes=[stops, others[1].name])
    a.fill(0, 3, MIB)
    a.publish("kept", 0o600)
    others[1].kill()
    others[1].start().wait_ready()
    wait_for("the copy is being made", lambda: "replica_missing" in cluster[stops].log())
    cluster[stops].process.terminate()
    waits(cluster[stops])
    for node in others:
        node.kill()
    for node in others:
        node.start()
    for node in others:
        node.wait_ready()
    reader = cluster.program(others[0])

    def works():
        return (outcome(lambda: reader.attach("kept").holds(0, 3, MIB)) is True
                and outcome(lambda: reader.alloc(4096).publish("new", 0o600)) in (None, "EXISTS"))

    wait_for("a coordinator answers", works)
    cluster[stops].process.wait(60)
    wait_for("what it had", lambda: outcome(lambda: reader.attach("kept").holds(0, 3, MIB)) is True)


def test_a_stop_need_not_wait(make_cluster):
    cluster = make_cluster(extra=(*NEVER, "--replicas-wait-at-stop=false"))
    publish(cluster, "left", ["n2", "n3"], 1)
    cluster["n2"].kill()
    assert cluster["n3"].stop() == 0
    log = cluster["n3"].log_path.read_text()
    assert "stop_waits" not in log
    assert "stop_takes" in log and f"parts=1 bytes={MIB}" in log
    assert cluster["n1"].stop() == 0  # it has none of them
    assert "stop_takes" not in cluster["n1"].log_path.read_text()


def test_two_homes_that_are_told_to_stop_do_not_count_on_each_other(make_cluster):
    cluster = make_cluster(extra=NEVER)
    _, n2, n3 = cluster.nodes
    publish(cluster, "kept", ["n2", "n3"], 1)
    n2.signal(signal.SIGSTOP)  # it cannot answer while n3 looks
    n3.process.terminate()
    waits(n3)
    n2.process.terminate()
    n2.signal(signal.SIGCONT)
    waits(n2)
    assert n3.process.poll() is None


def test_stop_check_knows_what_sessions_own(make_cluster):
    """Their daemons know the other replicas; what nobody tells is not safe, and not unsafe."""
    cluster = make_cluster(extra=NEVER)
    n1, n2, n3 = cluster.nodes
    a = cluster.program(n2).alloc(MIB, layout="replicated", nodes=["n1", "n3"])
    a.fill(0, 1, MIB)
    assert stop_check(n3, "n3") == SAFE
    n2.signal(signal.SIGSTOP)
    assert stop_check(n3, "n3") == LOST
    found = told(n3, "n3")
    assert (found["last_parts"], found["unknown_parts"], found["not_heard"]) == (0, 1, ["n2"])
    n2.signal(signal.SIGCONT)
    wait_for("n2 tells again", lambda: stop_check(n3, "n3") == SAFE)
    n1.kill()
    assert stop_check(n3, "n3") == UNSAFE
    assert told(n3, "n3")["names"] == []


def test_stop_check_has_an_exit_code_for_each_answer(make_cluster, tmp_path):
    cluster = make_cluster(extra=NEVER)
    n1, n2, _ = cluster.nodes
    cluster.program(n1).alloc(MIB, nodes=["n2"])
    assert stop_check(n1, "n2") == SAFE
    assert stop_check(n1, "n2", "--all") == UNSAFE
    assert stop_check(n1, "n3", "--all") == SAFE
    assert (told(n1, "n2")["unreplicated_extents"], told(n1, "n2")["unreplicated_bytes"]) == (1, MIB)
    assert told(n1, "n1")["coordinator"] and told(n1, "n1")["sessions"] == 1
    for name in ("n9", "no such", "n9?node=n1"):
        assert stop_check(n1, name) == NOT_FOUND
    assert stop_check(n1, "n1", "--http", tmp_path / "none.sock") == NO_DAEMON
    n2.kill()
    assert stop_check(n1, "n2") == LOST


def test_stop_check_says_soon_that_the_daemon_stands_still(cluster):
    n1 = cluster["n1"]
    n1.signal(signal.SIGSTOP)
    try:
        assert stop_check(n1, "n2") == NO_DAEMON  # it is not waited for like other nodes
    finally:
        n1.signal(signal.SIGCONT)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_stop_check_tells_names_to_those_who_may_read_them(make_cluster):
    cluster = make_cluster(extra=NEVER)
    publish(cluster, "hidden", ["n2", "n3"], 1, 0o600)
    publish(cluster, "open", ["n2", "n3"], 2, 0o604)
    cluster["n2"].kill()
    cluster.let_others_in()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(12345)
        os.write(write, cluster["n1"].local_get("/stop-check?node=n3").encode())
        os._exit(0)
    os.close(write)
    with open(read) as pipe:
        found = json.load(pipe)
    os.waitpid(child, 0)
    assert found["last_parts"] == 2 and [each["name"] for each in found["names"]] == ["open"]
    assert [each["name"] for each in told(cluster["n1"], "n3")["names"]] == ["hidden", "open"]


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_one_look_at_a_stop_serves_all_users_for_a_heartbeat(make_cluster):
    """It asks the homes of all replicas: whoever asks again and again would keep the daemon from its heartbeats."""
    asked = 400
    cluster = make_cluster(extra=NEVER)
    publish(cluster, "open", ["n2", "n3"], 1)
    cluster.let_others_in()
    n1, n2 = cluster["n1"], cluster["n2"]


    def looks(node):
        return int(re.search(r"^oncilla_stop_looks_total (\d+)", node.http_get("/metrics"), re.MULTILINE).group(1))
    before = [looks(node) for node in (n1, n2)]
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setuid(12345)
        for i in range(asked):
            n1.local_get("/stop-check" + ("?node=n2" if i % 2 else ""))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    beats = (time.monotonic() - began) / 0.2
    for node, was in zip((n1, n2), before):
        assert 0 < looks(node) - was <= min(beats + 2, asked / 2 - 1)
    assert stop_check(n1, "n2") == SAFE


def test_ocm_down_does_not_wait(tmp_path):
    def run(*arguments, **more):
        return subprocess.run([str(find_binary("ocm")), *arguments], capture_output=True, text=True, timeout=60, **more)
    directory = tmp_path / "up"
    assert run("up", "--nodes", "2", "--dram", "64MiB", "--dir", str(directory)).returncode == 0
    try:
        environment = {**os.environ, "OCM_SOCKET": str(directory / "node1" / "oncillad.sock")}
        assert run("alloc", "kept", "1MiB", "--layout", "replicated", env=environment).returncode == 0
    finally:
        down = run("down", "--dir", str(directory))
    assert down.returncode == 0 and "killed" not in down.stderr


def test_what_has_one_copy_left_is_shown(make_cluster):
    """No node has room for the other one."""
    cluster = make_cluster(extra=SOON)
    n1, n2, n3 = cluster.nodes
    publish(cluster, "kept", ["n2", "n3"], 1)
    cluster.program(n1).alloc(cluster.dram, nodes=["n1"])
    n2.kill()
    wait_for("a metric tells", lambda: "\noncilla_replicas_waiting 1\n" in n3.http_get("/metrics"))
    assert "\noncilla_replica_copy_bytes 0\n" in n3.http_get("/metrics")
    wait_for("ocm status tells", lambda: "replicas: 1 of 2 in 1 part (on n3)" in ocm(n1, "status").stdout)
    assert "(on n3)" in ocm(n1, "status").stdout
    missing, = json.loads(ocm(n1, "status", "--json").stdout)["replicas_missing"]
    assert (missing["node"], missing["parts"], missing["replicas_left"], missing["replicas_wanted"]) == ("n3", 1, 1, 2)
    assert "1 of 2" in ocm(n1, "ls").stdout
    n3.process.terminate()
    waits(n3)
    assert "no other node has room" in n3.log()


def rolling_restart(cluster, names: int):
    """One node after the other; each waits until every copy is made again. `names`: how many are published."""
    n1, n2, n3 = cluster.nodes

    def whole(at):
        now = json.loads(ocm(at, "status", "--json").stdout or "{}")
        return now.get("names") == names and now["names_degraded"] == 0 and now["replicas_missing"] == []

    for node in (n2, n3, n1):
        wait_for(f"{node.name} may stop", lambda at=node: stop_check(at, at.name) == SAFE)
        node.process.terminate()
        assert node.process.wait(60) == 0
        node.start()
        node.wait_ready()
        for each in cluster.nodes:
            cluster.wait_members(at=each)
        wait_for("every copy is made again", lambda: all(whole(each) for each in cluster.nodes), 60)


@pytest.mark.parametrize("replicas", [2, 3])
def test_restarts_of_all_nodes_in_a_row_without_a_look_keep_every_byte(make_cluster, replicas):
    """Each is told once, and the next is told as soon as it is back."""
    cluster = make_cluster(extra=SOON)
    homes = [node.name for node in cluster.nodes][-replicas:]
    publish(cluster, "kept", homes, 1).program.close()
    cluster.programs.clear()
    for node in reversed(cluster.nodes):
        node.process.terminate()
        assert node.process.wait(60) == 0
        node.start().wait_ready()
        cluster.wait_members(at=node)
    for node in cluster.nodes:
        program = cluster.program(node)
        wait_for("it is there", lambda at=program: outcome(lambda: at.attach("kept").holds(0, 1, MIB)) is True, 20)


def test_a_rolling_restart_keeps_every_replicated_byte(make_cluster):
    cluster = make_cluster(extra=SOON)
    seeds: dict = {}
    for nodes in (["n1", "n2"], ["n2", "n3"], ["n1", "n3"]):
        for _ in range(2):
            name = f"name{len(seeds)}"
            seeds[name] = 10 + len(seeds)
            publish(cluster, name, nodes, seeds[name])
    while cluster.programs:
        cluster.programs.pop().close()

    rolling_restart(cluster, len(seeds))
    for each in cluster.nodes:
        program = cluster.program(each)
        for name, seed in seeds.items():
            assert program.attach(name).holds(0, seed, MIB)


PAGE, PLACES = 4096, 16


def write_on(handles: dict, lane: int, stop: threading.Event) -> dict:
    """Through each handle to each place of the lane, over and over; what was acknowledged last, by name and place.
    While its daemon is down a put may fail: it is tried again until it does not. A get never finds older bytes."""
    newest, turn = {}, 0
    while not stop.is_set() or turn < PLACES:
        for name, handle in handles.items():
            place, seed = (lane * PLACES + turn % PLACES) * PAGE, 1 + lane + 3 * turn
            put = functools.partial(handle.fill, place, seed, PAGE)
            wait_for(f"a put to {name} is done", lambda put=put: outcome(put) is None, 60)
            newest[name, place] = seed
            assert outcome(functools.partial(handle.holds, place, seed, PAGE)) is not False, (name, place, seed)
        turn += 1
    return newest


def test_programs_write_on_through_a_rolling_restart(make_cluster):
    """On every node, so that each writes while its own daemon restarts."""
    cluster = make_cluster(extra=SOON)
    n1, n2, n3 = cluster.nodes
    assert ocm(n1, "alloc", "three", "1MiB", "--layout", "replicated", "--extents", 3).returncode == 0
    for first, second in (("n1", "n2"), ("n2", "n3"), ("n1", "n3")):
        publish(cluster, f"{first} and {second}", [first, second], 1)
    while cluster.programs:
        cluster.programs.pop().close()
    names = sorted(cluster.program(n1).session("names"))
    assert len(names) == 4
    old = []
    for node in cluster.nodes:
        program = cluster.program(node)
        old.append({name: program.attach(name) for name in names})
    stop = threading.Event()
    with ThreadPoolExecutor(len(old)) as pool:
        writers = [pool.submit(write_on, handles, lane, stop) for lane, handles in enumerate(old)]
        try:
            rolling_restart(cluster, len(names))
        finally:
            stop.set()
        newest = {key: seed for writer in writers for key, seed in writer.result().items()}
    assert len(newest) == len(names) * len(old) * PLACES
    for node, handles in zip(cluster.nodes, old):
        program = cluster.program(node)
        fresh = {name: program.attach(name) for name in names}
        for (name, place), seed in newest.items():
            assert fresh[name].holds(place, seed, PAGE), (node.name, name, place)
            assert handles[name].holds(place, seed, PAGE), (node.name, name, place)


@pytest.mark.parametrize("then", ["freed", "joined", "restarted"])
def test_what_an_idle_program_has_stays_whole_through_a_rolling_restart(make_cluster, then):
    """The program's own daemon restarts after the homes: it knows the parts as they were when it gave its receipts."""
    cluster = make_cluster(names=("n1", "n2", "n3", "n4", "n5"), extra=SOON)
    program = cluster.program(cluster["n4"])
    made = [program.alloc(MIB, layout="replicated", nodes=["n2", "n3"]) for _ in range(2)]
    for seed, a in enumerate(made):
        a.fill(0, seed, MIB)

    other = cluster.program(cluster["n1"])
    ballast = [other.alloc(8 * MIB, nodes=["n4"], flags=DEDICATED)]  # copies go where there is more room

    def is_whole():
        nodes = [node.status() for node in cluster.nodes]
        whole = sum(node["extents"] for node in nodes) == 4 + len(ballast)
        return whole and not any(node["replicas_waiting"] for node in nodes)

    def restart(name):
        wait_for("a stop is safe", lambda: stop_check(cluster["n5" if name != "n5" else "n1"], name) == SAFE)
        assert cluster[name].stop() == 0
        cluster[name].start().wait_ready()
        if ballast:
            ballast.append(wait_for("ballast", lambda: not isinstance(
                made := outcome(lambda: other.alloc(8 * MIB, nodes=[name], flags=DEDICATED)), str) and made))
        cluster.wait_members(at=cluster["n1"])
        wait_for("all copies are made again", is_whole)

    for name in ("n2", "n3"):
        restart(name)
    while ballast:
        ballast.pop().free()
    restart("n4")
    if then == "restarted":
        for name in ("n1", "n5"):
            restart(name)
        assert all(a.holds(0, seed, MIB) for seed, a in enumerate(made))
    if then == "joined":  # of this program's own daemon, which may just be back
        made = [wait_for("the session is connected again", lambda: not isinstance(
            joined := outcome(lambda: program.join(*made)), str) and joined)]
    for a in made:
        a.free()
    wait_for("nothing is left", lambda: not any(node.status()["extents"] for node in cluster.nodes))


def test_another_daemon_takes_the_name_of_one_that_waits_with_a_last_copy(make_netns_cluster):
    """It is a node only when that one has ended, and takes nothing from it until then."""
    slow = ("--replicas-bytes-per-second", "16KiB")
    cluster = make_netns_cluster(names=("n1", "n2", "n3", "n4"), extra=NEVER + slow)
    a = publish(cluster, "kept", ["n2", "n3"], 1)
    cluster["n2"].kill()
    assert outcome(lambda: a.fill(0, 2, MIB)) is None
    stops = cluster["n3"]
    stops.process.send_signal(signal.SIGTERM)
    waits(stops)
    namesake = cluster.namesake(stops, "10.77.0.9")
    namesake.start().wait_ready()
    wait_for("it is refused", lambda: "another living node is named n3" in namesake.log())
    time.sleep(5 * FAILURE_DEADLINE_S)  # voters would take the other run for over after three
    assert stops.process.poll() is None
    assert cluster.program(cluster["n4"]).attach("kept", "r").holds(0, 2, MIB)
    stops.process.send_signal(signal.SIGTERM)
    assert stops.process.wait(20) == 0
    cluster.nodes.remove(stops)
    wait_for("it is a node", lambda: any(
        node["name"] == "n3" and node["state"] == "alive" for node in cluster["n1"].status()["nodes"]))


def test_two_copies_of_what_only_an_idle_reader_keeps_are_not_last(make_cluster):
    cluster = make_cluster(names=("n1", "n2", "n3", "n4"), extra=SOON)
    publish(cluster, "held", ["n2", "n3"], 5)
    reader = cluster.program(cluster["n4"]).attach("held", "r+hold")
    while len(cluster.programs) > 1:
        cluster.programs.pop(0).close()

    def homes():
        return [node.name for node in cluster.nodes if node.status()["extents"] == 1]
    for name in ("n2", "n3"):
        assert cluster[name].stop() == 0
        cluster[name].start().wait_ready()
        cluster.wait_members(at=cluster["n1"])
        wait_for("it is made again", lambda: len(homes()) == 2 and
                 not any(node.status()["replicas_waiting"] for node in cluster.nodes))
    cluster.program(cluster["n1"]).session("remove", "held")
    first, second = homes()
    for name in (first, second):
        assert stop_check(cluster["n4"], name) == SAFE
    assert cluster[first].stop() == 0
    wait_for("the other is the last", lambda: stop_check(cluster["n4"], second) == UNSAFE)
    assert "handles with a hold end" in told(cluster["n4"], second)["waits_for"]
    assert reader.holds(0, 5, MIB)


FIVE = ("n1", "n2", "n3", "n4", "n5")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("later", [0.8, 1.1])
def test_a_home_that_ends_as_a_writer_gives_up_the_other(make_netns_cluster, how, later):
    """n3 does not reach the writer's node, and all others; n4 ends for good before the writer's patience does."""
    cluster = make_netns_cluster(names=FIVE, extra=SOON)
    cluster.wait_votes("n3")
    a = cluster.program(cluster["n5"]).alloc(MIB, layout="replicated", nodes=["n4", "n3"], flags=DEDICATED)
    a.fill(0, 1, 4096)
    a.publish("kept", 0o606)
    cluster.cut_one_way(cluster["n3"], cluster["n5"])
    with ThreadPoolExecutor(1) as pool:
        put = pool.submit(lambda: outcome(lambda: a.fill(0, 2, 4096)))
        time.sleep(later)
        late = "replica_lost" in cluster["n5"].log()  # a slow machine: then n4 has the last copy
        if how == signal.SIGTERM or not late:
            cluster["n4"].process.send_signal(how)
            cluster["n4"].process.wait(40)
        done = put.result()
    cluster.restore_one_way(cluster["n3"], cluster["n5"])

    def is_there():
        program = cluster.program(cluster["n2"])
        found = [outcome(lambda seed=seed: program.attach("kept").holds(0, seed, 4096)) for seed in (1, 2)]
        program.close()
        return found[1] is True or (done is not None and found[0] is True)
    wait_for("what n3 has is there", is_there, 20)


def test_a_stop_ends_no_copy_that_a_short_cut_of_the_other_home_had_given_up(make_netns_cluster):
    """n3 is cut off for less than the deadline, and back before it hears what was decided; n4 waits for that."""
    cluster = make_netns_cluster(names=FIVE, extra=SOON)
    cluster.wait_votes("n3")
    handles = [cluster.program(cluster[own]).alloc(1 << 16, layout="replicated", nodes=["n4", "n3"], flags=DEDICATED)
               for own in ("n5", "n1", "n2", "n5", "n1", "n2")]
    for i, handle in enumerate(handles):
        handle.fill(0, 1, 4096)
        handle.publish(f"x{i}", 0o606)
    newest, over = [1] * len(handles), threading.Event()

    def write(i):
        for seed in itertools.count(2):
            if over.wait(0.1):
                return
            if outcome(functools.partial(handles[i].fill, 0, seed, 4096)) is None:
                newest[i] = seed
    cluster.cut(cluster["n3"])
    with ThreadPoolExecutor(len(handles)) as pool:
        for i in range(len(handles)):
            pool.submit(write, i)
        try:
            time.sleep(0.5)
            cluster["n4"].process.terminate()
            time.sleep(0.8)
            cluster.restore(cluster["n3"])
            cluster["n4"].process.wait(40)
            time.sleep(2)
        finally:
            over.set()
    for i in range(len(handles)):
        def is_there(i=i):
            program = cluster.program(cluster["n2"])
            found = outcome(lambda: program.attach(f"x{i}").holds(0, newest[i], 4096))
            program.close()
            return found is True
        wait_for(f"x{i} is there", is_there, 20)
