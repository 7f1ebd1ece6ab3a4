"""TPC-H data as Parquet files, made by tpchgen-cli in parts and kept by scale factor.

A part is generated under another name and renamed when it is whole, so a part that is there is complete and an
interrupted run goes on with the next one.
"""
from __future__ import annotations

import dataclasses
import math
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

TABLES = ("lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region")


class Failed(Exception):
    """The generator is missing or did not do its work; the text says what to do."""


def parts_of(scale: float) -> int:
    """How many parts a scale factor is generated in: about a quarter of a gigabyte of text each."""
    return max(2, math.ceil(4 * scale))


@dataclasses.dataclass(frozen=True)
class Dataset:
    """The files of one scale factor."""

    scale: float
    folder: pathlib.Path

    def files(self, table: str) -> list[str]:
        """The files of `table` in the order of its rows."""
        found = self.folder.glob(f"part-*/{table}/*.parquet")
        return [str(path) for path in sorted(found, key=lambda path: int(path.parts[-3].removeprefix("part-")))]

    def all_files(self) -> list[str]:
        return [path for table in TABLES for path in self.files(table)]

    def bytes(self) -> int:
        return sum(os.path.getsize(path) for path in self.all_files())


def _generator() -> str:
    beside = pathlib.Path(sys.executable).with_name("tpchgen-cli")
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if not found:
        raise Failed("tpchgen-cli is not installed: run `make setup`, or `pip install tpchgen-cli`")
    return found


def _generate(program: str, scale: float, parts: int, part: int, folder: pathlib.Path) -> None:
    for left in folder.glob(f".part-{part}-*"):  # by runs that were killed
        if not pathlib.Path("/proc", left.name.rpartition("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    scratch = folder / f".part-{part}-{os.getpid()}"
    command = [program, "parquet", "--quiet", "-s", f"{scale:g}", "--parts", str(parts), "--part", str(part), "-o",
               str(scratch)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
        for path in scratch.rglob("*.parquet"):
            with open(path, "rb") as file:
                os.fsync(file.fileno())  # what is dirty cannot be dropped from the page cache
        try:
            scratch.rename(folder / f"part-{part}")
        except OSError:
            if not (folder / f"part-{part}").is_dir():  # else another run made the same part
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def prepare(scale: float, under: pathlib.Path,
            advanced: Callable[[int, int], None] = lambda done, parts: None) -> Dataset:
    """The data of `scale`, generated where parts are missing below `under`.

    `advanced(done, parts)` is called before the first part and after each.
    Errors: Failed.
    """
    parts = parts_of(scale)
    folder = under / f"tpch-sf{scale:g}-{parts}"
    folder.mkdir(parents=True, exist_ok=True)
    for part in range(1, parts + 1):
        advanced(part - 1, parts)
        if not (folder / f"part-{part}").is_dir():
            _generate(_generator(), scale, parts, part, folder)
    advanced(parts, parts)
    return Dataset(scale, folder)
