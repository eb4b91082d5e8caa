"""Training a reasoner, step by step. The caller decides when to validate, save or stop.

Queries stay in the arrays they are stored in, and batches take rows from there. A step depends only
on the settings, the weights and the step's number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clmpt.compute import distributed
from clmpt.compute.row_shards import RowShard
from clmpt.compute.sharded_weights import divide_weights, own_part, whole_weights
from clmpt.errors import SettingError, TrainingError
from clmpt.graph.edges import Ints
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.model import Candidates, GradientModel
from clmpt.settings import Training
from clmpt.training.row_adam import RowAdamW, clip_gradients
from clmpt.training.stepping import (
    divided_names,
    is_sane,
    random_of,
    restore_training,
    trained,
    training_state,
)

# Shapes: Q queries, K negatives

_ORDER, _POSITIVES, _NEGATIVES, _MODEL = range(4)  # purposes of random numbers
_STEP_DECAY = 0.1
_SMOOTHING = 4  # answers that each query is taken to have beside its own, when it is weighted


class Order:
    """Which queries are in which step, as row numbers of the concatenated groups."""

    def __init__(self, groups: Sequence[QueryGroup], settings: Training) -> None:
        self.groups, self.settings = groups, settings
        self.first = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
        sizes = [len(group) for group in groups] if settings.mixing == "shape" else [self.queries]
        self.steps_per_epoch = sum(math.ceil(size / settings.batch) for size in sizes)
        self._epoch: tuple[int, list[Ints]] | None = None

    @property
    def queries(self) -> int:
        return int(self.first[-1])

    def batch(self, step: int) -> list[QueryGroup]:
        """The queries of a step, by shape."""
        epoch, within = divmod(step, self.steps_per_epoch)
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, self._shuffled(random_of(self.settings.seed, _ORDER, epoch))
        rows = np.sort(self._epoch[1][within])
        cuts = np.searchsorted(rows, self.first)
        return [
            group.take(rows[start:stop] - first)
            for group, start, stop, first in zip(
                self.groups, cuts[:-1], cuts[1:], self.first[:-1], strict=True
            )
            if stop > start
        ]

    def _shuffled(self, random: np.random.Generator) -> list[Ints]:
        size = self.settings.batch
        if self.settings.mixing == "all":
            orders = [random.permutation(self.queries)]
        else:
            firsts = zip(self.groups, self.first[:-1].tolist(), strict=True)
            orders = [random.permutation(len(group)) + first for group, first in firsts]
        batches = [order[at : at + size] for order in orders for at in range(0, len(order), size)]
        if self.settings.mixing == "all":
            return batches
        return [batches[at] for at in random.permutation(len(batches))]


class Trainer:
    """A reasoner, its optimizer and the number of steps done."""

    def __init__(
        self, model: GradientModel, groups: Sequence[QueryGroup], settings: Training
    ) -> None:
        groups = [_answered(group) for group in groups]
        self.model, self.settings = model, settings
        self.order = Order([group for group in groups if len(group)], settings)
        if not self.order.queries:
            raise TrainingError("There are no queries with answers to train on.")
        self.device = model.device
        self.steps_per_epoch = self.order.steps_per_epoch
        self.steps = settings.steps or settings.epochs * self.steps_per_epoch
        self.steps_done = 0
        self.table = self._table_by_rows()
        self._stepped = _Loss(model)
        if settings.divided == "weights" and distributed.processes() > 1:
            divide_weights(self._stepped, [] if self.table is None else [self.table])
        self.optimizer: torch.optim.Optimizer = RowAdamW(
            list(trained(model).values()),
            settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=self.device.type in ("cpu", "cuda"),
        )

    def _table_by_rows(self) -> Tensor | None:
        """The entity table, if it is trained and a step is to touch only its own rows of it."""
        settings, predictor = self.settings, self.model.predictor
        if settings.entity_rows == "all":
            return None
        if settings.negatives == "all":
            raise SettingError(
                "With all entities as negatives a step uses every row of the table. Choose "
                "negatives = 'query' or 'batch', or entity_rows = 'all'."
            )
        if predictor is None:
            raise SettingError(
                f"{self.model.title} has a table of its own, of which a step updates every row. "
                "Choose entity_rows = 'all'."
            )
        table = predictor.entities_ED
        return table if table.requires_grad else None

    def step(self) -> Tensor:
        """Takes a step and returns the loss before it, on the device; reading its value waits."""
        settings = self.settings
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate
        loss = self._own_loss(self.order.batch(self.steps_done))
        whole = [p for p in trained(self.model).values() if own_part(p) is p]
        distributed.sum_gradients(whole, self.table)
        if settings.clip:
            clip_gradients(trained(self.model).values(), settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)  # now, to free the memory for the next step
        self.steps_done += 1
        return distributed.total(loss)

    def _own_loss(self, groups: Sequence[QueryGroup]) -> Tensor:
        """This process's part of the step's mean loss, with its gradients."""
        queries = sum(map(len, groups))
        own = distributed.own_share(queries)
        weight = (own.stop - own.start) / queries
        if not weight:  # fewer queries than processes: any query, so that all take part
            own = slice(0, 1)
        candidates = self.candidates(groups, own)
        with torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"
        ):
            batch = self.model.lay_out(part_of_groups(groups, own)).to(self.device)
            loss: Tensor = weight * self._stepped(batch, candidates, self.randomness())
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        settings, step = self.settings, self.steps_done
        rate = settings.learning_rate
        if step < settings.warm_up:
            return rate * (step + 1) / (settings.warm_up + 1)
        if settings.decay == "step" and step >= settings.decay_epoch * self.steps_per_epoch:
            return rate * _STEP_DECAY
        if settings.decay == "fifths":
            return rate / 5.0 ** _points_passed(step, self.steps / 2)
        if settings.decay == "cosine":
            done = (step - settings.warm_up) / max(self.steps - settings.warm_up, 1)
            return rate * (1 + math.cos(math.pi * done)) / 2
        return rate

    @property
    def products_per_step(self) -> float:
        return 3 * self.model.cost(self.model.lay_out(self.order.batch(0))).products

    @property
    def last_learning_rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    def mean_loss(self, loss_sum: float, steps: int) -> float:
        return loss_sum / steps

    @property
    def is_sane(self) -> bool:
        return not distributed.any_of(not is_sane(self.model))

    def whole(self) -> AbstractContextManager[None]:
        """While it lasts, every process has all of the weights: for validation and for files."""
        return whole_weights(self._stepped)

    def state(self) -> dict[str, Tensor]:
        found = training_state(self.model, self.optimizer)
        return {name: own_part(tensor) for name, tensor in found.items()}

    @property
    def shards(self) -> dict[str, RowShard]:
        divided = divided_names(self.model, self.optimizer)
        return {name: RowShard.own(rows) for name, rows in divided.items()}

    def restore(self, state: Mapping[str, Tensor], steps_done: int) -> None:
        restore_training(self.model, self.optimizer, state)
        self.steps_done = steps_done

    # --- one step ---------------------------------------------------------------------------------

    def positives(self, groups: Sequence[QueryGroup]) -> Ints:
        """A random answer of each query."""
        random = random_of(self.settings.seed, _POSITIVES, self.steps_done)
        return np.concatenate([_drawn(group.easy, random) for group in groups])

    def negatives(self, groups: Sequence[QueryGroup]) -> Ints | None:
        """Random entities, possibly answers: K per query or per batch; None for all entities."""
        settings = self.settings
        if settings.negatives == "all":
            return None
        rows = sum(map(len, groups)) if settings.negatives == "query" else 1
        random = random_of(settings.seed, _NEGATIVES, self.steps_done)
        return random.integers(self.model.entities, size=(rows, settings.negative_count))

    def candidates(self, groups: Sequence[QueryGroup], own: slice = slice(None)) -> Candidates:
        """The positives and negatives of some queries of the next step."""
        negative_QK = self.negatives(groups)
        if negative_QK is not None and self.settings.negatives == "query":
            negative_QK = negative_QK[own]
        return Candidates(
            torch.from_numpy(self.positives(groups)[own]).to(self.device),
            None if negative_QK is None else torch.from_numpy(negative_QK).to(self.device),
            own.start or 0,
            self.table is not None,
            _weights(groups)[own].to(self.device),
            _mean_answers(groups),
        )

    def randomness(self) -> torch.Generator:
        """The generator for all other randomness in the next step."""
        seed = random_of(self.settings.seed, _MODEL, self.steps_done).integers(2**63)
        return torch.Generator(self.device).manual_seed(int(seed))


class _Loss(nn.Module):
    """A model's loss as a module's `forward`, which FSDP knows."""

    def __init__(self, model: GradientModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Any, candidates: Candidates, generator: torch.Generator) -> Tensor:
        return self.model.loss(batch, candidates, generator)


def _points_passed(step: int, first: float) -> int:
    """How many of the points first, 1.5 first, 1.5² first, … a step has reached."""
    return 0 if step < first else 1 + math.floor(math.log(step / first) / math.log(1.5) + 1e-9)


def part_of_groups(groups: Sequence[QueryGroup], own: slice) -> list[QueryGroup]:
    """Some of the queries of all groups, counted through."""
    found, first = [], 0
    for group in groups:
        start, stop = max(own.start - first, 0), min(own.stop - first, len(group))
        if start < stop:
            found.append(group.take(slice(start, stop)))
        first += len(group)
    return found


def _weights(groups: Sequence[QueryGroup]) -> Tensor:
    """The weights of queries by their number of answers; see `Candidates`."""
    answers = np.concatenate([group.easy.counts for group in groups])
    weight_Q = (_SMOOTHING + torch.from_numpy(answers)).rsqrt()
    return weight_Q / weight_Q.mean()


def _mean_answers(groups: Sequence[QueryGroup]) -> float:
    return sum(len(group.easy.entities) for group in groups) / sum(map(len, groups))


def _answered(group: QueryGroup) -> QueryGroup:
    """The queries of a group that have answers."""
    rows = np.flatnonzero(group.easy.counts > 0)
    return group if len(rows) == len(group) else group.take(rows)


def _drawn(answers: AnswerSets, random: np.random.Generator) -> Ints:
    at = answers.offsets[:-1] + (random.random(len(answers)) * answers.counts).astype(np.int64)
    return answers.entities[at].astype(np.int64)
