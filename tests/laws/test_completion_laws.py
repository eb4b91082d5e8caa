"""Completion finds exactly the names that have a word with these first letters."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from clmpt.graph.names import NameTable
from clmpt.graph.word_index import WordIndex

NAMES = st.text(st.sampled_from("abAB éÉß_- \0😀ж1"), max_size=24)


def begins(name: str, text: str) -> bool:
    """Whether the name or one of its first words, as a reader would cut them, begins so."""
    folded = name.replace("\0", " ").casefold()
    letter = r"[^\x00-/:-`{-\x7f]"
    words = [match.start() for match in re.finditer(rf"(?<!{letter}){letter}", folded)]
    places = sorted({0, *words} if folded else words)[:8]
    return any(folded.startswith(text, place) for place in places)


@given(st.lists(NAMES, max_size=12), st.text(st.sampled_from("abéßж1 😀"), min_size=1, max_size=20))
def test_completion_finds_what_begins_with_the_letters(names: list[str], text: str) -> None:
    words = WordIndex.of(NameTable.of(names))
    wanted = text.casefold()
    found = {int(words.owner_S[at]) for at in words.starting_with(text, 1000)}
    assert found == {number for number, name in enumerate(names) if begins(name, wanted)}
    texts = [words.text(at, 40) for at in words.starting_with(text, 1000)]
    assert all(one.startswith(wanted) for one in texts)
