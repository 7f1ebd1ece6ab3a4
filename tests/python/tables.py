"""What the tests of tables share: data of every type, names of their own, and programs that die."""
from __future__ import annotations

import datetime
import decimal
import itertools
import os
import subprocess
import sys
import textwrap

import pyarrow as pa

_serial = itertools.count()


def fresh(prefix: str = "t") -> str:
    """A table name that no other test uses."""
    return f"{prefix}{os.getpid()}_{next(_serial)}"


def numbered(rows: int, start: int = 0) -> pa.Table:
    """`rows` rows: k ascending from `start`, v = k * 3, s its text."""
    keys = range(start, start + rows)
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([k * 3 for k in keys], pa.int64()),
                     "s": pa.array([str(k) for k in keys], pa.string())})


def every_type() -> pa.Table:
    """Four rows of every type that a table stores, with a null in each column that can have one."""
    day, moment = datetime.date(2020, 2, 29), datetime.datetime(2020, 2, 29, 12, 30, 1)
    number = decimal.Decimal("12345.67")
    columns: dict[str, pa.Array] = {
        "null": pa.nulls(4), "bool": pa.array([True, None, False, True]),
        "fixed": pa.array([b"abcd", None, b"efgh", b"\0\0\0\0"], pa.binary(4)),
        "string": pa.array(["a", None, "", "wörld" * 20]),
        "large_string": pa.array(["a", None, "", "b" * 50], pa.large_string()),
        "string_view": pa.array(["a", None, "", "c" * 50], pa.string_view()),
        "binary": pa.array([b"\xff\0", None, b"", b"x" * 40], pa.binary()),
        "large_binary": pa.array([b"\xff", None, b"", b"x"], pa.large_binary()),
        "binary_view": pa.array([b"\xff\0", None, b"", b"x" * 40], pa.binary_view()),
        "date32": pa.array([day, None, day, day]), "date64": pa.array([day, None, day, day], pa.date64()),
        "list": pa.array([[1, None], None, [], [4, 5, 6]], pa.list_(pa.int32())),
        "large_list": pa.array([["x"], None, [], ["y", None]], pa.large_list(pa.string())),
        "fixed_list": pa.array([[1, 2], None, [3, None], [5, 6]], pa.list_(pa.int16(), 2)),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 3, "b": None}]),
        "map": pa.array([[("k", 1)], None, [], [("l", None), ("m", 3)]], pa.map_(pa.string(), pa.int64())),
        "dictionary": pa.array(["x", None, "y", "x"]).dictionary_encode(),
        "small_dictionary": pa.array(["x", None, "y", "x"]).dictionary_encode().cast(
            pa.dictionary(pa.int8(), pa.string())),
        "month_interval": pa.array([(1, 2, 3), None, (0, 0, 0), (4, 5, 6)], pa.month_day_nano_interval()),
        "zoned": pa.array([moment, None, moment, moment], pa.timestamp("us", "Europe/Berlin")),
    }
    for bits in (8, 16, 32, 64):
        columns[f"int{bits}"] = pa.array([-1, None, 0, 5], f"int{bits}")
        columns[f"uint{bits}"] = pa.array([1, None, 0, 2**bits - 1], f"uint{bits}")
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        columns[str(kind)] = pa.array([1.5, None, float("nan"), -0.0], pa.float64()).cast(kind)
    for bits, kind in ((32, pa.decimal32(9, 2)), (64, pa.decimal64(18, 2)), (128, pa.decimal128(30, 2)),
                       (256, pa.decimal256(50, 2))):
        columns[f"decimal{bits}"] = pa.array([number, None, -number, decimal.Decimal("0.01")], kind)
    for unit in ("s", "ms", "us", "ns"):
        columns[f"timestamp_{unit}"] = pa.array([moment, None, moment, moment], pa.timestamp(unit))
        columns[f"duration_{unit}"] = pa.array([1, None, -1, 2**40], pa.duration(unit))
        time = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        columns[f"time_{unit}"] = pa.array([1, None, 0, 80_000], pa.int32() if time.bit_width == 32 else
                                           pa.int64()).cast(time)
    return pa.table(columns)


def plain(table: pa.Table) -> pa.Table:
    """The table as it comes back: views as plain strings, nothing else changed."""
    kinds = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    schema = pa.schema([field.with_type(kinds.get(field.type, field.type)) for field in table.schema])
    return table.cast(schema)


def assert_same(got: pa.Table, wanted: pa.Table) -> None:
    """Schema and values are the same; NaN is the same as NaN."""
    assert got.schema.equals(wanted.schema), f"{got.schema}\n{wanted.schema}"
    assert got.num_rows == wanted.num_rows
    got.validate(full=True)
    for name, a, b in zip(got.column_names, got.columns, wanted.columns):
        assert a.combine_chunks().equals(b.combine_chunks()) or repr(a.to_pylist()) == repr(b.to_pylist()), name


class Program:
    """A Python program with a session of its own: `session` is there, and `step(word)` tells the test how far it is."""

    def __init__(self, socket: os.PathLike, body: str) -> None:
        head = ("import os, sys, time, oncilla, pyarrow as pa\n"
                f"session = oncilla.connect({str(socket)!r})\n"
                "def step(word):\n    print(word, flush=True)\n"
                "def wait():\n    sys.stdin.readline()\n")
        self.process = subprocess.Popen([sys.executable, "-c", head + textwrap.dedent(body)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def line(self) -> str:
        """The next word that it tells; "" at its end."""
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        """Ends its `wait()`."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """A sudden death."""
        self.process.kill()
        self.process.wait(20)
