"""Programs whose daemon is killed and started again: what they hold of other nodes is theirs as before."""
import signal
import threading
import time

import pytest

from harness import FAILURE_DEADLINE_S, outcome, resident_bytes, used, wait_for
from ocmlib import DEDICATED
from rawprogram import RawProgram, done

MIB = 1 << 20
AUTH = "not a receipt of this session"


def restart(cluster, name, how=signal.SIGKILL):
    cluster[name].process.send_signal(how)
    cluster[name].process.wait(15)
    cluster[name].start().wait_ready()
    cluster.wait_members(at=cluster[name])


def writes(handle, seed):
    """As ever, though a loss may wait until the new run of a daemon can vote."""
    wait_for(f"put {seed} is done", lambda: outcome(lambda: handle.fill(0, seed, MIB)) is None, 10 * FAILURE_DEADLINE_S)
    assert handle.holds(0, seed, MIB)


def reads(handle, seed):
    """As ever, though replicas are silent while no council votes: the run that was about to install one was killed."""
    wait_for("its replicas answer", lambda: outcome(lambda: handle.holds(0, seed, MIB)) != "PEER_LOST",
             10 * FAILURE_DEADLINE_S)
    assert handle.holds(0, seed, MIB)


def uses_of(handle):
    return (lambda: handle.get(0, 8), lambda: handle.put(0, b"x"), lambda: handle.fetch_add(0, 1),
            lambda: handle.put_notify(0, b"a", 8, 1), lambda: handle.wait_at_least(0, 1, 0.3))


@pytest.mark.parametrize("own", ["n1", "n3"])
def test_a_loss_is_confirmed_and_a_name_given_after_a_restart(cluster, own):
    homes = [name for name in ("n1", "n2", "n3") if name != own]
    a = cluster.program(cluster[own]).alloc(MIB, layout="replicated", nodes=homes, flags=DEDICATED)
    a.fill(0, 1, MIB)
    restart(cluster, own)
    a.fill(0, 2, MIB)
    assert a.holds(0, 2, MIB)
    cluster.wait_votes(own)
    cluster["n2"].kill()
    writes(a, 3)
    a.publish("kept", 0o606)
    assert cluster.program(cluster[own]).attach("kept").holds(0, 3, MIB)


@pytest.mark.parametrize("own", ["n1", "n2", "n3"])
def test_what_all_homes_lost_is_revoked_also_for_a_program_of_one_of_them(cluster, own):
    a = cluster.program(cluster[own]).alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
    a.fill(0, 1, 4096)
    for name in ("n2", "n3"):
        cluster[name].kill()
    for name in ("n2", "n3"):
        cluster[name].start().wait_ready()
    for use in (lambda: a.get(0, 8), lambda: a.put(0, b"x")):
        wait_for("it is known as gone", lambda use=use: outcome(use) == "REVOKED", 5 * FAILURE_DEADLINE_S)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("own, other", [("n1", "n2"), ("n2", "n1")])
def test_a_replica_on_the_programs_own_node_is_lost_and_made_again_after_a_restart(cluster, own, other, how):
    a = cluster.program(cluster[own]).alloc(MIB, layout="replicated", nodes=[own, "n3"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    restart(cluster, own, how)
    writes(a, 2)
    a.publish("kept", 0o606)
    reader = cluster.program(cluster[other]).attach("kept")
    assert reader.holds(0, 2, MIB)
    wait_for("another replica", lambda: "replica_made_again" in cluster["n3"].log(), 20 * FAILURE_DEADLINE_S)
    cluster["n3"].kill()
    assert reader.holds(0, 2, MIB) and a.holds(0, 2, MIB)
    writes(a, 3)
    assert reader.holds(0, 3, MIB)


def test_replicas_are_made_again_after_a_majority_of_voters_restarted_at_once(cluster):
    """And the coordinator went on: without their files nobody knows what they decided, and nobody but it can say so."""
    n1, n2, n3 = cluster.nodes
    wait_for("three vote", lambda: "number=2" in n1.log() or "number=3" in n1.log())
    program = cluster.program(n1)
    for node in (n2, n3):
        node.kill()
        (node.run_dir / "voter").unlink()
    for node in (n2, n3):
        node.start().wait_ready()
    cluster.wait_members(at=n1)

    def new_ones():
        new = program.alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
        new.fill(0, 1, MIB)
        assert new.holds(0, 1, MIB)
        new.free()

    wait_for("replicas are made", lambda: outcome(new_ones) is None, 30 * FAILURE_DEADLINE_S)
    assert n1.log().count("council_over") == 1
    wait_for("nothing is used", lambda: used(n2) == used(n3) == 0)


@pytest.mark.parametrize("role", ["fixed", "passes on"])
@pytest.mark.parametrize("gone", [("n2", "n3"), ("n1", "n2"), ("n1", "n3")])
def test_a_majority_of_voters_restarts_and_the_copy_that_is_left_is_kept(make_cluster, role, gone):
    cluster = make_cluster(seeds=role == "passes on")
    left = next(node for node in cluster.nodes if node.name not in gone)
    wait_for("three vote", lambda: any('voters="n' in node.log() for node in cluster.nodes))
    a = cluster.program(left).alloc(MIB, layout="replicated", nodes=[left.name, gone[1]], flags=DEDICATED)
    a.fill(0, 1, MIB)
    a.publish("kept", 0o606)
    for name in gone:
        cluster[name].kill()
    for name in gone:
        cluster[name].start()
    for name in gone:
        cluster[name].wait_ready()
    wait_for("it is written", lambda: outcome(lambda: a.fill(0, 2, MIB)) is None, 8 * FAILURE_DEADLINE_S)
    assert a.holds(0, 2, MIB)
    reader = cluster.program(cluster[gone[0]])
    wait_for("its name is there", lambda: outcome(lambda: reader.attach("kept").holds(0, 2, MIB)) is True,
             8 * FAILURE_DEADLINE_S)
    wait_for("two copies again", lambda: any("replica_made_again" in node.log() for node in cluster.nodes),
             20 * FAILURE_DEADLINE_S)
    assert not any("replicas_freed" in node.log() for node in cluster.nodes)


@pytest.mark.parametrize("role", ["fixed", "passes on"])
def test_a_loss_is_remembered_where_all_who_decided_it_restart(make_netns_cluster, role):
    """n5 is cut off and its replica is given up; the voters restart; n5 is back, and must not serve what is old."""
    cluster = make_netns_cluster(names=[f"n{i}" for i in range(1, 6)], seeds=role == "passes on",
                                 extra=["--replicas-again-after-ms", "60000"])
    n4, n5 = cluster["n4"], cluster["n5"]
    wait_for("five vote", lambda: any(len(voters) == 5 for _, voters in cluster.councils()))
    a = cluster.program(n4).alloc(MIB, layout="replicated", nodes=["n4", "n5"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    a.publish("kept", 0o606)
    old = cluster.program(n5).attach("kept")
    cluster.cut(n5)
    writes(a, 2)
    wait_for("three vote", lambda: len(cluster.councils()[-1][1]) == 3)
    voters = [cluster[name] for name in cluster.councils()[-1][1] if name != "n4"]
    for node in voters:
        node.kill()
    cluster.restore(n5)
    for node in voters:
        node.start()
    for node in voters:
        node.wait_ready()
    time.sleep(2 * FAILURE_DEADLINE_S)  # the leases of before are over
    writes(a, 3)
    def reads():
        seen = outcome(lambda: old.holds(0, 3, MIB))
        assert seen is not False, "what is old was read"
        return seen is True

    wait_for("n5 reads it", reads, 10 * FAILURE_DEADLINE_S)
    assert not any("replicas_freed" in node.log() for node in cluster.nodes)


def test_an_attached_name_is_written_after_a_restart_and_a_loss(cluster):
    owner = cluster.program(cluster["n1"]).alloc(MIB, layout="replicated", nodes=["n1", "n2"], flags=DEDICATED)
    owner.fill(0, 1, MIB)
    owner.publish("shared", 0o606)
    a = cluster.program(cluster["n3"]).attach("shared", "rw+hold")
    assert a.holds(0, 1, MIB)
    restart(cluster, "n3")
    cluster.wait_votes("n3")
    cluster["n2"].kill()
    writes(a, 2)
    assert owner.holds(0, 2, MIB)
    before = used(cluster["n1"])
    owner.program.session("remove", "shared")
    assert a.holds(0, 2, MIB)  # its hold came along
    a.free()
    wait_for("the last holder is gone", lambda: used(cluster["n1"]) == before - MIB)


def test_a_part_that_was_made_again_after_a_restart_is_followed(make_cluster):
    cluster = make_cluster(names=("n1", "n2", "n3", "n4"))
    a = cluster.program(cluster["n4"]).alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    restart(cluster, "n4")
    restart(cluster, "n2")
    wait_for("another replica", lambda: "replica_made_again" in cluster["n3"].log(), 20 * FAILURE_DEADLINE_S)
    writes(a, 2)
    assert sum(not extent["lost"] for extent in a.extents()) == 2
    restart(cluster, "n4")  # the receipt is that of the new part
    writes(a, 3)
    a.publish("again", 0o606)
    assert cluster.program(cluster["n1"]).attach("again").holds(0, 3, MIB)


def test_what_was_on_the_restarted_node_itself_is_revoked_for_its_own_programs_too(cluster):
    own, other = cluster.program(cluster["n2"]), cluster.program(cluster["n1"])
    named = own.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    named.publish("there", 0o606)
    handles = [named, own.attach("there"), other.attach("there"), own.alloc(MIB, nodes=["n2"], flags=DEDICATED)]
    for handle in handles:
        assert handle.get(0, 8) == bytes(8)  # mapped
    restart(cluster, "n2")
    for handle in handles:
        wait_for("it is known as gone", lambda handle=handle: outcome(lambda: handle.get(0, 8)) == "REVOKED")
        assert [outcome(use) for use in uses_of(handle)] == ["REVOKED"] * 5


def test_single_joined_and_replicated_are_whole_after_two_restarts(cluster):
    p = cluster.program(cluster["n1"])
    single = p.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    joined = p.join(*(p.alloc(MIB, nodes=[node], flags=DEDICATED) for node in ("n2", "n3")))
    parts = [p.alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED) for _ in range(2)]
    for handle in (single, joined, *parts):
        handle.fill(0, 1, MIB)
    before = used(cluster["n2"]), used(cluster["n3"])
    for _ in range(2):
        restart(cluster, "n1")
    sequence = p.join(*parts)
    for name, handle in (("single", single), ("joined", joined), ("sequence", sequence)):
        handle.publish(name, 0o606)
        reads(cluster.program(cluster["n3"]).attach(name), 1)
        handle.free()
    assert (used(cluster["n2"]), used(cluster["n3"])) == before
    for name in ("single", "joined", "sequence"):
        p.session("remove", name)
    wait_for("all of it is back", lambda: (used(cluster["n2"]), used(cluster["n3"])) ==
             (before[0] - 4 * MIB, before[1] - 3 * MIB))


def test_a_receipt_is_good_for_its_own_session_only(cluster):
    n1 = cluster["n1"]
    raws, welcomes, made = [], [], []
    for _ in range(2):
        raws.append(RawProgram(n1))
        welcomes.append(raws[-1].hello())
        made.append(raws[-1].call("allocate", bytes_total=MIB, layout=2, nodes=["n2", "n3"],
                                  flags=DEDICATED)["allocation"])
    assert raws[0].call("session_restore", shown=[{"receipt": made[0]["receipt"]}])["code"] < 0  # nothing to restore
    n1.kill()
    n1.start().wait_ready()
    cluster.wait_members(at=n1)

    def lose(raw, allocation):
        extent = allocation["extents"][0]
        return raw.call("lost_replica", allocation_id=allocation["allocation_id"], address=extent["address"],
                        generation=extent["generation"])
    again = RawProgram(n1)
    again.hello(resume_session=welcomes[0]["session_id"], resume_key=welcomes[0]["resume_key"])
    foreign = again.call("session_restore", shown=[{"receipt": made[1]["receipt"]}])
    assert foreign["code"] < 0 and AUTH in foreign["detail"]
    assert lose(again, made[1])["code"] < 0
    forged = bytearray(made[0]["receipt"])
    forged[-1] ^= 1
    assert AUTH in again.call("session_restore", shown=[{"receipt": bytes(forged)}])["detail"]
    fresh = RawProgram(n1)
    fresh.hello()
    assert fresh.call("session_restore", shown=[{"receipt": made[1]["receipt"]}])["code"] < 0
    # Its own is taken; but what was published and removed since is not its own again.
    assert again.call("session_restore", shown=[{"receipt": made[0]["receipt"]}])["code"] == 0
    assert again.call("publish", allocation_id=made[0]["allocation_id"], name="mine", mode=0o600)["code"] == 0
    n1.kill()
    n1.start().wait_ready()
    cluster.wait_members(at=n1)
    last = RawProgram(n1)
    last.hello(resume_session=welcomes[0]["session_id"], resume_key=welcomes[0]["resume_key"])
    before = used(cluster["n2"])
    assert last.call("session_restore", shown=[{"receipt": made[0]["receipt"]}])["code"] == 0
    assert last.call("free", allocation_id=made[0]["allocation_id"])["code"] == 0
    attached = last.call("attach", name="mine", access=3)
    assert attached["code"] == 0, "the name keeps its memory"
    assert used(cluster["n2"]) == before
    for raw in (*raws, again, fresh, last):
        raw.close()


def test_what_a_silent_home_has_is_in_doubt_after_a_restart_and_not_published(make_netns_cluster):
    cluster = make_netns_cluster(names=("n1", "n2", "n3"), extra=("--orphan-grace-ms", "10000"))
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n2)
    a, b = (program.alloc(MIB, nodes=["n3"], flags=DEDICATED) for _ in range(2))
    cluster.cut(n3)
    n2.kill()
    n2.start().wait_ready()
    for asked in (lambda: a.publish("doubt"), lambda: program.join(a, b)):
        wait_for("the session goes on", lambda asked=asked: outcome(asked) not in ("NO_DAEMON", "NO_COORDINATOR"))
        assert outcome(asked) == "PEER_LOST"
    cluster.restore(n3)
    wait_for("the home has answered", lambda: outcome(lambda: a.publish("doubt")) is None)


@pytest.mark.parametrize("times", [1, 2])
def test_what_a_home_did_not_hear_before_the_daemon_restarted_is_given_back(cluster, times):
    """While the program goes on, and what it has stays its own."""
    n1, n2, n3 = cluster.nodes
    program, other = cluster.program(n3), cluster.program(n1)
    freed = program.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    kept = program.alloc(MIB, layout="replicated", nodes=["n1", "n2"], flags=DEDICATED)
    parts = [program.alloc(MIB, nodes=["n2"], flags=DEDICATED) for _ in range(2)]
    joined = program.join(*parts)
    joined.fill(0, 3, 2 * MIB)
    kept.fill(0, 1, MIB)
    other.alloc(MIB, nodes=["n2"], flags=DEDICATED).publish("x", 0o606)
    held = [program.attach("x", "r+hold") for _ in range(2)]
    other.session("remove", "x")
    n2.signal(signal.SIGSTOP)
    try:
        assert [outcome(one.free) for one in (freed, held[0])] == [None, None]
        for _ in range(times):
            n3.kill()
            n3.start().wait_ready()
            time.sleep(FAILURE_DEADLINE_S / 2)
    finally:
        n2.signal(signal.SIGCONT)
    wait_for("what was freed is free", lambda: used(n2) == 4 * MIB, 10 * FAILURE_DEADLINE_S)
    time.sleep(2 * FAILURE_DEADLINE_S)
    assert used(n2) == 4 * MIB
    assert outcome(lambda: kept.holds(0, 1, MIB)) is True and outcome(lambda: joined.holds(0, 3, 2 * MIB)) is True
    assert outcome(lambda: held[1].get(0, 8)) == bytes(8)
    for one in (kept, joined, held[1]):
        assert outcome(one.free) is None
    wait_for("all is free", lambda: used(n2) == 0 and used(n1) == 0, 10 * FAILURE_DEADLINE_S)


def test_a_program_that_gave_up_its_hello_comes_again(cluster):
    """As when the daemon stands still right after a restart."""
    n1, n2 = cluster["n1"], cluster["n2"]
    first = RawProgram(n1)
    welcome = first.hello()
    assert first.call("allocate", bytes_total=MIB, nodes=["n2"], flags=DEDICATED)["code"] == 0
    n1.kill()
    n1.start().wait_ready()
    cluster.wait_members(at=n1)
    first.close()
    resume = {"resume_session": welcome["session_id"], "resume_key": welcome["resume_key"]}

    def comes_again():
        """None while the daemon has not noticed that the last one is gone."""
        raw = RawProgram(n1)
        answer = raw.hello(**resume)
        return raw if answer and answer["session_id"] == welcome["session_id"] else raw.close()
    for _ in range(2):
        wait_for("it is taken", comes_again).close()
    again = wait_for("it is taken", comes_again)
    time.sleep(3 * FAILURE_DEADLINE_S)
    assert used(n2) == MIB and len(n1.status()["sessions"]) == 1
    assert again.call("allocate", bytes_total=MIB, nodes=["n2"], flags=DEDICATED)["code"] == 0
    again.close()
    wait_for("all is free", lambda: used(n2) == 0)
    assert not n1.status()["sessions"]


def test_a_removed_name_does_not_come_back_with_its_home_after_the_coordinator_restarts(cluster):
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n1)
    for name in ("gone", "kept"):
        program.alloc(MIB, nodes=["n2"], flags=DEDICATED).publish(name)
    assert used(n2) == 2 * MIB
    n2.signal(signal.SIGSTOP)
    wait_for("n2 is dead", lambda: program.nodes()["n2"]["state"] == "dead")
    program.session("remove", "gone")
    n1.kill()
    n1.start().wait_ready()
    wait_for("n3 is back", lambda: "n3" in cluster.program(n1).nodes())
    n2.signal(signal.SIGCONT)
    reader = cluster.program(n3)
    seen: set = set()

    def both_heard():
        seen.update(outcome(lambda: reader.session("names")) or ())
        return "kept" in seen and used(n2) == MIB
    wait_for("n2 tells its names and frees what was removed", both_heard)
    assert "gone" not in seen


def test_a_removal_whose_answer_was_lost_is_told_as_done(cluster):
    n1, n2, n3 = cluster.nodes
    program, beside = cluster.program(n3, deadline_s=6), cluster.program(n1)
    program.alloc(MIB, nodes=["n2"], flags=DEDICATED).publish("gone")
    n2.signal(signal.SIGSTOP)  # so that the removal waits for it
    program.start({"do": "call", "on": "session", "method": "remove", "args": ["gone"]})
    wait_for("it is removed", lambda: not beside.session("names"))
    n1.signal(signal.SIGSTOP)
    wait_for("n3 has no answer", lambda: "coordinator_lost" in n3.log())
    n1.signal(signal.SIGCONT)
    assert outcome(program.finish) is None
    n2.signal(signal.SIGCONT)
    wait_for("the home frees it", lambda: used(n2) == 0)


@pytest.mark.parametrize("asker", ["n1", "n3"])
@pytest.mark.parametrize("what", ["attach", "publish", "remove", "names"])
def test_a_restarted_coordinator_answers_for_names_once_their_homes_have_reported(make_cluster, what, asker):
    cluster = make_cluster(extra=("--failure-deadline-ms", "6000"))  # n2 is not dead before it goes on
    n1, n2, _ = cluster.nodes
    program = cluster.program(cluster["n3"])
    program.alloc(MIB, nodes=["n2"], flags=DEDICATED).publish("kept")
    n2.signal(signal.SIGSTOP)
    assert outcome(lambda: program.attach("missing")) == "NOT_FOUND"  # waits for nobody
    n1.kill()
    n1.start().wait_ready()
    asks = cluster.program(cluster[asker])
    if what == "publish":
        other = asks.alloc(MIB, nodes=[asker], flags=DEDICATED)
    ask = {"attach": lambda: asks.attach("kept"), "publish": lambda: other.publish("kept"),
           "remove": lambda: asks.session("remove", "kept"), "names": lambda: list(asks.session("names"))}[what]
    answers: list = []

    def until_answered():
        while not answers or answers[-1] == "NO_COORDINATOR":  # the former run's connection broke
            answers.append(outcome(ask))
    asking = threading.Thread(target=until_answered)
    asking.start()
    asking.join(0.5)  # long enough for a wrong answer
    n2.signal(signal.SIGCONT)
    asking.join()
    if what == "attach":
        assert not isinstance(answers[-1], str), answers
    else:
        assert answers[-1] == {"publish": "EXISTS", "remove": None, "names": ["kept"]}[what]


@pytest.mark.parametrize("program_ends", [False, True])
def test_a_home_that_did_not_hear_of_the_restart_keeps_what_a_session_has_there(make_netns_cluster, program_ends):
    """Its link to the restarted daemon is cut for longer than the grace, and everybody else reaches both."""
    cluster = make_netns_cluster(extra=["--orphan-grace-ms", "1000"])
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n2)
    a = program.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    cluster.cut_pair(n2, n3)
    restart(cluster, "n2")
    wait_for("the session goes on", lambda: isinstance(outcome(program.nodes), dict))
    if program_ends:
        program.kill()
    cluster.wait_members(at=n3)
    time.sleep(3)  # the grace, and three times of that
    assert "orphan_freed" not in n3.log()
    cluster.restore_pair(n2, n3)
    if program_ends:
        wait_for("n3 has given it back", lambda: used(n3) == 0, 10 * FAILURE_DEADLINE_S)
    else:
        wait_for("it is read again", lambda: outcome(lambda: a.holds(0, 1, MIB)) is True, 10 * FAILURE_DEADLINE_S)
        writes(a, 2)
        a.free()
        wait_for("n3 has given it back", lambda: used(n3) == 0, 10 * FAILURE_DEADLINE_S)


def test_a_silent_node_takes_nothing_from_a_session_that_goes_on(cluster):
    """Its daemon tells all nodes that it does; a program that waits no longer than it wants loses nothing by that."""
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n2, deadline_s=0.5)
    a = program.alloc(MIB, nodes=["n1"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    n3.signal(signal.SIGSTOP)
    n2.kill()
    n2.start().wait_ready()
    wait_for("n3 is known to be dead", lambda: "node_dead" in n1.log())
    n3.signal(signal.SIGCONT)
    wait_for("it is read", lambda: outcome(lambda: a.holds(0, 1, MIB)) is True, 10 * FAILURE_DEADLINE_S)
    writes(a, 2)
    assert used(n1) == MIB


def test_a_daemon_that_restarts_out_of_the_coordinators_reach_keeps_what_its_programs_have(make_netns_cluster):
    cluster = make_netns_cluster(extra=["--orphan-grace-ms", "1000"])
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n2)
    a = program.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    cluster.cut_pair(n1, n2)
    n2.kill()
    n2.start().wait_ready()
    wait_for("n3 asks n2", lambda: "orphan_vouched_for" in n3.log())
    time.sleep(2)  # twice the grace: it asks again
    assert "orphan_freed" not in n3.log()
    cluster.restore_pair(n1, n2)
    cluster.wait_members(at=n3)
    writes(a, 2)
    a.free()
    wait_for("n3 has given it back", lambda: used(n3) == 0, 10 * FAILURE_DEADLINE_S)


@pytest.mark.parametrize("how", ["free", "kill"])
def test_what_is_given_up_on_a_node_that_the_coordinator_does_not_know_yet_is_freed_there(make_netns_cluster, how):
    """The node is cut off, and a coordinator that has just started never heard of it: that is not its end."""
    cluster = make_netns_cluster(extra=["--orphan-grace-ms", "10000"])
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n2)
    a = program.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    watch = cluster.program(n2)
    cluster.cut(n3)
    n1.kill()
    n1.start().wait_ready()
    wait_for("n2 does not know n3", lambda: "n3" not in watch.nodes())
    if how == "free":
        assert outcome(a.free) is None
    else:
        program.kill()
    time.sleep(FAILURE_DEADLINE_S)  # longer than a call waits
    cluster.restore(n3)
    wait_for("n3 has given it back", lambda: used(n3) == 0, 10 * FAILURE_DEADLINE_S)
    assert "orphan_freed" not in n3.log()


def test_a_coordinator_that_restarts_behind_a_cut_link_takes_nothing(make_netns_cluster):
    """n3 and n2 always reach each other; n3 and the new run of the coordinator do not, for longer than the grace."""
    cluster = make_netns_cluster(extra=["--orphan-grace-ms", "1000"])
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n3)
    a = program.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    r = program.alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
    wait_for("all three vote", lambda: 'voters="n1 n2 n3"' in n1.log())
    for one in (a, r):
        one.fill(0, 1, MIB)
    cluster.cut_pair(n1, n3)
    n1.kill()
    n1.start().wait_ready()
    wait_for("n2 asks n3", lambda: "orphan_vouched_for" in n2.log(), 10 * FAILURE_DEADLINE_S)
    time.sleep(2)  # twice the grace: it asks again
    for one in (a, r):
        assert one.holds(0, 1, MIB)
        one.fill(0, 2, MIB)
    assert "orphan_freed" not in n2.log()
    cluster.restore_pair(n1, n3)
    cluster.wait_members(at=n2)
    for one in (a, r):
        assert one.holds(0, 2, MIB)
        one.free()
    wait_for("n2 has given it back", lambda: used(n2) == 0, 10 * FAILURE_DEADLINE_S)


@pytest.mark.parametrize("how", ["cut", "down"])
def test_a_coordinator_that_voted_alone_and_restarts_takes_no_replica(make_netns_cluster, how):
    """n2 is cut off from it, or down, meanwhile; all is well again; then the coordinator restarts once more."""
    cluster = make_netns_cluster(extra=["--replicas-again-after-ms", "300"])
    n1, n2, n3 = cluster.nodes
    program = cluster.program(n3)
    wait_for("all three vote", lambda: 'voters="n1 n2 n3"' in n1.log())
    a = program.alloc(MIB, layout="replicated", nodes=["n2", "n3"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    if how == "cut":
        cluster.cut_pair(n1, n2)
    else:
        n2.kill()
    wait_for("n1 votes alone", lambda: "voters=n1\n" in n1.log())
    time.sleep(FAILURE_DEADLINE_S / 2)  # n3 has heard of it
    n1.kill()
    n1.start().wait_ready()
    if how == "cut":
        cluster.restore_pair(n1, n2)
    else:
        n2.start().wait_ready()
    cluster.wait_members(at=n1)
    writes(a, 2)
    wait_for("all three vote again", lambda: n1.log().count('voters="n1 n2 n3"') > 1)
    restart(cluster, "n1")
    assert a.holds(0, 2, MIB)
    writes(a, 3)
    assert not any("replicas_freed" in node.log() for node in cluster.nodes)


@pytest.mark.parametrize("restarted", ["n1", "n3"])
def test_a_node_is_named_at_once_after_a_restart(cluster, restarted):
    """The coordinator hears of n2 again with its next heartbeat only, and n3 from the coordinator."""
    node = cluster[restarted]
    node.kill()
    node.start().wait_ready()
    cluster.program(node).alloc(MIB, nodes=["n2"], flags=DEDICATED).fill(0, 1, MIB)
    assert outcome(lambda: cluster.program(node).alloc(MIB, nodes=["n9"])) == "UNKNOWN_NODE"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_is_freed_while_the_daemon_is_away_is_given_back(cluster, how):
    n1, n2, n3 = cluster.nodes
    program, other = cluster.program(n3), cluster.program(n1)
    single = program.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    copies = program.alloc(MIB, layout="replicated", nodes=["n1", "n2"], flags=DEDICATED)
    kept = program.alloc(MIB, nodes=["n2"], flags=DEDICATED)
    kept.fill(0, 1, MIB)
    other.alloc(MIB, nodes=["n2"], flags=DEDICATED).publish("x", 0o606)
    held = program.attach("x", "r+hold")
    other.session("remove", "x")
    n3.stop() if how == signal.SIGTERM else n3.kill()
    for one in (single, copies, held):
        assert outcome(one.free) is None
    n3.start().wait_ready()
    wait_for("all but what was kept is free", lambda: used(n1) == 0 and used(n2) == MIB, 10 * FAILURE_DEADLINE_S)
    assert outcome(lambda: kept.holds(0, 1, MIB)) is True


@pytest.mark.parametrize("pause_s, times", [(0.7, 12), (1.6, 10)])
def test_voters_that_crash_again_and_again_cost_others_no_replica(make_cluster, pause_s, times):
    """A council is chosen with each of their runs, or none is; n4 and n5 have the replicas and go on."""
    cluster = make_cluster(names=("n1", "n2", "n3", "n4", "n5"))
    a = cluster.program(cluster["n5"]).alloc(MIB, layout="replicated", nodes=["n4", "n5"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    voters = [cluster[name] for name in ("n1", "n2", "n3")]
    for _ in range(times):
        for node in voters:
            node.kill()
        for node in voters:
            node.start()
        time.sleep(pause_s)
    for node in voters:
        node.wait_ready()
    writes(a, 2)
    assert not any("replicas_freed" in cluster[name].log() for name in ("n4", "n5"))


def test_what_a_user_shows_after_a_restart_holds_up_nobody(make_cluster):
    """Handles that ended and holds, far more than the program has, in messages of the longest kind."""
    cluster = make_cluster()
    cluster.let_others_in()
    n2 = cluster["n2"]
    before = RawProgram(n2, uid=61001)
    welcome = before.hello()
    receipts = [done(before.call("allocate", bytes_total=4096, nodes=["n3"], flags=DEDICATED))["allocation"]["receipt"]
                for _ in range(2)]
    restart(cluster, "n2")
    before.close()
    program = RawProgram(n2, uid=61001, deadline_s=120)
    program.hello(resume_session=welcome["session_id"], resume_key=welcome["resume_key"])
    resident_before = resident_bytes(n2)
    many, holds = 300_000, 150_000
    ended = {"receipt": receipts[0], "handles": many + 1, "freed": [b""] * many}
    done(program.call("session_restore", shown=[ended] + [{"receipt": receipts[1], "handles": 1}] * 3000))
    for i in range(2):
        shown = {"receipt": receipts[1], "handles": 3 * holds,
                 "holds": [(holds * i + k).to_bytes(16, "big") for k in range(holds)]}
        done(program.call("session_restore", shown=[shown], complete=i == 1))
    for _ in range(20):
        assert cluster.program(n2).alloc(4096)
    assert resident_bytes(n2) - resident_before < 200 * MIB
    for other in ("n1", "n3"):
        assert "node_dead" not in cluster[other].log()
    program.close()
    wait_for("its memory is free", lambda: used(cluster["n3"]) == 0)


def test_what_waits_for_a_dead_node_keeps_no_other_users_memory(make_cluster):
    """Two hundred thousand holds of one user at a node that is gone, and another's frees at one that stands still."""
    cluster = make_cluster(names=("n1", "n2", "n3", "n4"))
    cluster.let_others_in()
    n2, n3, n4 = (cluster[name] for name in ("n2", "n3", "n4"))
    before = RawProgram(n2, uid=61001)
    welcome = before.hello()
    made = done(before.call("allocate", bytes_total=4096, nodes=["n3"], flags=DEDICATED))["allocation"]
    restart(cluster, "n2")
    before.close()
    other = cluster.program(n2)
    handles = [other.alloc(MIB, nodes=["n4"], flags=DEDICATED) for _ in range(2)]
    ends = cluster.program(n2)
    ends.alloc(MIB, nodes=["n4"], flags=DEDICATED)
    n3.kill()
    wait_for("n3 is dead", lambda: other.nodes()["n3"]["state"] == "dead")
    program = RawProgram(n2, uid=61001, deadline_s=120)
    program.hello(resume_session=welcome["session_id"], resume_key=welcome["resume_key"])
    resident_before, holds = resident_bytes(n2), 200_000
    shown = {"receipt": made["receipt"], "handles": holds, "holds": [i.to_bytes(16, "big") for i in range(holds)]}
    done(program.call("session_restore", shown=[shown], complete=True))
    n4.signal(signal.SIGSTOP)
    ends.close()
    for handle in handles:
        outcome(handle.free)
    time.sleep(2 * FAILURE_DEADLINE_S)
    n4.signal(signal.SIGCONT)
    wait_for("all of n4 is free", lambda: used(n4) == 0, 10 * FAILURE_DEADLINE_S)
    assert resident_bytes(n2) - resident_before < 200 * MIB
    program.close()
