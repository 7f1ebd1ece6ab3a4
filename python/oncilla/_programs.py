"""`ocm` and `oncillad` of the wheel as console scripts."""
from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn


def _run(program: str) -> NoReturn:
    path = pathlib.Path(__file__).parent / "bin" / program
    os.execv(path, [str(path), *sys.argv[1:]])


def ocm() -> NoReturn:
    """The command line interface."""
    _run("ocm")


def oncillad() -> NoReturn:
    """The daemon."""
    _run("oncillad")
