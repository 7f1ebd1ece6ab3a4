"""The conventions that are worth a failing test.

- An include never runs upward: the arrows between the rooms of ARCHITECTURE.md.
- A third party's headers stay inside the folder that wraps it.
- A header, or a source without one, opens with its idea; a file has at most 800 lines.
- Where daemons think, time, randomness and threads come from their environment (control/env.h): else no simulation
  could run them.
- No co_await inside ?: - GCC 12 destroys its operands twice.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Which rooms each room may include, itself aside.
ARROWS = {
    "base": set(),
    "os": {"base"},
    "wire": {"base"},
    "fabric": {"base", "os", "wire"},
    "memory": {"base", "os"},
    "control": {"base", "os", "wire"},
    "node": {"base", "os", "wire", "fabric", "memory", "control"},
    "client": {"base", "os", "wire", "fabric", "memory"},
    "capi": {"base", "os", "wire", "fabric", "client", "node"},
    "table": {"base", "os", "capi"},
    "daemon": {"base", "os", "node"},
    "cli": {"base", "os"},
    "apps": {"base", "os", "cli"},
    "python": set(),  # the public headers only
}
# Headers of a third party and the one folder that may know them.
PRIVATE_HEADERS = {"ucp/": "src/fabric/ucx", "ucs/": "src/fabric/ucx", "toml++/": "src/node",
                   "openssl/": ("src/os", "src/control", "src/fabric/tcp"),
                   "google/protobuf": ("src/wire", "src/table/format"), "CLI/": ("daemon", "cli", "apps"),
                   "nanobind/": "python/src", "arrow/": "python/arrowfs"}
# What is real about a daemon; everything else of these rooms runs in a simulation too.
REAL = re.compile(r"os::now_ns|os::random_id|os::fill_random|std::thread|steady_clock|steady_timer|Loop&")
REAL_FILES = {f"src/{name}" for name in (
    "control/env.h", "control/loop.h", "control/rpc.h", "control/rpc.cpp", "control/sockets.h", "control/sockets.cpp",
    "node/copier.h", "node/copier.cpp", "node/doors.h", "node/http.h", "node/http.cpp", "node/node.cpp",
    "node/proof.h", "node/proof.cpp", "node/side_thread.h")}
CONDITIONAL_AWAIT = re.compile(r"[?:]\s*co_await|co_await[^;]*\s\?\s")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def room_of(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "src" else parts[0]


def main() -> int:
    faults = []
    files = [p for top in ("src", "daemon", "cli", "apps", "python") for p in (ROOT / top).rglob("*")
             if p.suffix in {".h", ".cpp", ".c", ".hpp"}]
    for top in ("tests", "bench", "demo", "examples", "docs", "include"):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in {".h", ".cpp", ".c", ".hpp", ".py"} and "results" not in path.parts:
                count = len(path.read_text().splitlines())
                if count > 800:
                    faults.append(f"{path.relative_to(ROOT).as_posix()}: {count} lines; at most 800")
    for path in files:
        room = room_of(path)
        where = path.relative_to(ROOT).as_posix()
        lines = path.read_text().splitlines()
        if not path.with_suffix(".h").exists() or path.suffix == ".h":
            if not lines[0].startswith(("//", "/*")):
                faults.append(f"{where}:1: the first comment says the file's idea")
        if len(lines) > 800:
            faults.append(f"{where}: {len(lines)} lines; at most 800")
        for number, line in enumerate(lines, 1):
            if CONDITIONAL_AWAIT.search(line):
                faults.append(f"{where}:{number}: co_await inside ?: (GCC 12); write if/else")
            if room in {"control", "node"} and where not in REAL_FILES and REAL.search(line):
                faults.append(f"{where}:{number}: take it from the environment (control/env.h)")
            match = INCLUDE.match(line)
            if not match:
                continue
            included = match.group(2)
            first = included.split("/")[0]
            if match.group(1) == '"' and first in ARROWS and first != room and first not in ARROWS[room]:
                faults.append(f"{where}:{number}: {room} may not include {included}")
            for prefix, folders in PRIVATE_HEADERS.items():
                if included.startswith(prefix) and not where.startswith(folders):
                    faults.append(f"{where}:{number}: {included} belongs inside {folders}")
    print("\n".join(faults) or f"{len(files)} files keep the conventions")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
