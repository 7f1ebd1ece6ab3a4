"""Fork, threads and the end of the process: handles of a parent raise in the child, threads share, nothing leaks."""
from __future__ import annotations

import gc
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import traceback

import pytest

import oncilla
from ocmlib import find_binary

CLUSTER_TESTS = pathlib.Path(__file__).resolve().parents[1] / "cluster"


def in_child(check) -> None:
    """Runs `check()` in a forked child; its failure is ours."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            check()
            os.write(write, b"ok")
        except BaseException:
            os.write(write, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as out:
        said = out.read()
    os.waitpid(pid, 0)
    assert said == b"ok", said.decode()


def test_a_forked_child_cannot_use_the_parents_handles(cluster):
    with oncilla.connect(cluster["n1"].socket_path) as session:
        block = session.allocate(1 << 20, remote=True)
        small = session.allocate(64, local=True)
        block[:6] = small[:6] = b"parent"

        def check():
            for call in (session.nodes, lambda: session.allocate(1), block.get,
                         lambda: block.put_from(b"child"), small.get,
                         lambda: small.put_from(b"child"), lambda: block.fetch_add(0, 1), lambda: block.publish("x"),
                         block.extents, lambda: memoryview(small)):
                with pytest.raises(oncilla.InvalidArgument):
                    call()
            block.free()
            session.close()
            with oncilla.connect(cluster["n2"].socket_path) as own:
                mine = own.allocate(1 << 16, nodes="n3")
                mine[:5] = b"child"
                assert mine[:5] == b"child" and len(own.nodes()) == 3
        in_child(check)
        in_child(check)
        assert block[:6] == b"parent" == small[:6] and len(session.nodes()) == 3
        block[:6] = b"goes o"
        assert block[:6] == b"goes o"


def test_a_forked_child_of_asyncio_has_its_own_threads(cluster):
    import asyncio
    with oncilla.connect(cluster["n1"].socket_path) as session:
        block = session.allocate(100, remote=True)
        asyncio.run(block.aget())

        def check():
            with pytest.raises(oncilla.InvalidArgument):
                asyncio.run(block.aget())
        in_child(check)
        assert len(asyncio.run(block.aget())) == 100


def child_of_multiprocessing(path: str, name: str, out) -> None:
    with oncilla.connect(path) as session, session.attach(name, write=True) as block:
        out.put(block[:5])
        block[:5] = b"child"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_share_by_name(cluster, method):
    context = multiprocessing.get_context(method)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        block = session.allocate(1 << 16, remote=True)
        block[:5] = b"first"
        block.publish("processes-shared")
        queue = context.Queue()
        child = context.Process(target=child_of_multiprocessing,
                                args=(str(cluster["n3"].socket_path), "processes-shared", queue))
        child.start()
        assert queue.get(timeout=60) == b"first"
        child.join(60)
        assert child.exitcode == 0 and block[:5] == b"child"
        session.remove("processes-shared")


def test_threads_share_an_allocation(session):
    block = session.allocate(8 * 65536, layout="striped", chunk_bytes=65536, nodes=["n1", "n2"])
    counter = session.allocate(8, zero=True, dedicated=True, remote=True)
    failures = []

    def work(number):
        try:
            value = bytes([number]) * 65536
            for _ in range(20):
                block.put_from(value, number * 65536)
                counter.fetch_add(0, 1)
                assert block.get(number * 65536, 65536) == value
        except BaseException:
            failures.append(traceback.format_exc())
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    assert counter.fetch_add(0, 0) == 160
    block.free()


def test_other_threads_run_while_one_waits(session):
    box = session.allocate(64, local=True, zero=True)
    seen = []
    waiter = threading.Thread(target=lambda: seen.append(box.wait_at_least(0, 1)))
    waiter.start()
    spins = sum(1 for _ in range(100_000))
    assert waiter.is_alive() and spins == 100_000
    box.fetch_add(0, 1)
    waiter.join(30)
    assert seen == [1]
    box.free()


def test_closing_under_a_waiting_thread_is_safe(cluster):
    session = oncilla.connect(cluster["n1"].socket_path)
    box = session.allocate(64, local=True, zero=True)
    ended = []

    def wait():
        try:
            box.wait_at_least(0, 1, deadline_s=0.5)
        except oncilla.Error as error:
            ended.append(error)
    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.05)
    session.close()
    waiter.join(30)
    assert len(ended) == 1 and isinstance(ended[0], oncilla.DeadlineExceeded)


def test_nothing_leaks_when_the_process_ends():
    """Nanobind tells of instances that are alive at the end; open sessions and views are among them."""
    code = """
import oncilla
session = oncilla.connect(embedded=True, embedded_bytes=8 << 20)
block = session.allocate(1 << 20)
array = block.numpy("i4")
view = memoryview(block)
piece = block.array("i4", (2, 3))
piece[0] = 1
try:
    session.attach("nothing")
except oncilla.NotFound as error:
    kept = error
print(session, block, array.sum())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "ONCILLA_LEAK_WARNINGS": "1"})
    assert done.returncode == 0 and done.stderr == "", done.stderr


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_calls_leak_no_references_and_no_descriptors(cluster):
    target, source = bytearray(4096), b"x" * 4096

    def refuses(block):
        for wrong in (lambda: block.get(1 << 20), lambda: block.get_into(source), lambda: block.put_from(3)):
            with pytest.raises((oncilla.Error, TypeError)):
                wrong()

    def round_trip():
        with oncilla.connect(cluster["n1"].socket_path) as session:
            for options in ({"local": True, "dedicated": True}, {"nodes": "n2"}):
                block = session.allocate(1 << 16, **options)
                block.put_from(source)
                block.get_into(target)
                block.putv([(0, source), (9000, source)])
                block.getv([(0, target)])
                oncilla.copy(target, block, 100)
                block[5:500:3], block[0], repr(block), block._repr_html_()
                refuses(block)
                if "local" in options:
                    memoryview(block).release()
                    del block
    def ours() -> int:
        return sum(isinstance(thing, (oncilla.Session, oncilla.Allocation)) for thing in gc.get_objects())

    others = ours()  # of tests before this one
    for _ in range(3):
        round_trip()
    gc.collect()
    before = (sys.getrefcount(target), sys.getrefcount(source), count_descriptors(), threading.active_count(), ours())
    for _ in range(5):
        round_trip()
    gc.collect()
    assert before == (sys.getrefcount(target), sys.getrefcount(source), count_descriptors(), threading.active_count(),
                      ours())
    assert before[-1] <= others


TWO_LIBRARIES = """
import sys
import oncilla._core
import ocmlib

with oncilla.connect(sys.argv[1]) as session:
    block = session.allocate(1 << 20, remote=True)
    copy = ocmlib.Session(sys.argv[1])
    mine = copy.alloc(1 << 20, nodes=["n2"])
    mine.put(0, b"copy")
    block[:4] = b"core"
    assert mine.get(0, 4) == b"copy" and block[:4] == b"core"
    copy.close()
    assert block[:4] == b"core"
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "liboncilla.so" in line}
assert len(loaded) == 2, loaded
print("done")
"""


def test_another_copy_of_the_library_is_loaded_beside_the_packages_own(cluster, tmp_path):
    """As where the package comes from one build and liboncilla.so from another."""
    shutil.copy(find_binary("liboncilla.so"), tmp_path / "liboncilla.so")
    path = os.pathsep.join((os.environ["PYTHONPATH"], str(CLUSTER_TESTS)))
    done = subprocess.run([sys.executable, "-c", TWO_LIBRARIES, str(cluster["n1"].socket_path)], capture_output=True,
                          text=True, timeout=60, env={**os.environ, "PYTHONPATH": path, "OCM_BIN_DIR": str(tmp_path)})
    assert done.stdout == "done\n", f"{done.returncode}: {done.stdout}{done.stderr}"
