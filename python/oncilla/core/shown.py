"""Where users find a class: the public module, and not the room that it stands in."""
from __future__ import annotations


def shown_in(module: str, *classes: type) -> None:
    """Tracebacks, `repr()` and pickles say `module`, which has them too: so a room may change and no pickle breaks."""
    for one in classes:
        one.__module__ = module
