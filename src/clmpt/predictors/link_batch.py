"""One-hop questions with all their answers, as tensors: what a step of pre-training looks at."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

# Shapes: B questions, T facts (answers of all questions, concatenated), E entities


@dataclass(frozen=True)
class LinkBatch:
    """Questions of a step and all their answers; `owner_T` ascends, the answers of a question are
    distinct.

    These are the questions that this process looks at, of which `own_B` are its share of the work;
    the step has `questions` in all. `often_E`, for losses that compare with a sample of entities,
    is how often an entity is an answer in a step, on average.
    """

    entity_B: Tensor
    directed_B: Tensor
    count_B: Tensor
    owner_T: Tensor
    answer_T: Tensor
    own_B: slice
    questions: int
    often_E: Tensor | None = None

    @property
    def own_T(self) -> slice:
        """The answers of this process's share."""
        return self.facts_of(self.own_B)

    def facts_of(self, questions: slice) -> slice:
        first = int(self.count_B[: questions.start].sum())
        return slice(first, first + int(self.count_B[questions].sum()))

    def part(self, questions: slice) -> LinkBatch:
        """Some of the questions, all of which are this process's."""
        facts = self.facts_of(questions)
        return LinkBatch(
            self.entity_B[questions],
            self.directed_B[questions],
            self.count_B[questions],
            self.owner_T[facts] - questions.start,
            self.answer_T[facts],
            slice(0, questions.stop - questions.start),
            self.questions,
            self.often_E,
        )
