"""A daemon with few descriptors: who gets the last ones, and small extents that share a file."""
import os
import pathlib
import socket
import subprocess
import time

import pytest

from harness import LARGE, few_descriptors, wait_for
from ocmlib import DEDICATED, OcmError
from test_operator import doctor, get, lines, ocm

MIB = 1 << 20
ALICE, BOB = 61001, 61002
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two other users")


def second_has_few_descriptors(make_cluster, count, prefix=()):
    cluster = make_cluster(names=("n1", "n2"), start=False)
    n1, n2 = cluster.nodes
    n1.start()
    n2.start(prefix=[*few_descriptors(count), *prefix])
    for node in cluster.nodes:
        node.wait_ready()
    cluster.wait_members(2, at=n1)
    return cluster


def test_a_daemon_out_of_descriptors_still_serves_its_operator(make_cluster):
    cluster = second_has_few_descriptors(make_cluster, 64)
    n1, n2 = cluster.nodes
    [said] = lines(n2, "few_descriptors")
    assert "limit=64" in said and "wanted=4096" in said
    program = cluster.program(n1)
    with pytest.raises(OcmError) as caught:
        for i in range(100):
            program.alloc(LARGE, nodes=["n2"], flags=DEDICATED).publish(f"x{i}")
    assert caught.value.name == "NO_FDS" and "n2" in caught.value.detail and "64" in caught.value.detail
    refused = ocm(n1, "alloc", "one-more", LARGE, "--nodes", "n2")
    assert refused.returncode == 6 and "n2" in refused.stderr
    open_now = []
    for _ in range(40):  # strangers do not take what is kept either
        open_now.append(socket.create_connection(n2.control.rsplit(":", 1)))
        open_now.append(socket.create_connection(n2.data.rsplit(":", 1)))
    assert get(n2, "/healthz") == (200, "ok\n")
    listed = ocm(n2, "ls", "--quiet").stdout.split()
    assert ocm(n2, "rm", *listed).returncode == 0
    limits = doctor(n2)["open files"]
    assert limits["verdict"] != "OK" and "64" in limits["found"] and "4096" in limits["found"]
    for s in open_now:
        s.close()
    wait_for("there is room again", lambda: ocm(n1, "alloc", "again", LARGE, "--nodes", "n2").returncode == 0)


def test_the_descriptor_of_what_was_freed_is_there_for_what_is_allocated_next(make_cluster):
    """Its file is closed a little later, by the thread that gives pages back: an allocation waits for that."""
    cluster = second_has_few_descriptors(make_cluster, 256)
    for node in cluster.nodes:
        program, held = cluster.program(node), []
        with pytest.raises(OcmError) as caught:
            for _ in range(300):
                held.append(program.alloc(LARGE, nodes=["n2"], flags=DEDICATED))
        assert caught.value.name == "NO_FDS"
        for i in range(100):
            held[i % len(held)].free()
            held[i % len(held)] = program.alloc(LARGE, nodes=["n2"], flags=DEDICATED)
        for one in held:
            one.free()


def test_small_extents_share_a_file_where_descriptors_are_few(make_cluster):
    """Programs of the home's host have no pointers into them, and reach them as others do."""
    cluster = second_has_few_descriptors(make_cluster, 256)
    n1, n2 = cluster.nodes
    held = []
    for program in (cluster.program(n1), cluster.program(n2)):
        for i in range(1000):
            one = program.alloc(4096, nodes=["n2"], flags=DEDICATED)
            one.put(8 * (i % 512), i.to_bytes(8, "little"))
            held.append((i, one))
    files = pathlib.Path(f"/proc/{n2.process.pid}/fd")
    assert len(list(files.iterdir())) < 256
    for i, one in held:
        assert one.get(8 * (i % 512), 8) == i.to_bytes(8, "little")
    sharing = n2.status()["extents_sharing_file"]
    assert len(held) - 256 < sharing < len(held)
    assert "oncilla_extents_sharing_file " in get(n2, "/metrics")[1] and len(lines(n2, "extents_share_a_file")) == 1
    i, last = held[-1]
    with pytest.raises(OcmError) as caught:
        last.load(0, 8)
    assert caught.value.name == "UNSUPPORTED" and "a file that extents share" in caught.value.detail
    last.publish("last")
    for node in cluster.nodes:
        reader = cluster.program(node)
        assert reader.attach("last").get(8 * (i % 512), 8) == i.to_bytes(8, "little")
        assert reader.alloc(LARGE, nodes=["n2"], flags=DEDICATED), "some are left for those that may not share"
    for _, one in held[:-1]:
        one.free()
    wait_for("the extents are gone", lambda: n2.status()["extents"] < 10 and n2.status()["extents_sharing_file"] <= 1)
    for node in cluster.nodes:
        program = cluster.program(node)
        again = [program.alloc(4096, nodes=["n2"], flags=DEDICATED) for _ in range(250)]
        assert all(one.get(0, 4096) == bytes(4096) for one in again)


def test_connections_that_cannot_be_accepted_are_told_of_rarely(make_cluster):
    n1 = make_cluster(names=("n1",))["n1"]
    pid = n1.process.pid
    limit = subprocess.run(["prlimit", "--pid", str(pid), "--nofile", "--output=SOFT,HARD", "--noheadings"], check=True,
                           capture_output=True, text=True).stdout.split()
    open_now = len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))
    subprocess.run(["prlimit", "--pid", str(pid), f"--nofile={open_now}:{limit[1]}"], check=True)
    waiting = [socket.create_connection(n1.control.rsplit(":", 1)) for _ in range(3)]
    wait_for("it says so", lambda: lines(n1, "accept_failed"))
    time.sleep(1)  # it tries ten times a second
    [said] = lines(n1, "accept_failed")
    assert " warn " in said and "Too many open files" in said
    subprocess.run(["prlimit", "--pid", str(pid), f"--nofile={limit[0]}:{limit[1]}"], check=True)
    assert get(n1, "/healthz") == (200, "ok\n")
    for s in waiting:
        s.close()


@pytest.mark.parametrize("extra,wanted", [([], None), (["--limit-extents", "30000"], "30000")])
def test_enough_descriptors_for_what_is_configured_are_no_warning(make_cluster, extra, wanted):
    cluster = make_cluster(names=("n1",), start=False)
    node = cluster["n1"].start(extra, prefix=few_descriptors(10000)).wait_ready()
    found = doctor(node)["open files"]
    if wanted is None:
        assert lines(node, "few_descriptors") == [] and found["verdict"] == "OK"
    else:
        [said] = lines(node, "few_descriptors")
        assert "limit=10000" in said and f"wanted={wanted}" in said and found["verdict"] == "WARN"


def test_huge_pages_are_given_up_rather_than_the_extent(make_cluster):
    n1 = make_cluster(names=("n1",), start=False, dram=512 * MIB)["n1"]
    n1.start(["--dram-hugepages"], prefix=few_descriptors(128)).wait_ready()
    program = n1.cluster.program(n1)
    held = [program.alloc(4096, flags=DEDICATED) for _ in range(200)]
    assert held[-1].get(0, 4096) == bytes(4096)


@needs_root
def test_a_user_has_half_of_the_descriptors_of_a_home(make_cluster):
    """What may share a file is still to be had."""
    cluster = second_has_few_descriptors(make_cluster, 128)
    alice, bob = (cluster.program(cluster["n1"], uid=uid) for uid in (ALICE, BOB))

    def alloc(program, count):
        return program.alloc(count, nodes=["n2"], flags=DEDICATED)
    held = []
    with pytest.raises(OcmError) as caught:
        for _ in range(128):
            held.append(alloc(bob, LARGE))
    assert caught.value.name == "LIMIT" and len(held) == 56
    assert f"uid {BOB} has 56 descriptors" in caught.value.detail and "LimitNOFILE" in caught.value.detail
    assert alloc(bob, 1 << 20)
    assert alloc(alice, LARGE)
    held[0].free()
    assert alloc(bob, LARGE)


@needs_root
def test_a_user_has_half_of_them_where_no_file_can_be_shared(make_cluster):
    """The daemon may not make one that is long enough."""
    cluster = second_has_few_descriptors(make_cluster, 128, ["prlimit", f"--fsize={8 * MIB}"])
    alice, bob, root = (cluster.program(cluster["n1"], uid=uid) for uid in (ALICE, BOB, None))

    def alloc(program, count=4096):
        return program.alloc(count, nodes=["n2"], flags=DEDICATED)
    held = []
    with pytest.raises(OcmError) as caught:
        for _ in range(128):
            held.append(alloc(bob))
    assert caught.value.name == "LIMIT" and len(held) == 56 and "LimitNOFILE" in caught.value.detail
    assert alloc(alice) and alloc(alice, LARGE) and alloc(root, LARGE)


def test_small_extents_are_had_where_large_ones_have_all_descriptors(make_cluster):
    cluster = second_has_few_descriptors(make_cluster, 128)
    for node in cluster.nodes:
        program, held = cluster.program(node), []
        with pytest.raises(OcmError) as caught:
            for _ in range(128):
                held.append(program.alloc(LARGE, nodes=["n2"], flags=DEDICATED))
        assert caught.value.name == "NO_FDS"
        for count in (1, 4096, MIB):
            small = program.alloc(count, nodes=["n2"], flags=DEDICATED)
            small.put(count - 1, b"x")
            assert small.get(count - 1, 1) == b"x"
        for one in held:
            one.free()
