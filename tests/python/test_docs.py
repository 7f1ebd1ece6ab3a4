"""What the documents say is run: the Python examples, the notebook's cells, the reference against the docstrings."""
from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples" / "python").glob("*.py"))


def run(arguments: list[str], **environment: str) -> str:
    done = subprocess.run([sys.executable, "-B", *arguments], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment}, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_on_a_cluster(example: pathlib.Path, cluster) -> None:
    assert run([str(example)], OCM_SOCKET=str(cluster["n1"].socket_path))


@pytest.mark.parametrize("example", [path for path in EXAMPLES if path.stem != "share_a_table"],
                         ids=lambda path: path.stem)
def test_example_runs_alone(example: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert run([str(example)], OCM_SOCKET=str(tmp_path / "none"))


def test_tutorial_runs(cluster, tmp_path: pathlib.Path) -> None:
    program = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "tutorial.md").read_text(), re.S))
    before = f"""
import datetime, os
import pyarrow, pyarrow.parquet
os.chdir({str(tmp_path)!r})
days = [datetime.date(2026, 1, day) for day in (1, 2)]
more = pyarrow.table({{"passengers": [1, 2], "fare": [7.5, 9.0], "day": days}})
pyarrow.parquet.write_table(more, "trips.parquet")
"""
    run(["-c", before + program], OCM_SOCKET=str(cluster["n1"].socket_path))


def test_notebook_runs(cluster) -> None:
    cells = json.loads((ROOT / "examples" / "warehouse.ipynb").read_text())["cells"]
    assert not any(cell.get("outputs") for cell in cells), "clear the outputs before committing"
    # A cell's last expression is shown by a notebook: show it here too, as its HTML where it has one.
    lines = ["import ast", "def show(value): getattr(value, '_repr_html_', value.__repr__)()", "names = {}"]
    for cell in cells:
        if cell["cell_type"] == "code":
            lines += [f"tree = ast.parse({''.join(cell['source'])!r})",
                      "if isinstance(tree.body[-1], ast.Expr):",
                      "    last = tree.body.pop().value",
                      "    exec(compile(tree, 'cell', 'exec'), names)",
                      "    show(eval(compile(ast.Expression(last), 'cell', 'eval'), names))",
                      "else:",
                      "    exec(compile(tree, 'cell', 'exec'), names)"]
    assert "1000000 1001000" in run(["-c", "\n".join(lines)], OCM_SOCKET=str(cluster["n1"].socket_path))


def test_reference_is_what_the_docstrings_say() -> None:
    run([str(ROOT / "docs" / "api_python.py"), "--check"])


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")) + [ROOT / "README.md", ROOT / "ARCHITECTURE.md"],
                         ids=lambda path: path.name)
def test_links_lead_somewhere(page: pathlib.Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text()):
        assert (page.parent / link).exists(), link
