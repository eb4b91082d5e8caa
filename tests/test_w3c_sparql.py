"""W3C's tests of SPARQL 1.0: every one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from w3c_suite import SuiteTest, is_accepted, is_right, run, suite_tests

SUITE = Path(__file__).parent / "w3c-sparql10"
EVALUATION = [
    test
    for test in suite_tests(SUITE / "manifest-evaluation.ttl")
    if test.kind == "QueryEvaluationTest"
]
SYNTAX = list(suite_tests(SUITE / "manifest-syntax.ttl"))


def test_the_suite_is_complete() -> None:
    negative = sum("Negative" in test.kind for test in SYNTAX)
    assert (len(EVALUATION), len(SYNTAX), negative) == (283, 199, 50)


@pytest.mark.parametrize("test", EVALUATION, ids=lambda test: test.name)
def test_evaluation(test: SuiteTest, tmp_path: Path) -> None:
    assert is_right(test, run(test, tmp_path))


@pytest.mark.parametrize("test", SYNTAX, ids=lambda test: test.name)
def test_syntax(test: SuiteTest) -> None:
    assert is_accepted(test) != ("Negative" in test.kind)
