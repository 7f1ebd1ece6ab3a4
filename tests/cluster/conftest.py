"""Fixtures: a shared loopback cluster for tests that break nothing, a fresh one for those that do."""
import functools
import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import Cluster, remove_busy_namespaces  # noqa: E402

# A run that is told to end still removes its daemons and namespaces.
signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=143))


def pytest_sessionfinish():
    remove_busy_namespaces()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed and call.when == "call":
        for value in item.funcargs.values():
            made = getattr(value, "made", None)  # of what makes them
            for cluster in [value] if isinstance(value, Cluster) else made if isinstance(made, list) else []:
                for node in cluster.nodes:
                    report.sections.append((f"log of {node.name}", node.log()))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("shared"))
    yield cluster
    cluster.close()


class Clusters:
    """Makes clusters, each in a folder of its own."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.made: list[Cluster] = []

    def __call__(self, **kwargs) -> Cluster:
        self.made.append(Cluster(self.folder / f"cluster{len(self.made)}", **kwargs))
        return self.made[-1]


@pytest.fixture
def make_cluster(tmp_path):
    make = Clusters(tmp_path)
    yield make
    for cluster in make.made:
        cluster.close()


@pytest.fixture
def cluster(make_cluster):
    return make_cluster()


@pytest.fixture
def make_netns_cluster(make_cluster):
    """The same, each node in a network namespace of its own."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    return functools.partial(make_cluster, namespaces=True)


@pytest.fixture
def netns_cluster(make_netns_cluster):
    return make_netns_cluster()
