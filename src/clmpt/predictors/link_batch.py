"""One-hop questions with all their answers, as tensors: what a step of pre-training looks at."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

# Shapes: B questions, T facts (answers of all questions, concatenated), E entities, S facts or
# questions of a whole step


@dataclass(frozen=True)
class StepSample:
    """For losses that compare with a sample of entities: those that a whole step names, of which a
    batch may be a part, and how often an entity is an answer in a step, on average."""

    head_S: Tensor
    answer_S: Tensor
    often_E: Tensor


@dataclass(frozen=True)
class LinkBatch:
    """A batch of questions and all their answers; `owner_T` ascends, the answers of a question are
    distinct."""

    entity_B: Tensor
    directed_B: Tensor
    count_B: Tensor
    owner_T: Tensor
    answer_T: Tensor
    sample: StepSample | None = None
