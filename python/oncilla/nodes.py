"""The records of nodes, names, extents and allocations, by their public name."""
from .core.nodes import AllocationInfo, Event, Extent, Name, Node

__all__ = [
    "AllocationInfo", "Event", "Extent", "Name", "Node",
]
