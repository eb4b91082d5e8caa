"""Names of entities or relations, their labels, and what a text stands for."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from clmpt.errors import AmbiguousName, QueryError, UnknownName
from clmpt.graph.names import Aliases, NameTable
from clmpt.logic.formula import Id, Name, Placeholder, Symbol

_MANY = 200_000  # names; up to this many, all are searched for one with the same ending
_LISTED = 5  # how many candidates an ambiguous label shows


@dataclass(frozen=True)
class Vocabulary:
    """The names of all entities or all relations by id, and their labels if there are any."""

    kind: str
    names: NameTable
    labels: NameTable | None = None
    aliases: Aliases | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<Vocabulary: {len(self):,} {self.kind} names>"

    def label(self, number: int) -> str:
        """What to show a user: the label, or the name if there is none."""
        return (self.labels[number] if self.labels else "") or self.names[number]

    def spelling(self, number: int) -> str:
        """What a user would write for it: the label, or the name if others have that label too."""
        label = self.label(number)
        try:
            unique = self.resolve(Name(label)) == number
        except (AmbiguousName, UnknownName):
            unique = False
        return label if unique else self.names[number]

    def resolve(self, symbol: Symbol) -> int:
        """The id that a name, a label or a number stands for."""
        found = self.find(symbol)
        if found is None:
            assert isinstance(symbol, Name)
            near = self.suggestions(symbol.text)
            raise UnknownName(self.kind, symbol.text, near, symbol.position)
        return found

    def find(self, symbol: Symbol) -> int | None:
        """The same, or None for a name that is unknown."""
        if isinstance(symbol, Id):
            if symbol.number >= len(self):
                raise UnknownName(self.kind, f"#{symbol.number}")
            return symbol.number
        if isinstance(symbol, Placeholder):
            raise QueryError(
                f"The placeholder ${symbol.name} has no value",
                "A shape is not a query yet: replace its placeholders with names",
            )
        found = _found(self.names, symbol.text)
        if not found and self.labels and symbol.text:
            found = (
                _found(self.labels, symbol.text)
                or self._ending_in(symbol.text)
                or (self.aliases.find(symbol.text) if self.aliases else [])
            )
            if len(found) > 1:
                names = [self.names[number] for number in found[:_LISTED]]
                raise AmbiguousName(self.kind, symbol.text, names, len(found), symbol.position)
        return found[0] if found else None

    def _ending_in(self, text: str) -> list[int]:
        """The things with an IRI whose last part is this text: having a label does not hide it."""
        if len(self) > _MANY:
            return []
        found = set[int]()
        for end in (f"/{text}", f"#{text}"):
            found.update(self.names.ending_in(end))
            if self.aliases:
                others = self.aliases.texts
                iris = (at for at in others.ending_in(end) if "://" in others[at])
                found.update(int(self.aliases.owners[at]) for at in iris)
        return sorted(found)

    def suggestions(self, text: str) -> list[str]:
        near = [*(self.labels.closest(text) if self.labels else []), *self.names.closest(text)]
        return list(dict.fromkeys(name for name in near if name))[:3]


def _found(table: NameTable, text: str) -> list[int]:
    """The ids of a text as it is, or else in one of the two normal forms of Unicode: é may be
    written as one character or as two."""
    found = table.find(text)
    for form in () if found or text.isascii() else ("NFC", "NFD"):
        found = found or table.find(unicodedata.normalize(form, text))
    return found
