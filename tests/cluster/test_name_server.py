"""A name server that does not answer: it holds up nobody for longer than a deadline."""
import os
import socket
import subprocess
import sys

import pytest

from harness import HERE, outcome, wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a process files of its own in /etc")

HOME = "home.oncilla.test"
PUT = """
import sys, ocmlib
a = ocmlib.Session(sys.argv[1], 1.0).alloc(4096, nodes=["n2"], flags=ocmlib.DEDICATED)
try:
    a.put(0, b"12345678")
except ocmlib.OcmError as error:
    print(error.name, error.detail)
"""


@pytest.fixture
def silent(tmp_path):
    """A prefix for a process whose name server takes every question and answers none, for minutes."""
    address = f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"  # of this process of tests alone
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        conf = tmp_path / "resolv.conf"
        conf.write_text(f"nameserver {address}\noptions timeout:30 attempts:5\n")
        yield over(conf, "/etc/resolv.conf")


def over(file, path):
    """A prefix for a process that has `file` in place of `path`."""
    # As a slave it lets go of other tests' network namespaces when they are removed.
    return ["unshare", "--mount", "--propagation", "slave",
            "sh", "-c", f"mount --bind '{file}' {path} && exec \"$@\"", "sh"]


def test_a_daemon_starts_serves_and_stops(make_cluster, silent):
    cluster = make_cluster(names=("n1", "n2"), start=False)
    node = cluster["n2"].start(["--coordinator", f"{HOME}:7600"], prefix=silent).wait_ready()
    program = cluster.program(node)
    a = program.alloc(4096)
    a.fill(0, 1, 4096)
    assert a.holds(0, 1, 4096)
    assert outcome(lambda: program.session("names")) == "NO_COORDINATOR"
    wait_for("the log tells", lambda: "the name server does not answer" in node.log())
    program.close()
    assert node.stop() == 0


def test_a_put_fails_within_its_deadline(make_cluster, silent, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {HOME}\n")
    cluster = make_cluster(names=("n1", "n2"), start=False)
    cluster.start_all(lambda node: node.start(["--advertise", HOME] if node.name == "n2" else [],
                                              prefix=over(hosts, "/etc/hosts")))
    put = subprocess.run([*silent, sys.executable, "-c", PUT, str(cluster["n1"].socket_path)], check=True, timeout=25,
                         env={**os.environ, "PYTHONPATH": str(HERE)}, capture_output=True, text=True).stdout
    assert put.startswith("PEER_LOST") and "the name server does not answer" in put
