"""Arrow data of other libraries as stream capsules, and back."""
from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from .. import _core
from ..core.errors import InvalidArgument, Unsupported, from_status


class Stream:
    """A stream capsule as an object with `__arrow_c_stream__`, to be consumed once."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The capsule; `requested_schema` is not looked at."""
        return self._capsule


def reader_of(capsule: Any) -> Any:
    """The stream as a pyarrow.RecordBatchReader."""
    import pyarrow
    return pyarrow.RecordBatchReader.from_stream(Stream(capsule))


def _widened(kind: Any) -> Any:
    """The type with decimal128 for narrower decimals, inside lists and structs too."""
    import pyarrow
    types = pyarrow.types
    if types.is_decimal32(kind) or types.is_decimal64(kind):
        return pyarrow.decimal128(kind.precision, kind.scale)
    if types.is_struct(kind):
        return pyarrow.struct([field.with_type(_widened(field.type)) for field in kind])
    if types.is_fixed_size_list(kind):
        return pyarrow.list_(kind.value_field.with_type(_widened(kind.value_type)), kind.list_size)
    if types.is_list(kind):
        return pyarrow.list_(kind.value_field.with_type(_widened(kind.value_type)))
    if types.is_large_list(kind):
        return pyarrow.large_list(kind.value_field.with_type(_widened(kind.value_type)))
    if types.is_map(kind):
        return pyarrow.map_(_widened(kind.key_type), _widened(kind.item_type), kind.keys_sorted)
    return kind


def called_by_polars() -> bool:
    """Whether Polars called the function that calls this one."""
    return sys._getframe(2).f_globals.get("__name__", "").partition(".")[0] == "polars"


def for_polars(capsule: Any, formats: Iterable[str]) -> Any:
    """The stream with decimals as Polars reads them.

    Polars (2.1) takes the 4 or 8 bytes of a narrow decimal in a stream for the 16 of a decimal128: wrong numbers.
    `formats`: of the stream's columns; nested columns may have decimals inside.
    Raises: Unsupported where pyarrow, which widens them, is not installed.
    """
    if not any(one.startswith("+") or one.endswith((",32", ",64")) for one in formats):
        return capsule
    try:
        import pyarrow
    except ImportError:
        raise Unsupported("Polars reads decimals of less than 128 bits wrongly: install pyarrow, which widens them, "
                          "or put() the table with decimal128") from None
    reader = reader_of(capsule)
    wide = pyarrow.schema([field.with_type(_widened(field.type)) for field in reader.schema], reader.schema.metadata)
    return (reader if wide.equals(reader.schema) else reader.cast(wide)).__arrow_c_stream__()


def typed(error: Exception) -> Exception:
    """The exception of Oncilla that the error of a stream stands for, or the error itself."""
    # Arrow's C stream interface passes on nothing but an errno and this text; it is a key, and is not parsed.
    failure = _core.scan_failure(str(error))
    return from_status(*failure) if failure else error


def guarded(reader: Any) -> Iterator[Any]:
    """The reader's batches. What the library said went wrong is raised as its own exception."""
    try:
        yield from reader
    except (OSError, ValueError) as error:  # pyarrow's; KeyboardInterrupt passes
        raise typed(error) from None


class Raised:
    """What Python code inside a stream raised: Arrow's C interface keeps the text alone."""

    error: BaseException | None = None

    def watch(self, batches: Iterable) -> Iterator:
        """The same batches; an exception on the way is kept."""
        try:
            yield from batches
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise


def _batches(items: Iterable) -> Iterator:
    import pyarrow
    for item in items:
        if isinstance(item, pyarrow.Table):
            yield from item.to_batches()
        elif isinstance(item, (pyarrow.RecordBatch, dict)) or hasattr(item, "__arrow_c_array__"):
            yield item if isinstance(item, pyarrow.RecordBatch) else pyarrow.record_batch(item)
        elif hasattr(item, "__arrow_c_stream__"):
            yield from pyarrow.table(item).to_batches()
        else:
            raise TypeError(f"an iterable of {type(item).__name__} is not Arrow data: its items must be record batches")


def _alike(batches: Iterable, schema: Any) -> Iterator:
    """The batches with that schema: pyarrow passes on others as if they had it."""
    import pyarrow
    for batch in batches:
        if not batch.schema.equals(schema):
            try:
                batch = batch.cast(schema)
            except (ValueError, pyarrow.ArrowException) as error:
                raise InvalidArgument(f"a batch has other columns than the first, or than schema=: {error}") from None
        yield batch


def _from_batches(items: Iterable, schema: Any, raised: Raised) -> Any:
    import pyarrow
    batches = raised.watch(_batches(items))
    if schema is None:
        first = next(batches, None)
        if first is None:
            raise InvalidArgument("no batch says what the columns are: give schema=, a pyarrow.Schema")
        schema, batches = first.schema, itertools.chain([first], batches)
    return pyarrow.RecordBatchReader.from_batches(schema, raised.watch(_alike(batches, schema))).__arrow_c_stream__()


def capsule_of(data: Any, schema: Any, raised: Raised) -> Any:
    """`data` as a stream capsule.

    Args:
        data: anything with `__arrow_c_stream__` (tables, readers, data frames, DuckDB relations), such a capsule, a
            pyarrow Dataset or Scanner, a Polars LazyFrame, a dict of columns, or an iterable of record batches.
        schema: of an iterable's batches; None: the first batch's.
        raised: keeps what an iterable raises.

    Raises: TypeError for anything else.
    """
    if type(data).__name__ == "PyCapsule":
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return data.__arrow_c_stream__()
    if hasattr(data, "scanner"):
        data = data.scanner()
    if hasattr(data, "to_reader"):
        return data.to_reader().__arrow_c_stream__()
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):
        return data.collect().__arrow_c_stream__()
    if isinstance(data, dict):
        import pyarrow
        return pyarrow.table(data, schema=schema).__arrow_c_stream__()
    if hasattr(data, "__arrow_c_array__"):
        return _from_batches([data], schema, raised)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return _from_batches(data, schema, raised)
    raise TypeError(f"{type(data).__name__} is not Arrow data: give a table, a data frame, a reader or an iterable of "
                    "record batches; for files, oncilla.parquet.read(path)")
