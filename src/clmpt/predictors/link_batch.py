"""One-hop questions with all their answers, as tensors: what a step of pre-training looks at."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

# Shapes: B questions, T facts (answers of all questions, concatenated), E entities


@dataclass(frozen=True)
class LinkBatch:
    """A batch of questions and all their answers; `owner_T` ascends, the answers of a question are
    distinct. `often_E` is how often an entity is an answer in a batch, on average: for losses that
    sample entities."""

    entity_B: Tensor
    directed_B: Tensor
    count_B: Tensor
    owner_T: Tensor
    answer_T: Tensor
    often_E: Tensor | None = None
