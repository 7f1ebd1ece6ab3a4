"""What the operator of a cluster sees and does: a node that finds no cluster, a dead coordinator, signals, limits,
logs under a flood, core dumps, the configuration that is checked before a start."""
import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import termios
import time
import urllib.error
import urllib.request

import pytest

from harness import FAILURE_DEADLINE_S, Node, free_ports, wait_for
from ocmlib import DEDICATED, OcmError, find_binary

MIB = 1 << 20


def ocm(node, *arguments):
    environment = {**os.environ, "OCM_SOCKET": str(node.socket_path), "OCM_HTTP": node.http}
    return subprocess.run(node.in_namespace([find_binary("ocm"), *arguments]), env=environment, capture_output=True,
                          text=True, timeout=60)


def get(node, path):
    """Status code and body."""
    try:
        with urllib.request.urlopen(f"http://{node.http}{path}", timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metric(node, name):
    found = re.search("^" + re.escape(name) + r" (\d+)$", node.http_get("/metrics"), re.M)
    return int(found.group(1)) if found else None


def lines(node, event):
    return [line for line in node.log_path.read_text(errors="replace").splitlines() if f" {event} " in line]


def doctor(node):
    checks = json.loads(ocm(node, "doctor", "--json").stdout)["checks"]
    return {check["check"]: check for check in checks}


def wrong_token(tmp_path):
    path = tmp_path / "wrong-token"
    path.touch(mode=0o600)
    path.write_text(os.urandom(32).hex())
    return ["--token-file", path]


# ---- the coordinator


@pytest.mark.parametrize("given,says", [
    (["--failure-deadline-ms", "15000"], "failure deadline of 15000 ms"), ([], "seeds")])
def test_a_node_that_is_set_up_otherwise_is_refused_and_told_why(make_cluster, given, says):
    """It would answer with old bytes, or lose its coordinator, where nobody noticed."""
    cluster = make_cluster(names=("n1", "n2"), seeds=True)
    other = Node(cluster, "other", "127.0.0.1", free_ports(3), None)
    cluster.nodes.append(other)
    cluster.seeds = bool(given)  # else it is given a coordinator
    other.start(given).wait_ready()
    wait_for("it is told", lambda: any(says in line for line in lines(other, "join_refused")))
    status = json.loads(ocm(cluster["n1"], "status", "--json").stdout)
    assert "other" not in [node["name"] for node in status["nodes"] if node["state"] == "alive"]


@pytest.mark.parametrize("how,says", [
    ("refused", "refused"), ("silent", "no answer"), ("no such name", "cannot resolve"),
    ("not the coordinator", "not the coordinator"), ("wrong token", "token")])
def test_a_node_that_never_finds_its_cluster_says_so(make_cluster, tmp_path, how, says):
    cluster = make_cluster(names=("n1", "n2"))
    lost = Node(cluster, "lost", "127.0.0.1", free_ports(3), None)
    cluster.nodes.append(lost)
    silent = socket.create_server(("127.0.0.1", 0))
    target = {"refused": f"127.0.0.1:{free_ports(1)[0]}", "silent": f"127.0.0.1:{silent.getsockname()[1]}",
              "no such name": "no-such-host.invalid:7600", "not the coordinator": cluster["n2"].control,
              "wrong token": cluster["n1"].control}[how]
    lost.start(["--coordinator", target, *(wrong_token(tmp_path) if how == "wrong token" else [])]).wait_ready()
    failed = 'oncilla_heartbeats_total{what="failed"}'
    wait_for("it tries again and again", lambda: metric(lost, failed) >= 5, 30)

    [said] = lines(lost, "coordinator_unreachable")  # at once, and then rarely
    assert target in said and says in said and " warn " in said
    assert metric(lost, "oncilla_has_coordinator") == 0
    code, body = get(lost, "/readyz")
    assert code == 503 and "no coordinator" in body and says in body
    assert get(lost, "/healthz") == (200, "ok\n")  # restarting it would not help
    status = ocm(lost, "status")
    assert "alone: no coordinator" in status.stdout and says in status.stderr + status.stdout
    found = doctor(lost)["coordinator"]
    assert found["verdict"] == "FAIL" and says in found["found"]
    assert get(cluster["n1"], "/readyz")[0] == get(cluster["n2"], "/readyz")[0] == 200
    assert metric(cluster["n1"], "oncilla_has_coordinator") == metric(cluster["n2"], "oncilla_has_coordinator") == 1
    if how == "wrong token":  # the cluster's side says it too, and who it was
        [refused] = lines(cluster["n1"], "peer_refused")
        assert "node=lost" in refused and "peer=127.0.0.1" in refused and "token" in refused
        assert metric(cluster["n1"], "oncilla_auth_failures_total") >= 4
        assert len(lines(lost, "peer_refused")) <= 1


def test_a_node_whose_name_another_has_says_so(make_cluster):
    cluster = make_cluster(names=("n1", "n2"))
    second = Node(cluster, "n2", "127.0.0.1", free_ports(3), None, machine="n2-too")
    cluster.nodes.append(second)
    second.start().wait_ready()
    wait_for("it tries again and again", lambda: metric(second, 'oncilla_heartbeats_total{what="failed"}') >= 5, 30)
    [said] = lines(second, "join_refused")  # at once, and then rarely
    assert " error " in said and "n2" in said and cluster["n1"].control in said
    code, body = get(second, "/readyz")
    assert code == 503 and "n2" in body
    assert metric(cluster["n1"], "oncilla_has_coordinator") == 1 and get(cluster["n2"], "/readyz")[0] == 200


def test_a_node_alone_in_a_cluster_of_its_own_says_so(make_netns_cluster):
    cluster = make_netns_cluster(names=("n1", "n2"), start=False)
    n1, n2 = cluster.nodes
    for node in cluster.nodes:
        arguments = node.arguments()
        at = arguments.index("--coordinator")
        del arguments[at:at + 2]  # as if [cluster] coordinator were forgotten
        node.arguments = lambda extra=(), arguments=arguments: [*arguments, *extra]
        node.start().wait_ready()
        [said] = wait_for("it says so", functools.partial(lines, node, "own_cluster"))
        assert " warn " in said and node.control in said and "[cluster] seeds nor coordinator" in said
        status = ocm(node, "status")
        assert status.returncode == 0 and "alone: coordinator of its own cluster, 1 node" in status.stdout
        found = doctor(node)["coordinator"]
        assert found["verdict"] == "WARN" and "alone" in found["found"]
        assert "[cluster] seeds (or coordinator)" in found["fix"]
    n2.stop()
    n2.start(["--coordinator", n1.control]).wait_ready()
    cluster.wait_members(2, at=n1)
    assert len(lines(n2, "own_cluster")) == 1  # that of its first start
    for node in cluster.nodes:
        assert "alone" not in ocm(node, "status").stdout and doctor(node)["coordinator"]["verdict"] == "OK"


def test_a_node_that_listens_on_this_host_only_may_be_alone(make_cluster):
    node = make_cluster(names=("n1",))["n1"]
    assert not lines(node, "own_cluster") and "alone" not in ocm(node, "status").stdout
    assert doctor(node)["coordinator"]["verdict"] == "OK"


def test_members_without_their_coordinator_do_not_call_others_alive(cluster):
    n1, n2 = cluster["n1"], cluster["n2"]
    program = cluster.program(n2)
    kept = program.alloc(MIB, nodes=["n3"])
    assert json.loads(ocm(n2, "status", "--json").stdout)["alive"] == 3
    n1.kill()
    wait_for("n2 knows", lambda: metric(n2, "oncilla_has_coordinator") == 0)
    status = json.loads(ocm(n2, "status", "--json").stdout)
    assert {n["name"]: n["state"] for n in status["nodes"]} == {"n1": "suspect", "n2": "alive", "n3": "suspect"}
    assert status["alive"] == 1 and not status["coordinator"]
    assert all(n["heartbeat_age_ns"] > FAILURE_DEADLINE_S * 0.5e9 for n in status["nodes"] if n["name"] != "n2")
    assert "no coordinator" in ocm(n2, "status").stdout
    assert metric(n2, 'oncilla_node_state{node="n1",state="alive"}') is None
    assert get(n2, "/readyz")[0] == 503 and n2.status()["coordinator_error"]
    kept.fill(0, 1, MIB)  # data and allocation go on
    assert kept.holds(0, 1, MIB)
    assert program.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    n1.start().wait_ready()
    cluster.wait_members(at=n2)
    assert metric(n2, "oncilla_has_coordinator") == 1 and n2.status()["coordinator_error"] == ""
    assert get(n2, "/readyz")[0] == 200


@pytest.mark.parametrize("of", ["pipe", "socket", "terminal", "another user's pipe", "another user's terminal"])
def test_nobody_reads_the_log_of_a_daemon_that_goes_on(make_cluster, of):
    cluster = make_cluster(names=("n1", "n2"), start=False)
    n1, n2 = cluster.nodes
    n1.start().wait_ready()
    if of == "socket":
        reader, writer = (end.detach() for end in socket.socketpair())
        filler = writer
        os.set_blocking(writer, False)
    else:
        reader, writer = os.pipe() if of.endswith("pipe") else os.openpty()
        filler = os.open(f"/proc/self/fd/{writer}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    if of.endswith("terminal"):
        termios.tcflow(writer, termios.TCOOFF)  # Ctrl-S
    as_another = []
    if of.startswith("another"):
        os.fchmod(writer, 0)
        if os.geteuid() == 0:  # it may open what it likes: drop that right
            as_another = ["setpriv", "--bounding-set=-dac_override,-dac_read_search",
                          "--inh-caps=-dac_override,-dac_read_search"]
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(filler, bytes(size))
    os.set_blocking(writer, True)
    n2.process = subprocess.Popen([*as_another, *map(str, n2.arguments())], stdin=subprocess.DEVNULL, stderr=writer)
    n2.wait_ready()
    cluster.wait_members(2)
    for address in (n2.control, n2.data, n2.http):
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(os.urandom(200))
    time.sleep(2 * FAILURE_DEADLINE_S)
    assert n1.status()["nodes"][1]["state"] == "alive" and get(n2, "/healthz") == (200, "ok\n")
    for end in {reader, writer, filler}:
        os.close(end)


# ---- logs


def test_a_stranger_does_not_flood_the_log(make_cluster):
    cluster = make_cluster(names=("n1",))
    node = cluster["n1"]
    host, port = node.control.rsplit(":", 1)
    for _ in range(200):
        with socket.create_connection((host, int(port))) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            s.settimeout(10)
            while s.recv(4096):
                pass
    assert metric(node, 'oncilla_errors_total{code="PROTOCOL"}') == 200
    [closed] = lines(node, "connection_closed")
    assert "peer=127.0.0.1" in closed


# ---- core dumps


def dumped(pid, wanted):
    """True if a core of the process would contain the bytes: they lie in a mapping that is not excluded."""
    ranges, current = [], None
    for line in open(f"/proc/{pid}/smaps"):
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ (\S+) (\d+)\s*(.*)", line)
        if head:
            current = (int(head[1], 16), int(head[2], 16), head[3], head[5], head[6])
        elif line.startswith("VmFlags:") and "dd" not in line.split() and current[2].startswith("r"):
            named = current[3] != "0" and not current[4].startswith("/memfd:")  # a file's bytes are not dumped
            if not named and not current[4].startswith("[v"):
                ranges.append(current[:2])
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for begin, end in ranges:
            memory.seek(begin)
            if wanted in memory.read(end - begin):
                return True
    return False


@pytest.mark.parametrize("opted_in", [False, True])
def test_a_core_dump_has_neither_the_pool_nor_the_token(make_cluster, opted_in):
    cluster = make_cluster(names=("n1", "n2"), extra=["--core-dump-memory"] if opted_in else [])
    sent = os.urandom(MIB)
    pattern = sent[-4096:]  # its first bytes may be in a receive buffer
    allocation = cluster.program(cluster["n2"]).alloc(8 * MIB, nodes=["n1"], flags=DEDICATED)
    allocation.put(3 * MIB, sent)
    pid = cluster["n1"].process.pid
    assert dumped(pid, pattern) == opted_in
    assert not dumped(pid, cluster.token_file.read_bytes())
    assert not dumped(pid, cluster.token_file.read_bytes()[:32])


# ---- signals, configuration, packaging


def test_sighup_ends_nothing_and_says_that_it_reloads_nothing(make_cluster):
    cluster = make_cluster(names=("n1",))
    program = cluster.program(cluster["n1"])
    a = program.alloc(MIB)
    a.fill(0, 1, MIB)
    for _ in range(2):
        cluster["n1"].signal(signal.SIGHUP)
    wait_for("it is said", lambda: "restart" in "".join(lines(cluster["n1"], "sighup_ignored")))
    assert a.holds(0, 1, MIB)
    assert cluster["n1"].stop() == 0


def check_config(tmp_path, *arguments):
    return subprocess.run([str(find_binary("oncillad")), "--run-dir", str(tmp_path), "--check-config",
                           *map(str, arguments)], capture_output=True, text=True, timeout=20)


def test_check_config_refuses_what_cannot_work(tmp_path):
    def refused(*arguments):
        result = check_config(tmp_path, *arguments)
        assert result.returncode == 2, result
        assert result.stdout == ""
        return result.stderr
    assert "directory" in refused("--config", tmp_path)
    assert "numa_node" in refused("--dram-numa-node", 77)
    assert "numa_node" in refused("--dram-numa-node", 63)  # within the mask, and not there
    assert "bytes of memory" in refused("--dram", "900GiB")
    assert check_config(tmp_path, "--dram-numa-node", 0).returncode == 0


def test_a_start_refuses_what_cannot_work(tmp_path):
    result = subprocess.run([str(find_binary("oncillad")), "--run-dir", str(tmp_path),
                             "--control-listen", "127.0.0.1:0", "--data-listen", "127.0.0.1:0",
                             "--http-listen", "", "--dram-numa-node", "63"],
                            capture_output=True, text=True, timeout=20)
    assert result.returncode == 2 and "numa_node" in result.stderr


def test_check_config_warns_of_huge_pages_that_nobody_reserved(tmp_path):
    pages = pathlib.Path("/proc/sys/vm/nr_hugepages")
    if not pages.exists() or int(pages.read_text()) * 2 * MIB >= 4 << 30:
        pytest.skip("this machine has no huge pages, or has reserved them")
    result = check_config(tmp_path, "--dram", "4GiB", "--dram-hugepages")
    assert result.returncode == 0 and "nr_hugepages" in result.stderr


def test_the_unit_keeps_the_token_and_locks_memory():
    unit = (pathlib.Path(__file__).resolve().parents[2] / "packaging/oncillad.service").read_text().splitlines()
    for line in ("RuntimeDirectoryPreserve=yes", "LimitMEMLOCK=infinity", "LimitCORE=0", "CapabilityBoundingSet=",
                 "SystemCallFilter=@system-service", "RestrictNamespaces=yes", "UMask=0077"):
        assert line in unit, line


# ---- small


def test_a_full_pool_is_told_in_bytes_that_add_up(make_cluster):
    cluster = make_cluster(names=("n1",), dram=64 * MIB)
    program = cluster.program(cluster["n1"])
    kept = program.alloc(4096, flags=DEDICATED)
    with pytest.raises(OcmError) as caught:
        program.alloc(64 * MIB)
    assert caught.value.name == "POOL_FULL"
    assert str(64 * MIB) in caught.value.detail and str(64 * MIB - 4096) in caught.value.detail, caught.value.detail
    assert "64.0 MiB of" not in caught.value.detail  # what is free is rounded down
    kept.free()


def test_doctor_warns_of_a_pool_that_is_nearly_full(make_cluster):
    cluster = make_cluster(names=("n1",), dram=64 * MIB)
    program = cluster.program(cluster["n1"])
    assert doctor(cluster["n1"])["pools"]["verdict"] == "OK"
    assert program.alloc(60 * MIB, flags=DEDICATED)
    found = doctor(cluster["n1"])["pools"]
    assert found["verdict"] == "WARN" and "n1" in found["found"] and "94 %" in found["found"]


def test_an_error_counter_is_not_labelled_ok(make_cluster):
    text = make_cluster(names=("n1",))["n1"].http_get("/metrics")
    assert 'code="OK"' not in text
    assert re.search(r'^oncilla_fabric_errors_total\{fabric="tcp",code="PROTOCOL"\} 0$', text, re.M)


def test_a_mistyped_command_gets_a_hint():
    def says(*arguments):
        result = subprocess.run([str(find_binary("ocm")), *arguments], capture_output=True, text=True, timeout=20)
        assert result.returncode == 2
        return result.stderr
    assert "did you mean `ocm status`" in says("staus")
    assert "did you mean `--json`" in says("status", "--jsn")
    assert "there is no command `xyzzy`" in says("xyzzy")
