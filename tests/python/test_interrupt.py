"""Signals in long transfers: KeyboardInterrupt comes soon, and nothing writes where it must not afterwards."""
from __future__ import annotations

import _thread
import gc
import signal
import threading
import time
import weakref

import numpy as np
import pytest

import oncilla

PROMPT_S = 1.0  # far below the failure deadline of the cluster (1.5 s) and far above the slices of the waits (50 ms)


@pytest.fixture
def standing(make_cluster):
    """A session with n1, and an allocation on n2, which stands still."""
    cluster = make_cluster(2, budget=256 << 20)
    with oncilla.connect(cluster["n1"].socket_path, deadline_s=20) as session:
        block = session.allocate(128 << 20, nodes="n2")
        block[:8] = bytes(8)
        cluster["n2"].signal(signal.SIGSTOP)
        yield session, block, cluster["n2"]
        cluster["n2"].signal(signal.SIGCONT)


def interrupted(call) -> float:
    """Seconds between the interrupt and KeyboardInterrupt."""
    raised = []

    def interrupt():
        time.sleep(0.3)
        raised.append(time.monotonic())
        _thread.interrupt_main()
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
        return time.monotonic() - raised[0]
    finally:
        thread.join()


@pytest.mark.parametrize("call", [
    lambda block: block.get(), lambda block: block.get_into(bytearray(1 << 20)),
    lambda block: block.put_from(bytes(64 << 20)), lambda block: block.getv([(0, bytearray(9)), (99, bytearray(9))]),
    lambda block: oncilla.copy(bytearray(1 << 20), block, 1 << 20)], ids=["get", "get_into", "put", "getv", "copy"])
def test_an_interrupt_ends_a_transfer_that_is_stuck(standing, call):
    _, block, _ = standing
    assert interrupted(lambda: call(block)) < PROMPT_S


def test_an_interrupt_ends_a_wait(session):
    with session.allocate(64, local=True, zero=True) as box:
        assert interrupted(lambda: box.wait_at_least(0, 1)) < PROMPT_S


def test_an_interrupted_get_lets_go_of_its_buffer(standing):
    _, block, node = standing
    target = np.zeros(8 << 20, "u1")
    block_bytes = target.nbytes
    gone = weakref.ref(target)
    assert interrupted(lambda: block.get_into(target)) < PROMPT_S  # noqa: F821  (deleted after it)
    del target
    gc.collect()
    assert gone() is None
    node.signal(signal.SIGCONT)
    assert block.get(0, block_bytes) == bytes(block_bytes)


def test_a_session_closes_after_an_interrupt(make_cluster):
    cluster = make_cluster(2, budget=64 << 20)
    session = oncilla.connect(cluster["n1"].socket_path)
    block = session.allocate(32 << 20, nodes="n2")
    block[:8] = bytes(8)
    target = np.zeros(32 << 20, "u1")
    gone = weakref.ref(target)
    cluster["n2"].signal(signal.SIGSTOP)
    assert interrupted(lambda: block.get_into(target)) < PROMPT_S  # noqa: F821  (deleted after it)
    session.close()
    del target, block
    gc.collect()
    assert gone() is None


def test_a_handler_of_ones_own_is_heard(standing):
    _, block, _ = standing

    class Enough(Exception):
        pass

    def handler(*_):
        raise Enough
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Enough):
            block.get()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_signals_that_raise_nothing_do_no_harm(session):
    heard = []
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    data = np.random.default_rng(1).integers(0, 255, 64 << 20, "u1")
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        with session.put_array(data, nodes="n2") as block:
            assert (block.read_array() == data).all()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert heard
