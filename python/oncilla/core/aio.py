"""asyncio over the C library.

A transfer is begun by a thread, since a node may have to be dialled, and goes on by itself: the event loop sleeps
until a descriptor says that some of it has ended. So as many run at once as there are awaits. What cannot be waited
for so (allocate, attach, close, tables) runs in a small thread pool of its session, at most `THREADS` at a time; the
others queue.

Cancellation: a transfer that was not begun never starts. One that runs is told to stop, ends with what is under way
(at most 64 MiB), and only then `await` raises CancelledError: whenever an `await` here returns or raises, nobody
touches its buffers any more. Where a node stopped answering that takes the failure deadline.
"""
from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _core

if TYPE_CHECKING:
    from .allocation import Allocation
    from .session import Session

THREADS = 4
Result = TypeVar("Result")

_UNDER_WAY, _BEGIN = 0, 1  # of _core.Transfer.reap()
_FIRST_LOOK_S, _LOOKS_EVERY_S = 0.000_05, 0.001


def _submit(session: Session, call: Callable[[], Result]) -> Future[Result]:
    """Queues the call for the session's threads, which are made at first use (a forked child makes its own)."""
    if session._threads is None or session._threads[0] != os.getpid():
        session._threads = (os.getpid(), ThreadPoolExecutor(THREADS, thread_name_prefix="oncilla"))
    try:
        return session._threads[1].submit(call)
    except RuntimeError:  # shut down: the call itself says that the session was closed
        failed: Future[Result] = Future()
        try:
            failed.set_result(call())
        except BaseException as error:
            failed.set_exception(error)
        return failed


class _Watch:
    """What an event loop has under way, and the descriptor that tells it of ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ready = _core.Ready()
        self.waiting: dict[_core.Transfer, asyncio.Future[int]] = {}
        loop.add_reader(self.ready.fileno(), self._look)

    def _look(self) -> None:
        self.ready.clear()
        for transfer in list(self.waiting):
            state = transfer.reap()
            if state != _UNDER_WAY:
                told = self.waiting.pop(transfer)
                if not told.done():
                    told.set_result(state)

    async def next(self, transfer: _core.Transfer) -> int:
        """Its state, once that is not `_UNDER_WAY`."""
        state = transfer.reap()
        if state != _UNDER_WAY:
            return state
        told = self.waiting[transfer] = asyncio.get_running_loop().create_future()
        return await told


def _watch() -> _Watch:
    """The running loop's. The loop has it, for what it waits for refers to the loop: both end together."""
    loop = asyncio.get_running_loop()
    watch: _Watch | None = getattr(loop, "_oncilla_watch", None)
    if watch is None:
        watch = _Watch(loop)
        loop.__dict__["_oncilla_watch"] = watch  # asyncio knows nothing of it
    return watch


async def transfer(session: Session, plan: _core.Transfer) -> Any:
    """Sees it through, and gives its result. Its task waits by itself: whoever cancels all tasks cancels no other."""
    watch, cancelled = _watch(), False
    state = _BEGIN
    for turn in itertools.count():
        queued = _submit(session, lambda: plan.begin(watch.ready))
        while not queued.done():
            try:
                await asyncio.shield(asyncio.wrap_future(queued))
            except asyncio.CancelledError:
                if turn == 0 and queued.cancel():
                    raise
                cancelled = True
                plan.stop()
        queued.result()
        while (state := plan.reap()) == _UNDER_WAY:
            try:
                await watch.next(plan)
            except asyncio.CancelledError:
                cancelled = True
                plan.stop()
        if state != _BEGIN:
            break
    if cancelled:
        raise asyncio.CancelledError
    return plan.result()


async def word_at_least(words: Allocation, offset: int, value: int, deadline_s: float | None) -> int:
    """Looks at the word again and again. Raises: as `Allocation.wait_at_least()`."""
    pause_s, give_up_s = _FIRST_LOOK_S, None if deadline_s is None else time.monotonic() + deadline_s
    while True:
        if words._is_here():
            seen = words.wait_at_least(offset, 0, deadline_s)
        else:
            seen = await run_to_end(words.session, words.wait_at_least, offset, 0, deadline_s)
        if seen >= value:
            return seen
        left_s = pause_s if give_up_s is None else give_up_s - time.monotonic()
        if left_s <= 0:
            return words.wait_at_least(offset, value, 0)  # raises what it raises
        await asyncio.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _LOOKS_EVERY_S)


async def run(session: Session, call: Callable[..., Result], *args: Any) -> Result:
    """Runs `call(*args, cancel=...)`, which stops when it is told, in a thread of the session."""
    cancel = _core.Cancel()
    queued = _submit(session, lambda: call(*args, cancel=cancel))
    ended = asyncio.wrap_future(queued)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        if not queued.cancel():
            cancel.cancel()
            while not ended.done():
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await asyncio.shield(ended)
        raise


async def run_to_end(session: Session, call: Callable[..., Result], *args: Any, **options: Any) -> Result:
    """Runs a call that cannot be stopped in a thread of the session; a cancelled caller does not wait for it."""
    return await asyncio.wrap_future(_submit(session, lambda: call(*args, **options)))
