"""The main job, `make demo`: TPC-H in the memory of three nodes, queried where it lies, in at most three minutes.

    make demo ARGS="--sf 0.1 --nodes 4"
    make demo ARGS="--quick"         # SF 0.1 and fewer rounds
    make demo ARGS="--keep"          # leaves the cluster running and says how to use it

Ends with 0 when every answer was right and every failure was what it should be, else with 1.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import signal
import sys
import traceback

os.environ.setdefault("POLARS_MAX_THREADS", "2")  # read when it is imported; DuckDB's are set where it is opened

from . import answers, cluster, outofcore, tpch  # noqa: E402
from .job import Failed, Job  # noqa: E402
from .terminal import Terminal  # noqa: E402

SCALES = (0.05, 100.0)
NODES = (3, 16)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__.split("\n")[0],
                                     epilog='with make: make demo ARGS="--sf 0.1 --keep"')
    parser.add_argument("--sf", type=float, help="TPC-H scale factor (1; 0.1 with --quick)")
    parser.add_argument("--nodes", type=int, default=3, help=f"of the cluster, {NODES[0]} to {NODES[1]} (3)")
    parser.add_argument("--quick", action="store_true", help="SF 0.1 and two rounds, within a minute")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running and kill no node")
    parser.add_argument("--report", type=pathlib.Path, help="where the report goes (build/demo/report)")
    options = parser.parse_args()
    options.sf = options.sf or (0.1 if options.quick else 1.0)
    if not SCALES[0] <= options.sf <= SCALES[1]:
        parser.error(f"--sf is from {SCALES[0]:g} to {SCALES[1]:g}")
    if not NODES[0] <= options.nodes <= NODES[1]:
        parser.error(f"--nodes is from {NODES[0]} to {NODES[1]}: one of its own, two for copies")
    options.rounds = 2 if options.quick else 5
    options.folder = pathlib.Path(os.environ.get("OCM_DEMO_DIR", cluster.ROOT / "build" / "demo"))
    options.report = options.report or options.folder / "report"
    return options


def _stop(number: int, frame: object) -> None:
    raise SystemExit(128 + number)  # so that the cluster is stopped


def main() -> int:
    options = arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    terminal = Terminal()
    job = Job(options, terminal)
    try:
        job.run()
        return 0
    except KeyboardInterrupt:
        terminal.say("\ninterrupted")
        return 130
    except (answers.Wrong, cluster.Failed, outofcore.Wrong, tpch.Failed, Failed) as failure:
        terminal.say(f"\nFAILED: {failure}")
        return 1
    except Exception:  # anything else is a fault of ours: with its place
        traceback.print_exc()
        return 1
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C does not leave daemons behind
        job.close()


if __name__ == "__main__":
    sys.exit(main())
