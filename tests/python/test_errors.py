"""Errors: the tree covers the C interface, and each says what happened, where, and what to do."""
from __future__ import annotations

import contextlib
import os
import pathlib
import pickle
import re
import signal
import socket
import time

import pytest

import oncilla
from oncilla import _core, errors
from oncilla.core import errors as core_errors

HEADER = pathlib.Path(__file__).resolve().parents[2] / "include/oncilla/oncilla.h"
LEAVES = [kind for scope in errors.Error.__subclasses__() for kind in scope.__subclasses__()]


def test_every_status_of_the_header_has_its_class():
    statuses = {int(number): name for name, number in re.findall(r"OCM_(\w+) = (-\d+),?", HEADER.read_text())}
    assert len(statuses) > 25
    assert {kind.status: kind.code for kind in LEAVES} == statuses
    for status, name in statuses.items():
        error = errors.from_status(status, "what happened")
        assert (error.status, error.code) == (status, name) and _core.status_name(status) == name
        assert str(error) == f"{name}: what happened - {error.hint}"


def test_scopes_are_those_of_the_header():
    bounds = {"call": (-19, -1), "allocation": (-39, -20), "peer": (-59, -40), "node": (-79, -60),
              "cluster": (-99, -80)}
    for kind in LEAVES:
        low, high = bounds[kind.scope]
        assert low <= kind.status <= high, kind
        assert issubclass(kind, oncilla.Error) and getattr(oncilla, kind.__name__) is kind


@pytest.mark.parametrize("kind, builtin", [
    (oncilla.DeadlineExceeded, TimeoutError), (oncilla.Permission, PermissionError),
    (oncilla.NoDaemon, ConnectionError), (oncilla.PeerLost, ConnectionError),
    (oncilla.PoolFull, MemoryError), (oncilla.NotFound, LookupError),
    (oncilla.OutOfRange, IndexError), (oncilla.InvalidArgument, ValueError), (oncilla.IoError, OSError)])
def test_builtin_exceptions_are_met(kind, builtin):
    assert issubclass(kind, builtin)


def test_the_node_and_the_subject_are_fields():
    error = errors.from_status(-40, "the text names node n9", "n2", "orders", 2)
    assert (error.node, error.subject, error.subject_kind) == ("n2", "orders", "table")
    error = errors.from_status(-40, "node n2: connection lost")
    assert (error.node, error.subject, error.subject_kind) == (None, None, None)
    assert errors.from_status(-40, "of a newer library", "", "x", 99).subject_kind is None


@pytest.mark.parametrize("kind", LEAVES)
def test_errors_travel_between_processes(kind):
    error = kind("node n2: gone", node="n2", subject="t", subject_kind="table")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind and str(back) == str(error) and back.hint == error.hint
    assert (back.node, back.subject, back.subject_kind) == ("n2", "t", "table")


def test_subject_kinds_are_those_of_the_header():
    names = re.findall(r"OCM_SUBJECT_(\w+) = (\d+)", HEADER.read_text())
    assert len(names) > 5
    assert [(core_errors._SUBJECT_KINDS[int(number)] or "none") for _, number in names] == [n.lower() for n, _ in names]


@pytest.mark.parametrize("kind, subject_kind, text, says", [
    (oncilla.NotFound, "table", "table t: no published allocation is named t", "session.tables()"),
    (oncilla.NotFound, "column", "table t has no column 'z'; it has a", None),
    (oncilla.Unsupported, "column", "table t: column `u`: unions cannot be stored; cast it to a plain type first",
     None),
    (oncilla.Exists, "table", "table t: the name is taken: drop it, or replace it", "put(replace=True)"),
    (oncilla.Exists, "segment", "table t: others append faster: try again", None),
    (oncilla.PoolFull, "table", "table t: nothing was kept. Drop tables, raise the budgets or add nodes", None),
    (oncilla.ProtocolError, "allocation", "table t: it is not a table, but another published allocation",
     "session.tables()"),
    (oncilla.InvalidArgument, "handle", "the session handle is not one that this process was given",
     "oncilla.connect()")])
def test_hints_are_of_what_it_is_about(kind, subject_kind, text, says):
    error = kind(text, subject="t", subject_kind=subject_kind)
    assert (says in error.hint and str(error).endswith(f" - {error.hint}")) if says else str(error).endswith(text)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert kind(text).hint == kind.hint, "the sentence decides nothing"


def test_subjects_are_told_by_the_calls(session):
    with pytest.raises(oncilla.NotFound) as error:
        session.attach("errors-missing")
    assert (error.value.subject, error.value.subject_kind) == ("errors-missing", "allocation")
    with pytest.raises(oncilla.NotFound) as error:
        session.table("errors-missing").to_arrow()
    assert (error.value.subject, error.value.subject_kind) == ("errors-missing", "table")
    assert "session.tables()" in str(error.value)
    with pytest.raises(oncilla.UnknownNode) as unknown:
        session.allocate(4096, nodes=["nobody"])
    assert unknown.value.node == "nobody" and unknown.value.subject is None
    table = session.table("errors-columns").put({"a": [1, 2]})
    with pytest.raises(oncilla.NotFound) as error:
        table.select(["z"]).to_arrow()
    assert (error.value.subject, error.value.subject_kind) == ("z", "column")
    with pytest.raises(oncilla.Exists) as taken:
        table.put({"a": [1]}, replace=False)
    assert (taken.value.subject, taken.value.subject_kind) == ("errors-columns", "table")
    table.drop()


def test_an_unknown_status_is_a_fault_of_ours():
    assert isinstance(errors.from_status(-12345, "x"), oncilla.InternalError)


def end_connections_to(address: str) -> int:
    """Ends this process' TCP connections to `address`, as the network ends those that were silent in a long cut."""
    host, port = address.rsplit(":", 1)
    ended = 0
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as copy:
            if copy.family == socket.AF_INET and copy.getpeername() == (host, int(port)):
                copy.shutdown(socket.SHUT_RDWR)
                ended += 1
    return ended


@pytest.mark.parametrize("first", ["read", "write", "add"])
def test_a_connection_that_ended_in_silence_is_no_error(cluster, session, first):
    with session.allocate(4096, nodes=["n2"]) as there:
        there.put_from(b"before")
        assert end_connections_to(cluster["n2"].data) > 0
        time.sleep(0.3)  # a program that is idle
        if first == "write":
            there.put_from(b"after!")
        elif first == "add":
            there.fetch_add(8, 1)
        assert there.get(0, 6) == (b"after!" if first == "write" else b"before")


@pytest.mark.parametrize("death", ["killed", "stopped"])
def test_a_lost_node_is_named(make_cluster, death):
    cluster = make_cluster(3, budget=64 << 20)
    with oncilla.connect(cluster["n1"].socket_path, deadline_s=0.5) as session:
        lost = session.allocate(1 << 20, nodes="n2")
        kept = session.allocate(1 << 20, layout="replicated", nodes=["n2", "n3"])
        lost[:3] = kept[:3] = b"abc"
        cluster["n2"].kill() if death == "killed" else cluster["n2"].signal(signal.SIGSTOP)
        for call in (lambda: lost[:3], lambda: lost.put_from(b"x"), lambda: lost.getv([(0, bytearray(3))]),
                     lambda: lost.fetch_add(0, 1), lambda: oncilla.copy(bytearray(3), lost, 3)):
            with pytest.raises(oncilla.PeerLost, match="n2") as error:
                call()
            assert error.value.node == "n2" and error.value.scope == "peer" and error.value.hint
        assert kept[:3] == b"abc"


def test_looking_at_things_never_raises(make_cluster):
    cluster = make_cluster(1, budget=64 << 20)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        block = session.allocate(1 << 16)
        cluster["n1"].kill()
        assert "NO_DAEMON" in repr(session) and "64.00 KiB" in repr(block)


def test_without_a_coordinator_names_wait_and_data_goes_on(make_cluster):
    cluster = make_cluster(2, budget=64 << 20)
    with oncilla.connect(cluster["n2"].socket_path) as session:
        block = session.allocate(1 << 16, local=True)
        cluster["n1"].kill()
        with pytest.raises(oncilla.NoCoordinator) as error:
            block.publish("errors-no-coordinator")
        assert isinstance(error.value, ConnectionError) and error.value.scope == "cluster"
        block[:2] = b"ok"
        assert block[:2] == b"ok"
