"""Oncilla for asyncio: operations run all at once, other awaited calls in `THREADS` threads of their session.

Cancellation: a call that still queues never starts. An operation that runs is taken back, and `await` raises
CancelledError once nobody touches its buffers any more, nearly always at once: see `oncilla.core.aio`.
"""
from .core.aio import THREADS, run, run_to_end
from .session import aconnect

__all__ = ["THREADS", "aconnect", "run", "run_to_end"]
