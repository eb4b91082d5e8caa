"""Names by the first letters of any of their words, or by similarity: for completion."""

from __future__ import annotations

from clmpt.graph.vocabulary import Vocabulary
from clmpt.graph.word_index import WordIndex

_FOLDED = 2_000_000  # names; beyond this, letters must be typed in the case that a name has them
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
        folds = len(vocabulary) <= fold_up_to
        self.words = [WordIndex.of(table) for table in self.tables] if folds else []

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
        if not self.words:
            spellings = dict.fromkeys([text, text.capitalize(), text.title(), text.lower()])
            near = (table.starting_with(one, limit) for one in spellings for table in self.tables)
            return [number for numbers in near for number in numbers]
        owners = {
            int(words.owner_S[at])
            for words in self.words
            for at in words.starting_with(text, 8 * limit)
        }
        wanted = text.casefold()
        return sorted(owners, key=lambda number: self._order(number, wanted))

    def _order(self, number: int, wanted: str) -> tuple[bool, int, str]:
        label = self.vocabulary.label(number).casefold()
        return not label.startswith(wanted), len(label), label

    def _similar(self, text: str, limit: int) -> list[int]:
        from rapidfuzz import fuzz, process

        size, wanted = len(text) + 1, text
        if self.words:
            wanted = text.casefold()
            near = [
                (words.text(at, size), int(words.owner_S[at]))
                for words in self.words
                for at in words.starting_with(wanted[:2], _SIMILAR)
            ]
        else:
            table = self.tables[0]
            numbers = table.starting_with(text[:_LEAST], _SIMILAR // 4)  # slower to read
            near = [(table[number][:size], number) for number in numbers]
        choices = [choice for choice, _ in near]
        found = process.extract(wanted, choices, scorer=fuzz.ratio, limit=limit, score_cutoff=70)
        return [near[place][1] for _, _, place in found]
