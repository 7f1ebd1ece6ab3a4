"""Pages of a device that several nodes cache: whoever reads sees what was put last, through whichever daemon."""
import json
import pathlib
import random
import signal
import subprocess
import threading
import time

import pytest

from harness import find_binary, outcome, wait_for
from test_cache import MIB, NVME, PAGE, PAGES, figures

NODES = ("n1", "n2", "n3")


@pytest.fixture
def make_caches(make_cluster, tmp_path):
    def make(pages: int = PAGES, daemon=(), **kwargs):
        (tmp_path / "device").mkdir()
        return make_cluster(names=NODES, dram=32 * MIB,
                            extra=("--nvme", str(64 * MIB), "--nvme-path", str(tmp_path / "device"),
                                   "--cache", str(pages * PAGE), *daemon), **kwargs)
    return make


@pytest.fixture
def caches(make_caches):
    return make_caches()


def handles(cluster, count: int, home: str = "n1"):
    """A program on each node, and its handle of one allocation of `count` bytes that is at `home`."""
    programs = {name: cluster.program(cluster[name]) for name in NODES}
    first = programs[home].alloc(count, nodes=[home], kind=NVME)
    first.publish("shared")
    return programs, {name: first if name == home else programs[name].attach("shared") for name in NODES}


def close(programs):
    for program in programs.values():
        program.close()


def test_each_sees_what_any_put_last(caches):
    count = 3 * PAGES * PAGE
    programs, of = handles(caches, count)
    shadow, pieces = bytearray(count), random.Random(5)
    for _ in range(400):
        handle = of[pieces.choice(NODES)]
        offset = pieces.randrange(count)
        length = min(count - offset, pieces.choice([1, 8, 4096, PAGE, 2 * PAGE + 5]))
        if pieces.random() < 0.5:
            data = pieces.randbytes(length)
            handle.put(offset, data)
            shadow[offset:offset + length] = data
        else:
            assert handle.get(offset, length) == shadow[offset:offset + length]
    for handle in of.values():
        assert handle.get(0, count) == shadow
    now = {name: figures(caches[name]) for name in NODES}
    assert all(0 < one["bytes used"] <= PAGES * PAGE for one in now.values())
    assert sum(one["pages_total from_other"] for one in now.values()) > 0, "they supply each other"
    assert sum(one["pages_total invalidated"] for one in now.values()) > 0
    assert all(one["packets_total refused"] == 0 for one in now.values())
    close(programs)


@pytest.mark.parametrize("cooperation", [True, False])
def test_who_supplies_what_is_clean(make_caches, cooperation):
    """Another node that has it, or only the home's cache, which then reads it once for all."""
    cluster = make_caches(pages=8 * PAGES, daemon=("--cache-cooperation=" + str(cooperation).lower(),))
    programs, of = handles(cluster, 8 * PAGE)
    of["n1"].fill(0, 1, 8 * PAGE)
    wait_for("it is on the device", lambda: figures(cluster["n1"])["bytes dirty"] == 0, deadline_s=30)
    before = {name: figures(cluster[name]) for name in NODES}
    for name in ("n2", "n3", "n2"):
        assert of[name].holds(0, 1, 8 * PAGE)
    after = {name: figures(cluster[name]) for name in NODES}
    counted = {key: {name: after[name][key] - before[name][key] for name in NODES}
               for key in ("pages_total supplied", "pages_total from_home", "pages_total from_other")}
    if not cooperation:
        assert counted["pages_total supplied"]["n2"] == counted["pages_total supplied"]["n3"] == 0
        assert counted["pages_total supplied"]["n1"] == 16
    assert sum(counted["pages_total supplied"].values()) == sum(counted["pages_total from_other"].values())
    for handle in of.values():  # and who writes is seen, whoever supplies
        handle.put(PAGE, b"changed by " + handle.name.encode())
        assert all(other.get(PAGE, 11) == b"changed by " for other in of.values())
    close(programs)


def check_asks_nobody(caches, of):
    """What a node has is got there without its home. `of`: handles of 8 pages at n1, by node."""
    of["n1"].fill(0, 1, 8 * PAGE)
    assert of["n2"].holds(0, 1, 8 * PAGE)
    before, home = figures(caches["n2"]), figures(caches["n1"])
    for _ in range(20):
        assert of["n2"].holds(0, 1, 8 * PAGE)
    after = figures(caches["n2"])
    assert after["accesses_total served"] >= before["accesses_total served"] + 20 * 8
    assert after["accesses_total missed"] == before["accesses_total missed"]
    assert figures(caches["n1"])["accesses_total served"] == home["accesses_total served"]


def test_what_is_cached_here_asks_nobody(caches):
    programs, of = handles(caches, 8 * PAGE)
    check_asks_nobody(caches, of)
    close(programs)


CHANGED = [i * (PAGE // 2) // 8 * 8 for i in range(4)]


def change_words(of, rounds: int = 150):
    """All nodes at once: `rounds` additions of each, in turn to the words at CHANGED."""
    failed = []

    def add(handle):
        try:
            for i in range(rounds):
                handle.fetch_add(CHANGED[i % 4], 1)
        except Exception as error:  # noqa: BLE001  it is the test's to tell
            failed.append(error)

    threads = [threading.Thread(target=add, args=(handle,)) for handle in of.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    words = [int.from_bytes(of["n3"].get(at, 8), "little") for at in CHANGED]
    assert sum(words) == len(of) * rounds


def test_words_are_changed_by_all_nodes_at_once(caches):
    programs, of = handles(caches, 2 * PAGE)
    change_words(of)
    close(programs)


def test_what_is_freed_is_so_everywhere(caches):
    programs, of = handles(caches, 8 * PAGE)
    for name in NODES:
        of[name].fill(0, 1, 8 * PAGE)
    programs["n1"].session("remove", "shared")
    for name in ("n2", "n3"):
        wait_for("it is gone", lambda name=name: outcome(lambda: of[name].get(0, 8)) == "REVOKED")
        assert outcome(lambda name=name: of[name].put(0, b"x")) == "REVOKED"
    for name in NODES:
        wait_for("its pages are free", lambda name=name: figures(caches[name])["bytes used"] == 0)
    close(programs)


def test_a_daemon_that_stops_gives_back_what_was_written_there(make_caches):
    caches = make_caches(pages=8 * PAGES)  # so few are dirty that none is cleaned before the end
    programs, of = handles(caches, 8 * PAGE)
    of["n2"].fill(0, 7, 8 * PAGE)
    assert figures(caches["n2"])["bytes dirty"] > 0
    caches["n2"].stop()
    assert of["n3"].holds(0, 7, 8 * PAGE)
    assert of["n1"].holds(0, 7, 8 * PAGE)
    programs["n1"].close(), programs["n3"].close(), programs["n2"].kill()


def test_a_program_goes_on_while_its_daemon_is_started_anew(caches):
    programs, of = handles(caches, 8 * PAGE)
    of["n2"].fill(0, 7, 8 * PAGE)
    caches["n2"].stop()
    caches["n2"].start()
    wait_for("it is there", lambda: outcome(lambda: of["n2"].holds(0, 7, 8 * PAGE)) is True)
    of["n2"].fill(0, 8, 8 * PAGE)
    assert of["n1"].holds(0, 8, 8 * PAGE)
    close(programs)


def test_what_a_daemon_alone_had_is_lost_with_it_and_told(make_caches):
    """A put completes in the cache of the program's node: if that node ends, others are told, nobody sees old bytes."""
    cluster = make_caches(pages=8 * PAGES)  # so few are dirty that none is cleaned before the end
    programs, of = handles(cluster, 8 * PAGE)
    of["n1"].fill(0, 1, 8 * PAGE)
    untouched = of["n1"].get(4 * PAGE, PAGE)
    for page in range(4):
        of["n2"].put(page * PAGE, b"b" * PAGE)
    assert of["n3"].get(0, PAGE) == b"b" * PAGE  # this page is on n3, too
    cluster["n2"].kill()
    programs["n2"].kill()
    assert of["n3"].get(0, PAGE) == b"b" * PAGE
    began, answers = time.monotonic(), set()
    while "LOST" not in answers and time.monotonic() - began < 40:
        at = time.monotonic()
        answers.add(outcome(lambda: of["n1"].get(2 * PAGE, PAGE)))
        assert time.monotonic() - at < 8
    assert answers <= {"PEER_LOST", "LOST"} and "LOST" in answers
    assert of["n1"].get(0, PAGE) == b"b" * PAGE
    assert of["n1"].get(4 * PAGE, PAGE) == untouched
    of["n1"].put(2 * PAGE, b"z" * PAGE)  # what is overwritten is there again
    assert of["n3"].get(2 * PAGE, PAGE) == b"z" * PAGE
    programs["n1"].close(), programs["n3"].close()


@pytest.mark.parametrize("seconds", [0.3, 6.0])
def test_a_cut_between_a_home_and_a_cache_loses_nothing(make_caches, seconds):
    """Shorter and longer than the failure deadline: what was acknowledged is there afterwards."""
    cluster = make_caches(namespaces=True)
    programs, of = handles(cluster, 8 * PAGE)
    of["n2"].fill(0, 1, 8 * PAGE)
    cluster.cut_pair(cluster["n1"], cluster["n2"])
    ends = time.monotonic() + seconds
    newest: dict[int, bytes | None] = dict.fromkeys(range(8))
    turn = 0
    while time.monotonic() < ends:
        page = turn % 8
        turn += 1
        data = bytes([turn % 251]) * PAGE
        at = time.monotonic()
        done = outcome(lambda page=page, data=data: of["n2"].put(page * PAGE, data))
        assert time.monotonic() - at < 5 and done in (None, "PEER_LOST", "IO")
        if done is None:
            newest[page] = data
        else:
            time.sleep(0.2)
    cluster.restore_pair(cluster["n1"], cluster["n2"])
    for page, data in newest.items():
        for name in NODES:
            wait_for("it answers", lambda name=name, page=page: isinstance(
                outcome(lambda: of[name].get(page * PAGE, PAGE)), bytes), deadline_s=30)
            got = of[name].get(page * PAGE, PAGE)
            assert data is None or got == data or len(set(got)) == 1
    copies = [[of[name].get(page * PAGE, PAGE) for page in range(8)] for name in NODES]
    assert copies[0] == copies[1] == copies[2]
    close(programs)


def test_a_home_that_stands_still_is_told_in_time_and_goes_on(caches):
    programs, of = handles(caches, 4 * PAGES * PAGE)
    of["n2"].fill(0, 1, 4 * PAGES * PAGE)
    caches["n1"].signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        answers = {outcome(lambda page=page: of["n2"].get(page * PAGE, 8)) for page in range(0, 4 * PAGES, 16)}
        assert time.monotonic() - began < 20
        assert answers - {"PEER_LOST"} == {one for one in answers if isinstance(one, bytes)}
    finally:
        caches["n1"].signal(signal.SIGCONT)
    wait_for("it goes on", lambda: outcome(lambda: of["n2"].holds(0, 1, 4 * PAGES * PAGE)) is True, deadline_s=30)
    close(programs)


def ocm(node, *arguments, code: int = 0):
    done = subprocess.run([find_binary("ocm"), "--socket", str(node.socket_path), *arguments], capture_output=True,
                          text=True)
    assert done.returncode == code, done.stderr
    return done


def test_a_cache_is_shown_and_changes_its_size_while_it_is_used(caches):
    programs, of = handles(caches, 3 * PAGES * PAGE)
    of["n2"].fill(0, 1, 3 * PAGES * PAGE)
    assert of["n3"].holds(0, 1, 3 * PAGES * PAGE)
    said = json.loads(ocm(caches["n1"], "cache", "show", "--json").stdout)
    shown = {one["node"]: one["cache"] for one in said["nodes"]}
    assert set(shown) == set(NODES)
    assert all(one["bytes_limit"] == PAGES * PAGE >= one["bytes_used"] for one in shown.values())
    assert shown["n2"]["accesses"] > 0 and shown["n1"]["device_writes"] > 0
    assert shown["n3"]["pages_from_home"] + shown["n3"]["pages_from_other"] > 0
    assert all(name in ocm(caches["n1"], "cache", "show").stdout for name in NODES)
    ocm(caches["n1"], "cache", "resize", str(4 * PAGES * PAGE), "--node", "n2")
    of["n2"].fill(0, 2, 3 * PAGES * PAGE)
    assert PAGES * PAGE < figures(caches["n2"])["bytes used"] <= 4 * PAGES * PAGE
    ocm(caches["n2"], "cache", "resize", str(8 * PAGE))
    wait_for("it gives memory back", lambda: figures(caches["n2"])["bytes used"] <= 8 * PAGE, deadline_s=40)
    for name in NODES:
        assert of[name].holds(0, 2, 3 * PAGES * PAGE)
    assert "no node named n9" in ocm(caches["n1"], "cache", "resize", "1MiB", "--node", "n9", code=4).stderr
    assert "without is a setting" in ocm(caches["n1"], "cache", "resize", "0", code=2).stderr
    close(programs)


def test_a_home_that_nobody_used_for_a_while_is_used_again_at_once(caches):
    """No term of it is kept meanwhile: the first access waits for the next one."""
    program = caches.program(caches["n2"])
    for pause_s in (0.0, 0.3, 0.7, 0.9, 1.6):
        time.sleep(pause_s)
        allocation = program.alloc(2 * PAGE, nodes=["n1"], kind=NVME)
        allocation.put(0, b"x" * PAGE)
        assert allocation.get(0, PAGE) == b"x" * PAGE
        allocation.free()
    program.close()


def test_one_session_has_one_way_to_an_extent(caches):
    """The daemon of a program was started again: its handle goes to the home, and so does each beside it."""
    programs, of = handles(caches, 4 * PAGE)
    of["n2"].put(0, b"1" * PAGE)
    caches["n2"].stop()
    caches["n2"].start()
    wait_for("it goes on", lambda: outcome(lambda: of["n2"].get(0, PAGE)) == b"1" * PAGE)
    wait_for("its session goes on", lambda: outcome(programs["n2"].nodes) != "NO_DAEMON")
    second = programs["n2"].attach("shared")
    for i in range(20):
        of["n2"].put(PAGE, bytes([2 * i]) * PAGE)
        second.put(PAGE, bytes([2 * i + 1]) * PAGE)
        assert of["n2"].get(PAGE, PAGE) == bytes([2 * i + 1]) * PAGE
    assert figures(caches["n2"])["accesses_total served"] == 0
    close(programs)


def descriptors(node) -> int:
    return len(list(pathlib.Path(f"/proc/{node.process.pid}/fd").iterdir()))


def test_what_served_others_is_given_back(caches):
    """Of extents that were freed, and of nodes that were started again."""
    programs, of = handles(caches, 8 * PAGE)
    for name in NODES:
        of[name].fill(0, 1, 8 * PAGE)
    before = descriptors(caches["n1"])
    for _ in range(6):
        caches["n3"].stop()
        caches["n3"].start()
        wait_for("it is there", lambda: outcome(lambda: of["n3"].holds(0, 1, 8 * PAGE)) is True)
        wait_for("it caches", lambda: outcome(lambda: touch(caches)) is True)
    assert descriptors(caches["n1"]) <= before + 3
    close(programs)


def touch(caches) -> bool:
    program = caches.program(caches["n3"])
    good = program.attach("shared").holds(0, 1, 8 * PAGE)
    program.close()
    return good


def test_a_run_that_is_only_cut_off_has_no_newer_page_beside_it(make_caches):
    """Another daemon with its name takes its place: what its programs may still read changes for nobody meanwhile."""
    cluster = make_caches(namespaces=True)
    programs, of = handles(cluster, 4 * PAGE)
    of["n1"].fill(0, 1, 4 * PAGE)
    old = of["n3"].get(0, PAGE)
    namesake = cluster.namesake(cluster["n3"])
    namesake.start()
    answered = threading.Event()
    stale: list[bytes] = []

    def read():
        while not stale and not done.is_set():
            after = answered.is_set()
            got = outcome(lambda: of["n3"].get(0, PAGE))
            if after and got == old:
                stale.append(got)

    done = threading.Event()
    reader = threading.Thread(target=read)
    reader.start()
    wait_for("it is written", lambda: outcome(lambda: of["n2"].put(0, b"n" * PAGE)) is None, deadline_s=30)
    answered.set()
    time.sleep(1)
    done.set()
    reader.join()
    assert not stale
    assert of["n1"].get(0, PAGE) == b"n" * PAGE
    programs["n1"].close(), programs["n2"].close(), programs["n3"].kill()
    namesake.stop()
