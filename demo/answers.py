"""Whether an answer is right: against DuckDB on the Parquet files, and at SF 1 against published numbers.

An answer of many rows is compared by its number of rows and the exact sums of its columns, one of few rows value by
value.
"""
from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from .queries import Query

ROWS_SHOWN = 100
Summary = tuple[int, tuple[tuple, ...]]

# SF 1: rows of the answer, and values of its first row where they are published (TPC-H's answers for Q1 and Q6).
PUBLISHED_ROWS = {"select": 2_993_683, "A": 417_809, "C": 151_331, "Q1": 4}
PUBLISHED_VALUES: Mapping[str, Mapping[str, object]] = {
    "join": {"n": 6_001_215, "price": decimal.Decimal("229577310901.20")},
    "B": {"n": 6_001_215, "price": decimal.Decimal("229577310901.20")},
    "Q1": {"l_returnflag": "A", "l_linestatus": "F", "sum_qty": decimal.Decimal("37734107.00"),
           "sum_base_price": decimal.Decimal("56586554400.73"), "sum_disc_price": decimal.Decimal("53758257134.8700"),
           "sum_charge": decimal.Decimal("55909065222.827692"), "count_order": 1_478_493},
    "Q6": {"revenue": decimal.Decimal("123141078.2283")},
}


class Wrong(Exception):
    """An answer differs; the text says in what."""


def _summed(column: pa.ChunkedArray) -> object:
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.decimal128(38, kind.scale))
    return pc.sum(column).as_py()


def summary(answer: pa.Table) -> Summary:
    """(rows, all values by row) of a small answer, (rows, the columns' sums) of a large one."""
    if answer.num_rows <= ROWS_SHOWN:
        return answer.num_rows, tuple(zip(*(column.to_pylist() for column in answer.columns), strict=True))
    return answer.num_rows, (tuple(_summed(column) for column in answer.columns),)


def _same(left: object, right: object) -> bool:
    if isinstance(left, (float, decimal.Decimal)) and isinstance(right, (float, decimal.Decimal)):
        if isinstance(left, float) or isinstance(right, float):
            return math.isclose(left, right, rel_tol=1e-9)  # avg: the order of the additions shows
        return left == right
    if isinstance(left, datetime.date) or isinstance(right, datetime.date):
        return str(left) == str(right)
    return left == right


def check(query: Query, answer: Summary, expected: Summary, who: str) -> None:
    """Errors: Wrong."""
    rows, values = answer
    if rows != expected[0]:
        raise Wrong(f"{query.name} from {who}: {rows:,} rows instead of {expected[0]:,}")
    for row, wanted in zip(values, expected[1], strict=True):
        for value, right in zip(row, wanted, strict=True):
            if not _same(value, right):
                raise Wrong(f"{query.name} from {who}: {value} instead of {right}")


def check_published(query: Query, answer: pa.Table) -> None:
    """For SF 1. Errors: Wrong."""
    rows = PUBLISHED_ROWS.get(query.name, 1)
    if answer.num_rows != rows:
        raise Wrong(f"{query.name}: {answer.num_rows:,} rows instead of the published {rows:,}")
    for column, right in PUBLISHED_VALUES.get(query.name, {}).items():
        value = answer.column(column)[0].as_py()
        if not _same(value, right):
            raise Wrong(f"{query.name}: {column} is {value} instead of the published {right}")
