"""A data scientist in a notebook: from a table of facts to answers, pictures and DataFrames."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def executed(path: Path, folder: Path) -> Any:
    """The notebook after a run from its first cell to its last, beside a copy of the examples."""
    shutil.copytree(EXAMPLES, folder / "examples")
    notebook: Any = nbformat.read(path, 4)
    where = {"metadata": {"path": str(folder / "examples")}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    return notebook


def shown(cell: Any, kind: str) -> str:
    return "".join(out["data"].get(kind, "") for out in cell.outputs if "data" in out)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    notebook: Any = nbformat.read(path, 4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the kernel's client
def test_the_tutorial_notebook_runs_and_shows_what_it_says(tmp_path: Path) -> None:
    notebook = executed(EXAMPLES / "films.ipynb", tmp_path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    graph, question, exact, is_in, fitted, answers, frame, evidence, many, report = code
    assert "26 entities, 4 relations, 39 facts" in shown(graph, "text/html")
    assert "data:image/svg+xml" in shown(question, "text/html")
    names = ["Ayako Wakao", "Kazuo Hasegawa", "Kyoko Kagawa", "Machiko Kyo", "Michiyo Kogure"]
    assert all(name in shown(exact, "text/html") for name in names)
    assert shown(is_in, "text/plain") == "True"
    progress = fitted.outputs[0]["data"]["text/html"]
    assert "pre-training" in progress
    assert progress.count("100%") == progress.count("<tr>") - 1  # all stages, below the header
    assert "Rashomon" in shown(answers, "text/html")
    assert "probability" in shown(frame, "text/html")
    assert "data:image/svg+xml" in shown(evidence, "text/html")
    assert "Akira Kurosawa" in shown(many, "text/plain")
    assert "MRR" in shown(report, "text/html")
    assert not any(out.output_type == "stream" for cell in code for out in cell.outputs)
