"""Any text gives a query or one of our errors. `python tests/fuzzing.py` runs many more."""

from __future__ import annotations

import pytest

from fuzzing import SUBJECTS, fuzz, inputs


@pytest.mark.parametrize(
    ("subject", "count"),
    [("formula", 8000), ("sparql", 4000), ("sparql-formula", 2000), ("any", 1500)],
)
def test_no_text_raises_anything_but_our_errors(subject: str, count: int) -> None:
    parser, examples = SUBJECTS[subject]
    outcomes = fuzz(parser, inputs(examples, count, seed=1))
    valid = outcomes["Query"] + outcomes["SparqlResult"]
    assert valid > count / 200, "too few inputs are valid queries for this to test anything"
    assert outcomes["QuerySyntaxError"] > count / 20
