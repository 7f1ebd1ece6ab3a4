"""Memory of kind nvme, between real daemons: bytes on a device, put and got like others, from anywhere."""
import os
import pathlib
import random
import resource
import subprocess

import pytest

from harness import find_binary, outcome, wait_for

MIB = 1 << 20
NVME = 1
PAGE = 64 << 10


@pytest.fixture
def nvme(make_cluster, tmp_path):
    (tmp_path / "device").mkdir()
    return make_cluster(names=("n1", "n2"), dram=32 * MIB,
                        extra=("--nvme", str(64 * MIB), "--nvme-path", str(tmp_path / "device")))


@pytest.fixture
def bare(make_cluster, tmp_path):
    """Without a cache: a put is complete when the device has it. With one: test_cache.py."""
    (tmp_path / "device").mkdir()
    return make_cluster(names=("n1", "n2"), dram=32 * MIB,
                        extra=("--nvme", str(64 * MIB), "--nvme-path", str(tmp_path / "device"), "--cache", "0"))


def used(node) -> int:
    pools = {pool["kind"]: pool for pool in node.status()["pools"]}
    return pools["nvme"]["bytes_used"]


@pytest.mark.parametrize("home", ["n1", "n2"])
def test_any_piece_is_put_and_got(nvme, home):
    program = nvme.program(nvme["n1"])
    allocation = program.alloc(3 * PAGE + 17, nodes=[home], kind=NVME)
    shadow = bytearray(3 * PAGE + 17)
    assert allocation.get(0, len(shadow)) == shadow
    pieces = random.Random(5)
    for _ in range(60):
        offset = pieces.randrange(len(shadow))
        count = min(len(shadow) - offset, pieces.choice([1, 8, 4096, PAGE, 2 * PAGE + 3]))
        data = pieces.randbytes(count)
        allocation.put(offset, data)
        shadow[offset:offset + count] = data
        begin = pieces.randrange(len(shadow))
        assert allocation.get(begin, len(shadow) - begin) == shadow[begin:]
    assert outcome(lambda: allocation.get(len(shadow), 1)) == "OUT_OF_RANGE"
    assert allocation.load(0, len(shadow)) == shadow  # test_pointers.py
    program.close()


@pytest.mark.parametrize("layout", ["striped", "single"])
def test_more_than_all_memory_of_the_nodes(nvme, layout):
    """The nodes offer 64 MiB of memory in all, and 128 MiB on their devices."""
    program, count = nvme.program(nvme["n1"]), (96 if layout == "striped" else 60) * MIB
    allocation = program.alloc(count, layout=layout, extents=2 if layout == "striped" else 1, kind=NVME)
    for offset in range(0, count, 12 * MIB):
        allocation.fill(offset, offset + 1, min(12 * MIB, count - offset))
    for offset in range(0, count, 12 * MIB):
        assert allocation.holds(offset, offset + 1, min(12 * MIB, count - offset))
    assert outcome(lambda: program.alloc(64 * MIB, kind=NVME, nodes=["n1"])) == "POOL_FULL"
    allocation.free()
    wait_for("the bytes are back", lambda: used(nvme["n1"]) == used(nvme["n2"]) == 0)
    program.close()


def test_words_are_changed_whole_by_programs_of_both_nodes(nvme):
    first, second = (nvme.program(nvme[name]) for name in ("n1", "n2"))
    counter = first.alloc(4096, nodes=["n2"], kind=NVME)
    counter.publish("counter", 0o600)
    other = second.attach("counter")
    for _ in range(50):
        counter.fetch_add(64, 1)
        other.fetch_add(64, 1)
    assert counter.fetch_add(64, 0) == 100
    assert counter.compare_swap(64, 100, 7) == 100
    assert other.get(64, 8) == (7).to_bytes(8, "little")
    other.put_notify(128, b"news", 72, 3)
    assert counter.wait_at_least(72, 3, 5.0) == 3
    assert counter.get(128, 4) == b"news"
    for program in (first, second):
        program.close()


@pytest.mark.parametrize("target_kind, source_kind", [(NVME, 0), (0, NVME), (NVME, NVME)])
@pytest.mark.parametrize("target_home, source_home", [("n1", "n2"), ("n2", "n1"), ("n2", "n2"), ("n1", "n1")])
def test_copies_go_between_all_kinds_and_homes(nvme, target_kind, source_kind, target_home, source_home):
    program, count = nvme.program(nvme["n1"]), 5 * MIB + 12_345
    source = program.alloc(count, nodes=[source_home], kind=source_kind)
    target = program.alloc(count, nodes=[target_home], kind=target_kind)
    source.fill(0, 9, count)
    target.fill(0, 4, count)
    target.copy_from(0, source, 0, count)
    assert target.holds(0, 9, count)
    program.close()


def test_what_it_cannot_be_is_said(nvme):
    program = nvme.program(nvme["n1"])
    assert outcome(lambda: program.alloc(MIB, layout="replicated", extents=2, kind=NVME)) == "UNSUPPORTED"
    program.close()


def test_its_bytes_and_its_room_end_with_the_daemon(nvme, tmp_path):
    device = tmp_path / "device"
    program = nvme.program(nvme["n1"])
    allocation = program.alloc(MIB, nodes=["n2"], kind=NVME)
    allocation.fill(0, 1, MIB)
    assert list(device.iterdir()) == [], "the file has no name"
    nvme["n2"].kill()
    # Its own daemon may have the page, and use it until it knows that the home is gone.
    wait_for("the bytes are gone", lambda: outcome(lambda: allocation.get(0, 8)) in ("PEER_LOST", "REVOKED"))
    nvme["n2"].start().wait_ready()
    nvme.wait_members(2)
    wait_for("it is gone, not zeros", lambda: outcome(lambda: allocation.get(0, 8)) == "REVOKED")
    again = program.alloc(MIB, nodes=["n2"], kind=NVME)
    assert again.get(0, MIB) == bytes(MIB)
    program.close()


def test_a_device_that_loses_pages_is_told(bare):
    nvme, program = bare, bare.program(bare["n1"])
    allocation = program.alloc(4 * PAGE, nodes=["n2"], kind=NVME)
    allocation.fill(0, 1, 4 * PAGE)
    files = pathlib.Path(f"/proc/{nvme['n2'].process.pid}/fd")
    pool, = [file for file in files.iterdir() if "/device/" in os.readlink(file)]
    os.truncate(pool, 0)
    assert outcome(lambda: allocation.get(0, PAGE)) == "LOST"
    assert "nvme_pages_lost pages=1" in nvme["n2"].log()
    program.close()


def test_a_device_that_takes_no_more_keeps_what_it_has_and_others_are_used(bare):
    nvme, program = bare, bare.program(bare["n1"])
    kept = program.alloc(4 * PAGE, nodes=["n1"], kind=NVME)
    kept.fill(0, 1, 4 * PAGE)
    program.alloc(8 * MIB, nodes=["n2"], kind=NVME)  # n1 has more room
    resource.prlimit(nvme["n1"].process.pid, resource.RLIMIT_FSIZE, (0, 0))
    assert outcome(lambda: kept.put(100, b"x")) == "IO"
    assert kept.holds(0, 1, 4 * PAGE)
    for _ in range(3):
        elsewhere = program.alloc(MIB, kind=NVME)
        elsewhere.fill(0, 2, MIB)
        assert [extent["node"] for extent in elsewhere.extents()] == ["n2"]
    assert outcome(lambda: program.alloc(MIB, nodes=["n1"], kind=NVME)) == "IO"
    program.close()


@pytest.mark.parametrize("arguments, message", [
    (["--nvme", "1MiB", "--nvme-path", "/no/such/folder"], "[offer.nvme] path: /no/such/folder"),
    (["--nvme", "900GiB", "--nvme-path", "/dev/shm"], "has room for"),
    (["--nvme", "1MiB", "--nvme-page-bytes", "12KiB"], "[offer.nvme] page_bytes is 12288; it must be a power of two"),
    (["--nvme", "1MiB", "--nvme-page-bytes", "8MiB"], "page_bytes is 8388608; allowed are 4096 to 4194304"),
])
def test_a_configuration_that_cannot_be_is_refused(arguments, message):
    done = subprocess.run([find_binary("oncillad"), "--check-config", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert message in done.stderr + done.stdout


def test_a_device_that_is_memory_is_warned_of():
    if not pathlib.Path("/dev/shm").is_dir() or not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm")
    done = subprocess.run([find_binary("oncillad"), "--check-config", "--nvme", "1MiB", "--nvme-path", "/dev/shm"],
                          capture_output=True, text=True)
    assert done.returncode == 0
    assert "/dev/shm is in memory" in done.stderr + done.stdout
