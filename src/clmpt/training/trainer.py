"""Training a reasoner, step by step. Whoever drives it decides when to validate, save or stop.

Queries stay in the arrays they were stored in; a batch takes its rows from there. What a step does
depends only on the settings, the weights and the step's number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clmpt.errors import TrainingError
from clmpt.graph.edges import Ints
from clmpt.predictors.predictor import look_up
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.message_passing.candidates import lengths, pair_cosines
from clmpt.reasoners.message_passing.clmpt import (
    MessagePassing,
    best_alternative,
    cosine,
    nce_loss,
    unit,
)
from clmpt.reasoners.message_passing.dropout import Dropout
from clmpt.reasoners.message_passing.layout import batch_queries
from clmpt.settings import Training
from clmpt.training.stepping import is_sane, random_of, restore_training, trained, training_state

# Shapes: Q queries, G graphs, C constants, U entities that a step looks at, K candidates, D width

_ORDER, _POSITIVES, _NEGATIVES, _DROPOUT = range(4)  # what random numbers are for
_STEP_DECAY = 0.1


class Order:
    """Which queries make up which step: numbers of rows in the groups laid end to end."""

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
    """A reasoner, its optimizer and how many steps they have done."""

    def __init__(
        self, model: MessagePassing, groups: Sequence[QueryGroup], settings: Training
    ) -> None:
        groups = [_answered(group) for group in groups]
        self.model, self.settings = model, settings
        self.order = Order([group for group in groups if len(group)], settings)
        if not self.order.queries:
            raise TrainingError("There are no queries with answers to train on.")
        self.device = model.predictor.entities_ED.device
        self.steps_per_epoch = self.order.steps_per_epoch
        self.steps = settings.steps or settings.epochs * self.steps_per_epoch
        self.steps_done = 0
        self.passing = model.passing(share=model.settings.dropout == 0)
        table_ED = model.predictor.entities_ED
        self.frozen_length_E1 = lengths(table_ED) if model.settings.frozen else None
        self.optimizer: torch.optim.Optimizer = torch.optim.AdamW(
            list(trained(model).values()),
            settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=self.device.type in ("cpu", "cuda"),
        )

    def step(self) -> Tensor:
        """The loss before this step, on the device; reading its value there waits for the step."""
        settings = self.settings
        groups = self.order.batch(self.steps_done)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate
        with torch.autocast(
            self.device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"
        ):
            loss = self.loss(groups, self.positives(groups), self.negatives(groups))
        loss.backward()  # type: ignore[no-untyped-call]
        if settings.clip:
            torch.nn.utils.clip_grad_norm_(trained(self.model).values(), settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)  # now: the next step wants the memory
        self.steps_done += 1
        return loss.detach()

    @property
    def learning_rate(self) -> float:
        """That of the next step."""
        settings, step = self.settings, self.steps_done
        rate = settings.learning_rate
        if step < settings.warm_up:
            return rate * (step + 1) / (settings.warm_up + 1)
        if settings.decay == "step" and step >= settings.decay_epoch * self.steps_per_epoch:
            return rate * _STEP_DECAY
        if settings.decay == "cosine":
            done = (step - settings.warm_up) / max(self.steps - settings.warm_up, 1)
            return rate * (1 + math.cos(math.pi * done)) / 2
        return rate

    def mean_loss(self, loss_sum: float, steps: int) -> float:
        return loss_sum / steps

    @property
    def is_sane(self) -> bool:
        return is_sane(self.model)

    def state(self) -> dict[str, Tensor]:
        return training_state(self.model, self.optimizer)

    def restore(self, state: Mapping[str, Tensor], steps_done: int) -> None:
        restore_training(self.model, self.optimizer, state)
        self.steps_done = steps_done

    # --- one step ---------------------------------------------------------------------------------

    def positives(self, groups: Sequence[QueryGroup]) -> Ints:
        """One answer of each query, drawn anew each time."""
        random = random_of(self.settings.seed, _POSITIVES, self.steps_done)
        return np.concatenate([_drawn(group.easy, random) for group in groups])

    def negatives(self, groups: Sequence[QueryGroup]) -> Ints | None:
        """Any entities, answers not excepted: K for each query, or for all; None: all of them."""
        settings = self.settings
        if settings.negatives == "all":
            return None
        rows = sum(map(len, groups)) if settings.negatives == "query" else 1
        random = random_of(settings.seed, _NEGATIVES, self.steps_done)
        entities = len(self.model.predictor.entities_ED)
        return random.integers(entities, size=(rows, settings.negative_count))

    def loss(
        self, groups: Sequence[QueryGroup], positive_Q: Ints, negative_QK: Ints | None
    ) -> Tensor:
        """The loss of some queries. Each table is looked up once, so that each has one gradient."""
        batch = batch_queries(groups, self.passing).to(self.device)
        drawn = None if negative_QK is None else torch.from_numpy(negative_QK).to(self.device)
        rows_UD, length_U1, (place_C, positive, negative) = self._rows(
            batch.entity_C, torch.from_numpy(positive_Q).to(self.device), drawn
        )
        answers_GD = self.model(batch, look_up(rows_UD, place_C), self.dropout())
        if negative is None:
            scores_GE = cosine(answers_GD, rows_UD)
            scores_QE = best_alternative(scores_GE, batch.query_G, batch.queries)
            return functional.cross_entropy(scores_QE / self.settings.temperature, positive)
        query_GD = unit(answers_GD)
        if len(negative) == 1 < batch.queries:
            candidate_G1 = positive[batch.query_G, None]
            positive_G1 = pair_cosines(query_GD, rows_UD, length_U1, candidate_G1)
            negative_KD = unit(look_up(rows_UD, negative[0]))
            scores_GK = torch.cat([positive_G1, query_GD @ negative_KD.T], 1)
        else:
            candidate_QK = torch.cat([positive[:, None], negative], 1)
            candidate_GK = candidate_QK[batch.query_G]
            scores_GK = pair_cosines(query_GD, rows_UD, length_U1, candidate_GK)
        scores_QK = best_alternative(scores_GK, batch.query_G, batch.queries)
        return nce_loss(scores_QK[:, :1], scores_QK[:, 1:], self.settings.temperature)

    def _rows(
        self, constant_C: Tensor, positive_Q: Tensor, negative_QK: Tensor | None
    ) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor | None]]:
        """Rows of the entity table, their lengths, and where the entities asked for are in them.

        Of a frozen table nothing is copied or computed, so a step with sampled negatives costs the
        same however large it is. Of another the rows that a step looks at are taken out, once.
        """
        table_ED: Tensor = self.model.predictor.entities_ED
        if self.frozen_length_E1 is not None:
            return table_ED, self.frozen_length_E1, (constant_C, positive_Q, negative_QK)
        if negative_QK is None:
            return table_ED, table_ED.new_empty(0), (constant_C, positive_Q, None)
        parts = [constant_C, positive_Q, negative_QK.flatten()]
        found_U, place = torch.unique(torch.cat(parts), return_inverse=True)
        rows_UD = look_up(table_ED, found_U)
        constant, positive, negative = torch.split(place, [len(part) for part in parts])
        return rows_UD, lengths(rows_UD), (constant, positive, negative.view_as(negative_QK))

    def dropout(self) -> Dropout:
        seed = random_of(self.settings.seed, _DROPOUT, self.steps_done).integers(2**63)
        generator = torch.Generator(self.device).manual_seed(int(seed))
        return Dropout(self.model.settings.dropout, generator)


def _answered(group: QueryGroup) -> QueryGroup:
    """A group without the queries that have no answer to learn from."""
    rows = np.flatnonzero(group.easy.counts > 0)
    return group if len(rows) == len(group) else group.take(rows)


def _drawn(answers: AnswerSets, random: np.random.Generator) -> Ints:
    at = answers.offsets[:-1] + (random.random(len(answers)) * answers.counts).astype(np.int64)
    return answers.entities[at].astype(np.int64)
