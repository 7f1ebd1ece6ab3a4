"""Filters as predicate trees (see `_bounds`) and as pyarrow expressions."""
from __future__ import annotations

import functools
import operator
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import InvalidArgument, NotFound
from .bounds import all_of

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.compute import Expression

    from ..snapshot import Snapshot

_OPERATORS = {"=": "==", "==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_APPLY = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
          ">=": operator.ge}


def index_of(name: str, names: Sequence[str], table: str) -> int:
    """The position of the column called `name`. Raises: NotFound, InvalidArgument for a name that two bear."""
    found = [i for i, other in enumerate(names) if other == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidArgument(f"table {table} has {len(found)} columns named {name!r}: choose them by position")
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    raise NotFound(f"table {table} has no column {name!r}; it has {shown}", subject=name, subject_kind="column")


def _term(term: Any, names: Sequence[str], table: str) -> tuple:
    try:
        name, op, value = term
    except (TypeError, ValueError):
        raise InvalidArgument(f"{term!r} is not a term of a filter: write (column, operator, value)") from None
    column = index_of(name, names, table)
    if op in _OPERATORS and value is not None:
        return ("cmp", _OPERATORS[op], column, value)
    if op in ("in", "not in"):
        if isinstance(value, str) or any(one is None for one in value):
            raise InvalidArgument(f"column {name!r}: the values of {op!r} are a str or contain None; give a collection "
                                  "without None")
        node = ("in", column, list(value))
        return node if op == "in" else ("not", node)
    raise InvalidArgument(f"column {name!r}: operator {op!r} with {value!r} is none of =, ==, !=, <, <=, >, >=, in, "
                          "not in with a value; use a pyarrow.compute.Expression")


def from_terms(terms: Any, names: Sequence[str], table: str) -> tuple:
    """The tree of a filter in disjunctive normal form, as pyarrow.parquet has it: [(c, op, v), ...] is their AND,
    [[...], [...]] is the OR of such lists. Raises: InvalidArgument, NotFound."""
    terms = [terms] if isinstance(terms, tuple) else list(terms)
    if not terms:
        raise InvalidArgument("the filter has no term: give None for all rows")
    groups = terms if isinstance(terms[0], list) else [terms]
    either: list[tuple] = []
    for group in groups:
        node = all_of(_term(term, names, table) for term in group)
        if node is None:
            raise InvalidArgument("a filter's list of terms is empty")
        either.append(node)
    return functools.reduce(lambda a, b: ("or", a, b), either)


def _value_type(field: pyarrow.Field) -> pyarrow.DataType:
    import pyarrow
    return field.type.value_type if pyarrow.types.is_dictionary(field.type) else field.type


def _array(values: list, field: pyarrow.Field) -> pyarrow.Array:
    """The values in the column's type where all have a place there, which compares fast, else in their own."""
    import pyarrow
    kind = _value_type(field)
    try:
        own = pyarrow.array(values)
    except OverflowError:  # above 2^63
        pass
    else:
        try:
            cast = own.cast(kind)
            return cast if cast.cast(own.type).equals(own) else own
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
            return own
    try:
        return pyarrow.array(values, kind if pyarrow.types.is_integer(kind) else pyarrow.uint64())
    except OverflowError:
        raise InvalidArgument(f"column {field.name!r} of {kind} is compared with an integer of more than 64 bits: "
                              "give a decimal.Decimal or a float") from None


def _scalar(value: Any, field: pyarrow.Field) -> pyarrow.Scalar:
    """The same of one value."""
    return _array([value], field)[0]


def to_expression(node: tuple, schema: pyarrow.Schema, *, nan_is_largest: bool = False) -> Expression:
    """The tree as an expression. `nan_is_largest`: a NaN is above every number, as DuckDB has it."""
    import pyarrow
    import pyarrow.compute as pc
    kind = node[0]
    if kind in ("and", "or"):
        a, b = (to_expression(child, schema, nan_is_largest=nan_is_largest) for child in node[1:])
        return a & b if kind == "and" else a | b
    if kind == "not":
        return ~to_expression(node[1], schema, nan_is_largest=nan_is_largest)
    column = node[2] if kind == "cmp" else node[1]
    field = schema.field(column)
    reference = pc.field(field.name) if schema.names.count(field.name) == 1 else pc.field(column)
    if kind == "cmp":
        compared = _APPLY[node[1]](reference, pc.scalar(_scalar(node[3], field)))
        if nan_is_largest and node[1] in (">", ">=") and pyarrow.types.is_floating(field.type):
            return compared | reference.is_nan()
        return compared
    if kind == "in":
        if not pyarrow.types.is_decimal(field.type) or not node[2]:  # is_in has no narrow decimals
            return reference.isin(_array(node[2], field))
        members = [reference == pc.scalar(_scalar(value, field)) for value in node[2]]
        return functools.reduce(operator.or_, members) & reference.is_valid()
    if kind == "null":
        return reference.is_null()
    if kind == "valid":
        return reference.is_valid()
    raise InvalidArgument(f"the filter has a part without a meaning: {node!r}")


def columns_in(expression: Expression, names: Sequence[str]) -> list[int]:
    """The columns that the expression reads, and sometimes one more: pyarrow does not tell, its text does."""
    text = str(expression)
    if "FieldPath(" in text:
        return list(range(len(names)))
    found = []
    for i, name in enumerate(names):
        pattern = re.escape(name)
        if re.fullmatch(r"\w+", name):
            pattern = rf"(?<!\w){pattern}(?!\w)"
        if not name or re.search(pattern, text):
            found.append(i)
    return found


def _guarantee(snapshot: Snapshot, group: int, columns: list[int], schema: pyarrow.Schema) -> Expression:
    """What is known of every row of the group."""
    import pyarrow
    import pyarrow.compute as pc
    known = pc.scalar(True)
    for column in columns:
        chunk, field = snapshot.chunks(column)[group], schema.field(column)
        reference = pc.field(field.name)
        if chunk.nulls == chunk.rows:
            known &= reference.is_null()
        elif chunk.minimum is not None and _has_order(field.type):
            low, high = (pyarrow.array([bound], _storage(field.type)).view(field.type)[0]
                         for bound in (chunk.minimum, chunk.maximum))
            between = (reference >= pc.scalar(low)) & (reference <= pc.scalar(high))
            known &= between | reference.is_null() if chunk.nulls else between
    return known


def _has_order(kind: pyarrow.DataType) -> bool:
    """Whether pyarrow simplifies comparisons of this type by bounds."""
    import pyarrow
    types = pyarrow.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_temporal(kind)


def _storage(kind: pyarrow.DataType) -> pyarrow.DataType:
    """The plain type of the column's stored values."""
    import pyarrow
    types = pyarrow.types
    if types.is_temporal(kind):
        return pyarrow.int64() if kind.bit_width == 64 else pyarrow.int32()
    return kind


def groups_for(expression: Expression, snapshot: Snapshot, columns: list[int], schema: pyarrow.Schema) -> list[int]:
    """The row groups that may have a row for which the expression holds.

    pyarrow itself simplifies the expression by what the bounds guarantee: each row group is a fragment of a dataset
    that is never read.
    """
    import pyarrow
    import pyarrow.dataset
    import pyarrow.fs
    layout, nowhere = pyarrow.dataset.IpcFileFormat(), pyarrow.fs.LocalFileSystem()
    unique = [i for i in columns if schema.names.count(schema.field(i).name) == 1]
    fragments = [layout.make_fragment(str(group), nowhere, _guarantee(snapshot, group, unique, schema))
                 for group in range(snapshot.groups)]
    dataset = pyarrow.dataset.FileSystemDataset(fragments, schema, layout, nowhere)
    return [int(fragment.path) for fragment in dataset.get_fragments(expression)]


def renumbered(node: tuple, position: dict[int, int]) -> tuple:
    """The tree over other positions of the same columns."""
    kind = node[0]
    if kind in ("and", "or", "not"):
        return (kind, *(renumbered(child, position) for child in node[1:]))
    if kind == "cmp":
        return (kind, node[1], position[node[2]], node[3])
    return (kind, position[node[1]], *node[2:])
