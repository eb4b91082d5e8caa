"""Ask knowledge graphs complex questions: what is known, and what is likely.

    import clmpt

    graph = clmpt.open_graph("facts.tsv")
    model = clmpt.fit(graph, "mine")
    for answer in model.ask('?who : directed(?who, ?film) & won(?film, "Golden Lion")'):
        print(answer.label, answer.score, answer.status)

Everything here is loaded when it is first used: `import clmpt` is quick, and PyTorch is loaded with
`fit`, `load` and what they return, not for graphs and exact answers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clmpt.answering.answerer import Answerer as Answerer
    from clmpt.answering.answerer import load as load
    from clmpt.answering.answers import Answer as Answer
    from clmpt.answering.answers import Answers as Answers
    from clmpt.answering.answers import Evidence as Evidence
    from clmpt.errors import ClmptError as ClmptError
    from clmpt.experiments.fitting import fit as fit
    from clmpt.graph.knowledge_graph import KnowledgeGraph as KnowledgeGraph
    from clmpt.graph.opening import open_graph as open_graph
    from clmpt.logic.formula import Query as Query
    from clmpt.logic.parser import parse as parse
    from clmpt.progress import Progress as Progress
    from clmpt.symbolic.solver import solve as solve

__version__ = "0.1.0"

_HOMES = {
    "Answer": "clmpt.answering.answers",
    "Answerer": "clmpt.answering.answerer",
    "Answers": "clmpt.answering.answers",
    "ClmptError": "clmpt.errors",
    "Evidence": "clmpt.answering.answers",
    "KnowledgeGraph": "clmpt.graph.knowledge_graph",
    "Progress": "clmpt.progress",
    "Query": "clmpt.logic.formula",
    "fit": "clmpt.experiments.fitting",
    "load": "clmpt.answering.answerer",
    "open_graph": "clmpt.graph.opening",
    "parse": "clmpt.logic.parser",
    "solve": "clmpt.symbolic.solver",
}

__all__ = ["__version__", *_HOMES]


if not TYPE_CHECKING:  # a type checker sees the imports above, and misspelt names

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'clmpt' has no attribute '{name}'")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
