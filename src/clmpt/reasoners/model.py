"""The seam for models: what training, checkpoints, plans and commands know of them.

A model is a class with a table of settings. It is built on a graph, and on a link predictor where
it needs one; it can be stored; and it gives a `Reasoner`. A model that learns by gradient descent
also says how it lays out queries, what its loss is and what a step costs. Nothing outside this room
asks which model it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor, nn

from clmpt.errors import SettingError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Query
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.reasoner import Reasoner
from clmpt.registry import REASONERS
from clmpt.settings import Reasoning, Settings, read_table

# Shapes: Q queries, K negatives, E entities

_Batch = TypeVar("_Batch", bound="Batch")


@dataclass(frozen=True)
class Basis:
    """What a model is built on: the facts that it may see, and a predictor if it needs one."""

    graph: KnowledgeGraph
    predictor: EmbeddingPredictor | None = None


class Batch(Protocol):
    """Some queries, laid out for a model. What else is in it, only the model knows."""

    @property
    def queries(self) -> int: ...

    def to(self: _Batch, device: torch.device) -> _Batch: ...


@dataclass(frozen=True)
class Candidates:
    """What a step tells apart: one answer of each query, and entities drawn at random.

    `negative_QK` has a row for each query, or one for all of them; None stands for all entities.
    """

    positive_Q: Tensor
    negative_QK: Tensor | None


@dataclass(frozen=True)
class Cost:
    """What computing takes: operations of matrix products, bytes moved beside them, and how many
    embeddings pass through an encoder, for models that have one."""

    products: float = 0.0
    bytes: float = 0.0
    tokens: int = 0


class ReasonerModel(nn.Module, ABC):
    """A model that can be trained, stored and asked.

    Parameters and buffers are all that is stored, besides `settings`. `__init__` allocates by
    torch's own factory functions only, so that a stored model's size can be checked beforehand.
    """

    title: ClassVar[str]  # in tables
    Settings: ClassVar[type[Settings]]
    needs_predictor: ClassVar[bool] = True

    def __init__(self, basis: Basis, settings: Any) -> None:
        super().__init__()
        self.settings = settings
        self.entities = len(basis.graph.entities)
        self.predictor = basis.predictor

    @abstractmethod
    def reasoner(self) -> Reasoner:
        """The model, ready to be asked. Its weights must not change as long as that is used."""

    def tune(self, queries: Sequence[QueryGroup]) -> None:
        """Chooses what is chosen on validation queries, after the last step; often nothing."""

    @classmethod
    def label(cls, settings: Any) -> str:  # noqa: ARG003
        """Its title, with what is special about these settings."""
        return cls.title

    @classmethod
    def check(cls, settings: Any, width: int) -> None:
        """Refuses settings that do not suit a predictor of this width, before hours are spent."""

    @classmethod
    def summary(cls, settings: Any) -> str:
        """These settings in a line, for plans."""
        shown = (f"{name.replace('_', ' ')} {value}" for name, value in asdict(settings).items())
        return ", ".join(shown)

    @classmethod
    def suggested(cls, entities: int) -> Mapping[str, Any]:  # noqa: ARG003
        """Settings that suit a graph of this size, where nobody chose others."""
        return {}

    @property
    def device(self) -> torch.device:
        first = next(self.parameters(), None)
        return torch.device("cpu") if first is None else first.device


class GradientModel(ReasonerModel):
    """A model that learns by gradient descent from queries and their answers."""

    # Parts of a step by the name of the method that does them, for `clmpt bench` to time.
    phases: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def lay_out(self, groups: Sequence[QueryGroup]) -> Any:
        """A `Batch` of the queries of all groups, in their order."""

    @abstractmethod
    def scores(self, batch: Any) -> Tensor:
        """scores_QE of all entities, for asking."""

    @abstractmethod
    def loss(self, batch: Any, candidates: Candidates, generator: torch.Generator) -> Tensor:
        """What a step reduces. All randomness comes from `generator`, so a step can be repeated."""

    def reasoner(self) -> Reasoner:
        return ModelReasoner(self)

    def notes(self, query: Query) -> tuple[str, ...]:  # noqa: ARG002
        """Where the scores fall short of a query, in words."""
        return ()

    def cost(self, batch: Any) -> Cost:  # noqa: ARG002
        """Of computing a batch's answers, not their scores."""
        return Cost()

    @classmethod
    def expected_cost(cls, settings: Any, width: int) -> Cost:  # noqa: ARG003
        """Of one query of average shape, on a predictor of this width: for plans."""
        return Cost()

    @classmethod
    def trains_entities(cls, settings: Any) -> bool:  # noqa: ARG003
        """Whether a step changes the table of entities, which is most of what it moves."""
        return True


class ModelReasoner:
    """A trained model that keeps nothing between questions."""

    def __init__(self, model: GradientModel) -> None:
        self.model, self.name = model, model.title

    @torch.no_grad()
    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        return self.model.scores(self.model.lay_out(groups).to(self.model.device))

    def notes(self, query: Query) -> tuple[str, ...]:
        return self.model.notes(query)


def read_reasoning(given: Mapping[str, Any]) -> Reasoning:
    """Which reasoner a table `[reasoning]` names, and its settings.

    They stand in a table of their own, `[reasoning.clmpt]`, or beside its name; tables of other
    reasoners may stand there too, for when those are chosen.

    >>> chosen = read_reasoning({"reasoner": "lmpnn", "lmpnn": {"epsilon": 0.2}, "clmpt": {}})
    >>> chosen.settings.epsilon, chosen.settings.conditional
    (0.2, False)
    """
    name = given.get("reasoner", "clmpt")
    if not isinstance(name, str):
        raise SettingError(f"'reasoner' must be of type str, not {name!r}.")
    for table in (key for key, value in given.items() if isinstance(value, Mapping)):
        if table != name and not REASONERS.is_known(table) and ":" not in table:
            REASONERS.find(table)  # refuses it, with a name that is near
    beside = {k: v for k, v in given.items() if k != "reasoner" and not isinstance(v, Mapping)}
    own = {**given.get(name, {}), **beside}
    return Reasoning(name, read_table(REASONERS.find(name).Settings, own))


def build_model(basis: Basis, reasoning: Reasoning, seed: int) -> ReasonerModel:
    """An untrained model. It takes over the predictor that it stands on, and may train it."""
    kind: Any = REASONERS.find(reasoning.reasoner)
    if kind.needs_predictor and basis.predictor is None:
        raise SettingError(f"{kind.title} stands on a link predictor. Say which: --predictor")
    generator = torch.Generator().manual_seed(seed)
    model: ReasonerModel = kind(basis, reasoning.settings, generator)
    if basis.predictor is None:
        return model
    return model.to(basis.predictor.entities_ED.device, basis.predictor.entities_ED.dtype)
