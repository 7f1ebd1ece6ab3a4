"""Clusters of real daemons for the tests: on loopback, or each node in its own network namespace.

A Cluster owns its processes, namespaces and directory, and removes all of them in close(). Ports are drawn from those
that no client gets. Every wait has a deadline; a daemon's log is kept in the test's directory and shown on failure.
"""
import contextlib
import itertools
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from ocmlib import CACHE_PAGES, OcmError, Session, find_binary

HERE = pathlib.Path(__file__).resolve().parent
FAILURE_DEADLINE_S = 1.5
SEEDS = os.environ.get("OCM_TEST_SEEDS") == "1"  # run all tests so
_serial = itertools.count()


# What is of memory that programs reach without a daemon's cache.
only_mapped = pytest.mark.skipif(CACHE_PAGES > 0, reason="the daemons cache it")


def wait_for(what: str, condition, deadline_s: float = 15.0):
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(0.02)


def settled(measure, quiet_s: float = 0.5):
    """What it measures when it has not changed for a while: what others have freed is on its way back until then."""
    def same():
        first = measure()
        time.sleep(quiet_s)
        return (first,) if measure() == first else None
    return wait_for("it changes no more", same)[0]


def outcome(action):
    """The error's name, or what the action gave."""
    try:
        return action()
    except OcmError as error:
        return error.name


def used(node) -> int:
    """Bytes of its memory, as it says itself."""
    return next(pool["bytes_used"] for pool in node.status()["pools"] if pool["kind"] == "dram")


def resident_bytes(node) -> int:
    return int(pathlib.Path(f"/proc/{node.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def works(cluster):
    """A new program of n1 writes to n2 and reads it back."""
    program = cluster.program(cluster["n1"])
    a = program.alloc(1 << 20, nodes=["n2"])
    a.fill(0, 1, 1 << 20)
    assert a.holds(0, 1, 1 << 20)
    program.close()
    cluster.programs.remove(program)


GIVEN_PORTS: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Below the range of ports that the kernel gives to clients, so that no connection of a test that runs beside this
    one takes the port of a daemon that is not started yet, or that is down for a moment. For the same reason each
    process of tests has ports of its own, and gives none twice."""
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    mine = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(min(10000, first // 2), first)
        if port % processes != mine or port in GIVEN_PORTS:
            continue
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            ports.append(port)
            GIVEN_PORTS.add(port)
    return ports


class Program:
    """An agent process: a program that holds a session. Methods mirror ocmlib through JSON."""

    def __init__(self, node: "Node", deadline_s: float = 0, uid: int | None = None):
        env = {**os.environ, "PYTHONPATH": str(HERE)}
        self.process = subprocess.Popen(node.in_namespace([sys.executable, str(HERE / "agent.py")]), env=env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seconds = 0.0
        self._names = itertools.count()
        if uid is not None:
            node.cluster.let_others_in()
            self.send({"do": "become", "args": [uid]})
        self.send({"do": "open", "args": [str(node.socket_path), deadline_s]})

    def start(self, command: dict):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def finish(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the program ended: {self.process.wait()}")
        answer = json.loads(line)
        self.seconds = answer["seconds"]
        if "fault" in answer:
            raise AssertionError(answer["fault"])
        if "error" in answer:
            raise OcmError(answer["error"], answer["detail"], answer["node"], answer["subject"])
        result = answer["result"]
        return bytes.fromhex(result["hex"]) if isinstance(result, dict) and "hex" in result else result

    def send(self, command: dict):
        self.start(command)
        return self.finish()

    def session(self, method: str, *args, **kwargs):
        return self.send({"do": "call", "on": "session", "method": method, "args": list(args), "kwargs": kwargs})

    def alloc(self, count: int, **kwargs) -> "Handle":
        name = f"a{next(self._names)}"
        self.send({"do": "call", "on": "session", "method": "alloc", "as": name, "args": [count], "kwargs": kwargs})
        return Handle(self, name)

    def attach(self, published: str, access: str = "rw") -> "Handle":
        name = f"a{next(self._names)}"
        self.send({"do": "call", "on": "session", "method": "attach", "as": name, "args": [published, access]})
        return Handle(self, name)

    def join(self, *parts: "Handle") -> "Handle":
        name = f"a{next(self._names)}"
        self.send({"do": "call", "on": "session", "method": "join", "as": name,
                   "args": [{"object": part.name} for part in parts]})
        return Handle(self, name)

    def nodes(self):
        return self.session("nodes")

    def kill(self, signal_number=signal.SIGKILL):
        self.process.send_signal(signal_number)
        if signal_number in (signal.SIGKILL, signal.SIGTERM):
            self.process.wait(10)

    def close(self):
        with contextlib.suppress(Exception):
            self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait(10)
        self.process.stdin.close()
        self.process.stdout.close()


LARGE = (1 << 20) + 1  # an extent so long always has a file of its own


def few_descriptors(count: int) -> list:
    """The command that starts a daemon which has no more."""
    limit = ["prlimit", f"--nofile={count}:{count}"]
    if os.geteuid() == 0:  # root may raise it again: drop that right
        limit = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource", *limit]
    return limit


class Handle:
    """An allocation that lives in a Program."""

    def __init__(self, program: Program, name: str):
        self.program, self.name = program, name

    def call(self, method: str, *args, **kwargs):
        return self.program.send(self.command(method, *args, **kwargs))

    def command(self, method: str, *args, **kwargs) -> dict:
        sent = [{"hex": a.hex()} if isinstance(a, bytes) else {"object": a.name} if isinstance(a, Handle) else a
                for a in args]
        return {"do": "call", "on": self.name, "method": method, "args": sent, "kwargs": kwargs}

    def fill(self, offset: int, seed: int, count: int):
        """Puts `count` bytes that follow from `seed`."""
        self.program.send({"do": "call", "on": self.name, "method": "put",
                           "args": [offset, {"pattern": [seed, count]}]})

    def holds(self, offset: int, seed: int, count: int) -> bool:
        return self.program.send({"do": "check", "on": self.name, "args": [offset, seed, count]})

    def __getattr__(self, method: str):
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *args, **kwargs: self.call(method, *args, **kwargs)


class Node:
    def __init__(self, cluster: "Cluster", name: str, host: str, ports: list[int], namespace: str | None,
                 machine: str | None = None):
        self.cluster, self.name, self.host, self.namespace = cluster, name, host, namespace
        self.machine = machine or name
        self.control, self.data, self.http = (f"{host}:{port}" for port in ports)
        self.run_dir = cluster.directory / self.machine
        self.run_dir.mkdir(exist_ok=True)
        self.log_path = cluster.directory / f"{self.machine}.log"
        self.process: subprocess.Popen | None = None

    @property
    def socket_path(self) -> pathlib.Path:
        return self.run_dir / "oncillad.sock"

    def in_namespace(self, command: list) -> list:
        # Not `ip netns exec`: the mount namespace that it brings along keeps others' namespaces from being removed.
        inside = ["nsenter", f"--net=/run/netns/{self.namespace}"] if self.namespace else []
        return [*inside, *map(str, command)]

    def output_of(self, *command) -> str:
        """What the command prints there. It must succeed."""
        return subprocess.run(self.in_namespace([*command]), check=True, capture_output=True, text=True,
                              timeout=20).stdout

    def arguments(self, extra=()) -> list:
        c = self.cluster
        seeds = ",".join(node.control for node in c.nodes[:3])
        leader = ["--seeds", seeds] if c.seeds else ["--coordinator", c.nodes[0].control if c.nodes else self.control]
        return [find_binary("oncillad"), "--node-name", self.name, "--run-dir", self.run_dir,
                "--control-listen", self.control, "--data-listen", self.data, "--http-listen", self.http,
                *leader, "--token-file", c.token_file,
                "--dram", str(c.dram), "--heartbeat-ms", "200",
                "--failure-deadline-ms", str(int(FAILURE_DEADLINE_S * 1000)), "--log-level", "info",
                *c.extra, *extra]

    def start(self, extra=(), prefix=()):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.in_namespace([*prefix, *self.arguments(extra)]),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def wait_ready(self):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"{self.name} ended with {self.process.returncode}:\n{self.log()}")
            with contextlib.suppress(OSError):
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(str(self.socket_path))
                    return True
        wait_for(f"{self.name} listens\n{self.log()}", ready)
        return self

    def signal(self, number):
        self.process.send_signal(number)
        if number == signal.SIGSTOP:  # a thread on another processor runs on for a moment
            wait_for(f"{self.name} stands still", self._stands_still)

    def _stands_still(self) -> bool:
        states = (stat.read_text().rpartition(")")[2].split()[0]
                  for stat in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/stat"))
        return all(state == "T" for state in states)

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        return self.process.wait(15)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")[-6000:] if self.log_path.exists() else ""

    def http_get(self, path: str) -> str:
        if self.namespace:
            return subprocess.run(self.in_namespace([sys.executable, "-c",
                                  f"import urllib.request as u;print(u.urlopen('http://{self.http}{path}',timeout=5).read().decode())"]),
                                  check=True, capture_output=True, text=True, timeout=20).stdout
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=5) as response:
            return response.read().decode()

    def local_get(self, path: str) -> str:
        """Through the socket beside the programs': the daemon sees who asks."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(str(self.run_dir / "http.sock"))
            s.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            reply = b"".join(iter(lambda: s.recv(1 << 16), b""))
        head, _, body = reply.partition(b"\r\n\r\n")
        assert b" 200 " in head, reply
        return body.decode()

    def status(self) -> dict:
        return json.loads(self.local_get("/status"))


_busy_namespaces: list[str] = []


def remove_namespace(space: str, tries: int = 50):
    """It may be busy where another test runs a command in a namespace of its own: then it goes at the end of all."""
    for _ in range(tries):
        if subprocess.run(["ip", "netns", "del", space], capture_output=True, timeout=20).returncode == 0:
            return
        if not pathlib.Path("/run/netns", space).exists():
            return
        time.sleep(0.1)
    _busy_namespaces.append(space)


def remove_busy_namespaces():
    for space in [*_busy_namespaces]:
        remove_namespace(space, 300)


class Cluster:
    """`names` nodes, the first of them the coordinator."""

    def __init__(self, directory: pathlib.Path, names=("n1", "n2", "n3"), dram: int = 256 << 20, namespaces=False,
                 extra=(), start=True, seeds=SEEDS):
        """`seeds`: the coordinator's role passes on between the nodes; else the first has it for good."""
        self.directory, self.dram, self.extra, self.seeds = directory, dram, list(extra), seeds
        if CACHE_PAGES and "--cache" not in self.extra:
            self.extra += ["--cache", str(CACHE_PAGES << 16)]
        directory.mkdir(parents=True, exist_ok=True)
        self.token_file = directory / "token"
        self.token_file.touch(mode=0o600)
        self.token_file.write_text(os.urandom(32).hex())
        self.nodes: list[Node] = []
        self.programs: list[Program] = []
        self.switch: str | None = None
        if namespaces:
            self._make_network(names)
        else:
            ports = free_ports(3 * len(names))
            for i, name in enumerate(names):
                self.nodes.append(Node(self, name, "127.0.0.1", ports[3 * i:3 * i + 3], None))
        if start:
            self.start_all(Node.start)

    def _make_network(self, names):
        tag = f"ocm{os.getpid() % 100000}-{next(_serial)}"
        self.switch = f"{tag}-sw"
        self._ip("netns", "add", self.switch)
        self._ip("-n", self.switch, "link", "add", "br0", "type", "bridge")
        self._ip("-n", self.switch, "link", "set", "br0", "up")
        for i, name in enumerate(names, 1):
            self._add_machine(name, name, f"10.77.0.{i}")

    def _add_machine(self, machine: str, name: str, host: str, hardware_address: str | None = None) -> "Node":
        space = f"{self.switch.removesuffix('-sw')}-{machine}"
        self._ip("netns", "add", space)
        self.nodes.append(Node(self, name, host, [7600, 7601, 7602], space, machine))
        self._ip("link", "add", "eth0", "netns", space, "type", "veth",
                 "peer", "name", f"to-{machine}", "netns", self.switch)
        if hardware_address:
            self._ip("-n", space, "link", "set", "eth0", "address", hardware_address)
        self._ip("-n", self.switch, "link", "set", f"to-{machine}", "master", "br0", "up")
        self._ip("-n", space, "addr", "add", f"{host}/24", "dev", "eth0")
        self._ip("-n", space, "link", "set", "eth0", "up")
        self._ip("-n", space, "link", "set", "lo", "up")
        return self.nodes[-1]

    def namesake(self, node: "Node", host: str | None = None) -> "Node":
        """Another machine with the node's name and addresses, not started; the node itself is cut off. With `host` it
        has that address, and the node stays connected."""
        if host:
            return self._add_machine(f"{node.name}-2", node.name, host)
        self.cut(node)
        address = node.output_of("cat", "/sys/class/net/eth0/address").strip()
        return self._add_machine(f"{node.name}-2", node.name, node.host, address)

    @staticmethod
    def _ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)

    def cut(self, node: "Node"):
        self._ip("-n", self.switch, "link", "set", f"to-{node.machine}", "down")

    def restore(self, node: "Node"):
        self._ip("-n", self.switch, "link", "set", f"to-{node.machine}", "up")

    def cut_one_way(self, sender: "Node", receiver: "Node"):
        """Nothing that `sender` sends reaches `receiver` any more; the other direction goes on."""
        self._ip("-n", sender.namespace, "route", "add", "blackhole", f"{receiver.host}/32")

    def restore_one_way(self, sender: "Node", receiver: "Node"):
        self._ip("-n", sender.namespace, "route", "del", "blackhole", f"{receiver.host}/32")

    def cut_pair(self, a: "Node", b: "Node"):
        """The two do not reach each other; both still reach all others."""
        self.cut_one_way(a, b)
        self.cut_one_way(b, a)

    def restore_pair(self, a: "Node", b: "Node"):
        self.restore_one_way(a, b)
        self.restore_one_way(b, a)

    def program(self, node: "Node", deadline_s: float = 0, uid: int | None = None) -> Program:
        """With `uid` as that user, which takes root."""
        program = Program(node, deadline_s, uid)
        self.programs.append(program)
        return program

    def let_others_in(self):
        """Other users reach the sockets: pytest keeps its directories to its own user."""
        for folder in (self.directory, *self.directory.parents):
            if folder.stat().st_uid == os.geteuid() and folder.stat().st_mode & 0o077 == 0:
                folder.chmod(0o711)

    def start_all(self, start):
        """start(node) for each, until all have heard of all."""
        try:
            for node in self.nodes:
                start(node)
            for node in self.nodes:
                node.wait_ready()
            for node in self.nodes:
                self.wait_members(at=node)
        except BaseException:
            self.close()
            raise

    def wait_members(self, count: int | None = None, at=None):
        count = count or len(self.nodes)
        session = Session(str((at or self.nodes[-1]).socket_path))  # cheaper than a program of its own
        try:
            wait_for(f"{count} nodes alive",
                     lambda: sum(n["state"] == "alive" for n in session.nodes().values()) == count)
        finally:
            session.close()

    def councils(self) -> list[tuple[str, list[str]]]:
        """Those that the coordinator, n1, made: when, as its log says, and who votes."""
        return [(line.split()[0], line.split("voters=")[1].strip('"').split())
                for line in self["n1"].log().splitlines() if " council number=" in line]

    def wait_votes(self, name: str):
        """Until this run of a voter has its vote. Before that its former run counts as a silent voter: were another
        one of three killed then, a majority would be gone (CAVEATS.md)."""
        def when(node, event):
            return [line.split()[0] for line in self[node].log().splitlines() if event in f"{line} "]

        def votes():
            since = max(when(name, " started ") + when("n1", f" node_heard node={name} "))
            made, voters = (self.councils() or [("", [])])[-1]
            return made > since and name in voters

        wait_for(f"{name} votes", votes)

    def __getitem__(self, name: str) -> Node:
        return next(n for n in self.nodes if n.name == name)

    def close(self):
        for program in self.programs:
            program.close()
        for node in self.nodes:
            if node.process and node.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    node.process.send_signal(signal.SIGCONT)
                    node.process.kill()
                node.process.wait(10)
        if self.switch:
            for space in [*(node.namespace for node in self.nodes), self.switch]:
                remove_namespace(space)
