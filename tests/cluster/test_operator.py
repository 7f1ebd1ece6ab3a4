"""What the operator of a cluster sees and does: a node that finds no cluster, a dead coordinator, signals, limits,
logs under a flood, core dumps, the configuration that is checked before a start."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

from harness import FAILURE_DEADLINE_S, Node, free_ports, wait_for
from ocmlib import DEDICATED, OcmError, find_binary

MIB = 1 << 20


def metric(node, name):
    found = re.search("^" + re.escape(name) + r" (\d+)$", node.http_get("/metrics"), re.M)
    return int(found.group(1)) if found else None


def lines(node, event):
    return [line for line in node.log_path.read_text(errors="replace").splitlines() if f" {event} " in line]


# ---- the coordinator


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


# ---- descriptors


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
    result = subprocess.run([str(find_binary("oncillad")), "--run-dir", str(tmp_path), "--control-listen", "127.0.0.1:0",
                             "--data-listen", "127.0.0.1:0", "--http-listen", "", "--dram-numa-node", "63"],
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
    for line in ("RuntimeDirectoryPreserve=restart", "LimitMEMLOCK=infinity", "LimitCORE=0", "CapabilityBoundingSet=",
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
