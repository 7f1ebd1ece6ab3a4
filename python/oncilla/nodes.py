"""The records of nodes, names, extents and allocations, by their public name."""
from .core.nodes import AllocationInfo, Extent, Name, Node

__all__ = [
    "AllocationInfo", "Extent", "Name", "Node",
]
