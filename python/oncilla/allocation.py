"""Allocations, by their public name."""
from .core.allocation import Allocation, acopy, copy

__all__ = [
    "Allocation", "acopy", "copy",
]
