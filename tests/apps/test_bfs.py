"""`oncilla-bfs` over three nodes of `ocm up`: its figures, its trees, and how it ends when it must."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
USAGE, NO_CLUSTER, NOT_FOUND, FULL, LOST = 2, 3, 4, 6, 8
DEADLINE_S = 120


def find(program: str, folder: str) -> str:
    """The path of a built program; the test is skipped where there is none."""
    base = pathlib.Path(os.environ.get("OCM_BIN_DIR", ROOT / "build" / "release"))
    for place in (base / program, base / folder / program):
        if place.is_file():
            return str(place)
    pytest.skip(f"{program} is not in {base}; build it or set OCM_BIN_DIR")


class Cluster:
    """Three nodes of 24 MiB, and the program under test on the first."""

    def __init__(self, folder: pathlib.Path):
        self.folder, self.ocm = folder, find("ocm", "cli")
        self.bfs = find("oncilla-bfs", "apps/bfs")
        self.environment = {**os.environ, "OCM_DAEMON": find("oncillad", "daemon")}
        up = subprocess.run([self.ocm, "up", "--nodes", "3", "--dram", "24MiB", "--dir", folder / "c", "--json"],
                            env=self.environment, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
        cluster = json.loads(up.stdout)
        self.pids = {node["name"]: node["pid"] for node in cluster["nodes"]}
        self.environment["OCM_SOCKET"] = cluster["socket"]

    def close(self) -> None:
        subprocess.run([self.ocm, "down", "--dir", self.folder / "c"], env=self.environment, capture_output=True,
                       timeout=DEADLINE_S, check=False)

    def start(self, *arguments: object) -> subprocess.Popen:
        return subprocess.Popen([self.bfs, *map(str, arguments)], env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess:
        done = subprocess.run([self.bfs, *map(str, arguments)], env=self.environment, capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        assert done.returncode == code, f"{arguments} gave {done.returncode}: {done.stdout} {done.stderr}"
        return done

    def lines(self, *arguments: object) -> list[dict]:
        return [json.loads(line) for line in self.run(*arguments, "--json").stdout.splitlines()]


@contextlib.contextmanager
def started():
    """Socket paths are short, so not below pytest's own folder."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ocmbfs-", dir="/tmp"))
    cluster = None
    try:
        cluster = Cluster(folder)
        yield cluster
    finally:
        if cluster:
            cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def shared():
    with started() as cluster:
        yield cluster


@pytest.fixture
def cluster():
    with started() as cluster:
        yield cluster


def other_nodes(cluster: Cluster) -> list[str]:
    return list(cluster.pids)[1:]


def test_kronecker_is_valid_everywhere_and_moves_few_edges(shared):
    lines = shared.lines("--graph", "kron", "--scale", 14, "--roots", 4, "--validate", "--fabric", "tcp")
    assert [(line["direction"], line["place"]) for line in lines] == [
        (direction, place) for direction in ("top-down", "optimising") for place in ("arrays", "local", "remote")]
    for line in lines:
        assert line["validated"] == line["roots"] == 4
        assert line["mteps_harmonic_mean"] > 0
    down, optimising = (next(line for line in lines if line["direction"] == direction and line["place"] == "remote")
                        for direction in ("top-down", "optimising"))
    assert 0.5 < down["moved_share"] < 1.5
    assert 0 < optimising["moved_share"] <= optimising["moved_share_max"]
    assert optimising["ratio_max"] == 2 and down["ratio_max"] == 1.6


def test_shoc_has_the_phases_of_the_documents(shared):
    lines = shared.lines("--graph", "shoc", "--vertices", 20000, "--runs", 3, "--validate")
    assert [line["place"] for line in lines] == ["arrays", "local", "remote"]
    for line in lines:
        assert list(line["seconds"]) == ["initialisation", "transfer", "kernel", "teardown", "total"]
        assert all(each["min"] > 0 for each in line["seconds"].values())
    assert lines[2]["ratio_max"] == 1.3 and "ratio" not in lines[0]


def test_edges_striped_over_named_nodes(shared):
    lines = shared.lines("--graph", "kron", "--scale", 12, "--roots", 2, "--validate", "--place", "remote",
                         "--node", ",".join(other_nodes(shared)), "--direction", "optimising")
    assert [line["place"] for line in lines] == ["arrays", "striped"]
    assert all(line["validated"] == 2 for line in lines)


def test_a_table_for_people(shared):
    out = shared.run("--graph", "kron", "--scale", 10, "--roots", 1, "--place", "remote").stdout
    assert re.search(r"top-down +remote +[\d.]+ +\d+", out), out


def test_errors_say_what_and_where(shared):
    full = shared.run("--graph", "kron", "--scale", 19, "--roots", 1, "--place", "remote", code=FULL)
    assert full.stderr.startswith("oncilla-bfs: POOL_FULL: "), full.stderr
    unknown = shared.run("--graph", "kron", "--scale", 10, "--node", "nobody", "--place", "remote", code=NOT_FOUND)
    assert "nobody" in unknown.stderr
    shared.run("--graph", "cube", code=USAGE)
    shared.run("--embedded", "--place", "remote", code=USAGE)


def test_without_a_cluster(tmp_path):
    bfs = find("oncilla-bfs", "apps/bfs")
    environment = {**os.environ, "OCM_SOCKET": str(tmp_path / "none.sock")}
    small = ["--graph", "kron", "--scale", "10", "--roots", "1"]
    lost = subprocess.run([bfs, *small], env=environment, capture_output=True, text=True, timeout=DEADLINE_S,
                          check=False)
    assert lost.returncode == NO_CLUSTER and lost.stderr.startswith("oncilla-bfs: NO_DAEMON: "), lost
    for alone in (["--embedded"], ["--place", "none"]):
        done = subprocess.run([bfs, *small, *alone, "--validate"], env=environment, capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        assert done.returncode == 0, done.stderr


def test_a_node_that_dies_in_a_search_is_an_error(cluster):
    victim = other_nodes(cluster)[0]
    program = cluster.start("--graph", "kron", "--scale", 14, "--roots", 4096, "--place", "remote", "--node", victim,
                            "--direction", "topdown")
    try:
        end = time.monotonic() + DEADLINE_S
        while not used_bytes(cluster, victim) and time.monotonic() < end and program.poll() is None:
            time.sleep(0.05)
        assert program.poll() is None, program.communicate()
        os.kill(cluster.pids[victim], signal.SIGKILL)
        out, error = program.communicate(timeout=DEADLINE_S)
    finally:
        program.kill()
        program.wait()
    assert program.returncode == LOST, (program.returncode, out, error)
    assert error.startswith("oncilla-bfs: PEER_LOST: ") and victim in error, error
    assert len(error.splitlines()) == 1, error


def used_bytes(cluster: Cluster, node: str) -> int:
    """What the node has in use: the edges are there, and searches follow at once."""
    out = subprocess.run([cluster.ocm, "status", "--json"], env=cluster.environment, capture_output=True, text=True,
                         timeout=DEADLINE_S, check=True)
    nodes = json.loads(out.stdout)["nodes"]
    return next(each for each in nodes if each["name"] == node)["pools"]["dram"]["bytes_used"]
