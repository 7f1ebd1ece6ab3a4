#!/usr/bin/env python3
"""Measures two builds of Oncilla side by side, in turns, and prints by how much each path differs.

    git worktree add /tmp/before COMMIT && make -C /tmp/before build
    bench/compare.py /tmp/before [--rounds 10] [--only shm,loopback,veth,control] [--allowed 3]

Each tree's own bench/run.py measures it, its daemons and library. Their order changes with every round, so that what
the machine does meanwhile meets both. Ends with 1 if a path is slower by more than --allowed per cent in all of: the
ratio of the medians, the median of the rounds' ratios, and the ratio of the best tenths (what else runs on a machine
only makes a path slower). Where these disagree, it was the machine.
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]
LESS_IS_BETTER = ("us", "%", "MiB", "s")


def measure(tree: pathlib.Path, only: str) -> dict:
    """{(section, case): (value, unit)} of one round of `tree`."""
    results = tree / "bench/results"
    before = set(results.glob("*.jsonl"))
    done = subprocess.run([sys.executable, "-B", "bench/run.py", "--quick", "--rounds", "1", "--subjects", "oncilla",
                           "--only", only], cwd=tree, env={**os.environ, "OCM_BIN_DIR": str(tree / "build/release")},
                          capture_output=True, text=True)
    made = set(results.glob("*.jsonl")) - before
    if done.returncode != 0 or not made:
        sys.exit(f"{tree}/bench/run.py failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    rows = [json.loads(line) for path in made for line in path.read_text().splitlines()]
    return {(row["section"], row["case"]): (row["ours"]["median"], row["unit"])
            for row in rows if row.get("record") == "row" and row.get("ours")}


def best_tenth(values: list, sign: int) -> float:
    """The tenth of `values` that is best ends there; `sign`: 1 where less is better."""
    return sorted(values, key=lambda value: sign * value)[len(values) // 10]


def percent(before: float, after: float) -> float:
    return 100 * (after / before - 1) if before else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path, help="the other tree, with its build in build/release")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="shm,loopback,veth,control", help="parts of the benchmark, comma separated")
    parser.add_argument("--allowed", type=float, default=3, help="per cent")
    options = parser.parse_args()
    trees = {"before": options.before.resolve(), "now": HERE}
    for tree in trees.values():
        if not (tree / "build/release/bench/ocm_bench").exists():
            parser.error(f"{tree} has no build/release/bench/ocm_bench: run `make build` there")
    samples = {name: collections.defaultdict(list) for name in trees}
    units = {}
    for turn in range(options.rounds):
        for name in list(trees) if turn % 2 == 0 else reversed(trees):
            for path, (value, unit) in measure(trees[name], options.only).items():
                samples[name][path].append(value)
                units[path] = unit
        print(f"round {turn + 1} of {options.rounds}", file=sys.stderr, flush=True)
    slower = 0
    print(f"{'path':54} {'before':>10} {'now':>10} unit   medians   rounds     best")
    for path, before in samples["before"].items():
        now = samples["now"].get(path)
        if not now:
            continue
        sign = 1 if units[path] in LESS_IS_BETTER else -1
        medians = percent(statistics.median(before), statistics.median(now))
        rounds = statistics.median(percent(*pair) for pair in zip(before, now))
        best = percent(best_tenth(before, sign), best_tenth(now, sign))
        worse = min(sign * medians, sign * rounds, sign * best) > options.allowed
        slower += worse
        print(f"{' '.join(path):54} {statistics.median(before):10.4g} {statistics.median(now):10.4g} {units[path]:5} "
              f"{medians:+7.1f} % {rounds:+7.1f} % {best:+7.1f} %{'  SLOWER' if worse else ''}")
    print(f"{slower} slower by more than {options.allowed:g} %")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
