"""The command line against what others can do to it, and what its user's shell hands it: names, directories, signals,
closed and full outputs."""
import contextlib
import fcntl
import os
import pathlib
import pty
import select
import shutil
import signal
import stat
import subprocess
import time

import pytest

import test_cli
from harness import wait_for
from ocmlib import find_binary
from test_cli import FAILURE, INTERRUPTED, MIB, PERMISSION, USAGE, has_ended

# Its fixtures, for a cluster of this file's own.
cluster, ocm, alone, payload = test_cli.cluster, test_cli.ocm, test_cli.alone, test_cli.payload


# ---- what others can do to it: their names, their directories


EVIL_NAMES = ["$(touch pwned)", "`touch pwned`", "a b", "x;touch pwned", "'quote", '"double', "two\nlines", "*", "~",
              "é", "<(touch pwned)", "${x[$(touch pwned)]}", "back\\slash", "!!", "plain-name"]


def test_bash_completion_runs_nothing_of_a_name(ocm, tmp_path):
    for name in [*EVIL_NAMES, "--force"]:
        ocm("alloc", "--", name, "64")
    (tmp_path / "script").write_text(ocm("completion", "bash"))
    path = f"{pathlib.Path(ocm.program).parent}:{ocm.environment['PATH']}"

    def complete(typed: str) -> tuple[list[str], list[str]]:
        """The words offered, and what bash makes of them on its command line."""
        # Words are read without a shell's eyes, as readline gives them.
        code = ("source ./script; COMP_WORDS=(ocm rm \"$TYPED\"); COMP_CWORD=2; _ocm; "
                "printf '%s\\0' \"${COMPREPLY[@]}\" --; eval \"printf '%s\\\\0' ${COMPREPLY[*]}\"")
        out = subprocess.run(["bash", "-c", code], env=ocm.environment | {"PATH": path, "TYPED": typed}, cwd=tmp_path,
                             capture_output=True, text=True, check=True, timeout=20).stdout
        offered, _, meant = out.partition("--\0")
        return offered.split("\0")[:-1], meant.split("\0")[:-1]

    offered, meant = complete("")
    assert sorted(meant) == sorted(EVIL_NAMES)  # not --force, which would be an option
    assert all("\n" not in word for word in offered)
    assert complete("\\$\\(to")[1] == ["$(touch pwned)"]
    assert complete("a")[1] == complete("a\\ ")[1] == ["a b"]
    for quote in "'", '"':  # what a name must be quoted with would end them
        assert set(complete(quote)[0]) in ({"plain-name"}, {"plain-name", "é"})  # as the locale says
        assert complete(quote + "plain")[0] == ["plain-name"]
    for typed in ("$(", "`", "$'two", "'$(", "${x[$("):
        assert complete(typed)[0] == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["script"]


@pytest.mark.parametrize("shell,start,setup", [
    ("bash", ["--norc", "--noprofile", "-i"], b"source ./script"),
    ("zsh", ["-f", "-i"], b"autoload -U compinit; compinit -u -D; source ./script"),
    ("fish", ["--no-config", "-i"], b"source ./script")])
def test_a_tab_runs_nothing_of_a_name(ocm, tmp_path, shell, start, setup):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    names = {"$(touch pwned)", "`touch pwned`", "x;touch pwned", "two\nlines"}
    for name in names:
        ocm("alloc", name, "64")
    (tmp_path / "script").write_text(ocm("completion", shell))
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        path = f"{pathlib.Path(ocm.program).parent}:{ocm.environment['PATH']}"
        os.execvpe(shell, [shell, *start],
                   ocm.environment | {"PATH": path, "TERM": "xterm", "HOME": str(ocm.folder)})
    seen = b""

    def shows(text: bytes) -> bool:
        nonlocal seen
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 65536)
        return text in seen

    def enter(text: bytes, mark: bytes):
        os.write(terminal, text + b"; echo " + mark[:1] + b"''" + mark[1:] + b"\n")
        wait_for(f"{shell} has done it", lambda: shows(mark))
    try:
        enter(setup, b"ready")
        os.write(terminal, b"ocm rm \t\t")
        wait_for("the names are offered", lambda: shows(b"lines"))
        os.write(terminal, b"\x15")  # begins the line anew
        os.write(terminal, b"ocm rm \\$\t")
        wait_for("the name is completed", lambda: shows(b"\\$\\(touch\\ pwned\\)"))
        enter(b"", b"removed-one")
        os.write(terminal, b"ocm rm x\t")
        wait_for("the name is completed", lambda: shows(b"x\\;touch\\ pwned"))
        enter(b"", b"removed-two")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    assert {name["name"] for name in ocm.json("ls")} == {"`touch pwned`", "two\nlines"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["script"]


@pytest.mark.parametrize("flaw", ["another's", "a link", "open to the group", "open to all"])
def test_a_cluster_directory_that_others_could_have_made_is_not_believed(alone, flaw):
    if flaw == "another's" and os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    nodes = alone.json("up")["nodes"]
    directory = alone.folder / "oncilla"
    if flaw == "another's":
        os.chown(directory, 61001, 61001)
    elif flaw == "a link":
        directory.rename(alone.folder / "elsewhere")
        directory.symlink_to("elsewhere")
    else:
        directory.chmod(0o770 if "group" in flaw else 0o707)
    for command in (["ls"], ["status"], ["put", "/etc/hostname", "x"], ["top", "--once"], ["up"], ["down"],
                    ["down", "--dir", f"{directory}/"], ["stop-check", "node1"]):
        alone(*command, code=PERMISSION)
        assert str(directory) in alone.error and "OCM_SOCKET" in alone.error and "--dir" in alone.error
    [socket] = [check for check in alone.json("doctor", code=1)["checks"] if check["check"] == "socket"]
    assert socket["verdict"] == "FAIL" and str(directory) in socket["found"]
    assert not has_ended(nodes[0]["pid"])
    alone("--socket", directory / "node1" / "oncillad.sock", "ls")  # asked for by name
    if flaw == "a link":
        alone("down", "--dir", alone.folder / "elsewhere")
    else:
        os.chown(directory, os.geteuid(), os.getegid())
        directory.chmod(0o700)
        alone("down")


def test_a_directory_that_others_could_have_made_is_not_taken_over(alone):
    (alone.folder / "oncilla").symlink_to("elsewhere")  # to nowhere
    alone("up", code=PERMISSION)
    assert not (alone.folder / "elsewhere").exists()
    (alone.folder / "oncilla").unlink()
    (alone.folder / "oncilla").mkdir()
    (alone.folder / "oncilla").chmod(0o777)
    alone("up", code=PERMISSION)
    assert list((alone.folder / "oncilla").iterdir()) == []


def test_quiet_names_are_one_a_line_and_null_ends_them_as_they_are(ocm):
    names = ["tmp-\nprecious", "tmp-\x1b[31m", "tmp-a b"]
    for name in [*names, "precious"]:
        ocm("alloc", name, "64")
    assert sorted(ocm("ls", "--quiet", "tmp-").splitlines()) == ["tmp-?[31m", "tmp-?precious", "tmp-a b"]
    found = ocm("ls", "-0", "tmp-")
    assert sorted(found.split("\0")) == ["", *sorted(names)]
    subprocess.run(["xargs", "-0", ocm.program, "rm", "--"], input=found.encode(), env=ocm.environment, check=True,
                   timeout=20)
    assert ocm("ls", "--null") == "precious\0"


def test_get_over_a_set_uid_file_makes_none(ocm, tmp_path):
    ocm("put", "-", "x", stdin=b"new")
    target = tmp_path / "target"
    target.write_text("old")
    target.chmod(0o6755)
    ocm("get", "x", target)
    assert target.read_text() == "new" and stat.S_IMODE(target.stat().st_mode) == 0o755


# ---- standard streams and signals


def redirected(ocm, redirection: str, *arguments) -> subprocess.CompletedProcess:
    return subprocess.run(["sh", "-c", f'exec "$0" "$@" {redirection}', ocm.program, *map(str, arguments)],
                          env=ocm.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)


def test_closed_standard_streams_are_no_sockets(ocm, payload, tmp_path):
    assert redirected(ocm, "<&- >&- 2>&-", "put", payload, "x").returncode == 0
    assert redirected(ocm, "<&- >&- 2>&-", "get", "x", tmp_path / "back").returncode == 0
    assert (tmp_path / "back").read_bytes() == payload.read_bytes()
    for redirection in (">&-", "<&- >&-", "<&- >&- 2>&-"):
        done = redirected(ocm, redirection, "get", "x", "-")
        assert done.returncode == FAILURE and ("2>" in redirection or b"Bad file descriptor" in done.stderr)
        assert redirected(ocm, redirection, "ls").returncode == FAILURE
    done = redirected(ocm, "<&-", "put", "-", "y")
    assert done.returncode == USAGE and b"empty" in done.stderr
    assert [name["name"] for name in ocm.json("ls")] == ["x"]


@pytest.mark.parametrize("command", [
    "ls", "ls --json", "ls --quiet", "ls --null", "status", "status --json", "doctor", "doctor --json",
    "stop-check node1", "stop-check node1 --json", "alloc y 64", "alloc y 64 --json", "top --once -i 0.05", "get x -",
    "bench --fabric shm --sizes 64 --seconds-each 0.01", "bench --fabric shm --sizes 64 --seconds-each 0.01 --json",
    "completion bash", "--version", "--help", "ls --help"])
def test_output_that_cannot_be_written_is_an_error(ocm, command):
    ocm("alloc", "x", "64")
    done = redirected(ocm, ">/dev/full", *command.split())
    assert done.returncode == FAILURE, done.stderr
    assert b"No space left on device" in done.stderr


def test_top_ends_when_nobody_reads_it(ocm):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as output:
        done = subprocess.run([ocm.program, "top", "--json", "-i", "0.05"], env=ocm.environment, timeout=30,
                              check=False, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE)
    assert done.returncode == FAILURE and b"Broken pipe" in done.stderr


@pytest.mark.parametrize("command", [["--help-all"], ["get", "x", "-"]])
def test_a_pipe_that_does_not_block_gets_all(ocm, payload, command):
    ocm("put", payload, "x")
    ocm(*command)
    wanted = ocm.bytes
    reader, writer = os.pipe()
    with open(reader, "rb") as source:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(writer, False)
        process = subprocess.Popen([ocm.program, *command], env=ocm.environment, stdout=writer, stderr=subprocess.PIPE)
        poll = select.poll()
        poll.register(writer, select.POLLOUT)
        wait_for("the pipe is full", lambda: poll.poll(0) == [])
        os.close(writer)
        assert source.read() == wanted
    assert process.wait(20) == 0, process.stderr.read()


@pytest.mark.parametrize("command", [("get", "x", "out"), ("put", "in", "x", "--in-place"),
                                     ("put", "in", "y", "--nodes", "n2")],
                         ids=["get", "put in place", "put"])
def test_ctrl_c_does_not_wait_for_a_silent_node(make_cluster, tmp_path, command):
    cluster = make_cluster(names=("n1", "n2"), extra=("--failure-deadline-ms", "30000"))
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "in").write_bytes(os.urandom(MIB))
    program = [str(find_binary("ocm")), "-s", str(cluster["n1"].socket_path)]
    subprocess.run([*program, "put", "in", "x", "--nodes", "n2"], cwd=folder, check=True, timeout=20)
    cluster["n2"].signal(signal.SIGSTOP)
    process = subprocess.Popen([*program, *command], cwd=folder, stderr=subprocess.PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == INTERRUPTED, process.stderr.read()
    cluster["n2"].signal(signal.SIGCONT)
    assert [entry.name for entry in folder.iterdir()] == ["in"]


def test_ctrl_c_of_a_put_in_place_is_an_interruption(ocm, tmp_path):
    (tmp_path / "file").write_bytes(bytes(24 * MIB))
    ocm("put", tmp_path / "file", "in-place")
    for delay_ms in range(0, 60, 3):
        process = subprocess.Popen([ocm.program, "put", tmp_path / "file", "in-place", "--in-place"],
                                   env=ocm.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(delay_ms / 1000)
        process.send_signal(signal.SIGINT)
        code, said = process.wait(20), process.stderr.read().decode()
        assert code in (0, INTERRUPTED, -signal.SIGINT), said
        assert not said or "interrupted; as --in-place asks, the name holds a part of the new bytes now" in said
        process.stderr.close()
    ocm("rm", "in-place")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_was_ignored_at_the_start_stays_so(ocm, number):
    process = subprocess.Popen([ocm.program, "put", "-", "whole"], env=ocm.environment, stdin=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
    process.stdin.write(bytes(4 * MIB))  # more than the pipe takes: it reads now
    process.stdin.flush()
    process.send_signal(number)
    time.sleep(0.1)
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(bytes(4 * MIB))
        process.stdin.close()
    assert process.wait(20) == 0, process.stderr.read()
    assert ocm.json("ls")[0]["bytes"] == 8 * MIB


@pytest.mark.parametrize("seconds", ["nan", "-nan", "inf", "0", "1e9"])
def test_seconds_are_a_number(ocm, seconds):
    for arguments in (["top", "--once", f"--interval={seconds}"], ["bench", f"--seconds-each={seconds}"],
                      ["down", f"--grace={seconds}"], ["up", f"--timeout={seconds}"]):
        ocm(*arguments, code=USAGE)
        assert "range" in ocm.error
