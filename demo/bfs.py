"""Breadth-first search by `oncilla-bfs`, with the edges in plain arrays, on the own node and on another one."""
from __future__ import annotations

import json
import os

from .cluster import BINARIES, run

PROGRAM = BINARIES / "apps" / "bfs" / "oncilla-bfs"
PLACES = {"arrays": "plain arrays", "local": "own node", "remote": "another node"}
DIRECTIONS = {"top-down": "top-down", "optimising": "direction-optimising"}


def search(socket: str, node: str, quick: bool) -> dict:
    """Runs the program against the daemon at `socket`; remote edges lie on `node`. Every tree is validated.

    -> searches [{title, mteps, ms, remote, ratio}], phases of SHOC [{title, phase: ms, ...}], and the program's lines.
    Errors: cluster.Failed.
    """
    sizes = ["--scale", "14", "--roots", "2", "--runs", "3", "--vertices", "100000"] if quick else [
        "--scale", "18", "--roots", "8", "--runs", "5"]
    output = run([str(PROGRAM), "--json", "--validate", "--node", node, *sizes], 120,
                 env={**os.environ, "OCM_SOCKET": socket})
    found = lines(output)
    return {"lines": found, "searches": [_search(line) for line in found if line["graph"] == "kron"],
            "phases": [_phases(line) for line in found if line["graph"] == "shoc"]}


def lines(output: str) -> list[dict]:
    """What the program printed: a dict for each subject."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def _search(line: dict) -> dict:
    place = PLACES.get(line["place"], line["place"])
    return {"title": f"Kronecker {line['scale']}, {DIRECTIONS[line['direction']]}, {place}",
            "mteps": line["mteps_harmonic_mean"], "ms": line["seconds"]["median"] * 1e3, "place": line["place"],
            "ratio": line.get("ratio"), "moved_share": line.get("moved_share")}


def _phases(line: dict) -> dict:
    return {"title": f"SHOC, {line['vertices']:,} vertices, {PLACES.get(line['place'], line['place'])}",
            **{phase: found["median"] * 1e3 for phase, found in line["seconds"].items()}}
