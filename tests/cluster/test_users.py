"""Several users on one cluster: what one of them may see of the others, do to them and take from them."""
import json
import os
import subprocess

import pytest

from ocmlib import DEDICATED, OcmError, find_binary

MIB = 1 << 20
ALICE, BOB = 61001, 61002

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two other users")


def error_of(call, *args, **kwargs) -> str:
    with pytest.raises(OcmError) as caught:
        call(*args, **kwargs)
    return caught.value.name


# ---- what a user may see

SEEN_AS = """
import os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[2]); s.sendall(b"GET " + sys.argv[3].encode() + b" HTTP/1.0\\r\\n\\r\\n")
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
            assert {s["uid"] for s in status_as(shared[node], uid, path)["sessions"]} == ({ALICE} if uid == ALICE else set())
        assert ALICE in {s["uid"] for s in json.loads(shared[node].local_get(path))["sessions"]}  # root
    names = {uid: {n["name"] for n in status_as(shared["n1"], uid)["names"]} for uid in (ALICE, BOB, 0)}
    assert names[ALICE] == names[0] == {"for-alice", "for-all"} and names[BOB] == {"for-all"}
    for name in ("for-alice", "for-all"):
        alice.session("remove", name)
    alice.close(), bob.close()


def test_top_shows_root_all_sessions_of_all_nodes(shared):
    alice, bob = shared.program(shared["n1"], uid=ALICE), shared.program(shared["n2"], uid=BOB)
    seen = json.loads(subprocess.run([str(find_binary("ocm")), "--socket", str(shared["n3"].socket_path), "top", "--once",
                                      "--json", "--interval", "0.05"], capture_output=True, timeout=20, check=True).stdout)
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


def test_a_quota_is_one_users_own(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), extra=["--limit-user", f"{BOB}={8 * MIB}"])
    alice, bob = cluster.program(cluster["n1"], uid=ALICE), cluster.program(cluster["n1"], uid=BOB)
    bob.alloc(6 * MIB, nodes=["n2"])
    assert error_of(bob.alloc, 6 * MIB, nodes=["n2"]) == "QUOTA"
    assert alice.alloc(64 * MIB, nodes=["n2"])
