"""Progress of long work: bars by rich where it is installed, else plain lines, and nothing where nobody looks."""
from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, TextIO

from .html import size

_PLAIN_EVERY_S = 2.0


class Progress:
    """A context manager whose `advance(amount)` moves one bar; see `progress()`."""

    def __init__(self, what: str, total: float | None, unit: str, show: bool | None, stream: TextIO) -> None:
        self.what, self.total, self.unit, self.done = what, total, unit, 0.0
        self._stream = stream
        terminal = stream.isatty()
        self._shown = terminal if show is None else show
        self._rich: Any = None
        self._task: Any = None
        self._started = self._told = time.monotonic()
        if self._shown and terminal:
            self._rich = _rich_bar(stream, unit)

    def __enter__(self) -> Progress:
        self._started = self._told = time.monotonic()
        if self._rich is not None:
            self._rich.start()
            self._task = self._rich.add_task(self.what, total=self.total)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._rich is not None:
            self._rich.stop()
        elif self._shown:
            self._tell("done" if kind is None else "stopped")

    def advance(self, amount: float) -> None:
        """`amount` more of the total is done."""
        self.done += amount
        if self._rich is not None:
            self._rich.update(self._task, advance=amount)
        elif self._shown and time.monotonic() - self._told >= _PLAIN_EVERY_S:
            self._tell("")

    def note(self, what: str) -> None:
        """Changes the text beside the bar."""
        self.what = what
        if self._rich is not None:
            self._rich.update(self._task, description=what)

    def _tell(self, state: str) -> None:
        self._told = time.monotonic()
        amount = size if self.unit == "B" else lambda count: f"{count:,.0f} {self.unit}"
        of = f" of {amount(self.total)}" if self.total is not None else ""
        print(f"{self.what}: {amount(self.done)}{of}, {self._told - self._started:.1f} s {state}".rstrip(),
              file=self._stream, flush=True)


def _rich_bar(stream: TextIO, unit: str) -> Any:
    """A started-later rich Progress, or None without rich."""
    try:
        from rich import console
        from rich import progress as bars
    except ImportError:
        return None
    count = (bars.DownloadColumn(binary_units=True), bars.TransferSpeedColumn()) if unit == "B" \
        else (bars.MofNCompleteColumn(),)
    return bars.Progress(bars.TextColumn("{task.description}"), bars.BarColumn(), *count, bars.TimeRemainingColumn(),
                         console=console.Console(file=stream), transient=False)


def progress(what: str, total: float | None = None, *, unit: str = "B", show: bool | None = None,
             stream: TextIO | None = None) -> Progress:
    """A bar for long work.

        with oncilla.progress("loading", total=len(data)) as bar:
            bar.advance(1 << 20)

    Args:
        what: the text beside it.
        total: how much there is to do; None: unknown.
        unit: "B" for bytes, or what is counted, such as "rows".
        show: None: at a terminal only; True: as lines elsewhere too; False: never.
        stream: where; None: standard error.
    """
    return Progress(what, total, unit, show, stream or sys.stderr)
