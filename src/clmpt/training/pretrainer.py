"""Pre-training, step by step. The caller decides when to validate, save or stop.

A step depends only on the settings, the tables and the step's number, not on the state of a random
generator: a run resumed from saved tables gives the same result as one without interruption.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor

from clmpt.compute import distributed
from clmpt.compute.row_shards import RowShard
from clmpt.errors import TrainingError
from clmpt.graph.edges import Ints
from clmpt.predictors.link_batch import LinkBatch
from clmpt.predictors.objectives import is_sampled, objective_of
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.predictors.sampled_softmax import MOST_ANSWERS
from clmpt.queries.links import Links
from clmpt.settings import Pretraining
from clmpt.training.shuffling import Shuffled, shuffled
from clmpt.training.stepping import (
    is_sane,
    other_training,
    random_of,
    restore_training,
    training_state,
)

# Shapes: B questions of a batch, P all questions, K negatives

_ORDER, _NEGATIVES = 0, 1  # purposes of random numbers, each with its own stream

_SHARDS = {"entities_ED": "shard", "relations_SW": "relation_shard"}


class Pretrainer:
    """A predictor, its optimizer and the number of steps done.

    `result` is the trained predictor: the moving average of the tables, or the predictor itself.
    """

    def __init__(self, predictor: EmbeddingPredictor, links: Links, settings: Pretraining) -> None:
        if not len(links):
            raise TrainingError("There are no facts to train on.")
        assert predictor.shard == RowShard.own(predictor.shard.count)  # as `for_graph` made it
        if is_sampled(predictor.objective, settings):
            links = links.divided(MOST_ANSWERS)
        self.predictor, self.links, self.settings = predictor, links, settings
        self.device = predictor.entities_ED.device
        self.steps_done = 0
        self.steps_per_epoch = math.ceil(len(links) / settings.batch)
        self.steps = settings.epochs * self.steps_per_epoch
        self.batches_per_epoch = max(1.0, len(links) / settings.batch)
        self.mean_facts = links.facts / self.batches_per_epoch
        self.objective = objective_of(predictor.objective, settings)
        self.optimizer = self.objective.optimizer(predictor.parameters(), settings)
        self.result, self.often_E = predictor, None
        if is_sampled(predictor.objective, settings):  # a moving average would touch every row
            self.often_E = self._often()
        elif settings.averaging:
            self.result = copy.deepcopy(predictor).requires_grad_(False)
        loss = self._eager_loss
        self._loss = torch.compile(loss, dynamic=True) if settings.compile else loss
        self._order_P: tuple[int, Ints | Shuffled] | None = None

    def step(self) -> Tensor:
        """Takes a step and returns the loss before it, on the device; reading its value waits."""
        settings = self.settings
        batch, negative_K = self._batch(), self._negatives()
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate
        with torch.autocast(
            self.device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"
        ):
            loss: Tensor = self._loss(batch, negative_K)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        divided = {id(table) for table in self._divided.values()}  # whose shards sum their own
        shared = (p for p in self.predictor.parameters() if id(p) not in divided)
        distributed.sum_gradients(shared)
        self.optimizer.step()
        self.steps_done += 1
        if self.result is not self.predictor:
            self._average()
        return distributed.total(loss.detach())

    @torch.no_grad()
    def _average(self) -> None:
        """Updates the moving average, which is the result of training.

        The decay is lower at first, because the tables change quickly in the first steps.
        """
        kept = min(self.settings.averaging, (1 + self.steps_done) / (10 + self.steps_done))
        tables = zip(self.result.parameters(), self.predictor.parameters(), strict=True)
        for mean, table in tables:
            mean.lerp_(table, 1 - kept)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        left = 1 - self.steps_done / self.steps if self.settings.decay == "linear" else 1.0
        return self.settings.learning_rate * left

    @property
    def epoch(self) -> int:
        """The number of finished epochs."""
        return self.steps_done // self.steps_per_epoch

    # --- resuming ---------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        found = training_state(self.predictor, self.optimizer)
        if self.result is not self.predictor:
            found |= {f"mean.{name}": p for name, p in self.result.named_parameters()}
        return found

    @property
    def shards(self) -> dict[str, RowShard]:
        found: dict[str, RowShard] = {}
        names = [name for name, _ in self.predictor.named_parameters()]
        for table in self._divided:
            ends, begins = f".{table}", f"optimizer.{names.index(table)}."
            shard = getattr(self.predictor, _SHARDS[table])
            found |= {
                name: shard
                for name, tensor in self.state().items()
                if name.endswith(ends) or (name.startswith(begins) and tensor.dim())
            }
        return found

    @property
    def _divided(self) -> dict[str, Tensor]:
        """The tables of which this process has some rows."""
        tables = dict(self.predictor.named_parameters())
        return {
            name: tables[name]
            for name, shard in _SHARDS.items()
            if name == "entities_ED" or getattr(self.predictor, shard).parts > 1
        }

    def restore(self, state: Mapping[str, Tensor], steps_done: int) -> None:
        rest = dict(state)
        if self.result is not self.predictor:
            for name, mean in self.result.named_parameters():
                saved = rest.pop(f"mean.{name}", None)
                if saved is None or saved.shape != mean.shape:
                    raise other_training()
                mean.copy_(saved)
        restore_training(self.predictor, self.optimizer, rest)
        self.steps_done = steps_done

    def whole(self) -> AbstractContextManager[None]:
        return nullcontext()  # its shards are validated and written as such

    @property
    def products_per_step(self) -> float:
        width = self.predictor.entities_ED.shape[1]
        scored = self.objective.scored(self.settings, self.predictor.shard.most)
        a_question = 6.0 * scored * width + 3 * self.predictor.products(self.settings.rank)
        return min(self.settings.batch, len(self.links)) * a_question

    @property
    def last_learning_rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    def mean_loss(self, loss_sum: float, steps: int) -> float:
        """The mean per fact: an epoch's last, smaller batch contributes less."""
        return loss_sum / min(steps, self.batches_per_epoch)

    @property
    def is_sane(self) -> bool:
        return not distributed.any_of(not is_sane(self.predictor))

    # --- one step ---------------------------------------------------------------------------------

    def _eager_loss(self, batch: LinkBatch, negative_K: Tensor | None) -> Tensor:
        return self.objective.loss(
            self.predictor, batch, negative_K, self.settings, self.mean_facts
        )

    def _negatives(self) -> Tensor | None:
        """The negatives of the next step, if its loss needs any."""
        count = self.objective.negatives(self.settings)
        if not count:
            return None
        random = random_of(self.settings.seed, _NEGATIVES, self.steps_done)
        drawn_K = random.integers(self.predictor.shard.count, size=count)
        return torch.from_numpy(drawn_K).to(self.device)

    def _batch(self) -> LinkBatch:
        epoch, within = divmod(self.steps_done, self.steps_per_epoch)
        if self._order_P is None or self._order_P[0] != epoch:
            random = random_of(self.settings.seed, _ORDER, epoch)
            self._order_P = epoch, shuffled(len(self.links), random)
        size = self.settings.batch
        first, last = within * size, min((within + 1) * size, len(self.links))
        own = distributed.own_share(last - first)
        seen = self.objective.seen(self.settings, own, last - first)
        own_B = slice(own.start - seen.start, own.stop - seen.start)
        links = self.links.take(self._order_P[1][first + seen.start : first + seen.stop])
        return batch_of(links, self.device, self.often_E, own_B, last - first)

    def _often(self) -> Tensor:
        """How often each entity is an answer in a batch, on average."""
        entities = self.predictor.shard.count
        counts_E = np.bincount(self.links.answers.entities, minlength=entities)
        return torch.from_numpy((counts_E / self.batches_per_epoch).astype(np.float32)).to(
            self.device
        )


def batch_of(
    links: Links,
    device: torch.device,
    often_E: Tensor | None = None,
    own_B: slice | None = None,
    questions: int = 0,
) -> LinkBatch:
    """Questions as tensors on a device; by default they are a step, which one process takes."""

    def tensor(column: Ints) -> Tensor:
        return torch.from_numpy(column).to(device)

    return LinkBatch(
        tensor(links.entity_P),
        tensor(links.directed_P),
        tensor(links.answers.counts),
        tensor(links.answers.owners),
        tensor(np.asarray(links.answers.entities, np.int64)),
        own_B or slice(0, len(links)),
        questions or len(links),
        often_E,
    )
