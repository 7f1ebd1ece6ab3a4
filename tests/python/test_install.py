"""The wheel: built from the tree, installed into an empty environment, and used there as a stranger would."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL_BYTES_MAX = 10 << 20
IMPORT_S_MAX = 0.150
# What any machine with Python and OpenSSL 3 has; the rest is inside.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2",
                    "libstdc++.so.6", "libgcc_s.so.1", "libssl.so.3", "libcrypto.so.3", "libz.so.1"}

pytestmark = pytest.mark.timeout(1800)


def run(*command: object, **options) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "OCM_", "ONCILLA"))}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=environment, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> pathlib.Path:
    """Built from the tree, unless $OCM_WHEEL is one. The rooms' libraries are those of the build under test, whose
    sources and options are the same; $OCM_WHEEL_WHOLE, as in `make test-long`: all is compiled."""
    if "OCM_WHEEL" in os.environ:
        return pathlib.Path(os.environ["OCM_WHEEL"])
    folder = tmp_path_factory.mktemp("wheel")
    compiled = os.environ.get("OCM_BIN_DIR")
    whole = compiled is None or "OCM_WHEEL_WHOLE" in os.environ
    settings = [] if whole else ["-C", f"cmake.define.OCM_COMPILED={compiled}"]
    run(sys.executable, "-m", "pip", "wheel", ROOT, *settings, "-C", f"build-dir={folder}/build",
        "--no-build-isolation", "--no-deps", "--no-index", "-q", "-w", folder, timeout=1500)
    built, = folder.glob("oncilla-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> pathlib.Path:
    """The folder of an environment with nothing but the wheel."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False, symlinks=True)
    run(sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--no-deps", "--no-index", "-q",
        wheel, timeout=300)
    return folder


def test_it_is_small_and_has_everything(wheel):
    assert wheel.stat().st_size <= WHEEL_BYTES_MAX
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        folder = next(name for name in names if name.endswith(".dist-info/entry_points.txt"))
        entries = archive.read(folder).decode()
    for name in ("__init__.py", "py.typed", "_core.pyi", "liboncilla.so", "bin/ocm", "bin/oncillad"):
        assert f"oncilla/{name}" in names
    modules = {path.relative_to(ROOT / "python").as_posix() for path in (ROOT / "python/oncilla").rglob("*.py")}
    assert "oncilla/fs/__init__.py" in modules and "oncilla/table.py" in modules and modules <= set(names)
    assert sum(re.fullmatch(r"oncilla/_core\..*so", name) is not None for name in names) == 1
    assert "ocm = oncilla.fs:OcmFileSystem" in entries and "oncillad = oncilla._programs:oncillad" in entries
    assert not [name for name in names if re.search(r"cuda|torch|libuc[pst]|rdma|verbs", name)]
    assert not [name for name in names if not name.startswith("oncilla")]


def test_it_needs_nothing_that_is_not_there(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    inside = {path.name for path in tmp_path.rglob("*")}
    binaries = [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert len(binaries) >= 4
    for binary in binaries:
        dynamic = run("readelf", "-d", binary, timeout=60)
        needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic))
        if binary.name == "_arrowfs.so":  # for who has pyarrow, whose libraries are loaded before it
            needed = {name for name in needed if not name.startswith(("libarrow.so.", "libarrow_python.so."))}
        assert needed <= SYSTEM_LIBRARIES | inside, binary
        assert not re.search(r"R(UN)?PATH.*\[/", dynamic), f"{binary} looks into a folder of the machine that built it"


def test_a_round_trip_without_a_daemon(installed, tmp_path):
    code = ("import oncilla\n"
            "with oncilla.connect(embedded=True, embedded_bytes=8 << 20) as session:\n"
            "    block = session.allocate(1 << 20)\n"
            "    block[3:8] = b'hello'\n"
            "    print(oncilla.__file__, block[3:8], bytes(memoryview(block)[3:8]))\n")
    said = run(installed / "bin/python", "-c", code, cwd=tmp_path, timeout=60)
    assert said.startswith(str(installed)) and said.count("b'hello'") == 2


def test_it_is_a_whole_node(installed):
    with tempfile.TemporaryDirectory(prefix="ocm-w-") as folder:
        cluster = pathlib.Path(folder) / "c"
        try:
            run(installed / "bin/ocm", "up", "--nodes", 2, "--dram", "64MiB", "--dir", cluster, timeout=60)
            socket = next(cluster.rglob("oncillad.sock"))
            code = ("import sys, oncilla\n"
                    "with oncilla.connect(sys.argv[1]) as session:\n"
                    "    block = session.allocate(1 << 20, remote=True)\n"
                    "    block[:5] = b'hello'\n"
                    "    print(len(session.nodes()), block[:5])\n")
            assert run(installed / "bin/python", "-c", code, socket, timeout=60) == "2 b'hello'\n"
        finally:
            run(installed / "bin/ocm", "down", "--dir", cluster, timeout=60)
    assert run(installed / "bin/oncillad", "--version", timeout=60)


def test_it_imports_quickly(installed):
    def seconds(code: str) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            run(installed / "bin/python", "-c", code, timeout=60)
            times.append(time.perf_counter() - start)
        return min(times)
    seconds("import oncilla")  # compiles the .py files
    assert seconds("import oncilla") - seconds("pass") <= IMPORT_S_MAX
