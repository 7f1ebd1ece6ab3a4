"""What programs do on a healthy cluster: allocate, put, get, copy, publish, attach, and be told what is wrong."""
import contextlib
import functools
import os
import pathlib
import signal

import pytest

from harness import Cluster, only_mapped, wait_for
from ocmlib import DEDICATED, LOCAL, REMOTE, OcmError

MIB = 1 << 20


def fails(code: str, action):
    with pytest.raises(OcmError) as caught:
        action()
    assert caught.value.name == code, caught.value
    assert caught.value.detail, "an error says what to do"
    return caught.value.detail


@pytest.fixture
def p(shared):
    program = shared.program(shared["n1"])
    yield program
    program.close()


@pytest.mark.parametrize("count", [1, 63, 4096, 1 * MIB + 3, 40 * MIB])
@pytest.mark.parametrize("where", [LOCAL, REMOTE])
def test_what_is_put_is_got(p, count, where):
    a = p.alloc(count, flags=where | DEDICATED)
    a.fill(0, 7, count)
    assert a.holds(0, 7, count)


def test_fresh_memory_reads_as_zeros(p):
    for where in (LOCAL, REMOTE):
        a = p.alloc(3 * MIB, flags=where | DEDICATED)
        a.fill(0, 1, 3 * MIB)
        a.free()
        assert p.alloc(3 * MIB, flags=where | DEDICATED).get(0, 3 * MIB) == bytes(3 * MIB)


def test_the_next_extent_of_a_length_that_is_used_is_made_before_it_is_asked_for(make_cluster):
    cluster = make_cluster(extra=["--dram-ready", "64MiB"])
    node = cluster["n2"]

    def ready() -> int:
        return node.status()["pools"][0]["bytes_ready"]
    p = cluster.program(cluster["n1"])
    untouched = p.alloc(5 * MIB, flags=DEDICATED, nodes=["n2"])
    untouched.free()
    assert ready() == 0, "nobody used it"
    for _ in range(2):
        a = p.alloc(5 * MIB, flags=DEDICATED, nodes=["n2"])
        a.fill(0, 1, 5 * MIB)
    wait_for("the next one is ready", lambda: ready() == 5 * MIB)
    assert f'oncilla_pool_bytes{{kind="dram",state="ready"}} {5 * MIB}' in node.http_get("/metrics")
    used = node.status()["pools"][0]["bytes_used"]
    b = p.alloc(5 * MIB, flags=DEDICATED, nodes=["n2"])
    assert ready() == 0, "it was taken"
    assert node.status()["pools"][0]["bytes_used"] == used + 5 * MIB
    assert b.get(0, 5 * MIB) == bytes(5 * MIB)
    wait_for("and the next", lambda: ready() == 5 * MIB)
    offered = node.status()["pools"][0]["bytes_total"]
    p.alloc(offered - used - 6 * MIB, flags=DEDICATED, nodes=["n2"])
    wait_for("the pool needs it", lambda: ready() == 0)


@only_mapped
def test_a_remote_allocation_is_on_another_node(p):
    assert all(e["node"] != "n1" and not e["local"] for e in p.alloc(MIB, flags=REMOTE).extents())
    assert all(e["node"] == "n1" and e["local"] for e in p.alloc(MIB, flags=LOCAL).extents())


def test_stripes_spread_over_named_nodes_in_equal_shares(p):
    a = p.alloc(8 * MIB, layout="striped", nodes=["n2", "n3"], chunk=64 << 10)
    assert sorted((e["node"], e["bytes"]) for e in a.extents()) == [("n2", 4 * MIB), ("n3", 4 * MIB)]
    a.fill(0, 5, 8 * MIB)
    assert a.holds(0, 5, 8 * MIB)
    a.put(64 * 1024 - 3, b"across")
    assert a.get(64 * 1024 - 3, 6) == b"across"


def test_replicas_are_on_distinct_nodes(p):
    a = p.alloc(MIB, layout="replicated", extents=2)
    assert len({e["node"] for e in a.extents()}) == 2
    a.fill(0, 3, MIB)
    assert a.holds(0, 3, MIB)


def test_named_node_takes_the_extent(p):
    assert [e["node"] for e in p.alloc(MIB, nodes=["n3"]).extents()] == ["n3"]


def test_copy_from_remote_to_remote(p):
    a, b = p.alloc(5 * MIB, nodes=["n2"]), p.alloc(5 * MIB, nodes=["n3"])
    a.fill(0, 11, 5 * MIB)
    b.copy_from(0, a, 0, 5 * MIB)
    assert b.holds(0, 11, 5 * MIB)


def test_copy_between_layouts(p):
    a = p.alloc(4 * MIB, layout="striped", nodes=["n2", "n3"], chunk=4096)
    b = p.alloc(4 * MIB, flags=LOCAL | DEDICATED)
    a.fill(0, 12, 4 * MIB)
    b.copy_from(0, a, 0, 4 * MIB)
    assert b.holds(0, 12, 4 * MIB)


def test_atomics_of_two_programs_add_up(shared, p):
    a = p.alloc(4096, nodes=["n2"])
    a.publish("counter")
    local, remote = shared.program(shared["n2"]), shared.program(shared["n3"])
    handles = [a, local.attach("counter"), remote.attach("counter")]
    for _ in range(50):
        for h in handles:
            h.fetch_add(8, 1)
    assert a.fetch_add(8, 0) == 150
    assert a.compare_swap(8, 150, 7) == 150
    assert a.compare_swap(8, 150, 9) == 7
    p.session("remove", "counter")


def test_notified_put_wakes_a_waiter(shared, p):
    a = p.alloc(4096, nodes=["n2"])
    a.publish("mailbox")
    waiter = shared.program(shared["n2"]).attach("mailbox")
    waiter.program.start(waiter.command("wait_at_least", 0, 1, 10.0))
    a.put_notify(64, b"hello", 0, 1)
    assert waiter.program.finish() == 1
    assert waiter.get(64, 5) == b"hello"
    p.session("remove", "mailbox")


def test_a_notified_put_of_memory_that_cannot_be_read_notifies_nobody(p):
    """Its first half goes out before the fault is found, and the notification stands behind the rest."""
    count = 8 * MIB
    a = p.alloc(8 + count, nodes=["n2"], flags=DEDICATED)
    for _ in range(5):
        fails("INVALID_ARGUMENT", lambda: a.put_notify_half(8, count, 0, 1))
        assert a.get(0, 8) == bytes(8)
    a.put_notify(8, b"hello", 0, 1)
    assert a.wait_at_least(0, 1, 10.0) == 1
    assert a.get(8, 5) == b"hello"


NOWHERE = 8


@pytest.mark.parametrize("layout, nodes", [("single", ["n2"]), ("replicated", ["n2", "n3"])])
def test_a_bad_pointer_is_the_callers_fault_and_no_nodes(shared, p, layout, nodes):
    a = p.alloc(4 * MIB, layout=layout, nodes=nodes, flags=DEDICATED)
    a.fill(0, 1, 4 * MIB)
    for _ in range(3):
        fails("INVALID_ARGUMENT", lambda: a.get_to_half(0, 4 * MIB))
        fails("INVALID_ARGUMENT", lambda: a.put_from(0, NOWHERE, 4 * MIB))
    a.fill(0, 2, 4 * MIB)
    assert a.holds(0, 2, 4 * MIB)
    assert sum(not extent["lost"] for extent in a.extents()) == len(nodes)
    assert not any("replica_lost" in node.log_path.read_text() for node in shared.nodes)


def test_a_published_name_outlives_its_program(shared, p):
    first = shared.program(shared["n2"])
    a = first.alloc(2 * MIB, layout="striped", nodes=["n1", "n3"])
    a.fill(0, 21, 2 * MIB)
    a.publish("outlives")
    first.close()
    b = p.attach("outlives")
    assert b.holds(0, 21, 2 * MIB)
    assert p.session("names", "out")["outlives"]["bytes"] == 2 * MIB
    p.session("remove", "outlives")
    assert "outlives" not in p.session("names")


def test_read_only_attachment_is_enforced_here_and_there(shared, p):
    a = p.alloc(MIB, nodes=["n2"])
    a.publish("readonly")
    for node in ("n2", "n3"):
        program = shared.program(shared[node])
        h = program.attach("readonly", "r")
        assert h.get(0, 8) == bytes(8)
        fails("PERMISSION", lambda h=h: h.put(0, b"x"))
    p.session("remove", "readonly")


def test_a_removed_name_revokes_its_handles(shared, p):
    a = p.alloc(MIB, nodes=["n2"])
    a.publish("revoked")
    handles = [shared.program(shared[node]).attach("revoked") for node in ("n2", "n3")]
    for h in handles:
        h.put(0, b"x")
    p.session("remove", "revoked")
    for h in handles:
        fails("REVOKED", lambda h=h: h.put(0, b"y"))
        fails("REVOKED", lambda h=h: h.get(0, 1))


def test_a_name_is_taken_once(p):
    p.alloc(MIB, flags=DEDICATED).publish("once")
    fails("EXISTS", lambda: p.alloc(MIB, flags=DEDICATED).publish("once"))
    p.session("remove", "once")
    fails("NOT_FOUND", lambda: p.attach("once"))


@pytest.mark.parametrize("where", [LOCAL, REMOTE])
@pytest.mark.parametrize("offset,count", [(0, 4097), (4096, 1), (1 << 40, 1), ((1 << 64) - 8, 16), (8, (1 << 64) - 4)])
def test_ranges_past_the_end_or_overflowing(p, where, offset, count):
    a = p.alloc(4096, flags=where | DEDICATED)
    fails("OUT_OF_RANGE", lambda: a.put_raw(offset, count))


def test_a_request_larger_than_the_pool_says_what_is_free_and_where(p):
    detail = fails("POOL_FULL", lambda: p.alloc(1 << 40))
    assert "n1" in detail and "n2" in detail and "MiB" in detail


def test_unknown_node(p):
    assert "nobody" in fails("UNKNOWN_NODE", lambda: p.alloc(MIB, nodes=["nobody"]))


def test_kinds_that_nobody_offers_are_named(p):
    assert "no node offers memory of kind nvme" in fails("UNSUPPORTED", lambda: p.alloc(MIB, kind=1)).lower()
    assert "gpu" in fails("UNSUPPORTED", lambda: p.alloc(MIB, kind=2)).lower()


def test_zero_bytes_are_refused(p):
    fails("INVALID_ARGUMENT", lambda: p.alloc(0))


def test_a_freed_handle_is_refused(p):
    for count in (64, MIB):
        a = p.alloc(count)
        a.free()
        fails("REVOKED", lambda a=a: a.put(0, b"x"))
        fails("REVOKED", a.free)


def test_the_budget_is_never_exceeded_and_comes_back(shared):
    program = shared.program(shared["n1"])
    held = []
    with pytest.raises(OcmError) as full:
        for _ in range(100):
            held.append(program.alloc(64 * MIB, nodes=["n2"]))
    assert full.value.name == "POOL_FULL"
    assert 1 <= len(held) <= 4
    for a in held:
        a.free()
    wait_for("four extents fit again", lambda: _fits(program, 4), 5)


def _fits(program, count):
    held = []
    try:
        for _ in range(count - 1):
            held.append(program.alloc(64 * MIB, nodes=["n2"]))
        return True
    except OcmError:
        return False
    finally:
        for a in held:
            a.free()


def _pages_kept(*pids):
    """Bytes that the memory takes which these processes map. Of the machine, others' would be counted, too."""
    kept = {}
    for pid in pids:
        for mapped in pathlib.Path(f"/proc/{pid}/map_files").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(mapped).startswith("/memfd:ocm-extent"):
                    memory = os.stat(mapped)
                    kept[memory.st_ino] = memory.st_blocks * 512
    return sum(kept.values())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look behind a mapping")
def test_programs_that_map_removed_memory_do_not_keep_its_pages(make_cluster):
    cluster = make_cluster(names=("n1",), dram=100 * MIB)
    publisher, reader = cluster.program(cluster["n1"]), cluster.program(cluster["n1"])
    pids = [cluster["n1"].process.pid, publisher.process.pid, reader.process.pid]
    for i in range(3):
        def publish(i=i):
            try:
                return publisher.alloc(90 * MIB, flags=LOCAL | DEDICATED)
            except OcmError:
                return None
        a = wait_for("the pool has room again", publish, 5)
        a.fill(0, i + 1, 90 * MIB)
        a.publish(f"kept-{i}")
        held = reader.attach(f"kept-{i}")
        assert held.get(0, 8) != bytes(8)
        assert _pages_kept(*pids) >= 90 * MIB
        publisher.session("remove", f"kept-{i}")
        fails("REVOKED", functools.partial(held.get, 0, 8))
        fails("REVOKED", functools.partial(held.fetch_add, 0, 1))
        a.free()
    wait_for("the pages are back", lambda: _pages_kept(*pids) < 45 * MIB, 5)


def test_an_idle_remote_reader_does_not_keep_removed_memory(shared, p):
    home = lambda: p.nodes()["n1"]["used"]  # noqa: E731
    before = home()
    a = p.alloc(64 * MIB, nodes=["n1"])
    a.fill(0, 9, 64 * MIB)
    a.publish("idle")
    reader = shared.program(shared["n2"]).attach("idle", "r")
    assert reader.holds(0, 9, MIB)
    p.session("remove", "idle")
    wait_for("the budget is back", lambda: home() <= before, 2)
    again = [p.alloc(60 * MIB, nodes=["n1"]) for _ in range(3)]
    fails("REVOKED", lambda: reader.get(0, 8))
    for one in again:
        one.free()


@pytest.mark.parametrize("what", ["get", "put"])
@pytest.mark.parametrize("how", ["stopped", "computing"])
def test_a_remote_peer_in_the_middle_of_an_operation_does_not_keep_removed_memory(shared, p, what, how):
    home = lambda: p.nodes()["n1"]["used"]  # noqa: E731
    before = home()
    a = p.alloc(32 * MIB, nodes=["n1"], flags=DEDICATED)
    a.fill(0, 9, MIB)
    a.publish("middle", 0o606)
    peer = shared.program(shared["n2"])
    handle = peer.attach("middle", "rw")
    kept = peer.alloc(MIB, nodes=["n1"], flags=DEDICATED)
    handle.start(what, 0, 32 * MIB)
    if how == "stopped":
        peer.kill(signal.SIGSTOP)
    p.session("remove", "middle")
    wait_for("the budget is back", lambda: home() <= before + MIB, 10)
    if how == "stopped":
        peer.kill(signal.SIGCONT)
    with pytest.raises(OcmError) as caught:
        handle.wait()
    assert caught.value.name in ("REVOKED", "PEER_LOST")
    kept.put(0, b"goes on")
    assert kept.get(0, 7) == b"goes on"


def test_no_daemon_says_so(tmp_path):
    from ocmlib import Session
    with pytest.raises(OcmError) as caught:
        Session(str(tmp_path / "nothing.sock"))
    assert caught.value.name == "NO_DAEMON"


def test_a_cluster_of_one(tmp_path):
    alone = Cluster(tmp_path / "one", names=("n1",))
    try:
        program = alone.program(alone["n1"])
        a = program.alloc(MIB)
        a.fill(0, 1, MIB)
        assert a.holds(0, 1, MIB)
        fails("POOL_FULL", lambda: program.alloc(MIB, flags=REMOTE))
    finally:
        alone.close()


def test_a_coordinator_given_by_name_knows_itself(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), start=False)
    by_name = "localhost:" + cluster["n1"].control.rsplit(":", 1)[1]
    for node in cluster.nodes:
        node.start(["--coordinator", by_name])
    for node in cluster.nodes:
        node.wait_ready()
    cluster.wait_members(2)
