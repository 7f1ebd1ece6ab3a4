"""The order of a run: rounds in which every subject has its turn once (A B C, A B C, ...), within a time budget."""
import collections
import dataclasses
import time

from . import programs, subjects


@dataclasses.dataclass
class Turn:
    network: object
    network_name: str  # "shm" where no network is measured
    subject: subjects.Subject
    sizes: list
    seconds: float

    @property
    def key(self):
        return (self.network_name, self.subject.label)


class Progress:
    """A line for each turn, with what is left by what the same turns took before."""

    def __init__(self, budget_s):
        self.began = time.monotonic()
        self.budget_s = budget_s
        self.took = {}

    def left_s(self):
        return self.budget_s - (time.monotonic() - self.began)

    def estimate(self, turns):
        known = list(self.took.values())
        usual = sum(known) / len(known) if known else 3.0
        return sum(self.took.get(turn.key, usual) for turn in turns)

    def say(self, done, total, what, took_s, left_s):
        minutes, seconds = divmod(int(max(0, left_s)), 60)
        print(f"[{done:3d}/{total}] {what:<52} {took_s:5.1f} s   about {minutes}:{seconds:02d} left", flush=True)


class Samples:
    """Medians of every round: (network, role, subject, variant, op, bytes) -> [us, ...]."""

    def __init__(self):
        self.us = collections.defaultdict(list)
        self.failures = {}  # (network, label): reason

    def add(self, network_name, subject, results):
        for result in results:
            key = (network_name, subject.role, subject.name, subject.variant, result["op"], result["bytes"])
            self.us[key].append(result["us"])


def run_rounds(rounds, turns, samples, progress, record, later_s, rounds_min=1):
    """Every turn once a round. A subject that failed in two rounds is not tried again. Stops between rounds
    when the next would not fit into the budget, of which `later_s` belongs to what comes after. -> rounds done"""
    failed: collections.Counter[tuple[str, str]] = collections.Counter()
    total = rounds * len(turns)
    done = 0
    for number in range(1, rounds + 1):
        active = [turn for turn in turns if failed[turn.key] < 2]
        if number > rounds_min and progress.estimate(active) * 1.05 > progress.left_s() - later_s:
            print(f"the time is used up: {number - 1} of {rounds} rounds", flush=True)
            return number - 1
        for index, turn in enumerate(active):
            if progress.left_s() < later_s:
                print(f"the time is used up in round {number} of {rounds}", flush=True)
                return number
            start = time.monotonic()
            note = ""
            try:
                results = turn.subject.run(turn.network, turn.sizes, turn.seconds)
                samples.add(turn.network_name, turn.subject, results)
                record(number, turn, results)
            except programs.Failed as failure:
                failed[turn.key] += 1
                samples.failures[turn.key] = str(failure)
                note = f" FAILED: {failure}"
            took = time.monotonic() - start
            progress.took[turn.key] = took
            done += 1
            left = progress.estimate(active[index + 1:]) + (rounds - number) * progress.estimate(active) + later_s
            what = f"round {number}/{rounds} {turn.network_name:<8} {turn.subject.label}{note}"
            progress.say(done, total, what, took, left)
    return rounds
