"""How sessions and allocations look in a notebook, and sizes for people."""
from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from .errors import Error

if TYPE_CHECKING:
    from .allocation import Allocation
    from .session import Session

_COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")


def size(nbytes: float) -> str:
    """"1.50 GiB", "12 B"."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if nbytes < 1024 or unit == "TiB":
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.2f} {unit}"
        nbytes /= 1024
    raise AssertionError("not reached")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """An HTML table; the cells of `rows` are HTML already."""
    heads = "".join(f"<th>{escape(text)}</th>" for text in head)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def bar(parts: Iterable[tuple[float, str, str]]) -> str:
    """A bar of (share of 1, color, title) parts."""
    inside = "".join(f'<span title="{escape(title)}" style="display:inline-block;height:100%;width:{share * 100:.2f}%;'
                     f'background:{color}"></span>' for share, color, title in parts)
    return ('<span style="display:inline-block;width:12em;height:0.9em;background:#ddd;white-space:nowrap;'
            f'overflow:hidden">{inside}</span>')


def session_html(session: Session) -> str:
    """The nodes of the cluster and how full their pools are."""
    if session.closed:
        return "<b>oncilla session</b>, closed"
    try:
        nodes = session.nodes()
    except Error as error:
        return f"<b>oncilla session</b>: {escape(str(error))}"
    rows = []
    for node in nodes:
        share = min(1.0, node.used_bytes / node.pool_bytes) if node.pool_bytes else 0.0
        marks = [mark for mark, on in (("here", node.self), ("coordinator", node.coordinator)) if on]
        use = f"{size(node.used_bytes)} of {size(node.pool_bytes)}"
        rows.append((escape(" ".join((node.name, *(f"({mark})" for mark in marks)))), escape(node.state),
                     bar([(share, _COLORS[0], use)]), use, str(node.sessions), str(node.extents)))
    return "<b>oncilla session</b>" + table(("node", "state", "pool", "in use", "sessions", "extents"), rows)


def allocation_html(allocation: Allocation) -> str:
    """Where the extents of an allocation lie."""
    if allocation.freed:
        return f"<b>oncilla allocation</b> of {size(allocation.nbytes)}, freed"
    extents = allocation.extents()
    total = sum(extent.nbytes for extent in extents) or 1
    colors = {name: _COLORS[i % len(_COLORS)] for i, name in enumerate(dict.fromkeys(e.node for e in extents))}
    parts = [(extent.nbytes / total, colors[extent.node], f"{extent.node}: {size(extent.nbytes)}")
             for extent in extents]
    rows = [(escape(extent.node), size(extent.nbytes), escape(extent.fabric),
             "lost" if extent.lost else "local" if extent.local else "remote") for extent in extents]
    info = allocation.info
    return (f"<b>oncilla allocation</b> of {size(allocation.nbytes)}, {escape(info.layout)} {bar(parts)}"
            + table(("node", "bytes", "fabric", "where"), rows))
