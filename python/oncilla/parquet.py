"""Parquet files as a stream to be put, decoded ahead of its reader by pyarrow's threads.

    import oncilla, oncilla.parquet
    with oncilla.connect() as session:
        session.table("lineitem").put(oncilla.parquet.read("data/lineitem-*.parquet"), compact=True, packed=True)

Strings that the files keep as indices into dictionaries stay so: they are neither written out nor looked up again,
which is a quarter of the work of a load.
"""
from __future__ import annotations

import glob
import os
from collections.abc import Sequence

import pyarrow
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet

__all__ = ["read"]

_INDEX_BYTES = 4  # more for each value: most of the column is written out in full
_BATCHES_AHEAD = 8


def read(source: str | os.PathLike | Sequence[str | os.PathLike], columns: Sequence[str] | None = None, *,
         filesystem: pyarrow.fs.FileSystem | None = None, batch_rows: int = 65_536) -> pyarrow.RecordBatchReader:
    """A stream of the rows of Parquet files, in the order of the files.

    Args:
        source: a file, a folder, a pattern with `*`, or a list of files.
        columns: names, in the wanted order; None: all.
        filesystem: where they are, as pyarrow has it; None: here.
        batch_rows: of a batch, at most. Eight batches are read ahead.

    A column of strings (not of string views) is a dictionary if the first file keeps it as one. What only the names
    of folders say (`year=2026/`) is no column.

    Raises: FileNotFoundError (no file is there), pyarrow.ArrowInvalid (a file is no Parquet, a column is missing).
    """
    files = pyarrow.dataset.dataset(_found(source, filesystem), filesystem=filesystem, format="parquet")
    if not files.files:
        raise FileNotFoundError(f"no file is in {source}")
    options = pyarrow.dataset.ParquetReadOptions(dictionary_columns=_dictionaries(files))
    files = pyarrow.dataset.dataset(files.files, filesystem=files.filesystem,
                                    format=pyarrow.dataset.ParquetFileFormat(read_options=options))
    return files.scanner(columns=None if columns is None else list(columns), batch_size=batch_rows,
                         batch_readahead=_BATCHES_AHEAD, fragment_readahead=1).to_reader()


def _found(source: str | os.PathLike | Sequence[str | os.PathLike],
           filesystem: pyarrow.fs.FileSystem | None) -> str | list[str]:
    """What pyarrow takes: no pattern."""
    if not isinstance(source, (str, os.PathLike)):
        return [os.fspath(path) for path in source]
    path = os.fspath(source)
    if filesystem is not None or not glob.has_magic(path) or os.path.exists(path):
        return path
    if not (paths := sorted(glob.glob(path))):
        raise FileNotFoundError(f"no file is called like {path}")
    return paths


def _dictionaries(files: pyarrow.dataset.FileSystemDataset) -> list[str]:
    """The columns of strings that the first file keeps as dictionaries."""
    with files.filesystem.open_input_file(files.files[0]) as file:
        metadata = pyarrow.parquet.read_metadata(file)
    strings = {field.name for field in files.schema
               if pyarrow.types.is_string(field.type) or pyarrow.types.is_large_string(field.type)}
    found = []
    for number in range(metadata.num_columns):
        name = metadata.schema.column(number).path
        if name not in strings or "." in name:  # with a dot: perhaps inside of another column
            continue
        chunks = [metadata.row_group(group).column(number) for group in range(metadata.num_row_groups)]
        small = sum(chunk.total_uncompressed_size for chunk in chunks) <= \
            _INDEX_BYTES * sum(chunk.num_values for chunk in chunks)
        if chunks and small and all(chunk.has_dictionary_page for chunk in chunks):
            found.append(name)
    return found
