"""Several allocations made one: their bytes in a row, where they lie, and what is refused."""
from __future__ import annotations

import pytest

import oncilla


def test_a_sequence_has_the_bytes_of_its_parts_in_their_order(session):
    lengths = [1, 4096, 100_000, 7]
    parts = [session.allocate(nbytes, dedicated=True, nodes=f"n{1 + i % 3}") for i, nbytes in enumerate(lengths)]
    contents = [bytes([i + 1]) * nbytes for i, nbytes in enumerate(lengths)]
    for part, content in zip(parts, contents):
        part.put_from(content)
    joined = session.join(parts)
    assert all(part.freed for part in parts) and joined.nbytes == sum(lengths) and joined.info.layout == "sequence"
    assert [(extent.node, extent.nbytes) for extent in joined.extents()] == [
        ("n1", 1), ("n2", 4096), ("n3", 100_000), ("n1", 7)]
    assert joined.get() == b"".join(contents)
    joined[4090:4110] = b"x" * 20
    assert joined[4089:4111] == b"\2" + b"x" * 20 + b"\3"
    joined.publish("join-published")
    try:
        assert session.attach("join-published")[4089:4111] == b"\2" + b"x" * 20 + b"\3"
    finally:
        session.remove("join-published")


def test_parts_that_cannot_be_joined_stay_as_they_were(session):
    part, other = session.allocate(4096, dedicated=True), session.allocate(4096, dedicated=True)
    part[0:3] = b"abc"
    small, striped = session.allocate(64), session.allocate(4096, layout="striped", extents=2, chunk_bytes=64)
    for parts, error in (([part, small], oncilla.Unsupported), ([part, striped], oncilla.Unsupported),
                         ([part, part], oncilla.Error), ([], oncilla.InvalidArgument)):
        with pytest.raises(error):
            session.join(parts)
    for strangers in ([None], [part, None], [part, b"bytes"], [part, session]):
        with pytest.raises(TypeError, match="parts"):
            session.join(strangers)
    view = memoryview(part)
    with pytest.raises(BufferError, match="in use by 1 buffer"):
        session.join([other, part])
    view.release()
    del view
    assert part[0:3] == b"abc" and not other.freed
    assert session.join([part, other])[0:3] == b"abc"
    with pytest.raises(oncilla.Revoked):
        session.join([part, other])
