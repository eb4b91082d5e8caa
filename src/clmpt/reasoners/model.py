"""The interface of models: all that training, checkpoints, plans and commands know about them.

A model is a class with a table of settings. It is built on a graph, and on a link predictor if it
needs one; it can be stored; and it provides a `Reasoner`. A model that learns by gradient descent
also defines how it lays out queries, its loss and the cost of a step. Nothing outside this package
depends on which model it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor, nn

from clmpt.errors import SettingError, WrongGraph
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.stored_names import NameMatch
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
    """What a model is built on: the facts it may see, and a predictor if it needs one."""

    graph: KnowledgeGraph
    predictor: EmbeddingPredictor | None = None


class Batch(Protocol):
    """A batch of queries, laid out for a model; the rest is up to the model."""

    @property
    def queries(self) -> int: ...

    def to(self: _Batch, device: torch.device) -> _Batch: ...


@dataclass(frozen=True)
class Candidates:
    """The positive and the negatives of each query.

    `negative_QK` has a row per query, or one for all of them; None stands for all entities. If
    several processes share a step, `first` is the number of the first of these queries in it.
    `by_rows` asks for a sparse gradient of a trained entity table: that of the rows looked up.
    `weight_Q` is for losses that count queries with many answers less: 1 / √(4 + answers), so
    scaled that their mean is 1 over all queries of the step; `mean_answers` is for those that count
    them more: the mean number of known answers of these queries.
    """

    positive_Q: Tensor
    negative_QK: Tensor | None
    first: int = 0
    by_rows: bool = False
    weight_Q: Tensor | None = None
    mean_answers: float | None = None


@dataclass(frozen=True)
class Cost:
    """The cost of a computation: operations of matrix products, other bytes moved, how many
    embeddings pass through the encoder, if there is one, and bytes kept for the gradient."""

    products: float = 0.0
    bytes: float = 0.0
    tokens: int = 0
    kept: float = 0.0


class ReasonerModel(nn.Module, ABC):
    """A model that can be trained, stored and queried.

    Only parameters, buffers and `settings` are stored. `__init__` must allocate with torch's
    factory functions, so that the size of a stored model can be checked before it is loaded.
    """

    title: ClassVar[str]  # in tables
    Settings: ClassVar[type[Settings]]
    needs_predictor: ClassVar[bool] = True
    part_names: ClassVar[tuple[str, ...]] = ()  # of `parts`, known without a model
    rows_per_query: ClassVar[int] = 1  # how often all entities are scored for a query, for plans
    labelled: ClassVar[tuple[str, ...]] = ()  # settings that `label` speaks of
    # The parts of a step that `clmpt bench` times, by label: the method that does them.
    phases: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        basis: Basis,
        settings: Any,
        generator: torch.Generator | None = None,  # noqa: ARG002
    ) -> None:
        super().__init__()
        self.settings = settings
        self.entities = len(basis.graph.entities)
        self.predictor = basis.predictor

    @abstractmethod
    def reasoner(self) -> Reasoner:
        """The model, ready for queries. Its weights must not change while this is in use."""

    def parts(self) -> Mapping[str, Reasoner]:
        """Reasoners that it consists of, by their `part_names`; each can be asked on its own."""
        return {}

    @property
    def untrained_predictor(self) -> EmbeddingPredictor | None:
        """Its predictor as it was before the model was trained, if it kept that; else as it is."""
        return self.predictor

    def tune(self, queries: Sequence[QueryGroup]) -> None:
        """Chooses what is chosen on validation queries, before each validation; often nothing."""

    @classmethod
    def label(cls, settings: Any) -> str:  # noqa: ARG003
        """Its title, with what is not default in these settings."""
        return cls.title

    @classmethod
    def check(cls, settings: Any, predictor: type[EmbeddingPredictor], width: int) -> None:
        """Rejects settings that do not fit a predictor of this class and width, before any
        training."""

    @classmethod
    def summary(cls, settings: Any) -> str:
        """These settings in one line, for plans."""
        shown = (f"{name.replace('_', ' ')} {value}" for name, value in asdict(settings).items())
        return ", ".join(shown)

    @classmethod
    def suggested(cls, entities: int) -> Mapping[str, Any]:  # noqa: ARG003
        """Default settings for a graph of this size."""
        return {}

    @classmethod
    def check_query(cls, settings: Any, query: Query) -> None:
        """Refuses, as `UnsupportedQuery`, a query that a model with these settings cannot
        express. Training and reports leave such queries out, and say so."""

    @classmethod
    def check_newer(cls, match: NameMatch) -> None:  # noqa: ARG003
        """Refuses, as `WrongGraph`, a newer graph in which its own weights would stand for other
        entities or relations: by default, every newer graph, unless there is a predictor. Its
        weights are carried over by name."""
        if not cls.needs_predictor:
            raise WrongGraph(
                f"{cls.title} has embeddings of the entities that it was trained on. Train one on "
                "the newer graph."
            )

    @property
    def device(self) -> torch.device:
        first = next(self.parameters(), None)
        return torch.device("cpu") if first is None else first.device


class GradientModel(ReasonerModel):
    """A model that learns by gradient descent from queries and their answers."""

    @abstractmethod
    def lay_out(self, groups: Sequence[QueryGroup]) -> Any:
        """A `Batch` of the queries of all groups, in their order."""

    @abstractmethod
    def scores(self, batch: Any) -> Tensor:
        """scores_QE of all entities, for inference."""

    @abstractmethod
    def loss(self, batch: Any, candidates: Candidates, generator: torch.Generator) -> Tensor:
        """The mean loss of the queries. All randomness comes from `generator`, so a step can be
        repeated; processes that share a step get the same numbers from it. What is drawn should
        depend on a query's number in the step: see `Candidates`."""

    def reasoner(self) -> Reasoner:
        return ModelReasoner(self)

    def notes(self, query: Query) -> tuple[str, ...]:  # noqa: ARG002
        """Where the scores only approximate a query, in words."""
        return ()

    def cost(self, batch: Any) -> Cost:  # noqa: ARG002
        """The cost of computing a batch's answers, without scoring entities."""
        return Cost()

    @classmethod
    def expected_cost(cls, settings: Any, width: int) -> Cost:  # noqa: ARG003
        """The expected cost of an average query with a predictor of this width, for plans."""
        return Cost()

    @classmethod
    def expected_cost_per_entity(cls, settings: Any, width: int) -> Cost:  # noqa: ARG003
        """What an average query costs besides, for each entity of the graph: of models that compute
        something for all of them."""
        return Cost()

    @classmethod
    def trains_entities(cls, settings: Any) -> bool:  # noqa: ARG003
        """Whether a step updates the entity table, which is most of the memory traffic."""
        return True


class ModelReasoner:
    """A trained model without a cache."""

    def __init__(self, model: GradientModel) -> None:
        self.model, self.name = model.eval(), model.title

    @torch.no_grad()
    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        return self.model.scores(self.model.lay_out(groups).to(self.model.device))

    def notes(self, query: Query) -> tuple[str, ...]:
        return self.model.notes(query)

    def check_query(self, query: Query) -> None:
        self.model.check_query(self.model.settings, query)


def read_reasoning(given: Mapping[str, Any]) -> Reasoning:
    """The reasoner that a table `[reasoning]` names, and its settings.

    Settings are in a table such as `[reasoning.clmpt]`, or next to the name. Tables of other
    reasoners are ignored.

    >>> chosen = read_reasoning({"reasoner": "lmpnn", "lmpnn": {"epsilon": 0.2}, "clmpt": {}})
    >>> chosen.settings.epsilon, chosen.settings.conditional
    (0.2, False)
    """
    name = given.get("reasoner", "clmpt")
    if not isinstance(name, str):
        raise SettingError(f"'reasoner' must be of type str, not {name!r}.")
    for table in (key for key, value in given.items() if isinstance(value, Mapping)):
        if table != name and not REASONERS.is_known(table) and ":" not in table:
            REASONERS.find(table)  # rejects unknown ones
    inline = {k: v for k, v in given.items() if k != "reasoner" and not isinstance(v, Mapping)}
    for key in inline:
        if REASONERS.is_known(key):
            own_table(given, key)  # rejects what is not a table
    own = {**tables_of(given, name), **inline}
    return Reasoning(name, read_table(REASONERS.find(name).Settings, own))


def tables_of(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The settings of one reasoner in `[reasoning]`: those of its parts, and its own above them."""
    found: dict[str, Any] = {}
    for part in (*REASONERS.find(name).part_names, name):
        found |= own_table(given, part)
    return found


def own_table(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The table of one reasoner in `[reasoning]`."""
    found = given.get(name, {})
    if not isinstance(found, Mapping):
        raise SettingError(f"[reasoning.{name}] must be a table, not {found!r}.")
    return found


def build_model(basis: Basis, reasoning: Reasoning, seed: int) -> ReasonerModel:
    """An untrained model. It takes over its predictor, and may train it further."""
    kind: Any = REASONERS.find(reasoning.reasoner)
    if kind.needs_predictor and basis.predictor is None:
        raise SettingError(f"{kind.title} needs a link predictor: --predictor CHECKPOINT")
    generator = torch.Generator().manual_seed(seed)
    model: ReasonerModel = kind(basis, reasoning.settings, generator)
    if basis.predictor is None:
        return model
    return model.to(basis.predictor.entities_ED.device, basis.predictor.entities_ED.dtype)
