"""How plots look: one palette by meaning, in light and dark, and how a figure becomes PNG and SVG."""
from __future__ import annotations

import dataclasses
import io
import pathlib
import re

import matplotlib

matplotlib.use("Agg")

from matplotlib.figure import Figure  # noqa: E402  (the backend comes first)
from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Theme:
    name: str
    paper: str
    ink: str
    faint: str  # of rules and axes
    muted: str  # of secondary text
    sources: dict[str, str]  # source's key: colour
    tables: dict[str, str]  # table: colour
    accent: str
    second: str
    bad: str


LIGHT = Theme(
    "light", "#ffffff", "#1b1f24", "#d9dee3", "#59636e",
    {"cold": "#8c959f", "cached": "#b6bec7", "process": "#54aeff", "local": "#0969da", "remote": "#bc4c00",
     "again": "#f0883e", "spread": "#8250df",
     "local by operator": "#80b3ec", "remote by operator": "#dfa780"},
    {"lineitem": "#0969da", "orders": "#bc4c00", "partsupp": "#1a7f37", "part": "#9a6700", "customer": "#8250df",
     "supplier": "#bf3989", "nation": "#57606a", "region": "#8c959f"},
    "#0969da", "#bc4c00", "#cf222e")
DARK = Theme(
    "dark", "#0d1117", "#e6edf3", "#30363d", "#9198a1",
    {"cold": "#6e7681", "cached": "#9198a1", "process": "#a5d6ff", "local": "#4493f8", "remote": "#f0883e",
     "again": "#ffc680", "spread": "#ab7df8",
     "local by operator": "#294f84", "remote by operator": "#805026"},
    {"lineitem": "#4493f8", "orders": "#f0883e", "partsupp": "#3fb950", "part": "#d29922", "customer": "#ab7df8",
     "supplier": "#db61a2", "nation": "#9198a1", "region": "#6e7681"},
    "#4493f8", "#f0883e", "#f85149")
THEMES = (LIGHT, DARK)


def figure(theme: Theme, width: float, height: float) -> Figure:
    """Inches at 100 dots."""
    return Figure(figsize=(width, height), dpi=100, facecolor=theme.paper,
                  layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))


def dress(axes, theme: Theme, title: str = "", grid: str = "x") -> None:
    """A plot's frame: rules behind the data, no box."""
    axes.set_facecolor(theme.paper)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "left")
        spine.set_color(theme.faint)
    axes.tick_params(colors=theme.muted, length=0, labelsize=9)
    axes.xaxis.label.set_color(theme.muted)
    axes.yaxis.label.set_color(theme.muted)
    axes.xaxis.label.set_fontsize(9)
    axes.yaxis.label.set_fontsize(9)
    if grid:
        axes.grid(True, axis=grid, color=theme.faint, linewidth=0.7)
    axes.set_axisbelow(True)
    if title:
        axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=theme.ink)


def legend(axes, theme: Theme, handles, labels, **options) -> None:
    """Above the plot, from its left edge."""
    axes.legend(handles, labels, frameon=False, fontsize=9, labelcolor=theme.ink, handlelength=1.0, handleheight=1.0,
                loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.3, borderpad=0, columnspacing=1.4, **options)


def svg(made: Figure, tag: str) -> str:
    """For a page that holds several: ids do not collide, the size follows the page."""
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": tag, "font.family": "sans-serif"}):
        buffer = io.StringIO()
        made.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg"):]
    text = re.sub(r'<svg ([^>]*?)width="[^"]*" ?', r"<svg \1", text, count=1)
    text = re.sub(r'<svg ([^>]*?)height="[^"]*" ?', r"<svg \1", text, count=1)
    return re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{tag}-", text)


def png(made: Figure, path: pathlib.Path, title: str, theme: Theme) -> None:
    """For a picture that stands alone: it says what it shows. The figure keeps the title."""
    made.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=theme.ink)
    made.savefig(path, format="png", dpi=150, facecolor=made.get_facecolor())
