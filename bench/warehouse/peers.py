"""The peers on the same queries: each a program in an environment of its own, asked one query after the other.

A peer is started for its own rounds only, in which it alternates with ours, so that none disturbs another.
"""
from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from demo import answers, measure
from demo.queries import Query
from oncilla_bench import paths, programs

HERE = pathlib.Path(__file__).resolve().parent
VENV = paths.ROOT / "build" / "warehouse-venv"
REQUIREMENTS = HERE / "requirements.txt"
ANSWER_S = 120.0


def install() -> str:
    """Makes the environment of the peers. -> why there is none, or nothing."""
    python, ready = VENV / "bin" / "python", VENV / ".ready"
    if ready.exists() and ready.stat().st_mtime >= REQUIREMENTS.stat().st_mtime:
        return ""
    print("installing the peers of the warehouse", flush=True)
    try:
        if not python.exists():
            programs.run([sys.executable, "-m", "venv", VENV], None, 60)
        programs.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", REQUIREMENTS],
                     None, 400)
    except programs.Failed as failure:
        return f"pip: {failure}"
    ready.touch()
    return ""


def install_redis() -> str:
    """-> why there is no redis-server, or nothing."""
    if shutil.which("redis-server") is None:
        with contextlib.suppress(programs.Failed):
            programs.run([paths.ROOT / "scripts" / "need.sh", "redis-server"], None, 240)
    return "" if shutil.which("redis-server") else "redis-server is not installed"


class Peer(measure.Source):
    """A running peer program. Its time is that from asking its store for the columns to the whole answer."""

    def __init__(self, key: str, title: str, process: subprocess.Popen) -> None:
        self.key, self.title, self.process = key, title, process
        self.store_s = self._line()["store_seconds"]

    def _line(self) -> dict:
        """The next line of JSON. Errors: programs.Failed."""
        end = time.monotonic() + ANSWER_S
        while True:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise programs.Failed(f"{self.title}: no answer within {ANSWER_S:.0f} s")
            line = self.process.stdout.readline()
            if not line:
                raise programs.Failed(f"{self.title}: {_last_words(self.process)}")
            if line.startswith("{"):
                return json.loads(line)

    def turn(self, connection: object, query: Query, right: answers.Summary) -> tuple[float, int | None]:
        """The program checks the answer, and ends when it is wrong. Errors: programs.Failed."""
        try:
            self.process.stdin.write(json.dumps({"query": query.name}) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise programs.Failed(f"{self.title}: {_last_words(self.process)}") from None
        found = self._line()
        return found["seconds"], found["moved_bytes"]


def _last_words(process: subprocess.Popen) -> str:
    process.wait(10)
    process.errors.seek(0)
    lines = [line for line in process.errors.read().splitlines() if line.strip()]
    return lines[-1][:200] if lines else f"ended with {process.returncode}"


@contextlib.contextmanager
def _program(name: str, *options: object, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen]:
    """A peer program with pipes; its whole group is ended."""
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            [str(part) for part in (VENV / "bin" / "python", "-B", HERE / "peer" / name, *options)],
            text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            env={**os.environ, **(env or {})},
            start_new_session=True)
        process.errors = errors
        try:
            yield process
        finally:
            with contextlib.suppress(OSError):
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)  # stores have processes of their own to end
            programs.end(process)
            process.stdout.close()


@dataclasses.dataclass(frozen=True)
class Kind:
    key: str
    title: str
    like: str  # the source of ours that it is compared to
    opened: Callable[[pathlib.Path], contextlib.AbstractContextManager[Peer]]
    missing: str = ""


def _ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _of(folder: pathlib.Path) -> tuple[object, ...]:
    return "--data", folder, "--right", folder / "right"


@contextlib.contextmanager
def shared_memory(folder: pathlib.Path) -> Iterator[Peer]:
    with _program("shm_peer.py", *_of(folder)) as process:
        yield Peer("shm", "Arrow IPC in /dev/shm", process)


def ray(where: str) -> Callable[[pathlib.Path], contextlib.AbstractContextManager[Peer]]:
    @contextlib.contextmanager
    def opened(folder: pathlib.Path) -> Iterator[Peer]:
        with _program("ray_peer.py", *_of(folder), "--where", where) as process:
            yield Peer(f"ray_{where}", f"Ray, {where}", process)
    return opened


@contextlib.contextmanager
def redis(folder: pathlib.Path) -> Iterator[Peer]:
    [port] = _ports(1)
    command = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir",
               paths.WORK]
    with programs.server(command, None, paths.WORK / "redis.log"):
        programs.wait_for("redis-server listens", lambda: _listens(port))
        with _program("redis_peer.py", *_of(folder), "--port", port) as process:
            yield Peer("redis", "Redis", process)


@contextlib.contextmanager
def mooncake(folder: pathlib.Path) -> Iterator[Peer]:
    rpc, metrics, http = _ports(3)
    master, metadata = f"127.0.0.1:{rpc}", f"http://127.0.0.1:{http}/metadata"
    env = {"MC_TCP_ENABLE_CONNECTION_POOL": "true", "MC_TCP_SLICE_SIZE": str(256 << 10), "MC_LOG_LEVEL": "ERROR",
           "MC_FORCE_TCP": "1"}
    command = [VENV / "bin" / "mooncake_master", "-rpc_port", rpc, "-metrics_port", metrics,
               "-enable_http_metadata_server=true", "-http_metadata_server_host", "127.0.0.1",
               "-http_metadata_server_port", http]
    with programs.server(command, None, paths.WORK / "mooncake-master.log"):
        programs.wait_for("mooncake_master listens", lambda: _listens(rpc) and _listens(http))
        with _program("mooncake_peer.py", "holder", master, metadata, env=env) as holder:
            while (line := holder.stdout.readline()) != "ready\n":
                if not line:
                    raise programs.Failed(f"Mooncake: {_last_words(holder)}")
            with _program("mooncake_peer.py", *_of(folder), "--master", master, "--metadata", metadata,
                          env=env) as process:
                yield Peer("mooncake", "Mooncake Store", process)


def kinds() -> list[Kind]:
    """All of them; one that cannot run here says why."""
    missing = install()
    return [Kind("shm", "Arrow IPC in /dev/shm, pyarrow", "local", shared_memory, missing),
            Kind("ray_local", "Ray 2 object store, own node", "local", ray("local"), missing),
            Kind("ray_remote", "Ray 2 object store, another node", "remote", ray("remote"), missing),
            Kind("redis", "Redis 7, Arrow values", "remote", redis, missing or install_redis()),
            Kind("mooncake", "Mooncake Store 0.3", "remote", mooncake, missing)]
