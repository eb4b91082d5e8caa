"""Ask knowledge graphs complex questions: what is known, and what is likely.

    import clmpt

    graph = clmpt.open_graph("facts.tsv")
    model = clmpt.fit(graph, "mine")
    for answer in model.ask('?who : directed(?who, ?film) & won(?film, "Golden Lion")'):
        print(answer.label, answer.probability, answer.status)

Everything here is loaded when it is first used: `import clmpt` is quick, and PyTorch is loaded with
`fit`, `load` and what they return, not for graphs and exact answers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clmpt import budget as budget
    from clmpt import errors as errors
    from clmpt.answering.answerer import Answerer as Answerer
    from clmpt.answering.answerer import load as load
    from clmpt.answering.answers import Answer as Answer
    from clmpt.answering.answers import Answers as Answers
    from clmpt.answering.answers import Evidence as Evidence
    from clmpt.errors import BadQuestions as BadQuestions
    from clmpt.errors import ClmptError as ClmptError
    from clmpt.evaluation.comparing import Comparison as Comparison
    from clmpt.evaluation.report import Report as Report
    from clmpt.experiments import calls
    from clmpt.experiments.compared_runs import compare_runs
    from clmpt.experiments.fitting import fit as fit
    from clmpt.experiments.single_runs import TrainedModel as TrainedModel
    from clmpt.graph.knowledge_graph import KnowledgeGraph as KnowledgeGraph
    from clmpt.graph.opening import open_graph as open_graph
    from clmpt.logic.formula import Query as Query
    from clmpt.logic.parser import parse as parse
    from clmpt.progress import Progress as Progress
    from clmpt.queries.store import QuerySet as QuerySet
    from clmpt.sharing.hub import pull as pull
    from clmpt.sharing.hub import push as push
    from clmpt.symbolic.exact_answers import ExactAnswers as ExactAnswers
    from clmpt.symbolic.exact_answers import ExactRows as ExactRows
    from clmpt.symbolic.solver import solve as solve

    compare = compare_runs
    evaluate_links = calls.evaluate_on_links
    evaluate = calls.evaluate_on_queries
    index = calls.index_model
    pretrain = calls.pretrain_on
    reproduce = calls.reproduce_recipe
    sample = calls.sample_from
    train = calls.train_on

__version__ = "0.1.0"

_HOMES = {
    "Answer": "clmpt.answering.answers",
    "Answerer": "clmpt.answering.answerer",
    "Answers": "clmpt.answering.answers",
    "BadQuestions": "clmpt.errors",
    "ClmptError": "clmpt.errors",
    "Comparison": "clmpt.evaluation.comparing",
    "Evidence": "clmpt.answering.answers",
    "ExactAnswers": "clmpt.symbolic.exact_answers",
    "ExactRows": "clmpt.symbolic.exact_answers",
    "KnowledgeGraph": "clmpt.graph.knowledge_graph",
    "Progress": "clmpt.progress",
    "Query": "clmpt.logic.formula",
    "QuerySet": "clmpt.queries.store",
    "Report": "clmpt.evaluation.report",
    "TrainedModel": "clmpt.experiments.single_runs",
    "compare": "clmpt.experiments.compared_runs:compare_runs",
    "evaluate": "clmpt.experiments.calls:evaluate_on_queries",
    "evaluate_links": "clmpt.experiments.calls:evaluate_on_links",
    "fit": "clmpt.experiments.fitting",
    "index": "clmpt.experiments.calls:index_model",
    "load": "clmpt.answering.answerer",
    "open_graph": "clmpt.graph.opening",
    "parse": "clmpt.logic.parser",
    "pretrain": "clmpt.experiments.calls:pretrain_on",
    "pull": "clmpt.sharing.hub",
    "push": "clmpt.sharing.hub",
    "reproduce": "clmpt.experiments.calls:reproduce_recipe",
    "sample": "clmpt.experiments.calls:sample_from",
    "solve": "clmpt.symbolic.solver",
    "train": "clmpt.experiments.calls:train_on",
}
_MODULES = ("budget", "errors")
_WITH_TORCH = ("clmpt.answering.answerer", "clmpt.experiments", "clmpt.sharing")

__all__ = ["__version__", *_HOMES, *_MODULES]


if not TYPE_CHECKING:  # a type checker sees the imports above, and misspelt names

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"clmpt.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'clmpt' has no attribute '{name}'")
        home, _, own = _HOMES[name].partition(":")
        if home.startswith(_WITH_TORCH):
            import_module("clmpt.compute.processors").prepare_torch()
        return getattr(import_module(home), own or name)


def __dir__() -> list[str]:
    return sorted(__all__)
