"""asyncio over the blocking calls.

In the C library progress is made by the thread that waits. So each awaited call runs in a small thread pool of its
session, without the GIL, at most `THREADS` at a time; the others queue.

Cancellation: a call that still queues never starts. A transfer that runs is told to stop, ends with what is under
way (at most 64 MiB), and only then `await` raises CancelledError: whenever an `await` here returns or raises,
nobody touches its buffers any more. Where a node stopped answering that takes the failure deadline.
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


async def run(session: Session, call: Callable[..., Result], *args: Any) -> Result:
    """Runs `call(*args, cancel=...)`, a transfer, in a thread of the session."""
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
