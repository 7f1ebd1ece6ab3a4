"""The benchmarks start, and what they measure of ours answers. What is measured stands in no test."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from oncilla_bench import cluster as bench_cluster  # noqa: E402
from oncilla_bench import network  # noqa: E402


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    bench_cluster.paths.WORK = tmp_path_factory.mktemp("bench")
    cluster = bench_cluster.Cluster(network.Loopback())
    yield cluster
    cluster.close()


@pytest.mark.parametrize("mode", ["shm", "tcp", "slab", "alloc", "attach"])
def test_ours_is_measured(measured, mode):
    results = measured.bench(mode, (64,), 0.001)
    assert results and all(result["us"] > 0 for result in results)
