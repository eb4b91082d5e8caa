"""A fit that takes seconds: forty entities, a file of facts, a quick recipe."""

from __future__ import annotations

from pathlib import Path

from toy import random_graph

QUICK = """
[fitting]
queries = 50
test_queries = 5
[pretraining]
rank = 8
epochs = 3
[reasoning]
heads = 2
feed_forward = 16
[training]
steps = 20
batch = 32
validation_queries = 4
"""
STAGES = [f"trying regularisation {value}" for value in (0.05, 0.01, 0.02)]
STAGES += ["pre-training", "training queries", "training", "test queries", "measuring"]
STAGES += ["measuring clmpt", "measuring truth-values", "beam search", "checking probabilities"]
TABLES = {
    "fitting": {"queries": 50, "test_queries": 5},
    "pretraining": {"rank": 8, "epochs": 3},
    "reasoning": {"heads": 2, "feed_forward": 16},
    "training": {"steps": 20, "batch": 32, "validation_queries": 4},
}


def fit_words(folder: Path, out: str, *more: str) -> list[str]:
    """The arguments of `clmpt fit` for the facts in a folder."""
    recipe = ["--recipe", str(folder / "quick.toml"), "--device", "cpu"]
    return ["fit", str(folder / "facts.tsv"), "--out", str(folder / out), *recipe, *more]


def write_facts(folder: Path) -> None:
    graph = random_graph(False)
    names, relations = graph.entities.names, graph.relations.names
    rows = sorted({tuple(row) for row in graph.triples().tolist()})
    (folder / "facts.tsv").write_text(
        "".join(f"{names[h]}\t{relations[r]}\t{names[t]}\n" for h, r, t in rows)
    )
    (folder / "quick.toml").write_text(QUICK)
