"""The ways in which an allocation may lie: what is true of one must be true of all."""
from __future__ import annotations

from typing import Any

PLACES: dict[str, dict[str, Any]] = {
    "slab": {"local": True},
    "local": {"local": True, "dedicated": True},
    "remote": {"nodes": "n2"},
    "checked": {"nodes": "n3", "checksum": True},
    "striped": {"layout": "striped", "nodes": ["n1", "n2", "n3"], "chunk_bytes": 64},
    "coherent": {"nodes": "n2", "coherent": True},
    "coherent here": {"local": True, "coherent": True},
    "replicated": {"layout": "replicated", "nodes": ["n2", "n1"]},
}
# Mapped: the memory itself, or the pages of it that the daemon caches.
DIRECT = ("slab", "local", "coherent", "coherent here")
