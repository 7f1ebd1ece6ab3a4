"""Programs that give up, die at bad moments or seal what they were given: nothing of it stays, nobody else suffers."""
import errno
import fcntl
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from harness import FAILURE_DEADLINE_S, HERE, used, wait_for
from ocmlib import DEDICATED, REMOTE, OcmError
from rawprogram import CONTROL_VERSION, RawProgram

MIB = 1 << 20
F_SEAL_WRITE, F_SEAL_FUTURE_WRITE = 0x8, 0x10
F_ADD_SEALS = 1033


def reads(handle, seed: int) -> bool:
    try:
        assert handle.holds(0, seed, MIB)  # an error, maybe; never other bytes
        return True
    except OcmError:
        return False


def answered(node, request: str) -> int:
    found = re.search(rf'^oncilla_control_request_seconds_count\{{request="{request}"\}} (\d+)$',
                      node.http_get("/metrics"), re.M)
    return int(found.group(1)) if found else 0


def open_extent(raw: RawProgram, extent: dict, access: int = 3) -> int:
    reply = raw.call("open_extent", address=extent["address"], generation=extent["generation"],
                     capability=extent["capability"], access=access)
    assert reply["code"] == 0, reply
    return raw.fds[-1]


def test_what_is_allocated_after_its_program_gave_up_is_given_back(cluster):
    n2, n3 = cluster["n2"], cluster["n3"]
    filler = cluster.program(cluster["n1"])
    filler.alloc(100 * MIB, nodes=["n3"], flags=DEDICATED)  # n2 is asked first
    hasty = cluster.program(cluster["n1"], deadline_s=0.1)
    before = used(n3)
    wait_for("its view shows that", lambda: hasty.nodes()["n3"]["used"] >= before)
    before_it = answered(cluster["n1"], "allocate")
    n2.signal(signal.SIGSTOP)
    try:
        with pytest.raises(OcmError) as caught:
            hasty.alloc(8 * MIB, flags=REMOTE | DEDICATED)
        assert caught.value.name == "DEADLINE"
        wait_for("it was made on n3 all the same", lambda: answered(cluster["n1"], "allocate") > before_it)
        wait_for("it is back, and the program did nothing", lambda: used(n3) == before, 4 * FAILURE_DEADLINE_S)
    finally:
        n2.signal(signal.SIGCONT)
    kept = hasty.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    kept.fill(0, 1, MIB)
    assert kept.holds(0, 1, MIB)


def test_a_hold_that_is_given_after_its_program_gave_up_is_given_back(make_cluster):
    cluster = make_cluster(extra=("--failure-deadline-ms", "6000"))  # n2 answers late, and is not lost
    n2, n3 = cluster["n2"], cluster["n3"]
    owner = cluster.program(cluster["n1"])
    owner.alloc(8 * MIB, nodes=["n2"], flags=DEDICATED).publish("held", 0o606)
    hasty = cluster.program(n3, deadline_s=0.1)
    before = answered(n3, "attach")
    n2.signal(signal.SIGSTOP)
    try:
        with pytest.raises(OcmError) as caught:
            hasty.attach("held", "r+hold")
        assert caught.value.name == "DEADLINE"
        assert answered(n3, "attach") == before
    finally:
        n2.signal(signal.SIGCONT)
    wait_for("the answer comes", lambda: answered(n3, "attach") > before)
    owner.session("remove", "held")
    wait_for("nobody holds it", lambda: used(n2) == 0)
    kept = hasty.alloc(MIB, nodes=["n2"], flags=DEDICATED)  # its session lives
    kept.fill(0, 1, MIB)
    assert kept.holds(0, 1, MIB)


@pytest.mark.parametrize("seal", [F_SEAL_WRITE, F_SEAL_FUTURE_WRITE])
def test_a_holder_cannot_seal_an_extent(shared, seal):
    n1 = shared["n1"]
    raw = RawProgram(n1)
    raw.hello()
    made = raw.call("allocate", bytes_total=MIB, flags=DEDICATED, nodes=["n1"])["allocation"]
    name = f"sealed{seal}"
    assert raw.call("publish", allocation_id=made["allocation_id"], name=name, mode=0o606)["code"] == 0
    before = used(n1)
    with pytest.raises(PermissionError) as caught:
        fcntl.fcntl(open_extent(raw, made["extents"][0]), F_ADD_SEALS, seal)
    assert caught.value.errno == errno.EPERM
    far = shared.program(shared["n2"]).attach(name)  # the daemon maps the extent now
    far.fill(0, 1, MIB)
    assert far.holds(0, 1, MIB)
    assert raw.call("name_remove", name=name)["code"] == 0
    wait_for("its pages are back", lambda: used(n1) == before - MIB)
    assert os.fstat(raw.fds[-1]).st_blocks == 0
    raw.close()


LIMITS = {  # at which a session's thread cannot be started
    "memory": """
kib = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (kib * 1024 + (40 << 20),) * 2)
""",
    # Of all processes of a user together, and root has none: as a user who has no other.
    "processes": """
os.setgroups([]); os.setgid(61007); os.setuid(61007)
resource.setrlimit(resource.RLIMIT_NPROC, (4, 4))
""",
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_session_that_cannot_be_opened_leaves_signals_as_they_were(shared, limit):
    if limit == "processes" and os.geteuid() != 0:
        pytest.skip("only root can become a user without processes")
    shared.let_others_in()
    program = """
import os, resource, signal, sys
import ocmlib
ocmlib.lib()
""" + LIMITS[limit] + """
held = []
try:
    while True:
        held.append(ocmlib.Session(sys.argv[1]))
except ocmlib.OcmError as error:
    print(error.name, sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
"""
    result = subprocess.run([sys.executable, "-c", program, str(shared["n1"].socket_path)], capture_output=True,
                            text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(HERE)})
    assert result.stdout == "NO_MEMORY []\n", result.stdout + result.stderr


def test_a_session_that_ended_is_not_taken_up_again(cluster):
    n1, n2 = cluster["n1"], cluster["n2"]
    first = RawProgram(n1)
    welcome = first.hello()
    assert first.call("allocate", bytes_total=MIB, flags=DEDICATED, nodes=["n2"])["code"] == 0
    again = {"resume_session": welcome["session_id"], "resume_key": welcome["resume_key"]}
    before = used(n2)
    n2.signal(signal.SIGSTOP)
    try:
        first.close()
        wait_for("n1 ended it", lambda: not n1.status()["sessions"])
        refused = RawProgram(n1).call("session_hello", version=CONTROL_VERSION, program="raw", **again)
        assert refused["code"] < 0 and "ended" in refused["detail"]
        fresh = RawProgram(n1).hello()
        assert fresh["session_id"] != welcome["session_id"]
    finally:
        n2.signal(signal.SIGCONT)
    wait_for("n2 heard of it", lambda: used(n2) == before - MIB)
    refused = RawProgram(n1).call("session_hello", version=CONTROL_VERSION, program="raw", **again)
    assert refused["code"] < 0 and "ended" in refused["detail"]


def test_a_replica_that_was_dropped_stays_for_who_reads_it_through_a_pointer(netns_cluster):
    cluster = netns_cluster
    n3 = cluster["n3"]
    writer, reader = cluster.program(cluster["n1"]), cluster.program(n3)
    part = writer.alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
    part.fill(0, 1, MIB)
    part.publish("pointed", 0o606)
    held = reader.attach("pointed", "r+hold")
    held.keep_pointer(0, MIB)
    seen = held.peek(MIB)
    assert seen != bytes(MIB)
    before = used(n3)
    cluster.cut(n3)
    part.fill(0, 2, MIB)  # acknowledged without n3's replica
    cluster.restore(n3)
    wait_for("n3 hears of it", lambda: "replica_dropped" in n3.log(), 20 * FAILURE_DEADLINE_S)
    # Checked: from the other replica, once the restored link carries that.
    wait_for("a get brings the new bytes", lambda: reads(held, 2), 20 * FAILURE_DEADLINE_S)
    assert held.peek(MIB) == seen
    assert used(n3) == before
    late = cluster.program(n3).attach("pointed", "r+hold")
    assert late.holds(0, 2, MIB)
    held.free()
    wait_for("its pages are back", lambda: used(n3) == before - MIB)


# ---- descriptors that nobody asked for


HELD_UP = r"""
import array, os, socket, struct, sys, time
os.chdir(os.path.dirname(sys.argv[1]))
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
listener.bind(("127.0.0.1", 0))
listener.listen()
sender = socket.socket()
sender.connect(listener.getsockname())
kept = listener.accept()
sender.setblocking(False)
try:
    while True:
        sender.send(bytes(65536))
except BlockingIOError:
    pass
sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 600))  # its last close waits for 600 s
daemon = socket.socket(socket.AF_UNIX)
daemon.connect(os.path.basename(sys.argv[1]))
print(flush=True)
sys.stdin.readline()
try:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sender.fileno()]))]
    daemon.sendmsg([b"\x10"], rights, socket.MSG_OOB if sys.argv[2] == "urgent" else 0)
    daemon.send(b"\0\0\0")
    sender.close()
except PermissionError:  # the kernel refuses it
    pass
print(flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def older_kernel(tmp_path_factory):
    library = tmp_path_factory.mktemp("kernel") / "older_kernel.so"
    library.parent.chmod(0o755)
    source = pathlib.Path(__file__).with_name("older_kernel.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=60)
    return library


@pytest.mark.parametrize("how", ["plain", "urgent"])
@pytest.mark.parametrize("kernel", ["this one", "older"])
@pytest.mark.parametrize("door", ["oncillad.sock", "http.sock"])
def test_a_descriptor_that_is_slow_to_close_holds_up_nobody(make_cluster, older_kernel, door, kernel, how):
    cluster = make_cluster(names=("n1", "n2"), start=False, extra=("--failure-deadline-ms", "3000"))
    cluster["n1"].start().wait_ready()
    cluster["n2"].start(prefix=["env", f"LD_PRELOAD={older_kernel}"] if kernel == "older" else []).wait_ready()
    cluster.wait_members(2)
    program = cluster.program(cluster["n2"])
    cluster.let_others_in()
    with subprocess.Popen([sys.executable, "-c", HELD_UP, str(cluster["n2"].run_dir / door), how],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as hostile:
        try:
            assert hostile.stdout.readline() == b"\n"
            cluster["n2"].signal(signal.SIGSTOP)  # so that the daemon has the last reference
            hostile.stdin.write(b"\n")
            hostile.stdin.flush()
            assert hostile.stdout.readline() == b"\n"
            cluster["n2"].signal(signal.SIGCONT)
            end = time.monotonic() + 2 * FAILURE_DEADLINE_S
            while time.monotonic() < end:
                program.alloc(MIB, nodes=["n2"], flags=DEDICATED).free()
                cluster["n2"].local_get("/status")
        finally:
            os.killpg(hostile.pid, signal.SIGKILL)
    assert "node_dead" not in cluster["n1"].log_path.read_text()
