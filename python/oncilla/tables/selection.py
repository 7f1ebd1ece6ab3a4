"""Selections: columns and rows of a table, read when they are asked for."""
from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _core
from ..core.shown import shown_in
from .bounds import TRUE, columns_of, outcomes
from .predicate import columns_in, from_terms, groups_for, renumbered, to_expression
from .streams import called_by_polars, for_polars, guarded, reader_of

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from pyarrow.compute import Expression

    from ..snapshot import Readable, Snapshot

WHOLE_GROUPS = 1 << 62  # batch_rows: arrays never cross row groups anyway


class Plan(NamedTuple):
    """What to read of a snapshot: positions of columns and groups (None: all), and what is done with them here."""
    read: list[int] | None
    groups: list[int] | None
    output: list[int] | None  # positions in `read`; None: as read
    expression: Expression | None


class Selection:
    """Columns and rows of a table, made by `select()`. Each use reads the table's newest version, or the snapshot's.

    It has `__arrow_c_stream__`: DuckDB, Polars, pandas and pyarrow read it as it is.
    """

    def __init__(self, source: Readable, columns: Sequence[str | int] | str | None, filter: Any, batch_rows: int,
                 validate: bool) -> None:
        """As `Readable.select()`."""
        self._source = source
        self._columns = [columns] if isinstance(columns, (str, int)) else None if columns is None else list(columns)
        self._filter = filter
        self._batch_rows = batch_rows
        self._validate = validate
        self._meter = _core.Meter()
        if columns is not None or filter is not None:
            self._plan(self._opened())  # what is wrong with it is said now

    def _opened(self) -> Snapshot:
        return self._source.opened(self._meter)

    @property
    def bytes_moved(self) -> int:
        """Bytes moved from other nodes by its scans so far; of a Snapshot, by all scans of the snapshot."""
        return self._source.moved_by(self._meter)

    # ---------------------------------------------------------------- planning

    def _plan(self, snapshot: Snapshot, wanted: list[int] | None = None) -> Plan:
        """`wanted`: positions of the columns to give, instead of the selection's own."""
        if wanted is None and self._columns is not None:
            wanted = [snapshot.index(column) for column in self._columns]
        if self._filter is None:
            return Plan(wanted, None, None, None)
        import pyarrow.compute
        names = [field.name for field in snapshot.fields]
        if isinstance(self._filter, pyarrow.compute.Expression):
            needed = columns_in(self._filter, names)
            groups = groups_for(self._filter, snapshot, needed, pyarrow.schema(snapshot))
        else:
            tree = from_terms(self._filter, names, snapshot.name)
            needed = sorted(columns_of(tree))
            groups = [group for group, outcome in enumerate(outcomes(tree, snapshot)) if outcome & TRUE]
        if wanted is None:
            wanted = list(range(len(names)))
        read = sorted({*wanted, *needed})
        schema = pyarrow.schema(snapshot)
        schema = pyarrow.schema([schema.field(i) for i in read])
        expression = self._filter if isinstance(self._filter, pyarrow.compute.Expression) else to_expression(
            renumbered(tree, {column: i for i, column in enumerate(read)}), schema)
        return Plan(read, groups, [read.index(i) for i in wanted], expression)

    def _capsule(self, batch_rows: int = 0, wanted: list[int] | None = None) -> Any:
        snapshot = self._opened()
        plan = self._plan(snapshot, wanted)
        stream = snapshot.scan(plan.read, plan.groups, batch_rows=self._batch_rows or batch_rows,
                               validate=self._validate)
        if plan.expression is None or plan.output is None:
            return stream
        reader = reader_of(stream)
        names = reader.schema.names
        if len(set(names)) == len(names):
            from pyarrow.dataset import Scanner
            scanner = Scanner.from_batches(reader, columns=[names[i] for i in plan.output],
                                           filter=plan.expression)
            return scanner.to_reader().__arrow_c_stream__()
        return _filtered(reader, plan.output, plan.expression).__arrow_c_stream__()

    # ---------------------------------------------------------------- reading

    @property
    def schema(self) -> pyarrow.Schema:
        """The schema of what it gives."""
        import pyarrow
        return pyarrow.schema(self)

    def __arrow_c_schema__(self) -> Any:
        """The schema as an `arrow_schema` capsule."""
        snapshot = self._source.opened()
        if self._columns is None:
            return snapshot.__arrow_c_schema__()
        import pyarrow
        schema = pyarrow.schema(snapshot)
        fields = [schema.field(snapshot.index(column)) for column in self._columns]
        return pyarrow.schema(fields, schema.metadata).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """What was selected as an `arrow_array_stream` capsule, cast to `requested_schema` where that can be done."""
        capsule = self._capsule()
        if requested_schema is None:
            return for_polars(capsule, self._formats()) if called_by_polars() else capsule
        import pyarrow
        reader = reader_of(capsule)
        wanted = pyarrow.Schema._import_from_c_capsule(requested_schema)
        if wanted.equals(reader.schema):
            return reader.__arrow_c_stream__()
        try:
            reader = reader.cast(wanted)
        except (ValueError, pyarrow.ArrowNotImplementedError, pyarrow.ArrowTypeError):
            pass  # the interface has it so: what cannot be cast is given as it is
        return reader.__arrow_c_stream__()

    def _formats(self) -> list[str]:
        snapshot = self._source.opened()
        chosen = range(len(snapshot.fields)) if self._columns is None else map(snapshot.index, self._columns)
        return [snapshot.fields[i].format for i in chosen]

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """The batches in order; remote row groups are moved ahead of the reader.

        Raises: PeerLost, Lost: a node with a part of it is gone, and no replica.
        """
        return guarded(reader_of(self._capsule()))

    async def abatches(self) -> AsyncIterator[pyarrow.RecordBatch]:
        """The batches in order, for asyncio."""
        import asyncio
        batches = await asyncio.to_thread(self.batches)
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            yield batch

    def to_arrow(self) -> pyarrow.Table:
        """A pyarrow.Table; without a filter nothing local is copied. Raises: as `batches()`."""
        import pyarrow
        reader = reader_of(self._capsule(WHOLE_GROUPS if self._filter is None else 0))
        return pyarrow.Table.from_batches(guarded(reader), reader.schema)

    def to_pandas(self, *, arrow_dtypes: bool = False, **options: Any) -> pandas.DataFrame:
        """A pandas.DataFrame. `arrow_dtypes`: columns stay Arrow (pandas.ArrowDtype), with nulls and decimals."""
        if arrow_dtypes:
            import pandas
            options["types_mapper"] = pandas.ArrowDtype
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """A polars.DataFrame."""
        import polars
        return polars.DataFrame(self.to_arrow())

    def count(self) -> int:
        """How many rows it has. Without a filter nothing is moved."""
        if self._filter is None:
            return self._source.num_rows
        reader = reader_of(self._capsule(wanted=[]))
        return sum(batch.num_rows for batch in guarded(reader))

    def __repr__(self) -> str:
        columns = "all columns" if self._columns is None else ", ".join(map(str, self._columns)) or "no columns"
        where = "" if self._filter is None else f" where {self._filter}"
        return f"<oncilla.Selection of {self._source.name}: {columns}{where}>"


def _filtered(reader: pyarrow.RecordBatchReader, output: list[int],
              expression: Expression) -> pyarrow.RecordBatchReader:
    """The rows that pass, where two columns share a name, which pyarrow's scanner refuses."""
    import pyarrow
    schema = pyarrow.schema([reader.schema.field(i) for i in output], reader.schema.metadata)
    return pyarrow.RecordBatchReader.from_batches(
        schema, (batch.filter(expression).select(output) for batch in reader))


shown_in("oncilla.selection", Selection)
