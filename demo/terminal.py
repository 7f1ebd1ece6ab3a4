"""What the demo prints: headings, tables, progress. Bars and colours on a terminal only, plain lines elsewhere."""
from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from .charts import MIB, number

COLOURS = {"lineitem": "blue", "orders": "dark_orange3", "partsupp": "green", "part": "yellow", "customer": "magenta",
           "supplier": "red", "nation": "cyan", "region": "white"}
LETTERS = {"lineitem": "L", "orders": "O", "partsupp": "S", "part": "P", "customer": "C", "supplier": "s",
           "nation": "n", "region": "r"}  # where there are no colours
PICTURE_WIDTH = 60


class Bar:
    """One line of work; `at(done)` says how far it is."""

    def __init__(self, progress: Progress | None, task: TaskID | None) -> None:
        self._progress, self._task = progress, task

    def at(self, done: float, note: str = "") -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, note=note)


class Terminal:
    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=False)
        if not self.console.is_terminal:
            self.console = Console(highlight=False, width=120, color_system=None)
        self.began = time.monotonic()
        self._acts = 0

    def say(self, text: str = "") -> None:
        self.console.print(text, markup=False, soft_wrap=True)  # a path stays in one piece

    def heading(self, title: str) -> None:
        self._acts += 1
        self.console.print()
        self.console.print(Text(f"{self._acts}  {title}", style="bold"), end="")
        self.console.print(Text(f"   {time.monotonic() - self.began:.0f} s", style="dim"))

    @contextlib.contextmanager
    def bar(self, what: str, total: float) -> Iterator[Bar]:
        """A progress bar for the block; nothing where there is no terminal."""
        if not self.console.is_terminal:
            yield Bar(None, None)
            return
        columns = (TextColumn("  {task.description:<22}"), BarColumn(40), TextColumn("{task.percentage:>3.0f} %"),
                   TimeRemainingColumn(), TextColumn("{task.fields[note]}"))
        with Progress(*columns, console=self.console, transient=True) as progress:
            yield Bar(progress, progress.add_task(what, total=total, note=""))

    def table(self, head: list[str], rows: list[list[str]], names: int = 1, last_bold: bool = False) -> None:
        """The first `names` columns to the left, numbers to the right."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for index, title in enumerate(head):
            table.add_column(title, justify="left" if index < names else "right", overflow="fold")
        for index, row in enumerate(rows):
            table.add_row(*row, style="bold" if last_bold and index == len(rows) - 1 else None)
        self.console.print(table)

    def placement(self, found: dict) -> None:
        """A bar for each node, as long as its budget; a letter for each table that lies there."""
        budget = found["nodes"][0]["budget_bytes"]
        for node in found["nodes"]:
            line, left = Text(f"  {node['name']:<8} "), PICTURE_WIDTH
            for table in found["tables"]:
                width = min(left, round(table["by_node"].get(node["name"], 0) / budget * PICTURE_WIDTH))
                if self.console.is_terminal:
                    label = table["name"] if width > len(table["name"]) else ""
                    line.append(label.center(width), style=f"white on {COLOURS[table['name']]}")
                else:
                    line.append(LETTERS[table["name"]] * width)
                left -= width
            line.append("·" * left, style="dim")
            line.append(f"  {number(node['used_bytes'] / MIB)} of {number(budget / MIB)} MiB")
            self.console.print(line)
        self.console.print()
        names = [node["name"] for node in found["nodes"]]
        self.table(["  table", "placed", "rows", "MiB", *(f"on {name}" for name in names)], [
            [f"  {table['name']}", table["how"], f"{table['rows']:,}", number(table["bytes"] / MIB),
             *(number(table["by_node"][name] / MIB) if table["by_node"].get(name) else "" for name in names)]
            for table in found["tables"]], 2)

    def queries(self, results: dict) -> None:
        """Medians in ms, the geometric means, and their ratios to the own node."""
        sources = results["sources"]
        head = ["  query", *(source["title"].replace(", ", ",\n").replace("Arrow in ", "Arrow in\n")
                             for source in sources),
                "MiB\nneeded", "MiB\nmoved"]
        rows = [[f"  {query['name']}",
                 *(number(query["cells"][source["key"]]["ms"]) if source["key"] in query["cells"] else "-"
                   for source in sources),
                 number(query["needed_bytes"] / MIB),
                 number((query["cells"].get("remote", {}).get("moved_bytes") or 0) / MIB)]
                for query in results["queries"]]
        rows.append(["  geometric mean",
                     *(number(source["mean_ms"]) if source["mean_ms"] else "-" for source in sources),
                     "", ""])
        base = next((source["mean_ms"] for source in sources if source["key"] == "local"), None)
        rows.append(["  ÷ own node", *(f"{source['mean_ms'] / base:.2f}" if source["mean_ms"] and base else "-"
                                       for source in sources), "", ""])
        self.table(head, rows, last_bold=True)
