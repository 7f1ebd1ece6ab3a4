"""The page cache before memory on a device: smaller than what is in it, and still every byte is the newest."""
import os
import pathlib
import random
import resource
import time

import pytest

from harness import outcome, wait_for

MIB = 1 << 20
NVME = 1
PAGE = 64 << 10
PAGES = 16


@pytest.fixture
def cached(make_cluster, tmp_path):
    """Caches of 16 pages."""
    (tmp_path / "device").mkdir()
    return make_cluster(names=("n1", "n2"), dram=32 * MIB,
                        extra=("--nvme", str(64 * MIB), "--nvme-path", str(tmp_path / "device"),
                               "--cache", str(PAGES * PAGE)))


def figures(node) -> dict[str, int]:
    """"bytes used", "accesses_total missed", ... of /metrics."""
    out = {}
    for line in node.http_get("/metrics").splitlines():
        if line.startswith("oncilla_cache_"):
            name, value = line.rsplit(" ", 1)
            metric, _, label = name[len("oncilla_cache_"):].rstrip("}").partition("{")
            out[metric + (" " + label.split('"')[1] if label else "")] = int(value)
    return out


def target_of(link: pathlib.Path) -> str:
    """Empty: it is gone meanwhile."""
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""


def fill(allocation, pages: int):
    for page in range(pages):
        allocation.fill(page * PAGE, page + 1, PAGE)


def is_filled(allocation, page: int) -> bool:
    return allocation.holds(page * PAGE, page + 1, PAGE)


def test_more_than_the_cache_holds_is_as_it_was_put(cached):
    program, count = cached.program(cached["n1"]), 4 * PAGES * PAGE
    allocation = program.alloc(count, nodes=["n2"], kind=NVME)
    shadow, pieces = bytearray(count), random.Random(3)
    for _ in range(400):
        offset = pieces.randrange(count)
        length = min(count - offset, pieces.choice([1, 8, 100, 4096, PAGE, 3 * PAGE + 5]))
        if pieces.random() < 0.5:
            data = pieces.randbytes(length)
            allocation.put(offset, data)
            shadow[offset:offset + length] = data
        else:
            assert allocation.get(offset, length) == shadow[offset:offset + length]
    assert allocation.get(0, count) == shadow
    here, home = figures(cached["n1"]), figures(cached["n2"])
    assert here["bytes limit"] == home["bytes limit"] == PAGES * PAGE
    assert 0 < here["bytes used"] <= PAGES * PAGE and here["bytes dirty"] <= PAGES * PAGE // 2
    assert here["pages_total evicted"] > PAGES
    assert home["pages_total read"] > 0 and home["pages_total written"] > 0
    allocation.free()
    wait_for("the pages are free", lambda: figures(cached["n1"])["bytes used"] == 0)
    program.close()


def test_what_was_read_is_read_again_without_the_device(cached):
    program = cached.program(cached["n1"])
    allocation = program.alloc(8 * PAGE, nodes=["n1"], kind=NVME)
    fill(allocation, 8)
    before = figures(cached["n1"])
    for _ in range(20):
        assert all(is_filled(allocation, page) for page in range(8))
    after = figures(cached["n1"])
    assert after["accesses_total served"] >= before["accesses_total served"] + 20 * 8
    assert after["pages_total read"] == before["pages_total read"]
    assert after["accesses_total missed"] == before["accesses_total missed"]
    program.close()


def test_one_who_reads_on_is_read_ahead(cached):
    program = cached.program(cached["n1"])
    allocation = program.alloc(8 * PAGES * PAGE, nodes=["n1"], kind=NVME)
    fill(allocation, 8 * PAGES)
    assert all(is_filled(allocation, page) for page in range(8 * PAGES))
    assert figures(cached["n1"])["pages_total read_ahead"] > 0
    program.close()


def test_words_are_changed_by_all_nodes(cached):
    home, away = cached.program(cached["n1"]), cached.program(cached["n2"])
    allocation = home.alloc(4 * PAGES * PAGE, nodes=["n1"], kind=NVME)
    allocation.publish("words")
    others = away.attach("words")
    for i in range(200):
        at = i % (4 * PAGES) * PAGE + 8
        assert (allocation if i % 2 else others).fetch_add(at, 1) == i // (4 * PAGES)
    home.close(), away.close()


def test_a_device_that_takes_no_more_is_told_and_what_it_has_stays(cached):
    """The cache takes what half of it can; a program that writes on is told within the failure deadline."""
    program = cached.program(cached["n1"])
    allocation = program.alloc(4 * PAGES * PAGE, nodes=["n1"], kind=NVME)
    fill(allocation, 4 * PAGES)
    assert all(is_filled(allocation, page) for page in range(4 * PAGES))
    resource.prlimit(cached["n1"].process.pid, resource.RLIMIT_FSIZE, (0, 0))
    began, results = time.monotonic(), []
    for page in range(PAGES):
        results.append(outcome(lambda at=page * PAGE: allocation.put(at, b"x" * PAGE)))
        if results[-1] is not None:
            break
    assert results[-1] == "IO" and time.monotonic() - began < 30
    taken = results.count(None)
    assert all(allocation.get(page * PAGE, PAGE) == b"x" * PAGE for page in range(taken))
    assert all(is_filled(allocation, page) for page in range(taken, 4 * PAGES))
    assert figures(cached["n1"])["device_errors_total write"] > 0
    program.close()


def test_pages_that_the_device_lost_are_told_once_they_are_read(cached):
    program = cached.program(cached["n1"])
    allocation = program.alloc(4 * PAGES * PAGE, nodes=["n2"], kind=NVME)
    fill(allocation, 4 * PAGES)
    assert all(is_filled(allocation, page) for page in range(4 * PAGES))  # the last ones are in the cache
    wait_for("all is on the device", lambda: figures(cached["n2"])["bytes dirty"] == 0, deadline_s=30)
    files = pathlib.Path(f"/proc/{cached['n2'].process.pid}/fd")
    device, = [file for file in files.iterdir() if "/device/" in target_of(file)]
    os.truncate(device, 0)
    results = [outcome(lambda page=page: is_filled(allocation, page)) for page in range(4 * PAGES)]
    assert set(results) == {True, "LOST"}
    allocation.put(0, b"y" * PAGE)  # a page that is overwritten is there again
    assert allocation.get(0, PAGE) == b"y" * PAGE
    program.close()
