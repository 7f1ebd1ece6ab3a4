"""The plots of the report, each a function of the results and a theme. The results' form is said in report.py."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from . import outofcore
from .style import Theme, dress, figure, legend

MIB = 1 << 20
BFS_SOURCES = {"arrays": "process", "local": "local"}  # where the edges lie: the colour of that source


def number(value: float) -> str:
    """Three digits that mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def placement(results: dict, theme: Theme) -> Figure:
    """What lies on which node, against each node's budget."""
    nodes, tables = results["placement"]["nodes"], results["placement"]["tables"]
    made = figure(theme, 9.2, 1.5 + 0.62 * len(nodes))
    axes = made.subplots()
    dress(axes, theme, "")
    budget = nodes[0]["budget_bytes"] / MIB
    for row, node in enumerate(nodes):
        left = 0.0
        axes.barh(row, budget, height=0.72, color="none", edgecolor=theme.muted, linewidth=1, linestyle=(0, (4, 3)))
        for table in tables:
            width = table["by_node"].get(node["name"], 0) / MIB
            axes.barh(row, width, left=left, height=0.62, color=theme.tables[table["name"]], edgecolor=theme.paper,
                      linewidth=0.8)
            if width > 0.09 * budget:
                axes.text(left + width / 2, row, f"{table['name']}\n{number(width)}", ha="center", va="center",
                          fontsize=8.5, color="#ffffff" if theme.name == "light" else "#0d1117")
            left += width
    data = results["placement"]["data_bytes"] / MIB
    axes.axvline(data, color=theme.bad, linewidth=1.4)
    axes.text(data, len(nodes) - 0.45, f" the data alone: {number(data)} MiB ", color=theme.bad, fontsize=9, ha="right",
              va="center")
    axes.set_yticks(range(len(nodes)), [node["name"] for node in nodes])
    axes.set_ylim(len(nodes) - 0.25, -0.55)
    axes.set_xlim(0, data * 1.02)
    axes.set_xlabel(f"MiB; dashed: the node's budget of {number(budget)} MiB")
    shown = [table for table in tables if max(table["by_node"].values(), default=0) > 0]
    legend(axes, theme, [Patch(color=theme.tables[table["name"]]) for table in shown],
           [table["name"] for table in shown], ncols=8)
    return made


def _source_bars(axes, theme: Theme, rows: list[tuple[str, str, float | None]]) -> None:
    """(key, title, ms) of each source, named on the left."""
    most = max((ms for _, _, ms in rows if ms), default=1)
    for row, (key, _, ms) in enumerate(rows):
        if ms is None:
            axes.text(0, row, " not measured", va="center", fontsize=8.5, color=theme.muted)
            continue
        axes.barh(row, ms, height=0.72, color=theme.sources[key])
        axes.text(ms, row, f" {number(ms)}", va="center", fontsize=8.5, color=theme.ink)
    axes.set_xlim(0, most * 1.22)
    axes.set_yticks(range(len(rows)), [title for _, title, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)


def queries(results: dict, theme: Theme) -> Figure:
    """A panel for each query and one for their geometric mean: the time from every source."""
    sources, found = results["sources"], results["queries"]
    panels = [(f"{query['name']}", [(s["key"], s["title"], query["cells"].get(s["key"], {}).get("ms"))
                                    for s in sources]) for query in found]
    panels.append(("geometric mean", [(s["key"], s["title"], s["mean_ms"]) for s in sources]))
    made = figure(theme, 11.5, 5.6)
    grid = made.subplots(2, 4, sharey=True)
    for axes, (title, rows) in zip(grid.flat, panels, strict=True):
        dress(axes, theme, title)
        _source_bars(axes, theme, rows)
        axes.locator_params(axis="x", nbins=4)
    for axes in grid[1]:
        axes.set_xlabel("ms, median")
    return made


def moved(results: dict, theme: Theme) -> Figure:
    """Bytes that the first touch moved, against those that the query needs."""
    found = results["queries"]
    made = figure(theme, 9.2, 3.2)
    axes = made.subplots()
    dress(axes, theme, "", grid="y")
    axes.spines["left"].set_visible(False)
    for column, query in enumerate(found):
        needed, took = query["needed_bytes"] / MIB, (query["cells"].get("remote", {}).get("moved_bytes") or 0) / MIB
        axes.bar(column - 0.19, needed, width=0.36, color=theme.sources["cached"])
        axes.bar(column + 0.19, took, width=0.36, color=theme.sources["remote"])
        axes.text(column, max(needed, took), f"{took / needed:.3f}" if needed else "-", ha="center", va="bottom",
                  fontsize=9, color=theme.ink)
    axes.set_xticks(range(len(found)), [query["name"] for query in found])
    axes.set_ylabel("MiB")
    axes.margins(y=0.14)
    legend(axes, theme, [Patch(color=theme.sources["cached"]), Patch(color=theme.sources["remote"])],
           ["needed", "moved at first touch (above: moved / needed)"], ncols=2)
    return made


def fusion(results: dict, theme: Theme) -> Figure:
    """A, B and C as one pipeline and operator by operator, local and remote."""
    found = results["fusion"]
    made = figure(theme, 9.2, 3.4)
    grid = made.subplots(1, len(found), squeeze=False)[0]
    for axes, query in zip(grid, found, strict=True):
        dress(axes, theme, query["name"])
        rows = [(f"{how}, {where}", query[where][f"{how}_ms"], where) for where in ("local", "remote")
                for how in ("fused", "stepped")]
        for row, (_, ms, where) in enumerate(rows):
            axes.barh(row, ms, height=0.72, color=theme.sources[where if row % 2 == 0 else f"{where} by operator"])
            axes.text(ms, row, f" {number(ms)}", va="center", fontsize=9, color=theme.ink)
        axes.set_xlim(0, max(ms for _, ms, _ in rows) * 1.25)
        axes.set_ylim(3.5, -0.5)
        axes.set_yticks(range(4), [label.replace("stepped", "by operator") for label, _, _ in rows] if axes is grid[0]
                        else [""] * 4)
        axes.set_xlabel(f"ms; by operator {number(query['remote']['written_bytes'] / MIB)} MiB are written")
        axes.locator_params(axis="x", nbins=4)
    return made


def acts(results: dict, theme: Theme) -> Figure:
    """Where the time of the whole run went."""
    found = results["acts"]
    made = figure(theme, 9.2, 0.9 + 0.27 * len(found))
    axes = made.subplots()
    dress(axes, theme, "")
    for row, act in enumerate(found):
        axes.barh(row, act["seconds"], left=act["start_s"], height=0.66, color=theme.accent)
        axes.text(act["start_s"] + act["seconds"], row, f" {act['seconds']:.1f} s", va="center", fontsize=9,
                  color=theme.ink)
    axes.set_yticks(range(len(found)), [act["title"] for act in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xlim(0, (found[-1]["start_s"] + found[-1]["seconds"]) * 1.1)
    axes.set_xlabel("seconds since the start")
    return made


def load(results: dict, theme: Theme) -> Figure:
    """How fast each table came from Parquet into the memory of the cluster."""
    found = [table for table in results["load"] if table["bytes"] > MIB]
    made = figure(theme, 9.2, 0.9 + 0.3 * len(found))
    axes = made.subplots()
    dress(axes, theme, "")
    for row, table in enumerate(found):
        rate = table["bytes"] / table["seconds"] / 1e6
        axes.barh(row, rate, height=0.66, color=theme.tables[table["name"]])
        axes.text(rate, row, f" {number(rate)} MB/s, {table['rows'] / table['seconds'] / 1e6:.2f} M rows/s",
                  va="center", fontsize=9, color=theme.ink)
    axes.set_yticks(range(len(found)), [table["name"] for table in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.margins(x=0.3)
    axes.set_xlabel("MB/s of Arrow data stored, all copies of a row counted once")
    return made


def bfs(results: dict, theme: Theme) -> Figure:
    """The rate of each search, with the edges local and remote."""
    found = results["bfs"]["searches"]
    made = figure(theme, 9.2, 0.9 + 0.36 * len(found))
    axes = made.subplots()
    dress(axes, theme, "")
    for row, search in enumerate(found):
        axes.barh(row, search["mteps"], height=0.68, color=theme.sources[BFS_SOURCES.get(search["place"], "remote")])
        axes.text(search["mteps"], row, f" {number(search['mteps'])} MTEPS, {number(search['ms'])} ms", va="center",
                  fontsize=9, color=theme.ink)
    axes.set_yticks(range(len(found)), [search["title"] for search in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.margins(x=0.3)
    axes.set_xlabel("millions of edges traversed in a second")
    return made


def out_of_core(results: dict, theme: Theme) -> Figure:
    """The rate of each step, by pointers of two nodes and in a mapped file."""
    found = results["outofcore"]
    made = figure(theme, 9.2, 0.9 + 0.6 * len(found["steps"]))
    axes = made.subplots()
    dress(axes, theme, "")
    for row, step in enumerate(found["steps"]):
        for shift, key, rate in zip((-0.19, 0.19), ("remote", "cached"), outofcore.rates(found, step), strict=True):
            axes.barh(row + shift, rate or 0, height=0.36, color=theme.sources[key])
            axes.text(rate or 0, row + shift, f" {number(rate)} MiB/s" if rate else " not measured", va="center",
                      fontsize=9, color=theme.ink)
    axes.set_yticks(range(len(found["steps"])), [step["what"] for step in found["steps"]])
    axes.set_ylim(len(found["steps"]) - 0.5, -0.5)
    axes.margins(x=0.3)
    axes.set_xlabel("MiB/s of all programs together")
    legend(axes, theme, [Patch(color=theme.sources["remote"]), Patch(color=theme.sources["cached"])],
           ["pointers, two nodes", "mmap of a file in as much memory"], ncols=2)
    return made


@dataclasses.dataclass(frozen=True)
class Chart:
    name: str
    needs: str  # what of the results it shows
    title: str
    draw: Callable[[dict, Theme], Figure]


CHARTS = (
    Chart("placement", "placement", "What lies where", placement),
    Chart("queries", "queries", "Seven queries from every source", queries),
    Chart("moved", "queries", "Bytes moved and bytes needed", moved),
    Chart("fusion", "fusion", "One pipeline against operator by operator", fusion),
    Chart("load", "load", "From Parquet into the memory of the cluster", load),
    Chart("bfs", "bfs", "Breadth-first search", bfs),
    Chart("outofcore", "outofcore", "Memory larger than memory", out_of_core),
    Chart("acts", "acts", "Where the time went", acts),
)
