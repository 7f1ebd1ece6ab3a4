"""Loads and stores into memory on a device, by programs of several nodes: one memory, as put and get see it."""
import contextlib
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from harness import find_binary, outcome, wait_for
from ocmlib import BIN_DIR
from rawprogram import RawProgram, done
from test_cache import NVME, PAGE, PAGES, figures
from test_cache_nodes import NODES, close, handles, make_caches  # noqa: F401
from test_users import ALICE, BOB

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUS, SEGV = -signal.SIGBUS, -signal.SIGSEGV


@pytest.fixture
def caches(make_caches):  # noqa: F811
    return make_caches()


def word(value: int) -> bytes:
    return value.to_bytes(8, "little")


def ended(program, within_s: float = 10) -> int:
    """How the program ends, whose call is under way."""
    return program.process.wait(within_s)


def thread_names(node) -> list[str]:
    names = []
    for task in pathlib.Path(f"/proc/{node.process.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ends meanwhile
            names.append((task / "comm").read_text())
    return names


def shadows(node) -> int:
    """Descriptors of files that programs map."""
    names = []
    for link in pathlib.Path(f"/proc/{node.process.pid}/fd").iterdir():
        try:
            names.append(os.readlink(link))
        except FileNotFoundError:
            pass
    return sum("oncilla-shadow" in name or "userfaultfd" in name for name in names)


@pytest.mark.parametrize("pages", [4, PAGES])
def test_each_loads_what_any_stored_or_put_last(make_caches, pages):  # noqa: F811
    caches = make_caches(pages=pages)
    count = 3 * PAGES * PAGE
    programs, of = handles(caches, count)
    shadow, pieces = bytearray(count), random.Random(pages)
    for _ in range(500):
        handle = of[pieces.choice(NODES)]
        offset = pieces.randrange(count)
        length = min(count - offset, pieces.choice([1, 8, 4096, PAGE, 2 * PAGE + 5]))
        by_pointer = pieces.random() < 0.7
        if pieces.random() < 0.5:
            data = pieces.randbytes(length)
            (handle.store if by_pointer else handle.put)(offset, data)
            shadow[offset:offset + length] = data
        else:
            assert (handle.load if by_pointer else handle.get)(offset, length) == shadow[offset:offset + length]
    for handle in of.values():
        assert handle.load(0, count) == shadow
        assert handle.get(0, count) == shadow
    close(programs)


def test_what_is_mapped_here_costs_the_daemon_nothing(caches):
    programs, of = handles(caches, 4 * PAGE)
    handle = of["n2"]
    handle.fill(0, 1, 4 * PAGE)
    handle.load(0, 4 * PAGE)

    def ticks() -> int:
        fields = pathlib.Path(f"/proc/{caches['n2'].process.pid}/stat").read_text().split()
        return int(fields[13]) + int(fields[14])
    counted, before = figures(caches["n2"]), ticks()
    for _ in range(200):
        handle.load(0, 4 * PAGE)
    assert ticks() - before <= 5
    now = figures(caches["n2"])
    assert now["mapped_total loaded"] == counted["mapped_total loaded"] > 0
    of["n3"].put(0, b"x")
    wait_for("it is withdrawn", lambda: figures(caches["n2"])["mapped_total withdrawn"] > now["mapped_total withdrawn"])
    close(programs)


def test_two_nodes_that_store_to_one_page_both_go_on(caches):
    programs, of = handles(caches, PAGE)
    per_side, sides = 300, ("n2", "n3")
    threads = []

    def run(name: str, at: int):
        for i in range(1, per_side + 1):
            of[name].store(at, word(i))
    for number, name in enumerate(sides):
        threads.append(threading.Thread(target=run, args=(name, 8 * number)))
        threads[-1].start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert of["n1"].load(0, 16) == word(per_side) * 2
    close(programs)


def test_atomics_and_pointers_agree(caches):
    programs, of = handles(caches, PAGE)
    of["n2"].store(0, word(5))
    assert of["n3"].fetch_add(0, 2) == 5
    assert of["n2"].load(0, 8) == word(7)
    assert of["n2"].fetch_add(0, 1) == 7
    assert of["n3"].load(0, 8) == word(8)
    close(programs)


def test_of_the_home_by_itself(caches):
    program = caches.program(caches["n1"])
    handle = program.alloc(4 * PAGES * PAGE, nodes=["n1"], kind=NVME)
    handle.store(PAGE - 3, b"across")
    assert handle.get(PAGE - 3, 6) == b"across"
    handle.fill(0, 9, 4 * PAGES * PAGE)
    assert handle.load(0, 4 * PAGES * PAGE) == random.Random(9).randbytes(4 * PAGES * PAGE)
    program.close()


def test_system_calls_wait_for_pages_too(caches, tmp_path):
    programs, of = handles(caches, 4 * PAGE)
    (tmp_path / "file").write_bytes(random.Random(3).randbytes(3 * PAGE))
    of["n2"].keep_pointer(0, 4 * PAGE)
    assert of["n2"].read_file(str(tmp_path / "file"), 3 * PAGE) == 3 * PAGE
    assert of["n1"].get(0, 3 * PAGE) == (tmp_path / "file").read_bytes()
    close(programs)


def test_a_mapping_that_its_program_cuts_up_is_served(caches):
    programs, of = handles(caches, 4 * PAGE)
    of["n1"].fill(0, 1, 4 * PAGE)
    of["n2"].keep_pointer(0, 4 * PAGE)
    of["n2"].cut_up(4096, 4096)  # inside a page
    of["n2"].cut_up(2 * PAGE - 4096, 8192)  # over the end of one
    assert of["n2"].peek(4 * PAGE) == random.Random(1).randbytes(4 * PAGE)
    of["n2"].poke(b"stored")
    assert of["n3"].load(0, 6) == b"stored"
    of["n3"].fill(0, 2, 4 * PAGE)
    assert of["n2"].peek(4 * PAGE) == random.Random(2).randbytes(4 * PAGE)
    close(programs)


def test_what_is_back_can_be_mapped_anew(caches):
    """After a stop of the home that ends its terms: the old pointer is dead, another one is not."""
    programs, of = handles(caches, 4 * PAGE)
    of["n1"].fill(0, 1, 4 * PAGE)
    caches["n1"].signal(signal.SIGSTOP)
    time.sleep(3)
    programs["n3"].start(of["n3"].command("load", 0, PAGE))
    assert ended(programs["n3"]) == BUS
    caches["n1"].signal(signal.SIGCONT)
    wait_for("the home answers", lambda: isinstance(outcome(lambda: of["n2"].get(0, 8)), bytes), 20)
    assert of["n2"].load(0, 4 * PAGE) == random.Random(1).randbytes(4 * PAGE)
    close(programs)


def test_readers_cannot_store(caches):
    programs, of = handles(caches, PAGE)
    of["n1"].put(0, b"as it was")
    reader = programs["n2"].attach("shared", "r")
    assert reader.load(0, 9) == b"as it was"
    reader.keep_pointer(0, 8)
    programs["n2"].start(reader.command("poke", b"stored!!"))
    assert ended(programs["n2"]) == SEGV
    assert of["n1"].get(0, 9) == b"as it was"
    close(programs)


def test_a_child_does_not_have_the_pages(caches):
    programs, of = handles(caches, PAGE)
    of["n2"].store(0, b"parent")
    of["n2"].keep_pointer(0, 6)
    assert of["n2"].child_peeks(6) == SEGV
    of["n2"].poke(b"goes on"[:6])
    assert of["n1"].load(0, 6) == b"goes o"
    close(programs)


def test_what_is_freed_gives_bus_errors_and_no_zeros(caches):
    programs, of = handles(caches, 4 * PAGE)
    of["n1"].fill(0, 1, 4 * PAGE)
    of["n2"].load(0, PAGE)  # and three pages that it never had
    of["n2"].keep_pointer(0, 4 * PAGE)
    programs["n1"].session("remove", "shared")
    of["n1"].free()
    of["n3"].free()
    programs["n2"].start(of["n2"].command("peek", 4 * PAGE))
    assert ended(programs["n2"]) == BUS
    close(programs)


@pytest.mark.parametrize("victim", ["n1", "n2"])
def test_a_daemon_that_dies_gives_bus_errors(caches, victim):
    """The home's, and the own one."""
    programs, of = handles(caches, 8 * PAGE)
    of["n1"].fill(0, 1, 8 * PAGE)
    of["n2"].load(0, PAGE)
    of["n2"].keep_pointer(0, 8 * PAGE)
    caches[victim].kill()
    began = time.monotonic()
    programs["n2"].start(of["n2"].command("peek", 8 * PAGE))
    assert ended(programs["n2"], 30) == BUS
    assert time.monotonic() - began < 15
    close(programs)


def test_a_program_that_waits_for_a_page_can_be_killed(caches):
    programs, of = handles(caches, 8 * PAGE)
    of["n1"].fill(0, 1, 8 * PAGE)
    of["n2"].load(0, 1)
    before = len(thread_names(caches["n2"]))
    caches["n1"].signal(signal.SIGSTOP)
    programs["n2"].start(of["n2"].command("load", 4 * PAGE, 8))
    time.sleep(0.2)
    programs["n2"].kill()
    caches["n1"].signal(signal.SIGCONT)
    wait_for("nobody answers its faults", lambda: len(thread_names(caches["n2"])) < before)
    wait_for("nothing of it is left", lambda: shadows(caches["n2"]) == 0)
    assert of["n3"].holds(0, 1, 8 * PAGE)
    close(programs)


def test_a_stop_shorter_than_the_deadline_loses_nothing(caches):
    programs, of = handles(caches, 8 * PAGE)
    of["n2"].store(0, random.Random(1).randbytes(8 * PAGE))
    caches["n2"].signal(signal.SIGSTOP)
    time.sleep(0.2)
    caches["n2"].signal(signal.SIGCONT)
    assert of["n3"].load(0, 8 * PAGE) == random.Random(1).randbytes(8 * PAGE)
    assert of["n2"].load(0, 8 * PAGE) == random.Random(1).randbytes(8 * PAGE)
    close(programs)


def test_a_term_that_ends_loses_no_store(caches):
    """The holder's daemon stands still for longer than its term, and comes back: its pages are the newest still."""
    programs, of = handles(caches, 4 * PAGE)
    of["n2"].store(0, random.Random(2).randbytes(4 * PAGE))
    caches["n1"].signal(signal.SIGSTOP)
    time.sleep(3)
    caches["n1"].signal(signal.SIGCONT)

    def is_back():
        return isinstance(outcome(lambda: of["n3"].get(0, 8)), bytes)
    wait_for("the home answers", is_back, 20)
    assert of["n3"].get(0, 4 * PAGE) == random.Random(2).randbytes(4 * PAGE)
    close(programs)


def test_a_daemon_that_is_told_to_stop_keeps_the_stores(caches):
    programs, of = handles(caches, 8 * PAGE)
    of["n2"].store(0, random.Random(4).randbytes(8 * PAGE))
    assert caches["n2"].stop() == 0
    assert of["n3"].get(0, 8 * PAGE) == random.Random(4).randbytes(8 * PAGE)
    close(programs)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_users_map_by_their_own_rights(caches):
    owner = caches.program(caches["n1"], uid=ALICE)
    first = owner.alloc(4 * PAGE, nodes=["n1"], kind=NVME)
    first.publish("of-alice", 0o644)
    other = caches.program(caches["n2"], uid=BOB)
    assert outcome(lambda: other.attach("of-alice", "rw")) == "PERMISSION"
    reader = other.attach("of-alice", "r")
    first.store(0, b"x" * 4 * PAGE)
    assert reader.load(0, 4 * PAGE) == b"x" * 4 * PAGE
    first.store(5, b"y")
    assert reader.load(0, 8) == b"xxxxxyxx"
    owner.close()
    other.close()


def mapping(raw: RawProgram, extent: dict, access: int = 3, **kwargs) -> dict:
    return raw.call("map_pages", address=extent["address"], generation=extent["generation"],
                    capability=kwargs.get("capability", extent["capability"]), access=access)


def test_strangers_get_no_pages(caches):
    raw = RawProgram(caches["n1"])
    raw.hello()
    made = done(raw.call("allocate", bytes_total=4 * PAGE, kind=NVME, nodes=["n1"]))["allocation"]
    extent = made["extents"][0]
    assert mapping(raw, extent, capability=bytes(16))["code"] != 0
    assert mapping(raw, extent, access=2)["code"] != 0
    assert mapping(raw, {**extent, "generation": extent["generation"] + 1})["code"] != 0
    assert mapping(raw, {**extent, "address": extent["address"] + 64})["code"] != 0
    done(mapping(raw, extent))
    raw.close()


def test_hostile_mappings_end_themselves_and_nobody_else(caches):
    program = caches.program(caches["n1"])
    good = program.alloc(4 * PAGE, nodes=["n1"], kind=NVME)
    good.store(0, b"good")
    raw = RawProgram(caches["n1"])
    raw.hello()
    made = done(raw.call("allocate", bytes_total=4 * PAGE, kind=NVME, nodes=["n1"]))["allocation"]
    extent = made["extents"][0]
    said = struct.Struct("<IIQQ")
    magic = 0x70616D6F
    null = os.open("/dev/null", os.O_RDWR)
    pipe = os.pipe()
    for packet, fds in [
            (said.pack(magic, 1, 1 << 30, 4 * PAGE), [null]), (said.pack(magic, 1, 1 << 30, 4 * PAGE), [pipe[0]]),
            (said.pack(magic, 1, 1 << 30, 4 * PAGE), []), (said.pack(magic, 1, 7, 4 * PAGE), [null]),
            (said.pack(magic, 1, 1 << 30, 4 * PAGE + 4096), [null]), (said.pack(0, 0, 0, 0), [null]),
            (b"", []), (b"x", [null] * 20), (said.pack(magic, 1, 2**64 - 4096, 4 * PAGE), [null])]:
        reply = mapping(raw, extent)
        done(reply)
        file, end = raw.fds[-2:]
        del raw.fds[-2:]
        with socket.socket(fileno=end) as own:
            if fds:
                socket.send_fds(own, [packet], fds)
            else:
                own.send(packet)
            own.settimeout(5)
            answer = own.recv(64)
            assert answer == b"" or struct.unpack("<IiQQ", answer)[1] != 0
        os.close(file)
    # Many that say nothing; those above the limit are refused, and room comes back when they close.
    held = []
    for _ in range(200):
        reply = mapping(raw, extent)
        if reply["code"] != 0:
            break
        held += raw.fds[-2:]
        del raw.fds[-2:]
    assert 200 <= len(held) < 400
    for fd in held:
        os.close(fd)
    wait_for("it is so", lambda: mapping(raw, extent)["code"] == 0)
    assert good.load(0, 4) == b"good"
    raw.close()
    for fd in (null, *pipe):
        os.close(fd)
    program.close()


def test_what_is_planted_in_holes_goes_with_the_last_mapping(caches):
    """By a program that maps the file that it was given without watching it."""
    keeper = caches.program(caches["n2"])
    keeper.alloc(16 * PAGE, nodes=["n1"], kind=NVME).publish("planted", 0o666)
    held = keeper.attach("planted")
    held.put(0, b"kept")  # the extent stays cached here
    raw = RawProgram(caches["n2"])
    raw.hello()
    extent = done(raw.call("attach", name="planted", access=3))["allocation"]["extents"][0]
    done(mapping(raw, extent))
    file, end = raw.fds[-2:]
    del raw.fds[-2:]
    os.pwrite(file, b"planted" * PAGE, 0)
    assert os.fstat(file).st_blocks > 0
    os.close(end)
    wait_for("the daemon lets go of the file", lambda: shadows(caches["n2"]) == 0)
    os.close(file)
    assert held.load(0, 16 * PAGE) == b"kept" + bytes(16 * PAGE - 4)
    raw.close()
    keeper.close()


def test_memory_is_given_back_with_the_last_mapping(caches):
    program = caches.program(caches["n2"])
    before = len(thread_names(caches["n2"]))
    for _ in range(5):
        handle = program.alloc(2 * PAGES * PAGE, nodes=["n1"], kind=NVME)
        handle.store(0, b"z" * 2 * PAGES * PAGE)
        handle.free()
    wait_for("it is so", lambda: shadows(caches["n2"]) == 0)
    program.alloc(PAGE, nodes=["n1"], kind=NVME)
    wait_for("it is so", lambda: len(thread_names(caches["n2"])) <= before + 3)
    program.close()


@pytest.mark.parametrize("example", ["example_pointers", "pointers.py"])
def test_the_examples_sort_more_than_a_cache_has(caches, example):
    """And the other node's caches: the array is eight times as long as one."""
    if example.endswith(".py"):
        command = [sys.executable, "-B", str(ROOT / "examples/python" / example)]
    else:
        command = [str(find_binary("example_pointers")), "8MiB"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={
        **os.environ, "OCM_SOCKET": str(caches["n2"].socket_path), "PYTHONPATH": str(BIN_DIR / "python")})
    assert done.returncode == 0 and "numbers sorted where they lie" in done.stdout, done.stderr
