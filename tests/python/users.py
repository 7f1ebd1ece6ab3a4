"""Work as another user: a child process that takes a uid before it opens its session."""
from __future__ import annotations

import os
import pathlib
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import oncilla
import oncilla.selection
import oncilla.table  # now: the child may not be able to read the files of packages

OWNER, STRANGER = 65533, 65534


def reachable(socket: os.PathLike) -> pathlib.Path:
    """The socket, with its folders open to other users."""
    for folder in pathlib.Path(socket).parents:
        if folder.stat().st_uid == os.getuid() and folder.name and not folder.stat().st_mode & 0o1:
            folder.chmod(folder.stat().st_mode | 0o711)
    return pathlib.Path(socket)


def as_user(uid: int, socket: os.PathLike, work: Callable[[oncilla.Session], Any]) -> Any:
    """What `work(session)` returns in a child of that uid; the oncilla.Error that it raises is given back."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            with oncilla.connect(reachable(socket)) as session:
                try:
                    said: Any = work(session)
                except oncilla.Error as error:
                    said = {"code": error.code, "text": str(error)}
        except BaseException:
            said = RuntimeError(traceback.format_exc())
        finally:
            os.write(write, pickle.dumps(said))
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as out:
        said = pickle.loads(out.read())
    os.waitpid(pid, 0)
    if isinstance(said, RuntimeError):
        raise said
    return said
