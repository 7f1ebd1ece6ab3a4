"""Selections of a table, by their public name."""
from .tables.selection import Selection

__all__ = [
    "Selection",
]
