"""Which queries a reasoner can express: embedding models have no cycles, and some no negation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from clmpt.errors import UnsupportedQuery
from clmpt.logic.formula import Query
from clmpt.queries.store import QueryGroup


def check_of(reasoner: object) -> Callable[[Query], None]:
    """What raises UnsupportedQuery for queries that a reasoner cannot express; few have it."""
    check: Callable[[Query], None] = getattr(reasoner, "check_query", _accepts)
    return check


def sort_out(
    check: Callable[[Query], None], groups: Sequence[QueryGroup]
) -> tuple[list[QueryGroup], dict[str, str]]:
    """The groups that pass a check, and why the others do not, by name."""
    reasons = {group.name: _reason(check, group.template) for group in groups}
    kept = [group for group in groups if reasons[group.name] is None]
    return kept, {name: reason for name, reason in reasons.items() if reason is not None}


def expressed(
    name: str, check: Callable[[Query], None], groups: Sequence[QueryGroup]
) -> tuple[list[QueryGroup], dict[str, str]]:
    """Like `sort_out`, but refuses groups of which none passes; `name` is the reasoner's."""
    kept, reasons = sort_out(check, groups)
    if groups and not kept:
        raise _none_left(name, reasons)
    return kept, reasons


def _none_left(name: str, reasons: Mapping[str, str]) -> UnsupportedQuery:
    shapes: dict[str, list[str]] = {}
    for shape, reason in reasons.items():
        shapes.setdefault(reason, []).append(shape)
    told = "; ".join(f"{', '.join(some)}: {reason}" for reason, some in shapes.items())
    return UnsupportedQuery(f"{name} can express none of these queries ({told})")


def _reason(check: Callable[[Query], None], query: Query) -> str | None:
    try:
        check(query)
    except UnsupportedQuery as reason:
        return reason.problem
    return None


def _accepts(query: Query) -> None:
    """Any query."""
