"""Names as IRIs and back, one to one, so that any graph can be queried and exported as RDF.

A name that is an IRI stays as it is. Any other becomes `urn:clmpt:` plus its percent-encoded text.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from clmpt.errors import UnsupportedQuery
from clmpt.logic.formula import Id, Name, Placeholder, Symbol
from clmpt.logic.printing import is_iri

BASE = "urn:clmpt:"


def iri_of(symbol: Symbol) -> str:
    """
    >>> iri_of(Name("Venice Film Festival")), iri_of(Name("http://example.org/x")), iri_of(Id(7))
    ('urn:clmpt:Venice%20Film%20Festival', 'http://example.org/x', 'urn:clmpt:id:7')
    """
    if isinstance(symbol, Placeholder):
        raise UnsupportedQuery(
            f"The placeholder ${symbol.name} has no value", "Replace it with a name first"
        )
    if isinstance(symbol, Id):
        return f"{BASE}id:{symbol.number}"
    if is_iri(symbol.text) and not symbol.text.startswith(BASE):
        return symbol.text
    return BASE + quote(symbol.text, safe="")


def symbol_of(iri: str) -> Symbol:
    """The inverse of `iri_of`."""
    if not iri.startswith(BASE):
        return Name(iri)
    rest = iri[len(BASE) :]
    if match := re.fullmatch(r"id:([0-9]{1,18})", rest):
        return Id(int(match[1]))
    return Name(unquote(rest, errors="replace"))
