"""asyncio over the C library.

An operation goes on by itself: the event loop sleeps until a descriptor says that some of it has ended. So as many run
at once as there are awaits, and none of them keeps a thread. It is begun in the loop's own thread where that waits for
nothing, as nearly always. A node that must be connected to first, earlier operations that it must not overtake, or much
to copy on this host: then a thread begins it, and so does what cannot be awaited otherwise (allocate, attach, close,
tables). These threads are the session's, at most `THREADS`; others queue.

Cancellation: what was not begun never starts. What runs is taken back, and `await` raises CancelledError, nearly always
at once: whenever an `await` here returns or raises, nobody touches its buffers any more. What was sent may still be
applied, whole or in part.
"""
from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _core

if TYPE_CHECKING:
    from .session import Session

THREADS = 4
Result = TypeVar("Result")


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
        self.waiting: dict[_core.Operation, list[asyncio.Future[None]]] = {}
        loop.add_reader(self.ready.fileno(), self._look)

    def _look(self) -> None:
        for operation in self.ready.ended():
            for told in self.waiting.pop(operation):
                if not told.done():
                    told.set_result(None)

    async def end_of(self, operation: _core.Operation) -> None:
        """Once it is done."""
        if operation not in self.waiting:
            if not self.ready.watch(operation):
                return
            self.waiting[operation] = []
        told = asyncio.get_running_loop().create_future()
        self.waiting[operation].append(told)
        await told


def _watch() -> _Watch:
    """The running loop's. The loop has it, for what it waits for refers to the loop: both end together."""
    loop = asyncio.get_running_loop()
    watch: _Watch | None = getattr(loop, "_oncilla_watch", None)
    if watch is None:
        watch = _Watch(loop)
        loop.__dict__["_oncilla_watch"] = watch  # asyncio knows nothing of it
    return watch


async def completed(operation: _core.Operation, cancelled: bool = False) -> Any:
    """Its result, once it is done; it was begun. A task that is cancelled cancels it."""
    watch = _watch()
    while not operation.done():
        try:
            await watch.end_of(operation)
        except asyncio.CancelledError:
            cancelled = True
            operation.cancel()
    if cancelled:
        raise asyncio.CancelledError
    return operation._result()


async def see_through(session: Session, operation: _core.Operation) -> Any:
    """Begins it, and gives its result once it is done. Its task waits by itself: whoever cancels all tasks cancels no
    other."""
    if operation._begins_at_once():
        operation._begin()
        return await completed(operation)
    queued, cancelled = _submit(session, operation._begin), False
    while not queued.done():
        try:
            await asyncio.shield(asyncio.wrap_future(queued))
        except asyncio.CancelledError:
            if queued.cancel():
                raise
            cancelled = True
            operation.cancel()
    queued.result()
    return await completed(operation, cancelled)


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


async def next_event(session: Session, deadline_s: float | None) -> Any:
    """In a thread of the event loop's, for it may wait for ever. No event is lost where it is cancelled."""
    if session._unread:
        return session._unread.pop(0)
    cancel = _core.Cancel()
    ended = asyncio.get_running_loop().run_in_executor(None, session._next_event, deadline_s, session._closes, cancel)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        cancel.cancel()
        while not ended.done():
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await asyncio.shield(ended)
        event = None if ended.cancelled() or ended.exception() is not None else ended.result()
        if event is not None:
            session._unread.append(event)
        raise


async def run_to_end(session: Session, call: Callable[..., Result], *args: Any, **options: Any) -> Result:
    """Runs a call that cannot be stopped in a thread of the session; a cancelled caller does not wait for it."""
    return await asyncio.wrap_future(_submit(session, lambda: call(*args, **options)))
