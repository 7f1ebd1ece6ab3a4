"""Operations that go on by themselves: started, waited for, cancelled, dropped."""
from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest

import oncilla
from places import PLACES


@pytest.fixture(params=[place for place in PLACES if place != "replicated"])
def block(request, session):
    with session.allocate(4096, zero=True, **PLACES[request.param]) as allocation:
        yield allocation


class Buffer(bytearray):
    """Bytearrays cannot be referred to weakly."""


def test_every_form_gives_what_the_plain_call_gives(block):
    target = bytearray(5)
    assert block.start_put_from(b"hello", 3).wait() == 5
    assert block.start_get(3, 5).wait() == b"hello" and len(block.start_get().wait()) == 4096
    assert block.start_get_into(target, 3).wait() == 5 and target == b"hello"
    pieces = [(600, bytearray(1)), (700, bytearray(2))]
    assert block.start_putv([(600, b"a"), (700, b"bc")]).wait() == 3
    assert block.start_getv(pieces).wait() == 3 and pieces == [(600, b"a"), (700, b"bc")]
    rows = bytearray(4)
    assert block.start_put_strided(b"abcd", 200, 10, 2).wait() == 4
    assert block.start_get_strided(rows, 200, 10, 2).wait() == 4 and rows == b"abcd"
    assert block[200:212] == b"ab" + bytes(8) + b"cd"
    assert oncilla.start_copy((block, 1000), (block, 3), 5).wait() == 5 and block[1000:1005] == b"hello"


def test_atomics_and_notifications_give_their_word(block):
    forms = [(block.start_fetch_add, 12), (block.start_swap, 6), (block.start_fetch_and, 3),
             (block.start_fetch_or, 9), (block.start_fetch_xor, 1)]
    assert [start(64, operand).wait() for start, operand in forms] == [0, 12, 6, 2, 11]
    assert block.start_compare_swap(64, 10, 1).wait() == 10
    waiting = block.start_wait_at_least(64, 5)
    assert not waiting.done()
    with pytest.raises(oncilla.DeadlineExceeded):
        waiting.wait(0.01)
    assert block.start_put_notify(b"news", 72, 64, 4).wait() == 4
    assert waiting.wait(30) == 5 and waiting.done() and waiting.wait() == 5
    assert block.start_wait_at_least(64, 5).wait(30) == 5  # it is there already


def test_they_may_be_awaited(block):
    async def main():
        waiting = block.start_wait_at_least(0, 3)
        both = asyncio.gather(seen(waiting), seen(waiting))
        assert await block.start_fetch_add(0, 3) == 0
        assert await both == [3, 3] and await waiting == 3

    async def seen(operation):
        return await operation
    asyncio.run(asyncio.wait_for(main(), 60))


def test_what_is_wrong_is_said_at_once_and_what_fails_by_wait(session, block):
    for wrong in (lambda: block.start_get(0, 4097), lambda: block.start_fetch_add(4096, 1),
                  lambda: block.start_put_strided(b"ab", 4095, 1, 1)):
        with pytest.raises(oncilla.OutOfRange):
            wrong()
    with pytest.raises(oncilla.InvalidArgument):
        block.start_wait_at_least(4, 1)
    with pytest.raises(oncilla.InvalidArgument):
        block.start_get_strided(bytearray(3), 0, 8, 2)
    with pytest.raises(oncilla.DeadlineExceeded):
        block.start_wait_at_least(0, 1, 0.01).wait()
    waiting = block.start_wait_at_least(0, 1)
    waiting.cancel()
    with pytest.raises(oncilla.Cancelled):
        waiting.wait(30)
    with session.allocate(64, zero=True, layout="replicated", nodes=["n2", "n1"]) as replicas:
        for wrong in (lambda: replicas.start_fetch_add(0, 1), lambda: replicas.start_put_notify(b"a", 8, 0)):
            with pytest.raises(oncilla.Unsupported):
                wrong()
        waiting = replicas.start_wait_at_least(0, 1)
        replicas[0] = 1
        assert waiting.wait(30) == 1


def test_several_threads_wait_for_one(block):
    waiting = block.start_wait_at_least(0, 7)
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(waiting.wait())) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    assert not seen and block.fetch_add(0, 7) == 0
    for thread in threads:
        thread.join(30)
    assert seen == [7] * 4


def test_a_long_one_ends_while_nobody_calls(cluster, session):
    """More than one window of the calls that wait."""
    data = os.urandom(1 << 20) * 100
    with session.allocate(100 << 20, nodes="n2", dedicated=True) as far:
        putting = far.start_put_from(data)
        deadline = time.monotonic() + 60
        while far.get((100 << 20) - 8, 8) != data[-8:] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert putting.wait(0.5) == len(data)


def test_one_that_nobody_has_is_cancelled_and_lets_its_buffer_go(make_cluster):
    cluster = make_cluster(2)
    with oncilla.connect(cluster["n1"].socket_path, deadline_s=20) as session:
        far = session.allocate(1 << 20, nodes="n2", dedicated=True)
        far.get()
        cluster["n2"].signal(signal.SIGSTOP)
        target = Buffer(1 << 20)
        seen = weakref.ref(target)
        getting = far.start_get_into(target)
        assert not getting.done()
        getting.cancel()
        with pytest.raises(oncilla.Cancelled):
            getting.wait(5)
        target[:] = bytes(1 << 20)
        del getting
        dropped = far.start_get_into(target)
        assert not dropped.done()
        del dropped, target
        gc.collect()
        assert seen() is None
        cluster["n2"].signal(signal.SIGCONT)
        assert len(far.get()) == 1 << 20


@pytest.mark.parametrize("how", ["exits", "forks", "raises"])
def test_a_program_ends_with_operations_under_way(cluster, how):
    program = textwrap.dedent("""
        import asyncio, os, sys, oncilla
        session = oncilla.connect(sys.argv[1])
        far = session.allocate(32 << 20, nodes="n2", zero=True, dedicated=True)
        kept = [far.start_get(), far.start_wait_at_least(0, 1), far.start_put_from(bytes(32 << 20))]

        async def main():
            waiting = [asyncio.create_task(far.await_at_least(8, 1)), asyncio.create_task(far.aget())]
            await asyncio.sleep(0.01)
            if sys.argv[2] == "forks":
                child = os.fork()
                if child == 0:
                    kept[1].cancel()
                    try:
                        kept[1].wait(1)
                    except oncilla.Error as error:
                        os._exit(7)
                    os._exit(1)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
                assert far.fetch_add(0, 1) == 0 and kept[1].wait(30) == 1
            if sys.argv[2] == "raises":
                raise SystemExit(3)
            if sys.argv[2] == "exits":
                sys.stdout.flush()
                return
        try:
            asyncio.run(main())
        finally:
            print("ended")
    """)
    done = subprocess.run([sys.executable, "-c", program, cluster["n1"].socket_path, how], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == {"exits": 0, "forks": 0, "raises": 3}[how], done.stderr
    assert done.stdout.split() == ["ended"]
