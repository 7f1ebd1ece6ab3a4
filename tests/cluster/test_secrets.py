"""What nobody may see: keys, capabilities, receipts and tokens are in no log and on no page."""
import base64

from rawprogram import CONTROL_VERSION, RawProgram, done

MIB = 1 << 20


def spellings(secret: bytes):
    yield secret.hex()
    yield secret[:8].hex()
    yield base64.b64encode(secret).decode().rstrip("=")
    yield secret.decode("latin-1")


def test_no_key_or_capability_is_told_at_debug_level(make_cluster):
    cluster = make_cluster(names=("n1", "n2"), extra=["--log-level", "debug"])
    raw = RawProgram(cluster["n1"])
    welcome = raw.hello()
    secrets = [welcome["session_key"], welcome["resume_key"], cluster.token_file.read_text().encode()]
    sessions = [welcome["session_id"]]
    made = [done(raw.call("allocate", bytes_total=MIB, nodes=[node]))["allocation"] for node in ("n1", "n2")]
    for i, allocation in enumerate(made[:2]):
        done(raw.call("publish", name=f"p{i}", allocation_id=allocation["allocation_id"]))
        for access in (1, 3):
            made.append(done(raw.call("attach", name=f"p{i}", access=access, hold=True))["allocation"])
    source, target = made[0]["extents"][0], made[1]["extents"][0]
    raw.call("copy", source=source, target=target, bytes_total=4096)
    for capability in (source["capability"], bytes(16)):  # the right one, and a wrong one
        raw.call("open_extent", address=source["address"], generation=source["generation"], capability=capability,
                 access=3)
    raw.call("lost_replica", allocation_id=made[0]["allocation_id"], address=source["address"],
             generation=source["generation"])
    for hello in ({"resume_session": welcome["session_id"], "resume_key": welcome["resume_key"]},  # it is open
                  {"resume_session": welcome["session_id"], "resume_key": bytes(32)}):
        RawProgram(cluster["n1"]).call("session_hello", version=CONTROL_VERSION, program="again", **hello)
    cluster["n1"].kill()
    cluster["n1"].start().wait_ready()
    again = RawProgram(cluster["n1"])
    sessions.append(again.hello(resume_session=welcome["session_id"], resume_key=welcome["resume_key"])["session_id"])
    works = cluster.program(cluster["n1"])  # over the data connection
    cluster.wait_members(2)
    works.alloc(MIB, nodes=["n2"]).fill(0, 1, MIB)
    secrets += [extent["capability"] for allocation in made for extent in allocation["extents"]]
    secrets += [allocation["receipt"] for allocation in made]
    assert len(secrets) == 15 and all(len(secret) >= 16 for secret in secrets)
    for node in cluster.nodes:
        told = {"log": node.log_path.read_text(errors="replace")}
        told |= {path: node.local_get(path) for path in ("/status", "/metrics", "/status?node=n1", "/status?node=n2")}
        for where, text in told.items():
            for secret in secrets:
                assert not any(spelling in text for spelling in spellings(secret)), (node.name, where)
            assert not any(session.hex() in text for session in sessions), (node.name, where)
    raw.close(), again.close()
