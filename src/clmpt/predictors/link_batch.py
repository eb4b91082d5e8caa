"""One-hop questions with all their answers, as tensors: what a step of pre-training looks at."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from clmpt.compute import distributed

# Shapes: B questions, T facts (answers of all questions, concatenated), E entities


@dataclass(frozen=True)
class LinkBatch:
    """The questions of a step and all their answers; `owner_T` ascends, the answers of a question
    are distinct. `often_E`, for losses that compare with a sample of entities, is how often an
    entity is an answer in a step, on average."""

    entity_B: Tensor
    directed_B: Tensor
    count_B: Tensor
    owner_T: Tensor
    answer_T: Tensor
    often_E: Tensor | None = None

    def own(self) -> tuple[slice, slice]:
        """The questions that are this process's, and their answers."""
        questions = distributed.own_share(len(self.entity_B))
        return questions, self.facts_of(questions)

    def facts_of(self, questions: slice) -> slice:
        first = int(self.count_B[: questions.start].sum())
        return slice(first, first + int(self.count_B[questions].sum()))

    def part(self, questions: slice) -> LinkBatch:
        facts = self.facts_of(questions)
        return LinkBatch(
            self.entity_B[questions],
            self.directed_B[questions],
            self.count_B[questions],
            self.owner_T[facts] - questions.start,
            self.answer_T[facts],
            self.often_E,
        )
