#!/usr/bin/env python3
"""Measures tables in cluster memory: every goal of the warehouse with what was reached, and the peers beside ours.

make bench-warehouse, or: bench/warehouse/run.py [--quick] [--sf N] [--rounds N] [--only queries,peers,...]
"""
from __future__ import annotations

import argparse
import pathlib
import pickle
import statistics
import sys
import tempfile
from collections.abc import Sequence

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

import duckdb  # noqa: E402
import pyarrow as pa  # noqa: E402

import goals  # noqa: E402
import oncilla  # noqa: E402
import parts  # noqa: E402
import peers  # noqa: E402
from demo import answers, measure, queries, sources, tpch, warehouse  # noqa: E402
from demo.cluster import ROOT, Cluster, Failed  # noqa: E402
from oncilla_bench import paths, programs, report  # noqa: E402

PARTS = ("queries", "transfer", "load", "fsspec", "fusion", "bfs", "peers")
BUDGET_BYTES_PER_SCALE = 3 << 30  # of each node; taken as it is touched


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three rounds; SF 0.1 unless --sf says else")
    parser.add_argument("--sf", type=float, help="TPC-H scale factor: 1, or 0.1 with --quick")
    parser.add_argument("--rounds", type=int, help="5, or 3 with --quick")
    parser.add_argument("--only", default=",".join(PARTS), help="parts of it, comma separated")
    options = parser.parse_args()
    options.sf = options.sf or (0.1 if options.quick else 1.0)
    options.rounds = options.rounds or (3 if options.quick else 5)
    options.parts = options.only.split(",")
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return options


class Run:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rows: list[goals.Row] = []
        self.beside: list[tuple[str, ...]] = []  # of the peers
        self.why: list[str] = []  # what was not measured
        self.log = report.Log(report.environment(), options.quick)
        self.log.path = self.log.path.with_name(f"{self.log.stem}-warehouse.jsonl")
        self.cluster: Cluster | None = None
        self.session: oncilla.Session | None = None
        self.loop = parts.RawLoop()
        self.raw_gb_s: list[float] = []

    # ---------------------------------------------------------------- what is measured

    def prepare(self) -> None:
        scale = self.options.sf
        paths.WORK.mkdir(parents=True, exist_ok=True)
        print(f"TPC-H at scale factor {scale:g}; huge pages for shared memory: {report.shared_huge_pages()}",
              flush=True)
        self.dataset = tpch.prepare(scale, ROOT / "build" / "demo" / "data")
        self.cluster = Cluster(3, max(256 << 20, int(BUDGET_BYTES_PER_SCALE * scale)))
        self.session = oncilla.connect(self.cluster.socket)
        self.nodes = tuple(self.cluster.nodes)
        self.rows_max = warehouse.group_rows(scale, len(self.nodes))
        for table in queries.columns_read():
            self.session.table(table).put(warehouse.reader(self.dataset, table), nodes=self.nodes, compact=True,
                                       group_rows=self.rows_max)
        warehouse.copies(self.session, "local", self.nodes[:1], self.rows_max)
        warehouse.copies(self.session, "remote", self.nodes[1:], self.rows_max, packed=True)
        self.session.cache(max(64 << 20, int(500e6 * scale)))
        self.local = warehouse.Pool(self.session, "local", "own node", "local.")
        self.remote = warehouse.Pool(self.session, "remote", "remote, first touch", "remote.")
        self.again = warehouse.Pool(self.session, "again", "remote, second touch", "remote.", again=True)
        self.process = sources.InProcess({table: sources.private_copy(snapshot)
                                          for table, snapshot in self.local.snapshots.items()})
        self.cached = sources.Parquet(self.dataset, cold=False)
        self.connection = measure.engine()
        self.right = measure.expected(self.connection, self.cached, queries.ALL, scale == 1)

    def board(self, *among: measure.Source) -> measure.Board:
        """The queries from these sources in turns; every turn is recorded."""
        board = measure.Board(self.right)
        board.rounds(self.connection, among, queries.ALL, self.options.rounds)
        for (source, query), cell in board.cells.items():
            self.log.write(record="warehouse_sample", source=source, query=query, seconds=cell.seconds,
                           moved_bytes=cell.moved_bytes)
        for source, why in board.skipped.items():
            self.why.append(f"{source}: {why}")
        return board

    def queries(self) -> None:
        cold = sources.Parquet(self.dataset, cold=True)
        every = (cold, self.cached, self.process, self.local, self.remote, self.again)
        board = self.board(*every)
        self.times(board, every)
        means = {source.key: [value * 1e3 for value in board.geometric_means_s(source.key, queries.ALL)]
                 for source in every}

        def row(what: str, ours: str, theirs: str, goal: float, at_least: bool = False) -> None:
            self.rows.append(goals.over(what, means[ours], means[theirs], goal, at_least=at_least,
                                        names=(ours, theirs)))
        scan = parts.whole_scan(self.connection, (self.process, self.local), max(5, self.options.rounds),
                                lambda what: None)
        self.rows.append(goals.over("scan of a table, same node / Arrow in the process",
                                    [s * 1e3 for s in scan["local"]],
                                    [s * 1e3 for s in scan["process"]], 1.05, names=("local", "process")))
        row("queries, same node / Arrow in the process", "local", "process", 1.05)
        row("remote, first touch / local zero copy", "remote", "local", 1.25)
        self.rows[-1].limit = self.limit_of([
            (board.cells[self.local.key, query.name].median_s, board.cells[self.remote.key, query.name].moved_bytes)
            for query in queries.ALL])
        row("remote, first touch / Parquet in the page cache", "remote", "cached", 0.7)
        row("Parquet from cold disk / remote, first touch", "cold", "remote", 3, at_least=True)
        row("second touch / local", "again", "local", 1.05)
        self.bytes_row("bytes moved / needed, native", board, self.remote, 1.01)

    def bytes_row(self, what: str, board: measure.Board, source: warehouse.Pool | parts.Files, goal: float) -> None:
        """All queries together; the extremes are those of single queries."""
        moved = {query.name: board.cells[source.key, query.name].moved_bytes for query in queries.ALL}
        needed = {query.name: source.needed_bytes(query) for query in queries.ALL}
        each = [moved[name] / needed[name] for name in moved]
        self.rows.append(goals.Row(what, sum(moved.values()) / sum(needed.values()), min(each), max(each), goal,
                                   note=f"{sum(moved.values()) / goals.MIB:,.1f} / "
                                        f"{sum(needed.values()) / goals.MIB:,.1f} MiB"))

    def times(self, board: measure.Board, among: tuple[measure.Source, ...]) -> None:
        """The medians of every query, in ms."""
        lines = [("ms, medians", *(query.name for query in queries.ALL))]
        for source in among:
            cells = (board.median_s(source.key, query.name) for query in queries.ALL)
            lines.append((source.title, *("-" if s is None else f"{s * 1e3:.1f}" for s in cells)))
        print("\n" + goals.aligned(lines) + "\n")

    def transfer(self) -> None:
        measured = parts.Transfer(self.session, self.nodes[1:], self.rows_max)
        ours, raw = [], []
        with measured:
            measured.ours()  # touches the memory that is used again, as the raw loop does
            for _ in range(self.options.rounds):
                ours.append(measured.ours())
                raw.append(self.raw())
        self.log.write(record="warehouse_transfer", ours=ours, raw=raw)
        self.rows.append(goals.over("transfer / raw transport bandwidth", ours, raw, 0.9, "GB/s", True,
                                    ("ours", "raw loop")))

    def raw(self) -> float:
        """GB/s of the raw loop now. Errors: programs.Failed."""
        self.raw_gb_s.append(self.loop.rate(0.05 if self.options.quick else 0.2))
        return self.raw_gb_s[-1]

    def limit_of(self, each: Sequence[tuple[float, float]]) -> float | None:
        """Remote over local, if all that remote took more were its bytes through the raw loop: the geometric mean over
        `each` (seconds of local, bytes moved)."""
        try:
            self.raw()
        except programs.Failed as failure:
            self.why.append(f"limit: {failure}")
            return None
        rate = statistics.median(self.raw_gb_s) * 1e9
        return statistics.geometric_mean((seconds + moved / rate) / seconds for seconds, moved in each)

    def load(self) -> None:
        ours, theirs = [], []
        for _ in range(self.options.rounds):
            ours.append(parts.load_ours(self.session, self.dataset, self.nodes))
            theirs.append(parts.load_duckdb(self.dataset))
        self.log.write(record="warehouse_load", ours=ours, duckdb=theirs)
        self.rows.append(goals.over("load from Parquet / DuckDB into its own table", ours, theirs, 1.0, "s",
                                    names=("ours", "DuckDB")))

    def fsspec(self) -> None:
        files = parts.Files(self.dataset, self.cluster.socket, self.nodes[1:])
        try:
            board = self.board(files)
            self.bytes_row("bytes moved / needed, through fsspec", board, files, 1.15)
        finally:
            files.close()

    def fusion(self) -> None:
        for source, nodes in ((self.local, self.nodes[:1]), (self.remote, self.nodes[1:])):
            for query in queries.STEPPED:
                fused, stepped, written = [], [], 0
                for _ in range(self.options.rounds):
                    fused.append(source.turn(self.connection, query, self.right[query.name])[0] * 1e3)
                    turn = warehouse.stepped(self.session, self.connection, query, source, nodes, self.rows_max)
                    answers.check(query, answers.summary(turn.answer), self.right[query.name], "by operator")
                    stepped.append(turn.seconds * 1e3)
                    written = turn.written_bytes
                self.log.write(record="warehouse_fusion", source=source.key, query=query.name, fused_ms=fused,
                               stepped_ms=stepped, written_bytes=written)
                row = goals.over(f"{query.name} by operator / fused, {source.title}", stepped, fused, None,
                                 names=("by operator", "fused"))
                row.note += f"; {written / goals.MIB:,.1f} MiB written"
                self.rows.append(row)

    def bfs(self) -> None:
        quick = self.options.quick
        arrays: dict[tuple, float] = {}  # the seconds in plain arrays, which come first
        for line in parts.search(self.cluster.socket, self.nodes[1], "16" if quick else "20,22", 4 if quick else 16,
                                 5 if quick else 7):
            self.log.write(record="warehouse_bfs", **line)
            subject = (line["graph"], line.get("scale"), line.get("direction"))
            if line["place"] == "arrays":
                arrays[subject] = (line["seconds"]["total"] if line["graph"] == "shoc" else line["seconds"])["median"]
            if line["place"] != "remote":
                continue
            # The tree of SHOC is put and got: offsets and neighbours, 12 bytes for a vertex.
            moved = line["moved_bytes_per_root"] if line["graph"] == "kron" else 24 * line["vertices"]
            name = "SHOC" if line["graph"] == "shoc" else f"Kronecker {line['scale']}, {line['direction']}"
            note = f"{line['mteps_harmonic_mean']:.0f} MTEPS" if "mteps_harmonic_mean" in line else ""
            self.rows.append(goals.Row(f"BFS {name}: remote / plain arrays", line["ratio"], goal=line["ratio_max"],
                                       note=note, limit=self.limit_of([(arrays[subject], moved)])))
            if "moved_share_max" in line:
                self.rows.append(goals.Row(f"BFS {name}: share of the edges moved", line["moved_share"],
                                           goal=line["moved_share_max"]))

    def peers(self) -> None:
        """Each peer's rounds alternate with those of ours that it is compared to."""
        ours = {"local": self.local, "remote": self.remote}
        with tempfile.TemporaryDirectory(prefix="ocmbench-") as folder:
            self.export(pathlib.Path(folder))
            for kind in peers.kinds():
                print(f"peer: {kind.title}", flush=True)
                if kind.missing:
                    self.why.append(f"{kind.title}: {kind.missing}")
                    continue
                try:
                    with kind.opened(pathlib.Path(folder)) as peer:
                        board = self.board(ours[kind.like], peer)
                except programs.Failed as failure:
                    self.why.append(f"{kind.title}: {failure}")
                    continue
                self.compare(kind, peer, board)

    def compare(self, kind: peers.Kind, peer: peers.Peer, board: measure.Board) -> None:
        """A row of the peers' table: ours, theirs, and ours over theirs; less than 1: ours is faster."""
        ours, theirs = (board.geometric_means_s(key, queries.ALL) for key in (kind.like, peer.key))
        ratio = statistics.median(ours) / statistics.median(theirs)
        self.log.write(record="warehouse_peer", peer=kind.title, like=kind.like, ours_s=ours, theirs_s=theirs,
                       store_s=peer.store_s)
        each = [f"{board.median_s(kind.like, query.name) / board.median_s(peer.key, query.name):.2f}"
                for query in queries.ALL]
        self.beside.append((kind.title, {"local": "own node", "remote": "remote, first touch"}[kind.like],
                            f"{statistics.median(ours) * 1e3:.1f}", f"{statistics.median(theirs) * 1e3:.1f}",
                            f"{ratio:.2f}",
                            *each))

    def export(self, folder: pathlib.Path) -> None:
        """What the peers store: the columns that the queries read, in our batches, and the right answers."""
        for table, data in self.process.tables.items():
            unified = data.unify_dictionaries()  # a file has one dictionary for each column
            with pa.ipc.new_file(str(folder / f"{table}.arrow"), unified.schema) as writer:
                for batch in unified.to_batches():
                    writer.write_batch(batch)
        (folder / "right").write_bytes(pickle.dumps(self.right))

    # ---------------------------------------------------------------- the run

    def run(self) -> None:
        self.prepare()
        self.log.write(record="warehouse_run", scale=self.options.sf, rounds=self.options.rounds,
                       parts=self.options.parts)
        for part in PARTS:
            if part in self.options.parts:
                print(f"{part} ...", flush=True)
                try:
                    getattr(self, part)()
                except (programs.Failed, Failed, oncilla.Error, duckdb.Error) as failure:
                    self.why.append(f"{part}: {failure}")
        self.show()

    def show(self) -> None:
        for row in self.rows:
            self.log.write(record="warehouse_row", what=row.what, ratio=row.ratio, min=row.least, max=row.most,
                           goal=row.goal, at_least=row.at_least, met=row.met, note=row.note)
        print("\n" + goals.text(self.rows))
        if self.beside:
            head = ("peer", "against ours", "ours, ms", "peer, ms", "ours/peer", *(query.name for query in queries.ALL))
            print("\nThe geometric mean of the seven queries, and ours / peer for each (less than 1: ours is faster)")
            print(goals.aligned([head, *self.beside]))
        for why in self.why:
            print(f"not measured: {why}")
        missed = sum(row.met is False for row in self.rows)
        print(f"\n{sum(row.met is True for row in self.rows)} goals met, {missed} missed; "
              f"samples: {self.log.path.relative_to(ROOT)}")

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
        if self.cluster is not None:
            self.cluster.close()


programs.run_to_end(Run(arguments()))
