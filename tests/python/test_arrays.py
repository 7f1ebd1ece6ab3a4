"""Buffers, numpy arrays, DLPack and array views over allocations. The oracle is numpy."""
from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import oncilla
from harness import wait_for
from places import DIRECT, PLACES

SETTINGS = settings(max_examples=40, deadline=None, database=None)
DTYPES = ["u1", "<i2", ">i4", "<f8", "c16", "M8[ns]", "m8[s]", "S5", "U3", "?", [("a", "<i4"), ("b", "<f8", (2,))]]


@pytest.fixture(scope="module")
def session(cluster):
    with oncilla.connect(cluster["n1"].socket_path) as session:
        yield session


@pytest.fixture(params=PLACES)
def options(request):
    return PLACES[request.param]


@SETTINGS
@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, min_side=0)))
def test_arrays_of_every_dtype_come_back(session, array):
    for place in ("local", "striped"):
        with session.put_array(array, **PLACES[place]) as allocation:
            back = allocation.read_array(array.dtype, array.shape)
            assert back.dtype == array.dtype and back.shape == array.shape
            assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_views_of_every_dtype_share_the_memory(embedded, dtype):
    count = 16
    raw = np.random.default_rng(7).integers(1, 2, count * np.dtype(dtype).itemsize, "u1")
    with embedded.put_array(raw, dedicated=True) as allocation:
        view = allocation.numpy(dtype, (4, 4))
        assert view.dtype == np.dtype(dtype) and view.shape == (4, 4) and view.flags.writeable
        assert view.tobytes() == raw.tobytes()
        view[0, 0] = view[3, 3]
        assert allocation.get(0, view.itemsize) == view[3, 3].tobytes()
        del view


def test_a_view_starts_anywhere_and_takes_whole_items(embedded):
    with embedded.put_array(np.arange(25, dtype="u1")) as allocation:
        assert allocation.numpy("<u2", offset=1).tolist() == [0x0201 + 0x0202 * i for i in range(12)]
        assert allocation.numpy("u1", 0).shape == (0,)
        assert allocation.numpy(shape=()).shape == ()
        for shape, offset in (((5, 6), 0), (25, 1), (1, 26)):
            with pytest.raises(oncilla.OutOfRange):
                allocation.numpy("u1", shape, offset)
        for dtype, shape in (("O", 1), ("u1", -1), ("V0", 1)):
            with pytest.raises(oncilla.InvalidArgument):
                allocation.numpy(dtype, shape)
    with pytest.raises(oncilla.InvalidArgument):
        embedded.put_array(np.array([object()]))


def test_the_buffer_protocol_where_it_is_one_piece_here(session, options):
    with session.allocate(128, **options) as allocation:
        if options not in [PLACES[name] for name in DIRECT]:
            with pytest.raises(oncilla.Unsupported, match="get_into"):
                memoryview(allocation)
            with pytest.raises(oncilla.Unsupported):
                allocation.numpy()
            with pytest.raises(oncilla.Unsupported):
                np.asarray(allocation, copy=False)
            assert np.asarray(allocation).tobytes() == allocation.get()
            return
        view = memoryview(allocation)
        assert (view.nbytes, view.format, view.readonly, view.contiguous) == (128, "B", False, True)
        view[:5] = b"hello"
        assert allocation[:5] == b"hello" and np.asarray(allocation).tobytes() == allocation.get()
        view.release()


def test_free_waits_for_no_buffer_but_says_so(embedded):
    allocation = embedded.allocate(1 << 20)
    array, view = allocation.numpy("i4"), memoryview(allocation)
    with pytest.raises(BufferError, match="2 buffer"):
        allocation.free()
    assert allocation[:4] == bytes(4)
    del array
    gc.collect()
    with pytest.raises(BufferError, match="1 buffer"):
        allocation.free()
    view.release()
    allocation.free()
    assert allocation.freed


def test_an_error_in_a_block_is_not_hidden_by_its_arrays(embedded):
    with pytest.raises(ZeroDivisionError):
        with embedded.allocate(1 << 20) as allocation:
            array = allocation.numpy()
            raise ZeroDivisionError
    assert allocation.freed and array.sum() == 0


def test_arrays_outlive_their_session(cluster, session):
    def used():
        return next(node.used_bytes for node in session.nodes() if node.name == "n1")
    before = used()
    other = oncilla.connect(cluster["n1"].socket_path)
    allocation = other.allocate(4 << 20, local=True)
    array = allocation.numpy("i8")
    array[:] = 7
    other.close()
    assert allocation.freed and other.closed
    assert int(array.sum()) == 7 * len(array) and used() >= before + (4 << 20)
    array[0] = 8
    del array, allocation, other
    gc.collect()
    wait_for("the memory is back", lambda: used() == before)


def test_what_was_attached_for_reading_is_read_only(cluster, session):
    session.put_array(np.arange(10), "arrays-read-only", dedicated=True)
    reader = session.attach("arrays-read-only")
    array = reader.numpy("i8")
    assert array.tolist() == list(range(10)) and not array.flags.writeable
    with pytest.raises(ValueError):
        array[0] = 1
    with pytest.raises((BufferError, oncilla.InvalidArgument)):
        reader.get_into(memoryview(reader))
    del array
    session.remove("arrays-read-only")


def test_dlpack_shares_the_memory(embedded):
    with embedded.put_array(np.arange(100, dtype="u1")) as allocation:
        array = np.from_dlpack(allocation)
        assert allocation.__dlpack_device__() == (1, 0)
        allocation[0] = 77
        assert array[0] == 77 and array.tolist()[1:] == list(range(1, 100))
        with pytest.raises(BufferError):
            allocation.free()
        del array


def test_pyarrow_and_pandas_buffers_are_taken(session):
    pa = pytest.importorskip("pyarrow")
    with session.allocate(100, remote=True) as allocation:
        assert allocation.put_from(pa.py_buffer(b"x" * 100)) == 100
        target = pa.allocate_buffer(100)
        allocation.get_into(target)
        assert target.to_pybytes() == b"x" * 100
        with pytest.raises(oncilla.InvalidArgument):
            allocation.get_into(pa.py_buffer(b"y" * 100))
    with session.allocate(100, local=True) as allocation:
        assert pa.py_buffer(allocation).size == 100


def test_failed_puts_of_arrays_leave_nothing(session):
    def used():
        return next(node.used_bytes for node in session.nodes() if node.self)
    before = used()
    session.put_array(np.zeros(1 << 20), "arrays-taken", local=True)
    with pytest.raises(oncilla.Exists):
        session.put_array(np.zeros(1 << 20), "arrays-taken", local=True)
    wait_for("the second one's memory is back", lambda: used() == before + (8 << 20))
    session.remove("arrays-taken")


# ---------------------------------------------------------------- views that move only what is asked for

SHAPE = (6, 5, 7)
part = st.one_of(st.integers(-8, 8), st.builds(slice, *[st.one_of(st.none(), st.integers(-9, 9))] * 2,
                                               st.one_of(st.none(), st.integers(-4, 4).filter(bool))))
indices = st.one_of(st.just(Ellipsis), part, st.lists(part, max_size=3).map(tuple),
                    st.lists(part, max_size=2).map(lambda parts: (*parts, ...)),
                    st.lists(part, max_size=2).map(lambda parts: (..., *parts)))


@pytest.fixture(scope="module", params=["local", "remote", "striped"])
def array_view(request, session):
    oracle = np.arange(np.prod(SHAPE), dtype="<i4").reshape(SHAPE)
    with session.allocate(oracle.nbytes + 12, **PLACES[request.param]) as allocation:
        allocation.put_from(oracle, 8)
        yield allocation.array("<i4", SHAPE, 8), oracle


@settings(SETTINGS, max_examples=150)
@given(indices)
def test_a_view_reads_as_numpy(array_view, index):
    view, oracle = array_view
    try:
        expected = oracle[index]
    except IndexError:
        with pytest.raises(IndexError):
            view[index]
        return
    got = view[index]
    assert got.dtype == expected.dtype and got.shape == expected.shape and (got == expected).all()


@settings(SETTINGS, max_examples=150)
@given(indices, st.integers(0, 1 << 20))
def test_a_view_writes_as_numpy(array_view, index, seed):
    view, oracle = array_view
    try:
        expected = oracle[index]
    except IndexError:
        with pytest.raises(IndexError):
            view[index] = 1
        return
    values = np.random.default_rng(seed).integers(0, 1 << 30, expected.shape, "i4")
    oracle[index] = values
    view[index] = values
    assert (view[...] == oracle).all()
    assert view.allocation[:8] == bytes(8) and view.allocation[-4:] == bytes(4)


def test_a_view_broadcasts_and_refuses(array_view):
    view, oracle = array_view
    view[1:3] = oracle[1:3] = np.arange(7)
    view[:, 0, :] = oracle[:, 0, :] = 5
    assert (np.asarray(view) == oracle).all() and view.shape == SHAPE and len(view) == 6 and view.ndim == 3
    assert view.nbytes == oracle.nbytes
    with pytest.raises(ValueError):
        view[0] = np.arange(3)
    for index in (None, [1, 2], np.array([0]), True, "x"):
        with pytest.raises((TypeError, IndexError)):
            view[index]
    with pytest.raises(TypeError):
        iter(view)
    with pytest.raises(ValueError):
        np.asarray(view, copy=False)


def test_a_view_moves_little_of_a_large_array(session):
    """Far rows are skipped, and gaps are not written."""
    with session.allocate(64 << 20, nodes="n2") as allocation:
        view = allocation.array("<f8", (64, 1 << 17))
        view[::16, 5::1000] = 1.5
        assert view[::16, 5::1000].sum() == 1.5 * 4 * 132 and view[1].sum() == 0
        assert view[0, :12].tolist() == [0] * 5 + [1.5] + [0] * 6
        assert view[-1, -1] == 0.0
