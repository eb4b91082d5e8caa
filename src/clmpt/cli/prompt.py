"""The prompt of `clmpt ask`: history, and completion of a graph's names."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.vocabulary import Vocabulary
from clmpt.logic.printing import NAME_MORE, name_text

_SHOWN = 50  # completions at once
_MANY = 200_000  # beyond this, completion is case-sensitive
_QUOTED = r'"(?:\\.|[^"\\])*'  # from the opening quotation mark on
_UP_TO_CURSOR = re.compile(rf'(?:[^"]|{_QUOTED}")*?(?P<word>{_QUOTED}|{NAME_MORE}*)', re.DOTALL)
_SPARQL = re.compile(r"\s*(?:select|prefix|base)\b", re.IGNORECASE)
_SPARQL_NAME = re.compile(r":[\w%.~-]*$")


class Names:
    """The names and labels of all entities or all relations, by prefix."""

    def __init__(self, vocabulary: Vocabulary, fold_up_to: int) -> None:
        self.vocabulary = vocabulary
        self.folded: list[tuple[str, str]] = []
        if len(vocabulary) <= fold_up_to:
            tables = [table for table in (vocabulary.labels, vocabulary.names) if table]
            names = {name for table in tables for name in table if name}
            self.folded = sorted((name.casefold(), name) for name in names)

    def starting_with(self, text: str) -> list[str]:
        if not self.folded:
            names = self.vocabulary.names
            return [names[number] for number in names.starting_with(text, _SHOWN)]
        wanted, found = text.casefold(), list[str]()
        for folded, name in self.folded[bisect_left(self.folded, (wanted, "")) :]:
            if not folded.startswith(wanted) or len(found) == _SHOWN:
                break
            found.append(name)
        return found


class NameCompleter(Completer):
    """Entities inside parentheses, relations elsewhere; both in SPARQL."""

    def __init__(self, graph: KnowledgeGraph, fold_up_to: int = _MANY) -> None:
        self.entities = Names(graph.entities, fold_up_to)
        self.relations = Names(graph.relations, fold_up_to)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        before = document.text_before_cursor
        if _SPARQL.match(before):
            yield from self.in_sparql(before)
            return
        found = _UP_TO_CURSOR.fullmatch(before)
        written = found["word"] if found else ""
        wanted = written.removeprefix('"')
        if not wanted and not complete_event.completion_requested:
            return
        ahead = before[: len(before) - len(written)].rstrip()
        names = self.entities if ahead.endswith(("(", ",")) else self.relations
        for name in names.starting_with(wanted):
            yield Completion(name_text(name), -len(written), display=name)

    def in_sparql(self, before: str) -> Iterator[Completion]:
        """Names after a colon, percent-encoded where SPARQL requires it."""
        written = _SPARQL_NAME.search(before)
        if written:
            wanted = unquote(written[0][1:])
            for name in (
                *self.relations.starting_with(wanted),
                *self.entities.starting_with(wanted),
            ):
                yield Completion(f":{quote(name, safe='')}", -len(written[0]), display=name)


def questions(graph: KnowledgeGraph, title: str) -> Iterable[str]:
    """The lines that are typed, until Ctrl-D. Ctrl-C discards the current line."""
    session: PromptSession[str] = PromptSession(
        history=_history(), completer=NameCompleter(graph), auto_suggest=AutoSuggestFromHistory()
    )
    while True:
        try:
            yield session.prompt(f"{title}> ")
        except KeyboardInterrupt:  # noqa: PERF203
            continue
        except EOFError:
            return


def _history() -> History:
    """Earlier questions, kept in the user's state folder, or only in memory if that fails."""
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        path = Path(state) / "clmpt" / "history"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with path.open("a+"):
            return FileHistory(str(path))
    except (OSError, RuntimeError):
        return InMemoryHistory()
