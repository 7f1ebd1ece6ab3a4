#!/usr/bin/env python3
"""Counts what docs/grading.md tells of this tree, row by row: scripts/grade.py prints the rows as they are now."""
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
CODE = (".h", ".hpp", ".cpp", ".c")


def files(*tops: str, endings: tuple[str, ...] = CODE) -> list[pathlib.Path]:
    """Tracked files below `tops` that end so."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", *tops], check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.splitlines() if name.endswith(endings)]


def lines(paths: list[pathlib.Path]) -> list[int]:
    return [len(path.read_text().splitlines()) for path in paths]


def share(paths: list[pathlib.Path], says: str) -> tuple[int, int]:
    """How many of the headers say it somewhere, and of how many."""
    headers = [path for path in paths if path.suffix in {".h", ".hpp"}]
    return sum(re.search(says, path.read_text()) is not None for path in headers), len(headers)


def main() -> None:
    core = files("src", "include")
    sizes = sorted(lines(core))
    total = sum(sizes)
    text = {path: path.read_text() for path in core}
    row = {}
    row["1 median / p90 lines of a file (<= 120 / <= 350)"] = \
        f"{statistics.median(sizes):.0f} / {sizes[int(len(sizes) * 0.9)]}"
    everything = files("src", "include", "cli", "apps", "tools", "daemon", "python", "tests", "bench", "demo",
                       "examples", endings=(*CODE, ".py"))
    largest = max(everything, key=lambda path: len(path.read_text().splitlines()))
    row["2 largest file, tests too (<= 800)"] = \
        f"{len(largest.read_text().splitlines())} ({largest.relative_to(ROOT).as_posix()})"
    for title, says in (("4 headers that say which threads may call, or that they are pure", r"(?i)threads?:|\bpure\b"),
                        ("5 headers with numbered invariants", r"//\s+[A-Z]\d+ ")):
        said, of = share(core, says)
        row[title] = f"{said} of {of}"
    checks = sum(len(re.findall(r"\bOCM_D?ASSERT\(|\bstatic_assert\(", one)) for one in text.values())
    row["6 assertions for each 1,000 lines (>= 15)"] = f"{checks * 1000 / total:.1f} ({checks} in {total:,} lines)"
    valid = sum(len(re.findall(r"bool is_valid\(\) const", one)) for one in text.values())
    row["7 structures with is_valid()"] = str(valid)
    tests = sum(lines(files("tests", endings=(*CODE, ".py"))))
    row["9 lines of tests to lines of src and include (>= 0.6)"] = f"{tests / total:.2f}"
    log = subprocess.run(["git", "-C", str(ROOT), "log", "--no-merges", "--format=%b%x00"], check=True,
                         capture_output=True, text=True)
    bodies = log.stdout.split("\0")[:-1]
    why = sum(bool(body.strip()) for body in bodies)
    row["15 commits with a body that says why (>= 90 %)"] = f"{100 * why / len(bodies):.0f} % ({why} of {len(bodies)})"
    recent = bodies[:100]
    row["15 of the last 100"] = f"{sum(bool(body.strip()) for body in recent)} %"
    for title, value in row.items():
        print(f"{title}: {value}")


if __name__ == "__main__":
    main()
