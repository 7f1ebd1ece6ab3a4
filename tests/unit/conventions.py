"""The conventions that are worth a failing test.

- An include never runs upward: the arrows between the rooms of ARCHITECTURE.md.
- Nor does an import of the Python package, whose modules import each other in no circle, late imports included.
- The link lines are the same arrows: none to a room that may not be included, and each that is included is linked,
  directly or through others.
- A third party's headers stay inside the folder that wraps it.
- A header, or a source without one, opens with its idea; a file has at most 800 lines.
- Where daemons think, time, randomness and threads come from their environment (control/env.h): else no simulation
  could run them.
- Messages live at the doors: what decides in src/control knows none, and no header of a daemon keeps one.
- No co_await inside ?: - GCC 12 destroys its operands twice.
- A fabric is named in its folder and its line of include/oncilla/fabrics.h, and nowhere else: it joins by these alone.
- So is a kind of memory, in src/memory and include/oncilla/kinds.h; but dram is what is meant where nothing is said.
"""
import ast
import graphlib
import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Which rooms each room may include, itself aside.
ARROWS = {
    "base": set(),
    "os": {"base"},
    "wire": {"base"},
    "fabric": {"base", "os", "wire"},
    "memory": {"base", "os"},
    "cache": {"base", "os", "memory"},
    "control": {"base", "os", "wire"},
    "node": {"base", "os", "wire", "fabric", "memory", "cache", "control"},
    "client": {"base", "os", "wire", "fabric", "memory"},
    "capi": {"base", "os", "wire", "fabric", "client", "node"},
    "table": {"base", "os", "capi"},
    "daemon": {"base", "os", "node"},
    "tools": {"base", "os"},
    "cli": {"base", "os", "tools", "memory"},
    "apps": {"base", "os", "tools"},
    "python": set(),  # the public headers only
}
PURE = "src/cache/(protocol|courier|replacement)/"
# Of a room, what others may know where it is not all: tables stand on the public calls, and are written as those are;
# `ocm pool` works on a durable pool that no daemon can open, and so needs its format.
DOORS = {("table", "capi"): {"capi/call.h", "capi/failure.h", "capi/handles.h"},
         ("cli", "memory"): {"memory/nvme/offline.h"}}
# Linked by who uses the public headers alone; it is put together of all rooms, so its own link lines are no arrows.
LIBRARY, ON_LIBRARY = "oncilla", {"capi", "tools", "cli", "apps", "python"}
COMMAND = re.compile(r"^\s*(\w+)\(([^()]*)\)", re.M)
TARGETS = {"add_library", "add_executable", "nanobind_add_module"}
# The same for the folders of the package; the modules beside them are what users import, and see all of them.
PACKAGE = ROOT / "python" / "oncilla"
PYTHON_ARROWS = {"core": set(), "tables": {"core"}, "engines": {"core", "tables"}, "fs": {"core"}}
# Headers of a third party and the one folder that may know them.
PRIVATE_HEADERS: dict[str, str | tuple[str, ...]] = {
    "ucp/": "src/fabric/ucx", "ucs/": "src/fabric/ucx", "toml++/": "src/node",
    "openssl/": ("src/os", "src/control", "src/fabric/tcp"), "google/protobuf": ("src/wire", "src/table/format"),
    "CLI/": ("daemon", "cli", "apps"), "nanobind/": "python/src", "arrow/": "python/arrowfs"}
# What is real about a daemon; everything else of these rooms runs in a simulation too.
REAL = re.compile(r"os::now_ns|os::random_id|os::fill_random|std::thread|steady_clock|steady_timer|Loop&|\basio\b")
REAL_FILES = {f"src/{name}" for name in (
    "control/asio.cpp", "control/loop.h", "control/loop.cpp", "control/rpc.h", "control/rpc.cpp", "control/sockets.h",
    "control/sockets.cpp", "node/as_daemon.h", "node/copier.h", "node/copier.cpp", "node/doors.h", "node/http.h",
    "node/http.cpp", "node/node.cpp", "node/page_mail.h", "node/page_mail.cpp", "node/pager.h", "node/pager.cpp",
    "node/proof.h", "node/proof.cpp",
    "node/side_threads.h")}
# What may know messages in src/control: converters, and what carries them. And how a header would keep one.
MESSAGES = re.compile(r"\bwire::|\bcontrol\.pb\.h")
DOORS_OF_CONTROL = re.compile(r"src/control/(\w+_wire\.(h|cpp)|rpc\.(h|cpp)|link\.h)")
KEPT_MESSAGE = re.compile(r"^\s*(?:[\w:]+<[^()]*)?wire::\w+[^()]*\s\w+_(?:\{.*\})?;")
# One line of the list of fabrics, and what is shm's but no decision for it: memory that the daemon shares with the
# programs of its host, and loads and stores in it, to which an interface would cost more than they do.
LINE = re.compile(r"^\s*X\((\w+),\s*(\w+),\s*(\w+),\s*\d+, (?:\d, )?(\d)(?:, \d)?\)", re.M)
HOST_MEMORY = re.compile(r"fabric/shm/(tables|local_extent|copy)\.h|fabric::shm::(?!kEntry|Shm)\w+")
# What is allocated where nothing else is asked for: as a default it may be named.
DEFAULT_KIND = "dram"
# How source names one of them: shm, Shm, SHM.
NAMED_FABRIC = (r"\bk{word}\b|\b{word}[A-Z]\w*|\bOCM_FABRIC_{constant}\b|[\"']{name}[\"'.]|\b{name}::"
                r"|fabric[/_]{name}\b|[\"']--{name}\b|\[{name}\]|\bthe {name} fabric\b")
NAMED_KIND = r"\bKind::k{word}\b|\bOCM_KIND_{constant}\b|\b{word}Backend\b|[\"']--{name}\b|offer\.{name}\b"
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|(?<=\s)#\s[^\n]*", re.S)
CONDITIONAL_AWAIT = re.compile(r"[?:]\s*co_await|co_await[^;]*\s\?\s")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def room_of(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "src" else parts[0]


def links() -> Iterator[tuple[str, str, str, list[str]]]:
    """What the build links: (where, room, target, items), with an empty list for a target that is only declared."""
    paths = [path for top in ("src", "daemon", "tools", "cli", "apps", "python") for path in (ROOT / top).rglob("*")
             if path.name == "CMakeLists.txt" or path.suffix == ".cmake"]
    for path in paths:
        where = path.relative_to(ROOT).as_posix()
        text = re.sub(r"#.*", "", path.read_text())
        variables: dict[str, list[str]] = {}
        for command in COMMAND.finditer(text):
            name, items = command.group(1), [part for item in command.group(2).split() for part in
                                             variables.get(item.removeprefix("${").removesuffix("}"), [item])]
            line = f"{where}:{text.count(chr(10), 0, command.start(1)) + 1}"
            if name == "set":
                variables[items[0]] = items[1:]
            elif not items or items[0].startswith(("ocm_${", "${")):
                continue  # inside a function, whose calls are read
            elif name == "ocm_room":
                yield line, items[0].split("/")[0], f"ocm_{items[0].replace('/', '_')}", items[1:]
            elif name == "ocm_schema":
                yield line, items[1].split("/")[0], items[0], []
            elif name in TARGETS:
                yield line, room_of(path), items[0], []
            elif name == "target_link_libraries":
                yield line, "", items[0], items[1:]


def link_faults(used: dict[str, set[str]]) -> list[str]:
    """Link lines that run upward, and rooms that are included but not linked; `used`: what each room includes."""
    faults: list[str] = []
    rooms: dict[str, str] = {}
    linked: dict[str, set[str]] = {}
    lines = list(links())
    for _, room, target, _ in lines:
        if room:
            rooms.setdefault(target, room)
    for where, _, target, items in lines:
        room = rooms[target]
        linked.setdefault(target, set()).update(item for item in items if item in rooms)
        for item in items:
            if target == LIBRARY or item not in rooms or rooms[item] == room:
                continue
            if room not in ON_LIBRARY if item == LIBRARY else rooms[item] not in ARROWS[room]:
                faults.append(f"{where}: {room} may not link {item}")
    for room in ARROWS:
        reached, todo = set(), [target for target, of in rooms.items() if of == room and target != LIBRARY]
        while todo:
            target = todo.pop()
            if target not in reached and target != LIBRARY:  # nothing of what is inside it can be linked
                reached.add(target)
                todo += linked.get(target, ())
        for missing in sorted(used.get(room, set()) - {rooms[target] for target in reached}):
            faults.append(f"{room} includes {missing}, and no link line leads there")
    return faults


def imports_of(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import that runs: also late ones, but not what is for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            for other in node.orelse:
                yield from imports_of(ast.Module([other], []))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        else:
            yield from imports_of(node)


def imported_modules(package: str, node: ast.Import | ast.ImportFrom, modules: set[str]) -> set[str]:
    """Those of the package that the import names; "oncilla.fs" for what is taken out of its `__init__`."""
    if isinstance(node, ast.Import):
        return {next(name for name in (alias.name, alias.name.rpartition(".")[0]) if name in modules)
                for alias in node.names if alias.name.split(".")[0] == "oncilla" and alias.name != "oncilla._core"}
    parts = package.split(".")[:len(package.split(".")) - node.level + 1] if node.level else []
    base = ".".join([*parts, *([node.module] if node.module else [])])
    if base.split(".")[0] != "oncilla" or base == "oncilla._core":
        return set()
    names = {f"{base}.{alias.name}" for alias in node.names}
    plain = {base} if names - modules - {"oncilla._core"} else set()
    return (names & modules) | plain


def python_faults() -> list[str]:
    """Imports of the package that run upward, and circles between its modules."""
    faults: list[str] = []
    graph: dict[str, set[str]] = {}
    paths = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ("oncilla", *path.relative_to(PACKAGE).with_suffix("").parts)
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    for name, path in paths.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        room = "" if path.parent == PACKAGE else path.relative_to(PACKAGE).parts[0]
        where = path.relative_to(ROOT).as_posix()
        if room and room not in PYTHON_ARROWS:
            faults.append(f"{where}: {room} is no room of the package: see PYTHON_ARROWS")
            continue
        graph[name] = set()
        for node in imports_of(ast.parse(path.read_text())):
            for target in imported_modules(package, node, set(paths)):
                graph[name].add(target)
                of = "" if paths[target].parent == PACKAGE else paths[target].relative_to(PACKAGE).parts[0]
                if room and of != room and of not in PYTHON_ARROWS[room]:
                    faults.append(f"{where}:{node.lineno}: {room} may not import {target}")
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        faults.append(f"python/oncilla: imports in a circle: {' <- '.join(error.args[1])}")
    return faults


def list_faults(files: list[pathlib.Path], what: str, room: str, pattern: str) -> list[str]:
    """Where one of a list (fabrics, kinds of memory) is named outside of its folder and its line, comments aside."""
    faults = []
    file = f"{what}s.h"
    folders = {path.parent.name for path in (ROOT / "src" / room).glob(f"*/{what}.cmake")}
    listed = LINE.findall((ROOT / "include" / "oncilla" / file).read_text())
    with_folder = {name for _, _, name, last in listed if what == "fabric" or last == "1"}
    for name in sorted(folders ^ with_folder):
        faults.append(f"src/{room}/{name}: a {what} has a {what}.cmake and a line in include/oncilla/{file}")
    for path in files:
        where = path.relative_to(ROOT).as_posix()
        if where == f"include/oncilla/{file}":
            continue
        text = COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), path.read_text())
        text = HOST_MEMORY.sub("", text)
        for constant, word, name, _ in listed:
            if where.startswith(f"src/{room}/{name}/") or name == DEFAULT_KIND:
                continue
            named = re.compile(pattern.format(constant=constant, word=word, name=name))
            for found in named.finditer(text):
                line = text.count("\n", 0, found.start()) + 1
                faults.append(f"{where}:{line}: {found.group()}: ask a trait of the {what} (src/{room}/entry.h)")
    return faults


def main() -> int:
    faults = python_faults()
    used: dict[str, set[str]] = {}
    files = [p for top in ("src", "daemon", "tools", "cli", "apps", "python") for p in (ROOT / top).rglob("*")
             if p.suffix in {".h", ".cpp", ".c", ".hpp"}]
    checked = set(files)  # below
    for top in ("tests", "bench", "demo", "examples", "docs", "include", "cmake", "python", "scripts"):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in {".h", ".cpp", ".c", ".hpp", ".py", ".sh", ".cmake"} and "results" not in path.parts \
                    and path not in checked:
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
            if room == "control" and MESSAGES.search(COMMENT.sub("", line)) and not DOORS_OF_CONTROL.fullmatch(where):
                faults.append(f"{where}:{number}: messages are read and written in src/control/*_wire.*")
            if where.startswith("src/node/") and path.suffix == ".h" and KEPT_MESSAGE.match(line):
                faults.append(f"{where}:{number}: keep a value of src/control, not the message")
            match = INCLUDE.match(line)
            if not match:
                continue
            included = match.group(2)
            first = included.split("/")[0]
            if match.group(1) == '"' and first in ARROWS:
                used.setdefault(room, set()).add(first)
            if match.group(1) == '"' and first in ARROWS and first != room and first not in ARROWS[room]:
                faults.append(f"{where}:{number}: {room} may not include {included}")
            if match.group(1) == '"' and re.match(PURE, where) and not re.match(rf"base/|{PURE[4:]}", included):
                faults.append(f"{where}:{number}: what decides of the cache stays pure: no {included}")
            if match.group(1) == '"' and included not in DOORS.get((room, first), {included}):
                faults.append(f"{where}:{number}: {room} may not include {included}, but of {first} "
                              f"{', '.join(sorted(DOORS[room, first]))}")
            for prefix, inside in PRIVATE_HEADERS.items():
                if included.startswith(prefix) and not where.startswith(inside):
                    faults.append(f"{where}:{number}: {included} belongs inside {inside}")
    faults += link_faults(used)
    tops = ("src", "daemon", "tools", "cli", "apps", "python", "include")
    built = [p for top in tops for p in (ROOT / top).rglob("*")
             if p.suffix in {".h", ".cpp", ".c", ".hpp", ".py", ".cmake", ".proto"} or p.name == "CMakeLists.txt"]
    faults += list_faults(built, "fabric", "fabric", NAMED_FABRIC)
    faults += list_faults(built, "kind", "memory", NAMED_KIND)
    print("\n".join(faults) or f"{len(files)} files keep the conventions")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
