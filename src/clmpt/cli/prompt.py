"""The prompt of `clmpt ask`: history, and completion of a graph's names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.name_search import NameSearch
from clmpt.logic.printing import NAME_MORE, name_text

_SHOWN = 50  # completions at once
_QUOTED = r'"(?:\\.|[^"\\])*'  # from the opening quotation mark on
_UP_TO_CURSOR = re.compile(rf'(?:[^"]|{_QUOTED}")*?(?P<word>{_QUOTED}|{NAME_MORE}*)', re.DOTALL)
_SPARQL = re.compile(r"\s*(?:select|prefix|base)\b", re.IGNORECASE)
_SPARQL_NAME = re.compile(r":[\w%.~-]*$")


class NameCompleter(Completer):
    """Entities inside parentheses, relations elsewhere; both in SPARQL."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.entities, self.relations = map(NameSearch, (graph.entities, graph.relations))

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
        for name in _found(names, wanted):
            yield Completion(name_text(name), -len(written), display=name)

    def in_sparql(self, before: str) -> Iterator[Completion]:
        """Names after a colon, percent-encoded where SPARQL requires it."""
        written = _SPARQL_NAME.search(before)
        if written:
            wanted = unquote(written[0][1:])
            for name in (
                *_found(self.relations, wanted),
                *_found(self.entities, wanted),
            ):
                yield Completion(f":{quote(name, safe='')}", -len(written[0]), display=name)


def _found(names: NameSearch, text: str) -> list[str]:
    return [names.spelt(number, text) for number in names.find(text, _SHOWN, similar=False)]


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
