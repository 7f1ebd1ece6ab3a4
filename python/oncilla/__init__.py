"""Oncilla: the memory of a cluster as one address space, with tables that engines query in place.

    import oncilla
    with oncilla.connect() as session:
        block = session.allocate(1 << 20, remote=True)
        block[0:5] = b"hello"
        print(block[0:5], session.nodes())
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._core import version as _version
from .allocation import Allocation, acopy, copy, start_copy
from .errors import (
    AllocationError,
    AuthError,
    BadChecksum,
    CallError,
    Cancelled,
    ClusterError,
    DeadlineExceeded,
    Draining,
    Error,
    Exists,
    InternalError,
    InvalidArgument,
    IoError,
    LimitReached,
    Lost,
    NoCoordinator,
    NoDaemon,
    NodeError,
    NoFds,
    NoMemory,
    NotFound,
    OutOfRange,
    PeerError,
    PeerLost,
    Permission,
    PoolFull,
    ProtocolError,
    QueueFull,
    QuotaExceeded,
    Revoked,
    TooLarge,
    UnknownNode,
    Unsupported,
)
from .nodes import AllocationInfo, Event, Extent, Name, Node
from .operations import Operation
from .session import Session, aconnect, connect

if TYPE_CHECKING:
    from .core.progress import progress
    from .table import Table

__version__ = _version()
# Loaded at first use: what needs more than the interpreter.
_LAZY = {"progress": "core.progress", "Table": "table"}
__all__ = [
    "Allocation", "AllocationError", "AllocationInfo", "AuthError", "BadChecksum", "CallError", "Cancelled",
    "ClusterError", "DeadlineExceeded", "Draining", "Error", "Event", "Exists", "Extent", "InternalError",
    "InvalidArgument", "IoError", "LimitReached", "Lost", "Name", "NoCoordinator", "NoDaemon", "NoFds", "NoMemory",
    "Node", "NodeError", "NotFound", "Operation", "OutOfRange", "PeerError", "PeerLost", "Permission", "PoolFull",
    "ProtocolError", "QueueFull", "QuotaExceeded", "Revoked", "Session", "Table", "TooLarge", "UnknownNode",
    "Unsupported", "aconnect", "acopy", "connect", "copy", "progress", "start_copy",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'oncilla' has no attribute {name!r}")
    from importlib import import_module
    value = getattr(import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
