"""ask: answers as tables, pictures, JSON or CSV; to one question, or in a session."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clmpt.answering.answerer import Answerer, Answers, Status
from clmpt.cli.output import (
    TerminalTable,
    clean,
    draw_table,
    say,
    show_csv,
    show_json,
    show_table,
    tell,
)
from clmpt.cli.questions import parse_query, read_query
from clmpt.errors import ClmptError, SettingError
from clmpt.logic.drawing import draw_text
from clmpt.logic.formula import placeholders
from clmpt.storage.files import new_file, refuse_existing

_BAR = 20  # characters
WORDS: dict[Status, str] = {
    "known": "known",
    "hidden": "predicted, true (hidden)",
    "predicted": "predicted",
}
_STYLES: dict[Status, str] = {"known": "green", "hidden": "bold cyan", "predicted": "yellow"}
_HELP = """\
A question in logic or SPARQL, such as:  ?x : relation(Name, ?x) & !other(?x, "Another name")
Tab completes names. Also:
  draw QUESTION    the question as a drawing
  limit N          show N answers from now on
  help, quit       Ctrl-D also quits"""


def ask(options: argparse.Namespace) -> int | None:
    if options.svg:
        refuse_existing(Path(options.svg))
        if not options.query:
            raise SettingError("--svg draws the answers to one question. Give it on the same line.")
    query = read_query(options) if options.query else None
    answerer = Answerer.open(options.folder, options.graph, options.device, options.trust)
    if query is None:
        return _answer_many(answerer, options)
    found = answerer.ask(query, options.limit)
    if options.svg:
        with new_file(Path(options.svg)) as scratch:
            scratch.write_text(draw_table(answer_table(found, bars=True)), encoding="utf-8")
    _show(found, options)
    return None


def _show(found: Answers, options: argparse.Namespace) -> None:
    if options.json:
        show_json(as_plain(found))
    elif options.csv:
        plain = as_plain(found)["answers"]
        headers = ["label", "name", "id", "score", "status"]
        show_csv(headers, [[row[header] for header in headers] for row in plain])
    else:
        show_answers(found)


def show_answers(found: Answers, titled: bool = True) -> None:
    table = answer_table(found, bars=sys.stdout.isatty())
    show_table(table if titled else replace(table, title=""))
    if sys.stdout.isatty():
        shown = sum(one.known for one in found)
        noun = "answer is" if found.known == 1 else "answers are"
        say(f"{found.known:,} {noun} in the graph, {shown:,} of them shown")
    for note in found.notes:
        tell(f"Note: {note}")


def answer_table(found: Answers, bars: bool) -> TerminalTable:
    scores = [one.score for one in found]
    best, worst = max(scores, default=0.0), min(scores, default=0.0)
    rows: list[list[object]] = []
    for one in found:
        share = (one.score - worst) / (best - worst) if best > worst else 1.0
        bar = ["█" * max(1, round(_BAR * share))] if bars else []
        rows.append([clean(one.label), f"{one.score:.4f}", *bar, WORDS[one.status]])
    headers = ["answer", "score", *([""] if bars else []), "in the graph"]
    return TerminalTable(str(found.query), headers, rows, [_STYLES[one.status] for one in found])


def as_plain(found: Answers) -> dict[str, Any]:
    return {
        "query": str(found.query),
        "known": found.known,
        "answers": [
            {
                "id": one.entity,
                "name": one.name,
                "label": one.label,
                "score": round(one.score, 6),
                "known": one.known,
                "status": one.status,
            }
            for one in found
        ],
        "notes": list(found.notes),
    }


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
            query = parse_query(line, self.options)
            found = self.answerer.ask(query, self.options.limit)
            if not self.typed and not self.options.json and not self.options.csv:
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
