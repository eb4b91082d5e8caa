"""The card of a model: a README.md in the form that Hugging Face's hub reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import GRAPH
from clmpt.pages.model_facts import ModelFacts, model_facts
from clmpt.pages.page import Block, Bullets, Heading, Page, Table, Text
from clmpt.pages.report_folder import is_report, read_report
from clmpt.sharing.shared_files import CARD, CONFIG, shared_in
from clmpt.storage.files import new_file

_TAGS = ("knowledge-graph", "complex-query-answering", "link-prediction", "clmpt")
_USE = """
```python
import clmpt

folder = clmpt.pull({name}, "model")  # needs: pip install 'clmpt[hub]'
model = clmpt.load(folder)
model.graph  # what it knows
model.ask("?x : RELATION(NAME, ?x)")  # what it thinks
```
"""


def write_card(
    folder: str | Path, name: str = "", licence: str = "unknown", datasets: Sequence[str] = ()
) -> Path:
    """Writes the card of a fitted model into its folder; one that is there must be the same."""
    path = Path(folder) / CARD
    text = card_text(folder, name, licence, datasets)
    with new_file(path, replaces=False) as scratch:
        scratch.write_text(text, encoding="utf-8")
    return path


def card_text(
    folder: str | Path, name: str = "", licence: str = "unknown", datasets: Sequence[str] = ()
) -> str:
    """What the model is, how good it is, what it was made from and with, and how to load it."""
    folder = Path(folder)
    shared_in(folder)  # rejects what is no model with its graph
    title = name or folder.resolve().name
    reports = _reports(folder)
    page = Page(
        title, list(_blocks(model_facts(folder), KnowledgeGraph.open(folder / GRAPH), reports))
    )
    use = _USE.format(name=json.dumps(name or "USER/NAME"))
    header = _header(title, licence, datasets, reports)
    return f"---\n{header}---\n\n{page.markdown()}\n## Use\n{use}"


def config_text(folder: str | Path) -> str:
    """The settings as JSON, where the hub looks for them."""
    facts = model_facts(folder)
    document = {
        "model_type": "clmpt",
        "reasoner": facts.name,
        "predictor": facts.predictor,
        "asked": facts.asked,
        "versions": dict(facts.versions),
        **{table: dict(values) for table, values in facts.settings.items()},
    }
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def made_files(
    folder: Path, name: str, licence: str, datasets: Sequence[str] = ()
) -> dict[str, bytes]:
    """The card, unless the folder has one, and the settings."""
    made = {CONFIG: config_text(folder).encode()}
    if not (folder / CARD).exists():
        made[CARD] = card_text(folder, name, licence, datasets).encode()
    return made


def _reports(folder: Path) -> list[dict[str, Any]]:
    """The figures that `fit` measured, the trained reasoner's first."""
    places = sorted(path.parent for path in folder.glob("report*/report.json"))
    return [read_report(place) for place in places if is_report(place)]


def _header(
    title: str, licence: str, datasets: Sequence[str], reports: Sequence[dict[str, Any]]
) -> str:
    """YAML. Texts are written as JSON, which YAML includes, so that none can end its line."""
    lines = ["library_name: clmpt", f"license: {_quoted(licence)}", "pipeline_tag: graph-ml"]
    lines += ["tags:", *(f"- {tag}" for tag in _TAGS)]
    if datasets:
        lines += ["datasets:", *(f"- {_quoted(name)}" for name in datasets)]
    if reports:
        lines += ["metrics:", "- mrr", "model-index:", f"- name: {_quoted(title)}", "  results:"]
    for report in reports:
        figure = f"MRR of {report['model']}, mean over {len(report['shapes'])} shapes"
        lines += [
            "  - task: {type: graph-ml, name: complex query answering}",
            "    dataset: {type: own, name: queries that need a held-out fact}",
            f"    metrics: [{{type: mrr, value: {report['mean']:.4f}, name: {_quoted(figure)}}}]",
        ]
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def _blocks(
    facts: ModelFacts, graph: KnowledgeGraph, reports: Sequence[dict[str, Any]]
) -> Iterator[Block]:
    yield Text(
        "Answers complex questions (and, or, not, some) on an incomplete knowledge graph: what "
        "follows from its facts, and what is likely although a fact is missing. Made with clmpt."
    )
    yield Table(["model", ""], [list(row) for row in facts.rows()], is_text=True)
    yield Heading("The graph")
    splits = ", ".join(f"{name} {len(graph.triples(name)):,}" for name in graph.splits)
    yield Text(f"{graph.size}; facts by split: {splits}. The graph is part of this model.")
    if reports:
        yield Heading("Figures")
        yield Text("MRR × 100 on queries that need a held-out fact, by shape.")
        yield _figures(reports)
        notes = [note for report in reports[:1] for note in report["notes"]]
        yield Bullets(list(dict.fromkeys(notes)))
    if facts.settings:
        yield Heading("Settings")
        rows = [
            [f"{table}.{name}", str(value)]
            for table, values in facts.settings.items()
            for name, value in values.items()
        ]
        yield Table(["setting", "value"], rows, is_text=True)


def _figures(reports: Sequence[dict[str, Any]]) -> Table:
    by_shape = [{row["shape"]: row["mrr"] for row in report["shapes"]} for report in reports]
    rows = [
        [row["shape"], *(_hundredths(found.get(row["shape"])) for found in by_shape)]
        for row in reports[0]["shapes"]
    ]
    rows.append(["mean", *(_hundredths(report["mean"]) for report in reports)])
    return Table(["shape", *(str(report["model"]) for report in reports)], rows)


def _hundredths(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"
