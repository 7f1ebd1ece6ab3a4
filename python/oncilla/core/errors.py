"""The exceptions: one tree, a branch for each scope (the largest thing that broke), a leaf for what users catch."""
from __future__ import annotations

from .. import _core
from .shown import shown_in

# What a subject is: the names of `ocm_subject`, by its numbers.
_SUBJECT_KINDS = (None, "allocation", "table", "segment", "column", "option", "handle")

# Where the hint of the class would mislead: (code, what the subject is) -> the hint; "": the text says what to do.
_HINTS: dict[tuple[str, str | None], str] = {
    ("INVALID_ARGUMENT", "handle"): "after fork(), call oncilla.connect() in the child",
    ("UNSUPPORTED", "table"): "",
    ("UNSUPPORTED", "column"): "",
    ("TOO_LARGE", "table"): "",
    ("TOO_LARGE", "column"): "",
    ("POOL_FULL", "table"): "raise the budgets or add nodes",
    ("NOT_FOUND", "column"): "",
    ("NOT_FOUND", "table"): "see `session.tables()` for what is there",
    ("EXISTS", "table"): "see `drop()` and `put(replace=True)`",
    ("EXISTS", "segment"): "",
    ("PERMISSION", "table"): "ask the owner for another mode",
    ("LOST", "table"): "see `ocm status`",
    ("PEER_LOST", "table"): "see `ocm status`",
    # Who opened it as a table gets it about an allocation.
    ("PROTOCOL", "allocation"): "see `session.tables()` for what is there",
}


class Error(Exception):
    """Any failure of Oncilla. `str(error)` says what happened and what to do.

    Attributes:
        code: the short name, such as "POOL_FULL".
        status: the number of the C interface, negative.
        scope: what is broken: "call", "allocation", "peer", "node" or "cluster".
        node: the name of the node that it is about, or None.
        subject: the name of what it is about, or None.
        subject_kind: what that is: "allocation", "table", "segment", "column", "option" or "handle"; or None.
        hint: what to do.
    """

    code = "INTERNAL"
    status = -99
    scope = "cluster"
    hint = "please report it, with the daemon's log"

    def __init__(self, text: str = "", *, node: str | None = None, subject: str | None = None,
                 subject_kind: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.node = node
        self.subject = subject
        self.subject_kind = subject_kind
        self.hint = _HINTS.get((self.code, subject_kind), type(self).hint)

    def __str__(self) -> str:
        text = self.text or _core.status_text(self.status)
        return f"{self.code}: {text}" if self.hint in text else f"{self.code}: {text} - {self.hint}"

    def __reduce__(self) -> tuple:
        return type(self), (self.text,), self.__dict__


class CallError(Error):
    """This call did nothing; the next one may succeed."""
    scope = "call"


class AllocationError(Error):
    """This allocation or name is not usable (any more) in this way."""
    scope = "allocation"


class PeerError(Error):
    """One node, or the connection to it."""
    scope = "peer"


class NodeError(Error):
    """This machine or its daemon."""
    scope = "node"


class ClusterError(Error):
    """The cluster as a whole."""
    scope = "cluster"


class InvalidArgument(CallError, ValueError):
    """An argument is invalid (null, zero, unknown value)."""
    code, status, hint = "INVALID_ARGUMENT", -1, "see what the message says of the argument"


class OutOfRange(CallError, IndexError):
    """Offset and length leave the allocation."""
    code, status, hint = "OUT_OF_RANGE", -2, "see `nbytes` for its length"


class DeadlineExceeded(CallError, TimeoutError):
    """The deadline passed; the operation may still complete."""
    code, status, hint = "DEADLINE", -3, "wait longer, or see `ocm status` for nodes that do not answer"


class QueueFull(CallError):
    """A bounded queue or table is full."""
    code, status, hint = "QUEUE_FULL", -4, "wait for an operation to finish, then retry"


class Unsupported(CallError):
    """This build, kind, layout or fabric cannot do it."""
    code, status, hint = "UNSUPPORTED", -5, "use another kind, layout, fabric or way to reach the bytes"


class TooLarge(CallError):
    """A message, name, list or request is over its limit."""
    code, status, hint = "TOO_LARGE", -6, "ask for less at a time"


class Cancelled(CallError):
    """The session was closed under the operation, or the operation was cancelled."""
    code, status, hint = "CANCELLED", -7, "start it again with an open session"


class PoolFull(AllocationError, MemoryError):
    """No node offers that many free bytes of that kind."""
    code, status, hint = "POOL_FULL", -20, "free something, ask for less, or spread it over nodes (layout='striped')"


class NotFound(AllocationError, LookupError):
    """No such name, allocation or extent."""
    code, status, hint = "NOT_FOUND", -21, "see `session.names()` for what is there"


class Exists(AllocationError):
    """The name is taken."""
    code, status, hint = "EXISTS", -22, "choose another name, or remove the old one with `session.remove(name)`"


class Revoked(AllocationError):
    """Freed, removed or reused."""
    code, status, hint = "REVOKED", -23, "allocate or attach again"


class Permission(AllocationError, PermissionError):
    """Attached for reading only, or not the owner's."""
    code, status, hint = "PERMISSION", -24, "attach with write=True, or ask the owner for another mode"


class Lost(AllocationError):
    """The bytes are gone: every copy was on nodes or devices that failed."""
    code, status, hint = "LOST", -25, "load it again; layout='replicated' survives the loss of a node"


class QuotaExceeded(AllocationError):
    """The user's quota is used up."""
    code, status, hint = "QUOTA", -26, "free something first"


class PeerLost(PeerError, ConnectionError):
    """The node died, was cut off or stopped answering within the deadline."""
    code, status, hint = "PEER_LOST", -40, "see `ocm status`; put or get again when the node is back"


class ProtocolError(PeerError):
    """A peer sent what the protocol does not allow; the connection was closed."""
    code, status, hint = "PROTOCOL", -41, "check that all nodes run the same version"


class AuthError(PeerError):
    """Wrong token, certificate or session key."""
    code, status, hint = "AUTH", -42, "check that all nodes have the same token and valid certificates"


class BadChecksum(PeerError):
    """A CRC32C did not match."""
    code, status, hint = "BAD_CHECKSUM", -43, "try again; if it comes back, check the network and the memory"


class NoDaemon(NodeError, ConnectionError):
    """No daemon answers at the socket."""
    code, status, hint = "NO_DAEMON", -60, "start one with `ocm up`, or use oncilla.connect(embedded=True)"


class NoMemory(NodeError, MemoryError):
    """The operating system refused memory."""
    code, status, hint = "NO_MEMORY", -61, "give the machine or its control group more memory"


class NoFds(NodeError):
    """Out of file descriptors."""
    code, status, hint = "NO_FDS", -62, "raise `ulimit -n`"


class IoError(NodeError, OSError):
    """Another error of the operating system."""
    code, status, hint = "IO", -63, "see the text for what the system said"


class Draining(NodeError):
    """The daemon is shutting down."""
    code, status, hint = "DRAINING", -64, "use another node"


class LimitReached(NodeError):
    """A limit of the daemon on sessions, connections or extents."""
    code, status, hint = "LIMIT", -65, "close sessions or free allocations, or raise the limit in oncillad.toml"


class NoCoordinator(ClusterError, ConnectionError):
    """The coordinator cannot be reached; names wait, data goes on."""
    code, status, hint = "NO_COORDINATOR", -80, "try again when the coordinator is back"


class UnknownNode(ClusterError, LookupError):
    """No node of that name in the cluster."""
    code, status, hint = "UNKNOWN_NODE", -81, "see `session.nodes()` for their names"


class InternalError(ClusterError):
    """A fault in Oncilla itself."""
    code, status, hint = "INTERNAL", -99, "please report it, with the daemon's log"


_BY_STATUS = {kind.status: kind for scope in (CallError, AllocationError, PeerError, NodeError, ClusterError)
              for kind in scope.__subclasses__()}
shown_in("oncilla.errors", Error, CallError, AllocationError, PeerError, NodeError, ClusterError, *_BY_STATUS.values())


def from_status(status: int, text: str, node: str = "", subject: str = "", subject_kind: int = 0) -> Error:
    """The exception for what the C interface said: the arguments are as in its `ocm_error_info`.

    Args:
        text: what exactly went wrong; "": the fixed sentence for the status.
    """
    kind = _SUBJECT_KINDS[subject_kind] if 0 <= subject_kind < len(_SUBJECT_KINDS) else None
    return _BY_STATUS.get(status, InternalError)(
        text or _core.status_text(status), node=node or None, subject=subject or None, subject_kind=kind)
