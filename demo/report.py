"""The report of a run: one HTML file that needs nothing else, the plots as PNG beside it, and the numbers as JSON.

`results` is a dict of what the acts found, each key filled by the act that the section is about:
run        commit, time, scale, nodes, cores, memory_bytes, kernel, cpu, versions {package: version}, rounds, quick,
           seconds, checks
placement  data_bytes; nodes [{name, budget_bytes, used_bytes}]; tables [{name, how, replicas, rows, bytes, by_node}]
load       [{name, rows, bytes, seconds}]
sources    [{key, title, mean_ms}]; skipped {source's key: why}
queries    [{name, what, rows, needed_bytes, cells {source's key: {ms, min_ms, max_ms, moved_bytes}}}]
fusion     [{name, local {fused_ms, stepped_ms, written_bytes}, remote {...}}]
engines    [{name, cells {query: {engine and source: ms}}}]
second     code, attach_ms, query_ms, total_ms, answer, moved_bytes, loaded_bytes
failure    node, pid, table, error, code, took_ms, table_kept, rows_kept
bfs        searches [{title, mteps, ms, place, ratio, moved_share}]; phases [{title, phase: ms}]
outofcore  as outofcore.measure()
acts       [{title, start_s, seconds}]
"""
from __future__ import annotations

import html
import json
import pathlib

from matplotlib.figure import Figure

from . import outofcore, style
from .charts import CHARTS, MIB, number

STYLE = (pathlib.Path(__file__).with_name("report.css")).read_text()


def _(value: object) -> str:
    return html.escape(str(value))


def _table(head: list[str], rows: list[list[str]], names: int = 1) -> str:
    """The first `names` columns are text, the others numbers. Cells are HTML."""
    def cells(tag: str, row: list[str]) -> str:
        return "".join(f"<{tag}{'' if i < names else ' class=n'}>{cell}</{tag}>" for i, cell in enumerate(row))
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table></div>"


def ratio(results: dict, over: str, under: str) -> float | None:
    """Of the geometric means of two sources."""
    means = {source["key"]: source["mean_ms"] for source in results.get("sources", [])}
    return means[over] / means[under] if means.get(over) and means.get(under) else None


def moved_over_needed(results: dict) -> float | None:
    """The worst query's, at first touch."""
    found = [query["cells"]["remote"]["moved_bytes"] / query["needed_bytes"] for query in results.get("queries", [])
             if query["cells"].get("remote", {}).get("moved_bytes") and query["needed_bytes"]]
    return max(found, default=None)


def _tiles(results: dict) -> str:
    tiles = [
        (ratio(results, "local", "process"), "×", "own node's memory / Arrow in the process"),
        (ratio(results, "remote", "local"), "×", "remote, first touch / own node"),
        (ratio(results, "again", "local"), "×", "remote, second touch / own node"),
        (ratio(results, "cold", "remote"), "×", "Parquet from cold disk / remote, first touch"),
        (moved_over_needed(results), "", "bytes moved / bytes needed, worst query"),
    ]
    return "<div class=tiles>" + "".join(
        f"<div><b>{number(value)}{unit}</b><span>{_(what)}</span></div>" for value, unit, what in tiles
        if value is not None) + "</div>"


def _placement(results: dict) -> str:
    found = results["placement"]
    names = [node["name"] for node in found["nodes"]]
    rows = [[_(table["name"]), _(table["how"]), f"{table['replicas']}", f"{table['rows']:,}",
             number(table["bytes"] / MIB),
             *(number(table["by_node"][name] / MIB) if table["by_node"].get(name) else "" for name in names)]
            for table in found["tables"]]
    budget = found["nodes"][0]["budget_bytes"]
    return (f"<p>{number(found['data_bytes'] / MIB)} MiB of tables lie in the memory of {len(names)} nodes, none of "
            f"which may use more than {number(budget / MIB)} MiB.</p>" + "{plot:placement}"
            + _table(["table", "placed", "copies", "rows", "MiB", *(f"MiB on {_(name)}" for name in names)], rows, 2))


def _cell(query: dict, key: str) -> str:
    cell = query["cells"].get(key)
    if not cell:
        return "–"
    return f"<span title='{number(cell['min_ms'])} to {number(cell['max_ms'])} ms'>{number(cell['ms'])}</span>"


def _queries(results: dict) -> str:
    sources = results["sources"]
    rows = [[f"<b>{_(query['name'])}</b>", _(query["what"]), *(_cell(query, source["key"]) for source in sources),
             number(query["needed_bytes"] / MIB),
             number((query["cells"].get("remote", {}).get("moved_bytes") or 0) / MIB)] for query in results["queries"]]
    rows.append(["<b>mean</b>", "geometric", *(number(source["mean_ms"]) if source["mean_ms"] else "–"
                                               for source in sources), "", ""])
    base = next((source["mean_ms"] for source in sources if source["key"] == "local"), None)
    rows.append(["", "against the own node", *(f"{source['mean_ms'] / base:.2f}×" if source["mean_ms"] and base else "–"
                                               for source in sources), "", ""])
    head = ["query", "", *(_(source["title"]) for source in sources), "MiB needed", "MiB moved"]
    notes = "".join(f"<p class=note>{_(key)}: {_(why)}</p>" for key, why in results.get("skipped", {}).items())
    return ("<p>From a query's text to its whole answer by DuckDB with two threads, in milliseconds: the median of "
            f"{results['run']['rounds']} rounds in which every source has its turn. Every answer was checked against "
            "DuckDB on the Parquet files"
            + (" and against the published numbers" if results["run"]["scale"] == 1 else "") + ".</p>"
            "{plot:queries}" + _table(head, rows, 2) + notes
            + "<h3>Bytes</h3><p>Needed: the buffers of the columns that a query reads. Moved: what crossed from "
            "other nodes when they were read for the first time.</p>{plot:moved}")


def _fusion(results: dict) -> str:
    rows = []
    for query in results["fusion"]:
        for where in ("local", "remote"):
            cell = query[where]
            rows.append([f"<b>{_(query['name'])}</b>", where, number(cell["fused_ms"]), number(cell["stepped_ms"]),
                         f"{cell['stepped_ms'] / cell['fused_ms']:.1f}×", number(cell["written_bytes"] / MIB)])
    return ("<p>Fused, a query is one pipeline. Operator by operator, each stores its output as a table in the "
            "memory of the cluster and the next reads it.</p>{plot:fusion}"
            + _table(["query", "input", "fused, ms", "by operator, ms", "ratio", "MiB written"], rows, 2))


def _engines(results: dict) -> str:
    names = list(dict.fromkeys(name for row in results["engines"] for name in row["cells"]))
    rows = [[f"<b>{_(row['name'])}</b>",
             *(number(row["cells"][name]) if name in row["cells"] else "–" for name in names)]
            for row in results["engines"]]
    return "<p>The same tables under other engines, in milliseconds.</p>" + _table(["query", *map(_, names)], rows)


def _second(results: dict) -> str:
    found = results["second"]
    return (f"<p>Another process opened the tables by name and answered a query {number(found['total_ms'])} ms after "
            f"it was started: {number(found['attach_ms'])} ms to connect and open, {number(found['query_ms'])} ms for "
            f"the query. It loaded nothing; {number(found['moved_bytes'] / MIB)} MiB came from other nodes.</p>"
            f"<pre>{_(found['code'])}</pre><p>It printed <code>{_(found['answer'])}</code>.</p>")


def _failure(results: dict) -> str:
    found = results["failure"]
    return (f"<p>{_(found['node'])} (process {found['pid']}) was killed. A scan of <b>{_(found['table'])}</b>, of "
            f"which it held row groups, ended after {number(found['took_ms'])} ms with</p>"
            f"<pre class=bad>{_(found['error'])}</pre>"
            f"<p><b>{_(found['table_kept'])}</b>, which is held twice, went on answering: "
            f"{found['rows_kept']:,} rows, the right sum.</p>")


def _bfs(results: dict) -> str:
    found = results["bfs"]
    rows = [[_(search["title"]), number(search["mteps"]), number(search["ms"]),
             f"{search['ratio']:.2f}×" if search["ratio"] else "",
             f"{search['moved_share'] * 100:.1f} %" if search["moved_share"] is not None else ""]
            for search in found["searches"]]
    text = ("<p>The state of the vertices and the first neighbours of each lie in the program, the other neighbours "
            "where it says. Every tree was validated as Graph 500 asks.</p>{plot:bfs}"
            + _table(["search", "MTEPS", "ms", "time / plain arrays", "edges moved"], rows))
    phases = found.get("phases", [])
    if phases:
        keys = [key for key in phases[0] if key != "title"]
        text += ("<h3>Phases</h3>" + _table(["", *(f"{_(key)}, ms" for key in keys)],
                 [[_(row["title"]), *(number(row[key]) for key in keys)] for row in phases]))
    return text


def _outofcore(results: dict) -> str:
    found = results["outofcore"]
    rows = [[_(step["what"]), *(number(rate) if rate else "–" for rate in outofcore.rates(found, step))]
            for step in found["steps"]]
    caches = [[_(cache["node"]), f"{cache['accesses']:,}", f"{cache['hits'] / cache['accesses']:.0%}",
               *(f"{cache[key]:,}" for key in ("pages_from_home", "pages_from_other", "device_reads", "device_writes"))]
              for cache in found["caches"]]
    return (f"<p>An array of {number(found['array_bytes'] / MIB)} MiB lies on the device of one node. Two nodes cache "
            f"{number(found['cache_bytes'] / MIB)} MiB of it together, and a program on each uses it through plain "
            "pointers. Beside it, one program maps a file of that length, in as much memory. Every sum was checked.</p>"
            "{plot:outofcore}" + _table(["MiB/s", "pointers, two nodes", "mmap of a file"], rows)
            + (f"<p class=note>mmap: {_(found['skipped'])}</p>" if found["skipped"] else "")
            + "<h3>Where the pages came from</h3>"
            + _table(["cache of", "accesses", "hits", "from the home", "from the other cache", "device reads",
                      "device writes"], caches))


def _load(results: dict) -> str:
    took_s, stored = (sum(table[key] for table in results["load"]) for key in ("seconds", "bytes"))
    return (f"<p>{number(stored / MIB)} MiB in {took_s:.1f} s, read from Parquet, narrowed (money to 64-bit "
            "decimals, strings of few values to dictionaries) and stored.</p>{plot:load}")


SECTIONS = (
    ("placement", "What lies where", _placement),
    ("queries", "The queries", _queries),
    ("fusion", "Fused and operator by operator", _fusion),
    ("engines", "Other engines", _engines),
    ("second", "A second process", _second),
    ("failure", "A node dies", _failure),
    ("bfs", "Breadth-first search", _bfs),
    ("outofcore", "Memory larger than memory", _outofcore),
    ("load", "Loading", _load),
    ("acts", "Where the time went", lambda results: "{plot:acts}"),
)


def _facts(run: dict) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    facts = [f"TPC-H at scale factor {run['scale']:g}", f"{run['nodes']} nodes on one machine",
             f"{run['cores']} cores ({run['cpu']}), {run['memory_bytes'] / 2**30:.0f} GiB", f"Linux {run['kernel']}",
             f"commit {run['commit']}", versions, run["time"],
             f"{run['seconds']:.0f} s, {run['checks']} answers checked"]
    return "".join(f"<li>{_(fact)}</li>" for fact in facts)


Figures = dict[tuple[str, str], Figure]  # (chart, theme)


def _figures(results: dict) -> Figures:
    return {(chart.name, theme.name): chart.draw(results, theme) for chart in CHARTS if results.get(chart.needs)
            for theme in style.THEMES}


def page(results: dict, figures: Figures) -> str:
    """The report as one HTML document."""
    plots: dict[str, str] = {}
    for (name, theme), made in figures.items():
        plots[name] = plots.get(name, "") + f"<div class={theme}>{style.svg(made, f'{name}-{theme}')}</div>"
    body = ""
    for key, title, section in SECTIONS:
        if results.get(key):
            text = section(results)
            for name, plot in plots.items():
                text = text.replace(f"{{plot:{name}}}", f"<figure>{plot}</figure>")
            body += f"<section id={key}><h2>{_(title)}</h2>{text}</section>"
    return (f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f"<meta name=color-scheme content='light dark'><title>Oncilla: tables in cluster memory</title>"
            f"<style>{STYLE}</style><main><header><h1>Tables in cluster memory</h1>"
            f"<p class=lead>TPC-H in the memory of {results['run']['nodes']} nodes, queried where it lies.</p>"
            f"<ul class=facts>{_facts(results['run'])}</ul></header>{_tiles(results)}{body}</main></html>\n")


def write(results: dict, folder: pathlib.Path) -> list[pathlib.Path]:
    """-> what was written: the page first."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = _figures(results)
    written = [folder / "report.html", folder / "results.json"]
    written[0].write_text(page(results, figures), encoding="utf-8")
    written[1].write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    titles, themes = {chart.name: chart.title for chart in CHARTS}, {theme.name: theme for theme in style.THEMES}
    for (name, theme), made in figures.items():
        path = folder / (f"{name}.png" if theme == style.LIGHT.name else f"{name}-{theme}.png")
        style.png(made, path, titles[name], themes[theme])
        written.append(path)
    return written
