"""The demo's own cluster: daemons on this machine by `ocm up`, and `ocm down` whatever happens."""
from __future__ import annotations

import json
import os
import pathlib
import secrets
import signal
import subprocess
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARIES = pathlib.Path(os.environ.get("OCM_BIN_DIR", ROOT / "build" / "release"))
OCM = BINARIES / "cli" / "ocm"


class Failed(Exception):
    """A program of the build is missing or failed; the text says what to do."""


def run(command: list[str], deadline_s: float = 60, **options: Any) -> str:
    """The standard output of a program that ended well. Errors: Failed."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=deadline_s,
                              **options)
    except FileNotFoundError:
        raise Failed(f"{command[0]} is not built: run `make build`") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command)} took more than {deadline_s:.0f} s") from None
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-600:]}")
    return done.stdout


class Cluster:
    """`nodes` daemons node1, node2, ... with `budget_bytes` of memory each, and the rest as `config` says. A context
    manager: its end stops them."""

    def __init__(self, nodes: int, budget_bytes: int, config: str | None = None) -> None:
        self.budget_bytes = budget_bytes
        # Socket paths are limited to 107 bytes, hence not below the tree.
        self.directory = pathlib.Path(tempfile.gettempdir()) / f"ocm-demo-{secrets.token_hex(4)}"
        self.keep = False
        try:
            record = json.loads(run([str(OCM), "up", "--json", "--nodes", str(nodes), "--dram", str(budget_bytes),
                                     "--dir", str(self.directory), *(["--config", config] if config else [])]))
        except BaseException:
            self.close()
            raise
        self.nodes: dict[str, dict] = {node["name"]: node for node in record["nodes"]}
        self.socket: str = record["socket"]

    @property
    def own(self) -> str:
        """The node that programs on this side of the demo talk to."""
        return next(iter(self.nodes))

    def kill(self, name: str) -> int:
        """kill -9. -> the process that was killed."""
        os.kill(self.nodes[name]["pid"], signal.SIGKILL)
        return self.nodes[name]["pid"]

    def stop_command(self) -> str:
        return f"{OCM} down --dir {self.directory}"

    def close(self) -> None:
        if self.keep:
            return
        if self.directory.exists():
            subprocess.run([str(OCM), "down", "--dir", str(self.directory)], stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=60)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
