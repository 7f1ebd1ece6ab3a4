"""Operations under way, by their public name."""
from .core.operations import Operation

__all__ = ["Operation"]
