"""Allocations, by their public name."""
from .core.allocation import Allocation, acopy, copy, start_copy

__all__ = [
    "Allocation", "acopy", "copy", "start_copy",
]
