"""What the demo's tests share: its data, made once, and a way to run it that leaves nothing behind."""
from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(os.environ.get("OCM_PYTHON_DIR", ROOT / "build/release/python"))
sys.path[:0] = [str(PACKAGE), str(ROOT)]
os.environ.setdefault("OCM_BIN_DIR", str(ROOT / "build/release"))


def clusters() -> set[str]:
    """Folders of clusters that demos started."""
    return {path.name for path in pathlib.Path(tempfile.gettempdir()).glob("ocm-demo-*")}


def daemons(folder: str) -> list[int]:
    """Living daemons of the demo's cluster in `folder`."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder in (process / "cmdline").read_text():
                found.append(int(process.name))
    return found


class Demo:
    """A run of the demo in a folder of its own."""

    output: str  # of the whole run, where a fixture ran it

    def __init__(self, folder: pathlib.Path, report: pathlib.Path, *options: str, **env: str) -> None:
        self.report = report
        self.before = clusters()
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-m", "demo.main", "--report", str(report), *options], cwd=ROOT, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "OCM_DEMO_DIR": str(folder), "PYTHONPATH": f"{PACKAGE}:{ROOT}", "PYTHONUNBUFFERED": "1",
                 **env})

    def finish(self, deadline_s: float = 200) -> str:
        """What it printed, to the end."""
        try:
            return self.process.communicate(timeout=deadline_s)[0]
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGTERM)
            pytest.fail(f"the demo did not end:\n{self.process.communicate(timeout=30)[0]}")

    def left(self) -> tuple[set[str], list[int]]:
        """Folders and daemons that it left behind."""
        folders = clusters() - self.before
        return folders, [pid for folder in folders for pid in daemons(folder)]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Where the data is kept between the tests."""
    return tmp_path_factory.mktemp("demo")
