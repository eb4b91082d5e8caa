"""Queries as formula text that parses back to an equal query."""

from __future__ import annotations

import json
import re

from clmpt.logic.formula import (
    And,
    Atom,
    Exists,
    Formula,
    Id,
    Name,
    Not,
    Or,
    Query,
    Symbol,
    Term,
    Variable,
)

# One character class for bare names serves the grammar and the printer, so they cannot disagree.
NAME_START, NAME_MORE, NAME_END = r"[\w/+@-]", r"[\w/+@.:'*%~=-]", r"[\w/+@'*%~=-]"
BARE_NAME = rf"{NAME_START}(?:{NAME_MORE}*{NAME_END})?"
IRI_BODY = r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|^`\\]*"
_PLANES = "".join(f"{chr(n << 16)}-{chr((n << 16) + 0xFFFD)}" for n in range(1, 14))
_UCS = f"\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef{_PLANES}\U000e1000-\U000efffd"  # of RFC 3987
_PLAIN = rf"(?:(?![\s<>\"{{}}|^`\\\[\]#%])[!-~{_UCS}]|%[0-9A-Fa-f]{{2}})"
_ABSOLUTE = (
    rf"(?:[A-Za-z][A-Za-z0-9+.-]*://(?:(?![:/?@]){_PLAIN})+(?::[0-9]+)?(?:[/?]{_PLAIN}*)?"
    rf"|urn:[A-Za-z0-9][A-Za-z0-9-]{{1,31}}:{_PLAIN}+)(?:#{_PLAIN}*)?"
)
KEYWORDS = frozenset({"and", "or", "not", "exists"})

_BARE, _IRI = re.compile(BARE_NAME), re.compile(_ABSOLUTE)


def is_iri(text: str) -> bool:
    """Whether a name is an absolute IRI that every RDF tool would accept: scheme://… or urn:…"""
    return _IRI.fullmatch(text) is not None


def name_text(text: str) -> str:
    if is_iri(text):
        return f"<{text}>"
    if _BARE.fullmatch(text) and text.casefold() not in KEYWORDS:
        return text
    return json.dumps(text, ensure_ascii=False)


def symbol_text(symbol: Symbol) -> str:
    if isinstance(symbol, Name):
        return name_text(symbol.text)
    return f"#{symbol.number}" if isinstance(symbol, Id) else f"${symbol.name}"


def term_text(term: Term) -> str:
    return f"?{term.name}" if isinstance(term, Variable) else symbol_text(term)


def atom_text(atom: Atom) -> str:
    return f"{symbol_text(atom.relation)}({term_text(atom.head)}, {term_text(atom.tail)})"


def formula_text(query: Query) -> str:
    asked = ", ".join(f"?{variable.name}" for variable in query.frees)
    return f"{asked} : {_text(query.body)}"


def _text(formula: Formula) -> str:
    if isinstance(formula, Atom):
        return atom_text(formula)
    if isinstance(formula, Exists):
        names = " ".join(f"?{variable.name}" for variable in formula.variables)
        return f"exists {names} ({_text(formula.body)})"
    if isinstance(formula, Not):
        return "!" + (
            f"({_text(formula.body)})" if _is_group(formula.body) else _text(formula.body)
        )
    inside = And if isinstance(formula, Or) else ()
    parts = (
        f"({_text(part)})" if _is_group(part) and not isinstance(part, inside) else _text(part)
        for part in formula.parts
    )
    return (" & " if isinstance(formula, And) else " | ").join(parts)


def _is_group(formula: Formula) -> bool:
    return isinstance(formula, And | Or)
