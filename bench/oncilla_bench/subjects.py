"""Who is measured, and how each is run once: ours, the limits and the peers, with the peers' best settings.

A subject's run(network, sizes, seconds) gives results of measure.h. Variants of one subject differ in their
settings only; the table takes the best variant for each case, so that no peer loses by a setting.
"""
import dataclasses
import itertools
import os
import socket
import time
import typing

from . import paths, programs

KIB = 1024


@dataclasses.dataclass
class Subject:
    name: str
    role: str  # "ours", "limit" or "peer"
    fabric: str  # "shm" or "tcp"
    run: typing.Callable
    variant: str = ""
    quick: bool = True  # part of a quick run
    quick_veth: bool = False
    missing: str = ""  # why it cannot run here

    @property
    def label(self):
        return f"{self.name} ({self.variant})" if self.variant else self.name


def _options(sizes, seconds):
    return ["--sizes", ",".join(map(str, sizes)), "--seconds", str(seconds)]


_ports = itertools.cycle(range(20000, 40000))


def _free_port(network):
    """A port that a server of either place can take."""
    if network.name != "loopback":
        return next(_ports)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _log(name):
    return paths.WORK / f"{name}.log"


# ------------------------------------------------------------------ limits


def memcpy(threads):
    def run(network, sizes, seconds):
        return programs.measurements(programs.run(
            [paths.WORK / "memcpy_limit", "--threads", threads, *_options(sizes, seconds)]))
    return run


def raw_tcp(wait, capped):
    def run(network, sizes, seconds):
        tail = [network.addresses[1], _free_port(network), "--wait", wait, "--capped", capped,
                *_options(sizes, seconds)]
        with programs.server(network.at("b", [paths.WORK / "tcp_raw", "server", *tail]), None, _log("tcp_raw")):
            return programs.measurements(programs.run(network.at("a", [paths.WORK / "tcp_raw", "client", *tail])))
    return run


def limits(reasons):
    copies = reasons.get("memcpy_limit", "")
    raw = reasons.get("tcp_raw", "")
    return [
        Subject("memcpy", "limit", "shm", memcpy(1), "1 thread", missing=copies),
        Subject("memcpy", "limit", "shm", memcpy(2), "2 threads", missing=copies),
        Subject("raw loop", "limit", "tcp", raw_tcp("spin", 0), "spin", quick_veth=True, missing=raw),
        Subject("raw loop", "limit", "tcp", raw_tcp("spin", 1), "spin, 128k", quick_veth=True, missing=raw),
        Subject("raw loop", "limit", "tcp", raw_tcp("block", 0), "block", quick=False, missing=raw),
        Subject("raw loop", "limit", "tcp", raw_tcp("block", 1), "block, 128k", missing=raw),
    ]


def ours(clusters):
    """clusters: by network name; a missing one is the reason why (a string)."""
    def run(mode):
        return lambda network, sizes, seconds: clusters[network.name].bench(mode, sizes, seconds)
    return [Subject("Oncilla", "ours", "shm", run("shm")),
            Subject("Oncilla", "ours", "tcp", run("tcp"), quick_veth=True)]


# ------------------------------------------------------------------ peers


def open_mpi(fabric, *settings):
    """osc sm for shared memory, osc pt2pt over btl tcp else: osc rdma refuses btl tcp in 4.1."""
    components = (["--mca", "btl", "vader,self", "--mca", "osc", "sm"] if fabric == "shm" else
                  ["--mca", "btl", "tcp,self", "--mca", "osc", "pt2pt"])

    def run(network, sizes, seconds):
        place = []
        if network.name == "veth":
            agent = paths.WORK / f"mpi-agent-{os.getpid()}"
            agent.write_text("#!/bin/sh\n# mpirun's way into the other namespace: HOST COMMAND...\nshift\n"
                             f"exec ip netns exec {network.namespaces[1]} unshare --uts "
                             "sh -c \"hostname ocmbench-b; $*\"\n")
            agent.chmod(0o755)
            place = ["--host", ",".join(f"{address}:1" for address in network.addresses),
                     "--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", network.interface,
                     "--mca", "orte_keep_fqdn_hostnames", "1"]
        try:
            command = ["mpirun", "--allow-run-as-root", "-np", "2", "--bind-to", "none", "--oversubscribe",
                       "--mca", "pml", "ob1", *components, "--mca", "btl_tcp_if_include", network.interface,
                       *settings, *place, paths.WORK / "mpi_rma", *_options(sizes, seconds)]
            return programs.measurements(programs.run(network.at("a", command)))
        finally:
            if place:
                agent.unlink(missing_ok=True)
    return run


UCX_TCP = {"UCX_TLS": "tcp", "UCX_TCP_TX_SEG_SIZE": "256k", "UCX_TCP_RX_SEG_SIZE": "256k", "UCX_TCP_SNDBUF": "256k",
           "UCX_TCP_RCVBUF": "256k", "UCX_RNDV_THRESH": "inf"}
UCX_SHM = {"UCX_TLS": "posix,self"}
UCX_QUIET = {"UCX_WARN_UNUSED_ENV_VARS": "n", "UCX_LOG_LEVEL": "error"}


def ucx(settings, library=None):
    """`library`: the folder of another UCX than Debian's, which is loaded in its place."""
    def run(network, sizes, seconds):
        env = {**UCX_QUIET, **settings}
        if library:
            env["LD_LIBRARY_PATH"] = str(library)
        if settings is not UCX_SHM:
            env["UCX_NET_DEVICES"] = network.interface
        port = _free_port(network)
        program = [paths.WORK / "ucx_rma"]
        tail = [network.addresses[1], port, *_options(sizes, seconds)]
        with programs.server(network.at("b", [*program, "server", *tail]), env, _log("ucx")):
            return programs.measurements(programs.run(network.at("a", [*program, "client", *tail]), env))
    return run


def ucx_perftest(settings):
    """One test a call. put of up to 4 KiB over TCP: a put that a put answers (twice the reported half); else one
    outstanding put. get over TCP is left out: the responder serves it once a millisecond."""
    shm = settings is UCX_SHM

    def one(network, env, test, size, us_each, seconds):
        count = max(3, int(seconds * 1e6 / us_each))
        port = _free_port(network)
        tail = ["-t", test, "-s", size, "-n", count, "-w", count // 10 + 1, "-O", 1, "-f", "-v"]
        with programs.server(network.at("b", ["ucx_perftest", "-p", port]), env, _log("ucx_perftest")):
            end = time.monotonic() + 5
            while True:
                try:
                    output = programs.run(network.at("a", ["ucx_perftest", network.addresses[1], "-p", port, *tail]),
                                          env, 20)
                    break
                except programs.Failed:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.02)
        fields = output.strip().splitlines()[-1].split(",")
        return float(fields[3]), count

    def run(network, sizes, seconds):
        env = {**UCX_QUIET, **settings}
        if not shm:
            env["UCX_NET_DEVICES"] = network.interface
        results = []
        for size in (s for s in sizes if s in (64, 4 * KIB, KIB * KIB, 64 * KIB * KIB)):
            us_each = 0.05 + size / 12000 if shm else 15 + size / 2000
            answered = not shm and size <= 4 * KIB
            us, count = one(network, env, "ucp_put_lat" if answered else "ucp_put_bw", size, us_each, seconds)
            results.append({"op": "put", "bytes": size, "us": us * (2 if answered else 1), "n": count})
            if shm:
                us, count = one(network, env, "ucp_get", size, us_each, seconds)
                results.append({"op": "get", "bytes": size, "us": us, "n": count})
        return results
    return run


def libfabric(provider):
    def run(network, sizes, seconds):
        port = _free_port(network)
        env = {"FI_LOG_LEVEL": "warn"}

        def command(role, index):
            return network.at("ab"[index], [paths.WORK / "ofi_rma", role, provider, network.addresses[1], port,
                                            "--local", network.addresses[index], *_options(sizes, seconds)])
        with programs.server(command("server", 1), env, _log("libfabric")):
            return programs.measurements(programs.run(command("client", 0), env))
    return run


def mooncake(network, sizes, seconds):
    # The pool keeps connections; without it each transfer opens one.
    env = {"MC_TCP_ENABLE_CONNECTION_POOL": "true", "MC_TCP_SLICE_SIZE": str(256 * KIB), "MC_LOG_LEVEL": "ERROR",
           "MC_FORCE_TCP": "1"}
    meet = paths.WORK / f"mooncake-{os.getpid()}"
    meet.unlink(missing_ok=True)

    def command(role, index):
        return network.at("ab"[index], [paths.VENV / "bin" / "python", paths.BENCH / "peers" / "mooncake_peer.py", role,
                                        "--host", network.addresses[index], "--meet", meet, *_options(sizes, seconds)])
    try:
        with programs.server(command("server", 1), env, _log("mooncake")):
            return programs.measurements(programs.run(command("client", 0), env))
    finally:
        meet.unlink(missing_ok=True)


def nixl(settings, client_progress="thread"):
    """The target progresses by NIXL's own thread; the initiator by that or by its polling alone ("app")."""
    def run(network, sizes, seconds):
        env = {**UCX_QUIET, **settings, "NIXL_LOG_LEVEL": "ERROR"}
        if settings:
            env["UCX_NET_DEVICES"] = network.interface
        meet = paths.WORK / f"nixl-{os.getpid()}"
        files = [meet, meet.with_name(meet.name + ".client"), meet.with_name(meet.name + ".address")]
        for file in files:
            file.unlink(missing_ok=True)

        def command(role, place):
            return network.at(place, [paths.VENV / "bin" / "python", paths.BENCH / "peers" / "nixl_peer.py", role,
                                      "--meet", meet, "--progress", client_progress if role == "client" else "thread",
                                      *_options(sizes, seconds)])
        try:
            with programs.server(command("server", "b"), env, _log("nixl")):
                return programs.measurements(programs.run(command("client", "a"), env))
        finally:
            for file in files:
                file.unlink(missing_ok=True)
    return run


def key_value(kind):
    def run(network, sizes, seconds):
        port = _free_port(network)
        host = network.addresses[1]
        if kind == "redis":
            server = ["redis-server", "--port", port, "--bind", host, "--save", "", "--appendonly", "no",
                      "--protected-mode", "no", "--dir", paths.WORK]
        else:
            server = ["memcached", "-u", "root" if os.geteuid() == 0 else "nobody", "-l", host, "-p", port, "-U", "0",
                      "-t", "1", "-m", "1024", "-I", "128m"]
        client = network.at("a", [paths.WORK / "kv_raw", kind, host, port, *_options(sizes, seconds)])
        with programs.server(network.at("b", server), None, _log(kind)):
            end = time.monotonic() + 5
            while True:
                try:
                    return programs.measurements(programs.run(client))
                except programs.Failed as failure:
                    if "refused" not in str(failure) or time.monotonic() > end:
                        raise
                    time.sleep(0.05)
    return run


def peers(reasons):
    """All of them; one that cannot run here says why."""
    def why(*needs):
        return next((f"{reasons[need]}" for need in needs if need in reasons), "")

    buffers = ("--mca", "btl_tcp_sndbuf", "131072", "--mca", "btl_tcp_rcvbuf", "131072")
    mpi, ucx_missing = why("mpirun", "mpi_rma"), why("ucx_rma")
    perftest, fabric = why("ucx_perftest"), why("fi_info", "ofi_rma")
    python_nixl = why("nixl_cu12", "numpy")
    newer = next(paths.VENV.glob("lib/python3*/site-packages/libucx/lib"), None)
    return [
        Subject("Open MPI", "peer", "shm", open_mpi("shm"), "osc sm", missing=mpi),
        Subject("UCX", "peer", "shm", ucx(UCX_SHM), "posix", missing=ucx_missing),
        Subject("ucx_perftest", "peer", "shm", ucx_perftest(UCX_SHM), "posix", missing=perftest),
        Subject("NIXL", "peer", "shm", nixl({}), "UCX", missing=python_nixl),
        Subject("NIXL", "peer", "shm", nixl({}, "app"), "UCX, polled", quick=False, missing=python_nixl),
        Subject("Mooncake", "peer", "shm", mooncake, missing=why("mooncake") or
                "its engine has no shared memory transport for plain memory: on one host it goes over tcp"),
        Subject("Open MPI", "peer", "tcp", open_mpi("tcp"), "btl tcp", quick_veth=True, missing=mpi),
        Subject("Open MPI", "peer", "tcp", open_mpi("tcp", *buffers), "btl tcp, 128k", quick=False, missing=mpi),
        Subject("UCX", "peer", "tcp", ucx(UCX_TCP), "tcp", missing=ucx_missing),
        Subject("UCX", "peer", "tcp", ucx(UCX_TCP, newer), "1.22, tcp", quick=False,
                missing=ucx_missing or why("libucx")),
        Subject("ucx_perftest", "peer", "tcp", ucx_perftest(UCX_TCP), "tcp", quick=False, missing=perftest),
        Subject("libfabric", "peer", "tcp", libfabric("tcp;ofi_rxm"), "tcp;ofi_rxm", quick_veth=True, missing=fabric),
        Subject("libfabric", "peer", "tcp", libfabric("net"), "net", quick=False, missing=fabric),
        Subject("Mooncake", "peer", "tcp", mooncake, missing=why("mooncake")),
        Subject("NIXL", "peer", "tcp", nixl(UCX_TCP), "UCX tcp", missing=python_nixl),
        Subject("NIXL", "peer", "tcp", nixl(UCX_TCP, "app"), "UCX tcp, polled", quick=False, missing=python_nixl),
        Subject("Redis", "peer", "tcp", key_value("redis"), missing=why("redis-server", "kv_raw")),
        Subject("memcached", "peer", "tcp", key_value("memcached"), missing=why("memcached", "kv_raw")),
    ]
