"""Names by the first letters of any of their words, or by similarity: for completion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from clmpt.graph.names import Aliases, NameTable
from clmpt.graph.vocabulary import Vocabulary

_FOLDED = 200_000  # names; beyond this, letters must be typed in the case that a name has them
_WORD = re.compile(r"[^\W_]+")
_WORDS = 6  # of a name; later ones are not searched
_SIMILAR = 4_000  # names that are compared letter by letter
_LEAST = 3  # letters, for a search by similarity


class NameSearch:
    """All entities or all relations of a graph.

    >>> graph = __import__("clmpt").KnowledgeGraph.from_triples([("Kenji Mizoguchi", "made", "x")])
    >>> NameSearch(graph.entities).find("mizo"), NameSearch(graph.entities).find("kenjy")
    ([0], [0])
    """

    def __init__(self, vocabulary: Vocabulary, fold_up_to: int = _FOLDED) -> None:
        self.vocabulary = vocabulary
        self.tables = [table for table in (vocabulary.labels, vocabulary.names) if table]
        self.by_word: Aliases | None = None
        if len(vocabulary) <= fold_up_to:
            starts = [start for table in self.tables for start in _word_starts(table)]
            owners = np.array([number for _, number in starts], np.int32)
            self.by_word = Aliases(NameTable.of(text for text, _ in starts), owners)

    def spelt(self, number: int, text: str) -> str:
        """The label or the name of what was found by a text, whichever has it; else the label."""
        label, name = self.vocabulary.label(number), self.vocabulary.names[number]
        wanted = text.casefold()
        return name if wanted not in label.casefold() and wanted in name.casefold() else label

    def find(self, text: str, limit: int = 20, similar: bool = True) -> list[int]:
        """Up to `limit` ids: those that begin with the text before those of which a later word
        does, and these before similar ones."""
        if not text:
            return list(range(min(limit, len(self.vocabulary))))
        found = dict.fromkeys(self._starting_with(text, limit))
        if similar and len(found) < limit and len(text) >= _LEAST:
            found |= dict.fromkeys(self._similar(text, limit - len(found)))
        return list(found)[:limit]

    def _starting_with(self, text: str, limit: int) -> list[int]:
        if self.by_word is None:
            spellings = dict.fromkeys([text, text.capitalize(), text.title(), text.lower()])
            near = (table.starting_with(one, limit) for one in spellings for table in self.tables)
            return [number for numbers in near for number in numbers]
        wanted = text.casefold()
        near_ = self.by_word.texts.starting_with(wanted, 8 * limit)
        owners = dict.fromkeys(int(self.by_word.owners[number]) for number in near_)
        return sorted(owners, key=lambda number: self._order(number, wanted))

    def _order(self, number: int, wanted: str) -> tuple[bool, int, str]:
        label = self.vocabulary.label(number).casefold()
        return not label.startswith(wanted), len(label), label

    def _similar(self, text: str, limit: int) -> list[int]:
        from rapidfuzz import fuzz, process

        table, owners = self.tables[0], None
        if self.by_word is not None:
            table, owners = self.by_word.texts, self.by_word.owners
            text = text.casefold()
        numbers = table.starting_with(text[:2], _SIMILAR)
        choices = [table[number][: len(text) + 1] for number in numbers]
        found = process.extract(text, choices, scorer=fuzz.ratio, limit=limit, score_cutoff=70)
        places = (numbers[place] for _, _, place in found)
        return [number if owners is None else int(owners[number]) for number in places]


def _word_starts(table: NameTable) -> Iterator[tuple[str, int]]:
    for number, name in enumerate(table):
        folded = name.casefold()
        for start in dict.fromkeys([0, *_first_letters(folded)]):
            if folded:
                yield folded[start:], number


def _first_letters(text: str) -> Iterable[int]:
    for count, word in enumerate(_WORD.finditer(text)):
        if count == _WORDS:
            return
        yield word.start()
