"""Sessions as users have them: those of core, with the tables of the cluster."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from .core import session as core

if TYPE_CHECKING:
    from .table import Cache, Table


class Session(core.Session):
    """A connection to the daemon of this node, made by `connect()`.

    A context manager: its end closes it. Unpublished allocations end with it. After fork() the child's copy is
    unusable, and the parent's stays usable. Methods may be called from any thread.

    Attributes:
        socket: of the daemon, as it was given; None: $OCM_SOCKET, else the default.
    """

    def table(self, name: str) -> Table:
        """The table of that name, which need not exist yet: see `oncilla.table.Table`."""
        from .table import Table
        if not isinstance(name, str):
            raise TypeError(f"a table's name is a str, not {type(name).__name__}")
        return Table(self, name)

    def tables(self) -> list[str]:
        """The names of the tables of the cluster that this user may read.

        Reads the last bytes of each name that could be a table; large files are none. A name whose bytes are lost is
        listed, because it may be one. Raises: NoCoordinator.
        """
        from .table import table_names
        return table_names(self)

    @property
    def cache(self) -> Cache:
        """The cache of remote columns: `session.cache(limit_bytes)`, and its `.info()` and `.clear()`."""
        from .table import Cache
        return Cache(self)


def connect(socket: str | os.PathLike | None = None, *, embedded: bool | Literal["fallback"] = False,
            embedded_bytes: int = 0, fabric: str = "any", deadline_s: float | None = None,
            program: str | None = None) -> Session:
    """Opens a session with the daemon of this node.

    Args:
        socket: the daemon's socket; None: $OCM_SOCKET, else /run/oncilla/oncillad.sock.
        embedded: True: no daemon, a single node inside this process; "fallback": only if no daemon answers.
        embedded_bytes: the budget of an embedded node; 0: 1 GiB.
        fabric: the default for allocations: "any", or the name of a fabric (docs/fabrics.md).
        deadline_s: how long an operation may be without progress; None: the cluster's failure deadline.
        program: a name to show in `ocm top`; None: the process' own.

    Raises: NoDaemon, LimitReached, AuthError, Draining.
    """
    return Session(socket, embedded=embedded, embedded_bytes=embedded_bytes, fabric=fabric, deadline_s=deadline_s,
                   program=program)


async def aconnect(*args: Any, **options: Any) -> Session:
    """`connect()` for asyncio. The session is the same; `async with` closes it in a thread.

    Use the `a...` methods of the session and its allocations: the others block the loop.
    """
    import asyncio
    return await asyncio.to_thread(connect, *args, **options)
