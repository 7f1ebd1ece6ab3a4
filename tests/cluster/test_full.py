"""More at once than the daemon has room for: 256 requests of one program, and operations that fail together."""
from harness import FAILURE_DEADLINE_S, wait_for
from ocmlib import DEDICATED
from test_names import used

MIB = 1 << 20


def test_what_is_freed_while_the_daemon_has_no_room_for_requests_is_freed(netns_cluster):
    cluster, frees = netns_cluster, 20
    program = cluster.program(cluster["n1"])
    program.session("make_many", "sources", 256, MIB // 2, nodes=["n2"], flags=DEDICATED)
    program.session("make_many", "targets", 256, MIB // 2, nodes=["n3"], flags=DEDICATED)
    before = used(cluster["n3"])
    program.session("make_many", "others", frees, MIB, nodes=["n3"], flags=DEDICATED)
    program.session("copy_many", "targets", "sources", MIB // 2)
    assert program.session("free_many", "others") == {"OK": frees}
    assert program.session("end_many") == {"OK": 256}
    wait_for("it is given back", lambda: used(cluster["n3"]) == before)


def test_puts_whose_replicas_died_together_are_all_acknowledged(netns_cluster):
    """Each has a loss decided, and more are under way than requests may be."""
    cluster, puts = netns_cluster, 400
    program = cluster.program(cluster["n1"])
    program.session("make_many", "pairs", puts, 4096, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
    program.session("start_many", "pairs", "put", 4096)
    assert program.session("end_many") == {"OK": puts}
    cluster["n2"].kill()
    program.session("start_many", "pairs", "put", 4096)
    assert program.session("end_many") == {"OK": puts}


def test_gets_of_replicas_that_fail_together_end_together(netns_cluster):
    """On a node that is cut off: the first of them asks for all whether their part goes on elsewhere."""
    cluster = netns_cluster
    far = cluster.program(cluster["n2"]).alloc(MIB, layout="replicated", nodes=["n1", "n3"], flags=DEDICATED)
    far.get(0, 1)
    cluster.cut(cluster["n2"])
    far.call("start_many", 64, 512)
    assert far.call("told_within", 20 * FAILURE_DEADLINE_S) == 64
    cluster.restore(cluster["n2"])
    wait_for("it is reached again", lambda: far.get(0, 1) == bytes(1))
