"""What the numbers of a run mean nothing without."""
from __future__ import annotations

import datetime
import importlib.metadata
import os
import pathlib
import platform
import subprocess

from .cluster import ROOT

PACKAGES = ("duckdb", "pyarrow", "polars", "pandas", "tpchgen-cli")


def _first(path: str, key: str) -> str:
    """The value of the first line `key : value` of a file of /proc."""
    for line in pathlib.Path(path).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "unknown"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def commit() -> str:
    """Short, with a `+` where the tree differs from it; "unknown" outside of a git tree."""
    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None
    head = git("rev-parse", "--short=12", "HEAD")
    return f"{head}{'+' if git('status', '--porcelain', '-uno') else ''}" if head else "unknown"


def describe() -> dict:
    """commit, time, cores, cpu, memory_bytes, kernel, versions."""
    return {
        "commit": commit(),
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _first("/proc/cpuinfo", "model name"),
        "memory_bytes": int(_first("/proc/meminfo", "MemTotal").split()[0]) * 1024,
        "kernel": platform.release(),
        "versions": {package: _version(package) for package in PACKAGES},
    }
