"""A part of three replicas that lost one has three again, while the two others serve: whoever leads, dies or is cut."""
import re
import subprocess
import threading
import time

import pytest

from harness import FAILURE_DEADLINE_S, wait_for
from ocmlib import find_binary
from test_remake import MIB, PATIENCE_S, SOON, homes_left, made_again, restart, wait_made_again

SIX = ("n1", "n2", "n3", "n4", "n5", "n6")
HOMES = ("n2", "n3", "n4")


@pytest.fixture
def six(make_cluster):
    return make_cluster(names=SIX, extra=SOON)


def wait_whole(cluster, dead: set) -> None:
    """Three homes have it, and none makes a copy any more."""
    def is_whole() -> bool:
        waiting = sum(node.status()["replicas_waiting"] for node in cluster.nodes if node.name not in dead)
        return waiting == 0 and len(homes_left(cluster, dead)) == 3
    wait_for("there are three again", is_whole, 2 * PATIENCE_S)


def of_three(cluster, at="n1", count=MIB):
    handle = cluster.program(cluster[at]).alloc(count, layout="replicated", nodes=list(HOMES))
    handle.fill(0, 1, count)
    return handle


@pytest.mark.parametrize("dies", HOMES)
def test_whichever_of_three_dies_there_are_three_again(six, dies):
    a = of_three(six)
    six[dies].kill()
    a.fill(0, 2, MIB)
    wait_made_again(six, 1)
    wait_whole(six, {dies})
    assert a.holds(0, 2, MIB)
    a.fill(0, 3, MIB)
    for name in [name for name in HOMES if name != dies]:  # only the new one is left
        six[name].kill()
    assert a.holds(0, 3, MIB)


def test_all_three_die_one_after_the_other(six):
    a = of_three(six, at="n6")
    a.publish("three", 0o600)
    living = set(SIX)
    for turn, dies in enumerate(HOMES):
        six[dies].kill()
        living.remove(dies)
        a.fill(0, 10 + turn, MIB)
        wait_made_again(six, turn + 1 if len(living) > 3 else turn)
        assert a.holds(0, 10 + turn, MIB)
    assert six.program(six["n1"]).attach("three").holds(0, 12, MIB)


def test_nobody_needs_to_write(six):
    a = of_three(six)
    a.publish("idle", 0o600)
    restart(six["n3"])  # it comes back without its bytes
    wait_made_again(six, 1)
    for name in ("n2", "n4"):
        six[name].kill()
    assert a.holds(0, 1, MIB)
    assert six.program(six["n1"]).attach("idle").holds(0, 1, MIB)


def test_after_it_the_owner_frees_all_of_it(six):
    a = of_three(six)
    six["n3"].kill()
    a.fill(0, 2, MIB)
    wait_made_again(six, 1)
    wait_whole(six, {"n3"})
    a.free()
    wait_for("nothing is left", lambda: homes_left(six, {"n3"}) == [])


@pytest.mark.parametrize("after_s", [0.05, 0.3, 0.6])
def test_the_home_that_leads_dies_while_it_copies(make_cluster, after_s):
    cluster = make_cluster(names=SIX, extra=(*SOON, "--replicas-bytes-per-second", str(64 * MIB)))
    a = of_three(cluster, count=32 * MIB)
    cluster["n3"].kill()
    a.fill(0, 2, MIB)  # n2 leads
    time.sleep(after_s)
    cluster["n2"].kill()
    a.fill(0, 3, MIB)
    wait_whole(cluster, {"n2", "n3"})
    assert a.holds(0, 3, MIB)
    cluster["n4"].kill()
    assert a.holds(0, 3, MIB)


def test_writers_go_on_while_homes_die_and_come_back(six):
    a, b = of_three(six, at="n1"), None
    a.publish("busy", 0o600)
    b = six.program(six["n6"]).attach("busy")
    end = time.monotonic() + 6 * FAILURE_DEADLINE_S
    newest, stop = {}, threading.Event()

    def chaos():
        for name in ("n2", "n3", "n4"):
            restart(six[name])
            if stop.wait(2 * FAILURE_DEADLINE_S):
                return
    thread = threading.Thread(target=chaos)
    thread.start()
    turn = 0
    while time.monotonic() < end or thread.is_alive():
        for handle, first in ((a, 0), (b, 128)):
            place = first + turn % 128
            handle.fill(place * 4096, turn, 4096)
            newest[place] = turn
        turn += 1
    stop.set()
    thread.join()
    assert sum(made_again(node) for node in six.nodes) >= 1
    for place, seed in newest.items():
        assert a.holds(place * 4096, seed, 4096) and b.holds(place * 4096, seed, 4096), place


def test_what_one_of_three_misses_is_told_as_two_of_three(make_cluster):
    cluster = make_cluster(names=("n1", "n2", "n3", "n4"), extra=SOON)
    a = of_three(cluster)
    cluster.program(cluster["n1"]).alloc(cluster.dram - MIB // 2, nodes=["n1"])  # no room for another
    cluster["n4"].kill()
    a.fill(0, 2, MIB)

    def told() -> str:
        return subprocess.run([find_binary("ocm"), "--socket", str(cluster["n1"].socket_path), "status"], check=True,
                              capture_output=True, text=True, timeout=20).stdout
    wait_for("ocm status tells", lambda: re.search(r"replicas: 2 of 3 in 1 part \(on n[23]\)", told()), PATIENCE_S)


def test_what_had_room_for_two_of_three_has_three_when_there_is_more(make_cluster):
    cluster = make_cluster(names=("n1", "n2", "n3", "n4", "n5"), extra=SOON)
    a = of_three(cluster)
    a.publish("three", 0o600)
    cluster.program(cluster["n1"]).alloc(cluster.dram - MIB // 2, nodes=["n1"])  # there is room on n5 only
    cluster["n3"].kill(), cluster["n4"].kill()
    a.fill(0, 2, MIB)
    wait_made_again(cluster, 1)
    living = [extent["node"] for extent in cluster.program(cluster["n1"]).attach("three", "r").extents()
              if not extent["lost"]]
    assert sorted(living) == ["n2", "n5"]
    for name in ("n3", "n4"):
        cluster[name].start().wait_ready()
    wait_for("there are three again", lambda: len(homes_left(cluster, {"n1"})) == 3, 2 * PATIENCE_S)
    wait_for("all is well", lambda: cluster["n2"].status()["replicas_waiting"] == 0)
    assert a.holds(0, 2, MIB)
    a.fill(0, 3, MIB)
    cluster["n2"].kill(), cluster["n5"].kill()
    assert a.holds(0, 3, MIB)
