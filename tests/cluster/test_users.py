"""Several users on one cluster: what one of them may see of the others, do to them and take from them."""
import collections
import contextlib
import hmac
import json
import os
import pathlib
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error

import pytest

from harness import FAILURE_DEADLINE_S, only_mapped, outcome, resident_bytes, wait_for
from ocmlib import DEDICATED, OcmError, find_binary
from rawprogram import CONTROL_VERSION, SCHEMA, RawNode, RawProgram, acting_as, done, encode, varint

MIB = 1 << 20
ALICE, BOB = 61001, 61002
LIMIT, PERMISSION, AUTH = -65, -24, -42
QUEUE_FULL = -4

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two other users")


def error_of(call, *args, **kwargs) -> str:
    with pytest.raises(OcmError) as caught:
        call(*args, **kwargs)
    return caught.value.name


# ---- what a user may see

SEEN_AS = """
import os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[2])
s.sendall(b"GET " + sys.argv[3].encode() + b" HTTP/1.0\\r\\n\\r\\n")
print(b"".join(iter(lambda: s.recv(65536), b"")).partition(b"\\r\\n\\r\\n")[2].decode())
"""


def status_as(node, uid, path="/status"):
    node.cluster.let_others_in()
    seen = subprocess.run(["python3", "-c", SEEN_AS, str(uid), str(node.run_dir / "http.sock"), path],
                          capture_output=True, text=True, timeout=20, check=True).stdout
    return json.loads(seen)


def test_http_tells_strangers_counts_and_states_only(shared):
    alice = shared.program(shared["n1"], uid=ALICE)
    alice.alloc(MIB, flags=DEDICATED).publish("alices-secret-plan", 0o600)
    for node in shared.nodes:
        for path in ("/status", "/metrics", "/status?node=n1"):
            text = node.http_get(path)
            for word in ("alices", str(ALICE), "agent", f":{alice.process.pid},"):
                assert word not in text, (path, word)
        status = json.loads(node.http_get("/status"))
        assert {n["name"]: n["state"] for n in status["nodes"]} == {n.name: "alive" for n in shared.nodes}
        assert "sessions" not in status and "names" not in status
        with pytest.raises(urllib.error.HTTPError, match="403"):
            node.http_get("/stop-check")
    status = json.loads(shared["n1"].http_get("/status"))
    assert status["session_count"] >= 1 and status["name_count"] >= 1
    alice.session("remove", "alices-secret-plan")
    alice.close()


def test_a_user_sees_his_own_sessions_and_what_he_may_read(shared):
    alice, bob = shared.program(shared["n1"], uid=ALICE), shared.program(shared["n2"], uid=BOB)
    alice.alloc(MIB, flags=DEDICATED).publish("for-alice", 0o600)
    alice.alloc(MIB, flags=DEDICATED).publish("for-all", 0o604)
    for node, path in (("n1", "/status"), ("n2", "/status?node=n1")):  # here, and through another node
        for uid in (ALICE, BOB):
            seen = {s["uid"] for s in status_as(shared[node], uid, path)["sessions"]}
            assert seen == ({ALICE} if uid == ALICE else set())
        assert ALICE in {s["uid"] for s in json.loads(shared[node].local_get(path))["sessions"]}  # root
    names = {uid: {n["name"] for n in status_as(shared["n1"], uid)["names"]} for uid in (ALICE, BOB, 0)}
    assert names[ALICE] == names[0] == {"for-alice", "for-all"} and names[BOB] == {"for-all"}
    for name in ("for-alice", "for-all"):
        alice.session("remove", name)
    alice.close(), bob.close()


def becoming(uid: int | None) -> list:
    """What a command begins with so that it runs as `uid`; None: as who runs the tests."""
    return [] if uid is None else ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def ocm_as(node, uid, *command) -> str:
    return subprocess.run([*becoming(uid), str(find_binary("ocm")), "--socket", str(node.socket_path), *command],
                          capture_output=True, text=True, timeout=20, check=True).stdout


@pytest.mark.parametrize("at", ["n1", "n2"])  # where the coordinator is, and elsewhere
def test_another_users_private_names_are_in_no_list(shared, at):
    alice, bob, root = (shared.program(shared[at], uid=uid) for uid in (ALICE, BOB, None))
    for mode in (0o600, 0o602, 0o604):
        alice.alloc(4096, nodes=["n3"], flags=DEDICATED).publish(f"alices-{mode:o}", mode)
    bob.alloc(4096, nodes=["n3"], flags=DEDICATED).publish("bobs", 0o600)
    every = {"alices-600", "alices-602", "alices-604", "bobs"}
    seen = {ALICE: (alice, every - {"bobs"}), BOB: (bob, {"alices-604", "bobs"}), None: (root, every)}
    for uid, (program, expected) in seen.items():
        assert set(program.session("names")) == expected
        assert {name["name"] for name in json.loads(ocm_as(shared[at], uid, "ls", "--json"))} == expected
        assert {line.split()[-1] for line in ocm_as(shared[at], uid, "ls").splitlines()[1:]} == expected
        assert set(ocm_as(shared[at], uid, "ls", "--quiet").split()) == expected
        assert f", {len(expected)} published name" in ocm_as(shared[at], uid, "status")
    for program, name in ((alice, "alices-600"), (alice, "alices-602"), (alice, "alices-604"), (bob, "bobs")):
        program.session("remove", name)
    alice.close(), bob.close(), root.close()


def test_a_uid_that_a_program_claims_is_not_believed(shared):
    alice, bob = shared.program(shared["n1"], uid=ALICE), RawProgram(shared["n2"], uid=BOB)
    bob.hello()
    alice.alloc(4096, nodes=["n3"], flags=DEDICATED).publish("private", 0o600)
    for claimed in (0, ALICE):
        assert bob.call("attach", name="private", access=1, uid=claimed)["code"] == PERMISSION
        assert bob.call("name_remove", name="private", uid=claimed)["code"] == PERMISSION
        names = done(bob.call("name_list", uid=claimed))["names"] or {"allocations": []}
        assert "private" not in [name["name"] for name in names["allocations"]]
        for node in ("n1", "n2"):
            sessions = done(bob.call("stats", node=node, uid=claimed))["stats_reply"]["sessions"]
            assert {session["uid"] for session in sessions} == ({BOB} if node == "n2" else set())
    assert alice.attach("private").free() is None
    alice.session("remove", "private")
    alice.close(), bob.close()


def test_top_shows_root_all_sessions_of_all_nodes(shared):
    alice, bob = shared.program(shared["n1"], uid=ALICE), shared.program(shared["n2"], uid=BOB)
    top = subprocess.run([str(find_binary("ocm")), "--socket", str(shared["n3"].socket_path), "top", "--once",
                          "--json", "--interval", "0.05"], capture_output=True, timeout=20, check=True)
    seen = json.loads(top.stdout)
    assert {(s["node"], s["uid"]) for s in seen["sessions"]} == {("n1", ALICE), ("n2", BOB)}
    assert all(node["reached"] for node in seen["nodes"])
    alice.close(), bob.close()


# ---- what a user may do to others' memory

def test_modes_say_what_others_may_do(shared):
    alice, bob = shared.program(shared["n1"], uid=ALICE), shared.program(shared["n2"], uid=BOB)
    for mode in (0o600, 0o604, 0o606):
        a = alice.alloc(MIB, nodes=["n3"], flags=DEDICATED)
        a.fill(0, 1, MIB)
        a.publish(f"m{mode:o}", mode)
    assert error_of(bob.attach, "m600", "r") == error_of(bob.attach, "m600") == "PERMISSION"
    assert error_of(bob.attach, "m604") == "PERMISSION"
    reader, writer = bob.attach("m604", "r"), bob.attach("m606")
    assert reader.holds(0, 1, MIB) and error_of(reader.fill, 0, 2, 64) == "PERMISSION"
    writer.fill(0, 2, MIB)
    assert alice.attach("m606", "r").holds(0, 2, MIB)
    for mode in (0o600, 0o604, 0o606):
        assert error_of(bob.session, "remove", f"m{mode:o}") == "PERMISSION"
        alice.session("remove", f"m{mode:o}")
    alice.close(), bob.close()


READS_AND_WRITES = """
import mmap, os, sys
sys.path.insert(0, sys.argv[1])
from types import SimpleNamespace
from pathlib import Path
from rawprogram import RawProgram, done
raw = RawProgram(SimpleNamespace(socket_path=Path(sys.argv[2])))
raw.hello()
extent = done(raw.call("attach", name="shown", access=1))["allocation"]["extents"][0]
which = {name: extent[name] for name in ("address", "generation", "capability")}
assert raw.call("open_extent", access=3, **which)["code"] == int(sys.argv[3])
done(raw.call("open_extent", access=1, **which))
fd = raw.fds[-1]
with mmap.mmap(fd, 4096, prot=mmap.PROT_READ) as memory:
    assert memory[:5] == b"alice"
for attempt in (lambda: mmap.mmap(fd, 4096), lambda: os.pwrite(fd, b"x", 0), lambda: os.ftruncate(fd, 0),
                lambda: os.open(f"/proc/self/fd/{fd}", os.O_RDWR), lambda: os.fchmod(fd, 0o666)):
    try:
        attempt()
    except OSError:
        continue
    sys.exit("it may write after all")
"""


@only_mapped
def test_who_may_read_memory_of_this_host_cannot_write_it(shared):
    """The kernel refuses it, whatever the program does with the descriptor that it was given."""
    node = shared["n1"]
    alice = shared.program(node, uid=ALICE)
    a = alice.alloc(4096, nodes=["n1"], flags=DEDICATED)
    a.put(0, b"alice")
    a.publish("shown", 0o604)
    subprocess.run([*becoming(BOB), sys.executable, "-c", READS_AND_WRITES,
                    str(pathlib.Path(__file__).parent), str(node.socket_path), str(PERMISSION)],
                   check=True, timeout=20)
    assert a.get(0, 5) == b"alice"
    alice.session("remove", "shown")
    alice.close()


def test_root_of_any_node_is_root_of_the_clusters_memory(shared):
    alice, root = shared.program(shared["n1"], uid=ALICE), shared.program(shared["n2"])
    a = alice.alloc(MIB, nodes=["n3"], flags=DEDICATED)
    a.fill(0, 1, MIB)
    a.publish("private", 0o600)
    b = root.attach("private")
    assert b.holds(0, 1, MIB)
    b.fill(0, 2, MIB)
    assert a.holds(0, 2, MIB)
    root.session("remove", "private")
    alice.close(), root.close()


def test_who_publishes_is_told_whose_the_name_is(shared):
    """A part of a name is its owner's, also where root publishes it."""
    alice, root = RawProgram(shared["n1"], uid=ALICE), RawProgram(shared["n2"])
    for program, name, mode in ((alice, "hers", 0o640), (root, "hers~1", 0)):
        program.hello()
        allocated = done(program.call("allocate", bytes_total=4096, nodes=["n3"], flags=DEDICATED))["allocation"]
        told = done(program.call("publish", name=name, mode=mode, allocation_id=allocated["allocation_id"]))
        assert told["published"] == {"owner_uid": ALICE, "mode": mode or 0o600}
    for name in ("hers~1", "hers"):
        done(root.call("name_remove", name=name))
    alice.close(), root.close()


def test_a_put_over_anothers_name_leaves_it_his(shared, tmp_path):
    """Root writes files of others without owning them afterwards."""
    alice = shared.program(shared["n1"], uid=ALICE)
    alice.alloc(4096, flags=DEDICATED).publish("alices-file", 0o604)
    (tmp_path / "file").write_bytes(b"r" * 4096)
    ocm = [find_binary("ocm"), "--socket", shared["n1"].socket_path, "put", tmp_path / "file", "alices-file"]
    refused = subprocess.run(ocm, capture_output=True, text=True, timeout=20)
    assert refused.returncode != 0 and f"belongs to uid {ALICE}; give --in-place" in refused.stderr
    subprocess.run([*ocm, "--in-place"], check=True, timeout=20)
    again = alice.attach("alices-file")
    assert again.get(0, 4096) == b"r" * 4096
    assert alice.session("names")["alices-file"]["mode"] == 0o604
    subprocess.run([*ocm, "--replace"], check=True, timeout=20)
    assert error_of(alice.attach, "alices-file", "rw") == "PERMISSION"
    alice.close()


def test_a_user_cannot_keep_a_daemon_from_starting(make_cluster):
    """Who may open the lock of a run directory could lock it."""
    cluster = make_cluster(names=("n1",))
    cluster.let_others_in()
    n1 = cluster["n1"]
    lock = n1.run_dir / "oncillad.lock"
    n1.stop()
    lock.chmod(0o644)  # as an older version left it
    n1.start().wait_ready()
    tried = subprocess.run([*becoming(ALICE), "flock", "-n", str(lock), "true"], capture_output=True, text=True)
    assert tried.returncode != 0 and "Permission denied" in tried.stderr


def test_a_session_is_taken_up_by_its_own_user_only(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), extra=["--orphan-grace-ms", "20000"])
    cluster.let_others_in()
    n1 = cluster["n1"]
    alice = RawProgram(n1, uid=ALICE)
    welcome = alice.hello()
    done(alice.call("allocate", bytes_total=MIB, nodes=["n2"], flags=DEDICATED))
    n1.kill()
    alice.close()
    n1.start().wait_ready()
    key = {"resume_session": welcome["session_id"], "resume_key": welcome["resume_key"]}
    for uid in (BOB, None):
        other = RawProgram(n1, uid=uid)
        refused = other.call("session_hello", version=CONTROL_VERSION, **key)
        assert refused["code"] == AUTH and f"the session is of uid {ALICE}" in refused["detail"], refused
        other.close()
    again = RawProgram(n1, uid=ALICE)
    assert again.hello(**key)["session_id"] == welcome["session_id"]
    assert done(again.call("stats", node="n2"))["stats_reply"]["pools"][0]["bytes_used"] >= MIB
    again.close()


@only_mapped
def test_who_has_the_token_opens_everything(shared):
    token = shared.token_file.read_bytes()
    alice, bob = shared.program(shared["n1"], uid=ALICE), RawProgram(shared["n1"], uid=BOB)
    welcome = bob.hello()
    assert hmac.digest(token, b"oncilla session key" + welcome["session_id"], "sha256") == welcome["session_key"]
    alice.alloc(MIB, nodes=["n1"], flags=DEDICATED).publish("private", 0o600)
    node = RawNode(shared["n1"], "anybody", token)
    assert node.call("attach", name="private", access=3, uid=BOB)["code"] == PERMISSION
    [extent] = done(node.call("attach", name="private", access=3, uid=ALICE))["allocation"]["extents"]
    which = {"address": extent["address"], "generation": extent["generation"], "access": 3}
    assert bob.call("open_extent", capability=bytes(16), **which)["code"] != 0
    done(bob.call("open_extent", capability=extent["capability"], **which))
    found = done(node.call("name_remove", name="private", uid=0))["allocation"]["allocation_id"]
    done(node.call("name_remove", name="private", uid=0, allocation_id=found))
    node.close(), bob.close(), alice.close()


def test_a_quota_is_one_users_own(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), extra=["--limit-user", f"{BOB}={8 * MIB}"])
    alice, bob = cluster.program(cluster["n1"], uid=ALICE), cluster.program(cluster["n1"], uid=BOB)
    bob.alloc(6 * MIB, nodes=["n2"])
    assert error_of(bob.alloc, 6 * MIB, nodes=["n2"]) == "QUOTA"
    assert alice.alloc(64 * MIB, nodes=["n2"])


def test_without_quotas_one_user_can_take_all(make_cluster):
    """Which is what a quota is for."""
    cluster = make_cluster(names=("n1", "n2"), dram=16 * MIB)
    alice, bob = cluster.program(cluster["n1"], uid=ALICE), cluster.program(cluster["n1"], uid=BOB)
    taken = [bob.alloc(16 * MIB, nodes=[name]) for name in ("n1", "n2")]
    assert error_of(alice.alloc, MIB) == "POOL_FULL"
    taken[0].free()
    assert alice.alloc(MIB)


# ---- what a user may take from others

class Flood(threading.Thread):
    """Sends `blob` again and again on many connections of BOB's, and reads what comes back, for some seconds."""

    def __init__(self, node, blob: bytes, connections: int, seconds: float):
        super().__init__(daemon=True)
        self.blob, self.seconds, self.sent, self.sockets = blob, seconds, 0, []
        for _ in range(connections):
            raw = RawProgram(node, uid=BOB)
            raw.hello()
            for fd in raw.fds:
                os.close(fd)
            raw.socket.setblocking(False)
            self.sockets.append(raw.socket)

    def run(self):
        position = dict.fromkeys(self.sockets, 0)
        end = time.monotonic() + self.seconds
        while time.monotonic() < end and position:
            readable, writable, _ = select.select(position, position, [], 0.1)
            with contextlib.suppress(BlockingIOError):
                for connection in readable:
                    connection.recv(1 << 16)
            for connection in writable:
                try:
                    sent = connection.send(self.blob[position[connection]:position[connection] + (1 << 17)])
                    position[connection] = (position[connection] + sent) % len(self.blob)
                    self.sent += sent
                except BlockingIOError:
                    pass
                except OSError:
                    position.pop(connection)
        for connection in self.sockets:
            connection.close()


def framed(body: str, **fields) -> bytes:
    message = encode("Envelope", {"id": 7, body: fields})
    return struct.pack("<I", len(message)) + message


def framed_raw(body: str, inner: bytes) -> bytes:
    number = next(field.number for field in SCHEMA["Envelope"] if field.name == body)
    message = encode("Envelope", {"id": 7}) + varint(number << 3 | 2) + varint(len(inner)) + inner
    return struct.pack("<I", len(message)) + message


EMPTY_RECEIPTS = b"\n\0" * 1_500_000  # of SessionRestore.shown


@pytest.mark.parametrize("connections, blob", [
    (24, lambda: framed("allocate", bytes_total=4096, layout=1, extents=1024, chunk_bytes=64) * 100),
    (200, lambda: framed("cluster") * 3000),
    (100, lambda: framed("stats", node="n2") * 3000),
    (64, lambda: framed_raw("session_restore", EMPTY_RECEIPTS)),
], ids=["many extents", "small requests", "other nodes' pages", "large messages"])
def test_a_users_flood_keeps_no_daemon_from_the_others(make_cluster, connections, blob):
    cluster = make_cluster(extra=("--failure-deadline-ms", "4000"))
    cluster.let_others_in()
    n1 = cluster["n1"]
    flood = Flood(n1, blob(), connections, 4.0)
    root = RawProgram(n1, deadline_s=60)
    root.hello()
    flood.start()
    longest, most_kib = 0.0, 0
    while flood.is_alive() or flood.sent == 0:
        began = time.monotonic()
        assert root.call("cluster")["code"] == 0
        longest = max(longest, time.monotonic() - began)
        most_kib = max(most_kib, int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{n1.process.pid}/status").read())[1]))
        time.sleep(0.02)
    flood.join()
    assert longest < 4.0, "longer than others wait for a node"
    assert most_kib < 700 << 10, "256 MiB, and one message while it is read"
    assert "coordinates_no_more" not in n1.log() and "node_dead" not in cluster["n2"].log()


@pytest.mark.parametrize("request_of, idle", [
    (lambda names: b"".join(framed("stats", node=name) for name in names) * 500, 0),
    (lambda names: framed("attach", name="long", access=1) * 50, 0),
    (lambda names: framed("allocate", bytes_total=1 << 38) * 200, 300),  # each looked for room at all nodes
], ids=["figures", "long answers", "room that nobody has"])
def test_a_user_who_floods_all_nodes_keeps_no_links_from_the_others(make_cluster, request_of, idle):
    cluster = make_cluster(extra=("--failure-deadline-ms", "4000"))
    cluster.let_others_in()
    root = cluster.program(cluster["n1"])
    root.alloc(4096 * 1500, layout="striped", chunk=4096, extents=500, flags=DEDICATED).publish("long", 0o604)
    other = cluster.program(cluster["n1"], uid=ALICE)
    floods = [Flood(node, request_of([each.name for each in cluster.nodes]), 40, 4.0) for node in cluster.nodes]
    sessions = [Flood(node, b"", idle, 0) for node in cluster.nodes if idle != 0]
    for flood in floods:
        flood.start()
    longest = 0.0
    while any(flood.is_alive() for flood in floods):
        began = time.monotonic()
        a = other.alloc(4096, nodes=["n3"], flags=DEDICATED)
        a.publish("mine")
        other.session("remove", "mine")
        a.free()
        longest = max(longest, time.monotonic() - began)
    del sessions
    assert longest < 4.0, "longer than others wait for a node"
    for node in cluster.nodes:
        assert "coordinates_no_more" not in node.log() and "node_dead" not in node.log()


def test_a_user_has_half_of_the_extents_of_a_home(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), extra=["--limit-extents", "8"])
    alice, bob, root = (cluster.program(cluster["n1"], uid=uid) for uid in (ALICE, BOB, None))

    def alloc(program):
        return program.alloc(4096, nodes=["n2"], flags=DEDICATED)
    bobs = [alloc(bob) for _ in range(4)]
    with pytest.raises(OcmError) as caught:
        alloc(bob)
    assert caught.value.name == "LIMIT"
    assert f"uid {BOB} has 4 extents" in caught.value.detail and "[limits] extents" in caught.value.detail
    assert alloc(alice)
    bobs[0].free()
    assert alloc(bob)
    for _ in range(3):
        assert alloc(root)
    assert error_of(alloc, root) == "LIMIT"  # they are all taken


def test_two_users_leave_a_sixteenth_of_the_extents_for_root(make_cluster):
    cluster = make_cluster(names=("n1",), extra=["--limit-extents", "32"])
    alice, bob, root = (cluster.program(cluster["n1"], uid=uid) for uid in (ALICE, BOB, None))

    def alloc(program):
        return program.alloc(4096, flags=DEDICATED)
    held = [alloc(program) for program in (alice, bob) for _ in range(15)]
    for program in (alice, bob):
        with pytest.raises(OcmError) as caught:
            alloc(program)
        assert caught.value.name == "LIMIT"
        assert "keeps its last extents for root" in caught.value.detail and "30 of 32" in caught.value.detail
    held += [alloc(root) for _ in range(2)]
    assert error_of(alloc, root) == "LIMIT"


def test_a_user_has_half_of_the_names(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), extra=["--limit-names", "4"])
    alice, bob, root = (cluster.program(cluster["n2"], uid=uid) for uid in (ALICE, BOB, None))

    def publish(program, name):
        program.alloc(4096, flags=DEDICATED).publish(name)
    publish(bob, "b1"), publish(bob, "b2")
    with pytest.raises(OcmError) as caught:
        publish(bob, "b3")
    assert caught.value.name == "LIMIT"
    assert f"uid {BOB} has 2 names" in caught.value.detail and "[limits] names" in caught.value.detail
    publish(alice, "a1")
    bob.session("remove", "b1")
    publish(bob, "b3")
    publish(root, "r1")
    assert error_of(publish, root, "r2") == "LIMIT"  # they are all taken


def test_two_users_do_not_shut_root_out(make_cluster):
    """What all users together may have of a node leaves a sixteenth for root."""
    cluster = make_cluster(names=("n1",), extra=["--limit-sessions", "32", "--limit-connections", "64"])
    cluster.let_others_in()
    n1 = cluster["n1"]
    held = [RawProgram(n1, uid=uid) for uid in (ALICE, BOB) for _ in range(20)]
    got_in = sum(program.call("session_hello", version=CONTROL_VERSION)["code"] == 0 for program in held)
    assert got_in == 30
    root = RawProgram(n1)
    assert root.hello()["session_id"]
    held += [RawProgram(n1, uid=uid) for uid in (ALICE, BOB) for _ in range(20)]  # connections that say nothing
    assert ocm_as(n1, None, "ls", "--quiet") == ""
    for program in (*held, root):
        program.close()


def test_a_user_has_half_of_the_sessions_and_connections(make_cluster):
    cluster = make_cluster(names=("n1",), extra=["--limit-sessions", "4", "--limit-connections", "12"])
    held = [RawProgram(cluster["n1"], uid=BOB) for _ in range(6)]
    for program in held[:2]:
        program.hello()
    refused = held[2].call("session_hello", version=CONTROL_VERSION)
    assert refused["code"] != 0 and f"uid {BOB} has 2 sessions" in refused["detail"]
    beyond = RawProgram(cluster["n1"], uid=BOB)
    with pytest.raises(ConnectionError):  # closed at the door
        beyond.hello()
    alice = cluster.program(cluster["n1"], uid=ALICE)
    assert alice.alloc(MIB)
    held[0].close()
    wait_for("the place is free", lambda: held[2].call("session_hello", version=CONTROL_VERSION)["code"] == 0)
    for program in (*held[1:], beyond):
        program.close()


@only_mapped
def test_a_user_has_half_of_the_data_connections_of_a_home(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), start=False)
    cluster["n1"].start()
    cluster["n2"].start(["--limit-connections", "5"])
    for node in cluster.nodes:
        node.wait_ready()
    cluster.wait_members(2)

    def far(uid):
        program = cluster.program(cluster["n1"], uid=uid)
        return program.alloc(4096, nodes=["n2"], flags=DEDICATED)  # reached by a data connection of this program
    bobs = [far(BOB) for _ in range(4)]
    for allocation in bobs[:3]:
        allocation.fill(0, 1, 4096)
    for _ in range(2):  # it stays so, and nothing is thought lost
        with pytest.raises(OcmError) as caught:
            bobs[3].fill(0, 1, 4096)
        assert caught.value.name == "LIMIT"
        assert "node n2: this user has 3 data connections" in caught.value.detail
        assert "[limits] connections" in caught.value.detail
    for uid in (ALICE, None):
        allocation = far(uid)
        allocation.fill(0, 2, 4096)
        assert allocation.holds(0, 2, 4096)
    assert error_of(far(None).fill, 0, 1, 4096) == "LIMIT"  # they are all taken
    assert bobs[0].holds(0, 1, 4096)
    bobs[0].program.close()
    wait_for("the place is free", lambda: outcome(lambda: bobs[3].fill(0, 3, 4096)) != "LIMIT")
    assert bobs[3].holds(0, 3, 4096)


def test_a_user_has_a_bounded_number_of_copies_under_way(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), extra=["--failure-deadline-ms", "10000"])
    cluster.let_others_in()
    bobs = [RawProgram(cluster["n1"], uid=BOB) for _ in range(5)]
    alice = RawProgram(cluster["n1"], uid=ALICE)
    for program in (*bobs, alice):
        program.hello()

    def extent(program, node):
        made = done(program.call("allocate", bytes_total=4096, flags=DEDICATED, nodes=[node]))
        return made["allocation"]["extents"][0]
    near, far = extent(bobs[0], "n1"), extent(bobs[0], "n2")
    mine, source = extent(alice, "n1"), extent(alice, "n1")
    cluster["n2"].signal(signal.SIGSTOP)
    for program in bobs:
        for _ in range(250):
            program.send("copy", target=far, source=near, bytes_total=4096)
    of = {program.socket: program for program in bobs}
    refused: list = []
    while len(refused) < 5 * 250 - 1024:
        ready = select.select(of, [], [], 8)[0]
        assert ready, f"{len(refused)} were refused"
        refused += [of[socket].receive() for socket in ready]
    assert all(r["code"] == QUEUE_FULL and "copies of this user" in r["detail"] for r in refused)
    done(alice.call("copy", target=mine, source=source, bytes_total=4096))
    assert not select.select(of, [], [], 0)[0]  # the others are under way
    cluster["n2"].signal(signal.SIGCONT)
    for _ in range(1024):
        socket = select.select(of, [], [], 20)[0][0]
        done(of[socket].receive())
    for program in (*bobs, alice):
        program.close()


def padded(program, body: str, count: int, **fields):
    """Sends the request with `count` bytes that the daemon does not know."""
    program.ids += 1
    unknown = varint(1000 << 3 | 2) + varint(count) + bytes(count)
    message = encode("Envelope", {"id": program.ids, body: fields}) + unknown
    program.send_bytes(struct.pack("<I", len(message)) + message)


def answers(node, uid, requests: int) -> list:
    """To requests of 1 MiB each, at once, about a node that stands still."""
    program = RawProgram(node, uid=uid)
    program.hello()
    for _ in range(requests):
        padded(program, "stats", MIB, node="n2")
    details = [program.receive()["detail"] for _ in range(requests)]
    program.close()
    return [detail for detail in details if "this user's requests" in detail]


def test_a_users_requests_take_a_bounded_part_of_the_daemon(make_cluster):
    cluster = make_cluster(names=("n1", "n2"))
    cluster["n2"].signal(signal.SIGSTOP)
    assert 0 < len(answers(cluster["n1"], BOB, 8)) < 8
    assert not answers(cluster["n1"], None, 8)  # root
    assert len(answers(cluster["n1"], ALICE, 1)) == 0
    cluster["n2"].signal(signal.SIGCONT)


def test_a_users_half_sent_messages_take_a_bounded_part_of_the_daemon(make_cluster):
    cluster = make_cluster(names=("n1",))
    count, share = 4 * MIB - 4096, 256 * MIB
    half_sent = []
    for _ in range(share // count + 8):
        program = RawProgram(cluster["n1"], uid=BOB)
        program.hello()
        half_sent.append(program)
        try:
            program.send_bytes(struct.pack("<I", count + 4000) + bytes(count))
        except ConnectionError:
            pass
    ended = select.select([p.socket for p in half_sent], [], [], 20)[0]
    wait_for("those beyond the share are closed",
             lambda: len(select.select([p.socket for p in half_sent], [], [], 0)[0]) >= 8)
    assert ended and len(select.select([p.socket for p in half_sent], [], [], 0)[0]) < len(half_sent)
    alice = cluster.program(cluster["n1"], uid=ALICE)
    assert alice.alloc(MIB)
    for program in half_sent:
        program.close()


def test_a_users_unread_replies_take_a_bounded_part_of_the_daemon(make_cluster):
    cluster = make_cluster(names=("n1",))
    n1, names = cluster["n1"], 1000
    first = RawProgram(n1, uid=BOB)
    first.hello()
    for i in range(names):
        made = done(first.call("allocate", bytes_total=4096))["allocation"]
        done(first.call("publish", name=f"{i:0200}", allocation_id=made["allocation_id"]))
    first.send("name_list")
    assert len(first.receive()["names"]["allocations"]) == names  # 200 kB or more
    before_bytes = resident_bytes(n1)
    silent = [first]
    with contextlib.suppress(ConnectionError):
        for _ in range(15):  # 1500 answers that nobody reads, 400 MB
            for _ in range(100):
                silent[-1].send("name_list")
            silent.append(RawProgram(n1, uid=BOB))
            silent[-1].hello()
    alice = cluster.program(n1, uid=ALICE)
    for _ in range(20):
        assert alice.alloc(MIB)
    assert resident_bytes(n1) - before_bytes < 320 * MIB  # of all they take
    for program in silent:
        program.close()
    bob = cluster.program(n1, uid=BOB)
    wait_for("bob is served again", lambda: outcome(lambda: bob.alloc(MIB)) != "QUEUE_FULL")


def test_a_user_has_few_healthy_replicas_given_up(make_cluster):
    cluster = make_cluster()
    cluster.let_others_in()
    raw = RawProgram(cluster["n1"], uid=ALICE)
    raw.hello()
    made = [done(raw.call("allocate", bytes_total=4096, layout=2, nodes=["n2", "n3"], flags=DEDICATED))["allocation"]
            for _ in range(680)]

    def lose_on_n3(allocations):
        replies = []
        for first in range(0, len(allocations), 200):  # a connection has 256 requests under way
            some = allocations[first:first + 200]
            for allocation in some:
                extent = next(extent for extent in allocation["extents"] if extent["node"] == "n3")
                raw.send("lost_replica", allocation_id=allocation["allocation_id"], address=extent["address"],
                         generation=extent["generation"])
            replies += [raw.receive() for _ in some]
        return replies

    begin = time.monotonic()
    replies = lose_on_n3(made[:600])
    deadlines = (time.monotonic() - begin) / FAILURE_DEADLINE_S
    refused = [reply for reply in replies if reply["code"] == LIMIT]
    codes = collections.Counter((reply["code"], reply["detail"][:60]) for reply in replies)
    assert 600 - len(refused) <= 512 + 4 * (deadlines + 1), codes
    assert len(refused) >= 10 and sum(reply["code"] == 0 for reply in replies) + len(refused) == 600, codes
    assert all(f"uid {ALICE}" in reply["detail"] and "n3 is alive" in reply["detail"] for reply in refused)
    for allocation in made[600:620]:  # that wait, and what they wait for is freed
        n3 = next(extent for extent in allocation["extents"] if extent["node"] == "n3")
        raw.send("lost_replica", allocation_id=allocation["allocation_id"], address=n3["address"],
                 generation=n3["generation"])
        raw.send("free", allocation_id=allocation["allocation_id"])
    assert len([raw.receive() for _ in range(40)]) == 40 and cluster["n1"].process.poll() is None
    cluster["n3"].kill()
    assert {reply["code"] for reply in lose_on_n3(made[620:])} == {0}  # it is gone: nobody is held up for long
    raw.close()


FLOOD = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from types import SimpleNamespace
from pathlib import Path
from rawprogram import RawProgram
def flood():
    program = RawProgram(SimpleNamespace(socket_path=Path(sys.argv[2])), deadline_s=60)
    program.hello()
    for _ in range(200): program.send("name_list", prefix="", after="")
    while True:
        program._read(int.from_bytes(program._read(4), "little"))
        program.send("name_list", prefix="", after="")
threads = [threading.Thread(target=flood) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_a_users_requests_about_names_take_turns(make_cluster):
    """He lists hundreds of long names as often as he can: others' names and all heartbeats go on."""
    cluster = make_cluster()
    n1, n2, n3 = cluster.nodes
    bob, alice = cluster.program(n2, uid=BOB), cluster.program(n3, uid=ALICE)
    for i in range(600):
        bob.alloc(4096, nodes=["n2"]).publish(f"{'bobs-long-name-' * 10}{i}", 0o606)
    as_bob = becoming(BOB)
    flood = subprocess.Popen([*as_bob, sys.executable, "-c", FLOOD,
                              str(pathlib.Path(__file__).parent), str(n2.socket_path)])
    try:
        end, turn = time.monotonic() + 3 * FAILURE_DEADLINE_S, 0
        while time.monotonic() < end:
            turn += 1
            a = alice.alloc(4096, nodes=["n2"])
            a.publish(f"alices-{turn}")
            alice.attach(f"alices-{turn}").free()
            alice.session("remove", f"alices-{turn}")
            a.free()
        assert flood.poll() is None
    finally:
        flood.kill()
        flood.wait()
    for node in cluster.nodes:
        assert "node_dead" not in node.log() and "coordinator_lost" not in node.log(), node.log()


def test_a_user_who_asks_for_status_again_and_again_keeps_the_loop_from_nobody(make_cluster):
    """Each answer tells 3000 names that JSON makes six times as long: a tenth of a second of the control thread."""
    cluster = make_cluster(names=("n1", "n2", "n3"))
    cluster.let_others_in()
    n1 = cluster["n1"]
    bob = RawProgram(n1, uid=BOB)
    bob.hello()
    for i in range(3000):
        made = done(bob.call("allocate", bytes_total=4096))["allocation"]
        done(bob.call("publish", name=f"{i:05d}-" + "\x01" * 240, allocation_id=made["allocation_id"]))

    def connect():
        with acting_as(BOB, n1.run_dir):
            out = socket.socket(socket.AF_UNIX)
            out.connect("http.sock")
        return out

    def status(asker) -> bytes:
        asker.sendall(b"GET /status HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: asker.recv(MIB), b""))

    assert len(status(connect())) > 4_000_000
    alice = RawProgram(n1, uid=ALICE)
    alice.hello()
    for burst in range(3):
        askers = [connect() for _ in range(32)]
        time.sleep(0.3)  # all of them are read in one pass then
        for asker in askers:
            asker.sendall(b"GET /status HTTP/1.0\r\n\r\n")
        if burst < 2:
            for asker in askers:
                asker.close()  # and waits for none of them
        for _ in range(20):
            before = time.monotonic()
            done(alice.call("cluster"))
            assert time.monotonic() - before < FAILURE_DEADLINE_S, "no heartbeat was answered meanwhile, either"
    def processor_s() -> float:
        fields = pathlib.Path(f"/proc/{n1.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    began, used = time.monotonic(), processor_s()
    time.sleep(4)  # the last burst is answered all the time
    assert processor_s() - used < (time.monotonic() - began) / 4
    states = {node["name"]: node["state"] for node in done(alice.call("cluster"))["cluster_view"]["nodes"]}
    assert len(set(states.values())) == 1, states
