"""An array of twice what the nodes cache, used through plain pointers by a program on each of two nodes.

Beside it a file of the same length that one program maps, in as much memory as both caches have.
"""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from .cluster import OCM, ROOT, Cluster, run

NAME = "array"
STEPS = (("fill", "each fills its half"), ("own", "each sums its half"), ("other", "each sums the other's half"),
         ("random", "each sums every page, in random order"))
_FACTOR = 0x9E37_79B9_7F4A_7C15
_PAGE_WORDS = (64 << 10) // 8


class Wrong(Exception):
    """A sum is not what was stored."""


def measure(quick: bool, folder: pathlib.Path,
            advanced: Callable[[int, str], None] = lambda done, step: None) -> dict:
    """-> cache_bytes (of both nodes), array_bytes, steps [{key, what, cluster_s, file_s or None}], skipped (why there
    is no file_s), caches [{node, ...as `ocm cache show --json`}], checks. Errors: Wrong, cluster.Failed.
    """
    cache_bytes = (16 if quick else 64) << 20
    words = 2 * 2 * cache_bytes // 8
    found: dict[str, Any] = {"cache_bytes": 2 * cache_bytes, "array_bytes": words * 8, "skipped": None}
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        # What the array takes is on the device of the first node alone.
        config.write(f'[offer.nvme]\nbytes = {words * 8}\npath = "{folder}"\n[cache]\nbytes = {cache_bytes}\n')
        config.flush()
        with Cluster(2, 16 << 20, config=config.name) as cluster, contextlib.ExitStack() as opened:
            workers = [opened.enter_context(_worker(node["socket"], part, words))
                       for part, node in enumerate(cluster.nodes.values())]
            steps = {}
            for done, (key, what) in enumerate(STEPS):
                advanced(done, f"{what}, pointers")
                start = time.perf_counter()
                sums = _together(workers, key)
                steps[key] = time.perf_counter() - start
                _check(key, sums, words)
            found["caches"] = [{"node": one["node"], **one["cache"]} for one in json.loads(run(
                [str(OCM), "cache", "show", "--json", "--http",
                 str(pathlib.Path(cluster.socket).with_name("http.sock"))]))["nodes"]]
    files: dict[str, float] = {}
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.truncate(words * 8)
            with _worker(file.name, 0, words, memory_bytes=2 * cache_bytes) as worker:
                for done, (key, what) in enumerate(STEPS, len(STEPS)):
                    advanced(done, f"{what}, a mapped file")
                    start = time.perf_counter()
                    sums = _together([worker], key)
                    files[key] = time.perf_counter() - start
                    _check(key, sums, words)
    except OSError as failure:
        found["skipped"] = f"memory of a program cannot be limited here ({failure}): it takes root and cgroups"
    found["steps"] = [{"key": key, "what": what, "cluster_s": steps[key], "file_s": files.get(key)}
                      for key, what in STEPS]
    found["checks"] = len(STEPS) * (1 if found["skipped"] else 2)
    return found


def rates(found: dict, step: dict) -> tuple[float | None, float | None]:
    """MiB/s of a step, of all programs together: by pointers, and of the mapped file, where it was measured."""
    mib = found["array_bytes"] / 2**20
    by_file = mib / step["file_s"] if step["file_s"] else None
    return mib * (2 if step["key"] == "random" else 1) / step["cluster_s"], by_file


def _check(step: str, sums: list[int], words: int) -> None:
    """Of i * _FACTOR in 64 bits, for all i; in the last step each has summed all."""
    whole = (words * (words - 1) // 2 * _FACTOR) % 2**64
    wanted = whole * (len(sums) if step == "random" else 1) % 2**64
    if step != "fill" and sum(sums) % 2**64 != wanted:
        raise Wrong(f"{step}: the sums are {sums} and not {wanted}")


# ---------------------------------------------------------------- the programs

@contextlib.contextmanager
def _worker(place: str, part: int, words: int, memory_bytes: int = 0) -> Iterator[subprocess.Popen]:
    """A program that takes steps from its input. `memory_bytes`: what it may have of pages of files."""
    with contextlib.ExitStack() as opened:
        process = opened.enter_context(subprocess.Popen(
            [sys.executable, "-B", "-m", "demo.outofcore", place, str(part), str(words)], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}))
        opened.callback(process.kill)
        ready = process.stdout.readline()  # type: ignore[union-attr]
        if not ready:
            raise Wrong(f"a program of the array ended with {process.wait()}")
        if memory_bytes:
            opened.enter_context(_limited(process.pid, memory_bytes + json.loads(ready)["own_bytes"]))
        yield process
        process.stdin.close()  # type: ignore[union-attr]
        process.wait(30)


def _together(workers: list[subprocess.Popen], step: str) -> list[int]:
    for worker in workers:
        worker.stdin.write(step + "\n")  # type: ignore[union-attr]
        worker.stdin.flush()  # type: ignore[union-attr]
    sums = []
    for worker in workers:
        line = worker.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise Wrong(f"a program of the array ended with {worker.wait()} in step {step}")
        sums.append(json.loads(line)["sum"])
    return sums


@contextlib.contextmanager
def _limited(pid: int, memory_bytes: int) -> Iterator[None]:
    """The process has so much memory, pages of files included. Errors: OSError (no cgroups, or not root)."""
    old = pathlib.Path("/sys/fs/cgroup/memory")
    parent, limit = (old, "memory.limit_in_bytes") if old.is_dir() else (pathlib.Path("/sys/fs/cgroup"), "memory.max")
    group = parent / f"oncilla-demo-{pid}"
    group.mkdir()
    try:
        (group / limit).write_text(str(memory_bytes))
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        with contextlib.suppress(OSError):
            (parent / "cgroup.procs").write_text(str(pid))
        for _ in range(50):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.02)


def main() -> None:
    """PLACE PART WORDS: the part of an array at a daemon's socket, or in a file."""
    import numpy as np
    place, part, words = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if pathlib.Path(place).is_socket():
        import oncilla
        session = oncilla.connect(place)
        if part == 0:
            held = session.allocate(words * 8, kind="nvme", nodes="node1")
            held.publish(NAME)
        else:
            held = session.attach(NAME, write=True)
        array = np.frombuffer(held, dtype=np.uint64)  # type: ignore[call-overload]
        mine, other = slice(part * words // 2, (part + 1) * words // 2), slice((1 - part) * words // 2,
                                                                               (2 - part) * words // 2)
    else:
        array = np.memmap(place, dtype=np.uint64, mode="r+", shape=(words,))
        mine = other = slice(0, words)
    own_bytes = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    print(json.dumps({"own_bytes": own_bytes + (16 << 20)}), flush=True)
    pages = np.random.default_rng(part).permutation(words // _PAGE_WORDS)
    for step in sys.stdin:
        total = 0
        if step == "fill\n":
            for first in range(mine.start, mine.stop, _PAGE_WORDS):
                array[first:first + _PAGE_WORDS] = np.arange(first, first + _PAGE_WORDS, dtype=np.uint64) * np.uint64(
                    _FACTOR)
        elif step == "random\n":
            for page in pages:
                total += int(array[page * _PAGE_WORDS:(page + 1) * _PAGE_WORDS].sum())
        else:
            total = int(array[mine if step == "own\n" else other].sum())
        print(json.dumps({"sum": total % 2**64}), flush=True)


if __name__ == "__main__":
    main()
