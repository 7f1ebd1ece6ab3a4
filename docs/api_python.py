"""Writes docs/python.md, the reference of the Python package, from its docstrings.

Usage: PYTHONPATH=build/release/python build/venv/bin/python docs/api_python.py [--check]
"""
from __future__ import annotations

import importlib
import inspect
import pathlib
import re
import sys
from typing import Any

FILE = pathlib.Path(__file__).with_name("python.md")
HEAD = """# The Python package `oncilla`

Written from its docstrings by `docs/api_python.py`. Start with the [tutorial](tutorial.md).
"""
# What is shown, in this order: (title, module, names).
PARTS = [
    ("Sessions", "oncilla", ["connect", "Session", "aconnect"]),
    ("Allocations", "oncilla", ["Allocation", "copy", "acopy", "start_copy"]),
    ("Operations under way", "oncilla", ["Operation"]),
    ("Tables", "oncilla.table", ["Table", "Snapshot", "Column", "Cache"]),
    ("Selections", "oncilla.selection", ["Selection"]),
    ("Parquet files", "oncilla.parquet", ["read"]),
    ("DuckDB", "oncilla.duckdb", ["register", "register_files"]),
    ("Files", "oncilla.fs", ["OcmFileSystem", "register"]),
    ("Arrow filesystem", "oncilla.arrow", ["filesystem"]),
    ("What nodes and names are", "oncilla", ["Node", "Name", "Extent", "AllocationInfo", "Event"]),
    ("Progress", "oncilla", ["progress"]),
    ("Errors", "oncilla", ["Error"]),
]


def text_of(item: object) -> str:
    """Its docstring, with the indented lines of `Args:` and `Attributes:` as a list."""
    lines = (inspect.getdoc(item) or "").strip().splitlines()
    out: list[str] = []
    for line in lines:
        if line.startswith("        "):
            out[-1] += " " + line.strip()
        elif line.startswith("    ") and re.match(r"[\w, ]+: ", line.strip()):
            if not out[-1].startswith("- "):
                out.append("")
            out.append("- " + re.sub(r"^([\w, ]+):", r"`\1`:", line.strip()))
        else:
            out.append(line)
    return "\n".join(out)


def signature(name: str, item: Any) -> str:
    """As it would be written in a stub, on one line."""
    try:
        found = inspect.signature(item)
    except (TypeError, ValueError):
        return f"{name}(...)"
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values() if p.name != "self"]
    text = str(inspect.Signature(parameters))
    for parameter in found.parameters.values():
        if isinstance(parameter.annotation, str):
            if at := re.search(rf"(?<![\w]){parameter.name}(=|, |\)|$)", text):
                after = " = " if at[1] == "=" else at[1]
                text = f"{text[:at.start()]}{parameter.name}: {parameter.annotation}{after}{text[at.end():]}"
    text = re.sub(r"<object object at 0x[0-9a-f]+>", "...", text)
    result = found.return_annotation
    return name + text + (f" -> {result}" if isinstance(result, str) else "")


def members(cls: type) -> list[tuple[str, object]]:
    """Public methods and properties of the class and of its bases in this package, by name."""
    found = {}
    for base in reversed(cls.__mro__):
        if base.__module__.split(".")[0] not in ("oncilla", "_core"):
            continue
        for name, item in vars(base).items():
            item = getattr(item, "__func__", item)
            shown = isinstance(item, property) or (callable(item) and not inspect.isclass(item))
            if shown and not name.startswith("_") and text_of(item):
                found[name] = item
    return sorted(found.items())


def describe(name: str, item: object) -> list[str]:
    """The lines of one function or class."""
    lines = [f"### {name}", ""]
    if not inspect.isclass(item):
        return lines + ["```python", signature(name, item), "```", "", text_of(item), ""]
    lines += [text_of(item), ""]
    for member, value in members(item):
        if isinstance(value, property):
            lines += [f"#### `{name}.{member}`", "", text_of(value), ""]
            continue
        lines += [f"#### `{name}.{member}`", "", "```python", signature(member, value), "```", "", text_of(value), ""]
    return lines


def errors() -> list[str]:
    """The tree of exceptions, a row for each."""
    import oncilla
    lines = ["| exception | is a | means |", "|---|---|---|"]
    classes = [c for _, c in sorted(vars(oncilla).items()) if inspect.isclass(c) and issubclass(c, oncilla.Error)]
    for cls in classes:
        bases = ", ".join(b.__name__ for b in cls.__bases__)
        lines.append(f"| `{cls.__name__}` | {bases} | {text_of(cls).splitlines()[0] if text_of(cls) else ''} |")
    return [*lines, ""]


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for title, module, names in PARTS:
        lines += [f"## {title}", ""]
        for name in names:
            lines += describe(name, getattr(importlib.import_module(module), name))
    return "\n".join([*lines, *errors()])


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        if FILE.read_text() == text:
            return 0
        print(f"{FILE.name} is not what the docstrings say: run docs/api_python.py", file=sys.stderr)
        return 1
    FILE.write_text(text)
    print(FILE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
