"""The acts of the main job, in order. Each fills its part of the results; report.py says what they are."""
from __future__ import annotations

import argparse
import contextlib
import decimal
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import oncilla

from . import (
    answers,
    bfs,
    machine,
    measure,
    outofcore,
    polars_queries,
    queries,
    report,
    second,
    sources,
    tpch,
    warehouse,
)
from .charts import MIB, number
from .cluster import ROOT, Cluster, run
from .measure import Cell, Source
from .terminal import Terminal

# The tables of SF 1 take 940 MB. A node's budget is less than that, and enough for its share of the tables, of the
# copies that tell local from remote, and of what is stored between operators.
BUDGET_BYTES_PER_SCALE = 890e6
CACHE_BYTES_PER_SCALE = 400e6


class Failed(Exception):
    """Something did not happen as it must; the text says what."""


class Job:
    """The whole run. `close()` stops the cluster, whatever happened."""

    cluster: Cluster
    session: oncilla.Session

    def __init__(self, options: argparse.Namespace, terminal: Terminal) -> None:
        self.options, self.terminal = options, terminal
        self.results: dict = {"acts": []}
        self.checks = 0
        self.opened = contextlib.ExitStack()
        self.began = time.monotonic()

    @contextlib.contextmanager
    def act(self, title: str) -> Iterator[None]:
        self.terminal.heading(title)
        start = time.monotonic()
        yield
        self.results["acts"].append({"title": title, "start_s": start - self.began,
                                     "seconds": time.monotonic() - start})

    def right(self, holds: bool, otherwise: str) -> None:
        """Counts a check. Errors: Failed."""
        if not holds:
            raise Failed(otherwise)
        self.checks += 1

    def run(self) -> None:
        """Errors: Failed, answers.Wrong, tpch.Failed, cluster.Failed, oncilla.Error."""
        with self.act("TPC-H data"):
            self.make_data()
        with self.act(f"{self.options.nodes} nodes"):
            self.start_cluster()
        with self.act("Tables into their memory"):
            self.load()
        with self.act("Queries from everywhere"):
            self.measure()
        with self.act("Fused and operator by operator"):
            self.measure_steps()
        with self.act("Another engine"):
            self.measure_engines()
        with self.act("A second process"):
            self.attach()
        self.let_go()
        if not self.options.keep:
            with self.act("A node dies"):
                self.kill()
        with self.act("Breadth-first search"):
            self.search()
        with self.act("Memory larger than memory"):
            self.point()
        with self.act("Report"):
            self.write()

    # ---------------------------------------------------------------- data, nodes, tables

    def make_data(self) -> None:
        with self.terminal.bar("generating", tpch.parts_of(self.options.sf)) as bar:
            self.dataset = tpch.prepare(self.options.sf, self.options.folder / "data", lambda done, parts: bar.at(done))
        files = self.dataset.all_files()
        self.terminal.say(f"  scale factor {self.options.sf:g}: {len(files)} Parquet files, "
                          f"{number(self.dataset.bytes() / MIB)} MiB, in {self.dataset.folder}")

    def start_cluster(self) -> None:
        budget = int(BUDGET_BYTES_PER_SCALE * self.options.sf) >> 16 << 16
        self.cluster = self.opened.enter_context(Cluster(self.options.nodes, budget))
        self.session = self.opened.enter_context(oncilla.connect(self.cluster.socket))
        self.nodes = tuple(self.cluster.nodes)
        self.terminal.say(f"  {', '.join(self.nodes)}: daemons on this machine with {number(budget / MIB)} MiB each; "
                          f"this program talks to {self.nodes[0]}")

    def load(self) -> None:
        plans = warehouse.plans(self.nodes)
        self.rows_max = warehouse.group_rows(self.options.sf, len(self.nodes))
        loaded = []
        for plan in plans:
            rows = warehouse.rows_in(self.dataset, plan.table)
            with self.terminal.bar(plan.table, rows) as bar:
                loaded.append(warehouse.load(self.session, self.dataset, plan, self.rows_max,
                                             lambda done, size: bar.at(done)))
            self.right(loaded[-1]["rows"] == rows, f"{plan.table} has {loaded[-1]['rows']:,} rows instead of {rows:,}")
        self.results["load"] = loaded
        stored, took_s = sum(table["bytes"] for table in loaded), sum(table["seconds"] for table in loaded)
        tables = [{**{key: table[key] for key in ("name", "rows", "bytes")}, "how": plan.how, "replicas": plan.replicas,
                   "by_node": warehouse.on_nodes(self.session, plan.table)}
                  for plan, table in zip(plans, loaded, strict=True)]
        self.results["placement"] = {
            "data_bytes": stored, "tables": tables,
            "nodes": [{"name": node.name, "budget_bytes": node.pool_bytes, "used_bytes": node.used_bytes}
                      for node in sorted(self.session.nodes(), key=lambda node: self.nodes.index(node.name))]}
        self.terminal.say(f"  {number(stored / MIB)} MiB in {took_s:.1f} s\n")
        self.terminal.placement(self.results["placement"])
        budget = self.cluster.budget_bytes
        self.right(stored > budget, f"the tables ({stored:,} bytes) fit into one node's budget of {budget:,} bytes")

    # ---------------------------------------------------------------- queries

    def measure(self) -> None:
        session = self.session
        warehouse.copies(session, "local", self.nodes[:1], self.rows_max)
        warehouse.copies(session, "remote", self.nodes[1:], self.rows_max, packed=True)
        session.cache(int(CACHE_BYTES_PER_SCALE * self.options.sf))
        self.local = warehouse.Pool(session, "local", "cluster, own node", "local.")
        self.remote = warehouse.Pool(session, "remote", "cluster, remote, first touch", "remote.")
        self.pools = [self.local, self.remote,
                      warehouse.Pool(session, "again", "cluster, remote, second touch", "remote.", again=True),
                      warehouse.Pool(session, "spread", "cluster, as loaded, first touch")]
        process = sources.InProcess({table: sources.private_copy(snapshot)
                                     for table, snapshot in self.local.snapshots.items()})
        cached = sources.Parquet(self.dataset, cold=False)
        every = [sources.Parquet(self.dataset, cold=True), cached, process, *self.pools]
        self.connection = measure.engine()
        self.board = measure.Board(measure.expected(self.connection, cached, queries.ALL, self.options.sf == 1))
        turns = self.options.rounds * len(queries.ALL) * len(every)
        done = 0

        def advanced(source: Source, query: queries.Query) -> None:
            nonlocal done
            done += 1
            bar.at(done, f"{query.name} from {source.title}")
        with self.terminal.bar("queries", turns) as bar:
            self.board.rounds(self.connection, every, queries.ALL, self.options.rounds, advanced)
        self.checks += self.board.checks
        self.collect(every)
        self.terminal.queries(self.results)
        for key, why in self.board.skipped.items():
            self.terminal.say(f"  {key} was not measured: {why}")
        self.terminal.say(f"  ms, median of {self.options.rounds}; {self.board.checks} answers, all right")

    def collect(self, every: list[Source]) -> None:
        def cell(found: Cell) -> dict:
            return {"ms": found.median_s * 1e3, "min_ms": min(found.seconds) * 1e3, "max_ms": max(found.seconds) * 1e3,
                    "moved_bytes": found.moved_bytes}
        means = [(source, self.board.geometric_mean_s(source.key, queries.ALL)) for source in every]
        self.results["sources"] = [{"key": source.key, "title": source.title,
                                    "mean_ms": None if mean_s is None else mean_s * 1e3}
                                   for source, mean_s in means]
        self.results["skipped"] = self.board.skipped
        self.results["queries"] = [
            {"name": query.name, "what": query.what, "rows": self.board.right[query.name][0],
             "needed_bytes": self.remote.needed_bytes(query),
             "cells": {source.key: cell(self.board.cells[source.key, query.name]) for source in every
                       if (source.key, query.name) in self.board.cells}} for query in queries.ALL]

    def measure_steps(self) -> None:
        rounds = 1 if self.options.quick else 3
        found: dict[str, dict[str, Any]] = {query.name: {"name": query.name} for query in queries.STEPPED}
        places = ((self.local, self.nodes[:1]), (self.remote, self.nodes[1:]))
        with self.terminal.bar("by operator", rounds * len(found) * len(places)) as bar:
            done = 0
            for query in queries.STEPPED:
                for source, nodes in places:
                    turns = []
                    for _ in range(rounds):
                        turns.append(warehouse.stepped(self.session, self.connection, query, source, nodes,
                                                       self.rows_max))
                        answers.check(query, answers.summary(turns[-1].answer), self.board.right[query.name],
                                      f"{source.title}, by operator")
                        self.checks += 1
                        done += 1
                        bar.at(done, query.name)
                    middle = sorted(turns, key=lambda turn: turn.seconds)[len(turns) // 2]
                    found[query.name][source.key] = {
                        "fused_ms": self.board.cells[source.key, query.name].median_s * 1e3,
                        "stepped_ms": middle.seconds * 1e3, "written_bytes": middle.written_bytes}
        self.results["fusion"] = list(found.values())
        self.terminal.table(
            ["  query", "input", "fused, ms", "by operator, ms", "ratio", "MiB written"],
            [[f"  {query['name']}", where, number(query[where]["fused_ms"]), number(query[where]["stepped_ms"]),
              f"{query[where]['stepped_ms'] / query[where]['fused_ms']:.1f}",
              number(query[where]["written_bytes"] / MIB)]
             for query in self.results["fusion"] for where in ("local", "remote")], 2)

    def measure_engines(self) -> None:
        """The same tables under Polars, beside DuckDB."""
        found: list[dict[str, Any]] = []
        for name, (query, written) in polars_queries.QUERIES.items():
            cells = {"DuckDB, own node": self.board.cells["local", name].median_s * 1e3,
                     "DuckDB, remote": self.board.cells["remote", name].median_s * 1e3}
            for source, title in ((self.local, "Polars, own node"), (self.remote, "Polars, remote")):
                frames = {table: source.snapshots[table].scan_polars() for table in query.reads}
                turns = []
                for _ in range(self.options.rounds):
                    source.before(query)
                    start = time.perf_counter()
                    answer = written(frames).collect(engine="streaming").to_arrow()
                    turns.append(time.perf_counter() - start)
                    answers.check(query, answers.summary(answer), self.board.right[name], title)
                    self.checks += 1
                cells[title] = statistics.median(turns) * 1e3
            found.append({"name": name, "cells": cells})
        self.results["engines"] = found
        titles = list(found[0]["cells"])
        self.terminal.table(["  query", *titles],
                            [[f"  {row['name']}", *(number(row["cells"][title]) for title in titles)] for row in found])

    # ---------------------------------------------------------------- others, failures

    def attach(self) -> None:
        start = time.perf_counter()
        output = run([sys.executable, "-m", "demo.second"], cwd=ROOT,
                     env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OCM_SOCKET": self.cluster.socket})
        total_ms = (time.perf_counter() - start) * 1e3
        found = json.loads(output)
        wanted = second.expected(self.connection, sources.Parquet(self.dataset, cold=False).relations)
        self.right(found["answer"] == wanted, f"the second process answered {found['answer']} instead of {wanted}")
        self.results["second"] = {**found, "total_ms": total_ms, "code": second.code(), "loaded_bytes": 0,
                                  "answer": "; ".join(" ".join(row) for row in wanted)}
        self.terminal.say(f"  answered {number(total_ms)} ms after its start ({number(found['attach_ms'])} ms to "
                          f"import and open, {number(found['query_ms'])} ms for the query); it loaded nothing, "
                          f"{number(found['moved_bytes'] / MIB)} MiB were moved")
        self.terminal.say("  " + second.code().replace("\n", "\n  "))
        for row in wanted:
            self.terminal.say("  -> " + " ".join(row))

    def let_go(self) -> None:
        """Of the copies that told local from remote."""
        for source in self.pools:
            source.close()
        for prefix in ("local", "remote"):
            for table in queries.columns_read():
                self.session.table(f"{prefix}.{table}").drop()
        self.session.cache(0)

    def kill(self) -> None:
        victim = self.nodes[-1]
        lost, kept = self.session.table("lineitem").snapshot(), self.session.table("orders")
        pid = self.cluster.kill(victim)
        start = time.perf_counter()
        try:
            lost.select(["l_extendedprice"]).to_arrow()
        except oncilla.Error as error:
            failure = error
        else:
            raise Failed(f"a scan of lineitem gave an answer although {victim} is gone")
        took_ms = (time.perf_counter() - start) * 1e3
        self.terminal.say(f"  kill -9 {pid}: {victim} is gone. A scan of lineitem ends after {number(took_ms)} ms:")
        self.terminal.say(f"  {failure}")
        self.right("lineitem" in str(failure) and victim in str(failure),
                   f"the error does not name the table lineitem and the node {victim}: {failure}")
        sql = "select count(*) as n, sum(o_totalprice) as total from {orders}"
        right = measure.answer(self.connection, sql.format(**sources.Parquet(self.dataset, cold=False).relations))
        self.connection.register("kept_orders", kept)
        answer = measure.answer(self.connection, sql.format(orders="kept_orders"))
        self.right(answer.to_pylist() == right.to_pylist(), f"orders answers {answer.to_pylist()} after {victim} died")
        self.connection.unregister("kept_orders")
        rows, total = answer.to_pylist()[0].values()
        assert isinstance(total, decimal.Decimal)
        self.terminal.say(f"  orders is held twice and goes on answering: {rows:,} rows, sum of o_totalprice {total:,}")
        self.results["failure"] = {
            "node": victim, "pid": pid, "table": "lineitem", "error": str(failure), "code": failure.code,
            "took_ms": took_ms, "table_kept": "orders", "rows_kept": rows}
        lost.close()

    def search(self) -> None:
        self.results["bfs"] = bfs.search(self.cluster.socket, self.nodes[1], self.options.quick)
        self.checks += len(self.results["bfs"]["searches"])
        self.terminal.table(["  search", "MTEPS", "ms"],
                            [[f"  {search['title']}", number(search["mteps"]), number(search["ms"])]
                             for search in self.results["bfs"]["searches"]])

    def point(self) -> None:
        """Plain pointers of two nodes into an array of twice what they cache."""
        with self.terminal.bar("out of core", 2 * len(outofcore.STEPS)) as bar:
            found = outofcore.measure(self.options.quick, self.options.folder, bar.at)
        self.results["outofcore"] = found
        self.checks += found["checks"]
        self.terminal.say(f"  {number(found['array_bytes'] / MIB)} MiB on the device of one node, "
                          f"{number(found['cache_bytes'] / MIB)} MiB of cache on two nodes; every sum was checked")
        self.terminal.table(
            ["  MiB/s", "pointers, two nodes", "mmap of a file, as much memory"],
            [[f"  {step['what']}", *(number(rate) if rate else "-" for rate in outofcore.rates(found, step))]
             for step in found["steps"]])
        counted = ("pages_from_home", "pages_from_other", "device_reads")
        self.terminal.table(
            ["  cache of", "accesses", "hits", "pages from home", "from the other", "device reads"],
            [[f"  {cache['node']}", f"{cache['accesses']:,}", f"{cache['hits'] / cache['accesses']:.0%}",
              *(f"{cache[key]:,}" for key in counted)] for cache in found["caches"]])
        if found["skipped"]:
            self.terminal.say(f"  mmap was not measured: {found['skipped']}")

    # ---------------------------------------------------------------- the end

    def write(self) -> None:
        self.results["run"] = {
            **machine.describe(), "scale": self.options.sf, "nodes": self.options.nodes, "quick": self.options.quick,
            "rounds": self.options.rounds, "checks": self.checks, "seconds": time.monotonic() - self.began}
        self.terminal.say(f"  {self.checks} answers and failures checked, all as they must be")
        for path in report.write(self.results, self.options.report):
            if path.suffix == ".html" or not path.stem.endswith("-dark"):
                self.terminal.say(f"  {path}")
        if self.options.keep:
            self.cluster.keep = True
            self.explain()

    def explain(self) -> None:
        """How to play on with the cluster that runs on."""
        self.terminal.say(
            "\nThe cluster runs on with its tables. To use it:\n\n"
            f"  export OCM_SOCKET={self.cluster.socket}\n"
            f"  export PYTHONPATH={':'.join(path for path in sys.path if path.endswith('python'))}\n"
            f"  {sys.executable}\n"
            "  >>> import duckdb, oncilla\n"
            "  >>> session = oncilla.connect()\n"
            "  >>> lineitem = session.table('lineitem')\n"
            "  >>> duckdb.sql('select l_shipmode, count(*) from lineitem group by all')\n"
            "  >>> lineitem.scan_polars().head(5).collect()\n\n"
            f"  kill -9 {self.cluster.nodes[self.nodes[-1]]['pid']}   # a node dies\n"
            f"  {self.cluster.stop_command()}   # stop it")

    def close(self) -> None:
        self.opened.close()
