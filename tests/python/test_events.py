"""Events: what a session is told of its allocations and of nodes, read with next_event(), events() and aevents()."""
from __future__ import annotations

import asyncio
import threading

import pytest

import oncilla

SOON_S = 5.0


def shared_name(cluster, reader, name):
    with oncilla.connect(cluster["n1"].socket_path) as owner:
        owner.allocate(1 << 16, nodes="n3", dedicated=True).publish(name, mode=0o606)
    return reader.attach(name)


def test_a_removed_name_comes_as_an_event_of_its_handles(cluster):
    with oncilla.connect(cluster["n2"].socket_path) as reader, oncilla.connect(cluster["n1"].socket_path) as other:
        handle = shared_name(cluster, reader, "event-name")
        assert list(reader.events(0.05)) == []
        other.remove("event-name")
        event = reader.next_event(SOON_S)
        assert (event.kind, event.name, event.node) == ("revoked", "event-name", "n3")
        assert event.allocation == handle.info.id
        assert reader.next_event(0.05) is None
        with pytest.raises(oncilla.Revoked):
            handle[0:4]


def test_coherent_memory_says_so_is_one_memory_and_ends_with_an_event(cluster):
    with oncilla.connect(cluster["n1"].socket_path) as owner, oncilla.connect(cluster["n2"].socket_path) as reader:
        first = owner.allocate(1 << 16, nodes="n3", coherent=True)
        assert first.info.coherent and not first.info.durable and not owner.allocate(64).info.coherent
        first.publish("event-coherent", mode=0o606)
        named, = list(owner.names("event-coherent"))
        assert named.coherent
        other = reader.attach("event-coherent", write=True)
        for i in range(20):
            first[8 * i] = i
            assert other[8 * i] == i
            other[8 * i] = i + 100
            assert first[8 * i] == i + 100
        owner.remove("event-coherent")
        event = reader.next_event(SOON_S)
        assert event.kind == "revoked" and event.allocation == other.info.id
        with pytest.raises(oncilla.Revoked):
            other[0:4]
        with pytest.raises(oncilla.Unsupported, match="single or striped"):
            owner.allocate(1 << 16, layout="replicated", coherent=True)


def test_events_of_the_session_itself_come_also_where_it_is_alone(embedded):
    embedded.allocate(1 << 16, dedicated=True).publish("own")
    handle = embedded.attach("own")
    assert embedded.next_event(0.01) is None
    embedded.remove("own")
    event = embedded.next_event(SOON_S)
    assert event.kind == "revoked" and event.allocation == handle.info.id


def test_a_thread_that_waits_is_told_and_ends_with_the_session(cluster):
    told = []

    def read(session):
        with pytest.raises(oncilla.Cancelled):
            for event in session.events():
                told.append(event)
                seen.set()
    with oncilla.connect(cluster["n2"].socket_path) as reader, oncilla.connect(cluster["n1"].socket_path) as other:
        handle = shared_name(cluster, reader, "event-thread")
        seen = threading.Event()
        waits = threading.Thread(target=read, args=[reader])
        waits.start()
        other.remove("event-thread")
        assert seen.wait(SOON_S) and told[0].allocation == handle.info.id
    waits.join(SOON_S)
    assert not waits.is_alive()


def test_the_loop_goes_on_while_events_are_awaited(cluster):
    async def main():
        async with await oncilla.aconnect(cluster["n2"].socket_path) as reader:
            with oncilla.connect(cluster["n1"].socket_path) as other:
                handle = shared_name(cluster, reader, "event-loop")
                told = asyncio.ensure_future(anext(reader.aevents()))
                await asyncio.sleep(0.1)
                assert not told.done()
                await asyncio.to_thread(other.remove, "event-loop")
                assert (await asyncio.wait_for(told, SOON_S)).allocation == handle.info.id
    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_cancelled_wait_loses_no_event(cluster):
    async def main():
        async with await oncilla.aconnect(cluster["n2"].socket_path) as reader:
            with oncilla.connect(cluster["n1"].socket_path) as other:
                for i in range(20):
                    name = f"event-cancelled-{i}"
                    handle = shared_name(cluster, reader, name)
                    waits = asyncio.ensure_future(anext(reader.aevents()))
                    await asyncio.sleep(0)
                    removes = asyncio.ensure_future(asyncio.to_thread(other.remove, name))
                    await asyncio.sleep(0.0005 * i)
                    waits.cancel()
                    try:
                        event = await waits
                    except asyncio.CancelledError:
                        event = await asyncio.wait_for(anext(reader.aevents()), SOON_S)
                    await removes
                    assert event.name == name and event.allocation == handle.info.id
    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_node_that_dies_and_comes_back_is_told_of(make_cluster):
    cluster = make_cluster(3)
    with oncilla.connect(cluster["n2"].socket_path) as session:
        session.allocate(1 << 16, nodes="n3", dedicated=True)
        assert list(session.events(0.05)) == []
        cluster["n3"].kill()
        kinds = []
        for event in session.events(30.0):
            assert event.node == "n3" and event.allocation is None
            kinds.append(event.kind)
            if event.kind == "node_dead":
                break
        assert kinds[0] == "node_suspect"


def test_an_interrupt_ends_the_wait(cluster):
    import signal
    with oncilla.connect(cluster["n2"].socket_path) as session:
        threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            session.next_event()
        assert session.next_event(0.05) is None
