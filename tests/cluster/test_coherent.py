"""Coherent memory of kind dram: any node caches pages of it, and all programs see one memory."""
import json
import random
import signal
import subprocess
import threading
import time

import pytest

from harness import FAILURE_DEADLINE_S, OcmError, find_binary, outcome, wait_for
from test_cache import PAGE, figures
from test_cache_nodes import CHANGED, change_words, check_asks_nobody

MIB = 1 << 20
DRAM, NVME, GPU = 0, 1, 2
DEDICATED, DURABLE, COHERENT = 1 << 0, 1 << 7, 1 << 8
NODES = ("n1", "n2", "n3")


@pytest.fixture
def make_caches(make_cluster):
    def make(pages: int = 16, names=NODES, extra=(), **kwargs):
        return make_cluster(names=names, dram=32 * MIB, extra=("--cache", str(pages * PAGE), *extra), **kwargs)
    return make


@pytest.fixture
def caches(make_caches):
    return make_caches()


def used(node, kind: str = "dram") -> int:
    return sum(pool["bytes_used"] for pool in node.status()["pools"] if pool["kind"] == kind)


def handles(cluster, count: int, home: str = "n1", **kwargs):
    """A program on each node, and its handle of one coherent allocation."""
    programs = {node.name: cluster.program(node) for node in cluster.nodes}
    first = programs[home].alloc(count, flags=COHERENT, **({"nodes": [home]} | kwargs))
    first.publish("shared")
    return programs, {name: first if name == home else programs[name].attach("shared") for name in programs}


def refused(action) -> str:
    """The sentence of an UNSUPPORTED."""
    with pytest.raises(OcmError) as caught:
        action()
    assert caught.value.name == "UNSUPPORTED"
    return caught.value.detail


@pytest.mark.parametrize("pages", [4, 16])
def test_two_nodes_see_each_others_words_at_once(make_caches, pages):
    """Without any close or flush: what a put that is complete wrote is what the next get reads, on whichever node."""
    cluster = make_caches(pages, names=("n1", "n2"))
    programs, of = handles(cluster, 2 * MIB)
    names = ("n1", "n2")
    for i in range(300):
        writer, reader = of[names[i % 2]], of[names[(i + 1) % 2]]
        offset = (i * 7919 * 8) % (2 * MIB)
        writer.put(offset, (i + 1).to_bytes(8, "little"))
        assert reader.get(offset, 8) == (i + 1).to_bytes(8, "little")
        reader.put(offset, (i + 1000).to_bytes(8, "little"))
        assert writer.get(offset, 8) == (i + 1000).to_bytes(8, "little")
    for node in cluster.nodes:
        assert 0 < figures(node)["bytes used"] <= pages * PAGE


@pytest.mark.parametrize("pages, layout", [(4, "single"), (16, "single"), (4, "striped"), (16, "striped")])
def test_each_sees_what_any_put_last(make_caches, pages, layout):
    cluster, count = make_caches(pages), 3 * MIB + 12_345
    where: dict = {} if layout == "single" else {"layout": "striped", "nodes": ["n1", "n2"], "chunk": 64 * 1000}
    programs, of = handles(cluster, count, **where)
    shadow, pieces = bytearray(count), random.Random(11)
    for _ in range(250):
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
    now = {name: figures(cluster[name]) for name in NODES}
    assert all(0 < one["bytes used"] <= pages * PAGE for one in now.values())
    assert sum(one["pages_total from_other"] for one in now.values()) > 0, "they supply each other"
    assert all(one["packets_total refused"] == 0 for one in now.values())


def test_what_is_cached_here_asks_nobody(caches):
    _, of = handles(caches, 8 * PAGE)
    check_asks_nobody(caches, of)


def test_words_are_changed_by_all_nodes_at_once(caches):
    _, of = handles(caches, 2 * PAGE)
    change_words(of)
    for handle in of.values():
        assert sum(handle.fetch_add(at, 0) for at in CHANGED) == len(NODES) * 150
    assert of["n1"].compare_swap(8 * 100, 0, 7) == 0
    assert of["n2"].compare_swap(8 * 100, 7, 9) == 7
    assert of["n3"].get(8 * 100, 8) == (9).to_bytes(8, "little")


def test_notified_puts_and_those_of_many_pieces_reach_all(caches):
    programs, of = handles(caches, 4 * PAGE)
    of["n2"].put_notify(PAGE, b"news", 64, 3)
    assert of["n3"].wait_at_least(64, 3, 5.0) == 3
    assert of["n3"].get(PAGE, 4) == b"news"
    assert of["n1"].wait_at_least(64, 3, 5.0) == 3
    assert of["n3"].words_started(128, 20) == [*range(20), 20]
    assert of["n1"].get(136, 8) == b"notified"
    of["n2"].prepare_same_bytes(40, 512)  # of which the last stays
    of["n2"].start_segments()
    of["n2"].wait()
    assert of["n1"].get(0, 512) == bytes([40]) * 512


@pytest.mark.parametrize("home", ["n1", "n2"])
@pytest.mark.parametrize("other", ["dram", "nvme", "coherent"])
@pytest.mark.parametrize("other_home", ["n1", "n3"])
def test_copies_go_to_it_and_from_it(make_caches, tmp_path, home, other, other_home):
    (tmp_path / "device").mkdir()
    cluster = make_caches(extra=("--nvme", str(16 * MIB), "--nvme-path", str(tmp_path / "device")))
    program, count = cluster.program(cluster["n1"]), 2 * MIB + 12_345
    coherent = program.alloc(count, nodes=[home], flags=COHERENT)
    plain = program.alloc(count, nodes=[other_home], kind=NVME if other == "nvme" else DRAM,
                          flags=COHERENT if other == "coherent" else DEDICATED)
    coherent.fill(0, 9, count)  # in a cache, and not yet at its home
    plain.fill(0, 4, count)
    plain.copy_from(0, coherent, 0, count)
    assert plain.holds(0, 9, count)
    plain.fill(0, 5, count)
    coherent.copy_from(0, plain, 0, count)
    assert coherent.holds(0, 5, count)


def test_pointers_and_puts_see_one_memory_on_every_node(caches):
    programs, of = handles(caches, 24 * PAGE)
    shadow, pieces = bytearray(24 * PAGE), random.Random(2)
    for _ in range(200):
        handle, offset = of[pieces.choice(NODES)], pieces.randrange(24 * PAGE - 5000)
        if pieces.random() < 0.5:
            data = pieces.randbytes(pieces.choice([8, 5000]))
            pieces.choice([handle.store, handle.put])(offset, data)
            shadow[offset:offset + len(data)] = data
        else:
            assert pieces.choice([handle.load, handle.get])(offset, 5000) == shadow[offset:offset + 5000]
    assert all(handle.load(0, 24 * PAGE) == shadow for handle in of.values())


def test_nobody_maps_the_memory_of_its_home(caches):
    """It may be older than what a cache has."""
    programs, of = handles(caches, 4 * PAGE)
    for handle in of.values():
        handle.put(0, b"newest")
        assert of["n1"].load(0, 6) == b"newest"
    assert not any(extent["local"] for extent in of["n1"].extents())
    said = ocm(caches["n1"], "alloc", "mapped", "64KiB", "--coherent", "--fabric", "shm", code=1)
    assert "it is coherent" in said.stderr


def test_a_reader_may_not_write(caches):
    programs, of = handles(caches, 4 * PAGE)
    of["n1"].put(0, b"mine")
    for name in NODES:
        reader = programs[name].attach("shared", "r")
        assert reader.get(0, 4) == b"mine"
        assert outcome(lambda reader=reader: reader.put(0, b"ours")) == "PERMISSION"
        assert outcome(lambda reader=reader: reader.fetch_add(0, 1)) == "PERMISSION"
    assert of["n3"].get(0, 4) == b"mine"


def test_what_is_freed_is_so_everywhere_and_its_bytes_are_back(caches):
    before = {name: used(caches[name]) for name in NODES}
    programs, of = handles(caches, 8 * PAGE + 100)
    assert used(caches["n1"]) == before["n1"] + 9 * PAGE, "it has whole pages"
    for name in NODES:
        of[name].fill(0, 1, 8 * PAGE)
    programs["n1"].session("remove", "shared")
    for name in ("n2", "n3"):
        wait_for("it is gone", lambda name=name: outcome(lambda: of[name].get(0, 8)) == "REVOKED")
        assert outcome(lambda name=name: of[name].put(0, b"x")) == "REVOKED"
    for name in NODES:
        wait_for("its pages are free", lambda name=name: figures(caches[name])["bytes used"] == 0)
        wait_for("its bytes are back", lambda name=name: used(caches[name]) == before[name])
    again = programs["n2"].alloc(8 * PAGE, nodes=["n1"], flags=COHERENT)
    assert again.get(0, 8 * PAGE) == bytes(8 * PAGE), "new memory reads zeros"


def test_it_is_freed_while_it_is_used(caches):
    """Whoever uses it meanwhile is told, and gets no other bytes."""
    programs, of = handles(caches, 8 * PAGE)
    of["n1"].fill(0, 1, 8 * PAGE)
    seen, ends = set(), threading.Event()

    def use(handle):
        while not ends.is_set():
            got = outcome(lambda: handle.holds(0, 1, 8 * PAGE))
            seen.add(got)
            if got == "REVOKED":
                return

    threads = [threading.Thread(target=use, args=(of[name],)) for name in ("n2", "n3")]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    programs["n1"].session("remove", "shared")
    for thread in threads:
        thread.join(20)
    ends.set()
    assert seen == {True, "REVOKED"}


def test_it_goes_with_its_session(caches):
    before = used(caches["n2"])
    program = caches.program(caches["n1"])
    for _ in range(5):
        program.alloc(2 * PAGE, nodes=["n2"], flags=COHERENT).put(0, b"x")
    assert used(caches["n2"]) == before + 5 * 2 * PAGE
    program.close()
    wait_for("its bytes are back", lambda: used(caches["n2"]) == before)


def test_its_home_ends_and_nobody_reads_zeros(caches):
    programs, of = handles(caches, 8 * PAGE)
    of["n1"].fill(0, 1, 8 * PAGE)
    assert of["n2"].holds(0, 1, 4 * PAGE)
    caches["n1"].kill(), programs["n1"].kill()
    ended = {}
    for name in ("n2", "n3"):
        for _ in range(200):
            got = outcome(lambda name=name: of[name].get(0, 8))
            if isinstance(got, str):
                ended[name] = got
                break
            assert got == of_one(8), "what its daemon caches it may use until its term ends"
            time.sleep(0.05)
        for page in range(8):
            assert outcome(lambda name=name, page=page: of[name].get(page * PAGE, 8)) in ("PEER_LOST", "REVOKED")
    assert set(ended.values()) <= {"PEER_LOST", "REVOKED"} and len(ended) == 2
    caches["n1"].start().wait_ready()
    caches.wait_members(3)
    for name in ("n2", "n3"):
        wait_for("it is gone, not zeros", lambda name=name: outcome(lambda: of[name].get(0, 8)) == "REVOKED")
        assert outcome(lambda name=name: of[name].put(0, b"x")) == "REVOKED"


def of_one(count: int) -> bytes:
    """What fill(0, 1, ...) put first."""
    return random.Random(1).randbytes(count)


def test_what_a_daemon_alone_had_is_lost_with_it_and_told(make_caches):
    cluster = make_caches(pages=128)  # so few are dirty that none is cleaned before the end
    programs, of = handles(cluster, 8 * PAGE)
    of["n1"].fill(0, 1, 8 * PAGE)
    untouched = of["n1"].get(4 * PAGE, PAGE)
    of["n2"].put(0, b"b" * PAGE)
    assert of["n3"].get(0, PAGE) == b"b" * PAGE  # this page is on n3, too
    of["n2"].put(2 * PAGE, b"b" * PAGE)
    cluster["n2"].kill(), programs["n2"].kill()
    began, answers = time.monotonic(), set()
    while "LOST" not in answers and time.monotonic() - began < 40:
        answers.add(outcome(lambda: of["n1"].get(2 * PAGE, PAGE)))
    assert answers <= {"PEER_LOST", "LOST"} and "LOST" in answers
    assert of["n1"].get(0, PAGE) == b"b" * PAGE
    assert of["n1"].get(4 * PAGE, PAGE) == untouched
    of["n1"].put(2 * PAGE, b"z" * PAGE)  # what is overwritten is there again
    assert of["n3"].get(2 * PAGE, PAGE) == b"z" * PAGE


def test_a_daemon_that_stops_gives_back_what_was_written_there(make_caches):
    caches = make_caches(pages=128)
    programs, of = handles(caches, 8 * PAGE)
    of["n2"].fill(0, 7, 8 * PAGE)
    assert figures(caches["n2"])["bytes dirty"] > 0
    caches["n2"].stop()
    assert of["n3"].holds(0, 7, 8 * PAGE)
    caches["n2"].start()
    wait_for("it goes on", lambda: outcome(lambda: of["n2"].holds(0, 7, 8 * PAGE)) is True)
    of["n2"].fill(0, 8, 8 * PAGE)
    assert of["n1"].holds(0, 8, 8 * PAGE)


def test_a_home_that_stands_still_loses_nothing(caches):
    programs, of = handles(caches, 40 * PAGE)
    of["n2"].fill(0, 1, 40 * PAGE)
    caches["n1"].signal(signal.SIGSTOP)
    try:
        answers = [outcome(lambda page=page: of["n2"].get(page * PAGE, 8)) for page in range(0, 40, 10)]
        assert all(isinstance(one, bytes) or one == "PEER_LOST" for one in answers)
        assert all(one != bytes(8) for one in answers)
    finally:
        caches["n1"].signal(signal.SIGCONT)
    wait_for("it goes on", lambda: outcome(lambda: of["n2"].holds(0, 1, 40 * PAGE)) is True, deadline_s=30)


@pytest.mark.parametrize("home, without", [("n1", ("n1",)), ("n2", ("n1",)), ("n1", NODES)])
def test_without_a_cache_it_is_coherent_all_the_same(make_cluster, home, without):
    """A home without one: there is one copy, which programs of its host map. A node without one: it asks the home."""
    cluster = make_cluster(names=NODES, dram=32 * MIB, start=False)
    cluster.start_all(lambda node: node.start(["--cache", "0" if node.name in without else str(16 * PAGE)]))
    programs, of = handles(cluster, 4 * PAGE, home=home)
    for i in range(60):
        writer, value = of[NODES[i % 3]], (i + 1).to_bytes(8, "little")
        writer.put(8 * i, value)
        assert all(handle.get(8 * i, 8) == value for handle in of.values())
    for handle in of.values():
        handle.fetch_add(PAGE, 1)
    assert of[home].fetch_add(PAGE, 0) == 3
    if home in without:
        assert of[home].load(0, 8) == (1).to_bytes(8, "little")
        assert all(figures(node).get("bytes used", 0) == 0 for node in cluster.nodes)
    else:
        assert of[home].load(0, 8) == (1).to_bytes(8, "little")


def test_a_sequence_of_it_is_coherent(caches):
    first, second = caches.program(caches["n1"]), caches.program(caches["n2"])
    parts = [first.alloc(2 * PAGE, nodes=[name], flags=COHERENT) for name in NODES]
    parts[1].put(0, b"before")
    whole = first.join(*parts)
    whole.publish("whole")
    other = second.attach("whole")
    assert other.get(2 * PAGE, 6) == b"before"
    for i in range(60):
        handle, value = (whole, other)[i % 2], i.to_bytes(8, "little")
        offset = i * PAGE // 10 // 8 * 8
        handle.put(offset, value)
        assert whole.get(offset, 8) == other.get(offset, 8) == value
    assert json.loads(ocm(caches["n3"], "ls", "--json").stdout)[0]["coherent"] is True
    mixed = first.join(first.alloc(PAGE, nodes=["n2"], flags=COHERENT),
                       first.alloc(PAGE, nodes=["n3"], flags=DEDICATED))
    mixed.publish("mixed")
    other = second.attach("mixed")
    for offset in (0, PAGE):
        mixed.put(offset, b"one")
        assert other.get(offset, 3) == b"one"
        other.put(offset, b"two")
        assert mixed.get(offset, 3) == b"two"
    said = {one["name"]: one["coherent"] for one in json.loads(ocm(caches["n3"], "ls", "--json").stdout)}
    assert said == {"whole": True, "mixed": False}


def test_what_it_cannot_be_is_said(caches):
    program = caches.program(caches["n1"])
    assert "leave COHERENT out" in refused(lambda: program.alloc(PAGE, flags=COHERENT | DURABLE, kind=NVME))
    assert "leave COHERENT out" in refused(lambda: program.alloc(PAGE, flags=COHERENT | DURABLE))
    assert "single or striped" in refused(lambda: program.alloc(PAGE, flags=COHERENT, layout="replicated", extents=2))
    assert "gpu" in refused(lambda: program.alloc(PAGE, flags=COHERENT, kind=GPU))
    assert outcome(lambda: program.alloc(64 * MIB, flags=COHERENT, nodes=["n2"])) == "POOL_FULL"
    assert outcome(lambda: program.alloc(PAGE, flags=COHERENT | 1 << 9)) == "INVALID_ARGUMENT"


def test_kind_nvme_takes_it_and_is_as_before(make_caches, tmp_path):
    (tmp_path / "device").mkdir()
    cluster = make_caches(extra=("--nvme", str(16 * MIB), "--nvme-path", str(tmp_path / "device")))
    program = cluster.program(cluster["n1"])
    for flags, name in ((COHERENT, "with"), (0, "without")):
        allocation = program.alloc(4 * PAGE, nodes=["n2"], kind=NVME, flags=flags)
        allocation.publish(name)
        allocation.put(0, b"there")
        assert cluster.program(cluster["n3"]).attach(name).get(0, 5) == b"there"
    said = {one["name"]: one["coherent"] for one in json.loads(ocm(cluster["n3"], "ls", "--json").stdout)}
    assert said == {"with": True, "without": True}


def test_pages_may_have_another_length(make_caches):
    cluster = make_caches(extra=("--dram-page-bytes", "4KiB"), names=("n1", "n2"))
    before = used(cluster["n1"])
    programs, of = handles(cluster, 10_000)
    assert used(cluster["n1"]) == before + 12_288
    for i in range(100):
        handle = of[("n1", "n2")[i % 2]]
        handle.put(i * 96, i.to_bytes(8, "little"))
        assert all(one.get(i * 96, 8) == i.to_bytes(8, "little") for one in of.values())
    assert cluster["n2"].status() and figures(cluster["n2"])["bytes used"] <= 16 * PAGE
    done = subprocess.run([find_binary("oncillad"), "--dram-page-bytes", "5000"], capture_output=True, text=True)
    assert done.returncode != 0 and "it must be a power of two" in done.stderr


def ocm(node, *arguments, code: int = 0):
    done = subprocess.run([find_binary("ocm"), "--socket", str(node.socket_path), *arguments], capture_output=True,
                          text=True)
    assert done.returncode == code, done.stderr
    return done


def test_the_command_line_makes_it_and_shows_it(caches, tmp_path):
    ocm(caches["n2"], "alloc", "some", "256KiB", "--coherent", "--nodes", "n1")
    ocm(caches["n2"], "alloc", "plain", "256KiB", "--nodes", "n1")
    names = {one["name"]: one for one in json.loads(ocm(caches["n3"], "ls", "--json").stdout)}
    assert names["some"]["coherent"] is True and names["plain"]["coherent"] is False
    assert "dram, coherent" in ocm(caches["n1"], "ls").stdout
    file = tmp_path / "file"
    file.write_bytes(b"x" * (256 << 10))
    ocm(caches["n3"], "put", str(file), "some")
    assert "dram, coherent" in ocm(caches["n1"], "ls", "some").stdout, "it is placed as before"
    programs = [caches.program(caches[name]) for name in NODES]
    assert all(program.attach("some").get(200_000, 1) == b"x" for program in programs)
    said = ocm(caches["n1"], "alloc", "other", "1MiB", "--coherent", "--layout", "replicated", code=1)
    assert "single or striped" in said.stderr


def test_an_attach_does_not_wait_for_a_home_that_is_dead(make_caches):
    cluster = make_caches(4)
    programs = {name: cluster.program(cluster[name]) for name in ("n1", "n2")}
    programs["n1"].alloc(MIB, layout="striped", nodes=["n1", "n3"], flags=COHERENT).publish("half of it")
    cluster["n3"].kill()
    wait_for("n3 is dead", lambda: programs["n2"].nodes()["n3"]["state"] == "dead")
    began = time.monotonic()
    for _ in range(20):
        handle = programs["n2"].attach("half of it")
        assert handle.get(0, 8) == bytes(8)
        handle.free()
    assert time.monotonic() - began < FAILURE_DEADLINE_S  # twenty heartbeats are more
