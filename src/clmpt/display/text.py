"""Texts for people: untrusted ones, and counts."""

from __future__ import annotations


def clean(text: str) -> str:
    """The text with line breaks and control codes escaped: names are untrusted."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "fact"), counted(2000, "fact"), counted(2, "entity")
    ('1 fact', '2,000 facts', '2 entities')
    """
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else many}"
