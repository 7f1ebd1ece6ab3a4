"""Names that could not be given: the memory is freed or its program's again, and the name is whose it is meanwhile."""
import signal

from harness import outcome, wait_for
from ocmlib import DEDICATED

MIB = 1 << 20


def used(node) -> int:
    return next(pool["bytes_used"] for pool in node.status()["pools"] if pool["kind"] == "dram")


def test_what_a_killed_program_was_publishing_is_freed_at_all_its_homes(cluster):
    n1, n2, n3 = cluster.nodes
    program, beside = cluster.program(n1), cluster.program(n1)
    a = program.alloc(8 * MIB, layout="striped", nodes=["n2", "n3"], flags=DEDICATED)
    n3.signal(signal.SIGSTOP)
    program.start(a.command("publish", "half"))
    wait_for("it is under way", lambda: "half" in beside.session("names"))
    program.kill()
    wait_for("it has failed", lambda: "half" not in beside.session("names"))
    n3.signal(signal.SIGCONT)
    wait_for("n3 is back", lambda: beside.nodes()["n3"]["state"] == "alive")
    wait_for("nobody has it", lambda: used(n2) == used(n3) == 0)
    assert outcome(lambda: beside.attach("half")) == "NOT_FOUND"


def test_a_name_that_another_program_took_stays_when_the_first_publish_fails(make_cluster):
    cluster = make_cluster(extra=("--failure-deadline-ms", "3000"))  # time to remove the name and to give it again
    n1, n2, n3 = cluster.nodes
    first, remover, other = (cluster.program(n1) for _ in range(3))
    a, b = first.alloc(MIB, nodes=["n3"], flags=DEDICATED), other.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    b.fill(0, 2, MIB)
    n3.signal(signal.SIGSTOP)
    first.start(a.command("publish", "x", 0o606))
    wait_for("it is under way", lambda: "x" in other.session("names"))
    remover.start({"do": "call", "on": "session", "method": "remove", "args": ["x"]})  # waits for n3
    wait_for("it is removed", lambda: "x" not in other.session("names"))
    b.publish("x", 0o606)
    assert isinstance(outcome(first.finish), str), "the first publish fails"
    outcome(remover.finish)
    assert other.attach("x").holds(0, 2, MIB)
    n3.signal(signal.SIGCONT)
    wait_for("n3 is back", lambda: other.nodes()["n3"]["state"] == "alive")
    wait_for("n3 keeps nothing", lambda: used(n3) == 0)
    reader = cluster.program(n3)
    assert reader.attach("x").holds(0, 2, MIB)
    other.session("remove", "x")
    wait_for("its memory is back", lambda: used(n2) == 0)
