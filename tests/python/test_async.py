"""asyncio: the loop goes on while transfers wait, and a cancelled one has ended when it says so."""
from __future__ import annotations

import asyncio
import signal
import time

import pytest

import oncilla


def run(main):
    return asyncio.run(asyncio.wait_for(main, 60))


def test_every_transfer_has_its_await(cluster):
    async def main():
        async with await oncilla.aconnect(cluster["n1"].socket_path) as pool:
            block = await pool.aallocate(1 << 20, remote=True)
            assert await block.aput_from(b"hello", 3) == 5
            assert await block.aget(3, 5) == b"hello" and len(await block.aget()) == 1 << 20
            target = bytearray(5)
            assert await block.aget_into(target, 3) == 5 and target == b"hello"
            assert await block.aputv([(0, b"a"), (9, b"b")]) == 2
            pieces = [(0, bytearray(1)), (9, bytearray(1))]
            assert await block.agetv(pieces) == 2 and pieces == [(0, b"a"), (9, b"b")]
            assert await oncilla.acopy((block, 100), (block, 3), 5) == 5 and block[100:105] == b"hello"
            assert await oncilla.acopy((target, 0), (block, 9), 1) == 1 and target == b"bello"
            await asyncio.to_thread(block.publish, "async-name")
            assert (await (await pool.aattach("async-name")).aget(3, 5)) == b"hello"
            pool.remove("async-name")
        assert pool.closed
        with pytest.raises(oncilla.Cancelled):
            await block.aget()
    run(main())


def test_many_at_once_over_several_nodes(cluster):
    async def main():
        async with await oncilla.aconnect(cluster["n1"].socket_path) as pool:
            blocks = [pool.allocate(1 << 20, nodes=f"n{i % 3 + 1}", dedicated=True) for i in range(12)]
            values = [bytes([i]) * (1 << 20) for i in range(12)]
            await asyncio.gather(*(block.aput_from(value) for block, value in zip(blocks, values)))
            assert await asyncio.gather(*(block.aget() for block in blocks)) == values
    run(main())


def test_errors_come_out_of_await(cluster):
    async def main():
        async with await oncilla.aconnect(cluster["n1"].socket_path) as pool:
            block = await pool.aallocate(10)
            with pytest.raises(oncilla.OutOfRange):
                await block.aget(0, 11)
            with pytest.raises(oncilla.NotFound):
                await pool.aattach("async-nothing")
            with pytest.raises(oncilla.NoDaemon):
                await oncilla.aconnect("/nowhere/at/all")
    run(main())


def test_the_loop_goes_on_and_cancelling_ends_the_wait(pool):
    async def main():
        with pool.allocate(64, local=True, zero=True) as box:
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


def test_what_still_queues_never_starts(pool):
    async def main():
        from oncilla.aio import THREADS
        with pool.allocate(64, local=True, zero=True) as box:
            waiting = [asyncio.create_task(box.await_at_least(0, 1)) for _ in range(THREADS)]
            await asyncio.sleep(0.05)
            queued = asyncio.create_task(box.aput_from(b"never", 8))
            await asyncio.sleep(0.05)
            queued.cancel()
            with pytest.raises(asyncio.CancelledError):
                await queued
            box.fetch_add(0, 1)
            assert await asyncio.gather(*waiting) == [1] * THREADS
            assert box[8:13] == bytes(5)
    run(main())


def test_a_cancelled_get_does_not_write_any_more(make_cluster):
    cluster = make_cluster(2, budget=256 << 20)

    async def main(pool):
        block = pool.allocate(128 << 20, nodes="n2")
        block.put_from(b"x" * (128 << 20))
        target = bytearray(128 << 20)
        cluster["n2"].signal(signal.SIGSTOP)
        getting = asyncio.create_task(block.aget_into(target))
        await asyncio.sleep(0.2)
        getting.cancel()
        await asyncio.sleep(0.2)
        assert not getting.done()  # windows are under way: the buffer is not ours yet
        getting.cancel()
        cluster["n2"].signal(signal.SIGCONT)
        with pytest.raises(asyncio.CancelledError):
            await getting
        seen = bytes(target)
        block.get(0, 1 << 20)
        time.sleep(0.1)
        assert bytes(target) == seen and seen.count(b"x") <= 64 << 20
    with oncilla.connect(cluster["n1"].socket_path, deadline_s=20) as pool:
        run(main(pool))
