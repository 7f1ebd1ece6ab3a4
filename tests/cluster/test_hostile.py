"""Bytes from outside are hostile: garbage at every port, wrong secrets, limits. The daemon lives on."""
import contextlib
import fcntl
import os
import random
import re
import select
import signal
import socket
import struct
import subprocess
import termios

import pytest

from harness import few_descriptors, only_mapped, wait_for, works
from ocmlib import DEDICATED, POPULATE, OcmError, find_binary
from rawprogram import CONTROL_VERSION, RawNode, RawProgram, acting_as, decode, encode, varint

MIB = 1 << 20


def address_of(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


GARBAGE = {
    "nothing": b"",
    "zeros": bytes(4096),
    "text": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 50,
    "length of 4 GiB": struct.pack("<I", 0xFFFFFFFF) + b"x" * 100,
    "length of 1 MiB then silence": struct.pack("<I", 1 << 20) + b"x",
    "a header cut short": b"\x4d\x4f\x01\x05" + bytes(10),
    "random": random.Random(5).randbytes(100_000),
}


# Where it is no protocol, and not the beginning of something that may follow, its connection ends at once.
CLOSED = {(port, what) for port in ("control", "data", "unix")
          for what in ("zeros", "text", "length of 4 GiB", "random")}
CLOSED |= {("http", "zeros"), ("http", "random")}


@pytest.mark.parametrize("what", GARBAGE)
@pytest.mark.parametrize("port", ["control", "data", "http", "unix"])
def test_garbage_closes_the_connection_and_nothing_else(shared, what, port):
    node = shared["n2"]
    for _ in range(3):
        if port == "unix":
            s = socket.socket(socket.AF_UNIX)
            s.connect(str(node.socket_path))
        else:
            s = socket.create_connection(address_of(getattr(node, port)))
        with s:
            s.settimeout(10 if (port, what) in CLOSED else 0.2)
            try:
                s.sendall(GARBAGE[what])
                while s.recv(1000):
                    pass
            except TimeoutError:
                assert (port, what) not in CLOSED
            except OSError:
                pass
    assert node.process.poll() is None
    works(shared)


def test_many_silent_connections_do_not_shut_others_out(shared):
    host, port = address_of(shared["n2"].data)
    silent = [socket.create_connection((host, port)) for _ in range(200)]
    works(shared)
    for s in silent:
        s.close()


def test_silent_control_connections_shut_nobody_out(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), extra=["--limit-connections", "64"])
    silent = []
    for node in cluster.nodes:
        for _ in range(250):
            silent.append(socket.create_connection(address_of(node.control)))
        for _ in range(30):  # of root, who may have them all; but they are not all
            silent.append(socket.socket(socket.AF_UNIX))
            silent[-1].connect(str(node.socket_path))
    works(cluster)
    cluster["n2"].kill()
    cluster["n2"].start().wait_ready()  # it dials anew, through the crowd
    cluster.wait_members(2)
    works(cluster)
    for s in silent:
        s.settimeout(10)
        try:
            assert s.recv(1) == b""  # closed by the daemon: they have not proved themselves
        except ConnectionError:
            pass
    assert cluster["n1"].process.poll() is None
    works(cluster)


@pytest.mark.parametrize("who", ["daemon", "program"])
@pytest.mark.parametrize("versions, told", [
    (b"", b"control version 99; here"),
    (b"\x08\x62\x10\x65", b"control version 98 to 101; here"),
    (b"\x08\x01\x10\x02", b"control version 1 to 2; here"),
    (b"\x08\x09\x10\x07", b"control version 9 to 7; here"),  # no range
    (b"\x08\x01", b"control version 1 to 0; here"),
])
def test_another_control_version_is_told_so(shared, who, versions, told):
    body = b"\x08\x63"  # its version is 99, and it may know a range
    if versions:
        body += (b"\x3a" if who == "daemon" else b"\x2a") + bytes([len(versions)]) + versions
    message = b"\x08\x01" + (b"\xc2\x02" if who == "daemon" else b"\x52") + bytes([len(body)]) + body
    if who == "daemon":
        s = socket.create_connection(address_of(shared["n2"].control))
    else:
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(shared["n2"].socket_path))
    with s:
        s.settimeout(5)
        s.sendall(struct.pack("<I", len(message)) + message)
        assert told in s.recv(4096)


def test_a_later_daemon_that_speaks_this_version_too_is_let_in(shared):
    version = CONTROL_VERSION
    raw = RawProgram(shared["n1"])
    reply = raw.call("session_hello", version=version, versions={"min": version, "max": version + 1, "features": 255})
    assert reply["code"] == 0 and reply["session_welcome"]["versions"]["max"] == version
    raw.close()
    works(shared)


@pytest.mark.parametrize("uid", [None, 1002])
def test_a_program_that_speaks_by_hand_is_who_the_kernel_says(shared, uid):
    if uid is not None and os.geteuid() != 0:
        pytest.skip("acting as another user needs root")
    raw = RawProgram(shared["n1"], uid=uid)
    session = raw.hello()["session_id"].hex()[:8]
    made = raw.call("allocate", bytes_total=MIB, flags=DEDICATED, nodes=["n2"])
    assert made["code"] == 0 and made["allocation"]["extents"][0]["node"] == "n2"
    assert made["allocation"]["owner_uid"] == (os.geteuid() if uid is None else uid)
    assert raw.call("session_end", session_id=bytes(16))["detail"] == "not a request of a program"
    assert any(s["session"] == session for s in raw.call("stats")["stats_reply"]["sessions"])
    raw.close()
    works(shared)


def test_a_second_daemon_on_the_same_directory_refuses(shared):
    node = shared["n1"]
    second = subprocess.run(node.arguments(["--control-listen", "127.0.0.1:0", "--data-listen", "127.0.0.1:0",
                                            "--http-listen", "127.0.0.1:0"]),
                            capture_output=True, text=True, timeout=20)
    assert second.returncode != 0
    assert "oncillad" in second.stderr and len(second.stderr) > 30
    works(shared)


def test_a_node_with_a_wrong_token_does_not_join(make_cluster, tmp_path):
    cluster = make_cluster(names=("n1", "n2"))
    wrong = tmp_path / "wrong-token"
    wrong.touch(mode=0o600)
    wrong.write_text(os.urandom(32).hex())
    cluster["n2"].kill()
    cluster["n2"].start(["--token-file", str(wrong)])
    program = cluster.program(cluster["n1"])
    wait_for("n2 is dead", lambda: program.nodes()["n2"]["state"] == "dead")
    assert wrong.read_text() not in cluster["n2"].log()


def test_a_cluster_beyond_this_host_needs_a_secret(tmp_path):
    result = subprocess.run([str(find_binary("oncillad")), "--node-name", "x", "--run-dir", str(tmp_path),
                             "--control-listen", "0.0.0.0:0", "--data-listen", "0.0.0.0:0"],
                            capture_output=True, text=True, timeout=20)
    assert result.returncode != 0
    assert re.search("token|TLS|tls", result.stderr)


def test_check_config_names_the_line(tmp_path):
    config = tmp_path / "bad.toml"
    config.write_text('[node]\nname = "x"\nnonsense = 1\n')
    result = subprocess.run([str(find_binary("oncillad")), "--config", str(config), "--check-config"],
                            capture_output=True, text=True, timeout=20)
    assert result.returncode != 0
    assert "nonsense" in result.stderr and "3" in result.stderr


def test_no_secret_in_logs_or_metrics(shared):
    works(shared)
    token = shared.token_file.read_text().strip()
    for node in shared.nodes:
        for text in (node.log(), node.http_get("/metrics"), node.http_get("/status")):
            assert token not in text and token[:16] not in text


def test_metrics_and_status_tell_what_happened(shared):
    works(shared)
    text = shared["n2"].http_get("/metrics")
    for name in ("oncilla_pool_bytes", "oncilla_fabric_bytes_total", "oncilla_fabric_operations_total",
                 "oncilla_sessions", "oncilla_heartbeats_total", "oncilla_control_request_seconds_bucket",
                 "oncilla_errors_total", "oncilla_node_state"):
        assert name in text, name
    assert re.search(r'oncilla_fabric_bytes_total\{[^}]*fabric="tcp"[^}]*\} [1-9]', text)
    for name in ("oncilla_fabric_errors_total", "oncilla_fabric_connections_refused_total",
                 "oncilla_control_connections_refused_total", "oncilla_control_connections_unproved_total"):
        assert re.search(name + r"(\{[^}]*\})? \d", text), name
    assert number(text, 'oncilla_fabric_connections_total{fabric="tcp"}') >= 1
    assert number(text, "oncilla_control_connections_total") >= 1
    assert number(text, 'oncilla_heartbeats_total{what="sent"}') >= 1
    assert number(shared["n1"].http_get("/metrics"), 'oncilla_heartbeats_total{what="received"}') >= 1

    program = shared.program(shared["n1"])
    before = moved(shared["n1"])
    here, there = program.alloc(MIB, nodes=["n1"], flags=DEDICATED), program.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    for a in (here, there):
        for i in range(100):
            a.put(i, b"12345678")
    during = moved(shared["n1"])
    assert during >= before + 1600
    program.close()  # the sum keeps what its session moved
    wait_for("the session has ended", lambda: not shared["n1"].status()["sessions"])
    assert moved(shared["n1"]) >= during
    text = shared["n2"].http_get("/metrics")
    timed = number(text, 'oncilla_fabric_request_seconds_count{fabric="tcp"}')
    assert 1 <= timed == number(text, 'oncilla_fabric_request_seconds_bucket{fabric="tcp",le="+Inf"}')
    status = shared["n2"].status()
    assert {n["name"] for n in status["nodes"]} == {"n1", "n2", "n3"}


def number(text, name):
    return int(re.search("^" + re.escape(name) + r" (\d+)$", text, re.M).group(1))


def moved(node):
    return number(node.http_get("/metrics"), 'oncilla_program_bytes_total{direction="put"}')


def test_errors_of_the_data_plane_are_counted_by_code(shared):
    with socket.create_connection(address_of(shared["n3"].data)) as s:
        s.sendall(random.Random(6).randbytes(4096))
        s.settimeout(2)
        try:
            s.recv(100)
        except OSError:
            pass
    wait_for("it is counted", lambda: re.search(
        r'oncilla_fabric_errors_total\{fabric="tcp",code="PROTOCOL"\} [1-9]', shared["n3"].http_get("/metrics")))


def test_a_page_of_lies_moves_no_counter_by_more_than_a_machine_could(make_cluster):
    cluster = make_cluster(names=("n1",))
    program = cluster.program(cluster["n1"])
    pages = [line for line in open(f"/proc/{program.process.pid}/maps") if "oncilla-session" in line]
    first = int(pages[0].split("-")[0], 16)
    for lie in (1 << 62, 0, (1 << 64) - 1):
        before = moved(cluster["n1"])
        with open(f"/proc/{program.process.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(first)
            memory.write(struct.pack("<Q", lie))
        assert before <= moved(cluster["n1"]) < 1 << 53
    assert "oncilla_sessions 1" in cluster["n1"].http_get("/metrics")


def test_silent_http_connections_shut_nobody_out(shared):
    node = shared["n1"]
    address, _, port = node.http.rpartition(":")
    with contextlib.ExitStack() as held:
        for _ in range(200):  # three times of what it serves at once
            held.enter_context(socket.create_connection((address, int(port))))
        assert node.http_get("/healthz") == "ok\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")
def test_two_users_do_not_take_the_operators_http_socket(cluster):
    node = cluster["n1"]
    cluster.let_others_in()
    with contextlib.ExitStack() as held:
        for uid in (61001, 61002):
            for _ in range(64):
                silent = held.enter_context(socket.socket(socket.AF_UNIX))
                with acting_as(uid, node.run_dir):
                    silent.connect("http.sock")
        assert node.status()["pools"]
        check = subprocess.run([find_binary("ocm"), "-s", node.socket_path, "stop-check", "n1"],
                               capture_output=True, text=True)
        assert check.returncode == 0, check.stdout + check.stderr


def unread_bytes(sent: socket.socket) -> int:
    return struct.unpack("i", fcntl.ioctl(sent, termios.TIOCOUTQ, bytes(4)))[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")
def test_two_users_whose_requests_last_leave_the_operator_a_quarter_of_the_http_socket(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), extra=["--failure-deadline-ms", "20000"])
    cluster.let_others_in()
    n1, n2 = cluster.nodes
    n2.signal(signal.SIGSTOP)
    with contextlib.ExitStack() as stack:
        asking = []
        for uid in (61001, 61002):
            for _ in range(32):
                asking.append(stack.enter_context(socket.socket(socket.AF_UNIX)))
                with acting_as(uid, n1.run_dir), contextlib.suppress(OSError):
                    asking[-1].connect("http.sock")
                    asking[-1].sendall(b"GET /status?node=n2 HTTP/1.0\r\n\r\n")
        wait_for("each was read, or closed", lambda: not any(unread_bytes(one) for one in asking))
        assert n1.status()["pools"]
    n2.signal(signal.SIGCONT)


def test_taking_many_pages_at_once_does_not_hold_up_the_daemon(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), dram=3 << 29)
    program = cluster.program(cluster["n1"])
    command = {"do": "call", "on": "session", "method": "alloc", "as": "big", "args": [1 << 30],
               "kwargs": {"nodes": ["n2"], "flags": POPULATE}}
    program.start(command)
    answers = 0
    while not select.select([program.process.stdout], [], [], 0)[0]:
        assert cluster["n2"].http_get("/healthz") == "ok\n"
        answers += 1
    program.finish()
    assert answers >= 3
    assert program.nodes()["n2"]["state"] == "alive"


def test_a_limit_on_the_length_of_files_is_an_error_and_no_more(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), start=False)
    cluster["n1"].start()
    cluster["n2"].start(prefix=["prlimit", f"--fsize={MIB}"])
    for node in cluster.nodes:
        node.wait_ready()
    cluster.wait_members(2)
    program = cluster.program(cluster["n1"])
    with pytest.raises(OcmError) as caught:
        program.alloc(8 * MIB, nodes=["n2"], flags=DEDICATED)
    assert caught.value.name == "NO_MEMORY"
    kept = program.alloc(MIB // 2, nodes=["n2"], flags=DEDICATED)
    kept.fill(0, 1, MIB // 2)
    assert kept.holds(0, 1, MIB // 2)


def test_exit_codes_tell_misuse_from_failure(tmp_path):
    def code(*arguments):
        return subprocess.run([str(find_binary("oncillad")), "--run-dir", str(tmp_path), *arguments],
                              capture_output=True, timeout=20).returncode
    assert code("--check-config") == 0
    assert code("--check-config", "--limit-user", "4294967294=1GiB", "--limit-user", "7=5MiB") == 0
    assert code("--check-config", "--limit-user", "7") == 2
    assert code("--no-such-flag") == 2
    assert code("--dram", "much") == 2
    assert code("--config", str(tmp_path / "none.toml")) == 2
    taken = socket.create_server(("127.0.0.1", 0))
    assert code("--control-listen", "127.0.0.1:0", "--http-listen", "", "--data-listen",
                f"127.0.0.1:{taken.getsockname()[1]}") == 1


def test_a_user_has_a_limit_of_his_own(make_cluster):
    cluster = make_cluster(names=("n1",), extra=["--limit-user", f"{os.getuid()}={8 * MIB}", "--limit-user", "77=1GiB"])
    program = cluster.program(cluster["n1"])
    assert program.alloc(6 * MIB)
    with pytest.raises(OcmError) as caught:
        program.alloc(6 * MIB)
    assert caught.value.name == "QUOTA"


def test_running_out_of_descriptors_is_an_error_and_no_more(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), start=False)
    cluster["n1"].start()
    cluster["n2"].start(prefix=few_descriptors(96))
    for node in cluster.nodes:
        node.wait_ready()
    cluster.wait_members(2, at=cluster["n1"])
    program = cluster.program(cluster["n1"])
    held = []
    with pytest.raises(OcmError) as caught:
        for _ in range(200):
            held.append(program.alloc(2 * MIB, nodes=["n2"], flags=DEDICATED))
    assert caught.value.name in ("NO_FDS", "LIMIT", "POOL_FULL"), caught.value
    assert cluster["n2"].process.poll() is None
    for a in held:
        a.free()
    assert program.alloc(2 * MIB, nodes=["n2"], flags=DEDICATED)


@only_mapped
def test_memory_that_the_system_does_not_have_is_an_error(cluster):
    program = cluster.program(cluster["n1"])
    a, b = program.alloc(200 * MIB, nodes=["n2"]), program.alloc(MIB, nodes=["n2"])
    pid = cluster["n2"].process.pid
    virtual_kib = int(re.search(r"VmSize:\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1))
    subprocess.run(["prlimit", "--pid", str(pid), f"--as={virtual_kib * 1024 + 32 * MIB}"], check=True)
    with pytest.raises(OcmError) as caught:  # the home cannot map the extent
        a.put(0, b"x")
    assert caught.value.name == "NO_MEMORY", caught.value
    b.fill(0, 1, MIB)
    assert b.holds(0, 1, MIB)


def test_a_full_disk_under_the_run_directory_is_said(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(small)], check=True)
    try:
        with open(small / "filler", "wb") as filler:
            try:
                filler.write(bytes(1 << 16))
                filler.flush()
            except OSError:
                pass
        result = subprocess.run([str(find_binary("oncillad")), "--node-name", "x", "--run-dir", str(small / "run"),
                                 "--control-listen", "127.0.0.1:0", "--data-listen", "127.0.0.1:0",
                                 "--http-listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=20)
        assert result.returncode != 0
        assert "space" in result.stderr
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_users_quota_is_held(make_cluster):
    cluster = make_cluster(names=("n1",), extra=["--limit-user-bytes", str(32 * MIB)])
    program = cluster.program(cluster["n1"])
    first = program.alloc(24 * MIB)
    with pytest.raises(OcmError) as caught:
        program.alloc(24 * MIB)
    assert caught.value.name == "QUOTA"
    first.free()
    assert program.alloc(24 * MIB)


def test_a_users_quota_is_held_by_reservations_under_way_at_once(make_cluster):
    cluster = make_cluster(dram=3 << 29, extra=["--limit-user-bytes", str(3 << 28)])
    programs = [cluster.program(cluster[name]) for name in ("n1", "n2")]
    for name in ("n1", "n2"):
        cluster.wait_members(at=cluster[name])
    for program in programs:
        program.start({"do": "call", "on": "session", "method": "alloc", "as": "big", "args": [1 << 29],
                       "kwargs": {"nodes": ["n3"], "flags": POPULATE | DEDICATED}})
    outcomes = []
    for program in programs:
        try:
            program.finish()
            outcomes.append("made")
        except OcmError as error:
            outcomes.append(error.name)
    assert sorted(outcomes) == ["QUOTA", "made"]
    wait_for("nothing is left of the other", lambda: cluster["n3"].status()["pools"][0]["bytes_used"] == 1 << 29)


def test_the_limit_on_sessions_is_an_error(make_cluster):
    cluster = make_cluster(names=("n1",), extra=["--limit-sessions", "3"])
    programs = [cluster.program(cluster["n1"]) for _ in range(3)]
    with pytest.raises(OcmError) as caught:
        cluster.program(cluster["n1"])
    assert caught.value.name == "LIMIT"
    programs[0].close()
    wait_for("a place is free", lambda: _opens(cluster), 5)


def _opens(cluster):
    try:
        cluster.program(cluster["n1"]).close()
        return True
    except OcmError:
        return False


def test_root_and_the_daemons_user_have_all_sessions_and_connections(make_cluster):
    cluster = make_cluster(names=("n1",), extra=["--limit-sessions", "4", "--limit-connections", "6"])
    wait_for("nobody else is there", lambda: cluster["n1"].status()["session_count"] == 0)
    held = [RawProgram(cluster["n1"]) for _ in range(6)]
    for program in held[:4]:
        program.hello()
    refused = held[4].call("session_hello", version=CONTROL_VERSION)
    assert refused["code"] == -65 and "at most 4 sessions" in refused["detail"]
    beyond = RawProgram(cluster["n1"])
    with pytest.raises(ConnectionError):
        beyond.hello()
    for program in (*held, beyond):
        program.close()


def test_what_follows_an_http_request_does_not_reset_its_answer(make_cluster):
    """The kernel resets a connection that is closed with unread bytes; the reset may overtake the answer."""
    n1 = make_cluster(names=("n1",))["n1"]
    host, port = n1.http.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as asker:
        asker.sendall(b"GET /metrics HTTP/1.0\r\n\r\n" + b"GET / HTTP/1.0\r\n\r\n" * 1000)
        answer = b"".join(iter(lambda: asker.recv(MIB), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(re.search(rb"Content-Length: (\d+)", head).group(1)) == len(body) > 1000


@pytest.mark.parametrize("relayed_to", ["n1", "n3"])
def test_who_listens_in_the_place_of_a_node_is_none(cluster, relayed_to):
    """n2 is down, and a user of its machine takes its port: a proof that he hands on is refused."""
    n2 = cluster["n2"]
    n2.kill()
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(socket.create_server(address_of(n2.control)))
        place.settimeout(20)
        said = ""
        while "wanted to get to" not in said:
            victim, _ = place.accept()
            stack.enter_context(victim)
            target = stack.enter_context(socket.create_connection(address_of(cluster[relayed_to].control)))
            for end in (victim, target):
                end.settimeout(5)
            with contextlib.suppress(OSError):
                target.sendall(read_message(victim))
                reply = read_message(target)
                said = decode("Envelope", reply[4:])["detail"]
                assert decode("Envelope", reply[4:])["node_challenge"] is None
        assert n2.control in said
    n2.start().wait_ready()
    cluster.wait_members()


def test_only_a_node_sends_what_is_longer_than_a_program_may(cluster):
    """A voter tells what it decided about many parts in one message."""
    n1 = cluster["n1"]
    program = RawProgram(n1)
    program.hello()
    node = RawNode(n1, "n9", cluster.token_file.read_bytes())
    for connection, unknown, refused in ((program, 3 * MIB, False), (node, 50 * MIB, False),
                                         (program, 5 * MIB, True), (node, 61 * MIB, True)):
        padding = varint(15 << 10 | 2) + varint(unknown) + bytes(unknown)  # a field that no version has
        message = encode("Envelope", {"id": 7, "name_list": {}}) + padding
        try:
            connection.send_bytes(struct.pack("<I", len(message)) + message)
            assert connection.receive()["id"] == 7 and not refused
        except ConnectionError:
            assert refused
    works(cluster)


def test_a_heartbeat_in_the_coordinators_own_name_ends_nothing(cluster):
    hostile = RawNode(cluster["n1"], "n9", cluster.token_file.read_bytes())
    reply = hostile.call("heartbeat", self={"name": "n1", "incarnation": os.urandom(16), "partition": 77,
                                            "control_address": cluster["n1"].control})
    assert reply["code"] and "coordinator's own name" in reply["detail"], reply
    works(cluster)


def read_message(connection: socket.socket) -> bytes:
    head = receive(connection, 4)
    return head + receive(connection, struct.unpack("<I", head)[0])


def receive(connection: socket.socket, count: int) -> bytes:
    out = b""
    while len(out) < count:
        piece = connection.recv(count - len(out))
        if not piece:
            raise ConnectionResetError
        out += piece
    return out
