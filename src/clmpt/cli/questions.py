"""Questions from an argument or from standard input."""

from __future__ import annotations

import argparse
import sys

from clmpt.budget import Budget
from clmpt.logic.formula import Limits, Query
from clmpt.logic.parser import parse
from clmpt.logic.shapes import SHAPES, shape


def question_text(options: argparse.Namespace) -> str:
    """The question on the command line, or from standard input."""
    return sys.stdin.read() if options.query == "-" else str(options.query)


def read_query(options: argparse.Namespace) -> Query:
    return parse_query(question_text(options), options)


def parse_query(text: str, options: argparse.Namespace) -> Query:
    """A question in any of the query languages, or a shape given by name."""
    text = text.strip()
    if text in SHAPES:
        return shape(text)
    return parse(text, Limits(atoms=options.max_atoms, disjuncts=options.max_alternatives))


def chosen_budget(options: argparse.Namespace) -> Budget:
    """The limits of time and memory for one question, from the command line."""
    return Budget(options.time_limit, options.memory_limit)
