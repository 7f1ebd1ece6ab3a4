"""What waits for nodes that are not heard: one user's takes little, and nothing from the others, however much it is."""
import contextlib
import os
import pathlib
import signal
import socket
import threading
import time

import pytest

from harness import FAILURE_DEADLINE_S, outcome, resident_bytes, used, wait_for
from ocmlib import DEDICATED, Session
from rawprogram import RawProgram, done

MIB = 1 << 20
ANOTHER_USER = 61001
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="acting as another user needs root")


def processor_s(node) -> float:
    fields = pathlib.Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def allocate_many(program: RawProgram, count: int, node: str) -> list[dict]:
    made = []
    for first in range(0, count, 64):
        batch = min(64, count - first)
        for _ in range(batch):
            program.send("allocate", bytes_total=4096, nodes=[node], flags=DEDICATED)
        made += [done(program.receive())["allocation"] for _ in range(batch)]
    return made


def test_a_publish_that_fails_again_and_again_is_undone_once(make_cluster):
    cluster = make_cluster(names=("n1", "n2", "n3", "n4"))
    cluster.let_others_in()
    n1, n2, n3 = (cluster[name] for name in ("n1", "n2", "n3"))
    program = RawProgram(n2, uid=ANOTHER_USER, deadline_s=60)
    program.hello()
    parts = allocate_many(program, 1000, "n3") + allocate_many(program, 1, "n4")
    ids = [part["allocation_id"] for part in parts]
    joined = done(program.call("join", allocation_ids=ids))["allocation"]["allocation_id"]
    other = Session(str(n2.socket_path))
    n3.signal(signal.SIGSTOP)
    try:
        wait_for("n3 is dead", lambda: other.nodes()["n3"]["state"] == "dead")
        before = resident_bytes(n1)
        for i in range(300):
            reply = program.call("publish", name=f"again-{i}", mode=0o666, allocation_id=joined)
            assert reply["code"] == -40, reply
        assert resident_bytes(n1) - before < 16 * MIB
    finally:
        n3.signal(signal.SIGCONT)
    wait_for("n3 is back", lambda: other.nodes()["n3"]["state"] == "alive")
    wait_for("it is published", lambda: program.call("publish", name="last", mode=0o666,
                                                     allocation_id=joined)["code"] == 0)
    assert list(other.names()) == ["last"]
    other.remove("last")
    program.close()
    other.close()
    wait_for("all is free", lambda: used(n3) == 0 and used(cluster["n4"]) == 0)


def test_names_in_doubt_of_one_user_keep_a_daemon_from_no_coordinator(make_netns_cluster):
    """It shows them again and again, as freed, while the coordinator does not answer."""
    cluster = make_netns_cluster()
    cluster.let_others_in()
    n1, n2 = cluster["n1"], cluster["n2"]
    before = RawProgram(n2, uid=ANOTHER_USER, deadline_s=60)
    welcome = before.hello()
    receipts = [made["receipt"] for made in allocate_many(before, 3000, "n2")]
    n2.kill()
    n2.start()
    n2.wait_ready()
    cluster.wait_members(at=n2)
    before.close()
    program = RawProgram(n2, uid=ANOTHER_USER, deadline_s=60)
    program.hello(resume_session=welcome["session_id"], resume_key=welcome["resume_key"])
    resident_before = resident_bytes(n2)
    shown = [{"receipt": receipt, "handles": 1, "may_be_named": True, "freed": [b""]} for receipt in receipts]
    cluster.cut_pair(n1, n2)
    try:
        for _ in range(12):
            done(program.call("session_restore", shown=shown))
        other = Session(str(n2.socket_path))
        wait_for("n2 is alone", lambda: outcome(lambda: list(other.names())) == "NO_COORDINATOR")
    finally:
        cluster.restore_pair(n1, n2)
    wait_for("it has a coordinator again", lambda: outcome(lambda: list(other.names())) == [],
             deadline_s=6 * FAILURE_DEADLINE_S)
    assert resident_bytes(n2) - resident_before < 64 * MIB
    program.close()
    other.close()
    wait_for("all is free", lambda: used(n2) == 0)


def test_ends_of_sessions_wait_in_turn(cluster):
    cluster.let_others_in()
    n2, n3 = cluster["n2"], cluster["n3"]
    owner = cluster.program(cluster["n1"])
    owner.alloc(MIB, layout="striped", nodes=["n1", "n3"], chunk=64 << 10).publish("held", 0o666)
    other = Session(str(n2.socket_path))

    def flood(count: int) -> None:
        for _ in range(count):
            program = RawProgram(n2, uid=ANOTHER_USER, deadline_s=60)
            program.hello()
            done(program.call("attach", name="held", access=1, hold=True))
            program.close()
    n3.kill()
    wait_for("n3 is dead", lambda: other.nodes()["n3"]["state"] == "dead")
    flood(700)
    before = resident_bytes(n2)
    flood(1500)
    assert resident_bytes(n2) - before < 9 * MIB
    n3.start().wait_ready()
    wait_for("n3 is back", lambda: other.nodes()["n3"]["state"] == "alive")
    other.remove("held")
    other.close()
    wait_for("no hold is left", lambda: used(n3) == 0 and used(cluster["n1"]) == 0)


def test_holds_under_a_former_id_are_told_together(make_cluster):
    """After a part was made again and the daemon of a user who holds it restarted, it shows many by old receipts."""
    cluster = make_cluster(names=("n1", "n2", "n3", "n4"), extra=["--replicas-again-after-ms", "300"])
    cluster.let_others_in()
    n2, n3, n4 = (cluster[name] for name in ("n2", "n3", "n4"))
    owner = cluster.program(cluster["n1"])
    owner.alloc(4096, layout="replicated", nodes=["n3", "n4"], flags=DEDICATED).publish("held", 0o666)
    before = RawProgram(n2, uid=ANOTHER_USER)
    welcome = before.hello()
    receipt = done(before.call("attach", name="held", access=1, hold=True))["allocation"]["receipt"]
    n2.kill()
    n2.start().wait_ready()
    cluster.wait_members(at=n2)
    before.close()
    n3.kill()
    wait_for("the part is made again", lambda: "replica_made_again" in n4.log(), deadline_s=30)
    resident_before = resident_bytes(n4)
    program = RawProgram(n2, uid=ANOTHER_USER, deadline_s=120)
    program.hello(resume_session=welcome["session_id"], resume_key=welcome["resume_key"])
    holds = 20_000
    shown = {"receipt": receipt, "handles": holds, "holds": [i.to_bytes(16, "big") for i in range(1, holds + 1)]}
    done(program.call("session_restore", shown=[shown], complete=True))
    other = Session(str(n2.socket_path))
    busy_before = processor_s(n4)
    time.sleep(8)  # they come one after another
    assert processor_s(n4) - busy_before < 4, "the home tells all of them again with each"
    other.remove("held")
    assert resident_bytes(n4) - resident_before < 64 * MIB
    assert "node_dead node=n4" not in cluster["n1"].log()
    program.close()
    other.close()
    wait_for("all is free", lambda: all(used(cluster[name]) == 0 for name in ("n1", "n2", "n4")), deadline_s=60)


def test_memory_of_one_user_that_is_populated_keeps_nobody_from_any(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), dram=1 << 30, extra=["--dram-populate"])
    cluster.let_others_in()
    n1, n2 = cluster.nodes
    other = cluster.program(n1)
    program = RawProgram(n1, uid=ANOTHER_USER, deadline_s=60)
    program.hello()

    def give_back():
        with contextlib.suppress(OSError, EOFError):
            while True:
                reply = program.receive()
                if made := reply.get("allocation"):
                    program.send("free", allocation_id=made["allocation_id"])
    for _ in range(100):
        program.send("allocate", bytes_total=600 * MIB, nodes=["n2"], flags=DEDICATED)
    user = threading.Thread(target=give_back)
    user.start()
    for _ in range(6):
        time.sleep(0.5)
        other.alloc(2 * MIB, nodes=["n2"], flags=DEDICATED).free()
    program.socket.shutdown(socket.SHUT_RDWR)
    user.join()
    program.close()
    wait_for("all is free", lambda: used(n2) == 0)
