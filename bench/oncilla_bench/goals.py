"""The goals, and what was measured against each: a Row for every line of the table."""
import dataclasses
import statistics

MIB = 1 << 20
TOLERANCE = 0.01  # where the goal is 'not behind': two medians of one run agree no better


@dataclasses.dataclass
class Value:
    """The median over the rounds, with the extremes. Rates are in GB/s, times in us, or what `unit` says."""
    median: float
    least: float
    most: float
    who: str = ""


@dataclasses.dataclass
class Row:
    section: str
    case: str
    unit: str
    ours: Value | None = None
    peer: Value | None = None
    limit: Value | None = None
    goal: str = ""
    met: bool | None = None  # None: nothing to judge

    def ratio(self, other):
        """Ours over the other's: of times less is better, of rates more."""
        if not self.ours or not other or not other.median:
            return None
        return self.ours.median / other.median


def size_name(size_bytes):
    for unit, factor in (("GiB", 1 << 30), ("MiB", MIB), ("KiB", 1024)):
        if size_bytes >= factor:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"


def is_rate(size_bytes):
    return size_bytes >= MIB


class Table:
    def __init__(self, samples):
        self.samples = samples
        self.rows = []

    def best(self, network, role, op, size, rate, only=None):
        """The best subject and variant of a role for this case."""
        found = []
        for (n, r, name, variant, o, s), us in self.samples.us.items():
            if (n, r, o, s) == (network, role, op, size) and (only is None or only(variant)):
                found.append(_value(us, size, rate, f"{name} ({variant})" if variant else name))
        if not found:
            return None
        return max(found, key=lambda v: v.median) if rate else min(found, key=lambda v: v.median)

    # -------------------------------------------------------------- sections

    def shm(self, sizes):
        for size in sizes:
            for op in ("put", "get"):
                rate = is_rate(size)
                # 64 MiB is measured against every thread that the machine has, smaller copies against one.
                threads = (lambda v: v == "2 threads") if size >= 64 * MIB else (lambda v: v == "1 thread")
                row = Row("shm", f"{op} {size_name(size)}", "GB/s" if rate else "us",
                          self.best("shm", "ours", op, size, rate), self.best("shm", "peer", op, size, rate),
                          self.best("shm", "limit", op, size, rate, threads))
                if size >= 64 * MIB:  # two threads may lose to one; the better is the limit
                    row.limit = self.best("shm", "limit", op, size, rate)
                self.rows.append(row)
                if rate and size in (MIB, 64 * MIB):
                    self._judge(row, ">= 0.95 of memcpy, no peer ahead",
                                lambda r: r.ratio(r.limit) >= 0.95 and _ahead(r))
                elif size == 64:
                    self._judge(row, "<= 0.05 us, no peer ahead", lambda r: r.ours.median <= 0.05 and _ahead(r))
                else:
                    self._judge(row, "no peer ahead", _ahead)

    def tcp(self, network, sizes):
        for size in sizes:
            for op in ("put", "get"):
                rate = is_rate(size)
                spins = None if rate else (lambda v: v.startswith("spin"))
                row = Row(f"tcp {network}", f"{op} {size_name(size)}", "GB/s" if rate else "us",
                          self.best(network, "ours", op, size, rate), self.best(network, "peer", op, size, rate),
                          self.best(network, "limit", op, size, rate, spins))
                self.rows.append(row)
                if size == 64:
                    self._judge(row, "<= 1.15 of the spinning loop", lambda r: r.ratio(r.limit) <= 1.15)
                elif size in (MIB, 64 * MIB):
                    self._judge(row, ">= 0.95 of the better loop, no peer ahead",
                                lambda r: r.ratio(r.limit) >= 0.95 and _ahead(r))
        for op in ("put", "get"):
            row = Row(f"tcp {network}", f"{op} 1 MiB, eight in flight", "GB/s",
                      self.best(network, "ours", f"{op}_window8", MIB, True), None,
                      self.best(network, "ours", f"{op}_window1", MIB, True))
            if row.limit:
                row.limit.who = "ours, one at a time"
            self.rows.append(row)
            self._judge(row, "no slower than one", lambda r: r.ratio(r.limit) >= 1 - TOLERANCE)
        for kind, what in (("batch256", "256 together"), ("window256", "256 in flight")):
            for op, goal in (("get", ">= 8 times one at a time"), ("put", "")):
                row = Row(f"tcp {network}", f"{op} 64 B, {what}", "M/s", self._rate(network, f"{op}_{kind}"), None,
                          self._rate(network, f"{op}_window1"))
                self.rows.append(row)
                if goal:
                    self._judge(row, goal, lambda r: r.ratio(r.limit) >= 8)

    def _rate(self, network, op):
        value = self.best(network, "ours", op, 64, False)
        return value and Value(1 / value.median, 1 / value.most, 1 / value.least, "ours, one at a time")

    def single(self, section, case, unit, values, goal, within):
        """A row of ours alone: `values` of all rounds against a number."""
        row = Row(section, case, unit, _plain(values))
        self.rows.append(row)
        self._judge(row, goal, lambda r: r.ours.median <= within)
        return row

    def against(self, section, case, unit, values, base, base_name, goal, factor):
        row = Row(section, case, unit, _plain(values), None, _plain(base))
        if row.limit:
            row.limit.who = base_name
        self.rows.append(row)
        self._judge(row, goal, lambda r: r.ratio(r.limit) <= factor)

    @staticmethod
    def _judge(row, goal, holds):
        row.goal = goal
        try:
            row.met = bool(holds(row)) if row.ours else None
        except (TypeError, AttributeError):
            row.met = None  # ours or the limit is missing


def _ahead(row):
    """No peer is ahead of ours, as far as two medians of the same run can say."""
    if row.peer is None:
        return True
    ratio = row.ratio(row.peer)
    return ratio >= 1 - TOLERANCE if row.unit == "GB/s" else ratio <= 1 + TOLERANCE


def _plain(values):
    return Value(statistics.median(values), min(values), max(values)) if values else None


def _value(us, size, rate, who):
    if not us:
        return None
    if rate:
        values = [size / one / 1000 for one in us]
        return Value(statistics.median(values), min(values), max(values), who)
    return Value(statistics.median(us), min(us), max(us), who)
