"""`warehouse` on three real nodes: every query in both forms, here and elsewhere, and what it says when things fail."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cluster"))
BINARIES = pathlib.Path(os.environ.setdefault("OCM_BIN_DIR", str(ROOT / "build/release")))
WAREHOUSE = BINARIES / "apps/warehouse/warehouse"

from harness import Cluster, Node, wait_for  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not WAREHOUSE.exists(), reason="the build skipped apps/warehouse: build/venv has no duckdb"),
    pytest.mark.timeout(180),
]
QUERIES = ["select", "join", "A", "B", "C", "Q1", "Q6"]
CHUNK_ROWS = 50_000
PLACES = {"local": "local", "remote": "remote", "packed": "remote"}  # prefix: --place


def command(node: Node, *arguments: object) -> list[str]:
    verb, *rest = map(str, arguments)
    return [str(WAREHOUSE), verb, "--socket", str(node.socket_path), "--threads", "2", *rest]


def warehouse(node: Node, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(node, *arguments), capture_output=True, text=True, timeout=120)


def lines(done: subprocess.CompletedProcess[str]) -> list[dict]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def names(node: Node) -> list[str]:
    listed = subprocess.run([str(BINARIES / "cli/ocm"), "--socket", str(node.socket_path), "ls", "--json"],
                            capture_output=True, text=True, timeout=30, check=True)
    return [each["name"] for each in json.loads(listed.stdout)]


def parquet(folder: pathlib.Path, scale: float) -> pathlib.Path:
    generator = pathlib.Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run([generator, "parquet", "-s", str(scale), "--tables", "lineitem,orders,customer", "--output-dir",
                    folder], check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> pathlib.Path:
    """TPC-H at scale factor 0.05: 300,000 rows of lineitem."""
    return parquet(tmp_path_factory.mktemp("tpch"), 0.05)


@pytest.fixture
def make_cluster():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ocm-wh-"))  # short: a socket's path has 107 bytes
    made: list[Cluster] = []

    def make(dram: int = 256 << 20) -> Cluster:
        made.append(Cluster(folder / str(len(made)), dram=dram))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(data):
    """Three nodes with the tables on n1 (prefix local-) and on the two others (prefixes remote- and packed-)."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ocm-wh-"))
    nodes = Cluster(folder)
    try:
        for place, options in (("local", []), ("remote", []), ("packed", ["--packed"])):
            lines(warehouse(nodes["n1"], "load", "--parquet", data, "--place", PLACES[place], "--prefix", f"{place}-",
                            "--chunk-rows", CHUNK_ROWS, "--json", *options))
        yield nodes
    finally:
        nodes.close()
        shutil.rmtree(folder, ignore_errors=True)


# ------------------------------------------------------------------ answers

@pytest.mark.parametrize("prefix, place", PLACES.items())
def test_every_query_in_both_forms_gives_the_engines_answer(cluster, data, prefix, place):
    before = names(cluster["n1"])
    outcomes = lines(warehouse(cluster["n1"], "run", "--prefix", f"{prefix}-", "--place", place, "--check", data,
                               "--rounds", 2, "--chunk-rows", CHUNK_ROWS, "--json"))
    assert [(o["query"], o["form"]) for o in outcomes] == [(q, f) for q in QUERIES for f in ("fused", "non-fused")]
    for outcome in outcomes:
        what = f"{outcome['query']} {outcome['form']}"
        assert outcome["place"] == place
        assert set(outcome["held_against"]) == {"parquet", "non-fused" if outcome["form"] == "fused" else "fused"}, what
        assert outcome["bytes_read"] > 0, what
        assert outcome["total_ms"]["min"] > 0, what
        assert (outcome["bytes_written"] > 0) == (outcome["form"] == "non-fused"), what
        assert ("alone" in outcome) == (outcome["form"] == "fused"), what
        if place == "local":
            assert outcome["bytes_needed"] == outcome["bytes_moved"] == 0, what
        else:
            assert outcome["bytes_needed"] == outcome["bytes_read"], what
            assert outcome["bytes_needed"] <= outcome["bytes_moved"] <= 1.01 * outcome["bytes_needed"], what
    assert names(cluster["n1"]) == before, "operators' tables were left behind"


def test_load_tells_rows_and_nodes(cluster, data):
    loaded = lines(warehouse(cluster["n1"], "load", "--parquet", data, "--tables", "orders", "--prefix", "told-",
                             "--nodes", "n3", "--chunk-rows", CHUNK_ROWS, "--json"))
    assert [(t["table"], t["rows"], t["groups"], t["nodes"]) for t in loaded] == [("told-orders", 75_000, 2, ["n3"])]


def test_chunk_sizes_are_measured_and_shown(cluster):
    said = lines(warehouse(cluster["n1"], "run", "--prefix", "remote-", "--queries", "A", "--rounds", 1, "--json"))
    reading, chunks, fused, stepped = said
    assert (reading["tuning"], chunks["tuning"]) == ("reading", "chunk_rows")
    assert len(reading["points"]) > 1 and len(chunks["points"]) > 1
    best = chunks["points"][chunks["chosen"]]
    assert best["ms"] <= 1.05 * min(point["ms"] for point in chunks["points"])
    assert stepped["chunk_rows"] == best["chunk_rows"]
    assert fused["prefetch_groups"] == reading["points"][reading["chosen"]]["prefetch_groups"]


def test_people_get_tables(cluster):
    done = warehouse(cluster["n1"], "run", "--prefix", "remote-", "--queries", "Q6,join", "--rounds", 1)
    assert done.returncode == 0, done.stderr
    for word in ("transfer ms", "compute ms", "total ms", "<- chosen", "non-fused", "Q6", "join"):
        assert word in done.stdout


# ------------------------------------------------------------------ what cannot be done is said

def test_a_wrong_answer_is_told_and_exits_1(cluster, tmp_path):
    done = warehouse(cluster["n1"], "run", "--prefix", "local-", "--queries", "select", "--check",
                     parquet(tmp_path, 0.01), "--chunk-rows", CHUNK_ROWS)
    assert done.returncode == 1
    assert "query select: row 1, column 1 of the answer is" in done.stderr


@pytest.mark.parametrize("arguments, code, says", [
    (["run", "--prefix", "remote-", "--place", "local"], 2, ["remote-lineitem", "n2", "--place local"]),
    (["run", "--prefix", "none-"], 4, ["none-lineitem"]),
    (["run", "--queries", "Q2"], 2, ["Q2", "select, join"]),
    (["run", "--prefix", "local-", "--check", "/nowhere"], 4, ["/nowhere", "tpchgen-cli"]),
    (["load", "--parquet", "/nowhere"], 4, ["/nowhere", "tpchgen-cli"]),
    (["run", "--engine", "/nowhere/libduckdb.so"], 4, ["/nowhere/libduckdb.so"]),
])
def test_errors_name_what_is_wrong(cluster, arguments, code, says):
    done = warehouse(cluster["n1"], *arguments)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("warehouse: ") and len(done.stderr.splitlines()) == 1
    for word in says:
        assert word in done.stderr


def test_a_name_that_is_taken_needs_replace(cluster, data):
    again = ["load", "--parquet", data, "--tables", "customer", "--prefix", "twice-", "--chunk-rows", CHUNK_ROWS]
    assert warehouse(cluster["n1"], *again).returncode == 0
    done = warehouse(cluster["n1"], *again)
    assert done.returncode == 5 and "twice-customer" in done.stderr
    assert warehouse(cluster["n1"], *again, "--replace").returncode == 0


def test_no_daemon_says_how_to_start_one(tmp_path):
    done = subprocess.run([WAREHOUSE, "run", "--socket", tmp_path / "none.sock"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 3 and "ocm up" in done.stderr


def test_a_table_larger_than_the_memory_leaves_nothing(make_cluster, data):
    small = make_cluster(dram=8 << 20)
    done = warehouse(small["n1"], "load", "--parquet", data, "--tables", "lineitem", "--chunk-rows", CHUNK_ROWS)
    assert done.returncode == 6, done.stderr
    assert "lineitem" in done.stderr
    assert names(small["n1"]) == []


# ------------------------------------------------------------------ bad luck

def test_a_killed_node_is_an_error_with_table_and_node(make_cluster, data):
    cluster = make_cluster()
    node = cluster["n1"]
    lines(warehouse(node, "load", "--parquet", data, "--nodes", "n3", "--chunk-rows", CHUNK_ROWS, "--json"))
    cluster["n3"].kill()
    done = warehouse(node, "run", "--queries", "Q6", "--chunk-rows", CHUNK_ROWS)
    assert done.returncode == 8, done.stderr
    assert "lineitem" in done.stderr and "n3" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_node_killed_during_a_run_ends_it_cleanly(make_cluster, data):
    cluster = make_cluster()
    node = cluster["n1"]
    lines(warehouse(node, "load", "--parquet", data, "--nodes", "n3", "--chunk-rows", CHUNK_ROWS, "--json"))
    before = names(node)
    with subprocess.Popen(command(node, "run", "--rounds", 1000, "--fused", "no", "--queries", "A",
                                  "--chunk-rows", CHUNK_ROWS),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        wait_for("an operator has written", lambda: len(names(node)) > len(before))
        cluster["n3"].kill()
        _, said = running.communicate(timeout=60)
    assert running.returncode == 8, said
    assert "query A: table " in said and "n3" in said  # lineitem, or one that an operator wrote
    assert names(node) == before


def test_ctrl_c_leaves_no_table_of_an_operator(cluster):
    node = cluster["n1"]
    before = names(node)
    with subprocess.Popen(command(node, "run", "--rounds", 1000, "--fused", "no", "--prefix", "remote-",
                                  "--chunk-rows", CHUNK_ROWS),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        wait_for("an operator has written", lambda: len(names(node)) > len(before))
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)
    assert running.returncode == 130
    assert names(node) == before


def test_ctrl_c_in_a_load_leaves_no_table(make_cluster, data):
    node = make_cluster()["n1"]
    with subprocess.Popen(command(node, "load", "--parquet", data, "--tables", "lineitem", "--chunk-rows", 1024),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        time.sleep(0.1)  # anywhere in it; where it was too late, the table is there
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)
    assert (running.returncode, names(node)) in [(130, []), (-signal.SIGINT, []), (0, ["lineitem"])]
