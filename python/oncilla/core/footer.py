"""What tells a table from a file in parts, or from what a program joined: the footer at its end."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .allocation import Allocation

_MAGIC, _FOOTER_BYTES = b"OCMTABLE", 64


def has_footer(allocation: Allocation) -> bool:
    """True if it is a table's segment. Raises oncilla.Error, as PeerLost where nobody can tell."""
    start = allocation.nbytes - _FOOTER_BYTES
    return start >= 0 and allocation.info.layout == "sequence" and allocation.get(start, len(_MAGIC)) == _MAGIC
