"""`make demo` in its quick form: what it prints, what it writes, and that it leaves nothing running."""
from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from conftest import PACKAGE, ROOT, Demo, daemons
from demo import queries


@pytest.fixture(scope="module")
def quick(folder: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    demo = Demo(folder, tmp_path_factory.mktemp("report"), "--quick")
    demo.output = demo.finish()
    assert demo.process.returncode == 0, demo.output
    return demo


@pytest.fixture(scope="module")
def results(quick: Demo) -> dict:
    return json.loads((quick.report / "results.json").read_text())


def test_it_leaves_nothing_running(quick: Demo) -> None:
    assert quick.left() == (set(), [])


def test_without_a_terminal_it_prints_plain_lines(quick: Demo) -> None:
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", quick.output)


def test_every_act_was_played(quick: Demo, results: dict) -> None:
    titles = [act["title"] for act in results["acts"]]
    assert titles == ["TPC-H data", "3 nodes", "Tables into their memory", "Queries from everywhere",
                      "Fused and operator by operator", "Another engine", "A second process", "A node dies",
                      "Breadth-first search", "Memory larger than memory"]
    assert [line.split("  ")[1] for line in quick.output.splitlines()
            if re.match(r"\d+  ", line)][:len(titles)] == titles


def test_no_node_has_room_for_the_data(results: dict) -> None:
    found = results["placement"]
    assert all(node["used_bytes"] <= node["budget_bytes"] < found["data_bytes"] for node in found["nodes"])
    placed = {table["name"]: table for table in found["tables"]}
    assert len(placed) == 8
    assert len(placed["lineitem"]["by_node"]) == 3
    assert placed["orders"]["replicas"] == 2
    for table in placed.values():
        assert sum(table["by_node"].values()) >= table["bytes"] * table["replicas"]


def test_every_query_was_answered_from_every_source(results: dict) -> None:
    assert results["skipped"] == {}
    keys = {"cold", "cached", "process", "local", "remote", "again", "spread"}
    assert {source["key"] for source in results["sources"]} == keys
    for query in results["queries"]:
        assert set(query["cells"]) == keys
        assert query["cells"]["local"]["moved_bytes"] == 0
        assert query["cells"]["again"]["moved_bytes"] == 0
        assert query["needed_bytes"] > 0
        moved = query["cells"]["remote"]["moved_bytes"]
        assert query["needed_bytes"] <= moved <= query["needed_bytes"] * 1.01, query["name"]
    assert results["run"]["checks"] >= 2 * 7 * 7


def test_operators_write_what_the_pipeline_does_not(results: dict) -> None:
    assert [query["name"] for query in results["fusion"]] == [query.name for query in queries.STEPPED]
    assert all(query[where]["written_bytes"] > 0 for query in results["fusion"] for where in ("local", "remote"))


def test_the_error_names_the_table_and_the_node(results: dict) -> None:
    failure = results["failure"]
    assert failure["table"] in failure["error"] and failure["node"] in failure["error"]
    assert failure["code"] in ("PEER_LOST", "LOST")
    assert failure["rows_kept"] == 150_000


def test_pointers_of_two_nodes_saw_one_array(results: dict) -> None:
    found = results["outofcore"]
    assert found["array_bytes"] == 2 * found["cache_bytes"]
    assert found["checks"] == (4 if found["skipped"] else 8)
    assert all(step["cluster_s"] > 0 for step in found["steps"])
    first, second = found["caches"]
    assert second["pages_from_home"] + second["pages_from_other"] > 0 and first["device_reads"] > 0
    assert all(0 < cache["hits"] <= cache["accesses"] and cache["pages_lost"] == 0 for cache in found["caches"])


def test_the_report_needs_nothing_else(quick: Demo, results: dict) -> None:
    page = (quick.report / "report.html").read_text()
    assert str(quick.report / "report.html") in quick.output
    assert not re.search(r"(src|href)\s*=\s*['\"]?(?!#)", re.sub(r"xlink:href=\"#", "", page))
    assert "{plot:" not in page
    for section in ("placement", "queries", "fusion", "engines", "second", "failure", "bfs", "outofcore", "load",
                    "acts"):
        assert f"<section id={section}>" in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)), "plots share ids"
    for name in ("placement", "queries", "moved", "fusion", "load", "bfs", "outofcore", "acts"):
        for path in (quick.report / f"{name}.png", quick.report / f"{name}-dark.png"):
            assert path.read_bytes().startswith(b"\x89PNG\r\n") and path.stat().st_size > 10_000


def test_interrupted_it_stops_its_cluster(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    demo = Demo(folder, tmp_path, "--quick")
    for line in demo.process.stdout:
        if line.startswith("3  "):  # the nodes run
            break
    os.kill(demo.process.pid, signal.SIGINT)
    assert "interrupted" in demo.finish()
    assert demo.process.returncode == 130
    assert demo.left() == (set(), [])


def test_a_missing_program_is_a_failure_that_says_what_to_do(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    demo = Demo(folder, tmp_path, "--quick", OCM_BIN_DIR=str(tmp_path))
    output = demo.finish()
    assert demo.process.returncode == 1
    assert "make build" in output and "Traceback" not in output


def test_kept_it_can_be_used_and_stopped(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    demo = Demo(folder, tmp_path, "--quick", "--keep")
    output = demo.finish()
    assert demo.process.returncode == 0, output
    stop = re.search(r"^  (\S+ down --dir (\S+))", output, re.M)
    socket = re.search(r"export OCM_SOCKET=(\S+)", output)[1]
    try:
        assert len(daemons(stop[2])) == 3
        used = subprocess.run(
            [sys.executable, "-c", "import duckdb, oncilla; lineitem = oncilla.connect().table('lineitem');"
             "print(duckdb.sql('select count(*) from lineitem').fetchall()[0][0])"],
            capture_output=True, text=True, timeout=60,
            env={**os.environ, "PYTHONPATH": str(PACKAGE), "OCM_SOCKET": socket}, cwd=ROOT)
        assert used.stdout.strip() == "600572", used.stderr
    finally:
        subprocess.run(stop[1].split(), check=True, timeout=60, capture_output=True)
    assert demo.left() == (set(), [])
