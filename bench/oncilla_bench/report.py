"""The table as aligned text, and the JSON lines that it was made from."""
import datetime
import json
import os
import pathlib
import platform
import subprocess

from . import paths


def shared_huge_pages():
    """What the kernel gives to shared memory that is touched for the first time: "never", "advise", ..."""
    try:
        modes = pathlib.Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled").read_text()
    except OSError:
        return "unknown"
    return modes.split("[", 1)[-1].split("]", 1)[0]


def environment():
    """What a number means nothing without."""
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), "unknown")

    def git(*arguments):
        done = subprocess.run(["git", "-C", paths.ROOT, *arguments], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    return {"commit": git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else ""),
            "kernel": platform.release(), "cpu": model, "cores": os.cpu_count(),
            "shared_huge_pages": shared_huge_pages(),
            "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}


class Log:
    """Appends one JSON line for every measurement and for every row of the table."""

    def __init__(self, env, quick):
        paths.RESULTS.mkdir(exist_ok=True)
        self.stem = env["time"].replace(":", "").replace("+0000", "") + ("-quick" if quick else "")
        self.path = paths.RESULTS / f"{self.stem}.jsonl"
        self.common = {**env, "quick": quick}

    def write(self, **fields):
        with open(self.path, "a") as file:
            file.write(json.dumps({**self.common, **fields}) + "\n")

    def measurements(self, number, turn, results):
        for result in results:
            self.write(record="sample", round=number, network=turn.network_name, role=turn.subject.role,
                       subject=turn.subject.name, variant=turn.subject.variant, **result)

    def row(self, row):
        def value(v):
            return v and {"median": v.median, "min": v.least, "max": v.most, "who": v.who}
        self.write(record="row", section=row.section, case=row.case, unit=row.unit, ours=value(row.ours),
                   peer=value(row.peer), limit=value(row.limit), goal=row.goal, met=row.met)


def number(x):
    if x is None:
        return "-"
    if x == 0:
        return "0"
    for bound, places in ((0.1, 4), (1, 3), (10, 2), (100, 1)):
        if abs(x) < bound:
            return f"{x:.{places}f}"
    return f"{x:.0f}"


def _span(value):
    return f"{number(value.median)} [{number(value.least)}-{number(value.most)}]" if value else "-"


def _named(value):
    return f"{number(value.median)} {value.who}" if value else "-"


def _aligned(lines, head):
    rows = [head, *lines]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    text.insert(1, "-" * max(len(line) for line in text))
    return text


def summary(table):
    head = ("case", "unit", "ours [min-max]", "best peer", "limit", "/peer", "/limit", "goal", "met")
    lines, section = [], None
    for row in table.rows:
        if row.section != section:
            section = row.section
            lines.append((f"-- {section}", *[""] * (len(head) - 1)))
        met = {True: "yes", False: "NO", None: "-"}[row.met]
        lines.append((row.case, row.unit, _span(row.ours), _named(row.peer), _named(row.limit),
                      number(row.ratio(row.peer)), number(row.ratio(row.limit)), row.goal, met))
    return "\n".join(_aligned(lines, head))


def everyone(samples, networks, sizes):
    """The medians of every subject and variant: times up to 64 KiB in us, rates above in GB/s."""
    from .goals import is_rate, size_name
    text = []
    for network in networks:
        subjects = dict.fromkeys((role, name, variant) for (n, role, name, variant, _op, _s) in samples.us
                                 if n == network)
        if not subjects:
            continue
        order = {"limit": 0, "ours": 1, "peer": 2}
        head = (network, *[f"{op} {size_name(size)}" for size in sizes for op in ("put", "get")])
        lines = []
        for role, name, variant in sorted(subjects, key=lambda s: order[s[0]]):
            cells = [f"{name} ({variant})" if variant else name]
            for size in sizes:
                for op in ("put", "get"):
                    us = sorted(samples.us.get((network, role, name, variant, op, size), []))
                    middle = us[len(us) // 2] if us else None
                    cells.append(number(size / middle / 1000 if middle and is_rate(size) else middle))
            lines.append(tuple(cells))
        text += ["", *_aligned(lines, head)]
    return "\n".join(text)


def missing(subjects, failures):
    """Who is not in the table, and why."""
    lines = [f"  {s.fabric:<8} {s.label}: {s.missing}" for s in subjects if s.missing]
    lines += [f"  {network:<8} {label}: {reason}" for (network, label), reason in failures.items()]
    return "\n".join(["not measured, or not always:", *lines]) if lines else ""
