"""What the file systems of one process share for a daemon: its session, and the count of bytes moved."""
from __future__ import annotations

import atexit
import errno
import os
import threading
import weakref
from typing import Any

from ..core import errors
from ..core.session import Session

_ERRNO = {
    errors.NotFound: errno.ENOENT, errors.Exists: errno.EEXIST, errors.Permission: errno.EACCES,
    errors.AuthError: errno.EACCES, errors.PoolFull: errno.ENOSPC, errors.QuotaExceeded: errno.ENOSPC,
    errors.NoMemory: errno.ENOMEM, errors.NoFds: errno.EMFILE, errors.Revoked: errno.ESTALE,
    errors.DeadlineExceeded: errno.ETIMEDOUT, errors.NoDaemon: errno.ECONNREFUSED, errors.PeerLost: errno.EHOSTDOWN,
    errors.InvalidArgument: errno.EINVAL, errors.OutOfRange: errno.EINVAL, errors.Unsupported: errno.ENOTSUP,
    errors.TooLarge: errno.EFBIG,
}


class os_errors:
    """A block in which an `oncilla.Error` becomes the fitting OSError about `path`; `__cause__` is the original."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if isinstance(error, errors.Error):
            number = next((number for of, number in _ERRNO.items() if isinstance(error, of)), errno.EIO)
            raise OSError(number, str(error), f"ocm://{self.path}") from error


def no_file(path: str) -> FileNotFoundError:
    """What a path without a file raises."""
    return FileNotFoundError(errno.ENOENT, "no file of that path is published", f"ocm://{path}")


class Shared:
    """A session with the daemon at `socket` (None: the default one) for all file systems of this process."""

    _open: weakref.WeakValueDictionary[tuple[str, int], Shared] = weakref.WeakValueDictionary()
    _lock = threading.Lock()

    def __init__(self, socket: str | None) -> None:
        with os_errors(""):
            self.session = Session(socket)
        self.pid = os.getpid()
        self._moved_bytes = 0
        self._count_lock = threading.Lock()

    @classmethod
    def get(cls, socket: str | None) -> Shared:
        """The one of this process, opened if there is none. Raises OSError."""
        key = (socket or os.environ.get("OCM_SOCKET", ""), os.getpid())
        with cls._lock:
            shared = cls._open.get(key)
            if shared is None or shared.session.closed:
                shared = cls._open[key] = Shared(socket)
            return shared

    @property
    def moved_bytes(self) -> int:
        """Bytes that reads moved from other nodes."""
        return self._moved_bytes

    def count(self, nbytes: int) -> None:
        """Adds to the bytes moved."""
        with self._count_lock:
            self._moved_bytes += nbytes


def _renew_lock() -> None:
    Shared._lock = threading.Lock()


def _end() -> None:
    """fsspec keeps file systems until the interpreter ends; their sessions end before it."""
    for shared in list(Shared._open.values()):
        if shared.pid == os.getpid():
            shared.session.close()
        del shared.session


os.register_at_fork(after_in_child=_renew_lock)
atexit.register(_end)
