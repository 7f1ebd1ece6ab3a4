"""asyncio: the loop goes on while transfers wait, and a cancelled one has ended when it says so."""
from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
import weakref

import pytest

import oncilla
from oncilla.core import aio


def run(main):
    return asyncio.run(asyncio.wait_for(main, 60))


def test_every_transfer_has_its_await(cluster):
    async def main():
        async with await oncilla.aconnect(cluster["n1"].socket_path) as session:
            block = await session.aallocate(1 << 20, remote=True, zero=True)
            assert await block.aput_from(b"hello", 3) == 5
            assert await block.aget(3, 5) == b"hello" and len(await block.aget()) == 1 << 20
            target = bytearray(5)
            assert await block.aget_into(target, 3) == 5 and target == b"hello"
            assert await block.aputv([(0, b"a"), (9, b"b")]) == 2
            pieces = [(0, bytearray(1)), (9, bytearray(1))]
            assert await block.agetv(pieces) == 2 and pieces == [(0, b"a"), (9, b"b")]
            rows = bytearray(4)
            assert await block.aput_strided(b"abcd", 200, 10, 2) == 4
            assert block[200:212] == b"ab" + bytes(8) + b"cd"
            assert await block.aget_strided(rows, 200, 10, 2) == 4 and rows == b"abcd"
            assert [await block.afetch_add(64, 12), await block.aswap(64, 6), await block.afetch_and(64, 3),
                    await block.afetch_or(64, 9), await block.afetch_xor(64, 1)] == [0, 12, 6, 2, 11]
            assert await block.acompare_swap(64, 10, 1) == 10 and block[64] == 1
            assert await block.aput_notify(b"news", 300, 64, 4) == 4
            assert await block.await_at_least(64, 5, 10) == 5 and block[300:304] == b"news"
            assert await oncilla.acopy((block, 100), (block, 3), 5) == 5 and block[100:105] == b"hello"
            assert await oncilla.acopy((target, 0), (block, 9), 1) == 1 and target == b"bello"
            await asyncio.to_thread(block.publish, "async-name")
            assert (await (await session.aattach("async-name")).aget(3, 5)) == b"hello"
            session.remove("async-name")
        assert session.closed
        with pytest.raises(oncilla.Cancelled):
            await block.aget()
    run(main())


def test_many_at_once_over_several_nodes(cluster):
    async def main():
        async with await oncilla.aconnect(cluster["n1"].socket_path) as session:
            blocks = [session.allocate(1 << 20, nodes=f"n{i % 3 + 1}", dedicated=True) for i in range(12)]
            values = [bytes([i]) * (1 << 20) for i in range(12)]
            await asyncio.gather(*(block.aput_from(value) for block, value in zip(blocks, values)))
            assert await asyncio.gather(*(block.aget() for block in blocks)) == values
    run(main())


def test_errors_come_out_of_await(cluster):
    async def main():
        async with await oncilla.aconnect(cluster["n1"].socket_path) as session:
            block = await session.aallocate(10)
            with pytest.raises(oncilla.OutOfRange):
                await block.aget(0, 11)
            with pytest.raises(oncilla.NotFound):
                await session.aattach("async-nothing")
            with pytest.raises(oncilla.NoDaemon):
                await oncilla.aconnect("/nowhere/at/all")
    run(main())


def test_the_loop_goes_on_and_cancelling_ends_the_wait(session):
    async def main():
        with session.allocate(64, local=True, zero=True) as box:
            waiting = asyncio.create_task(box.await_at_least(0, 1))
            for _ in range(20):
                await asyncio.sleep(0.005)
            assert not waiting.done()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            waiting = asyncio.create_task(box.await_at_least(0, 5))
            await asyncio.sleep(0.01)
            box.fetch_add(0, 5)
            assert await waiting == 5
    run(main())


def test_what_still_queues_never_starts(session):
    """Its node is not reached yet, so that a thread would begin it."""
    async def main():
        from oncilla.aio import THREADS, run_to_end
        with session.allocate(64, nodes="n2", zero=True, dedicated=True) as box:
            full = threading.Event()
            waiting = [asyncio.create_task(run_to_end(session, full.wait)) for _ in range(THREADS)]
            try:
                await asyncio.sleep(0.05)
                queued = asyncio.create_task(box.aput_from(b"never", 8))
                await asyncio.sleep(0.05)
                queued.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await queued
            finally:
                full.set()
            assert await asyncio.gather(*waiting) == [True] * THREADS
            assert box[8:13] == bytes(5)
    run(main())


def test_as_many_wait_as_want_to(cluster):
    """Transfers and waits keep no thread: those that cannot end hold up nobody."""
    async def main():
        from oncilla.aio import THREADS
        async with await oncilla.aconnect(cluster["n1"].socket_path) as session:
            places = {"local": True}, {"nodes": "n2"}
            words = [session.allocate(64, zero=True, dedicated=True, **where) for where in places]
            waiting = [asyncio.create_task(word.await_at_least(0, 1 + i))
                       for i in range(5 * THREADS) for word in words]
            block = session.allocate(1 << 20, nodes="n2")
            for i in range(100):
                assert await block.aput_from(bytes([i]) * 1000, 1000 * i) == 1000
            assert block[99_000:100_000] == bytes([99]) * 1000
            assert not any(task.done() for task in waiting)
            for word in words:
                word.fetch_add(0, 5 * THREADS)
            assert set(await asyncio.gather(*waiting)) == {5 * THREADS}
            with pytest.raises(oncilla.DeadlineExceeded):
                await words[0].await_at_least(0, 1 << 40, 0.05)
            with pytest.raises(oncilla.InvalidArgument):
                await words[1].await_at_least(4, 1)
    run(main())


def test_long_transfers_go_on_by_themselves(make_cluster):
    """Of many windows each, several at once, with other work in the loop; what fails says so."""
    cluster = make_cluster(2, budget=512 << 20)
    long = 100 << 20

    async def main(session):
        blocks = [session.allocate(long, nodes="n2", dedicated=True) for _ in range(2)]
        data = [os.urandom(1 << 20) * 100 for _ in blocks]
        assert await asyncio.gather(*(block.aput_from(one) for block, one in zip(blocks, data))) == [long, long]
        targets = [bytearray(long) for _ in blocks]
        getting = asyncio.gather(*(block.aget_into(target) for block, target in zip(blocks, targets)))
        assert await oncilla.acopy((blocks[0], 50 << 20), (blocks[1], 0), 40 << 20) == 40 << 20
        await getting
        assert targets[1] == data[1]
        assert await blocks[0].agetv([(50 << 20, bytearray(1 << 20)), (0, bytearray(3))]) == (1 << 20) + 3
        assert await blocks[0].aget((90 << 20) - 5, 5) == data[1][(40 << 20) - 5:40 << 20]
        getting = asyncio.create_task(blocks[0].aget())
        await asyncio.sleep(0.001)
        cluster["n2"].kill()
        with pytest.raises(oncilla.PeerLost):
            await getting
            await blocks[0].aget()
    with oncilla.connect(cluster["n1"].socket_path, deadline_s=2) as session:
        run(main(session))


@pytest.mark.parametrize("what", ["get", "put", "strided", "word", "wait"])
def test_what_is_cancelled_ends_at_once_though_its_node_stands_still(make_cluster, what):
    """And touches no buffer any more, whatever the node sends when it goes on."""
    cluster = make_cluster(2, budget=256 << 20)
    long = 128 << 20

    async def main(session):
        block = session.allocate(long, nodes="n2", zero=True)
        block.put_from(b"x" * long)
        target = bytearray(long)
        calls = {"get": lambda: block.aget_into(target), "put": lambda: block.aput_from(target),
                 "strided": lambda: block.aget_strided(target, 0, 8, 8), "word": lambda: block.afetch_add(0, 1),
                 "wait": lambda: block.await_at_least(0, 1 << 63)}
        cluster["n2"].signal(signal.SIGSTOP)
        running = asyncio.create_task(calls[what]())
        await asyncio.sleep(0.2)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 5)  # far below the 20 s of a silent node
        seen = bytes(target)
        if what in ("get", "strided"):
            target[:] = bytes(long)  # ours again
            seen = bytes(target)
        cluster["n2"].signal(signal.SIGCONT)
        assert await block.aget(long - 1, 1) in (b"x", b"\0")
        time.sleep(0.1)
        assert bytes(target) == seen
    with oncilla.connect(cluster["n1"].socket_path, deadline_s=20) as session:
        run(main(session))


def test_a_transfer_is_cancelled_while_its_node_is_dialled(make_cluster):
    """A thread waits for the node; the await does not, and what follows finds the node when it goes on."""
    cluster = make_cluster(2)

    async def main(session):
        block = session.allocate(1 << 20, nodes="n2", dedicated=True)
        cluster["n2"].signal(signal.SIGSTOP)
        running = asyncio.create_task(block.aput_from(b"never"))
        await asyncio.sleep(0.3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 5)
        cluster["n2"].signal(signal.SIGCONT)
        assert await block.aput_from(b"later") == 5 and await block.aget(0, 5) == b"later"
    with oncilla.connect(cluster["n1"].socket_path, deadline_s=20) as session:
        run(main(session))


@pytest.mark.parametrize("how", ["freed", "closed"])
@pytest.mark.parametrize("where", [{"local": True}, {"nodes": "n2"}], ids=["local", "remote"])
def test_a_wait_for_a_word_ends_with_what_it_is_in(cluster, where, how):
    async def main():
        session = oncilla.connect(cluster["n1"].socket_path)
        word = session.allocate(64, zero=True, dedicated=True, **where)
        waiting = asyncio.create_task(word.await_at_least(0, 1))
        started = word.start_wait_at_least(0, 1)
        await asyncio.sleep(0.05)
        assert not waiting.done() and not started.done()
        word.free() if how == "freed" else session.close()
        wanted = oncilla.Revoked if how == "freed" else oncilla.Cancelled
        with pytest.raises(wanted):
            await waiting
        with pytest.raises(wanted):
            started.wait(10)
        session.close()
    run(main())


def test_a_session_closes_in_the_middle_of_an_await(make_cluster):
    """Its transfer goes on to its end, with its buffer, and nothing new begins."""
    cluster = make_cluster(2, budget=256 << 20)

    async def main():
        session = oncilla.connect(cluster["n1"].socket_path)
        block = session.allocate(128 << 20, nodes="n2")
        getting = asyncio.create_task(block.aget())
        await asyncio.sleep(0.02)
        session.close()
        assert len(await getting) == 128 << 20
        with pytest.raises(oncilla.Cancelled):
            await block.aget(0, 1)
    run(main())


def test_awaits_use_no_thread(cluster, monkeypatch):
    """A thousand at once, of transfers, atomics and waits for words: what is reached already, the loop begins."""
    queued, submit = [], aio._submit

    def counted(session, call):
        queued.append(call)
        return submit(session, call)

    monkeypatch.setattr(aio, "_submit", counted)

    async def main():
        async with await oncilla.aconnect(cluster["n1"].socket_path) as session:
            block = session.allocate(1 << 20, nodes="n2", zero=True, dedicated=True)
            block.get(0, 8)
            queued.clear()
            calls = [block.aput_from(bytes([i % 251]) * 64, 64 * i + 64) for i in range(1000)]
            await asyncio.gather(*calls, *(block.afetch_add(0, 1) for _ in range(100)))
            waits = [asyncio.create_task(block.await_at_least(0, 101 + i % 7)) for i in range(200)]
            await asyncio.sleep(0.05)
            assert not any(task.done() for task in waits)
            assert await block.afetch_add(0, 7) == 100
            assert set(await asyncio.gather(*waits)) == {107}
            assert len(queued) <= 60  # of 2,300: where the session's own thread is in the middle of something
            pieces = await asyncio.gather(*(block.aget(64 * i + 64, 64) for i in range(1000)))
            assert pieces == [bytes([i % 251]) * 64 for i in range(1000)]
            assert len(queued) <= 60  # of 2,300: where the session's own thread is in the middle of something
    run(main())


@pytest.mark.parametrize("how", ["the end of run()", "each task is cancelled"])
def test_when_all_is_cancelled_nobody_writes_any_more(make_cluster, how):
    cluster = make_cluster(2, budget=256 << 20)
    target = bytearray(128 << 20)
    seen = []

    async def get(block):
        try:
            await block.aget_into(target)
        finally:
            seen.append(bytes(target))

    async def main(session):
        block = session.allocate(128 << 20, nodes="n2")
        block.put_from(b"x" * (128 << 20))
        getting = asyncio.create_task(get(block))
        await asyncio.sleep(0.005)
        if how == "each task is cancelled":
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.wait([getting])

    with oncilla.connect(cluster["n1"].socket_path, deadline_s=20) as session:
        asyncio.run(main(session))
        time.sleep(0.2)
        assert len(seen) == 1 and bytes(target) == seen[0]


def test_what_was_under_way_in_a_loop_that_ended_is_given_back(make_cluster):
    """The loop is stopped and closed; its transfer ends meanwhile, and keeps neither the session nor the buffer."""
    cluster = make_cluster(2)

    class Buffer(bytearray):  # bytearrays cannot be referred to weakly
        pass

    buffer = Buffer(1 << 20)
    seen = weakref.ref(buffer)
    session = oncilla.connect(cluster["n1"].socket_path, deadline_s=20)
    block = session.allocate(1 << 20, nodes="n2", dedicated=True)
    block.get()
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # it says that a pending task was destroyed
    cluster["n2"].signal(signal.SIGSTOP)
    task = loop.create_task(block.aget_into(buffer))
    loop.call_later(0.3, loop.stop)
    loop.run_forever()
    loop.close()
    cluster["n2"].signal(signal.SIGCONT)
    del task, loop, buffer
    gc.collect()
    session.close()
    del session, block
    gc.collect()
    assert seen() is None
