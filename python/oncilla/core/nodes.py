"""What the cluster, names, allocations and extents are, as records."""
from __future__ import annotations

from typing import NamedTuple

from .. import _core
from .errors import InvalidArgument
from .shown import shown_in

STATES = {1: "alive", 2: "suspect", 3: "dead", 4: "draining"}
EVENTS = {1: "resync", 2: "revoked", 3: "moved", 4: "unwatched", 5: "node_alive", 6: "node_suspect", 7: "node_dead",
          8: "node_draining"}
KINDS = {"dram": 0, "nvme": 1, "gpu": 2}
KIND_NAMES = {number: name for name, number in KINDS.items()}
LAYOUTS = {"single": 0, "striped": 1, "replicated": 2}
LAYOUT_NAMES = {**{number: name for name, number in LAYOUTS.items()}, 3: "sequence"}
FABRICS = {"any": 0, **_core.FABRICS}
FABRIC_NAMES = {number: name for name, number in FABRICS.items()}


def number_of(what: str, name: str, names: dict[str, int]) -> int:
    """The number of `name`, which the caller gave as `what`. Raises InvalidArgument."""
    if name not in names:
        raise InvalidArgument(f"{what} is {name!r}; it must be one of {', '.join(names)}")
    return names[name]


class Node(NamedTuple):
    """A node as the coordinator sees it. Sizes in bytes, of kind dram."""
    name: str
    partition: int
    state: str
    self: bool
    coordinator: bool
    pool_bytes: int
    used_bytes: int
    sessions: int
    extents: int
    heartbeat_age_s: float

    @property
    def free_bytes(self) -> int:
        """What it still offers."""
        return max(0, self.pool_bytes - self.used_bytes)


class Name(NamedTuple):
    """What a published name stands for.

    `replicas_missing`: how many of `extents` were given up, or are on a node that is gone; 0 if `lost`.
    `durable`: it is there after a restart of its nodes. `coherent`: any node may cache pages of it.
    """
    name: str
    nbytes: int
    layout: str
    extents: int
    owner_uid: int
    mode: int
    lost: bool
    replicas_missing: int
    durable: bool
    coherent: bool


class Extent(NamedTuple):
    """Where one contiguous part of an allocation lives."""
    node: str
    nbytes: int
    global_address: int
    generation: int
    fabric: str
    local: bool
    lost: bool


class AllocationInfo(NamedTuple):
    """What an allocation is.

    `owner_uid`, `mode`: of its name, 0 while it is not published. `own_uid`: the uid that the daemon sees.
    `durable`: once published, it is there after a restart of its nodes. `coherent`: any node may cache pages of it.
    `id`: what events name it by; handles of one published allocation have the same.
    """
    nbytes: int
    kind: str
    layout: str
    chunk_bytes: int
    extents: int
    writable: bool
    published: bool
    slab: bool
    owner_uid: int
    mode: int
    own_uid: int
    durable: bool
    id: bytes
    coherent: bool


class Event(NamedTuple):
    """What happened to an allocation that the session holds, or to a node.

    `kind`: "revoked" (it was freed, its name removed, or a part is gone), "moved" (a part goes on elsewhere; the handle
    follows by itself), "unwatched" (too much of this user is watched: its end is not told), "node_alive" (it joined or
    is back), "node_suspect" (silent), "node_dead", "node_draining" (it was told to stop), or "resync": the session's
    daemon was started again, events of before may be missing, and what is so now follows. Later versions may have
    others.
    `allocation`: as `AllocationInfo.id`; None if it is about a node. `name`: the allocation's, or "". `node`: where the
    extent is or was, or the node itself. `partition`: the run of that node's daemon.
    """
    kind: str
    allocation: bytes | None
    name: str
    node: str
    partition: int


def node_from(row: tuple) -> Node:
    """A Node of what the C++ part gives."""
    return Node(row[0], row[1], STATES.get(row[2], "unknown"), *row[3:])


def name_from(row: tuple) -> Name:
    """A Name of what the C++ part gives."""
    return Name(row[0], row[1], LAYOUT_NAMES.get(row[2], "unknown"), *row[3:])


def extent_from(row: tuple) -> Extent:
    """An Extent of what the C++ part gives."""
    node, nbytes, address, generation, fabric, local, lost = row
    return Extent(node, nbytes, address, generation, FABRIC_NAMES.get(fabric, "unknown"), local, lost)


def info_from(row: tuple) -> AllocationInfo:
    """An AllocationInfo of what the C++ part gives."""
    return AllocationInfo(row[0], KIND_NAMES.get(row[1], "unknown"), LAYOUT_NAMES.get(row[2], "unknown"), *row[3:])


def event_from(row: tuple) -> Event:
    """An Event of what the C++ part gives."""
    kind, allocation, name, node, partition = row
    return Event(EVENTS.get(kind, "unknown"), allocation if any(allocation) else None, name, node, partition)


shown_in("oncilla.nodes", Node, Name, Extent, AllocationInfo, Event)
