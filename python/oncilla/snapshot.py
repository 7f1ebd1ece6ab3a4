"""Tables as they were at one moment, and what can be read of them."""
from __future__ import annotations

import functools
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core
from .core.errors import Error, InvalidArgument, OutOfRange
from .engines.duckdb import DuckdbSource
from .tables.bounds import python_value
from .tables.predicate import index_of
from .tables.selection import Selection
from .tables.stats import add_by_node, stats_table, table_html
from .tables.streams import called_by_polars, for_polars

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import pyarrow.dataset
    from pyarrow.compute import Expression


PLACEMENTS = {"rows": 0, "column": 1, "whole": 2}
PLACEMENT_DEFAULT = 3


class Field(NamedTuple):
    """A column: its name, its format in the Arrow C data interface, and that of its dictionary's values or None."""
    name: str
    format: str
    values: str | None


class Chunk(NamedTuple):
    """One column of one row group. Bounds are stored numbers: see `Readable.stats()` for their values.

    One of no bytes (of the type null, or packed and of one value) is local and on no node: "".
    """
    first_row: int
    rows: int
    nbytes: int
    nulls: int
    minimum: int | float | None
    maximum: int | float | None
    local: bool
    lost: bool
    node: str


class Readable(DuckdbSource):
    """What a Table and a Snapshot have in common: everything that reads."""

    def opened(self, *meters: _core.Meter) -> Snapshot:
        """The version to read: a Table's newest, a Snapshot itself. `meters` count what its scans move."""
        raise NotImplementedError

    def newest(self) -> Snapshot:
        """The same for engines, which ask repeatedly: the version that was read last, while it is the newest."""
        return self.opened()

    def moved_by(self, meter: _core.Meter) -> int:
        """Bytes that were moved by the scans that `meter` counts."""
        return meter.nbytes

    # ---------------------------------------------------------------- what it is

    @property
    def schema(self) -> pyarrow.Schema:
        """The schema, as pyarrow has it."""
        import pyarrow
        return pyarrow.schema(self.opened())

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return [field.name for field in self.opened().fields]

    @property
    def num_rows(self) -> int:
        """Rows."""
        return self.opened().info["rows"]

    @property
    def num_columns(self) -> int:
        """Columns."""
        return self.opened().info["columns"]

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers, of one replica."""
        return self.opened().info["bytes"]

    def __len__(self) -> int:
        return self.num_rows

    def __bool__(self) -> bool:
        return True

    def stats(self, column: str | int | None = None) -> pyarrow.Table:
        """What is known of each column chunk (one column of one row group), as a pyarrow table.

        Columns: group, column, node, local, rows, nbytes, nulls, minimum, maximum. The bounds are text, or for one
        `column` of its type; null where they are not known.
        """
        return stats_table(self.opened(), column)

    def placement(self) -> dict[str, dict[str, int]]:
        """Where it lies: for each column the bytes on each node, of one replica."""
        snapshot = self.opened()
        out: dict[str, dict[str, int]] = {}
        for i, field in enumerate(snapshot.fields):
            add_by_node(snapshot.chunks(i), out.setdefault(field.name, {}))
        return out

    # ---------------------------------------------------------------- reading

    def select(self, columns: Sequence[str | int] | str | None = None,
               filter: Expression | Sequence | None = None, *, batch_rows: int = 0,
               validate: bool = False) -> Selection:
        """Columns and rows to read, later: nothing moves yet.

        Args:
            columns: names or positions, in the wanted order; None: all.
            filter: a pyarrow.compute.Expression, or [(column, operator, value), ...] as in pyarrow.parquet. Row
                groups whose bounds exclude it are not moved.
            batch_rows: rows of a batch at most; 0: 131,072, of a packed table 32,768.
            validate: check every offset of variable-length columns, in a copy (for tables of writers you do not trust).

        Raises: NotFound, InvalidArgument.
        """
        return Selection(self, columns, filter, batch_rows, validate)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All columns and rows as an `arrow_array_stream` capsule; what is local and not packed is not copied."""
        selection = self.select()
        if requested_schema is None and called_by_polars():
            return for_polars(selection.__arrow_c_stream__(), [field.format for field in self.opened().fields])
        return selection.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pyarrow.Table:
        """All of it as a pyarrow.Table; what is local and not packed is not copied. It outlives the session's close."""
        return self.select().to_arrow()

    def to_pandas(self, *, arrow_dtypes: bool = False, **options: Any) -> pandas.DataFrame:
        """All of it as a pandas.DataFrame; `options` go to pyarrow.Table.to_pandas()."""
        return self.select().to_pandas(arrow_dtypes=arrow_dtypes, **options)

    def to_polars(self) -> polars.DataFrame:
        """All of it as a polars.DataFrame."""
        return self.select().to_polars()

    def scan_polars(self) -> polars.LazyFrame:
        """A polars.LazyFrame that moves the columns and row groups that a query needs, when it runs."""
        from .engines.polars import scan
        return scan(self)

    def dataset(self) -> pyarrow.dataset.Dataset:
        """A pyarrow Dataset of the version that is the newest now: its scanners move what they need.

        For engines that push projections and filters into datasets, such as DuckDB before 2.0.
        """
        from .engines.dataset import dataset
        return dataset(self.opened())

    def column(self, name: str | int) -> Column:
        """One column, for numpy and the like."""
        return Column(self, name)

    def _repr_html_(self) -> str:
        try:
            return table_html(self.name, self.opened())
        except Error as error:  # not there yet, or the session is closed
            return f"<b>oncilla table {escape(self.name)}</b>: {escape(str(error))}"


class Snapshot(Readable):
    """A table as it was when it was opened. A context manager: its end releases the memory.

    It holds the memory until then, also when the table was dropped; arrays that came from it hold their own.
    """

    def __init__(self, name: str, handle: _core.OpenTable) -> None:
        """Made by `Table.snapshot()`."""
        self.name = name
        self.handle = handle
        self._chunks: dict[int, list[Chunk]] = {}

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases it; streams and arrays that came from it stay valid."""
        self.handle.close()

    def opened(self, *_: _core.Meter) -> Snapshot:
        """Itself: it counts what it moves."""
        return self

    def moved_by(self, _: _core.Meter) -> int:
        """Bytes that all its scans moved."""
        return self.bytes_moved

    @property
    def info(self) -> dict[str, int]:
        """Rows, bytes, bytes_moved, columns, groups, segments, replicas, placement, id, kind, version.

        `placement` and `kind`, of its first `put()`, are numbers of the C API."""
        return self.handle.info()

    @functools.cached_property
    def fields(self) -> list[Field]:
        """The columns."""
        return [Field(*row) for row in self.handle.fields()]

    @functools.cached_property
    def version(self) -> int:
        """The same for two snapshots: they are of one version."""
        return self.info["version"]

    @functools.cached_property
    def groups(self) -> int:
        """How many row groups it has."""
        return self.info["groups"]

    @property
    def bytes_moved(self) -> int:
        """Bytes that its scans moved from other nodes so far."""
        return self.info["bytes_moved"]

    def chunks(self, column: int) -> list[Chunk]:
        """The column's chunk in each row group."""
        if column not in self._chunks:
            self._chunks[column] = [Chunk(*row) for row in self.handle.chunks(column)]
        return self._chunks[column]

    def index(self, column: str | int) -> int:
        """The position of a column. Raises: NotFound, InvalidArgument, OutOfRange."""
        if isinstance(column, str):
            return index_of(column, [field.name for field in self.fields], self.name)
        count = len(self.fields)
        if not -count <= column < count:
            raise OutOfRange(f"table {self.name} has {count} columns, none at {column}")
        return column % count

    def bounds(self, column: str | int) -> list[tuple[Any, Any]]:
        """The smallest and largest value of the column in each row group; None where they are not known."""
        index = self.index(column)
        format = "?" if self.fields[index].values else self.fields[index].format
        return [(python_value(chunk.minimum, format), python_value(chunk.maximum, format))
                for chunk in self.chunks(index)]

    def scan(self, columns: list[int] | None = None, groups: list[int] | None = None, *, batch_rows: int = 0,
             validate: bool = False) -> Any:
        """An `arrow_array_stream` capsule of the columns and row groups, in that order.

        A node that is lost on the way is the stream's error, which names the table and the node.
        """
        flags = _core.SCAN_CACHE | (_core.SCAN_VALIDATE if validate else 0)
        return self.handle.scan(columns, groups, batch_rows, 0, flags)

    def __arrow_c_schema__(self) -> Any:
        """The schema as an `arrow_schema` capsule."""
        return self.handle.schema()

    def __repr__(self) -> str:
        try:
            info = self.info
        except InvalidArgument:
            return f"<oncilla.Snapshot {self.name} closed>"
        return f"<oncilla.Snapshot {self.name}: {info['rows']:,} rows, {info['columns']} columns>"


class Column:
    """One column of a table, made by `Table.column()`: numpy.asarray(), pyarrow.chunked_array() and Polars read it."""

    def __init__(self, table: Readable, name: str | int) -> None:
        """As `Table.column()`."""
        self._selection = table.select([name])
        self._text = f"{name!r} of table {table.name}"

    def __repr__(self) -> str:
        return f"<oncilla.Column {self._text}>"

    def __len__(self) -> int:
        return self._selection.count()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy
        values = self.to_numpy()
        wanted = values.dtype if dtype is None else numpy.dtype(dtype)
        if copy is False and wanted != values.dtype:
            raise ValueError(f"column {self._text} is of {values.dtype}: as {wanted} it is copied")
        return values.astype(wanted, copy=bool(copy))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Its values as an `arrow_array_stream` capsule of arrays, not of structs."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pyarrow.ChunkedArray:
        """Its values, a chunk for each row group or less."""
        return self._selection.to_arrow().column(0)

    def to_numpy(self) -> Any:
        """Its values as a numpy array, shape (rows,): not copied where one local row group of plain numbers has
        all rows and no nulls."""
        array = self.to_arrow()
        if array.num_chunks == 1:
            return array.chunk(0).to_numpy(zero_copy_only=False)
        return array.to_numpy()
