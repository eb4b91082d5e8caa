"""ask: answers as tables, pictures, JSON or CSV; to one question, or in a session."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clmpt.answering.answerer import Answerer
from clmpt.answering.answers import (
    Answer,
    Answers,
    Status,
    evidence_as_plain,
)
from clmpt.answering.showing import WORDS, evidence_picture
from clmpt.cli.commands.ask_rows import answer_rows, limits_of, read_question
from clmpt.cli.output import (
    TerminalTable,
    clean,
    draw_table,
    say,
    show_csv,
    show_json,
    show_json_line,
    show_table,
    tell,
    write_once,
)
from clmpt.cli.questions import chosen_budget, parse_query, question_text
from clmpt.errors import ClmptError, SettingError
from clmpt.logic.algebra import SparqlQuery
from clmpt.logic.drawing import draw_text
from clmpt.logic.formula import Query, placeholders

_BAR = 20  # characters
_COLUMNS = ["label", "name", "id", "probability", "score", "status"]  # of CSV
_STYLES: dict[Status, str] = {
    "known": "green",
    "hidden": "bold cyan",
    "predicted": "yellow",
    "refuted": "red",
}
_HELP = """\
A question in logic or SPARQL, such as:  ?x : relation(Name, ?x) & !other(?x, "Another name")
Tab completes names. Also:
  draw QUESTION    the question as a drawing
  limit N          show N answers from now on
  help, quit       Ctrl-D also quits"""


def ask(options: argparse.Namespace) -> int | None:
    if options.svg and not options.query:
        raise SettingError("--svg draws the answers to one question. Give it on the same line.")
    text = question_text(options) if options.query else ""
    query = _read(text, options) if options.query else None
    answerer = Answerer.open(
        options.folder, options.graph, options.device, options.trust, options.reasoner
    )
    if query is None:
        return _answer_many(answerer, options)
    with chosen_budget(options):
        if isinstance(query, SparqlQuery) or len(query.frees) > 1:
            answer_rows(answerer, text, query, options)
            return None
        found = _answer(answerer, query, options)
        if options.svg:
            picture = evidence_picture(found) if options.explain else _table_picture(found)
            write_once(Path(options.svg), picture)
        _show(found, options)
    return None


def _read(text: str, options: argparse.Namespace) -> Query | SparqlQuery:
    """A question about one variable where it is one; else what `ask_rows` answers."""
    return read_question(text, limits_of(options)) or parse_query(text, options)


def _answer(answerer: Answerer, query: Query, options: argparse.Namespace) -> Answers:
    return answerer.ask(query, options.limit, options.only, options.at_least, options.refuted)


def _table_picture(found: Answers) -> str:
    return draw_table(answer_table(found, bars=True))


def _show(found: Answers, options: argparse.Namespace) -> None:
    if options.json:
        show_json(as_plain(found, options.explain or 1))
    elif options.csv:
        show_csv(_COLUMNS, _csv_rows(found))
    else:
        show_answers(found, ways=options.explain or 0)


def _csv_rows(found: Answers) -> list[list[object]]:
    return [[row[column] for column in _COLUMNS] for row in as_plain(found, 0)["answers"]]


def show_answers(found: Answers, titled: bool = True, ways: int = 0) -> None:
    """The answers as a table; with `ways`, up to so many derivations of each below it."""
    table = answer_table(found, bars=sys.stdout.isatty())
    show_table(table if titled else replace(table, title=""))
    for one in found if ways else ():
        _show_evidence(one, ways)
    if sys.stdout.isatty():
        _sum_up(found)
    for note in found.notes:
        tell(f"Note: {note}")


def _sum_up(found: Answers) -> None:
    shown = sum(one.known for one in found)
    noun = "answer follows" if found.known == 1 else "answers follow"
    line = f"{found.known:,} {noun} from the graph's facts, {shown:,} of them shown"
    if found.expected_right is not None and len(found):
        line += f"; expected right: {found.expected_right:.1f} of {len(found):,}"
    say(line)
    if found.refuted:
        say(f"{found.refuted:,} left out, because a known fact refutes them (--refuted shows them)")


def _show_evidence(one: Answer, ways: int) -> None:
    derivations = one.derivations(ways)
    say(f"\n{clean(one.label)}")
    if not derivations:
        say("  no derivation found")
    for number, evidence in enumerate(derivations, 1):
        start = f"  {number}. " if len(derivations) > 1 else "  "
        atoms = [clean(str(atom)) for atom in evidence.atoms]
        say(start + f"\n{' ' * len(start)}".join(atoms))


def answer_table(found: Answers, bars: bool) -> TerminalTable:
    calibrated = all(one.probability is not None for one in found)
    scores = [_shown_score(one, calibrated) for one in found]
    best, worst = (1.0, 0.0) if calibrated else (max(scores, default=0), min(scores, default=0))
    rows: list[list[object]] = []
    for one, score in zip(found, scores, strict=True):
        share = (score - worst) / (best - worst) if best > worst else 1.0
        bar = ["█" * max(1, round(_BAR * share))] if bars else []
        number = f"{score:.1%}" if calibrated else f"{score:.4f}"
        rows.append([clean(one.label), number, *bar, WORDS[one.status]])
    number = "probability" if calibrated else "score"
    headers = ["answer", number, *([""] if bars else []), "in the graph"]
    return TerminalTable(str(found.query), headers, rows, [_STYLES[one.status] for one in found])


def _shown_score(one: Answer, calibrated: bool) -> float:
    return float(one.probability or 0.0) if calibrated else one.score


def as_plain(found: Answers, ways: int = 1) -> dict[str, Any]:
    """The answers for JSON, with `ways` derivations each."""
    expected = found.expected_right
    return {
        "query": str(found.query),
        "known": found.known,
        "refuted": found.refuted,
        "expected_right": None if expected is None else round(expected, 3),
        "answers": [_answer_as_plain(one, ways) for one in found],
        "notes": list(found.notes),
    }


def _answer_as_plain(one: Answer, ways: int) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "id": one.entity,
        "name": one.name,
        "label": one.label,
        "score": round(one.score, 6),
        "known": one.known,
        "status": one.status,
        "probability": None if one.probability is None else round(one.probability, 6),
    }
    if ways:
        derivations = one.derivations(ways)
        plain["evidence"] = evidence_as_plain(next(iter(derivations), None))
        if ways > 1:
            plain["alternatives"] = [evidence_as_plain(other) for other in derivations[1:]]
    return plain


# --- a session ------------------------------------------------------------------------------------


def _answer_many(answerer: Answerer, options: argparse.Namespace) -> int:
    """Answers one question after another: typed at a prompt, or one per line when piped, in which
    case a mistake makes the exit code 2."""
    typed = sys.stdin.isatty()
    asked: Iterable[str] = sys.stdin
    if typed:
        from clmpt.cli.prompt import questions

        entities, relations = len(answerer.graph.entities), len(answerer.graph.relations)
        say(f"{entities:,} entities, {relations:,} relations. Type 'help' for help.")
        asked = questions(answerer.graph, Path(options.folder).resolve().name)
    session, code = _Session(answerer, options, typed), 0
    for number, line in enumerate(asked, 1):
        if line.strip() in ("quit", "exit"):
            break
        try:
            session.handle(line.strip())
        except ClmptError as error:  # a mistake ends a question, not the session
            code = 0 if typed else 2
            tell(clean(str(error) if typed else f"line {number}: {error}"))
        except KeyboardInterrupt:
            if not typed:
                raise
            tell("Cancelled.")
    return code


@dataclass
class _Session:
    answerer: Answerer
    options: argparse.Namespace
    typed: bool
    has_headers: bool = False

    def handle(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if not line:
            return
        if word == "help":
            say(_HELP)
        elif word == "draw":
            self.draw(rest)
        elif word == "limit":
            self.limit(rest.strip())
        else:
            query = _read(line, self.options)
            with chosen_budget(self.options):
                if isinstance(query, SparqlQuery) or len(query.frees) > 1:
                    self.show_rows(line, query)
                else:
                    self.show(query, _answer(self.answerer, query, self.options))

    def show_rows(self, line: str, query: Query | SparqlQuery) -> None:
        if not self.typed and self.options.csv:
            raise SettingError(
                "One CSV table has answers to questions about one variable. Use --json for others."
            )
        if not self.typed and not self.options.json:
            say(clean(line))  # which question this answers
        show_document = show_json if self.typed else show_json_line
        answer_rows(self.answerer, line, query, self.options, show_document)

    def show(self, query: Query, found: Answers) -> None:
        """Piped questions are answered one JSON document per line, or as one CSV table."""
        if self.typed:
            _show(found, self.options)
        elif self.options.json:
            show_json_line(as_plain(found, self.options.explain or 1))
        elif self.options.csv:
            headers = [] if self.has_headers else ["question", *_COLUMNS]
            self.has_headers = True
            show_csv(headers, [[str(query), *row] for row in _csv_rows(found)])
        else:
            say(clean(str(query)))  # which question this answers
            _show(found, self.options)

    def draw(self, rest: str) -> None:
        if not rest.strip():
            raise SettingError("Say what to draw: draw QUESTION")
        query = parse_query(rest, self.options)
        if not any(placeholders(query)):
            self.answerer.graph.bind(query)  # rejects names that the graph lacks
        say(draw_text(query))

    def limit(self, rest: str) -> None:
        if not re.fullmatch("[1-9][0-9]{0,8}", rest):
            raise SettingError("Say how many answers to show: limit N")
        self.options.limit = int(rest)
        say(f"{int(rest):,} answers will be shown.")
