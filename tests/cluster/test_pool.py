"""`ocm pool`: durable pools without a daemon, sound and damaged. What a daemon does with them is elsewhere."""
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import pty
import stat
import subprocess
import tempfile

import pytest

from poolfile import PoolFile, made, named
from test_cli import EXISTS, FAILURE, FULL, MIB, NOT_FOUND, PERMISSION, USAGE, Ocm

KIB = 1024
CLUSTER = b"0123456789abcdef0123456789abcdef"


@pytest.fixture
def ocm(tmp_path):
    return Ocm(tmp_path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pool"


@pytest.fixture
def empty(ocm, path) -> PoolFile:
    ocm("pool", "create", path, "--bytes", "1MiB", "--page-bytes", "4KiB")
    return PoolFile(path, ocm.json("pool", "explain", path))


@pytest.fixture
def pool(empty) -> PoolFile:
    """Of a cluster, started three times: an extent with a name and two pages, one without a name, and a group."""
    empty.started(3, CLUSTER)
    empty.checkpoint(made(1, 64 * KIB) + named(1, b"\1\2") + empty.page(1, 0, 0) + empty.page(1, 7, 5), 2)
    empty.checkpoint(made(1, 64 * KIB) + named(1, b"\1\2") + empty.page(1, 0, 0) + empty.page(1, 7, 5), 3)
    empty.group(1, made(2, 5 * KIB))
    empty.group(2, empty.page(2, 1, 6))
    return empty


def fingerprint(path: pathlib.Path):
    return hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns


# ---- create


def test_a_new_pool_has_the_room_and_is_its_owners(ocm, path):
    said = ocm("pool", "create", path, "--bytes", "1MiB")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_blocks * 512 >= path.stat().st_size > MIB, "with all that comes on top, allocated"
    assert said.endswith(f'oncillad.toml:\n\n[offer.nvme]\npath = "{path}"\nbytes = {MIB}  # 1.00 MiB\n')
    explained = ocm.json("pool", "explain", path)
    assert explained["room_bytes"] >= MIB and explained["page_bytes"] == 64 * KIB
    assert explained["device_bytes"] == path.stat().st_size
    assert (explained["cluster"], explained["partition"], explained["starts"]) == ("", 0, 0)
    assert explained["pool"] in said and explained["pool"] != "0" * 16
    assert "sound" in ocm("pool", "check", path, "--pages")
    assert "no daemon" in ocm("pool", "explain", path)


def test_create_prints_json(ocm, path):
    out = ocm.json("pool", "create", path, "--bytes", "1.5MiB", "--page-bytes", "4KiB")
    assert out["bytes"] == 3 * MIB // 2 <= out["room_bytes"]
    assert out["device_bytes"] == path.stat().st_size
    assert "page_bytes = 4096\n" in out["configuration"], "not the default"


@pytest.mark.parametrize("arguments,code,words", [
    ([], USAGE, "--bytes"),
    (["--bytes", "0"], USAGE, "--bytes"),
    (["--bytes", "511KiB"], USAGE, "at least 512 KiB"),
    (["--bytes", "1TiB"], USAGE, "1 TiB"),
    (["--bytes", "many"], USAGE, "many"),
    (["--bytes", "1MiB", "--page-bytes", "5000"], USAGE, "power of two"),
    (["--bytes", "1MiB", "--page-bytes", "8MiB"], USAGE, "4 MiB")])
def test_what_cannot_be_made_is_refused_with_why(ocm, path, arguments, code, words):
    ocm("pool", "create", path, *arguments, code=code)
    assert words in ocm.error
    assert not path.exists()


def test_nothing_is_written_over(ocm, path, tmp_path):
    path.write_text("mine")
    for more in [], ["--force"]:
        ocm("pool", "create", path, "--bytes", "1MiB", *more, code=EXISTS)
        assert "exists already" in ocm.error
    assert path.read_text() == "mine"
    ocm("pool", "create", tmp_path, "--bytes", "1MiB", code=USAGE)
    assert "directory" in ocm.error
    ocm("pool", "create", tmp_path / "none" / "pool", "--bytes", "1MiB", code=NOT_FOUND)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_a_full_file_system_leaves_nothing(ocm, path):
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], check=True)
    try:
        ocm("pool", "create", path / "pool", "--bytes", "4MiB", code=FULL)
        assert "No space left" in ocm.error and "MiB" in ocm.error
        assert list(path.iterdir()) == []
        ocm("pool", "create", path / "pool", "--bytes", "512KiB")
    finally:
        subprocess.run(["umount", path], check=True)


@contextlib.contextmanager
def loop_device(path: pathlib.Path):
    made_device = subprocess.run(["losetup", "--find", "--show", path], capture_output=True, text=True, check=False)
    if made_device.returncode != 0:
        pytest.skip(f"no loop device: {made_device.stderr}")
    try:
        yield made_device.stdout.strip()
    finally:
        subprocess.run(["losetup", "--detach", made_device.stdout.strip()], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a block device")
def test_a_block_device_is_used_whole_if_nothing_is_on_it(ocm, path):
    path.write_bytes(bytes(1080) + b"\x53\xEF" + bytes(2 * MIB - 1082))
    with loop_device(path) as device:
        ocm("pool", "create", device, code=EXISTS)
        assert "ext4" in ocm.error and "--force" in ocm.error
        ocm("pool", "create", device, "--bytes", "2MiB", "--force", code=FULL)
        out = ocm.json("pool", "create", device, "--force")
        assert out["device_bytes"] == 2 * MIB > out["bytes"] == out["room_bytes"] > MIB
        assert "sound" in ocm("pool", "check", device, "--pages")
        ocm("pool", "create", device, code=EXISTS)
        assert "a pool of Oncilla" in ocm.error
        assert ocm.json("pool", "create", device, "--bytes", "1MiB", "--force")["bytes"] == MIB
        file = os.open(device, os.O_RDWR | os.O_EXCL)  # as a file system that is mounted
        try:
            for command in (["create", "--force"], ["check"], ["disown"]):
                ocm("pool", *command, device, code=EXISTS)
                assert "mounted" in ocm.error
        finally:
            os.close(file)


# ---- explain


def test_explain_tells_what_a_pool_holds(ocm, pool, path):
    before = fingerprint(path)
    explained = ocm.json("pool", "explain", path)
    assert (explained["cluster"], explained["partition"], explained["starts"]) == (CLUSTER.decode(), 9, 3)
    assert explained["used_bytes"] == (16 + 2) * 4096
    assert explained["free_bytes"] == explained["room_bytes"] - explained["used_bytes"]
    assert explained["written_bytes"] == 3 * 4096
    assert [(one["bytes"], one["pages_written"], one["named"]) for one in explained["extents"]] == [
        (64 * KIB, 2, True), (5 * KIB, 1, False)]
    assert explained["next_start"] == {"groups": 2, "torn_blocks": 0, "unnamed_extents": 1}
    said = ocm("pool", "explain", path)
    for words in ("0123456789abcdef...", "2 extents", "3 so far", "2 groups", "1 extent without a name", "ends"):
        assert words in said
    pool.group(3, b"part of a group", blocks=2)
    assert "1 block of a group" in ocm("pool", "explain", path)
    pool.group(3, bytes(15))
    pool.write(pool.journal_at + 3 * 4096, bytes(4096))
    assert fingerprint(path)[0] == before[0], "nothing but the test has changed it"


# ---- check


def findings(ocm, path, *more, code=FAILURE):
    out = ocm.json("pool", "check", path, *more, code=code)
    assert out["sound"] == (code == 0)
    said = ocm("pool", "check", path, *more, code=code)
    assert ("sound" if code == 0 else "damaged") in said.splitlines()[0]
    for one in out["findings"]:
        assert one["what"] in said and one["means"] in said and one["do"] in said
    return out


def test_a_sound_pool_is_sound_and_unchanged(ocm, pool, path):
    before = fingerprint(path)
    assert findings(ocm, path, code=0)["findings"] == []
    out = findings(ocm, path, "--pages", code=0)
    assert (out["pages_in_use"], out["pages_read"], out["pages_damaged"]) == (3, 3, [])
    assert out["superblocks"] == out["checkpoints"] == ["whole", "whole"]
    assert fingerprint(path) == before


@pytest.mark.parametrize("which", [0, 1])
def test_one_damaged_superblock_loses_nothing(ocm, pool, path, which):
    pool.damage(which * 4096 + 100)
    out = findings(ocm, path)
    assert out["superblocks"][which] == "damaged" and out["superblocks"][1 - which] == "whole"
    [one] = out["findings"]
    assert f"superblock {which}" in one["what"] and "nothing is lost" in one["means"]
    assert ocm.json("pool", "explain", path)["cluster"] == CLUSTER.decode()


def test_both_damaged_superblocks_are_no_empty_device(ocm, pool, path):
    pool.damage(100)
    pool.damage(4096 + 100)
    [one] = findings(ocm, path)["findings"]
    assert "superblocks" in one["what"] and "copy" in one["do"]
    ocm("pool", "explain", path, code=FAILURE)
    assert "ocm pool check" in ocm.error


def test_a_damaged_checkpoint(ocm, pool, path):
    pool.damage(pool.checkpoints[1] + 100)  # the newest
    out = findings(ocm, path)
    assert out["checkpoints"] == ["whole", "damaged"]
    assert "checkpoint 1" in out["findings"][0]["what"] and "power failure" in out["findings"][0]["means"]
    pool.damage(pool.checkpoints[0] + 100)
    [one] = findings(ocm, path)["findings"]
    assert "neither checkpoint" in one["what"] and "daemons refuse" in one["means"]


def test_an_unfinished_checkpoint_is_no_damage(ocm, pool, path):
    pool.write(pool.checkpoints[0], bytes(4096))
    out = findings(ocm, path, code=0)
    assert out["checkpoints"] == ["unfinished", "whole"]
    assert not out["findings"][0]["damage"]


def test_a_hole_in_the_journal(ocm, pool, path):
    pool.damage(pool.journal_at + 4096 + 100)
    [one] = findings(ocm, path)["findings"]
    assert "no whole group at 1, and one at 2" in one["what"] and "daemons refuse" in one["means"]


def test_damaged_pages_are_named(ocm, pool, path):
    pool.damage(pool.slots_at + 5 * 4096 + 17)
    assert findings(ocm, path, code=0)["pages_in_use"] == 3, "nobody reads them without --pages"
    out = findings(ocm, path, "--pages")
    [page] = out["pages_damaged"]
    assert (page["page"], page["named"], page["generation"]) == (7, True, 1)
    assert "1 of 3 pages" in out["findings"][0]["what"]
    assert page["global_address"] in ocm("pool", "check", path, "--pages", code=FAILURE)


def test_a_file_that_was_cut_or_grew(ocm, pool, path):
    length = path.stat().st_size
    for other in length - 4096, length + MIB:
        os.truncate(path, other)
        [one] = findings(ocm, path)["findings"]
        assert str(length) in one["what"] and str(other) in one["what"]
    os.truncate(path, length)
    os.truncate(path, 100)
    ocm("pool", "check", path, code=NOT_FOUND)


def test_progress_is_shown_on_a_terminal(ocm, pool, path):
    main, other = pty.openpty()
    try:
        subprocess.run([ocm.program, "pool", "check", "--pages", str(path)], stderr=other, check=True, timeout=30,
                       stdout=subprocess.DEVNULL)
        assert b"100 %" in os.read(main, 65536)
    finally:
        os.close(main)
        os.close(other)


# ---- what none of them touches


COMMANDS = ["check", "explain", "disown"]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_pool_is_refused(ocm, tmp_path, path, command):
    path.write_text("something else, long enough for a block" * 1000)
    before = fingerprint(path)
    ocm("pool", command, path, code=NOT_FOUND)
    assert "no pool" in ocm.error and fingerprint(path) == before
    ocm("pool", command, tmp_path / "none", code=NOT_FOUND)
    ocm("pool", command, tmp_path, code=USAGE)
    ocm("pool", command, "/dev/null", code=USAGE)
    os.mkfifo(tmp_path / "pipe")
    ocm("pool", command, tmp_path / "pipe", code=USAGE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pool_in_use_is_left_alone(ocm, pool, path, command):
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as a daemon does
        before = fingerprint(path)
        ocm("pool", command, path, code=EXISTS)
        assert "in use" in ocm.error and "daemon" in ocm.error and fingerprint(path) == before
    ocm("pool", command, path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_pool_is_not_opened(ocm):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = pathlib.Path(folder, "pool")
        ocm("pool", "create", path, "--bytes", "1MiB")
        for command in [["check", str(path)], ["explain", str(path)], ["disown", str(path)],
                        ["create", f"{folder}/other", "--bytes", "1MiB"]]:
            done = subprocess.run([ocm.program, "pool", *command], user=65534, group=65534, extra_groups=[], timeout=30,
                                  capture_output=True, text=True, check=False)
            assert done.returncode == PERMISSION, done.stderr
            assert "Permission denied" in done.stderr


# ---- disown


def test_a_disowned_pool_is_anybodys_with_all_it_holds(ocm, pool, path):
    before = ocm.json("pool", "explain", path)
    assert "0123456789abcdef" in ocm("pool", "disown", path)
    after = ocm.json("pool", "explain", path)
    assert after == before | {"cluster": ""}
    assert "no cluster" in ocm("pool", "disown", path)
    assert findings(ocm, path, "--pages", code=0)["findings"] == []
    pool.started(3, CLUSTER)
    assert json.loads(ocm("pool", "disown", path, "--json"))["cluster_before"] == CLUSTER.decode()


def test_one_good_superblock_is_enough_to_disown(ocm, pool, path):
    pool.damage(4096 + 100)
    ocm("pool", "disown", path)
    assert findings(ocm, path, code=0)["superblocks"] == ["whole", "whole"]


# ---- the group of commands


def test_its_help_and_mistakes(ocm):
    said = ocm("pool", "--help")
    for command in ("create", "check", "explain", "disown"):
        assert command in said
        assert "PATH" in ocm("pool", command, "--help")
        assert f"ocm pool {command} --help" in (ocm("pool", command, code=USAGE) or ocm.error)
    ocm("pool", code=USAGE)
    assert "ocm pool --help" in ocm.error
    ocm("pool", "chekc", "x", code=USAGE)
    assert "did you mean `ocm pool check`" in ocm.error
    ocm("pool", "check", "x", "--page", code=USAGE)
    assert "did you mean `--pages`" in ocm.error


def test_bash_completes_them(ocm, tmp_path):
    (tmp_path / "script").write_text(ocm("completion", "bash"))

    def complete(*words):
        line = " ".join(f"'{word}'" for word in words)
        code = (f"source {tmp_path}/script; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _ocm; "
                "echo ${COMPREPLY[@]}")
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True, timeout=20)
        return done.stdout.split()
    assert complete("ocm", "po") == ["pool"]
    assert complete("ocm", "pool", "") == ["create", "check", "explain", "disown"]
    assert complete("ocm", "--socket", "x", "pool", "c") == ["create", "check"]
    assert complete("ocm", "pool", "create", "--b") == ["--bytes"]
    assert complete("ocm", "pool", "check", "x", "--p") == ["--pages"]
    assert complete("ocm", "pool", "check", "") == [], "files, by readline's default"
    assert complete("ocm", "che") == []


def test_output_that_cannot_be_written_is_an_error(ocm, pool, path):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([ocm.program, "pool", "explain", path], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == FAILURE and b"No space left" in done.stderr
