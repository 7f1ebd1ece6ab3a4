#!/usr/bin/env python3
"""clang-tidy over what build/release compiles: the product, tests, benchmarks and examples.

Most of its time goes into headers, so files are read together: of the product those that are compiled together, of the
tests more. Where two of these then use one name, which they may, they are read one by one. What is found is printed;
it exits 1 if anything is.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "release"
UNITS = ROOT / "build" / "tidy"
TOPS = ("src", "daemon", "cli", "tools", "apps", "tests", "bench", "examples")
# Tests that are read together, but those that define what headers read; and the lines of such a unit: the fewer, the
# less time, as long as every processor has one.
TOGETHER = re.compile(r"tests/(unit|conformance|kinds|api|apps)/(?!oncilla|nvme_crash)[^/]+\.cpp")
LINES = 10000
# Of clang itself. libstdc++ 12 uses in its own headers what it calls deprecated.
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Wno-missing-field-initializers", "-Wno-deprecated-declarations")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


class Compiled(NamedTuple):
    flags: list[str]
    unit: pathlib.Path  # what it is compiled with; itself if that is nothing


def compiled() -> dict[pathlib.Path, Compiled]:
    """Every file of this tree that is compiled."""
    found: dict[pathlib.Path, Compiled] = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        flags = flags_of(shlex.split(entry["command"]), pathlib.Path(entry["directory"]))
        together = "Unity" in file.parts
        for name in map(pathlib.Path, INCLUDE.findall(file.read_text()) if together else [str(file)]):
            if name.is_relative_to(ROOT) and name.relative_to(ROOT).parts[0] in TOPS:
                found.setdefault(name.relative_to(ROOT), Compiled(flags, file))
    return found


def flags_of(command: list[str], directory: pathlib.Path) -> list[str]:
    """What decides how the source is read: folders, definitions, the language. GCC's warnings are none of clang's."""
    flags: list[str] = []
    words = iter(command)
    for word in words:
        if word == "-isystem":
            flags.append(f"-isystem{directory / next(words)}")
        elif word.startswith("-I"):
            flags.append(f"-I{directory / word[2:]}")
        elif word.startswith(("-D", "-std=")):
            flags.append(word)
    return flags


def units(files: dict[pathlib.Path, Compiled]) -> list[list[pathlib.Path]]:
    """What is read at once, the longest first."""
    groups = collections.defaultdict(list)
    for file, (flags, unit) in sorted(files.items()):
        merged = TOGETHER.fullmatch(file.as_posix()) is not None
        same = sorted(flag for flag in flags if flag.startswith(("-D", "-std=")))
        groups[" ".join(["/".join(file.parts[:2]), *same]) if merged else str(unit)].append(file)
    out = []
    for group in groups.values():
        parts = -(-sum(map(size, group)) // LINES)
        out += [group[i * len(group) // parts:(i + 1) * len(group) // parts] for i in range(parts)]
    return sorted(out, key=lambda unit: -sum(map(size, unit)))


def size(file: pathlib.Path) -> int:
    return len((ROOT / file).read_text().splitlines())


def check(number: int, unit: list[pathlib.Path], files: dict[pathlib.Path, Compiled]) -> str:
    """What clang-tidy finds in the unit, or nothing."""
    source = ROOT / unit[0]
    if len(unit) > 1:
        source = UNITS / unit[0].parts[0] / f"unit{number}.cpp"  # where clang-tidy finds what is asked of those files
        source.write_text("".join(f'#include "{ROOT / file}"\n' for file in unit))
    flags = list(dict.fromkeys(flag for file in unit for flag in files[file].flags))
    run = subprocess.run(
        [ROOT / "build/venv/bin/clang-tidy", "-quiet", f"--header-filter=^{ROOT}/({'|'.join(TOPS)}|include)/", source,
         "--", *WARNINGS, *flags], cwd=ROOT, capture_output=True, text=True)
    if run.returncode == 0:
        return ""
    if len(unit) > 1 and (run.returncode != 1 or "[clang-diagnostic-error]" in run.stdout):
        return "".join(check(number, [file], files) for file in unit)
    return run.stdout or run.stderr


def main() -> int:
    for top in TOPS:
        (UNITS / top).mkdir(parents=True, exist_ok=True)
        if (ROOT / top / ".clang-tidy").exists():
            shutil.copy(ROOT / top / ".clang-tidy", UNITS / top)
    files = compiled()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda one: check(one[0], one[1], files), enumerate(units(files))))
    print("".join(found), end="")
    return 1 if any(found) else 0


if __name__ == "__main__":
    sys.exit(main())
