"""`ocm://` for fsspec: files against bytes and io.BytesIO as the oracle, what is left behind, and what is moved."""
from __future__ import annotations

import errno
import io
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oncilla
import oncilla.fs
from harness import settled, wait_for
from ocmlib import find_binary
from oncilla.fs import file as _fs_file
from oncilla.fs.names import NAME_BYTES_MAX, name_of, path_of

PATHS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=60)
SMALL = settings(max_examples=40, deadline=None)


def file_system(cluster, **options):
    return fsspec.filesystem("ocm", socket=str(cluster["n1"].socket_path), **options)


@pytest.fixture(scope="module")
def files(cluster):
    return file_system(cluster)


@pytest.fixture(scope="module")
def remote(cluster):
    """The same files; new ones go to another node, so that reading them moves bytes."""
    return file_system(cluster, nodes="n2")


@pytest.fixture
def folder(files, request):
    """A folder of the test's own, removed at the end."""
    name = f"fs {re.sub('[^a-z0-9]+', '-', request.node.name.lower())[:60]}"
    yield name
    if files.find(name):
        files.rm(name, recursive=True)


@pytest.fixture(params=["here", "there"])
def writer(request, files, remote):
    """A file system whose new files lie on this node, and one whose lie on another."""
    return files if request.param == "here" else remote


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(_fs_file, "PART_BYTES_MIN", 64 << 10)
    monkeypatch.setattr(_fs_file, "PART_BYTES_MAX", 64 << 10)


def pattern(nbytes: int, seed: int = 1) -> bytes:
    return bytes((i * 31 + (i >> 8) * seed + seed) & 0xFF for i in range(nbytes))


def used_bytes(fs) -> int:
    return sum(node.used_bytes for node in fs.shared.session.nodes())


# -------------------------------------------------------------------- names

@given(PATHS)
def test_every_path_has_a_name_of_its_own(path):
    name = None
    try:
        name = name_of(path)
    except OSError as error:
        assert error.errno == errno.ENAMETOOLONG
    if name is not None:
        assert "/" not in name and "~" not in name and len(name.encode()) <= NAME_BYTES_MAX
        assert path_of(name) == path


@given(st.lists(st.sampled_from(["%25", "%2F", "%7E", "%2f", "%", "~", "2", "F", "a", "€"]), min_size=1).map("".join))
def test_a_name_that_is_listed_as_a_path_is_opened_by_it(name):
    path = path_of(name)
    if path is not None and len(name.encode()) <= NAME_BYTES_MAX:
        assert name_of(path) == name


@pytest.mark.parametrize("path,code", [("", errno.EINVAL), ("a\0b", errno.EINVAL), ("a" * 254, errno.ENAMETOOLONG),
                                       ("d/" * 64, errno.ENAMETOOLONG)])
def test_a_path_that_has_no_name_is_refused_before_anything_is_written(files, path, code):
    with pytest.raises(OSError) as caught:
        _fs_file.OcmWriter(files, path)
    assert caught.value.errno == code


# -------------------------------------------------------------------- reading

@given(data=st.data(), size=st.integers(0, 150_000))
@SMALL
def test_a_file_reads_as_bytesio(files, remote, data, size):
    content = pattern(size)
    fs = data.draw(st.sampled_from([files, remote]))
    fs.pipe_file("fs-model", content)
    try:
        with fs.open("fs-model") as ours:
            model = io.BytesIO(content)
            for _ in range(data.draw(st.integers(1, 12))):
                do = data.draw(st.sampled_from(["read", "readinto", "seek", "line", "buffer", "peek"]))
                count = data.draw(st.integers(0, 100_000) | st.integers(0, 100))
                if do == "seek":
                    whence = data.draw(st.sampled_from([0, 1, 2]))
                    offset = -min(count, model.tell() if whence == 1 else size) if whence else count
                    assert ours.seek(offset, whence) == model.seek(offset, whence)
                elif do == "readinto":
                    mine, theirs = bytearray(count), bytearray(count)
                    assert ours.readinto(mine) == model.readinto(theirs)
                    assert mine == theirs
                elif do == "peek":
                    seen, rest = ours.peek(1), model.getvalue()[model.tell():]
                    assert rest.startswith(seen) and (seen or not rest)
                else:
                    got = {"read": ours.read, "line": ours.readline, "buffer": ours.read_buffer}[do](count)
                    assert bytes(got) == (model.readline(count) if do == "line" else model.read(count))
                    del got
                assert ours.tell() == model.tell()
            assert ours.read() == model.read()
    finally:
        fs.rm("fs-model")


@given(start=st.none() | st.integers(-5000, 5000), end=st.none() | st.integers(-5000, 5000))
@SMALL
def test_cat_file_slices_as_bytes(files, start, end):
    content = pattern(4000)
    if not files.exists("fs-slices"):
        files.pipe_file("fs-slices", content)
    assert files.cat_file("fs-slices", start, end) == content[start:end]


def test_cat_ranges_gives_each_range_or_its_error(files, remote, folder):
    contents = {f"{folder}/{i}": pattern(50_000, i) for i in range(6)}
    for i, (path, content) in enumerate(contents.items()):
        (remote if i % 2 else files).pipe_file(path, content)
    paths = [*contents, *contents, f"{folder}/none"]
    starts, ends = [7, 0, 49_999, 100, 0, -5] * 2 + [0], [10, 50_000, None, 90, 0, None] * 2 + [1]
    got = files.cat_ranges(paths, starts, ends)
    assert isinstance(got[-1], FileNotFoundError)
    assert got[:-1] == [contents[path][start:end] for path, start, end in zip(paths[:-1], starts, ends)]
    with pytest.raises(FileNotFoundError):
        files.cat_ranges(paths, starts, ends, on_error="raise")


def test_lines_move_little_more_than_the_file(files, remote, folder):
    text = "".join(f"line {i}, with some text\n" for i in range(40_000))
    remote.pipe_file(f"{folder}/lines", text.encode())
    before = files.bytes_moved
    with files.open(f"{folder}/lines", "r") as file:
        assert "".join(file) == text
    assert len(text) <= files.bytes_moved - before <= 1.01 * len(text)
    before = files.bytes_moved
    with files.open(f"{folder}/lines") as file:
        assert b"".join(file).decode() == text
    assert files.bytes_moved - before <= 1.01 * len(text)


def test_a_local_file_is_read_without_a_copy(files, folder):
    files.pipe_file(f"{folder}/x", pattern(1 << 20))
    before = files.bytes_moved
    with files.open(f"{folder}/x") as file:
        first, again = file.read_buffer(1 << 20), None
        file.seek(0)
        again = file.read_buffer(1 << 20)
    import numpy
    assert numpy.frombuffer(first, "u1").ctypes.data == numpy.frombuffer(again, "u1").ctypes.data
    assert bytes(first) == pattern(1 << 20) and files.bytes_moved == before


def test_a_reader_goes_on_with_the_file_that_was_replaced_or_removed(writer, folder):
    path, old = f"{folder}/x", pattern(300_000, 2)
    writer.pipe_file(path, old)
    with writer.open(path) as file:
        key = writer.ukey(path)
        writer.pipe_file(path, b"new")
        assert writer.ukey(path) != key and writer.cat_file(path) == b"new"
        assert file.read(200_000) == old[:200_000]
        writer.rm(path)
        assert file.read() == old[200_000:]
    assert not writer.exists(path)


# -------------------------------------------------------------------- folders

def test_folders_are_implied(files, folder):
    for path in ("a/x.csv", "a/b/y.csv", "a/b/c/z.txt", "q%~.csv"):
        files.pipe_file(f"{folder}/{path}", b"12")
    base = {f"{folder}/a", f"{folder}/q%~.csv"}
    assert set(files.ls(folder, detail=False)) == base
    assert {entry["type"] for entry in files.ls(folder)} == {"directory", "file"}
    assert files.ls(f"ocm://{folder}/a/x.csv") == [{"name": f"{folder}/a/x.csv", "size": 2, "type": "file"}]
    assert files.isdir(f"{folder}/a/b") and files.isfile(f"{folder}/a/b/y.csv") and not files.exists(f"{folder}/a/bb")
    tables = sorted(f"{folder}/{name}" for name in ("a/b/y.csv", "a/x.csv", "q%~.csv"))
    assert files.glob(f"{folder}/**/*.csv") == tables
    assert files.find(f"{folder}/a", maxdepth=1) == [f"{folder}/a/x.csv"]
    assert set(files.find(folder, maxdepth=2, withdirs=True)) == {
        folder, *base, f"{folder}/a/b", f"{folder}/a/x.csv"}
    assert [sorted(names) for _, _, names in files.walk(f"{folder}/a")] == [["x.csv"], ["y.csv"], ["z.txt"]]
    assert files.du(folder) == 8
    files.mkdir(f"{folder}/empty")
    files.makedirs(f"{folder}/a", exist_ok=True)
    with pytest.raises(OSError, match="files lie in"):
        files.rmdir(f"{folder}/a")
    with pytest.raises(IsADirectoryError):
        files.rm(f"{folder}/a")
    files.rm(f"{folder}/a", recursive=True)
    assert files.ls(folder, detail=False) == [f"{folder}/q%~.csv"]


def test_what_is_not_there(files, folder):
    for call in (lambda: files.open(f"{folder}/none"), lambda: files.info(f"{folder}/none"),
                 lambda: files.ls(f"{folder}/none"), lambda: files.rm(f"{folder}/none"),
                 lambda: files.cat_file(f"{folder}/none"), lambda: files.cp_file(f"{folder}/none", f"{folder}/x")):
        with pytest.raises(FileNotFoundError, match="no file of that path"):
            call()
    assert not files.exists(f"{folder}/none") and files.find(f"{folder}/none") == []


def test_empty_files(files, writer, folder):
    path = f"{folder}/empty"
    writer.touch(path)
    assert files.info(path)["size"] == 0 and files.cat_file(path) == b"" and files.open(path).read() == b""
    assert files.ls(folder) == [{"name": path, "size": 0, "type": "file"}]
    writer.pipe_file(path, b"x")
    assert files.ls(folder) == [{"name": path, "size": 1, "type": "file"}]
    writer.touch(path, truncate=False)
    assert files.cat_file(path) == b"x"
    writer.touch(path)
    assert files.size(path) == 0 and len(files.ls(folder)) == 1
    files.rm(path)
    assert not files.exists(path)


# -------------------------------------------------------------------- writing

@given(pieces=st.lists(st.integers(0, 200_000), max_size=6))
@SMALL
def test_what_is_written_in_pieces_is_read(files, remote, pieces):
    least, most = _fs_file.PART_BYTES_MIN, _fs_file.PART_BYTES_MAX
    _fs_file.PART_BYTES_MIN = _fs_file.PART_BYTES_MAX = 64 << 10
    try:
        content = pattern(sum(pieces))
        for fs in (files, remote):
            with fs.open("fs-pieces", "wb") as file:
                done = 0
                for nbytes in pieces:
                    assert file.write(content[done:done + nbytes]) == nbytes
                    done += nbytes
                    assert file.tell() == done
            assert files.cat_file("fs-pieces") == content
            assert files.cat_ranges(["fs-pieces"] * 2, [65_530, 0], [65_550, None]) == [content[65_530:65_550], content]
    finally:
        _fs_file.PART_BYTES_MIN, _fs_file.PART_BYTES_MAX = least, most
        files.rm("fs-pieces")


def test_parts_take_turns_on_the_nodes(cluster, folder, small_parts):
    fs = file_system(cluster, nodes=["n2", "n3"])
    content = pattern(300_000)
    with fs.open(f"{folder}/x", "wb") as file:
        file.write(content)
    allocation = fs.shared.session.attach(name_of(f"{folder}/x"))
    assert [extent.node for extent in allocation.extents()] == ["n2", "n3", "n2", "n3", "n2"]
    assert fs.cat_file(f"{folder}/x") == content


def test_a_file_needs_its_memory_once(make_cluster):
    cluster = make_cluster(2, budget=48 << 20)
    fs = file_system(cluster)
    content = os.urandom(1 << 20)
    with fs.open("large", "wb") as file:
        for _ in range(80):
            file.write(content)
    assert fs.size("large") == 80 << 20
    assert fs.cat_file("large", 79 << 20) == content
    assert used_bytes(fs) < 96 << 20


def test_a_file_for_which_there_is_no_room_leaves_nothing(make_cluster):
    cluster = make_cluster(2, budget=32 << 20)
    fs = file_system(cluster)
    with pytest.raises(OSError) as caught:
        with fs.open("large", "wb") as file:
            for _ in range(80):
                file.write(bytes(1 << 20))
    assert caught.value.errno == errno.ENOSPC and isinstance(caught.value.__cause__, oncilla.PoolFull)
    assert not fs.exists("large")
    wait_for("the memory is back", lambda: used_bytes(fs) < 1 << 20)


def test_a_file_appears_when_it_is_closed_and_only_then(files, folder, small_parts):
    path = f"{folder}/x"
    file = files.open(path, "wb")
    file.write(pattern(200_000))
    assert not files.exists(path)
    file.close()
    file.close()
    assert files.size(path) == 200_000
    with pytest.raises(ValueError):
        file.write(b"x")


def test_what_is_not_closed_well_leaves_nothing(files, folder, small_parts):
    before = settled(lambda: used_bytes(files))
    with pytest.raises(ZeroDivisionError):
        with files.open(f"{folder}/x", "wb") as file:
            file.write(pattern(200_000))
            raise ZeroDivisionError
    file = files.open(f"{folder}/x", "wb")
    file.write(pattern(200_000))
    del file
    assert files.find(folder) == []
    wait_for("the memory is back", lambda: used_bytes(files) <= before)


def test_a_transaction_gives_names_at_its_end(files, folder):
    with files.transaction:
        with files.open(f"{folder}/x", "wb") as file:
            file.write(b"1")
        assert not files.exists(f"{folder}/x")
    assert files.cat_file(f"{folder}/x") == b"1"
    with pytest.raises(ZeroDivisionError):
        with files.transaction:
            with files.open(f"{folder}/x", "wb") as file:
                file.write(b"2")
            raise ZeroDivisionError
    assert files.cat_file(f"{folder}/x") == b"1"


def test_exclusive_writing_and_appending(files, folder):
    for size in (0, 3):
        path = f"{folder}/{size}"
        files.pipe_file(path, b"old"[:size], mode="create")
        with pytest.raises(FileExistsError):
            files.pipe_file(path, b"new", mode="create")
        with pytest.raises(FileExistsError):
            with files.open(path, "xb") as file:
                file.write(b"new")
        assert files.cat_file(path) == b"old"[:size]
        with pytest.raises(io.UnsupportedOperation):
            files.open(path, "ab")


def test_copies_and_moves(files, remote, folder, tmp_path, small_parts):
    content = pattern(200_000)
    (tmp_path / "x").write_bytes(content)
    files.put_file(tmp_path / "x", f"{folder}/a/x")
    before = files.bytes_moved
    remote.cp_file(f"{folder}/a/x", f"{folder}/b/y")
    files.cp_file(f"{folder}/b/y", f"{folder}/c/z")
    assert files.bytes_moved == before
    files.mv(f"{folder}/c/z", f"{folder}/c/w")
    files.mv(f"{folder}/b", f"{folder}/d", recursive=True)
    files.mv(f"{folder}/a/x", f"{folder}/a/x")
    files.touch(f"{folder}/e")
    files.cp_file(f"{folder}/e", f"{folder}/f")
    assert files.find(folder) == [f"{folder}/{name}" for name in ("a/x", "c/w", "d/y", "e", "f")]
    for name in ("a/x", "c/w", "d/y"):
        files.get_file(f"{folder}/{name}", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == content
    files.get(folder, str(tmp_path / "all"), recursive=True)
    assert (tmp_path / "all/c/w").read_bytes() == content and (tmp_path / "all/e").read_bytes() == b""


def test_the_command_line_and_files_are_the_same(cluster, files, folder, tmp_path):
    (tmp_path / "x").write_bytes(pattern(1000))
    ocm = [str(find_binary("ocm")), "--socket", str(cluster["n1"].socket_path)]
    subprocess.run([*ocm, "put", str(tmp_path / "x"), "fs-from-cli"], check=True, timeout=30, capture_output=True)
    assert files.cat_file("fs-from-cli") == pattern(1000) and "fs-from-cli" in files.ls("", detail=False)
    files.mv("fs-from-cli", f"{folder}/y")
    subprocess.run([*ocm, "get", name_of(f"{folder}/y"), str(tmp_path / "y")], check=True, timeout=30,
                   capture_output=True)
    assert (tmp_path / "y").read_bytes() == pattern(1000)


def test_a_table_is_no_file(session, files):
    parts = [session.allocate(4096, dedicated=True), session.allocate(4096, dedicated=True)]
    parts[1].put_from(b"OCMTABLE" + bytes(56), 4096 - 64)
    session.join(parts).publish("fs-table")
    session.allocate(4096, dedicated=True).publish("fs-table~1~1")
    try:
        assert not files.exists("fs-table") and not [path for path in files.ls("", detail=False) if "fs-table" in path]
        with pytest.raises(OSError, match="a table, not a file"):
            files.open("fs-table")
        with pytest.raises(FileExistsError, match="a table has the name"):
            files.pipe_file("fs-table", b"x")
        with pytest.raises(FileExistsError, match="a table has the name"):
            files.touch("fs-table")
        with pytest.raises(OSError):
            files.rm("fs-table")
        with pytest.raises(OSError, match="a table"):
            files.rm_file("fs-table")
        assert session.attach("fs-table").nbytes == 8192
    finally:
        session.remove("fs-table")
        session.remove("fs-table~1~1")


# -------------------------------------------------------------------- bad luck

def test_a_killed_node_is_a_typed_error_and_a_replica_goes_on(make_cluster):
    cluster = make_cluster(3)
    there, twice = file_system(cluster, nodes="n2"), file_system(cluster, nodes=["n2", "n3"], replicas=2)
    content = pattern(200_000)
    there.pipe_file("one", content)
    with there.open("parts", "wb") as file:
        file.write(bytes(9 << 20))
    with twice.open("two", "wb") as file:
        file.write(content)
    with there.open("one") as one, twice.open("two") as two:
        assert one.read(10) == content[:10] and two.read(100_000) == content[:100_000]
        cluster["n2"].kill()
        with pytest.raises(OSError, match="n2") as caught:
            one.read()
        assert caught.value.errno == errno.EHOSTDOWN and isinstance(caught.value.__cause__, oncilla.PeerLost)
        assert two.read() == content[100_000:]
    assert twice.cat_file("two") == content
    assert there.find("") == ["one", "parts", "two"]
    there.rm(["one", "parts"])
    assert there.find("") == ["two"]


def test_no_daemon_is_a_refused_connection(tmp_path):
    with pytest.raises(ConnectionRefusedError, match="ocm up"):
        oncilla.fs.OcmFileSystem(socket=tmp_path / "none").ls("")


def run(code: str, cluster, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), str(cluster["n1"].socket_path), *arguments],
                            stdout=subprocess.PIPE, text=True)


def test_a_writer_that_dies_leaves_no_file_and_no_memory(cluster, files, folder):
    before = settled(lambda: used_bytes(files))
    process = run("""
        import sys, time, oncilla.fs
        fs = oncilla.fs.OcmFileSystem(socket=sys.argv[1])
        file = fs.open(sys.argv[2], "wb")
        file.write(bytes(40 << 20))
        print("written", flush=True)
        time.sleep(60)
        """, cluster, f"{folder}/x")
    try:
        assert process.stdout.readline() == "written\n"
        assert used_bytes(files) >= before + (32 << 20)
    finally:
        process.kill()
        process.communicate()
    wait_for("the memory is back", lambda: used_bytes(files) <= before)
    assert files.find(folder) == []


def test_threads(files, remote, folder):
    contents = {f"{folder}/{i}": pattern(300_000, i) for i in range(4)}

    def work(i: int) -> bool:
        fs = remote if i % 2 else files
        path = list(contents)[i % 4]
        if i < 4:
            fs.pipe_file(path, contents[path])
        fs.pipe_file(f"{folder}/same", pattern(1000, i))
        with fs.open(path) as file:
            file.seek(i * 1000)
            return file.read(250_000) == contents[path][i * 1000:i * 1000 + 250_000]

    with ThreadPoolExecutor(8) as executor:
        assert all(executor.map(work, range(4)))
        shared = list(executor.map(work, range(4, 32)))
    assert all(shared)
    assert files.cat_file(f"{folder}/same") in [pattern(1000, i) for i in range(32)]


def test_fork(files, remote, folder):
    path, content = f"{folder}/x", pattern(200_000)
    remote.pipe_file(path, content)
    with files.open(path) as file:
        assert file.read(1000) == content[:1000]
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(30)
                if file.read() == content[1000:] and files.cat_file(path) == content:
                    remote.pipe_file(f"{folder}/child", b"child")
                    code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert file.read() == content[1000:]
    assert files.cat_file(f"{folder}/child") == b"child"


def test_pickling(files, remote, folder):
    remote.pipe_file(f"{folder}/x", b"abcdef")
    again = pickle.loads(pickle.dumps(remote))
    assert again == remote and again.nodes == ["n2"] and again.cat_file(f"{folder}/x") == b"abcdef"
    with files.open(f"{folder}/x") as file:
        file.seek(2)
        assert pickle.loads(pickle.dumps(file)).read() == b"cdef"
