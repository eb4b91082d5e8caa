"""Answers as plain values: what a user gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Literal, overload

from clmpt.display.frames import data_frame
from clmpt.display.text import counted
from clmpt.logic.formula import Query

if TYPE_CHECKING:
    import pandas

# known: follows from the facts that the model was trained on.
# hidden: follows from the graph's facts, but only with facts held out from training.
# predicted: does not follow from the graph's facts.
# refuted: cannot be, because a known fact contradicts it; listed on request only.
Status = Literal["known", "hidden", "predicted", "refuted"]
# Of an atom. absent: a negated one that the graph lacks. A negated one is hidden if a fact that was
# held out from training says otherwise.
AtomStatus = Literal["known", "hidden", "predicted", "absent"]

_SHOWN = 5  # answers in a line
_COLUMNS = {"label": "label", "name": "name", "id": "entity"}
_COLUMNS |= {name: name for name in ("probability", "score", "status")}


def in_percent(probability: float) -> str:
    """What is unlikely is not impossible, and what is likely is not certain.

    >>> in_percent(0.0002), in_percent(0.234), in_percent(0.999)
    ('under 1%', '23%', 'over 99%')
    """
    if 0 < probability < 0.005:
        return "under 1%"
    return "over 99%" if 0.995 <= probability < 1 else f"{probability:.0%}"


@dataclass(frozen=True)
class EvidenceAtom:
    """A fact, or one that must not be, that an answer rests on.

    `probability` is its truth value; of the atoms of a negated group ('none such that …') only the
    last one has it, for all of them together.
    """

    head: str
    relation: str
    tail: str
    negated: bool
    status: AtomStatus
    probability: float | None

    def __str__(self) -> str:
        text = f"{self.head} {self.relation} {self.tail}"
        if self.negated and self.status == "hidden":
            return f"not: {text} (but a held-out fact says so)"
        if self.negated:
            sure = "" if self.probability is None else f", {in_percent(self.probability)} sure"
            return f"not: {text} (no such fact{sure})"
        sure = ""
        if self.status == "predicted" and self.probability is not None:
            sure = f", {in_percent(self.probability)}"
        return f"{text} ({self.status}{sure})"


@dataclass(frozen=True)
class Evidence:
    """A derivation: the question with every variable filled, atom by atom.

    `value` is the product of the atoms' probabilities: the answer's truth value.
    """

    atoms: tuple[EvidenceAtom, ...]
    value: float
    answer: str = field(default="", compare=False)  # the label of what it is evidence for

    def __str__(self) -> str:
        return "; ".join(map(str, self.atoms))

    def __repr__(self) -> str:
        return f"<Evidence for {self.answer!r}, {in_percent(self.value)}: {str(self)!r}>"

    def _repr_html_(self) -> str:
        from clmpt.answering.showing import evidence_html

        return evidence_html(self)

    @property
    def product(self) -> float:
        return prod(atom.probability for atom in self.atoms if atom.probability is not None)


@dataclass(frozen=True)
class Answer:
    """An entity, how likely it is an answer, and its status according to the graph's facts.

    `probability` is 1 for a known answer, and None if the model is not calibrated. Scores rank the
    answers of one query and mean nothing beyond it.
    """

    entity: int
    name: str
    label: str
    score: float
    status: Status
    probability: float | None
    explain: Callable[[int, int], tuple[Evidence, ...]] = field(repr=False, compare=False)

    def __repr__(self) -> str:
        certain = self.probability is None or self.status == "known"
        chance = "" if certain else f", {in_percent(self.probability or 0.0)}"
        return f"<Answer {self.label!r}: {self.status}{chance}>"

    @property
    def known(self) -> bool:
        """Whether it follows from the graph's facts, including held-out ones."""
        return self.status in ("known", "hidden")

    @cached_property
    def evidence(self) -> Evidence | None:
        """The best derivation that truth values find for it; None if there is none."""
        return next(iter(self.derivations(1)), None)

    def derivations(self, most: int = 3) -> tuple[Evidence, ...]:
        """Up to `most` derivations, the best first."""
        return self.explain(self.entity, most)


@dataclass(frozen=True)
class Answers:
    """Certain answers first, then the likeliest. `notes` say where scores only approximate the
    query."""

    query: Query
    answers: tuple[Answer, ...]
    known: int  # number of answers that follow from the graph's facts, shown or not
    notes: tuple[str, ...]
    refuted: int = 0  # number of entities that known facts rule out

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    @overload
    def __getitem__(self, number: int) -> Answer: ...

    @overload
    def __getitem__(self, number: slice) -> Answers: ...

    def __getitem__(self, number: int | slice) -> Answer | Answers:
        if isinstance(number, slice):
            return replace(self, answers=self.answers[number])
        return self.answers[number]

    def __len__(self) -> int:
        return len(self.answers)

    def __str__(self) -> str:
        lines = [f"{_share(one):>5}  {one.status:<9}  {one.label}" for one in self.answers]
        return "\n".join([str(self.query), *lines])

    def __repr__(self) -> str:
        more = ", …" if len(self) > _SHOWN else ""
        shown = ", ".join(f"{one.label!r} ({one.status})" for one in self.answers[:_SHOWN])
        return f"<{counted(len(self), 'answer')} to {str(self.query)!r}: {shown or 'none'}{more}>"

    def _repr_html_(self) -> str:
        from clmpt.answering.showing import answers_html

        return answers_html(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame with the columns label, name, id, probability, score and status."""
        return data_frame(
            {name: [getattr(one, own) for one in self.answers] for name, own in _COLUMNS.items()}
        )

    @property
    def expected_right(self) -> float | None:
        """How many of the listed answers are right, on average; None without probabilities."""
        known = [one.probability for one in self.answers]
        shares = [probability for probability in known if probability is not None]
        return sum(shares) if len(shares) == len(known) else None


def _share(answer: Answer) -> str:
    return f"{answer.score:.4f}" if answer.probability is None else f"{answer.probability:.0%}"


def evidence_as_plain(evidence: Evidence | None) -> list[dict[str, Any]]:
    if evidence is None:
        return []
    return [
        {
            "head": atom.head,
            "relation": atom.relation,
            "tail": atom.tail,
            "negated": atom.negated,
            "status": atom.status,
            "probability": None if atom.probability is None else round(atom.probability, 6),
        }
        for atom in evidence.atoms
    ]
