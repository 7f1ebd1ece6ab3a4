"""What is known of a table's chunks, as a pyarrow table and as HTML."""
from __future__ import annotations

from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..core.html import size
from ..core.nodes import KIND_NAMES

if TYPE_CHECKING:
    import pyarrow

    from ..snapshot import Chunk, Snapshot

_COLUMNS_SHOWN, _CELLS_SHOWN = 64, 96
# Readable on light and on dark pages: the cells carry no text, everything else has the page's own colour.
_COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#dd8452")


def _bounds(snapshot: Snapshot, column: int, kind: pyarrow.DataType | None) -> tuple[list, list]:
    def shown(value: Any) -> Any:
        return str(value) if kind is None and value is not None else value
    pairs = snapshot.bounds(column)
    return [shown(low) for low, _ in pairs], [shown(high) for _, high in pairs]


def stats_table(snapshot: Snapshot, column: str | int | None) -> pyarrow.Table:
    """As `Readable.stats()`."""
    import pyarrow
    schema = pyarrow.schema(snapshot)
    chosen = list(range(len(schema))) if column is None else [snapshot.index(column)]
    bound_type = pyarrow.string()
    if column is not None and not pyarrow.types.is_dictionary(schema.field(chosen[0]).type):
        bound_type = schema.field(chosen[0]).type
    rows: dict[str, list[Any]] = {name: [] for name in ("group", "column", "node", "local", "rows", "nbytes", "nulls",
                                                        "minimum", "maximum")}
    for i in chosen:
        chunks = snapshot.chunks(i)
        low, high = _bounds(snapshot, i, None if column is None else bound_type)
        rows["group"] += range(len(chunks))
        rows["column"] += [schema.field(i).name] * len(chunks)
        for name in ("node", "local", "rows", "nbytes", "nulls"):
            rows[name] += [getattr(chunk, name) for chunk in chunks]
        rows["minimum"] += low
        rows["maximum"] += high
    types = {"group": pyarrow.int64(), "column": pyarrow.string(), "node": pyarrow.string(), "local": pyarrow.bool_(),
             "rows": pyarrow.int64(), "nbytes": pyarrow.int64(), "nulls": pyarrow.int64(), "minimum": bound_type,
             "maximum": bound_type}
    return pyarrow.table({name: pyarrow.array(values, types[name]) for name, values in rows.items()})


def _cells(chunks: list[Chunk], colors: dict[str, str]) -> str:
    """One cell for each row group; neighbours on one node are joined where there are too many."""
    runs = [(node, list(run)) for node, run in groupby(chunks, key=lambda chunk: chunk.node)]
    if len(chunks) <= _CELLS_SHOWN:
        runs = [(chunk.node, [chunk]) for chunk in chunks]
    out = []
    for node, run in runs[:_CELLS_SHOWN]:
        first, nbytes = run[0].first_row, sum(chunk.nbytes for chunk in run)
        rows = sum(chunk.rows for chunk in run)
        lost = any(chunk.lost for chunk in run)
        where = f"{node}{' (lost)' if lost else ''}: " if node else ""
        title = f"{where}rows {first:,} to {first + rows:,}, {size(nbytes)}"
        fill = "transparent" if lost else colors.get(node, "transparent")
        out.append(f'<span title="{escape(title)}" style="display:inline-block;width:.8em;height:.8em;margin:1px;'
                   f'background:{fill};border:1px solid {colors.get(node, "#999999")}"></span>')
    return "".join(out) + (" …" if len(runs) > _CELLS_SHOWN else "")


def add_by_node(chunks: list[Chunk], on_nodes: dict[str, int]) -> None:
    """Adds the chunks' bytes to those of their nodes; a chunk of no bytes is on none."""
    for chunk in chunks:
        if chunk.node:
            on_nodes[chunk.node] = on_nodes.get(chunk.node, 0) + chunk.nbytes


def table_html(name: str, snapshot: Snapshot) -> str:
    """Where each column of each row group lies: a line for each column, a cell for each row group."""
    info = snapshot.info
    shown = [(field.name, snapshot.chunks(i)) for i, field in enumerate(snapshot.fields[:_COLUMNS_SHOWN])]
    on_nodes: dict[str, int] = {}
    for _, chunks in shown:
        add_by_node(chunks, on_nodes)
    colors = {node: _COLORS[i % len(_COLORS)] for i, node in enumerate(sorted(on_nodes))}
    legend = " ".join(
        f'<span style="white-space:nowrap"><span style="display:inline-block;width:.8em;height:.8em;'
        f'background:{colors[node]}"></span> {escape(node)} {size(on_nodes[node])}</span>' for node in colors)
    lines = "".join(f'<tr><td style="text-align:left">{escape(column)}</td>'
                    f'<td style="text-align:right">{size(sum(chunk.nbytes for chunk in chunks))}</td>'
                    f'<td style="text-align:left">{_cells(chunks, colors)}</td></tr>' for column, chunks in shown)
    more = "" if info["columns"] <= _COLUMNS_SHOWN else f"<p>and {info['columns'] - _COLUMNS_SHOWN:,} more columns</p>"
    replicas = f", {info['replicas']} replicas" if info["replicas"] > 1 else ""
    kind = f", on {KIND_NAMES.get(info['kind'], 'unknown')}" if info["kind"] != 0 else ""
    return (f"<b>oncilla table {escape(name)}</b>: {info['rows']:,} rows, {info['columns']} columns, "
            f"{info['groups']} row groups, {size(info['bytes'])}{replicas}{kind}<br>{legend}"
            f"<table><tbody>{lines}</tbody></table>{more}")
