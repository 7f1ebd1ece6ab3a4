"""Programs of the 2013 interface on three nodes: compiled as outside ones, run, and what they leave."""
import os
import pathlib
import signal
import subprocess

import pytest

from harness import HERE, Cluster, wait_for
from ocmlib import find_binary

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "api" / "programs"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder, library = tmp_path_factory.mktemp("programs"), find_binary("libocm.so").parent
    built = {}

    def build(name: str) -> pathlib.Path:
        if name not in built:
            source = next(p for p in (PROGRAMS / f"{name}.c", PROGRAMS.parent / f"{name}.c", HERE / f"{name}.c")
                          if p.exists())
            built[name] = folder / name
            subprocess.run(["cc", "-DINFINIBAND", f"-I{ROOT}/include/oncilla", source, "-o", built[name],
                            f"-L{library}", f"-Wl,-rpath,{library}", "-locm", "-lm"], check=True, timeout=60)
        return built[name]
    return build


def run(program: pathlib.Path, node, *arguments, **environment):
    env = {**os.environ, "OCM_NO_EMBEDDED": "1", "OCM_SOCKET": str(node.socket_path), **environment}
    return subprocess.run([program, *arguments], env=env, capture_output=True, text=True, timeout=100)


@pytest.fixture(scope="module")
def idle(shared):
    """What is in use before the first program."""
    return used_bytes(shared)


def used_bytes(cluster: Cluster) -> dict:
    program = cluster.program(cluster["n1"])
    try:
        return {name: node["used"] for name, node in program.nodes().items()}
    finally:
        program.close()


@pytest.mark.parametrize("name", ["oncillamem_test", "alloc_copy", "read_write", "bfs_stream", "many_allocations",
                                  "threads", "fork", "no_cleanup"])
def test_a_program_of_2013_runs_and_leaves_nothing(shared, idle, compiled, name):
    result = run(compiled(name), shared["n2"])
    assert result.returncode == 0, result.stdout + result.stderr
    wait_for("its memory is back", lambda: used_bytes(shared) == idle, 3)


def test_a_killed_program_leaves_nothing_and_held_memory_elsewhere(shared, idle, compiled):
    wait_for("the programs before it are gone", lambda: used_bytes(shared) == idle, 3)
    env = {**os.environ, "OCM_NO_EMBEDDED": "1", "OCM_SOCKET": str(shared["n2"].socket_path)}
    process = subprocess.Popen([compiled("no_cleanup"), "stay"], env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "holding\n"
        wait_for("8 MiB are taken from another node",
                 lambda: sum(now - idle[name] for name, now in used_bytes(shared).items() if name != "n2") >= 8 << 20)
        assert used_bytes(shared)["n2"] == idle["n2"]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        process.stdout.close()
    wait_for("its memory is back", lambda: used_bytes(shared) == idle, 3)


def test_programs_at_once_on_every_node(shared, compiled):
    program = compiled("many_allocations")
    env = {**os.environ, "OCM_NO_EMBEDDED": "1", "OCM_QUIET": "1"}
    running = [subprocess.Popen([program, "100"], env={**env, "OCM_SOCKET": str(node.socket_path)},
                                stdout=subprocess.PIPE, text=True) for node in shared.nodes for _ in range(2)]
    outputs = [process.communicate(timeout=100)[0] for process in running]
    assert [process.returncode for process in running] == [0] * len(running), outputs


def test_a_node_alone_serves_remote_kinds_itself(make_cluster, compiled):
    alone = make_cluster(names=("n1",))
    for name in ("oncillamem_test", "alloc_copy"):
        result = run(compiled(name), alone["n1"])
        assert result.returncode == 0, result.stdout + result.stderr


def test_without_a_daemon_init_fails_if_embedding_is_not_wanted(tmp_path, compiled, shared):
    result = run(compiled("alloc_copy"), shared["n1"], OCM_SOCKET=str(tmp_path / "none.sock"))
    assert result.returncode == 1
    assert "ocm_init: NO_DAEMON" in result.stderr


def test_a_lost_node_is_an_error_in_time_and_local_memory_goes_on(cluster, compiled):
    env = {**os.environ, "OCM_NO_EMBEDDED": "1", "OCM_QUIET": "1", "OCM_SOCKET": str(cluster["n1"].socket_path)}
    process = subprocess.Popen([compiled("oncillamem_peer_lost")], env=env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        cluster["n2"].kill()
        cluster["n3"].kill()
        answer, _ = process.communicate("go\n", timeout=20)
        assert int(answer) in (-40, -23, -25), "PEER_LOST, REVOKED or LOST"  # as oncilla.h numbers them
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait(10)
