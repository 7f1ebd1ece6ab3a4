"""Tables in the memory of the cluster: stored from any Arrow data, read in place by any engine."""
from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from . import _core
from .core.errors import InvalidArgument, Lost, NotFound, PeerLost, Permission, Revoked
from .core.nodes import KINDS, number_of
from .engines.duckdb import changes
from .snapshot import PLACEMENT_DEFAULT, PLACEMENTS, Column, Readable, Snapshot
from .tables.streams import Raised, capsule_of

if TYPE_CHECKING:
    from .session import Session

    Progress = bool | Callable[[int, int], Any] | None

KIND_DEFAULT = -1

__all__ = ["Cache", "Column", "Readable", "Snapshot", "Table", "table_names"]


class Table(Readable):
    """The table called `name`, which need not exist yet; made by `session.table(name)`, which does nothing yet.

    A table is never changed in place: `put()` publishes it and `append()` adds rows, each in one step. Every use
    opens the newest version; `snapshot()` keeps one for several uses. DuckDB finds a Table by its variable's name,
    and moves only the columns and row groups of the query.

    After a query of DuckDB or Polars the version that it read stays open, since pages that are mapped already are
    read twice as fast, until the next use finds a newer one, or `release()`, `drop()` or the object's end.
    """

    def __init__(self, session: Session, name: str) -> None:
        """As `session.table(name)`."""
        self.session = session
        self.name = name
        self._meter = _core.Meter()
        self._kept: Snapshot | None = None

    def __repr__(self) -> str:
        return f"<oncilla.Table {self.name}>"

    # ---------------------------------------------------------------- writing

    def put(self, data: Any, *, place: str = "rows", nodes: str | Iterable[str] | None = None, remote: bool = False,
            replicas: int = 1, compact: bool = False, packed: bool = False, replace: bool = False,
            group_rows: int = 0, group_bytes: int = 0, mode: int = 0, kind: str | None = None, durable: bool = False,
            schema: Any = None, progress: Progress = None) -> Table:
        """Stores `data` and publishes it under the table's name; nothing stays when it fails. Interrupted
        by a signal in its last moment (KeyboardInterrupt), it may be complete: look before you put or append again.

        Args:
            data: anything with `__arrow_c_stream__` (a pyarrow Table or reader, a pandas or Polars frame, a DuckDB
                relation), a pyarrow Dataset or Scanner, a dict of columns, or an iterable of record batches. It is
                read as a stream: at most a row group of it is here at a time.
            place: "rows": row groups round robin over the nodes; "column": each column on one node; "whole": all of
                it on one.
            nodes: names of the nodes to use, in that order; None: every node with room, this one first.
            remote: use any nodes but this one.
            replicas: copies of each row group on different nodes.
            compact: decimals of at most 18 digits become decimal64, strings of few distinct values dictionaries, and
                indices of dictionaries as narrow as they can be: smaller and faster, with the same values.
            packed: integers, decimals, dates and times are stored in as few bits as each row group's range needs, and
                widened as they are read: often a third of the bytes to hold and to move. Types stay as they are.
            replace: drop a table of that name when the new one is complete; opening it at that moment raises NotFound.
            group_rows, group_bytes: of a row group, at most; 0: 524,288 rows, about 64 MiB.
            mode: who may open it, as 0o600 (the default) or 0o644.
            kind: "dram", or "nvme": on devices of nodes that offer some (oncillad --nvme), for tables larger than
                all memory. Row groups are then moved by each query, on their own node, too. None: "dram", or "nvme"
                with `durable`.
            durable: the table is there after a restart of its nodes, also after a crash: on nodes that have a pool
                (ocm pool create).
            schema: of an iterable's batches; None: the first batch's.
            progress: called with the rows and bytes stored so far, False stops the load; True: a bar.

        Raises: Exists, PoolFull (says what is missing), Unsupported (which column, or that no node offers the kind),
            TooLarge, Cancelled, KeyboardInterrupt (Ctrl-C), and what an iterable raises.
        """
        self._store(_core.table_create, data, schema, progress, place, nodes, kind, replicas, mode, group_rows,
                    group_bytes, compact * _core.TABLE_COMPACT | packed * _core.TABLE_PACK |
                    replace * _core.TABLE_REPLACE | remote * _core.TABLE_REMOTE | durable * _core.TABLE_DURABLE)
        return self

    def append(self, data: Any, *, place: str | None = None, nodes: str | Iterable[str] | None = None,
               remote: bool = False, replicas: int | None = None, compact: bool = False, packed: bool = False,
               group_rows: int = 0, group_bytes: int = 0, kind: str | None = None, schema: Any = None,
               progress: Progress = None) -> Table:
        """Adds rows as one step: a reader sees all of them or none. Arguments and errors as `put()`.

        `place`, `nodes`, `replicas` and `kind` are those of the table's `put()` unless given, and rows of a durable
        table are durable; `info` of a snapshot tells the smallest number of replicas. Only the owner of the table and
        root append, whatever its mode.

        The columns must be the table's, but for the width of dictionaries' indices; rows of a packed table are packed
        too. Raises also: NotFound, Permission (says whose the table is), TooLarge (a dictionary has more values than
        the table's index can number).
        """
        self._store(_core.table_append, data, schema, progress, place, nodes, kind, replicas, 0, group_rows,
                    group_bytes, compact * _core.TABLE_COMPACT | packed * _core.TABLE_PACK |
                    remote * _core.TABLE_REMOTE)
        return self

    def _store(self, store: Callable[..., None], data: Any, schema: Any, progress: Progress, place: str | None,
               nodes: str | Iterable[str] | None, kind: str | None, replicas: int | None, *options: int) -> None:
        kind_number = KIND_DEFAULT if kind is None else number_of("kind", kind, KINDS)
        placement = PLACEMENT_DEFAULT if place is None else number_of("place", place, PLACEMENTS)
        if replicas is not None and replicas < 1:
            raise InvalidArgument(f"replicas is {replicas}; it must be at least 1")
        for option, value in zip(("mode", "group_rows", "group_bytes"), options):
            if value < 0:
                raise InvalidArgument(f"{option} is {value}; it must not be negative")
        names = [nodes] if isinstance(nodes, str) else list(nodes or ())
        raised = Raised()
        stream = capsule_of(data, schema, raised)
        with _reporting(progress, self.name) as report:
            try:
                store(self.session, self.name, stream, placement, names,
                      replicas or 0, *options, kind_number, report)
            except Exception as error:
                if raised.error is not None:
                    raise raised.error from raised.error.__cause__  # as it was raised, without ours
                # In a generator inside the caller's pyarrow reader: Arrow passes on only that exception's text.
                if "Python exception" in str(error) and "\nKeyboardInterrupt" in str(error):
                    raise KeyboardInterrupt from error
                raise
            finally:
                changes[0] += 1

    async def aput(self, data: Any, **options: Any) -> Table:
        """`put()` for asyncio, in a thread. Cancelling stops it after the row group under way."""
        await self._in_thread(self.put, data, options)
        return self

    async def aappend(self, data: Any, **options: Any) -> Table:
        """`append()` for asyncio, in a thread. Cancelling stops it after the row group under way."""
        await self._in_thread(self.append, data, options)
        return self

    async def _in_thread(self, work: Callable[..., Table], data: Any, options: dict[str, Any]) -> None:
        stopped = False
        with _reporting(options.pop("progress", None), self.name) as report:
            def step(rows: int, nbytes: int) -> Any:
                return False if stopped else report and report(rows, nbytes)

            running = asyncio.ensure_future(asyncio.to_thread(work, data, progress=step, **options))
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                stopped = True
                await asyncio.wait([running])
                with contextlib.suppress(BaseException):
                    running.result()
                raise

    def drop(self, missing_ok: bool = False) -> None:
        """Removes the table. Its memory is freed when the last reader has released it.

        Raises: NotFound, Permission, InvalidArgument (it is no table); NoDaemon, NoCoordinator, PeerLost, Deadline:
        drop it again, rows that were appended may be left.
        """
        self.release()
        try:
            _core.table_drop(self.session, self.name)
        except NotFound:
            if not missing_ok:
                raise
        finally:
            changes[0] += 1

    # ---------------------------------------------------------------- reading

    def opened(self, *meters: _core.Meter) -> Snapshot:
        """The newest version. Raises: NotFound, Permission, NoCoordinator."""
        return Snapshot(self.name, _core.table_open(self.session, self.name, [self._meter, *meters]))

    def newest(self) -> Snapshot:
        """The version that engines read; it stays open. Raises: as `opened()`."""
        try:
            fresh, kept = self.opened(), self._kept
        except NotFound:
            self.release()  # dropped elsewhere
            raise
        if kept is not None and kept.version == fresh.version:
            fresh.close()
            return kept
        self._kept = fresh
        return fresh

    def release(self) -> None:
        """Releases the version that stays open for engines."""
        self._kept = self._bound = None

    def snapshot(self) -> Snapshot:
        """The newest version, to be read several times; a context manager. Raises: as `opened()`."""
        return self.opened()

    @property
    def exists(self) -> bool:
        """Whether there is a table of that name now."""
        try:
            self.opened()
        except NotFound:
            return False
        return True

    @property
    def bytes_moved(self) -> int:
        """Bytes that scans through this object moved from other nodes so far."""
        return self._meter.nbytes


@contextlib.contextmanager
def _reporting(progress: Progress, name: str) -> Iterator[Callable[[int, int], Any] | None]:
    """The callable to tell of progress, with a bar around it if one was asked for."""
    if progress is not True:
        yield progress or None
        return
    from .core.progress import progress as bar_of
    with bar_of(f"storing {name}", show=True) as bar:
        def step(_: int, nbytes: int) -> None:
            bar.advance(nbytes - bar.done)

        yield step


def table_names(session: Session) -> list[str]:
    """As `Session.tables()`."""
    return [name.name for name in session.names()
            if name.layout == "sequence" and "~" not in name.name and (name.lost or _may_be_table(session, name.name))]


def _may_be_table(session: Session, name: str) -> bool:
    """False if it is a file, or was removed meanwhile."""
    try:
        with session.attach(name) as allocation:
            return allocation._is_table()
    except (NotFound, Permission, Revoked):
        return False
    except (Lost, PeerLost):
        return True  # nobody can tell


class Cache:
    """The cache of remote columns of a session: `session.cache(limit_bytes)`, `.info()`, `.clear()`."""

    def __init__(self, session: Session) -> None:
        """As `session.cache`."""
        self._session = session

    def __call__(self, limit_bytes: int) -> Cache:
        """Keeps up to `limit_bytes` of moved columns in this program; the least recently used go first. 0: none."""
        if limit_bytes < 0:
            raise InvalidArgument(f"limit_bytes is {limit_bytes}; it must not be negative")
        _core.table_cache_limit(self._session, limit_bytes)
        return self

    def info(self) -> dict[str, int]:
        """limit_bytes, used_bytes, hits and misses (column chunks found, and not)."""
        return _core.table_cache_info(self._session)

    def clear(self) -> None:
        """Forgets everything, so that the next scan is a first touch; what readers hold stays theirs."""
        _core.table_cache_clear(self._session)

    def __repr__(self) -> str:
        from .core.html import size
        info = self.info()
        return f"<oncilla.Cache {size(info['used_bytes'])} of {size(info['limit_bytes'])}>"
