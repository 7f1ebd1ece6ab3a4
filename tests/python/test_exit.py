"""Programs that end, or run out of descriptors, whatever their threads are doing: never by a signal."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import oncilla

TIMES = 20
TIMES_OF_OTHERS = 5  # each, for the kinds of calls but two
PREAMBLE = """
import resource, sys, threading, time
import oncilla

def forever(call):
    def run():
        while True:
            try:
                call()
            except (oncilla.Error, OSError):
                pass
    for _ in range(3):
        threading.Thread(target=run, daemon=True).start()

socket = sys.argv[1]
"""

BLOCKED = {
    "local get": "a = session.allocate(1 << 20, dedicated=True); forever(lambda: a.get())",
    "remote get": "a = session.allocate(1 << 20, nodes='n2'); forever(lambda: a.get())",
    "error": "a = session.allocate(4096, nodes='n2'); forever(lambda: a.get(4096, 1))",
    "names": "forever(session.names)",
    "wait": "a = session.allocate(4096, nodes='n2'); forever(lambda: a.wait_at_least(0, 5, 30))",
    "allocate": "forever(lambda: session.allocate(1 << 20, dedicated=True))",
    "view": "a = session.allocate(1 << 20, dedicated=True); forever(lambda: memoryview(a).release())",
    "scan": "t = session.table('exit'); forever(t.to_arrow)",
    "load": "import pyarrow as pa; t = pa.table({'a': range(10_000)}); tell = lambda *_: [None for _ in range(100)]; "
            "forever(lambda: session.table('exit-load').put(t, mode=0o600, replace=True, group_rows=100, "
            "progress=tell))",
    "native file system": "import oncilla.arrow; files = oncilla.arrow.filesystem(session); "
                          "forever(lambda: files.open_output_stream('exit-file').close())",
}


def run(program: str, socket: str) -> subprocess.CompletedProcess[str]:
    # What a thread holds when the program ends is no leak.
    environment = {name: value for name, value in os.environ.items() if name != "ONCILLA_LEAK_WARNINGS"}
    return subprocess.run([sys.executable, "-B", "-c", PREAMBLE + program, str(socket)], capture_output=True,
                          text=True, timeout=60, check=False, env=environment)


@pytest.fixture(scope="module", autouse=True)
def no_table_is_left(cluster):
    """The cluster is that of all files: others look at all of its tables."""
    yield
    with oncilla.connect(cluster["n1"].socket_path) as session:
        for name in session.tables():
            if name.startswith("exit"):
                session.table(name).drop()


@pytest.mark.timeout(300)  # seconds on an idle machine
@pytest.mark.parametrize("what", BLOCKED)
def test_a_program_ends_while_a_daemon_thread_is_in_a_call(cluster, what):
    socket = cluster["n1"].socket_path
    if what == "scan":
        import pyarrow
        with oncilla.connect(socket) as session:
            session.table("exit").put(pyarrow.table({"a": list(range(100_000))}), remote=True)
    program = f"session = oncilla.connect(socket)\n{BLOCKED[what]}\ntime.sleep(0.05)\n"
    for _ in range(TIMES if what in ("wait", "remote get") else TIMES_OF_OTHERS):
        ended = run(program, socket)
        assert (ended.returncode, ended.stderr) == (0, "")


def test_a_program_with_few_descriptors_is_told_so(cluster):
    program = """
for limit in range(3, 21):
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, 1024))
    try:
        oncilla.connect(socket).close()
    except oncilla.NoFds:
        print("refused")
    else:
        print("opened")
"""
    ended = run(program, cluster["n1"].socket_path)
    assert ended.returncode == 0, ended.stderr
    answers = ended.stdout.split()
    assert answers == sorted(answers, reverse=True) and {*answers} == {"refused", "opened"}


@pytest.mark.parametrize("end", ["session.close()", "pass"])
@pytest.mark.parametrize("frozen", ["n1", "n2"])
def test_the_end_waits_once_for_a_daemon_that_stands_still(make_cluster, frozen, end):
    """And not once for each allocation: the end of the session is the end of all of them."""
    cluster = make_cluster(2, extra=("--failure-deadline-ms", "1000", "--heartbeat-ms", "200"))
    node = cluster["n1"]
    child = subprocess.Popen(
        [sys.executable, "-c", f"import oncilla, sys\n"
         f"session = oncilla.connect({str(node.socket_path)!r})\n"
         f"kept = [session.allocate(1 << 16, dedicated=True, nodes={frozen!r}) for _ in range(12)]\n"
         f"print('allocated', flush=True), sys.stdin.readline()\n{end}\n"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "allocated\n"
    cluster[frozen].signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        child.communicate("go on\n", timeout=60)
        assert child.returncode == 0
        assert time.monotonic() - began < 6  # half of what twelve would wait, at least
    finally:
        cluster[frozen].signal(signal.SIGCONT)
    with oncilla.connect(node.socket_path) as other:
        until = time.monotonic() + 15
        while any(one.used_bytes for one in other.nodes()) and time.monotonic() < until:
            time.sleep(0.02)
        assert not any(one.used_bytes for one in other.nodes())
