"""Paths and published names: the one rule by which a file of a file system is an allocation with a name.

A name has no '/', and '~' in a name is a table's further segment (or the mark below), so '/' '~' '%' of a path stand
in the name as %2F %7E %25. Folders are implied, as in object stores. An allocation cannot be empty; so an
empty file is one byte under the path's name and "~0". python/arrowfs/names.h has the same rule.
"""
from __future__ import annotations

import errno
import re

NAME_BYTES_MAX = 253  # 255 of a name, less the mark of an empty file
EMPTY_MARK = "~0"
_CODES = {"%": "%25", "/": "%2F", "~": "%7E"}
_CHARACTERS = {code: character for character, code in _CODES.items()}
_NAME = re.compile(r"(?:[^%~]|%25|%2F|%7E)+")


def escaped(path: str) -> str:
    """`path` as (the beginning of) a name."""
    return re.sub("[%/~]", lambda match: _CODES[match[0]], path)


def name_of(path: str) -> str:
    """The name of the file `path`, without the mark of an empty one. Raises OSError where it can have none."""
    name = escaped(path)
    if not name or "\0" in name:
        raise OSError(errno.EINVAL, "a file's path has characters other than '/' and no NUL", path)
    length = len(name.encode())
    if length > NAME_BYTES_MAX:
        raise OSError(errno.ENAMETOOLONG,
                      f"the path needs {length} bytes as a name, where '/' takes 3, of at most {NAME_BYTES_MAX}", path)
    return name


def path_of(name: str) -> str | None:
    """The path of a name without mark; None for a name that no path has, such as a table's further segment."""
    if _NAME.fullmatch(name) is None:
        return None
    return re.sub("%25|%2F|%7E", lambda match: _CHARACTERS[match[0]], name)
