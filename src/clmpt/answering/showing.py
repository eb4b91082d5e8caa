"""Answers and evidence in a notebook, and as pictures."""

from __future__ import annotations

from collections.abc import Sequence

from clmpt.answering.answers import Answers, Evidence, EvidenceAtom, Status, in_percent
from clmpt.answering.row_answers import LikelyResult, LikelyRows
from clmpt.display.html import (
    as_html,
    html_bar,
    html_block,
    html_notes,
    html_picture,
    html_table,
)
from clmpt.errors import SettingError
from clmpt.logic.drawing import DrawnFact, draw_derivations
from clmpt.logic.formula import Atom, Name, Variable
from clmpt.sparql.answering import html_cell

WORDS: dict[Status, str] = {
    "known": "known",
    "hidden": "predicted, true (hidden)",
    "predicted": "predicted",
    "refuted": "refuted by a known fact",
}
_SHOWN = 50  # rows
_MARKS: dict[Status, str] = {"known": "✓", "hidden": "◆", "predicted": "?", "refuted": "✗"}


def answers_html(found: Answers) -> str:
    calibrated = all(one.probability is not None for one in found)
    scores = [one.score for one in found]
    best, worst = max(scores, default=0.0), min(scores, default=0.0)
    rows = []
    for one in found:
        share = (one.score - worst) / (best - worst) if best > worst else 1.0
        text = f"{one.score:.4f}"
        if calibrated and one.probability is not None:
            share, text = one.probability, in_percent(one.probability)
        rows.append([_named(one.label, one.name), html_bar(share, text), _status(one.status)])
    headers = ["answer", "probability" if calibrated else "score", "in the graph"]
    notes = [*_summary(found), *(f"Note: {note}" for note in found.notes)]
    return html_block(str(found.query), html_table(headers, rows), html_notes(notes))


def _named(label: str, name: str) -> str:
    """The label; the name, where it is another, when it is pointed at."""
    shown = as_html(label)
    return shown if label == name else f'<span title="{as_html(name)}">{shown}</span>'


def _status(status: Status) -> str:
    return f'<span aria-hidden="true">{_MARKS[status]}</span> {as_html(WORDS[status])}'


def _summary(found: Answers) -> list[str]:
    lines = [_known(found, "answer")]
    if found.refuted:
        lines.append(f"{found.refuted:,} ruled out by a known fact")
    return lines


def _known(found: Answers | LikelyRows, noun: str) -> str:
    follow = f"{noun} follows" if found.known == 1 else f"{noun}s follow"
    shown = sum(one.known for one in found)
    return f"{found.known:,} {follow} from the graph's facts, {shown:,} of them shown"


# --- rows -----------------------------------------------------------------------------------------


def likely_rows_html(found: LikelyRows) -> str:
    rows = [
        [*map(_named, one.labels, one.names), *_sure(one.probability, one.status)] for one in found
    ]
    table = html_table([*found.variables, "probability", "in the graph"], rows)
    notes = [_known(found, "row"), *(f"Note: {note}" for note in found.notes)]
    return html_block(str(found.query), table, html_notes(notes))


def likely_result_html(found: LikelyResult) -> str:
    """An ASK as its probability. Counts have no columns for probabilities, which they sum up."""
    notes = [f"Note: {note}" for note in found.notes]
    if found.form == "ASK":
        rows = [_sure(found.probability, found.status)]
        return html_block(
            "ASK", html_table(["probability", "in the graph"], rows), html_notes(notes)
        )
    ranked = any(row.status for row in found)
    rows = [
        [
            *map(html_cell, row.cells),
            *(_sure(row.probability, row.status) if ranked else ()),
        ]
        for row in found[:_SHOWN]
    ]
    headers = [*found.variables, *(("probability", "in the graph") if ranked else ())]
    more = [f"… and {len(found) - _SHOWN:,} more"] if len(found) > _SHOWN else []
    return html_block(
        repr(found).strip("<>"), html_table(headers, rows), html_notes([*more, *notes])
    )


def _sure(probability: float | None, status: Status | None) -> list[str]:
    bar = "" if probability is None else html_bar(probability, in_percent(probability))
    return [bar, _status(status) if status else ""]


# --- evidence -------------------------------------------------------------------------------------


def evidence_html(evidence: Evidence) -> str:
    """The derivation as a drawing, and in words for who cannot see it."""
    title = f"{evidence.answer or 'Evidence'}: truth value {in_percent(evidence.value)}"
    facts = [drawn_fact(atom) for atom in evidence.atoms]
    answer = term_of(evidence.answer) if evidence.answer else facts[0].atom.tail
    svg = draw_derivations(title, [("", answer, facts)])
    return html_block(
        title, html_picture(svg, str(evidence)), html_notes(str(atom) for atom in evidence.atoms)
    )


def evidence_picture(found: Answers) -> str:
    """The best derivation of each answer: known facts solid, all else dashed."""
    drawn: list[tuple[str, Name | Variable, Sequence[DrawnFact]]] = []
    for one in found:
        if one.evidence is not None:
            facts = [drawn_fact(atom) for atom in one.evidence.atoms]
            chance = "" if one.probability is None else f", {in_percent(one.probability)}"
            drawn.append((f"{one.label}: {WORDS[one.status]}{chance}", term_of(one.label), facts))
    if not drawn:
        raise SettingError("No answer has a derivation to draw.")
    return draw_derivations(str(found.query), drawn)


def drawn_fact(atom: EvidenceAtom) -> DrawnFact:
    fact = Atom(Name(atom.relation), term_of(atom.head), term_of(atom.tail))
    sure = ""
    if atom.probability is not None and atom.status != "known":
        sure = f" {in_percent(atom.probability)}"
    return DrawnFact(fact, atom.negated, atom.status != "known", sure)


def term_of(text: str) -> Name | Variable:
    return Variable(text[1:]) if text.startswith("?") else Name(text)
