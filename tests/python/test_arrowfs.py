"""The native pyarrow file system: the same files as fsspec's, buffers that point into local memory, reads without the
GIL, typed errors; and what stands in for it where it was not built."""
from __future__ import annotations

import ctypes
import errno
import io
import os
import pickle
import re
import signal
import sys
import threading
import time
import warnings

import numpy
import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oncilla
import oncilla.arrow
import oncilla.fs
from harness import settled, wait_for
from oncilla.fs.names import name_of

MOVED_MAX = 1.15  # times the needed bytes
SMALL = settings(max_examples=40, deadline=None)

pytestmark = pytest.mark.skipif(
    not oncilla.arrow.is_native() and "OCM_ARROWFS_REQUIRED" not in os.environ,
    reason="the native file system was not built: there was no pyarrow of this release with headers")


def session_with(cluster) -> oncilla.Session:
    return oncilla.connect(cluster["n1"].socket_path)


@pytest.fixture(scope="module")
def session(cluster):
    with session_with(cluster) as session:
        yield session


@pytest.fixture(scope="module")
def files(session):
    return oncilla.arrow.filesystem(session)


@pytest.fixture(scope="module")
def remote(session):
    return oncilla.arrow.filesystem(session, nodes="n2")


@pytest.fixture(params=["here", "there"])
def writer(request, files, remote):
    return files if request.param == "here" else remote


@pytest.fixture(scope="module")
def by_fsspec(session):
    return oncilla.fs.OcmFileSystem(socket=session.socket)


@pytest.fixture
def folder(files, request):
    name = f"arrowfs {re.sub('[^a-z0-9]+', '-', request.node.name.lower())[:60]}"
    yield name
    if files.get_file_info(name).type != pyarrow.fs.FileType.NotFound:
        files.delete_dir(name)


@pytest.fixture(scope="module")
def table():
    numbers = numpy.random.default_rng(7)
    return pyarrow.table({f"c{i}": numbers.random(200_000) for i in range(16)})


def write(fs, path: str, content: bytes) -> None:
    with fs.open_output_stream(path) as stream:
        stream.write(content)


def used_bytes(session) -> int:
    return sum(node.used_bytes for node in session.nodes())


def test_it_is_not_python(files):
    assert not isinstance(files, pyarrow.fs.PyFileSystem)
    assert not isinstance(files.base_fs, pyarrow.fs.PyFileSystem) and files.base_fs.type_name == "subtree"


def moves_while_the_gil_is_held(source, target, folder, bytes_moved) -> bool:
    """True if a copy of Arrow's, which reads from another node, goes on while this thread is in a call with the GIL."""
    interval = sys.getswitchinterval()
    stop = threading.Event()

    def copy():
        while not stop.is_set():
            pyarrow.fs.copy_files(f"{folder}/x", f"{folder}/y", source_filesystem=source, destination_filesystem=target,
                                  chunk_size=4096)

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        first = bytes_moved()
        wait_for("the copy moves bytes", lambda: bytes_moved() > first)
        sys.setswitchinterval(1000)  # nothing takes the GIL from this thread but who waits for it since before,
        time.sleep(20 * interval)    # and who did has had it now
        poll = ctypes.PyDLL(None).poll
        for _ in range(20):
            before = bytes_moved()
            poll(None, 0, 50)
            if bytes_moved() > before:
                return True
            time.sleep(0)  # lets go of it
        return False
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()


def test_arrow_reads_while_python_stands_still(files, remote, by_fsspec, folder):
    write(remote, f"{folder}/x", bytes(4 << 20))
    target = pyarrow.fs.SubTreeFileSystem("", remote)
    assert moves_while_the_gil_is_held(files, target, folder, oncilla.arrow.bytes_moved)
    in_python = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(by_fsspec))
    assert not moves_while_the_gil_is_held(in_python, target, folder, lambda: by_fsspec.bytes_moved)


# -------------------------------------------------------------------- reading and writing

@given(pieces=st.lists(st.integers(0, 100_000), max_size=4), data=st.data())
@SMALL
def test_a_file_reads_as_bytesio(files, remote, pieces, data):
    content = numpy.random.default_rng(len(pieces)).bytes(sum(pieces))
    fs = data.draw(st.sampled_from([files, remote]))
    with fs.open_output_stream("arrowfs-model") as stream:
        done = 0
        for nbytes in pieces:
            stream.write(content[done:done + nbytes])
            done += nbytes
            assert stream.tell() == done
    try:
        with files.open_input_file("arrowfs-model") as ours:
            model = io.BytesIO(content)
            assert ours.size() == len(content)
            for _ in range(data.draw(st.integers(1, 10))):
                count = data.draw(st.integers(0, 100_000))
                do = data.draw(st.sampled_from(["read", "seek", "buffer", "at"]))
                if do == "seek":
                    assert ours.seek(count) == model.seek(count)
                elif do == "at":
                    assert ours.read_at(1000, count) == content[count:count + 1000]
                    ours.seek(model.tell())
                else:
                    got = ours.read(count) if do == "read" else ours.read_buffer(count).to_pybytes()
                    assert got == model.read(count)
                assert ours.tell() == model.tell()
    finally:
        files.delete_file("arrowfs-model")


def test_large_files_are_parts_that_are_joined(writer, by_fsspec, session, folder):
    content = numpy.random.default_rng(3).bytes(20 << 20)
    with writer.open_output_stream(f"{folder}/x") as stream:
        for start in range(0, len(content), 3 << 20):
            stream.write(content[start:start + (3 << 20)])
    assert session.attach(name_of(f"{folder}/x")).info.layout == "sequence"
    with writer.open_input_file(f"{folder}/x") as file:
        assert file.read_at(100, (8 << 20) - 50) == content[(8 << 20) - 50:(8 << 20) + 50]
        assert file.read() == content
    assert by_fsspec.cat_file(f"{folder}/x") == content


def test_what_is_local_is_pointed_to(files, folder, table):
    with files.open_output_stream(f"{folder}/t.arrow") as sink, pyarrow.ipc.new_file(sink, table.schema) as out:
        out.write_table(table.slice(0, 50_000))
    allocated, moved = pyarrow.total_allocated_bytes(), oncilla.arrow.bytes_moved()
    read = pyarrow.ipc.open_file(files.open_input_file(f"{folder}/t.arrow")).read_all()
    assert pyarrow.total_allocated_bytes() - allocated < read.nbytes / 100
    files.delete_file(f"{folder}/t.arrow")
    assert read == table.slice(0, 50_000)  # its buffers hold the memory
    assert oncilla.arrow.bytes_moved() == moved


def test_a_reader_goes_on_with_the_file_that_was_replaced_or_removed(writer, folder):
    path, old = f"{folder}/x", numpy.random.default_rng(5).bytes(10 << 20)
    write(writer, path, old)
    with writer.open_input_file(path) as file:
        write(writer, path, b"new")
        assert writer.open_input_file(path).read() == b"new"
        assert file.read(5 << 20) == old[:5 << 20]
        writer.delete_file(path)
        assert file.read() == old[5 << 20:]
    assert writer.get_file_info(path).type == pyarrow.fs.FileType.NotFound


def test_three_of_sixteen_columns_move_little_more_than_they_are(files, remote, folder, table):
    path, wanted = f"{folder}/t.parquet", ["c1", "c7", "c12"]
    pyarrow.parquet.write_table(table, path, filesystem=remote, row_group_size=50_000)
    metadata = pyarrow.parquet.read_metadata(path, filesystem=files)
    needed_bytes = sum(metadata.row_group(group).column(table.column_names.index(name)).total_compressed_size
                       for group in range(metadata.num_row_groups) for name in wanted)
    for read in (lambda: pyarrow.parquet.read_table(path, columns=wanted, filesystem=files),
                 lambda: pyarrow.dataset.dataset(path, filesystem=files).to_table(columns=wanted)):
        before = oncilla.arrow.bytes_moved()
        assert read() == table.select(wanted)
        assert needed_bytes <= oncilla.arrow.bytes_moved() - before <= MOVED_MAX * needed_bytes


def test_a_partitioned_dataset_and_a_uri(files, session, folder, table):
    keyed = table.slice(0, 9000).append_column("key", pyarrow.array(numpy.arange(9000) % 3))
    for _ in range(2):  # the second time in place of the first
        pyarrow.dataset.write_dataset(keyed, f"{folder}/parts", filesystem=files, format="parquet",
                                      partitioning=["key"], partitioning_flavor="hive",
                                      existing_data_behavior="delete_matching")
    dataset = pyarrow.dataset.dataset(f"{folder}/parts", filesystem=files, partitioning="hive")
    assert dataset.count_rows() == 9000
    assert dataset.to_table(filter=pyarrow.dataset.field("key") == 1).num_rows == 3000
    uri = f"ocm:///{folder}/parts/key=1?socket={session.socket}".replace(" ", "%20")
    assert pyarrow.parquet.read_table(uri).num_rows == 3000


def test_csv_streams(files, remote, folder):
    import pyarrow.csv
    rows = pyarrow.table({"a": range(50_000), "b": [f"text {i}" for i in range(50_000)]})
    with remote.open_output_stream(f"{folder}/x.csv") as sink:
        pyarrow.csv.write_csv(rows, sink)
    with files.open_input_stream(f"{folder}/x.csv") as source:
        assert pyarrow.csv.read_csv(source) == rows


# -------------------------------------------------------------------- names and folders

def test_it_has_the_files_of_fsspec(files, by_fsspec, folder):
    for i, path in enumerate(["x", "a/b/c", "q%2F~", "ä/€", "empty"]):
        content = b"" if path == "empty" else path.encode()
        if i % 2:
            by_fsspec.pipe_file(f"{folder}/{path}", content)
        else:
            write(files, f"{folder}/{path}", content)
        assert by_fsspec.cat_file(f"{folder}/{path}") == content
        assert files.open_input_file(f"{folder}/{path}").read() == content
        write(files, f"{folder}/{path}", b"")
        assert by_fsspec.size(f"{folder}/{path}") == 0
        write(files, f"{folder}/{path}", content)
    found = files.get_file_info(pyarrow.fs.FileSelector(folder, recursive=True))
    ours = {info.path: info.size if info.is_file else 0 for info in found}
    theirs = {path: info["size"] for path, info in by_fsspec.find(folder, withdirs=True, detail=True).items()}
    assert ours | {folder: 0} == theirs and len(ours) == len(found)


def test_folders(files, folder):
    for path in ("a/x", "a/b/y", "a/b/c/z"):
        write(files, f"{folder}/{path}", b"12")
    flat = files.get_file_info(pyarrow.fs.FileSelector(f"{folder}/a"))
    assert {info.path: info.type for info in flat} == {
        f"{folder}/a/x": pyarrow.fs.FileType.File, f"{folder}/a/b": pyarrow.fs.FileType.Directory}
    kinds = [info.type for info in files.get_file_info([folder, f"{folder}/a/x", f"{folder}/none", ""])]
    assert kinds == [pyarrow.fs.FileType.Directory, pyarrow.fs.FileType.File, pyarrow.fs.FileType.NotFound,
                     pyarrow.fs.FileType.Directory]
    assert files.get_file_info(pyarrow.fs.FileSelector(f"{folder}/none", allow_not_found=True)) == []
    with pytest.raises(FileNotFoundError):
        files.get_file_info(pyarrow.fs.FileSelector(f"{folder}/none"))
    files.create_dir(f"{folder}/new")
    files.copy_file(f"{folder}/a/x", f"{folder}/copy")
    files.move(f"{folder}/a/b", f"{folder}/moved")
    files.move(f"{folder}/copy", f"{folder}/copy")
    found = files.get_file_info(pyarrow.fs.FileSelector(folder, recursive=True))
    assert sorted(info.path[len(folder) + 1:] for info in found if info.is_file) == [
        "a/x", "copy", "moved/c/z", "moved/y"]
    files.delete_dir_contents(f"{folder}/moved")
    files.delete_file(f"{folder}/copy")
    assert files.get_file_info(f"{folder}/moved").type == pyarrow.fs.FileType.NotFound


def test_what_is_not_there_and_what_cannot_be(files, folder):
    for call in (lambda: files.open_input_file(f"{folder}/none"), lambda: files.delete_file(f"{folder}/none"),
                 lambda: files.copy_file(f"{folder}/none", "x"), lambda: files.move(f"{folder}/none", "x"),
                 lambda: files.delete_dir(f"{folder}/none")):
        with pytest.raises(FileNotFoundError, match=f"ocm://{folder}/none"):
            call()
    with pytest.raises(OSError) as caught:
        files.open_output_stream("a" * 254)
    assert caught.value.errno == errno.ENAMETOOLONG
    with pytest.raises(NotImplementedError):
        files.open_append_stream(f"{folder}/x")
    with pytest.raises(pyarrow.ArrowInvalid, match="unknown option"):
        pyarrow.fs.FileSystem.from_uri("ocm:///?sokcet=x")
    for uri in ("ocm://a:80/b", "ocm://a@b/c"):
        with pytest.raises(pyarrow.ArrowInvalid, match="ocm:///PATH"):
            pyarrow.fs.FileSystem.from_uri(uri)
    assert pyarrow.fs.FileSystem.from_uri("ocm://Folder/File%20x")[1] == "Folder/File x"
    with pytest.raises(ConnectionRefusedError, match="ocm up"):
        pyarrow.fs.FileSystem.from_uri("ocm:///?socket=/none")[0].get_file_info("x")


def test_a_table_is_no_file(files, session):
    parts = [session.allocate(4096, dedicated=True), session.allocate(4096, dedicated=True)]
    parts[1].put_from(b"OCMTABLE" + bytes(56), 4096 - 64)
    session.join(parts).publish("arrowfs-table")
    try:
        listed = files.get_file_info(pyarrow.fs.FileSelector(""))
        assert "arrowfs-table" not in [info.path for info in listed]
        for call in (lambda: files.open_input_file("arrowfs-table"), lambda: write(files, "arrowfs-table", b"x"),
                     lambda: write(files, "arrowfs-table", b""), lambda: files.copy_file("arrowfs-table", "x"),
                     lambda: files.delete_file("arrowfs-table")):
            with pytest.raises(OSError, match="a table, not a file"):
                call()
        assert session.attach("arrowfs-table").nbytes == 8192
    finally:
        session.remove("arrowfs-table")


# -------------------------------------------------------------------- bad luck

def test_a_file_that_is_not_closed_leaves_nothing(files, session, folder):
    before = settled(lambda: used_bytes(session))
    stream = files.open_output_stream(f"{folder}/x")
    stream.write(bytes(20 << 20))
    assert used_bytes(session) > before
    del stream
    wait_for("the memory is back", lambda: used_bytes(session) <= before)
    assert files.get_file_info(folder).type == pyarrow.fs.FileType.NotFound


def test_no_room(make_cluster):
    cluster = make_cluster(2, budget=32 << 20)
    with session_with(cluster) as session:
        files = oncilla.arrow.filesystem(session)
        stream = files.open_output_stream("large")
        with pytest.raises(OSError) as caught:
            for _ in range(80):
                stream.write(bytes(1 << 20))
        assert caught.value.errno == errno.ENOSPC
        wait_for("the memory is back", lambda: used_bytes(session) < 1 << 20)
        with pytest.raises(OSError) as caught:
            stream.write(b"x")
        assert caught.value.errno == errno.ENOSPC
        del stream
        assert files.get_file_info("large").type == pyarrow.fs.FileType.NotFound


@pytest.mark.parametrize("writer", ["with", "finally", "ignored", "parquet", "csv"])
def test_what_does_not_fit_leaves_the_old_file(make_cluster, writer):
    cluster = make_cluster(1, budget=24 << 20)
    with session_with(cluster) as session:
        files = oncilla.arrow.filesystem(session)
        with files.open_output_stream("good") as stream:
            stream.write(b"good")
        piece, count = bytes(1 << 20), 40
        with pytest.raises(OSError) as caught:
            if writer == "with":
                with files.open_output_stream("good") as stream:
                    for _ in range(count):
                        stream.write(piece)
            elif writer in ("finally", "ignored"):
                stream = files.open_output_stream("good")
                try:
                    for _ in range(count):
                        stream.write(piece)
                except OSError:
                    if writer == "finally":
                        raise
                finally:
                    stream.close()
            elif writer == "parquet":
                pyarrow.parquet.write_table(pyarrow.table({"x": numpy.random.default_rng(1).random(count << 17)}),
                                            "good", filesystem=files)
            else:
                with files.open_output_stream("good") as stream:
                    pyarrow.csv.write_csv(pyarrow.table({"x": ["y" * 1000] * (count << 10)}), stream)
        assert caught.value.errno == errno.ENOSPC
        assert writer != "ignored" or "nothing was published" in str(caught.value)
        with files.open_input_stream("good") as stream:
            assert stream.read() == b"good"
        wait_for("the memory is back", lambda: used_bytes(session) < 1 << 20)


class Stop(Exception):
    """What breaks a write off."""


@pytest.mark.parametrize("idiom", ["with", "finally", "compressed", "buffered", "parquet", "dataset", "interrupt"])
def test_an_exception_leaves_the_old_file(files, session, folder, table, idiom):
    path = f"{folder}/good.parquet" + (".gz" if idiom == "compressed" else "")
    write(files, path, b"good")
    before = settled(lambda: used_bytes(session))
    wanted = KeyboardInterrupt if idiom == "interrupt" else Stop
    with pytest.raises(wanted) as caught:
        if idiom == "finally":
            stream = files.open_output_stream(path)
            try:
                stream.write(b"half")
                raise Stop
            finally:
                stream.close()
        elif idiom == "parquet":
            with pyarrow.parquet.ParquetWriter(path, table.schema, filesystem=files) as writer:
                writer.write_table(table.slice(0, 1000))
                raise Stop
        elif idiom == "dataset":
            def batches():
                yield table.slice(0, 1000).to_batches()[0]
                raise Stop
            reader = pyarrow.RecordBatchReader.from_batches(table.schema, batches())
            pyarrow.dataset.write_dataset(reader, folder, filesystem=files, format="parquet",
                                          basename_template="good{i}.parquet",
                                          existing_data_behavior="overwrite_or_ignore")
        else:
            with files.open_output_stream(path, buffer_size=1000 if idiom == "buffered" else None) as stream:
                stream.write(b"half" * 1000)
                raise wanted
    notes = getattr(caught.value, "__notes__", [])
    assert idiom == "dataset" or any("nothing was published" in note and path in note for note in notes)
    assert [info.path for info in files.get_file_info(pyarrow.fs.FileSelector(folder))] == [path]
    with files.open_input_stream(path) as stream:
        assert stream.read() == b"good"
    wait_for("the memory is back", lambda: used_bytes(session) <= before)


def test_an_exception_from_before_the_file_does_not_end_it(files, folder):
    try:
        try:
            raise Stop
        except Stop:
            raise KeyError from None
    except KeyError:
        write(files, f"{folder}/within", b"1")
        after = files.open_output_stream(f"{folder}/after")
        try:
            raise Stop
        except Stop:
            write(files, f"{folder}/deeper", b"2")
    after.write(b"3")
    after.close()
    assert [files.open_input_file(f"{folder}/{name}").read() for name in ("within", "deeper", "after")] == [
        b"1", b"2", b"3"]
    first = files.open_output_stream(f"{folder}/first")
    try:
        raise Stop
    except Stop as stop:
        with files.open_output_stream(f"{folder}/second") as second:  # knows the exception; the first one does not
            second.write(b"4")
        with pytest.raises(Stop) as caught:
            first.close()
        assert caught.value is stop and first.closed
    assert files.open_input_file(f"{folder}/second").read() == b"4"
    assert files.get_file_info(f"{folder}/first").type == pyarrow.fs.FileType.NotFound


def test_a_killed_node_is_a_typed_error_and_a_replica_goes_on(make_cluster, table):
    cluster = make_cluster(3)
    with session_with(cluster) as session:
        there = oncilla.arrow.filesystem(session, nodes=["n2"])
        twice = oncilla.arrow.filesystem(session, nodes=["n2", "n3"], replicas=2)
        small = table.slice(0, 10_000)
        for fs, path in ((there, "one"), (twice, "two")):
            pyarrow.parquet.write_table(small, path, filesystem=fs)
        cluster["n2"].kill()
        with pytest.raises(OSError, match="n2") as caught:
            pyarrow.parquet.read_table("one", filesystem=there)
        assert caught.value.errno == errno.EHOSTDOWN and "ocm://one: PEER_LOST" in str(caught.value)
        assert pyarrow.parquet.read_table("two", filesystem=there) == small


def test_fork(files, remote, folder):
    write(remote, f"{folder}/x", b"abc")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(30)
            write(files, f"{folder}/child", files.open_input_file(f"{folder}/x").read())
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert files.open_input_file(f"{folder}/child").read() == b"abc"


def test_pickling_and_equality(files, remote):
    assert pickle.loads(pickle.dumps(remote)) == remote != files
    assert pickle.loads(pickle.dumps(remote)).equals(remote)


def test_without_the_library_it_goes_through_fsspec_and_says_so(session, files, folder, monkeypatch):
    monkeypatch.setattr(oncilla.arrow, "_library", None)
    monkeypatch.setattr(oncilla.arrow, "_warned", False)
    with pytest.warns(RuntimeWarning, match="through fsspec"):
        instead = oncilla.arrow.filesystem(session)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        oncilla.arrow.filesystem(session)
    assert isinstance(instead, pyarrow.fs.PyFileSystem)
    write(instead, f"{folder}/x", b"abc")
    assert files.open_input_file(f"{folder}/x").read() == b"abc"
