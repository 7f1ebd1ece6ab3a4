"""Tables of one user and others: who may append to them, and whose rows they have."""
from __future__ import annotations

import os

import pyarrow
import pytest

import oncilla
from tables import fresh, numbered
from users import OWNER, STRANGER, as_user, reachable

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="to become another user takes root")

ROWS = 10


def keys(session: oncilla.Session, name: str) -> list[int]:
    return session.table(name).to_arrow()["k"].to_pylist()


def table_id(session: oncilla.Session, name: str) -> str:
    return f"{session.table(name).snapshot().info['id']:016x}"


@pytest.fixture
def socket(cluster):
    return reachable(cluster["n1"].socket_path)


@pytest.fixture
def name(socket):
    """A table of OWNER's, dropped at the end."""
    name = fresh("ledger")
    as_user(OWNER, socket, lambda session: session.table(name).put(numbered(ROWS), mode=0o604) and None)
    yield name
    as_user(OWNER, socket, lambda session: session.table(name).drop(missing_ok=True))


def segments(socket, name: str) -> list[str]:
    with oncilla.connect(socket) as session:
        return [one.name for one in session.names(f"{name}~")]


def test_who_may_only_read_a_table_cannot_append_to_it(socket, name):
    assert as_user(STRANGER, socket, lambda session: keys(session, name)) == list(range(ROWS))
    refused = as_user(STRANGER, socket, lambda session: session.table(name).append(numbered(1)) and None)
    assert refused["code"] == "PERMISSION"
    for word in (name, f"uid {OWNER}", f"uid {STRANGER}", "mode 0604"):
        assert word in refused["text"], refused["text"]
    assert as_user(OWNER, socket, lambda session: keys(session, name)) == list(range(ROWS))
    assert segments(socket, name) == []


def test_a_stranger_is_refused_before_a_row_is_taken(socket, name):
    def append(session):
        taken = []

        def batches():
            for batch in numbered(5).to_batches():
                taken.append(batch)
                yield batch
        source = pyarrow.RecordBatchReader.from_batches(numbered(5).schema, batches())
        with pytest.raises(oncilla.Permission):
            session.table(name).append(source)
        return len(taken)

    assert as_user(STRANGER, socket, append) == 0


def test_the_owner_appends_and_drop_leaves_nothing(socket, name):
    as_user(OWNER, socket, lambda session: session.table(name).append(numbered(2, ROWS)) and None)
    assert as_user(STRANGER, socket, lambda session: keys(session, name)) == list(range(ROWS + 2))
    assert as_user(STRANGER, socket, lambda session: session.table(name).drop())["code"] == "PERMISSION"
    assert as_user(OWNER, socket, lambda session: session.table(name).drop()) is None
    assert segments(socket, name) == []


def test_what_root_appends_its_owner_drops(socket, name):
    with oncilla.connect(socket) as session:
        session.table(name).append(numbered(2, ROWS))
        assert {one.owner_uid for one in session.names(f"{name}~")} == {OWNER}
    as_user(OWNER, socket, lambda session: session.table(name).append(numbered(1, ROWS + 2)) and None)
    assert as_user(STRANGER, socket, lambda session: keys(session, name)) == list(range(ROWS + 3))
    assert as_user(OWNER, socket, lambda session: session.table(name).drop()) is None
    assert segments(socket, name) == []


def test_nobody_else_publishes_a_name_that_reads_as_a_segment(socket, name):
    def publish(session):
        part = session.allocate(64, dedicated=True)
        part.publish(f"{name}~{table_id(session, name)}~1", 0o604)

    refused = as_user(STRANGER, socket, publish)
    assert refused["code"] == "PERMISSION" and f"uid {OWNER}" in refused["text"]
    assert as_user(OWNER, socket, lambda session: keys(session, name)) == list(range(ROWS))


def test_a_mode_that_lets_others_write_does_not_let_them_append(socket, name):
    as_user(OWNER, socket, lambda session: session.table(name).put(numbered(3), mode=0o606, replace=True) and None)
    refused = as_user(STRANGER, socket, lambda session: session.table(name).append(numbered(1)) and None)
    assert refused["code"] == "PERMISSION" and "mode 0606" in refused["text"]


def test_segments_of_a_stranger_are_no_rows_whoever_let_them_in(make_cluster):
    """As one that was published while a coordinator that started anew did not know the table yet."""
    cluster = make_cluster(1)
    socket, name = reachable(cluster["n1"].socket_path), "ledger"
    as_user(OWNER, socket, lambda session: session.table(name).put(numbered(ROWS), mode=0o604) and None)
    with oncilla.connect(socket) as session:
        id = table_id(session, name)
        copy_of = session.attach(name).get(0)
        session.remove(name)

    def publish_first(session):
        # The very bytes of the table, as its second segment.
        whole = session.allocate(len(copy_of), dedicated=True)
        whole.put_from(copy_of)
        whole.publish(f"{name}~{id}~1", 0o604)

    assert as_user(STRANGER, socket, publish_first) is None

    def publish_table(session):
        whole = session.allocate(len(copy_of), dedicated=True)
        whole.put_from(copy_of)
        whole.publish(name, 0o604)

    assert as_user(OWNER, socket, publish_table) is None
    assert as_user(OWNER, socket, lambda session: keys(session, name)) == list(range(ROWS))
    # The owner's rows go behind it.
    as_user(OWNER, socket, lambda session: session.table(name).append(numbered(2, ROWS)) and None)
    assert as_user(OWNER, socket, lambda session: keys(session, name)) == list(range(ROWS + 2))
