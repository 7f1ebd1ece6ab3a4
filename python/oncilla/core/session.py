"""Sessions: a program's connection to the daemon of its node, and what is asked of it, but for tables."""
from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from .. import _core
from .allocation import Allocation
from .errors import Error, InvalidArgument
from .nodes import FABRICS, KINDS, LAYOUTS, Event, Name, Node, event_from, name_from, node_from, number_of

if TYPE_CHECKING:
    from typing import Self

_BAR_STEP_BYTES = 128 << 20
_EMBEDDED = {False: 0, True: 1, "fallback": 2}


class Session(_core.Session):
    """A connection to the daemon of this node, made by `connect()`.

    A context manager: its end closes it. Unpublished allocations end with it. After fork() the child's copy is
    unusable, and the parent's stays usable. Methods may be called from any thread.

    Attributes:
        socket: of the daemon, as it was given; None: $OCM_SOCKET, else the default.
    """

    def __init__(self, socket: str | os.PathLike | None = None, *,
                 embedded: bool | Literal["fallback"] = False, embedded_bytes: int = 0, fabric: str = "any",
                 deadline_s: float | None = None, program: str | None = None) -> None:
        """As `connect()`."""
        if embedded not in _EMBEDDED:
            raise InvalidArgument(f"embedded is {embedded!r}; it must be False, True or 'fallback'")
        self._threads: Any = None  # of aio: (process, executor)
        self._closes = _core.Cancel()
        self._unread: list[tuple] = []  # events that nobody received
        self.socket = None if socket is None else os.fspath(socket)
        super().__init__(self.socket, program, _EMBEDDED[embedded],
                         number_of("fabric", fabric, FABRICS), int((deadline_s or 0) * 1e9), embedded_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        from .aio import run_to_end
        await run_to_end(self, self.close)

    def close(self) -> None:
        """Frees every unpublished allocation and ends the session. Again: does nothing.

        Arrays that point into local memory stay valid; their memory comes back when they are gone. Calls that run in
        other threads go on to their end.
        """
        self._closes.cancel()
        super().close()
        if self._threads is not None:
            self._threads[1].shutdown(wait=False)

    def allocate(self, nbytes: int, *, kind: str | None = None, layout: str = "single", extents: int = 0,
                 chunk_bytes: int = 0, nodes: str | Iterable[str] | None = None, fabric: str = "any",
                 local: bool = False, remote: bool = False, dedicated: bool = False, zero: bool = False,
                 populate: bool = False, hugepages: bool = False, checksum: bool = False,
                 durable: bool = False, coherent: bool = False) -> Allocation:
        """Allocates memory of the cluster.

        Args:
            nbytes: how many bytes, at least 1.
            kind: "dram", or "nvme": on a device of a node that offers some (oncillad --nvme); never mapped. None:
                "dram", or "nvme" with `durable`.
            layout: "single" (one extent), "striped" (chunks round robin over the extents) or "replicated" (every
                extent holds all bytes).
            extents: stripes, or replicas; 0: as many as named nodes, else 2 replicas, or all nodes with room.
            chunk_bytes: of stripes, a multiple of 64; 0: 1 MiB.
            nodes: names of the nodes to use, equal shares; None: the cluster chooses, nearest first.
            fabric: how bytes reach it: "any", or the name of a fabric (docs/fabrics.md).
            local, remote: on this node; on any node but this one.
            dedicated: an extent of its own, not a piece of a slab (as small ones are).
            zero: zero a piece of a slab too (own extents always read as zeros).
            populate: take the pages now rather than at first touch. hugepages: back it with huge pages.
            checksum: CRC32C over what goes over the wire.
            durable: of kind "nvme", on nodes that have a pool (ocm pool create): what is put is on the device when
                put() returns, and once published it is there after a restart or a crash of its daemons.
            coherent: any node may cache pages of it, and all programs see one memory: what put() wrote is what every
                later get() reads, on whichever node. Of kind "dram", single or striped; "nvme" is
                coherent with and without it.

        Raises: PoolFull (says what is free and where), QuotaExceeded, UnknownNode, Unsupported, InvalidArgument.
        """
        if isinstance(nbytes, int) and not 0 < nbytes < 1 << 64:
            raise InvalidArgument(f"nbytes is {nbytes}; it must be at least 1 and less than 2^64")
        flags = sum(1 << bit for bit, on in enumerate((dedicated, zero, populate, hugepages, local, remote, checksum,
                                                       durable, coherent)) if on)
        names = [nodes] if isinstance(nodes, str) else list(nodes or ())
        kind = kind or ("nvme" if durable else "dram")
        return Allocation(self, nbytes, number_of("kind", kind, KINDS), number_of("layout", layout, LAYOUTS), extents,
                          chunk_bytes, names, number_of("fabric", fabric, FABRICS), flags)

    def attach(self, name: str, *, write: bool = False, hold: bool = False) -> Allocation:
        """Attaches a published allocation, for reading unless `write`.

        `hold`: its memory stays until this handle ends, also when the name is removed meanwhile; else the handle is
        Revoked then.
        Raises: NotFound, Permission, NoCoordinator; with `hold` PeerLost (a home does not answer, or all seem
        dead), LimitReached.
        """
        return Allocation(self, name, (3 if write else 1) | (4 if hold else 0))

    def join(self, parts: Iterable[Allocation]) -> Allocation:
        """Makes one allocation of several, one after another, without moving a byte. The parts are freed then.

        `parts`: unpublished, with `dedicated=True`, all of layout "single" or all "replicated"; the result has the
        layout "sequence". On an error they are as they were.
        Raises: InvalidArgument, Unsupported (striped or joined parts, pieces of slabs), TooLarge (more than 8,192
        extents), Revoked, BufferError (a buffer or another thread uses a part).
        """
        return Allocation(self, list(parts))

    async def aallocate(self, nbytes: int, **options: Any) -> Allocation:
        """`allocate()` for asyncio."""
        from .aio import run_to_end
        return await run_to_end(self, self.allocate, nbytes, **options)

    async def aattach(self, name: str, *, write: bool = False, hold: bool = False) -> Allocation:
        """`attach()` for asyncio."""
        from .aio import run_to_end
        return await run_to_end(self, self.attach, name, write=write, hold=hold)

    def put_array(self, array: Any, name: str | None = None, *, progress: bool | None = False,
                  **options: Any) -> Allocation:
        """Allocates room for a numpy array, puts it there (in C order), and publishes it if a name is given.

        `progress`: show a bar (None: at a terminal only). `options` are those of `allocate()`. Read it again with
        `allocation.read_array(dtype, shape)`.
        Raises: as `allocate()` and `Allocation.publish()`; nothing stays allocated then.
        """
        from .arrays import raw_bytes
        from .progress import progress as bar_for
        raw = raw_bytes(array)
        allocation = self.allocate(max(1, raw.nbytes), **options)
        try:
            with bar_for(f"putting {name or 'an array'}", raw.nbytes, show=progress) as bar:
                for offset in range(0, raw.nbytes, _BAR_STEP_BYTES):
                    bar.advance(allocation.put_from(raw[offset:offset + _BAR_STEP_BYTES], offset))
            if name is not None:
                allocation.publish(name)
        except BaseException:
            allocation.free()
            raise
        return allocation

    def nodes(self) -> list[Node]:
        """The nodes that this session's daemon knows of."""
        return [node_from(row) for row in self._node_list()]

    def names(self, prefix: str = "") -> list[Name]:
        """The published names with the prefix. Raises: NoCoordinator."""
        return [name_from(row) for row in self._name_list(prefix)]

    def next_event(self, deadline_s: float | None = None) -> Event | None:
        """The next thing that happens to an allocation of this session, or to a node; None: nothing until the deadline.

        The first call begins that: what is revoked by then, and the nodes that are not alive, come first. Each event
        comes to one caller; of an allocation or a node that has several, only the newest comes. So who reads slowly
        misses nothing that still holds. `deadline_s` None: without limit.
        Raises: NoDaemon (it is gone, and did not come back until the deadline), Cancelled (the session was closed).
        """
        row = self._unread.pop(0) if self._unread else self._next_event(deadline_s, self._closes)
        return None if row is None else event_from(row)

    def events(self, deadline_s: float | None = None) -> Iterator[Event]:
        """`next_event()` again and again, until there is none within `deadline_s`."""
        while (event := self.next_event(deadline_s)) is not None:
            yield event

    async def aevents(self, deadline_s: float | None = None) -> AsyncIterator[Event]:
        """`events()` for asyncio."""
        from .aio import next_event
        while (row := await next_event(self, deadline_s)) is not None:
            yield event_from(row)

    def __repr__(self) -> str:
        if self.closed:
            return "<oncilla.Session closed>"
        try:
            nodes = self.nodes()
        except Error as error:
            return f"<oncilla.Session: {error}>"
        here = next((node.name for node in nodes if node.self), "?")
        used, total = sum(node.used_bytes for node in nodes), sum(node.pool_bytes for node in nodes)
        from .html import size
        return f"<oncilla.Session at {here}: {len(nodes)} nodes, {size(used)} of {size(total)} in use>"

    def _repr_html_(self) -> str:
        from .html import session_html
        return session_html(self)
