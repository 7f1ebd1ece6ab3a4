"""The command line: each command of `ocm`, its JSON, its errors and exit codes, over a cluster of `ocm up`."""
import contextlib
import json
import os
import pathlib
import pty
import random
import re
import select
import shutil
import signal
import stat
import subprocess
import tempfile
import time

import pytest

from harness import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAILURE, USAGE, NO_CLUSTER, NOT_FOUND, EXISTS, FULL, PERMISSION, INTERRUPTED = 1, 2, 3, 4, 5, 6, 7, 130
MIB = 1 << 20


def find(program: str, folder: str) -> str:
    base = pathlib.Path(os.environ.get("OCM_BIN_DIR", ROOT / "build" / "release"))
    for place in (base / program, base / folder / program):
        if place.is_file():
            return str(place)
    pytest.skip(f"{program} is not in {base}; build it or set OCM_BIN_DIR")


@contextlib.contextmanager
def short_folder():
    """Socket paths are short, so not below pytest's own folder."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ocmcli-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Ocm:
    up: dict  # what `ocm up` printed, where a fixture started a cluster

    def __init__(self, folder: pathlib.Path):
        self.program = find("ocm", "cli")
        self.folder = folder
        self.environment = {key: value for key, value in os.environ.items()
                            if key not in {"OCM_SOCKET", "OCM_HTTP", "NO_COLOR"}}
        self.environment |= {"OCM_DAEMON": find("oncillad", "daemon"), "XDG_RUNTIME_DIR": str(folder)}

    def __call__(self, *arguments, code=0, stdin=b"", timeout=60) -> str:
        done = subprocess.run([self.program, *map(str, arguments)], input=stdin, capture_output=True,
                              env=self.environment, timeout=timeout, check=False)
        self.error = done.stderr.decode()
        self.bytes = done.stdout
        assert done.returncode == code, f"{arguments} gave {done.returncode}: {done.stdout!r} {self.error}"
        if code not in {0, 1, INTERRUPTED}:
            assert self.error.startswith("ocm: "), self.error
        return done.stdout.decode(errors="replace")

    def json(self, *arguments, **options):
        return json.loads(self(*arguments, "--json", **options))


def daemons_of(folder: pathlib.Path) -> list[int]:
    """The daemons whose command line names the folder."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes().split(b"\0")
            if words[0].endswith(b"oncillad") and any(str(folder).encode() in word for word in words):
                found.append(int(entry.parent.name))
    return found


def has_ended(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


@pytest.fixture(scope="module")
def cluster():
    with short_folder() as folder:
        ocm = Ocm(folder)
        ocm.up = ocm.json("up", "--nodes", 3, "--dram", "256MiB")
        yield ocm
        ocm("down")
        assert daemons_of(folder) == []
        assert not (folder / "oncilla").exists()


@pytest.fixture
def ocm(cluster):
    """The shared cluster without names."""
    names = cluster("ls", "--null").split("\0")[:-1]
    if names:
        cluster("rm", "--", *names)
    return cluster


@pytest.fixture
def alone():
    """A folder of its own without a cluster."""
    with short_folder() as folder:
        yield Ocm(folder)
        for pid in daemons_of(folder):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def payload(tmp_path):
    path = tmp_path / "payload"
    path.write_bytes(random.Random(7).randbytes(20 * MIB + 4321))  # over two buffers, of no round length
    return path


# ---- up and down


def test_up_tells_where_the_nodes_are(cluster):
    assert [node["name"] for node in cluster.up["nodes"]] == ["node1", "node2", "node3"]
    assert cluster.up["socket"] == cluster.up["nodes"][0]["socket"]
    for node in cluster.up["nodes"]:
        assert pathlib.Path(node["socket"]).is_socket()
        assert pathlib.Path(node["log"]).stat().st_size > 0
        assert all(node[key].startswith("127.0.0.1:") for key in ("control", "data", "http"))


def test_up_keeps_its_folder_and_token_private(cluster):
    folder = pathlib.Path(cluster.up["directory"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600


def test_up_refuses_where_a_cluster_runs(cluster):
    cluster("up", code=EXISTS)
    assert "ocm down" in cluster.error
    assert cluster.json("status")["alive"] == 3


def test_up_refuses_a_folder_that_holds_other_files(alone):
    (alone.folder / "mine").write_text("precious")
    alone("up", "--dir", alone.folder, code=USAGE)
    assert (alone.folder / "mine").read_text() == "precious"


def test_up_takes_over_what_a_dead_cluster_left(alone):
    pids = [node["pid"] for node in alone.json("up")["nodes"]]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_for("they have ended", lambda: all(has_ended(pid) for pid in pids))
    again = alone("up")
    assert "export OCM_SOCKET=" in again
    alone("down")
    assert daemons_of(alone.folder) == []


def test_up_that_cannot_start_leaves_nothing_and_says_why(alone):
    (alone.folder / "bad.toml").write_text("[node]\nnmae = 'x'\n")
    alone("up", "--config", alone.folder / "bad.toml", code=1)
    assert "nmae" in alone.error
    assert not (alone.folder / "oncilla").exists()
    assert daemons_of(alone.folder) == []


def test_up_refuses_a_path_too_long_for_a_socket(alone):
    alone("up", "--dir", alone.folder / ("x" * 100), code=USAGE)
    assert "too long" in alone.error


def test_up_interrupted_leaves_nothing(alone):
    process = subprocess.Popen([alone.program, "up", "--nodes", "8"], env=alone.environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while not daemons_of(alone.folder) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    if process.wait(30) == 0:
        alone("down")  # it was up before the signal came
    assert daemons_of(alone.folder) == []
    assert not (alone.folder / "oncilla").exists()


@pytest.mark.parametrize("after_ms", range(2, 22, 2))
def test_down_finds_every_daemon_of_an_up_that_was_killed(alone, after_ms):
    process = subprocess.Popen([alone.program, "up", "--nodes", "3", "--dram", "64MiB"], env=alone.environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(after_ms / 1000)
    process.kill()
    process.wait()
    subprocess.run([alone.program, "down"], env=alone.environment, capture_output=True, timeout=60, check=False)
    wait_for("no daemon is left", lambda: daemons_of(alone.folder) == [])


def test_down_kills_a_daemon_that_does_not_end(alone):
    nodes = alone.json("up", "--nodes", 2)["nodes"]
    os.kill(nodes[1]["pid"], signal.SIGSTOP)
    alone("down", "--grace", "0.5")
    assert "killed" in alone.error
    assert daemons_of(alone.folder) == []
    assert not (alone.folder / "oncilla").exists()


def test_down_without_a_cluster_says_so(alone):
    alone("down", code=NOT_FOUND)
    assert "ocm up" in alone.error


# ---- status, ls, alloc, rm


def test_status_counts_nodes_and_bytes(ocm):
    before = ocm.json("status")
    assert before["alive"] == 3 and len(before["nodes"]) == 3
    assert sum(node["coordinator"] for node in before["nodes"]) == 1
    assert sum(node["self"] for node in before["nodes"]) == 1
    assert before["nodes"][0]["pools"]["dram"]["bytes_total"] == 256 * MIB
    assert before["names"] == 0
    ocm("alloc", "counted", "8MiB")
    assert ocm.json("status")["names"] == 1
    assert "3 of 3 nodes alive" in ocm("status")


def test_alloc_stripes_over_the_named_nodes(ocm):
    made = ocm.json("alloc", "striped", "8MiB", "--layout", "striped", "--chunk", "64KiB", "--nodes", "node2,node3")
    assert [extent["node"] for extent in made["extents"]] == ["node2", "node3"]
    assert [extent["bytes"] for extent in made["extents"]] == [4 * MIB, 4 * MIB]
    [listed] = ocm.json("ls")
    assert listed | {"owner_uid": os.getuid(), "mode": 0o600} == listed
    assert (listed["bytes"], listed["layout"], listed["extents"], listed["lost"]) == (8 * MIB, "striped", 2, False)


def test_alloc_replicates(ocm):
    made = ocm.json("alloc", "copies", "1MiB", "--layout", "replicated", "--extents", 3, "--mode", "0604")
    assert len({extent["node"] for extent in made["extents"]}) == 3
    assert "rwr-" in ocm("ls")


@pytest.mark.parametrize("arguments,code,says", [
    (["big", "100GiB"], FULL, "node"),
    (["x", "1MiB", "--nodes", "nowhere"], NOT_FOUND, "nowhere"),
    (["x", "0"], USAGE, "0"),
    (["x", "much"], USAGE, "64MiB"),
    (["x", "1MiB", "--mode", "0777"], USAGE, "0600"),
    (["x", "1MiB", "--layout", "round"], USAGE, "striped"),
    (["x", "1MiB", "--kind", "gpu"], 1, "gpu"),
    (["a/b", "1MiB"], USAGE, ""),
    (["x" * 256, "1MiB"], USAGE, "255"),
    (["x"], USAGE, "--help"),
])
def test_alloc_errors_say_what_to_do(ocm, arguments, code, says):
    ocm("alloc", *arguments, code=code)
    assert says in ocm.error
    assert ocm.json("ls") == []


def test_alloc_refuses_a_taken_name_and_gives_the_memory_back(ocm):
    ocm("alloc", "taken", "4MiB")
    used = ocm.json("top", "--once", "--interval", "0.05")["nodes"]
    ocm("alloc", "taken", "4MiB", code=EXISTS)
    after = ocm.json("top", "--once", "--interval", "0.05")["nodes"]
    assert sum(node["bytes_used"] for node in after) == sum(node["bytes_used"] for node in used)


def test_ls_lists_by_prefix(ocm):
    for name in ("a1", "a2", "b1"):
        ocm("alloc", name, "64KiB")
    assert ocm("ls", "--quiet").split() == ["a1", "a2", "b1"]
    assert ocm("ls", "--quiet", "a").split() == ["a1", "a2"]
    assert ocm.json("ls", "zzz") == []


def test_ls_shows_no_control_codes(ocm):
    ocm("alloc", "evil\x1b[31mname", "64KiB")
    assert "\x1b" not in ocm("ls")
    assert ocm.json("ls")[0]["name"] == "evil\x1b[31mname"


def test_errors_show_no_control_codes(ocm):
    evil = "evil\x1b]0;owned\x07\u202ename"
    ocm("rm", evil, code=NOT_FOUND)
    assert "evil?]0;owned??name" in ocm.error and "\x1b" not in ocm.error and "\u202e" not in ocm.error


def test_what_memory_is_not_enough_for_is_said_so(ocm):
    ocm("bench", "--sizes", "8TiB", code=FULL)
    assert "request less" in ocm.error


def test_in_place_and_replace_exclude_each_other(ocm, tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    ocm("put", tmp_path / "file", "name", "--in-place", "--replace", code=USAGE)
    assert "exclude each other" in ocm.error


def test_put_and_get_of_odd_files(ocm, tmp_path):
    ocm("put", "/proc/cpuinfo", "cpus")  # a file whose length is told as 0
    behind, link = tmp_path / "behind", tmp_path / "link"
    link.symlink_to("behind")
    ocm("get", "cpus", link)
    assert link.is_symlink() and behind.read_bytes().startswith(b"processor")
    circle = tmp_path / "circle"
    circle.symlink_to("circle")
    ocm("get", "cpus", circle, code=FAILURE)
    assert circle.is_symlink(), "what the system does not follow is left as it is"
    longest = tmp_path / ("n" * 250)
    ocm("get", "cpus", longest)
    assert longest.read_bytes() == behind.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir() if ".ocm-" in path.name) == []


def test_rm_goes_on_after_a_name_that_is_not_there(ocm):
    ocm("alloc", "here", "64KiB")
    ocm("rm", "gone", "here", code=NOT_FOUND)
    assert "gone" in ocm.error
    assert ocm.json("ls") == []
    ocm("rm", "--force", "gone")


# ---- put and get


@pytest.mark.parametrize("options", [[], ["--layout", "striped"], ["--layout", "replicated"], ["--nodes", "node3"],
                                     ["--layout", "striped", "--chunk", "64KiB", "--nodes", "node2,node3"]])
def test_a_file_comes_back_as_it_was(ocm, payload, tmp_path, options):
    ocm("put", payload, "file", *options)
    assert ocm.json("ls")[0]["bytes"] == payload.stat().st_size
    ocm("get", "file", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == payload.read_bytes()
    assert list(tmp_path.glob("back.*")) == []


def test_stdin_and_stdout(ocm, payload):
    ocm("put", "-", "piped", stdin=payload.read_bytes())
    ocm("get", "piped", "-")
    assert ocm.bytes == payload.read_bytes()


def test_put_replaces_bytes_and_keeps_the_place(ocm, payload, tmp_path):
    ocm("put", payload, "file", "--layout", "striped", "--nodes", "node2,node3", "--mode", "0604")
    other = tmp_path / "other"
    other.write_bytes(payload.read_bytes()[::-1])
    before = ocm.json("ls")
    ocm("put", other, "file")
    assert ocm.json("ls") == before
    ocm("get", "file", "-")
    assert ocm.bytes == other.read_bytes()


def test_put_in_place_needs_no_other_memory(ocm, tmp_path):
    big = tmp_path / "big"
    big.write_bytes(bytes(200 * MIB))
    ocm("put", big, "file", "--nodes", "node2")
    ocm("put", big, "file", code=FULL)
    assert "--in-place" in ocm.error
    big.write_bytes(b"\1" * (200 * MIB))
    ocm("put", "--in-place", big, "file")
    ocm("get", "file", "-")
    assert ocm.bytes == b"\1" * (200 * MIB)


def test_put_of_another_length_is_refused_unless_replacing(ocm, payload, tmp_path):
    ocm("put", payload, "file")
    small = tmp_path / "small"
    small.write_bytes(b"small")
    ocm("put", small, "file", code=EXISTS)
    assert "--replace" in ocm.error
    ocm("put", "--replace", small, "file")
    assert ocm("get", "file", "-") == "small"


def test_put_errors_leave_no_name(ocm, tmp_path):
    ocm("put", tmp_path / "absent", "x", code=NOT_FOUND)
    (tmp_path / "empty").touch()
    ocm("put", tmp_path / "empty", "x", code=USAGE)
    ocm("put", tmp_path, "x", code=USAGE)
    ocm("put", "-", "x", "--nodes", "nowhere", stdin=b"bytes", code=NOT_FOUND)
    ocm("put", "/dev/zero", "x", code=FULL)
    assert "/dev/zero" in ocm.error and "offers" in ocm.error
    assert ocm.json("ls") == []


def test_get_errors_leave_the_file_as_it_was(ocm, tmp_path):
    target = tmp_path / "kept"
    target.write_text("old")
    ocm("get", "absent", target, code=NOT_FOUND)
    assert target.read_text() == "old"
    ocm("put", "-", "x", stdin=b"new")
    ocm("get", "x", tmp_path / "no" / "folder", code=NOT_FOUND)
    ocm("get", "x", tmp_path, code=USAGE)
    ocm("get", "x", target)
    assert target.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept"]


def test_put_interrupted_leaves_no_name(ocm):
    process = subprocess.Popen([ocm.program, "put", "-", "half"], env=ocm.environment, stdin=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process.stdin.write(bytes(4 * MIB))
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) in {INTERRUPTED, -signal.SIGINT}
    process.stdin.close()
    assert ocm.json("ls") == []


@pytest.mark.parametrize("command", ["put", "get"])
def test_interrupted_while_it_waits_for_a_pipes_other_end(ocm, tmp_path, command):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ocm("alloc", "x", "4KiB")
    began = time.monotonic()
    process = subprocess.Popen([ocm.program, command, *([pipe, "x"] if command == "put" else ["x", pipe])],
                               env=ocm.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for("it opens the pipe", lambda: "wait_for_partner" in pathlib.Path(f"/proc/{process.pid}/wchan").read_text()
             or time.monotonic() > began + 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == INTERRUPTED, process.stderr.read()


def on_a_terminal(ocm, arguments: list[str], keys: bytes = b"", after: bytes = b"") -> tuple[int, str]:
    """Runs the command on a pseudo-terminal; sends the keys when it has printed `after`."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(ocm.program, [ocm.program, *arguments], ocm.environment | {"TERM": "xterm"})
    output = b""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if keys and after in output:
            os.write(terminal, keys)
            keys = b""
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break  # the other side ended
        if not piece:
            break
        output += piece
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), output.decode(errors="replace")


def test_progress_and_colours_are_for_terminals_only(ocm, payload):
    ocm("put", payload, "quiet")
    assert ocm.error == "" and ocm.bytes == b""
    code, output = on_a_terminal(ocm, ["put", str(payload), "shown"])
    assert code == 0 and "100 %" in output
    assert "\x1b[" not in ocm("status")
    assert "\x1b[32malive" in on_a_terminal(ocm, ["status"])[1]
    assert "\x1b[32malive" in ocm("--color", "always", "status")


# ---- top, bench, doctor, demo, completion


def test_top_once_shows_nodes(ocm):
    seen = ocm.json("top", "--once", "--interval", "0.1")
    assert [node["node"] for node in seen["nodes"]] == ["node1", "node2", "node3"]
    assert all(node["reached"] and node["bytes_total"] == 256 * MIB for node in seen["nodes"])
    assert "node3" in ocm("top", "--once", "--interval", "0.1")


def test_top_shows_a_session_and_its_rate(ocm):
    bench = subprocess.Popen([ocm.program, "bench", "--fabric", "tcp", "--sizes", "1MiB", "--seconds-each", "1.5"],
                             env=ocm.environment, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        best = 0
        while best == 0 and time.monotonic() < deadline:
            seen = ocm.json("top", "--once", "--interval", "0.3")
            sessions = [each for each in seen["sessions"] if each["pid"] == bench.pid]
            if sessions:
                best = sessions[0]["put_bytes_per_second"] + sessions[0]["get_bytes_per_second"]
        assert best > 1e6
        assert sessions[0]["program"] == "ocm" and sessions[0]["node"] == "node1"
    finally:
        bench.wait(60)


def test_top_ends_at_q(ocm):
    code, output = on_a_terminal(ocm, ["top", "--interval", "0.1"], keys=b"q", after=b"node3")
    assert code == 0
    assert output.endswith("\x1b[?1049l")  # the terminal is as it was


def test_top_says_where_it_looked(ocm):
    ocm("top", "--once", "--http", "127.0.0.1:1", code=8)
    assert "127.0.0.1:1" in ocm.error


def test_bench_measures_each_fabric_beside_the_limits(ocm, tmp_path):
    out = ocm.json("bench", "--fabric", "shm,tcp", "--sizes", "64,64KiB", "--seconds-each", "0.02")
    points = {(each["what"], each["direction"], each["bytes"]) for each in out["results"]}
    assert points == {(what, direction, size) for size in (64, 65536) for what, direction in [
        ("memcpy", "copy"), ("raw tcp", "put"), ("raw tcp", "get"), ("shm", "put"), ("shm", "get"), ("tcp", "put"),
        ("tcp", "get")]}
    assert all(0 < each["ns_min"] <= each["ns_median"] <= each["ns_max"] for each in out["results"])
    ocm("bench", "--fabric", "smoke", code=USAGE)
    assert "smoke is none of shm, tcp, ucx" in ocm.error
    ocm("alloc", "x", "1MiB", "--fabric", "fake", code=USAGE)  # for tests inside one process


def test_bench_plots_with_gnuplot_and_says_so_without(ocm, tmp_path):
    arguments = ["bench", "--fabric", "shm", "--sizes", "64,4KiB", "--seconds-each", "0.01", "--plot"]
    if shutil.which("gnuplot"):
        ocm(*arguments, tmp_path / "rates.png")
        assert (tmp_path / "rates.png").read_bytes().startswith(b"\x89PNG")
    with_path, ocm.environment["PATH"] = ocm.environment["PATH"], str(tmp_path)
    try:
        ocm(*arguments, tmp_path / "none.png", code=NOT_FOUND)
        assert "gnuplot-nox" in ocm.error
    finally:
        ocm.environment["PATH"] = with_path


def test_doctor_finds_a_sound_cluster(ocm):
    seen = ocm.json("doctor")
    assert seen["ok"], seen
    verdicts = {check["check"]: check["verdict"] for check in seen["checks"]}
    assert {"open files", "huge pages", "shared huge pages", "NUMA", "socket", "token", "nodes", "coordinator", "ports",
            "clock", "versions", "/dev/shm", "fabrics"} <= verdicts.keys()
    for name in ("socket", "token", "daemon", "nodes", "coordinator", "heartbeats", "ports", "versions", "fabrics"):
        assert verdicts[name] == "OK", seen


def test_doctor_says_which_fabrics_the_daemon_serves(alone):
    """One that was asked for and cannot be had here is a warning with its reason; the others go on."""
    alone.environment["OCM_UCX_TLS"] = "none-such"
    config = alone.folder / "served.toml"
    config.write_text("[ucx]\nenabled = true\n")
    alone("up", "--nodes", 1, "--config", config)
    [fabrics] = [check for check in alone.json("doctor")["checks"] if check["check"] == "fabrics"]
    assert fabrics["verdict"] == "WARN" and fabrics["found"].startswith("tcp; ucx is not: ")
    assert "docs/fabrics.md" in fabrics["fix"]
    alone("down")


def test_doctor_fails_without_a_daemon_and_says_how_to_fix_it(alone):
    seen = alone.json("--socket", alone.folder / "none.sock", "doctor", code=1)
    assert not seen["ok"]
    [socket] = [check for check in seen["checks"] if check["check"] == "socket"]
    assert socket["verdict"] == "FAIL" and "ocm up" in socket["fix"]


def test_doctor_sees_an_open_token_and_a_dead_node(alone):
    up = alone.json("up", "--nodes", 2)
    os.chmod(pathlib.Path(up["directory"]) / "token", 0o644)
    os.kill(up["nodes"][1]["pid"], signal.SIGKILL)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        checks = {check["check"]: check for check in alone.json("doctor", code=1)["checks"]}
        if checks["nodes"]["verdict"] == "FAIL":
            break
        time.sleep(0.2)
    assert "chmod 600" in checks["token"]["fix"]
    assert "node2 is dead" in checks["nodes"]["found"]
    alone("down")


def test_demo_checks_every_byte_and_leaves_nothing(alone):
    alone.environment["TMPDIR"] = str(alone.folder)
    out = alone("demo", "--bytes", "64MiB", timeout=120)
    assert "all 67108864 bytes came back" in out
    assert re.search(r"EXTENT ON.*node2.*node3", out, re.S)
    assert "memcpy" in out and "raw tcp" in out
    assert "put 100 %" in alone.error  # plain lines without a terminal
    assert daemons_of(alone.folder) == [] and list(alone.folder.iterdir()) == []


def test_demo_interrupted_stops_its_cluster(alone):
    alone.environment["TMPDIR"] = str(alone.folder)
    process = subprocess.Popen([alone.program, "demo", "--bytes", "256MiB"], env=alone.environment,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for line in process.stdout:
        if b"put" in line:
            process.send_signal(signal.SIGINT)
            break
    process.stdout.read()
    assert process.wait(30) == INTERRUPTED
    assert daemons_of(alone.folder) == [] and list(alone.folder.iterdir()) == []


def test_demo_killed_takes_its_daemons_along(alone):
    alone.environment["TMPDIR"] = str(alone.folder)
    process = subprocess.Popen([alone.program, "demo", "--bytes", "256MiB"], env=alone.environment,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for line in process.stdout:
        if b"node3" in line:
            break
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while daemons_of(alone.folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert daemons_of(alone.folder) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_that_knows_every_command(cluster, shell, tmp_path):
    script = cluster("completion", shell)
    for command in ("up", "down", "status", "top", "alloc", "ls", "rm", "put", "get", "bench", "doctor", "demo", "pool",
                    "explain"):
        assert re.search(rf"\b{command}\b", script)
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def test_bash_completes_options_values_and_names(ocm, tmp_path):
    ocm("alloc", "table-of-today", "64KiB")
    (tmp_path / "script").write_text(ocm("completion", "bash"))

    def complete(*words):
        line = " ".join(f"'{word}'" for word in words)
        code = (f"source {tmp_path}/script; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _ocm; "
                "echo ${COMPREPLY[@]}")
        path = f"{pathlib.Path(ocm.program).parent}:{ocm.environment['PATH']}"
        return subprocess.run(["bash", "-c", code], env=ocm.environment | {"PATH": path}, capture_output=True,
                              text=True, check=True, timeout=20).stdout.split()
    assert complete("ocm", "sta") == ["status"]
    assert complete("ocm", "put", "--lay") == ["--layout"]
    assert complete("ocm", "put", "--layout", "") == ["single", "striped", "replicated"]
    assert complete("ocm", "rm", "tab") == ["table-of-today"]


# ---- what every command has


def test_no_daemon_is_told_with_what_to_do(alone):
    for command in (["status"], ["ls"], ["rm", "x"], ["get", "x", "-"], ["alloc", "x", "1"],
                    ["put", "/etc/hostname", "x"]):
        alone("--socket", alone.folder / "none.sock", *command, code=NO_CLUSTER)
        assert "ocm up" in alone.error and "none.sock" in alone.error


def test_usage_errors_name_the_help(cluster):
    for arguments in (["frobnicate"], [], ["status", "--frobnicate"], ["up", "--nodes", "0"], ["put", "onlyone"]):
        cluster(*arguments, code=USAGE)
        assert "--help" in cluster.error


def test_the_socket_comes_from_the_environment_too(ocm):
    socket, ocm.environment["OCM_SOCKET"] = ocm.up["nodes"][2]["socket"], ocm.up["nodes"][2]["socket"]
    try:
        [own] = [node["name"] for node in ocm.json("status")["nodes"] if node["self"]]
        assert own == "node3"
        assert ocm.json("top", "--once", "--interval", "0.05")["nodes"]
    finally:
        del ocm.environment["OCM_SOCKET"]
    assert ocm.json("--socket", socket, "status")["alive"] == 3


def test_version(cluster):
    assert re.fullmatch(r"ocm \d+\.\d+\.\d+\n", cluster("--version"))
