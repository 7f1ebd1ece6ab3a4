"""Fixtures: three real nodes on loopback for tests that break nothing, fresh clusters for those that do, and
sessions with them.

Sockets lie in a short private folder, ports are the kernel's choice, and daemons die with the test run.
"""
from __future__ import annotations

import os
import pathlib
import shutil
import signal
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(os.environ.get("OCM_PYTHON_DIR", ROOT / "build/release/python"))
sys.path.insert(0, str(ROOT / "tests/cluster"))
sys.path.insert(0, str(PACKAGE))
# Programs that a test starts find the package too.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(PACKAGE), os.environ.get("PYTHONPATH"))))
os.environ.setdefault("OCM_BIN_DIR", str(ROOT / "build/release"))
os.environ["ONCILLA_LEAK_WARNINGS"] = "1"

from harness import Cluster, Node, wait_for  # noqa: E402

# A run that is told to end still removes its daemons.
signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=143))

BUDGET_BYTES = 512 << 20


class LocalCluster(Cluster):
    """Nodes n1, n2, ... on loopback, the first of them the coordinator.

    `budgets` is one number of bytes for each node. `cluster["n2"].kill()` is a sudden death, `.stop()` a clean
    end, `.signal(SIGSTOP)` a node that stands still; `.socket_path` is what `oncilla.connect` wants.
    """

    def __init__(self, directory: pathlib.Path, budgets: list[int], extra: tuple[str, ...] = ()):
        super().__init__(directory, names=[f"n{i + 1}" for i in range(len(budgets))], extra=extra, start=False)
        budget_of = dict(zip((node.name for node in self.nodes), budgets))
        self.start_all(lambda node: self.start_node(node, budget_of[node.name]))

    def wait_members(self, count: int | None = None, at: Node | None = None) -> None:
        """Waits until `count` nodes (None: all) are alive in the eyes of node `at` (None: the last)."""
        import oncilla
        wanted = count or len(self.nodes)
        with oncilla.connect((at or self.nodes[-1]).socket_path) as session:
            wait_for(f"{wanted} nodes alive",
                     lambda: sum(node.state == "alive" for node in session.nodes()) == wanted)

    def start_node(self, node: Node, budget_bytes: int) -> Node:
        """Starts the node's daemon, at first or again; call `node.wait_ready()` then."""
        self.dram = budget_bytes
        die_with_us = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
        return node.start(prefix=die_with_us)


class Clusters:
    """Makes clusters and removes them with their folders."""

    def __init__(self) -> None:
        self._made: list[LocalCluster] = []
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="ocm-py-"))  # short: a socket's path has 107 bytes

    def __call__(self, budgets: int | list[int] = 3, *, budget: int = BUDGET_BYTES,
                 extra: tuple[str, ...] = ()) -> LocalCluster:
        """A cluster of `budgets` nodes of `budget` bytes each, or of nodes with the listed budgets."""
        sizes = [budget] * budgets if isinstance(budgets, int) else list(budgets)
        self._made.append(LocalCluster(self._folder / str(len(self._made)), sizes, extra))
        return self._made[-1]

    def close(self) -> None:
        for cluster in self._made:
            cluster.close()
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed and call.when == "call":
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Cluster):
                for node in value.nodes:
                    report.sections.append((f"log of {node.name}", node.log()))


@pytest.fixture(scope="session")
def cluster():
    """Three nodes that every test shares: kill none of them, publish under names of your own."""
    clusters = Clusters()
    try:
        yield clusters(3)
    finally:
        clusters.close()


@pytest.fixture
def make_cluster():
    """`make_cluster(3, budget=64 << 20)` or `make_cluster([32 << 20, 8 << 20])`: clusters that may be broken."""
    clusters = Clusters()
    try:
        yield clusters
    finally:
        clusters.close()


@pytest.fixture
def session(cluster):
    """A session with node n1 of the shared cluster."""
    import oncilla
    with oncilla.connect(cluster["n1"].socket_path) as session:
        yield session


@pytest.fixture
def embedded():
    """A session with a node inside this process."""
    import oncilla
    with oncilla.connect(embedded=True, embedded_bytes=BUDGET_BYTES) as session:
        yield session
