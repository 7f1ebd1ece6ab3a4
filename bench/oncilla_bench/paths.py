"""Where things are: the tree, the built binaries, what a run may write."""
import os
import pathlib

BENCH = pathlib.Path(__file__).resolve().parent.parent
ROOT = BENCH.parent
BIN = pathlib.Path(os.environ.get("OCM_BIN_DIR", ROOT / "build" / "release"))
WORK = ROOT / "build" / "bench"  # programs built here, logs, sockets, meeting files
VENV = ROOT / "build" / "bench-venv"  # the peers that are Python packages
RESULTS = BENCH / "results"


def oncillad():
    return BIN / "daemon" / "oncillad"


def ocm_bench():
    return BIN / "bench" / "ocm_bench"
