"""Sequences: allocations of several nodes joined to one, whose writers, readers and nodes die."""
import functools

import pytest

from harness import FAILURE_DEADLINE_S, Handle, only_mapped, wait_for
from ocmlib import DEDICATED, OcmError
from test_failures import SLACK_S, council_of, error_of, pool_used

MIB = 1 << 20
NODES = ("n1", "n2", "n3")
LENGTHS = (MIB, 3 * MIB + 7, 100, 2 * MIB, MIB + 1, 50_000)


def parts_of(program, lengths=LENGTHS, **kwargs):
    """Single parts, round robin over the nodes; part i is filled from seed i."""
    parts = []
    for i, length in enumerate(lengths):
        parts.append(program.alloc(length, nodes=[NODES[i % 3]], flags=DEDICATED, **kwargs))
        parts[-1].fill(0, i, length)
    return parts


def holds_all(handle, lengths=LENGTHS):
    offset = 0
    for i, length in enumerate(lengths):
        if not handle.holds(offset, i, length):
            return False
        offset += length
    return True


def replicated_sequence(program, nodes_of_parts):
    parts = []
    for i, nodes in enumerate(nodes_of_parts):
        parts.append(program.alloc(MIB, layout="replicated", nodes=nodes))
        parts[-1].fill(0, i, MIB)
    return program.join(*parts)


@only_mapped
def test_a_sequence_over_three_nodes_is_one_allocation(cluster):
    writer = cluster.program(cluster["n1"])
    joined = writer.join(*parts_of(writer))
    assert holds_all(joined)
    assert [e["offset"] for e in joined.extents()] == [sum(LENGTHS[:i]) for i in range(len(LENGTHS))]
    assert [e["node"] for e in joined.extents()] == [NODES[i % 3] for i in range(len(LENGTHS))]
    whole = joined.get(0, sum(LENGTHS))
    joined.publish("sequence")
    writer.close()
    for node in NODES:
        reader = cluster.program(cluster[node])
        handle = reader.attach("sequence", "r")
        assert holds_all(handle)
        assert handle.get(MIB - 5, 3 * MIB + 100) == whole[MIB - 5:4 * MIB + 95]
        first = NODES.index(node)
        offset = sum(LENGTHS[:first])
        assert handle.load(offset, LENGTHS[first]) == whole[offset:offset + LENGTHS[first]]
        assert error_of(functools.partial(handle.load, sum(LENGTHS[:first + 1]), 1)) == "UNSUPPORTED"
    assert reader.session("names")["sequence"] == {"bytes": sum(LENGTHS), "layout": 3, "extents": len(LENGTHS),
                                                   "lost": False, "mode": 0o600}
    reader.session("remove", "sequence")
    wait_for("all is free", lambda: all(pool_used(cluster[n].status()) == 0 for n in NODES))


def test_puts_copies_and_gets_cross_nodes(cluster):
    program = cluster.program(cluster["n2"])
    one, other = program.join(*parts_of(program)), program.join(*parts_of(program, lengths=LENGTHS[::-1]))
    total = sum(LENGTHS)
    one.fill(0, 77, total)
    assert one.holds(0, 77, total)
    other.copy_from(0, one, 0, total)
    assert other.holds(0, 77, total)


def test_a_writer_killed_before_publishing_frees_all(cluster):
    before = {node: pool_used(cluster[node].status()) for node in NODES}
    writer = cluster.program(cluster["n1"])
    writer.join(*parts_of(writer))
    parts_of(writer)
    writer.kill()
    wait_for("all is free", lambda: all(pool_used(cluster[n].status()) == before[n] for n in NODES), 5)


def test_a_freed_sequence_gives_everything_back(cluster):
    program = cluster.program(cluster["n1"])
    joined = program.join(*[program.alloc(4096, nodes=[NODES[i % 3]], flags=DEDICATED) for i in range(600)])
    joined.free()
    wait_for("all is free", lambda: all(pool_used(cluster[n].status()) == 0 for n in NODES), 5)


def test_a_sequence_outlives_the_coordinators_memory_of_it(cluster):
    writer = cluster.program(cluster["n2"])
    joined = writer.join(*[writer.alloc(MIB, nodes=[n], flags=DEDICATED) for n in ("n2", "n3", "n2")])
    joined.fill(0, 3, 3 * MIB)
    joined.publish("kept")
    cluster["n1"].kill()
    cluster["n1"].start().wait_ready()
    reader = cluster.program(cluster["n3"])

    def attached():
        try:
            return reader.attach("kept", "r")
        except OcmError:
            return None
    assert wait_for("the new coordinator knows the name", attached).holds(0, 3, 3 * MIB)


def test_a_single_part_on_a_dead_node_is_lost_and_the_others_are_read(cluster):
    program = cluster.program(cluster["n1"])
    joined = program.join(*parts_of(program))
    joined.publish("broken")
    cluster["n2"].kill()
    assert joined.holds(0, 0, LENGTHS[0])
    assert error_of(lambda: joined.get(LENGTHS[0], 10)) == "PEER_LOST"
    assert program.seconds < FAILURE_DEADLINE_S + SLACK_S
    wait_for("the name is lost", lambda: program.session("names")["broken"]["lost"])


def test_a_replicated_sequence_goes_on_when_a_node_dies(cluster):
    writer = cluster.program(cluster["n1"])
    joined = replicated_sequence(writer, [["n2", "n3"], ["n3", "n1"], ["n2", "n1"], ["n3", "n2"]] * 10)
    joined.publish("replicas")
    reader = cluster.program(cluster["n1"])
    handle = reader.attach("replicas", "r")
    assert all(handle.holds(i * MIB, i, MIB) for i in range(40))
    assert handle.load(MIB, MIB) == handle.get(MIB, MIB)
    assert error_of(lambda: handle.load(0, 1)) == "UNSUPPORTED"
    cluster["n2"].kill()
    assert all(handle.holds(i * MIB, i, MIB) for i in range(40))
    later = cluster.program(cluster["n1"])
    again = later.attach("replicas", "r")
    assert all(again.holds(i * MIB, i, MIB) for i in range(40))
    wait_for("n2 is declared dead", lambda: later.nodes()["n2"]["state"] == "dead")
    assert not later.session("names")["replicas"]["lost"]
    council_of(cluster, 1)  # before that n1 needs the vote of n3 to serve its replicas
    cluster["n3"].kill()
    wait_for("the name is lost", lambda: later.session("names")["replicas"]["lost"])
    assert handle.holds(MIB, 1, MIB)
    assert error_of(lambda: handle.get(0, 1)) in ("LOST", "PEER_LOST")


@pytest.mark.parametrize("method, args", [("put", [0, b"x"]), ("fetch_add", [0, 1])])
def test_replicated_sequences_are_not_written(cluster, method, args):
    program = cluster.program(cluster["n1"])
    joined = replicated_sequence(program, [["n2", "n3"]])
    assert error_of(lambda: getattr(joined, method)(*args)) == "UNSUPPORTED"
    assert pool_used(cluster["n2"].status()) == MIB


def held_sequence(cluster, name="held"):
    """A published sequence over three nodes whose writer has gone."""
    writer = cluster.program(cluster["n1"])
    writer.join(*parts_of(writer)).publish(name)
    writer.close()


def all_free(cluster, nodes=NODES):
    return all(pool_used(cluster[node].status()) == 0 for node in nodes)


def test_a_holder_reads_on_after_the_name_is_removed(cluster):
    held_sequence(cluster)
    holder, plain, other = (cluster.program(cluster[n]) for n in ("n2", "n3", "n3"))
    handle, unheld = holder.attach("held", "r+hold"), plain.attach("held", "r")
    other.session("remove", "held")
    assert other.session("names") == {}
    assert error_of(lambda: other.attach("held", "r+hold")) == "NOT_FOUND"
    assert holds_all(handle) and holds_all(unheld)
    assert not all_free(cluster)
    other.alloc(MIB, flags=DEDICATED).publish("held")  # the name is free at once
    other.session("remove", "held")
    handle.free()
    wait_for("all is free", lambda: all_free(cluster), 5)
    assert error_of(lambda: unheld.get(0, sum(LENGTHS))) == "REVOKED"


def test_a_killed_holder_gives_the_memory_back(cluster):
    held_sequence(cluster)
    holder, second = cluster.program(cluster["n2"]), cluster.program(cluster["n3"])
    holder.attach("held", "r+hold")
    handle = second.attach("held", "r+hold")
    second.session("remove", "held")
    holder.kill()
    assert holds_all(handle)
    second.kill()
    wait_for("all is free", lambda: all_free(cluster), 5)


def test_the_death_of_a_holders_daemon_ends_its_holds(make_cluster):
    cluster = make_cluster(extra=["--orphan-grace-ms", "500"])
    held_sequence(cluster)
    holder, watcher = cluster.program(cluster["n3"]), cluster.program(cluster["n1"])
    holder.attach("held", "r+hold")
    watcher.session("remove", "held")
    assert pool_used(cluster["n2"].status()) > 0
    cluster["n3"].kill()
    holder.kill()
    wait_for("the other nodes are free", lambda: all_free(cluster, ("n1", "n2")))


def test_a_resumed_session_keeps_its_holds(cluster):
    writer = cluster.program(cluster["n1"])
    parts = [writer.alloc(MIB, nodes=[n], flags=DEDICATED) for n in ("n1", "n2")]
    joined = writer.join(*parts)
    joined.fill(0, 5, 2 * MIB)
    joined.publish("held")
    holder = cluster.program(cluster["n3"])
    handle = holder.attach("held", "r+hold")
    cluster["n3"].kill()
    cluster["n3"].start().wait_ready()
    wait_for("the session is taken up", lambda: cluster["n3"].status()["sessions"])
    writer.session("remove", "held")
    assert handle.holds(0, 5, 2 * MIB)
    handle.free()
    wait_for("all is free", lambda: all_free(cluster), 5)


def test_a_hold_needs_every_home_that_lives(cluster):
    held_sequence(cluster)
    reader = cluster.program(cluster["n1"])
    cluster["n2"].kill()
    if reader.nodes()["n2"]["state"] != "dead":
        assert error_of(lambda: reader.attach("held", "r+hold")) == "PEER_LOST"
    wait_for("n2 is declared dead", lambda: reader.nodes()["n2"]["state"] == "dead")
    handle = reader.attach("held", "r+hold")
    assert handle.holds(0, 0, LENGTHS[0])
    assert error_of(lambda: handle.get(LENGTHS[0], 1)) == "PEER_LOST"


def test_attaching_and_removing_at_once_leaves_nothing(cluster):
    writer, remover, *readers = (cluster.program(cluster[n]) for n in ("n1", "n2", "n2", "n3"))
    lengths = (MIB, MIB + 5, 4096)
    outcomes = set()
    for _ in range(25):
        joined = writer.join(*parts_of(writer, lengths))
        joined.publish("brief")
        for reader in readers:
            reader.start({"do": "call", "on": "session", "method": "attach", "as": "held", "args": ["brief", "r+hold"]})
        remover.session("remove", "brief")
        for reader in readers:
            try:
                reader.finish()
            except OcmError as error:
                outcomes.add(error.name)
                continue
            outcomes.add("held")
            handle = Handle(reader, "held")
            assert holds_all(handle, lengths)
            handle.free()
        joined.free()
    assert outcomes <= {"held", "NOT_FOUND"}
    wait_for("all is free", lambda: all_free(cluster), 5)
