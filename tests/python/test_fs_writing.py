"""Files whose writing fails or is broken off: whatever the idiom, the path has what it had before."""
from __future__ import annotations

import contextlib
import errno
import gc
import io
import warnings

import fsspec
import pandas
import pytest

import oncilla.fs  # noqa: F401  (registers ocm://)
from harness import settled, wait_for
from oncilla.fs import file as _fs_file

BUDGET_BYTES = 8 << 20
OLD = b"a,b\n1,2\n"
LINE = "0123456789abcdef" * 4096  # 64 KiB
PATH = "folder/good.csv"


@pytest.fixture(scope="module")
def full_cluster():
    from conftest import Clusters
    clusters = Clusters()
    try:
        yield clusters(1, budget=BUDGET_BYTES)
    finally:
        clusters.close()


@pytest.fixture
def options(full_cluster, monkeypatch):
    """For a node with room for few parts, which are small."""
    monkeypatch.setattr(_fs_file, "PART_BYTES_MIN", 1 << 20)
    return {"socket": str(full_cluster["n1"].socket_path)}


@pytest.fixture
def files(options):
    """With a good file at PATH."""
    files = fsspec.filesystem("ocm", **options)
    files.pipe_file(PATH, OLD)
    yield files
    gc.collect()
    left = {path: files.cat_file(path)[:99] for path in files.find("")}
    files.rm("", recursive=True)
    assert left == {PATH: OLD}
    wait_for("the memory is back", lambda: used_bytes(files) == 0)


def used_bytes(files) -> int:
    return sum(node.used_bytes for node in files.shared.session.nodes())


class Stop(Exception):
    """What breaks a loop off."""


class Rows:
    """What raises when it is written as text."""

    def __str__(self) -> str:
        raise Stop


# Each writes with `step(write)`, which ends by an exception, in the way of its name.

def with_binary(files, options, step):
    with files.open(PATH, "wb") as file:
        step(lambda text: file.write(text.encode()))


def with_text(files, options, step):
    with files.open(PATH, "w") as file:
        step(file.write)


def fsspec_binary(files, options, step):
    with fsspec.open(f"ocm://{PATH}", "wb", **options) as file:
        step(lambda text: file.write(text.encode()))


def fsspec_text(files, options, step):
    with fsspec.open(f"ocm://{PATH}", "w", **options) as file:
        step(file.write)


def fsspec_gzip(files, options, step):
    with fsspec.open(f"ocm://{PATH}", "wb", compression="gzip", **options) as file:
        file.compresslevel = 0
        step(lambda text: file.write(text.encode()))


def try_finally(files, options, step):
    file = files.open(PATH, "wb")
    try:
        step(lambda text: file.write(text.encode()))
    finally:
        file.close()


def try_finally_text(files, options, step):
    file = files.open(PATH, "w")
    try:
        step(file.write)
    finally:
        file.close()


def closing(files, options, step):
    with contextlib.closing(files.open(PATH, "wb")) as file:
        step(lambda text: file.write(text.encode()))


def buffered(files, options, step):
    with io.BufferedWriter(files.open(PATH, "wb")) as file:
        step(lambda text: file.write(text.encode()))


def exit_stack(files, options, step):
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(contextlib.closing(files.open(PATH, "w")))
        step(file.write)


def generator(files, options, step):
    @contextlib.contextmanager
    def opened():
        file = files.open(PATH, "wb")
        try:
            yield file
        finally:
            file.close()

    with opened() as file:
        step(lambda text: file.write(text.encode()))


IDIOMS = [with_binary, with_text, fsspec_binary, fsspec_text, try_finally, try_finally_text, closing, buffered,
          exit_stack, generator]
idioms = pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.__name__)


def too_much(write) -> None:
    for _ in range(2 * BUDGET_BYTES // len(LINE)):
        write(LINE)


# ------------------------------------------------------------------ no room

@idioms
def test_what_does_not_fit_leaves_the_old_file(files, options, idiom):
    with pytest.raises(OSError) as caught:
        idiom(files, options, too_much)
    assert caught.value.errno == errno.ENOSPC


def test_a_frame_that_does_not_fit_leaves_the_old_file(files, options):
    frame = pandas.DataFrame({"a": [LINE] * (2 * BUDGET_BYTES // len(LINE))})
    with pytest.raises(OSError) as caught:
        frame.to_csv(f"ocm://{PATH}", storage_options=options)
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("text", [False, True])
def test_close_raises_where_nobody_heeded_the_failed_write(files, text):
    file = files.open(PATH, "w" if text else "wb")
    with contextlib.suppress(OSError):
        too_much(file.write if text else lambda line: file.write(line.encode()))
    with pytest.raises(OSError, match="nothing was published") as caught:
        file.close()
    assert caught.value.errno == errno.ENOSPC and file.closed
    assert isinstance(caught.value.__cause__, OSError)
    file.close()


def test_a_writer_takes_nothing_more_after_a_failed_write(files):
    before = settled(lambda: used_bytes(files))
    file = files.open(PATH, "wb")
    with pytest.raises(OSError):
        too_much(lambda line: file.write(line.encode()))
    with pytest.raises(OSError, match="nothing will be published") as caught:
        file.write(b"x")
    assert caught.value.errno == errno.ENOSPC
    wait_for("the memory is back", lambda: used_bytes(files) <= before)
    with pytest.raises(OSError):
        file.close()


def test_a_transaction_of_a_failed_write_publishes_nothing(files):
    with pytest.raises(OSError):
        with files.transaction:
            with files.open(PATH, "wb") as file:
                too_much(lambda line: file.write(line.encode()))


# ------------------------------------------------------------------ exceptions

@idioms
def test_an_exception_leaves_the_old_file(files, options, idiom):
    def step(write):
        write("half of it")
        raise Stop

    with pytest.raises(Stop):
        idiom(files, options, step)


def test_an_exception_leaves_the_old_file_where_it_is_compressed(files, options):
    def step(write):
        write("half of it")
        raise Stop

    with pytest.raises(Stop):
        fsspec_gzip(files, options, step)


def test_a_frame_that_raises_in_a_row_leaves_the_old_file(files, options):
    frame = pandas.DataFrame({"a": ["x"] * 5 + [Rows()] + ["x"]}, dtype=object)
    with pytest.raises(Stop):
        frame.to_csv(f"ocm://{PATH}", storage_options=options, chunksize=1)


def test_a_program_that_is_interrupted_leaves_the_old_file(files, options):
    def step(write):
        write("half of it")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fsspec_text(files, options, step)


def test_a_file_that_is_closed_in_a_later_except_is_discarded_and_says_so(files):
    file = files.open(PATH, "wb")
    file.write(b"half of it")
    with pytest.raises(Stop) as caught:
        try:
            raise Stop
        except Stop:
            file.close()
    assert file.closed
    notes = getattr(caught.value, "__notes__", ["nothing was published"])
    assert any("nothing was published" in note for note in notes)


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_file_that_is_written_while_an_exception_is_handled_is_published(files, options, mode):
    path, text = "handled", "all of it" if mode == "w" else b"all of it"
    try:
        raise Stop
    except Stop:
        with fsspec.open(f"ocm://{path}", mode, **options) as file:
            try:
                raise ZeroDivisionError
            except ZeroDivisionError:
                file.write(text)
    assert files.cat_file(path) == b"all of it"
    files.rm(path)


# ------------------------------------------------------------------ dropped

@pytest.mark.parametrize("kind", ["binary", "text", "buffered"])
def test_a_writer_that_is_dropped_warns_and_leaves_the_old_file(files, kind):
    file = files.open(PATH, "w" if kind == "text" else "wb")
    if kind == "buffered":
        file = io.BufferedWriter(file)
    file.write("half of it" if kind == "text" else b"half of it")
    with pytest.warns(ResourceWarning, match=f"{PATH}.*nothing was published"):
        del file
        gc.collect()


def test_a_writer_that_was_closed_or_discarded_does_not_warn(files):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(Stop):
            with files.open(PATH, "wb") as file:
                file.write(b"half of it")
                raise Stop
        with contextlib.suppress(OSError):
            with files.open(PATH, "wb") as file:
                too_much(lambda line: file.write(line.encode()))  # noqa: F821  (deleted after it)
        files.pipe_file("x", b"x")
        files.rm("x")
        del file
        gc.collect()
