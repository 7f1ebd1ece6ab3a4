"""Progress: bars at terminals, lines where asked for, silence elsewhere."""
from __future__ import annotations

import io

import numpy as np
import pytest

import oncilla


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def work(**options) -> str:
    stream = options.pop("stream", None) or io.StringIO()
    with oncilla.progress("loading", 4 << 20, stream=stream, **options) as bar:
        for _ in range(4):
            bar.advance(1 << 20)
        assert bar.done == 4 << 20
        bar.note("loaded")
    return stream.getvalue()


def test_nobody_is_told_where_nobody_looks():
    assert work() == "" and work(show=False, stream=Terminal()) == ""


def test_lines_where_asked_for():
    text = work(show=True)
    assert text.startswith("loaded: 4.00 MiB of 4.00 MiB") and text.endswith("done\n")
    assert "rows" in work(show=True, unit="rows")


def test_an_error_is_no_end():
    stream = io.StringIO()
    with pytest.raises(ZeroDivisionError), oncilla.progress("x", show=True, stream=stream):
        raise ZeroDivisionError
    assert stream.getvalue().endswith("stopped\n")


def test_a_bar_at_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    assert "loaded" in work(stream=Terminal())


def test_without_rich_a_terminal_gets_lines(monkeypatch):
    import sys
    monkeypatch.setitem(sys.modules, "rich", None)
    assert work(stream=Terminal()).endswith("done\n")


def test_puts_of_arrays_show_it(embedded, capsys):
    with embedded.put_array(np.zeros(1 << 20, "u1"), progress=True) as block:
        assert block.nbytes == 1 << 20
    assert "putting an array: 1.00 MiB of 1.00 MiB" in capsys.readouterr().err
