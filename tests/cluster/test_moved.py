"""An extent is at another home than before: handles of before follow it, whatever they do next.

Nothing moves extents by itself yet. These tests move one by hand, with the messages of daemons: the new home reserves
and copies the bytes, takes them over for the name, and the old one lets go of them. No program uses them meanwhile.
"""
import os

import pytest

from harness import FAILURE_DEADLINE_S, outcome, wait_for
from ocmlib import DEDICATED
from rawprogram import RawNode, done

KIB, MIB = 1 << 10, 1 << 20
SIZE = 3 * MIB
WORD, BEFORE = SIZE - 64, 5
PATIENCE_S = 12 * FAILURE_DEADLINE_S


class Mover:
    """Whoever has the token can do it."""

    def __init__(self, cluster):
        self.cluster, self.token = cluster, cluster.token_file.read_bytes()
        self.id = os.urandom(16)

    def ask(self, node: str, body: str, **fields) -> dict:
        connection = RawNode(self.cluster[node], "mover", self.token)
        try:
            return done(connection.call(body, **fields))
        finally:
            connection.close()

    def move(self, name: str, to: str, place: int = 0, tell=("n1",)) -> str:
        """Extent `place` of what has the name. Gives the node it was on. `tell`: daemons that hear where it went."""
        record = self.ask("n1", "attach", name=name, access=3, uid=0)["allocation"]
        old = record["extents"][place]
        now = self.ask(to, "reserve", session_id=self.id, owner_node="mover", owner_incarnation=self.id,
                       allocation_id=os.urandom(16), bytes_total=old["bytes"])["reserved"]["extent"]
        self.ask(to, "copy", target=now, source=old, bytes_total=old["bytes"])
        was = {"address": old["address"], "generation": old["generation"]}
        now["part"], now["epoch"] = old.get("part", 0), old.get("epoch", 0) + 1
        part = {"was": was, "now": [now], "epoch": now["epoch"], "allocation_id": record["allocation_id"]}
        record["extents"][place] = now
        there = {"address": now["address"], "generation": now["generation"]}
        self.ask(old["node"], "part_moved", **part)
        self.ask(to, "give_replica", replica=there, part=part, published=record)
        for node in tell:
            self.ask(node, "part_moved", **part)
        return old["node"]


@pytest.fixture
def mover(cluster):
    return Mover(cluster)


def unused(cluster) -> bool:
    return all(node.status()["extents"] == 0 for node in cluster.nodes if node.process is not None)


def works(handle, other, seed: int):
    """Everything that a program does, at one handle, and the other sees it."""
    handle.fill(0, seed, SIZE - KIB)
    assert other.holds(0, seed, SIZE - KIB)
    before = handle.fetch_add(WORD, 3)
    assert other.compare_swap(WORD, before + 3, before + 4) == before + 3
    handle.put_notify(SIZE - KIB, b"news", WORD, 10)
    assert other.wait_at_least(WORD, before + 14, 5) == before + 14
    assert other.get(SIZE - KIB, 4) == b"news"


LAYOUTS = {
    "single": lambda program, node: program.alloc(SIZE, nodes=[node], flags=DEDICATED),
    "striped": lambda program, node: program.alloc(SIZE, layout="striped", chunk=SIZE // 3, nodes=["n1", "n3", node]),
    "sequence": lambda program, node: program.join(program.alloc(SIZE // 3, nodes=["n3"], flags=DEDICATED),
                                                   program.alloc(SIZE // 3, nodes=["n1"], flags=DEDICATED),
                                                   program.alloc(SIZE // 3, nodes=[node], flags=DEDICATED)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("there,to", [("n2", "n3"), ("n2", "n1"), ("n1", "n2")])
def test_handles_follow_what_moved(cluster, mover, layout, there, to):
    place = 0 if layout == "single" else 2
    owner, other = cluster.program(cluster["n1"]), cluster.program(cluster["n2"])
    a = LAYOUTS[layout](owner, there)
    a.publish("x", 0o600)
    b = other.attach("x")
    a.fill(0, 1, WORD)
    a.put(WORD, BEFORE.to_bytes(8, "little"))
    assert b.get(WORD, 8) == BEFORE.to_bytes(8, "little")
    assert mover.move("x", to, place) == there
    assert a.holds(0, 1, SIZE - KIB)
    assert b.fetch_add(WORD, 1) == BEFORE
    works(a, b, 2)
    works(b, a, 3)
    assert [handle.extents()[place]["node"] for handle in (a, b)] == [to, to]
    assert other.attach("x").holds(0, 3, SIZE - KIB)
    owner.session("remove", "x")
    wait_for("all is given back", lambda: unused(cluster))
    assert outcome(lambda: a.get(0, 8)) == outcome(lambda: b.fetch_add(WORD, 1)) == "REVOKED"
    assert outcome(lambda: a.get(SIZE - 8, 8)) == "REVOKED"


def test_each_kind_of_call_follows_by_itself(cluster, mover):
    program = cluster.program(cluster["n1"])
    a = LAYOUTS["single"](program, "n2")
    a.publish("x", 0o600)
    local = program.alloc(SIZE, nodes=["n1"], flags=DEDICATED)
    there = program.alloc(SIZE, nodes=["n2"], flags=DEDICATED)
    a.fill(0, 1, WORD)
    home = "n2"
    calls = [lambda: a.put(0, b"a"), lambda: a.get(0, 1), lambda: a.fetch_add(WORD, 1),
             lambda: a.compare_swap(WORD, 0, 1), lambda: a.put_notify(0, b"n", WORD, 7),
             lambda: a.wait_at_least(WORD, 7, 1), lambda: local.copy_from(0, a, 0, SIZE),
             lambda: there.copy_from(0, a, 0, SIZE), lambda: a.copy_from(0, there, 0, SIZE)]
    for call in calls:
        to = "n3" if home == "n2" else "n2"
        assert mover.move("x", to) == home
        home = to
        call()
        assert a.extents()[0]["node"] == home
    mover.move("x", "n1")
    assert a.get(1, 100) == a.load(1, 100)
    assert a.extents()[0]["local"]


def test_nobody_need_have_told(cluster, mover):
    """Only the two homes know. The daemon of a handle asks the old one; and once that is gone the others."""
    a = LAYOUTS["single"](cluster.program(cluster["n1"]), "n2")
    a.publish("x", 0o600)
    b, late = (cluster.program(cluster["n3"]).attach("x") for _ in range(2))
    a.fill(0, 1, WORD)
    mover.move("x", "n3", tell=())
    assert b.holds(0, 1, WORD)
    cluster["n2"].kill()

    def follows():
        return outcome(lambda: a.holds(0, 1, WORD)) is True
    wait_for("a handle follows though the old home is gone", follows, PATIENCE_S)
    a.fill(0, 2, WORD)
    cluster["n2"].start()
    cluster["n2"].wait_ready()
    wait_for("another run of the old home is asked in vain", lambda: outcome(lambda: late.holds(0, 2, WORD)) is True,
             PATIENCE_S)


def test_what_moved_twice_is_found_from_the_first_place(cluster, mover):
    a = LAYOUTS["single"](cluster.program(cluster["n1"]), "n2")
    a.publish("x", 0o600)
    b = cluster.program(cluster["n3"]).attach("x")
    a.fill(0, 1, WORD)
    for to in ("n3", "n1", "n2", "n3"):
        mover.move("x", to)
    works(b, a, 4)
    works(a, b, 5)


def test_the_daemon_of_a_handle_restarts_after_the_move(cluster, mover):
    """The receipt that its program shows names the first home."""
    program = cluster.program(cluster["n3"], deadline_s=PATIENCE_S)
    a = LAYOUTS["single"](cluster.program(cluster["n1"]), "n2")
    a.publish("x", 0o600)
    b = program.attach("x")
    a.fill(0, 1, WORD)
    mover.move("x", "n1")
    cluster["n3"].kill()
    cluster["n3"].start()
    cluster["n3"].wait_ready()
    wait_for("it follows", lambda: outcome(lambda: b.holds(0, 1, WORD)) is True, PATIENCE_S)
    works(b, a, 2)


def test_a_replica_does_not_leave_by_a_word(cluster, mover):
    """Others write to it: the council decides (control/loss.h)."""
    a = cluster.program(cluster["n1"]).alloc(MIB, layout="replicated", nodes=["n2", "n3"])
    a.publish("x", 0o600)
    a.fill(0, 1, MIB)
    [old, other] = mover.ask("n1", "attach", name="x", access=3, uid=0)["allocation"]["extents"]
    connection = RawNode(cluster["n2"], "mover", mover.token)
    was = {"address": old["address"], "generation": old["generation"]}
    reply = connection.call("part_moved", was=was, now=[{**other, "node": "n1"}], epoch=1, allocation_id=os.urandom(16))
    assert reply["code"] != 0 and "council" in reply["detail"]
    connection.close()
    assert a.holds(0, 1, MIB) and not any(extent["lost"] for extent in a.extents())
