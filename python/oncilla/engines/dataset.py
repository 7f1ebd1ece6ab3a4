"""A pyarrow Dataset over a snapshot, for what pushes projections and filters into datasets.

pyarrow's own Dataset is C++; this one has no C++ dataset inside, so every method of pyarrow's that reads one is
overridden or refused: none may come through.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.compute
import pyarrow.dataset

from ..core.errors import Unsupported
from ..tables.predicate import columns_in

if TYPE_CHECKING:
    from ..snapshot import Snapshot
    from ..tables.selection import Selection


class _Scanner:
    """What `Dataset.scanner()` gives: a selection with the methods of a pyarrow Scanner that engines use."""

    def __init__(self, selection: Selection, schema: pyarrow.Schema) -> None:
        self._selection = selection
        self.dataset_schema = schema

    @property
    def projected_schema(self) -> pyarrow.Schema:
        return self._selection.schema

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._selection.__arrow_c_stream__(requested_schema)

    def to_reader(self) -> pyarrow.RecordBatchReader:
        return pyarrow.RecordBatchReader.from_stream(self._selection)

    def to_batches(self) -> Any:
        return self._selection.batches()

    def to_table(self) -> pyarrow.Table:
        return self._selection.to_arrow()

    def head(self, num_rows: int) -> pyarrow.Table:
        found, left = [], num_rows
        for batch in self._selection.batches():
            found.append(batch.slice(0, left))
            left -= found[-1].num_rows
            if left <= 0:
                break
        return pyarrow.Table.from_batches(found, self.projected_schema)

    def take(self, indices: Any) -> pyarrow.Table:
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        return self._selection.count()


class TableDataset(pyarrow.dataset.Dataset):
    """A snapshot of a table as a pyarrow Dataset, made by `Table.dataset()`."""

    def __init__(self, snapshot: Snapshot, filter: Any = None) -> None:
        self._snapshot = snapshot
        self._filter = filter

    @property
    def schema(self) -> pyarrow.Schema:
        """The schema of the table."""
        return pyarrow.schema(self._snapshot)

    @property
    def partition_expression(self) -> pyarrow.compute.Expression:
        """True: nothing is known of all rows."""
        return pyarrow.compute.scalar(True)

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """A scanner that moves what it needs. `columns`: names, or {name: expression}."""
        conditions = [one for one in (self._filter, filter) if one is not None]
        condition = conditions[0] if len(conditions) == 1 else conditions[0] & conditions[1] if conditions else None
        batch_rows = options.get("batch_size") or 0
        if columns is None and filter is None and options.keys() == {"use_threads"}:
            # As pyarrow.dataset.write_dataset() asks, which takes a Scanner of C++ only.
            reader = pyarrow.RecordBatchReader.from_stream(self._snapshot.select(None, condition))
            return pyarrow.dataset.Scanner.from_batches(reader)
        if not isinstance(columns, dict):
            return _Scanner(self._snapshot.select(columns, condition, batch_rows=batch_rows), self.schema)
        names = self.schema.names
        read = sorted({i for one in columns.values() for i in columns_in(one, names)})
        selection = self._snapshot.select(read, condition, batch_rows=batch_rows)
        reader = pyarrow.RecordBatchReader.from_stream(selection)
        return pyarrow.dataset.Scanner.from_batches(reader, columns=columns)

    def to_batches(self, **options: Any) -> Any:
        """The record batches; options as `scanner()`."""
        return self.scanner(**options).to_batches()

    def to_table(self, **options: Any) -> pyarrow.Table:
        """A pyarrow.Table; options as `scanner()`."""
        return self.scanner(**options).to_table()

    def head(self, num_rows: int, **options: Any) -> pyarrow.Table:
        """The first rows; options as `scanner()`."""
        return self.scanner(**options).head(num_rows)

    def take(self, indices: Any, **options: Any) -> pyarrow.Table:
        """The rows at these positions; options as `scanner()`."""
        return self.scanner(**options).take(indices)

    def count_rows(self, **options: Any) -> int:
        """How many rows; options as `scanner()`."""
        return self.scanner(**options).count_rows()

    def filter(self, expression: Any) -> TableDataset:
        """The dataset of the rows for which the expression holds."""
        return TableDataset(self._snapshot, expression if self._filter is None else self._filter & expression)

    def sort_by(self, sorting: Any, **options: Any) -> pyarrow.dataset.InMemoryDataset:
        """A sorted copy in this program."""
        return pyarrow.dataset.InMemoryDataset(self.to_table(**options).sort_by(sorting))

    def join(self, right_dataset: Any, keys: Any, **options: Any) -> pyarrow.dataset.InMemoryDataset:
        """The join with another dataset or table, in this program; arguments as pyarrow's."""
        right = right_dataset.to_table() if isinstance(right_dataset, pyarrow.dataset.Dataset) else right_dataset
        return pyarrow.dataset.InMemoryDataset(self.to_table().join(right, keys, **options))

    def join_asof(self, right_dataset: Any, *arguments: Any, **options: Any) -> pyarrow.dataset.InMemoryDataset:
        """The as-of join with another dataset or table, in this program; arguments as pyarrow's."""
        right = right_dataset.to_table() if isinstance(right_dataset, pyarrow.dataset.Dataset) else right_dataset
        return pyarrow.dataset.InMemoryDataset(self.to_table().join_asof(right, *arguments, **options))

    def get_fragments(self, filter: Any = None) -> Any:
        """Not for tables."""
        raise Unsupported("a table has no fragments: use scanner(columns=, filter=), which moves what it needs")

    def replace_schema(self, schema: Any) -> Any:
        """Not for tables."""
        raise Unsupported("a table's schema is as it was stored: cast what to_table() gives")

    def __reduce__(self) -> Any:
        raise Unsupported("a dataset of a table is bound to this program's session: open the table by name instead")

    def __repr__(self) -> str:
        return f"<oncilla.TableDataset {self._snapshot.name}>"


def _refuse(name: str) -> Any:
    def refused(self: TableDataset, *_: Any, **__: Any) -> Any:
        raise Unsupported(f"a dataset of a table has no {name}: use scanner(), to_table() or Table.to_arrow()")
    refused.__name__ = name
    return refused


# What a later pyarrow adds would look into the C++ dataset that is not there.
for _name in dir(pyarrow.dataset.Dataset):
    if not _name.startswith("__") and _name not in vars(TableDataset):
        setattr(TableDataset, _name, property(_refuse(_name)) if not callable(
            getattr(pyarrow.dataset.Dataset, _name)) else _refuse(_name))


def dataset(snapshot: Snapshot) -> TableDataset:
    """As `Readable.dataset()`."""
    return TableDataset(snapshot)
