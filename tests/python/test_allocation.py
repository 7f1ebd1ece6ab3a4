"""Allocations: bytes in, bytes out, wherever they lie. The oracle is a bytearray."""
from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oncilla
from oncilla import _core
from places import PLACES

NBYTES = 1000
SETTINGS = settings(max_examples=60, deadline=None, database=None)
indices = st.one_of(st.none(), st.integers(-NBYTES - 3, NBYTES + 3))
steps = st.one_of(st.none(), st.integers(-NBYTES, NBYTES).filter(bool))
slices = st.builds(slice, indices, indices, steps)


@pytest.fixture(scope="module")
def session(cluster):
    with oncilla.connect(cluster["n1"].socket_path) as session:
        yield session


@pytest.fixture(scope="module", params=PLACES)
def block(request, session):
    """An allocation of NBYTES, and what is in it."""
    with session.allocate(NBYTES, **PLACES[request.param]) as allocation:
        oracle = bytearray(i * 7 % 251 for i in range(NBYTES))
        assert allocation.put_from(oracle) == NBYTES
        yield allocation, oracle


@SETTINGS
@given(slices)
def test_a_slice_gets_what_a_bytearray_gives(block, where):
    allocation, oracle = block
    assert allocation[where] == bytes(oracle[where])


@SETTINGS
@given(slices, st.randoms(use_true_random=False))
def test_a_slice_puts_as_into_a_bytearray(block, where, random):
    allocation, oracle = block
    value = random.randbytes(len(oracle[where]))
    allocation[where] = value
    oracle[where] = value
    assert allocation.get() == bytes(oracle)


@SETTINGS
@given(st.integers(-NBYTES - 2, NBYTES + 1), st.integers(0, 255))
def test_an_index_is_one_byte(block, index, value):
    allocation, oracle = block
    if not -NBYTES <= index < NBYTES:
        with pytest.raises(IndexError):
            allocation[index]
        with pytest.raises(oncilla.OutOfRange):
            allocation[index] = value
        return
    allocation[index] = oracle[index] = value
    assert allocation[index] == value
    assert allocation.get() == bytes(oracle)


@SETTINGS
@given(st.lists(st.integers(0, NBYTES).flatmap(lambda at: st.tuples(st.just(at), st.integers(0, NBYTES - at))),
                max_size=12), st.randoms(use_true_random=False))
def test_vectored_transfers_do_each_piece(block, ranges, random):
    allocation, oracle = block
    targets = [(offset, bytearray(length)) for offset, length in ranges]
    assert allocation.getv(targets) == sum(length for _, length in ranges)
    assert all(target == oracle[offset:offset + len(target)] for offset, target in targets)
    disjoint, end = [], 0
    for offset, length in sorted(ranges):
        if offset >= end:
            disjoint.append((offset, random.randbytes(length)))
            end = offset + length
    allocation.putv(disjoint)
    for offset, value in disjoint:
        oracle[offset:offset + len(value)] = value
    assert allocation.get() == bytes(oracle)


@SETTINGS
@given(st.integers(0, 200), st.integers(1, 20), st.integers(1, 10), st.integers(20, 60))
def test_strided_transfers_touch_the_rows_only(block, offset, row_bytes, rows, stride):
    allocation, oracle = block
    packed = bytes(range(1, 1 + row_bytes * rows % 250)) * 300
    packed = packed[:row_bytes * rows]
    allocation.put_strided(packed, offset, stride, row_bytes)
    for row in range(rows):
        oracle[offset + row * stride:offset + row * stride + row_bytes] = packed[row * row_bytes:(row + 1) * row_bytes]
    assert allocation.get() == bytes(oracle)
    back = bytearray(row_bytes * rows)
    allocation.get_strided(back, offset, stride, row_bytes)
    assert back == packed


@SETTINGS
@given(st.integers(0, NBYTES), st.integers(0, NBYTES), st.integers(0, NBYTES))
def test_copies_between_allocations_and_buffers(session, block, target_at, source_at, length):
    allocation, oracle = block
    length = min(length, NBYTES - target_at, NBYTES - source_at)
    with session.allocate(NBYTES, nodes="n3", dedicated=True) as other:
        there = bytearray(NBYTES)
        other[:] = there
        assert oncilla.copy((other, target_at), (allocation, source_at), length) == length
        there[target_at:target_at + length] = oracle[source_at:source_at + length]
        assert other.get() == bytes(there)
    buffer = bytearray(NBYTES)
    oncilla.copy(buffer, allocation)
    assert buffer == oracle
    buffer[:3] = b"abc"
    oncilla.copy(allocation, buffer)
    oracle[:] = buffer
    assert allocation[:] == bytes(oracle)


def test_large_transfers_go_in_windows(session):
    import numpy as np
    data = np.arange(20 << 20, dtype="i4")  # 80 MiB
    for place in ("local", "remote", "striped"):
        options = {**PLACES[place], "chunk_bytes": 1 << 20} if place == "striped" else PLACES[place]
        with session.put_array(data, **options) as allocation:
            assert (allocation.read_array("i4") == data).all()
            halves = np.empty_like(data)
            allocation.getv([(0, halves[:15 << 20]), (60 << 20, halves[15 << 20:])])
            assert (halves == data).all()


def test_what_leaves_the_allocation_is_refused(block):
    allocation, oracle = block
    for call in (lambda: allocation.get(NBYTES + 1), lambda: allocation.get(0, NBYTES + 1),
                 lambda: allocation.get(2**63, 2**63), lambda: allocation.get_into(bytearray(2), NBYTES - 1),
                 lambda: allocation.put_from(b"12", NBYTES - 1), lambda: allocation.putv([(NBYTES, b"1")]),
                 lambda: allocation.getv([(0, bytearray(1)), (2**64 - 1, bytearray(2))]),
                 lambda: oncilla.copy((allocation, NBYTES - 1), b"12"),
                 lambda: oncilla.copy(bytearray(1), (allocation, NBYTES + 1)),
                 lambda: allocation.put_strided(b"1" * 20, 0, NBYTES, 10),
                 lambda: allocation.read_array("i8", 200), lambda: allocation.read_array("i8", offset=-1)):
        with pytest.raises(oncilla.OutOfRange):
            call()
    assert allocation.get() == bytes(oracle)
    for call in (lambda: allocation.get(-1), lambda: allocation.get("x"), lambda: allocation.getv([(-1, bytearray(1))]),
                 lambda: allocation.getv([3]), lambda: allocation.put_from(7), lambda: allocation.get_into("text")):
        with pytest.raises(TypeError):
            call()


def test_empty_transfers_are_nothing(block):
    allocation, oracle = block
    assert allocation.get(NBYTES) == b"" and allocation.get(5, 0) == b""
    assert allocation.get_into(bytearray()) == 0 and allocation.put_from(b"", NBYTES) == 0
    assert allocation.getv([]) == 0 and allocation.putv([(3, b"")]) == 0
    assert allocation[5:5] == b"" and oncilla.copy(allocation, b"") == 0
    assert allocation.get() == bytes(oracle)


def test_buffers_must_be_contiguous_and_targets_writable(block):
    allocation, oracle = block
    gaps = memoryview(bytearray(20))[::2]
    for call in (lambda: allocation.get_into(gaps), lambda: allocation.put_from(gaps),
                 lambda: allocation.getv([(0, gaps)]), lambda: allocation.get_into(b"read-only"),
                 lambda: oncilla.copy(b"read-only", allocation, 3), lambda: oncilla.copy(bytearray(3), b"123")):
        with pytest.raises(oncilla.InvalidArgument) as error:
            call()
        assert isinstance(error.value, ValueError)
    with pytest.raises(oncilla.InvalidArgument, match="10 bytes, the value 3"):
        allocation[0:10] = b"abc"
    assert allocation.get() == bytes(oracle)


def test_it_is_no_sequence_to_walk_over(block):
    allocation, oracle = block
    assert len(allocation) == allocation.nbytes == NBYTES
    assert bytes(allocation) == bytes(oracle)
    with pytest.raises(TypeError):
        iter(allocation)
    assert len({allocation, allocation}) == 1


@pytest.mark.parametrize("place", [name for name in PLACES if name != "replicated"])
def test_atomics_give_the_value_before(session, place):
    with session.allocate(256, zero=True, **PLACES[place]) as words:
        assert words.fetch_add(72, 5) == 0 and words.fetch_add(72, 2**64 - 1) == 5
        assert words.swap(72, 12) == 4 and words.compare_swap(72, 11, 1) == 12
        assert words.compare_swap(72, 12, 0b1100) == 12 and words.fetch_and(72, 0b0110) == 0b1100
        assert words.fetch_or(72, 0b0011) == 0b0100 and words.fetch_xor(72, 0b1111) == 0b0111
        assert int.from_bytes(words[72:80], "little") == 0b1000
        with pytest.raises(oncilla.InvalidArgument):
            words.fetch_add(4, 1)
        with pytest.raises(oncilla.OutOfRange):
            words.fetch_add(256, 1)


def test_atomics_need_one_home(session):
    with session.allocate(64, **PLACES["replicated"]) as words, pytest.raises(oncilla.Unsupported):
        words.fetch_add(0, 1)


@pytest.mark.parametrize("place", ["local", "remote"])
def test_who_waits_for_the_notification_sees_the_bytes(session, place):
    with session.allocate(64, zero=True, **PLACES[place]) as box:
        box.put_notify(b"payload", 8, 0)
        box.put_notify(b"", 8, 0, value=2)
        assert box.wait_at_least(0, 3) == 3 and box[8:15] == b"payload"
        with pytest.raises(oncilla.DeadlineExceeded) as error:
            box.wait_at_least(0, 4, deadline_s=0.05)
        assert isinstance(error.value, TimeoutError)


def test_publish_and_attach(cluster, session):
    allocation = session.allocate(100)
    allocation[:3] = b"abc"
    allocation.publish("python-publish")
    with pytest.raises(oncilla.Exists):
        session.allocate(1).publish("python-publish")
    with oncilla.connect(cluster["n3"].socket_path) as other:
        reader = other.attach("python-publish")
        assert reader[:3] == b"abc" and not reader.info.writable and reader.info.published
        with pytest.raises(oncilla.Permission) as error:
            reader[0] = 1
        assert isinstance(error.value, PermissionError)
        writer = other.attach("python-publish", write=True)
        writer[0:1] = b"x"
        allocation.free()
        assert reader[:3] == b"xbc"
        other.remove("python-publish")
        with pytest.raises(oncilla.Revoked):
            reader.get()
        with pytest.raises(oncilla.NotFound, match="python-publish"):
            other.attach("python-publish")


def test_what_it_is_and_where(session):
    with session.allocate(1 << 20, layout="striped", nodes=["n1", "n2"], chunk_bytes=4096) as striped:
        assert striped.info[:5] == (1 << 20, "dram", "striped", 4096, 2)
        assert [(e.node, e.nbytes, e.local, e.lost) for e in striped.extents()] == [
            ("n1", 1 << 19, True, False), ("n2", 1 << 19, False, False)]
        assert "striped on n1, n2" in repr(striped)
        assert striped._repr_html_().count("<tr>") == 3
    assert "freed" in repr(striped) and "freed" in striped._repr_html_()
    with session.allocate(64, remote=True) as remote:
        assert remote.extents()[0].node != "n1" and not remote.info.slab
    with session.allocate(64) as small:
        assert small.info.slab


@pytest.mark.parametrize("options, error", [
    ({"layout": "spiral"}, oncilla.InvalidArgument), ({"kind": "tape"}, oncilla.InvalidArgument),
    ({"nodes": "nowhere"}, oncilla.UnknownNode), ({"kind": "gpu"}, oncilla.Error),
    ({"layout": "striped", "chunk_bytes": 100}, oncilla.InvalidArgument)])
def test_what_cannot_be_allocated(session, options, error):
    with pytest.raises(error):
        session.allocate(1 << 20, **options)


def test_sizes_are_checked(session):
    for wrong in (-1, 0, 1 << 64):
        with pytest.raises(oncilla.InvalidArgument, match="must be at least 1"):
            session.allocate(wrong)
    with pytest.raises(TypeError):
        session.allocate("64")
    with pytest.raises(oncilla.PoolFull, match="free"):
        session.allocate(1 << 40)


def test_a_freed_allocation_says_so(session):
    with session.allocate(64) as allocation:
        allocation.free()
        allocation.free()
        assert allocation.freed and allocation.nbytes == 64
        for call in (allocation.get, lambda: allocation[0], lambda: allocation.fetch_add(0, 1),
                     allocation.extents, lambda: memoryview(allocation),
                     lambda: oncilla.copy(bytearray(1), allocation)):
            with pytest.raises(oncilla.Revoked, match="freed"):
                call()


def test_overlaps_and_strangers_are_refused(cluster, session):
    with session.allocate(100, remote=True) as allocation, oncilla.connect(cluster["n1"].socket_path) as stranger:
        with pytest.raises(oncilla.InvalidArgument, match="overlap"):
            oncilla.copy((allocation, 10), (allocation, 0), 20)
        oncilla.copy((allocation, 20), (allocation, 0), 20)
        with pytest.raises(oncilla.InvalidArgument):
            oncilla.copy(stranger.allocate(100), allocation)


def test_fences_return(session):
    with session.allocate(100, remote=True) as allocation:
        allocation[:] = bytes(100)
        allocation.fence()
        session.fence()


def test_an_allocation_that_was_not_made_has_no_buffer():
    with pytest.raises(BufferError, match="not made"):
        memoryview(cast(Any, _core.Allocation.__new__(_core.Allocation)))
