#!/usr/bin/env python3
"""Measures Oncilla beside its peers and the physical limits, and prints what of the goals is met.

make bench, or: bench/run.py [--quick] [--only shm,loopback,veth,control] [--rounds N] [--budget SECONDS]
"""
import argparse
import time

from oncilla_bench import cluster, goals, install, network, paths, plot, programs, report, schedule, subjects

KIB, MIB = 1024, 1 << 20
GOAL_SIZES = [64, 4 * KIB, MIB, 64 * MIB]
ALL_SIZES = [64, 512, 4 * KIB, 32 * KIB, 256 * KIB, MIB, 8 * MIB, 64 * MIB]
SESSIONS = 1000
CONTROL = ("slab", "alloc", "attach")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three rounds of what the goals need, within 3 minutes")
    parser.add_argument("--only", default="shm,loopback,veth,control", help="parts of it, comma separated")
    parser.add_argument("--subjects", default="", help="only those whose name contains one of these, comma separated")
    parser.add_argument("--rounds", type=int, default=0, help="5, or 3 with --quick")
    parser.add_argument("--budget", type=float, default=0, help="seconds in all; 1080, or 165 with --quick")
    return parser.parse_args()


def busy_percent(seconds=1.0):
    """What others use of the machine while this program sleeps."""
    def read():
        with open("/proc/stat") as file:
            ticks = [int(x) for x in file.readline().split()[1:9]]
        return sum(ticks), ticks[3] + ticks[4]
    (all_before, idle_before), _ = read(), time.sleep(seconds)
    all_after, idle_after = read()
    return 100 * (1 - (idle_after - idle_before) / max(1, all_after - all_before))


class Run:
    def __init__(self, options):
        self.options = options
        self.parts = options.only.split(",")
        self.rounds = options.rounds or (3 if options.quick else 5)
        self.seconds = 0.05 if options.quick else 0.15
        self.sizes = GOAL_SIZES if options.quick else ALL_SIZES
        self.progress = schedule.Progress(options.budget or (165 if options.quick else 1080))
        self.samples = schedule.Samples()
        self.control = {}  # (mode's op, bytes): [us of each round]
        self.idle = None
        self.extents = []
        self.networks = {}
        self.clusters = {}
        self.no_ours = {}  # network: why
        self.env = report.environment()
        self.log = report.Log(self.env, options.quick)

    def prepare(self):
        reasons = install.install()
        if "loopback" in self.parts or "shm" in self.parts or "control" in self.parts:
            self.networks["loopback"] = network.Loopback()
        if "veth" in self.parts:
            try:
                self.networks["veth"] = network.Veth()
            except programs.Failed as failure:
                self.samples.failures[("veth", "everything")] = str(failure)
        for name, place in self.networks.items():
            try:
                self.clusters[name] = cluster.Cluster(place)
            except programs.Failed as failure:
                self.no_ours[name] = str(failure)
                self.samples.failures[(name, "Oncilla")] = str(failure)
                print(f"{name}: no Oncilla: {failure}", flush=True)
        wanted = [w.lower() for w in self.options.subjects.split(",") if w]
        self.subjects = [s for s in (*subjects.limits(reasons), *subjects.ours(self.clusters), *subjects.peers(reasons))
                         if not wanted or any(w in s.label.lower() for w in wanted)]

    def turns(self):
        """Of one round. Ours stands among the others and not at an end."""
        turns = []
        for part in ("shm", "loopback", "veth"):
            place = self.networks.get("loopback" if part == "shm" else part)
            if part not in self.parts or place is None:
                continue
            for subject in self.subjects:
                if subject.missing or subject.fabric != ("shm" if part == "shm" else "tcp"):
                    continue
                if subject.role == "ours" and place.name not in self.clusters:
                    continue
                if self.options.quick and not (subject.quick_veth if part == "veth" else subject.quick):
                    continue
                turns.append(schedule.Turn(place, part, subject, self.sizes, self.seconds))
        return turns

    def control_turns(self):
        """Allocation and attachment, ours alone, with every round."""
        if "control" not in self.parts or "loopback" not in self.clusters:
            return []

        def run(mode):
            def measure(place, sizes, seconds):
                for result in (results := self.clusters["loopback"].bench(mode, (64,), seconds)):
                    self.control.setdefault((result["op"], result["bytes"]), []).append(result["us"])
                return results
            return measure
        place = self.networks["loopback"]
        return [schedule.Turn(place, "control", subjects.Subject(f"Oncilla {mode}", "ours", "control", run(mode)), [64],
                              0.1) for mode in CONTROL]

    def measure_idle(self, seconds):
        if "control" not in self.parts or "loopback" not in self.clusters:
            return
        print(f"idle daemons for {seconds:.0f} s", flush=True)
        self.idle = self.clusters["loopback"].idle(seconds)
        self.log.write(record="idle", cpu_percent=self.idle[0], resident_mib=self.idle[1], seconds=seconds)

    def measure_scale(self):
        if "control" not in self.parts or "loopback" not in self.clusters:
            return
        # An extent takes a descriptor of the daemon, which keeps an eighth of them for other things; what is more than
        # they are enough for shares a file.
        room = cluster.descriptors_max() // 8 * 7 - 500
        self.extents = sorted({100_000, min(100_000, room // SESSIONS * SESSIONS)})
        for extents in self.extents:
            self.measure_extents(extents)

    def measure_extents(self, extents):
        print(f"{SESSIONS:,} sessions and {extents:,} extents", flush=True)
        start = time.monotonic()
        try:
            results = self.clusters["loopback"].bench(
                "scale", extra=("--sessions", SESSIONS, "--extents", extents),
                deadline_s=max(10, min(180, self.progress.left_s())))
        except programs.Failed as failure:
            self.samples.failures[("control", "many sessions and extents")] = str(failure)
            print(f"FAILED: {failure}", flush=True)
            return
        for result in results:
            self.control.setdefault((result["op"], result["bytes"], extents), []).append(result["us"])
            self.log.write(record="scale", extents=extents, **result)
        print(f"  {time.monotonic() - start:.1f} s", flush=True)

    def table(self):
        table = goals.Table(self.samples)
        if "shm" in self.parts:
            table.shm(GOAL_SIZES)
        for name in ("loopback", "veth"):
            if name in self.parts and name in self.networks:
                table.tcp(name, GOAL_SIZES)
        if "control" in self.parts:
            self.control_rows(table)
        return table

    def control_rows(self, table):
        def us(op, size, *extents):
            return self.control.get((op, size, *extents))
        for op in ("alloc", "free"):
            for size in (64, 4 * KIB, 32 * KIB):
                table.single("allocation", f"{op} {goals.size_name(size)} from the slab", "us", us(f"slab_{op}", size),
                             "<= 1 us", 1)
        for op in ("alloc", "free"):
            table.single("allocation", f"{op} 1 MiB extent on another node", "us", us(f"{op}_remote", MIB),
                         "<= 150 us", 150)
        for where in ("another", "this"):
            row_us = us("alloc_remote" if where == "another" else "alloc_local", 4096 * MIB)
            table.single("allocation", f"alloc 4 GiB on {where} node, unpopulated", "us", row_us, "<= 2000 us", 2000)
        table.single("allocation", "attach to first byte, connected", "us", us("attach_warm", 1), "<= 300 us", 300)
        table.single("allocation", "attach to first byte, new session", "us", us("attach_cold", 1), "<= 300 us", 300)
        cpu, resident = self.idle or (None, None)
        table.single("daemon", "idle: share of a core", "%", cpu is not None and [cpu], "< 0.5 %", 0.4999)
        table.single("daemon", "idle: resident", "MiB", resident is not None and [resident], "< 30 MiB", 29.99)
        for extents in self.extents:
            table.against("daemon", f"alloc at {SESSIONS:,} sessions, {extents:,} extents", "us",
                          us("scale_alloc_full", 4 * KIB, extents), us("scale_alloc_empty", 4 * KIB, extents),
                          "when empty", "<= 1.5 times empty", 1.5)

    def show(self, rounds, busy):
        table = self.table()
        for row in table.rows:
            self.log.row(row)
        networks = [part for part in ("shm", "loopback", "veth") if part in self.parts]
        text = [report.everyone(self.samples, networks, GOAL_SIZES),
                "",
                f"commit {self.env['commit']}, kernel {self.env['kernel']}, {self.env['cores']} x {self.env['cpu']}, "
                f"{rounds} rounds", report.summary(table), report.missing(self.subjects, self.samples.failures)]
        judged = [row for row in table.rows if row.met is not None]
        text.append(f"goals met: {sum(row.met for row in judged)} of {len(judged)} measured, "
                    f"{sum(1 for row in table.rows if row.goal)} in all")
        if busy > 5:
            text.append(f"NOTE: other programs used {busy:.0f} % of this machine when the run began: "
                        "spinning loops then measure the scheduler")
        text = "\n".join(line for line in text if line is not None)
        print(text)
        (paths.RESULTS / f"{self.log.stem}.txt").write_text(text + "\n")
        print(f"samples: {self.log.path.relative_to(paths.ROOT)}")
        picture = paths.RESULTS / f"{self.log.stem}.png"
        try:
            if plot.draw(self.samples, networks, picture):
                print(f"plot:    {picture.relative_to(paths.ROOT)}")
        except programs.Failed as failure:
            print(f"no plot: {failure}")

    def run(self):
        # The table and the plot come after the budget: they have two minutes, or fifteen seconds.
        end = self.progress.began + self.progress.budget_s
        programs.bound(end)
        busy = busy_percent()
        if busy > 5:
            print(f"NOTE: other programs use {busy:.0f} % of this machine", flush=True)
        self.prepare()
        self.log.write(record="run", rounds=self.rounds, sizes=self.sizes, busy_percent=busy, peers=install.versions())
        scale_s = 25 if self.options.quick else 60
        self.measure_idle(4 if self.options.quick else 10)
        turns = self.control_turns() + self.turns()
        scale_s = scale_s if "control" in self.parts and "loopback" in self.clusters else 0
        programs.bound(end - scale_s, 20 if self.options.quick else 60)
        rounds = schedule.run_rounds(self.rounds, turns, self.samples, self.progress, self.log.measurements,
                                     scale_s + 5)
        programs.bound(end)
        self.measure_scale()
        programs.bound(None)
        self.show(rounds, busy)

    def close(self):
        for one in (*self.clusters.values(), *self.networks.values()):
            one.close()


programs.run_to_end(Run(arguments()))
