"""Durable memory between real daemons: what is published on a pool is there after its daemons end, however they end."""
import json
import pathlib
import random
import signal
import subprocess
import time

import pytest

from harness import FAILURE_DEADLINE_S, Cluster, find_binary, outcome, wait_for

MIB = 1 << 20
NVME = 1
PAGE = 64 << 10
DURABLE = 1 << 7
POOL = 48 * MIB


def make_pool(path: pathlib.Path, count: int = POOL):
    subprocess.run([find_binary("ocm"), "pool", "create", str(path), "--bytes", str(count)], check=True,
                   capture_output=True, timeout=60)


@pytest.fixture
def make_durable(make_cluster, tmp_path):
    """A cluster whose nodes have a pool each."""
    def make(names=("n1", "n2"), **kwargs) -> Cluster:
        cluster = make_cluster(names=names, dram=32 * MIB, start=False, **kwargs)
        for node in cluster.nodes:
            make_pool(pool_of(node))
        cluster.start_all(start)
        return cluster
    return make


def pool_of(node) -> pathlib.Path:
    return node.cluster.directory / f"{node.name}.pool"


def start(node):
    return node.start(["--nvme", str(POOL), "--nvme-path", str(pool_of(node))])


def again(*nodes):
    for node in nodes:
        start(node)
    for node in nodes:
        node.wait_ready()


def make(program, count: int, nodes=(), name: str | None = None, **kwargs):
    allocation = program.alloc(count, nodes=list(nodes), kind=NVME, flags=DURABLE, **kwargs)
    if name:
        allocation.publish(name, 0o600)
    return allocation


def attached(program, name: str):
    """Its home may still be on its way back."""
    def attach():
        handle = outcome(lambda: program.attach(name))
        if isinstance(handle, str):
            assert handle in {"PEER_LOST", "NOT_FOUND", "NO_COORDINATOR", "LOST"}, handle
            return None
        return handle if outcome(lambda: handle.get(0, 1)) != "PEER_LOST" else None
    return wait_for(f"{name} is there", attach, 8 * FAILURE_DEADLINE_S)


def used(node) -> int:
    return next(pool["bytes_used"] for pool in node.status()["pools"] if pool["kind"] == "nvme")


def listed(program) -> list[str]:
    return sorted(program.session("names"))


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_published_bytes_are_there_after_a_restart(make_durable, end):
    cluster = make_durable()
    n1, n2 = cluster.nodes
    program = cluster.program(n1)
    kept = make(program, 3 * PAGE + 17, ["n2"], "kept")
    shadow = bytearray(3 * PAGE + 17)
    pieces = random.Random(3)
    for _ in range(40):
        offset = pieces.randrange(len(shadow))
        data = pieces.randbytes(min(len(shadow) - offset, pieces.choice([1, 8, PAGE, 2 * PAGE + 3])))
        kept.put(offset, data)
        shadow[offset:offset + len(data)] = data
    assert kept.fetch_add(64, 5) == int.from_bytes(shadow[64:72], "little")
    shadow[64:72] = ((int.from_bytes(shadow[64:72], "little") + 5) % 2**64).to_bytes(8, "little")
    nameless = make(program, PAGE, ["n2"])
    nameless.put(0, b"x" * PAGE)
    assert used(n2) == 5 * PAGE
    getattr(n2, end)()
    again(n2)
    other = cluster.program(n2)
    found = attached(other, "kept")
    assert found.get(0, len(shadow)) == shadow
    assert used(n2) == 4 * PAGE, "what had no name has ended"
    found.put(PAGE, b"and written again")
    assert attached(program, "kept").get(PAGE, 17) == b"and written again"
    program.close()
    other.close()


def test_all_daemons_are_killed_at_once_again_and_again(make_durable):
    cluster = make_durable(names=("n1", "n2", "n3"))
    program = cluster.program(cluster["n1"])
    count = 6 * MIB
    striped = make(program, count, layout="striped", extents=3, chunk=PAGE, name="striped")
    single = make(program, PAGE, ["n3"], "single")
    striped.fill(0, 1, count)
    single.put(0, b"one")
    for life in range(3):
        for node in cluster.nodes:
            node.process.kill()
        for node in cluster.nodes:
            node.process.wait(10)
        again(*cluster.nodes)
        program = cluster.program(cluster.nodes[life])
        assert attached(program, "striped").holds(0, 1 + life, count)
        assert attached(program, "single").get(0, 3) == b"one"
        attached(program, "striped").fill(0, 2 + life, count)
        program.close()
    program = cluster.program(cluster["n2"])
    assert listed(program) == ["single", "striped"]
    program.close()


def test_what_is_removed_does_not_come_back(make_durable):
    cluster = make_durable()
    n1, n2 = cluster.nodes
    program = cluster.program(n1)
    for name in ("a", "b", "c"):
        make(program, PAGE, ["n2"], name).put(0, name.encode())
    program.session("remove", "a")
    n2.kill()
    assert outcome(lambda: program.session("remove", "b")) is None, "while its home is away"
    n1.kill()
    again(n1, n2)
    program = cluster.program(n2)
    assert attached(program, "c").get(0, 1) == b"c"
    assert outcome(lambda: program.attach("a")) == "NOT_FOUND"
    program.close()


def test_a_name_that_its_home_slept_through_the_end_of_is_freed(make_durable):
    cluster = make_durable()
    n1, n2 = cluster.nodes
    program = cluster.program(n1)
    make(program, PAGE, ["n2"], "gone")
    make(program, PAGE, ["n2"], "there")
    n2.kill()
    program.session("remove", "gone")
    again(n2)
    attached(program, "there")
    wait_for("it is freed", lambda: used(n2) == PAGE)
    n2.kill()
    again(n2)
    attached(program, "there")
    assert used(n2) == PAGE, "for good"
    program.close()


def test_a_mode_is_kept(make_durable):
    cluster = make_durable(names=("n1",))
    program = cluster.program(cluster["n1"])
    make(program, PAGE, ["n1"]).publish("kept", 0o644)
    cluster["n1"].kill()
    again(cluster["n1"])
    program = cluster.program(cluster["n1"])
    attached(program, "kept")
    assert program.session("names")["kept"]["mode"] == 0o644
    program.close()


def test_durable_memory_is_where_a_pool_is(make_cluster, tmp_path):
    cluster = make_cluster(names=("n1", "n2"), dram=32 * MIB, start=False)
    make_pool(pool_of(cluster["n2"]))
    cluster.start_all(lambda node: start(node) if node.name == "n2" else
                      node.start(["--nvme", str(POOL), "--nvme-path", str(tmp_path)]))
    lasts = {node.name: {pool["kind"]: pool["lasts"] for pool in node.status()["pools"]} for node in cluster.nodes}
    assert lasts == {"n1": {"dram": False, "nvme": False}, "n2": {"dram": False, "nvme": True}}
    program = cluster.program(cluster["n1"])
    here = make(program, PAGE)
    assert [one["node"] for one in here.extents()] == ["n2"]
    assert outcome(lambda: make(program, PAGE, ["n1"])) == "UNSUPPORTED"
    assert outcome(lambda: program.alloc(PAGE, flags=DURABLE)) == "UNSUPPORTED", "not of memory"
    assert outcome(lambda: make(program, POOL + MIB)) == "POOL_FULL"
    program.close()


def test_a_pool_is_of_one_daemon_and_of_one_cluster(make_durable, make_cluster):
    cluster = make_durable(names=("n1",))
    other = make_cluster(names=("n1",), dram=32 * MIB, start=False)
    other.nodes[0].start(["--nvme", str(POOL), "--nvme-path", str(pool_of(cluster["n1"]))])
    assert other.nodes[0].process.wait(20) != 0
    assert "another process" in other.nodes[0].log()
    cluster["n1"].stop()
    other.nodes[0].start(["--nvme", str(POOL), "--nvme-path", str(pool_of(cluster["n1"]))])
    assert other.nodes[0].process.wait(20) != 0
    assert "cluster" in other.nodes[0].log()
    again(cluster["n1"])


def test_kills_in_the_middle_of_writing(make_durable):
    """What put() said is there; what it was about to say may be."""
    cluster = make_durable()
    n1, n2 = cluster.nodes
    seed = random.Random(9)
    program = cluster.program(n1)
    make(program, 4 * PAGE, ["n2"], "log")
    done = [0] * 4
    for life in range(6):
        program = cluster.program(n1)
        log = attached(program, "log")
        for page in range(4):
            [_] = set(log.get(page * PAGE, PAGE)[8:])  # one whole page
            assert int.from_bytes(log.get(page * PAGE, 8), "little") >= done[page] or life == 0, (life, page)
        until = time.monotonic() + seed.uniform(0.05, 0.4)
        number = max(done) + 1
        while time.monotonic() < until:
            page = seed.randrange(4)
            log.put(page * PAGE, number.to_bytes(8, "little") + bytes([number % 251]) * (PAGE - 8))
            done[page] = number
            number += 1
        n2.kill()
        program.close()
        again(n2)
    program.close()


def test_programs_go_on_after_a_restart(make_durable):
    """A handle of before the restart follows, and gives no other bytes on the way."""
    cluster = make_durable()
    n1, n2 = cluster.nodes
    program = cluster.program(n1)
    kept = make(program, PAGE, ["n2"], "kept")
    kept.put(0, b"before")
    n2.kill()
    assert outcome(lambda: kept.get(0, 6)) in {"PEER_LOST", "DEADLINE"}
    again(n2)
    attached(program, "kept").put(0, b"after!")

    def follows():
        got = outcome(lambda: kept.get(0, 6))
        assert got in {b"after!", "PEER_LOST"}, got
        return got != "PEER_LOST"
    wait_for("the old handle follows", follows)
    assert kept.get(0, 6) == b"after!"
    program.close()


def test_a_stopped_daemon_is_not_asked_to_forget(make_durable):
    """SIGTERM keeps what is published, and ends what is not."""
    cluster = make_durable(names=("n1",))
    program = cluster.program(cluster["n1"])
    make(program, PAGE, ["n1"], "kept").put(0, b"kept")
    make(program, PAGE, ["n1"])
    cluster["n1"].signal(signal.SIGTERM)
    assert cluster["n1"].process.wait(30) == 0
    again(cluster["n1"])
    program = cluster.program(cluster["n1"])
    assert attached(program, "kept").get(0, 4) == b"kept"
    assert used(cluster["n1"]) == PAGE
    program.close()


def test_a_pool_full_of_names_starts_again_and_again(make_cluster):
    """What a start tells anew has room, and a start loses nothing."""
    cluster = make_cluster(names=("n1",), dram=32 * MIB, start=False)
    [node] = cluster.nodes
    make_pool(pool_of(node), 12 * MIB)
    cluster.start_all(lambda one: one.start(["--nvme", str(12 * MIB), "--nvme-path", str(pool_of(one))]))
    program = cluster.program(node)
    names = 0
    while outcome(lambda number=names: make(program, 1, name=f"{number:0200}")) != "LIMIT":
        names += 1
    assert names > 20
    for life in range(8):
        if life % 2:
            node.kill()
        else:
            node.stop()
        node.start(["--nvme", str(12 * MIB), "--nvme-path", str(pool_of(node))]).wait_ready()
    program = cluster.program(node)
    wait_for("all names are there", lambda: len(listed(program)) == names)
    removed = 0
    while outcome(lambda: make(program, 1, name="another")) == "LIMIT":
        program.session("remove", f"{removed:0200}")
        removed += 1
    assert removed < names, "what is removed gives its room back"
    program.close()


def test_the_command_line_makes_durable_names(make_durable):
    cluster = make_durable(names=("n1",))
    node = cluster["n1"]

    def ocm(*arguments) -> str:
        return subprocess.run([find_binary("ocm"), "--socket", str(node.socket_path), *arguments], check=True,
                              capture_output=True, text=True, timeout=60).stdout

    ocm("alloc", "kept", "1MiB", "--durable")
    ocm("alloc", "gone", "1MiB", "--kind", "nvme")
    assert {one["name"]: one["durable"] for one in json.loads(ocm("ls", "--json"))} == {"kept": True, "gone": False}
    node.kill()
    again(node)
    assert [one["name"] for one in json.loads(ocm("ls", "--json"))] == ["kept"]
