"""The formula language: what it parses, and the errors when it cannot."""

from __future__ import annotations

import pytest

from clmpt.errors import (
    ClmptError,
    Position,
    QueryError,
    QuerySyntaxError,
    QueryTooLarge,
    UnsafeQuery,
)
from clmpt.logic.formula import (
    And,
    Atom,
    Exists,
    Id,
    Limits,
    Name,
    Not,
    Or,
    Placeholder,
    Query,
    Variable,
)
from clmpt.logic.parser import parse, parse_formula

X, Y = Variable("x"), Variable("y")


def test_the_example_from_the_paper() -> None:
    text = (
        "?who : directed(Mizoguchi, ?film) & "
        '!won(?film, "Venice Film Festival Award") & starred(?who, ?film)'
    )
    who, film = Variable("who"), Variable("film")
    directed = Atom(Name("directed"), Name("Mizoguchi"), film)
    won = Atom(Name("won"), film, Name("Venice Film Festival Award"))
    starred = Atom(Name("starred"), who, film)
    assert parse_formula(text) == Query(who, And((directed, Not(won), starred)))
    assert str(parse_formula(text)) == text


@pytest.mark.parametrize(
    ("written", "same_as"),
    [
        ("?y : r(a, ?y) and s(b, ?y)", "?y : r(a, ?y) & s(b, ?y)"),
        ("?y : r(a, ?y) or not s(b, ?y) and t(c, ?y)", "?y : r(a, ?y) | (!s(b, ?y) & t(c, ?y))"),
        ("?y : r(a,?y)∧¬s(b,?y)∨t(c,?y)", "?y : (r(a, ?y) & !s(b, ?y)) | t(c, ?y)"),
        ("?y : ^r(?y, a)", "?y : r(a, ?y)"),
        ("?y : exists ?x . r(a, ?x) & s(?x, ?y)", "?y : r(a, ?x) & s(?x, ?y)"),
        (
            "?y : exists ?x, ?z (r(a, ?x) & s(?x, ?z) & t(?z, ?y))",
            "?y : r(a, ?x) & s(?x, ?z) & t(?z, ?y)",
        ),
        ("?y : r(a, ?y) & !exists ?x . (s(?x, ?y))", "?y : r(a, ?y) & !exists ?x (s(?x, ?y))"),
        ("?y : !!r(a, ?y)", "?y : r(a, ?y)"),
        ("?y : ((r(a, ?y)))", "?y : r(a, ?y)"),
        ("?y : 'r'(\"a\", ?y)", "?y : r(a, ?y)"),
        ("  ?y\n:\tr ( a ,\n ?y )", "?y : r(a, ?y)"),
        ("?y : <http://e/r>(<http://e/a>, ?y)", '?y : "http://e/r"("http://e/a", ?y)'),
    ],
)
def test_one_query_can_be_written_in_several_ways(written: str, same_as: str) -> None:
    assert parse_formula(written) == parse_formula(same_as)


def test_symbols_of_every_kind() -> None:
    query = parse_formula("?y : #3($s, ?x) & /film/film.cast(?x, ?y) & \"and\"('it\\'s', ?y)")
    assert query.body == And(
        (
            Atom(Id(3), Placeholder("s"), X),
            Atom(Name("/film/film.cast"), X, Y),
            Atom(Name("and"), Name("it's"), Y),
        )
    )
    assert parse_formula(str(query)) == query


@pytest.mark.parametrize(
    "name", ["or", "Not", "a b", "", '"', "\\", "?x", "#1", "$s", "é\n", "a.", "<b>"]
)
def test_any_name_survives_printing(name: str) -> None:
    query = Query(Y, Atom(Name(name), Name(name), Y))
    assert parse_formula(str(query)) == query


def test_python_operators_build_the_same_tree() -> None:
    r, s = Atom(Name("r"), Name("a"), Y), Atom(Name("s"), Name("b"), Y)
    assert Query(Y, r & ~s) == parse_formula("?y : r(a, ?y) & !s(b, ?y)")
    assert Query(Y, r | s).body == Or((r, s))
    assert ~~r == r
    assert (r & s) & r == r & (s & r)


def test_some_not_and_not_some_are_distinguished() -> None:
    some = parse_formula("?y : r(a, ?x) & !s(?x, ?y) & t(b, ?y)")
    none = parse_formula("?y : !exists ?x (r(a, ?x) & s(?x, ?y)) & t(b, ?y)")
    assert some != none
    assert [len(pattern.absent[0].variables) for q in (some, none) for pattern in q.patterns] == [
        0,
        1,
    ]


def test_quantifiers_that_reuse_a_name_are_distinguished() -> None:
    query = parse_formula("?y : r(a, ?x) & s(?x, ?y) & !exists ?x (t(?x, ?y))")
    (pattern,) = query.patterns
    assert X in pattern.variables
    assert X not in pattern.absent[0].variables


def test_the_normal_form_applies_de_morgan() -> None:
    union = parse_formula("?y : !(!r(a, ?y) & !s(b, ?y))")
    assert union.patterns == parse_formula("?y : r(a, ?y) | s(b, ?y)").patterns
    assert [str(part) for part in union.disjuncts()] == ["?y : r(a, ?y)", "?y : s(b, ?y)"]


def test_an_or_inside_a_negated_group_becomes_two_negated_groups() -> None:
    query = parse_formula("?y : r(a, ?y) & !exists ?x (s(?x, ?y) & (t(?x, b) | u(?x, b)))")
    (pattern,) = query.patterns
    assert [len(absent.atoms) for absent in pattern.absent] == [2, 2]


@pytest.mark.parametrize(
    ("text", "kind", "column", "words"),
    [
        ("", QuerySyntaxError, None, "empty"),
        ("   ", QuerySyntaxError, None, "empty"),
        ("r(a, ?y)", QuerySyntaxError, 1, "starts with its free variable"),
        ("?y : r(a ?y)", QuerySyntaxError, 10, "Expected ','"),
        ("?y : r(a, ?y) &", QuerySyntaxError, 16, "ends too early"),
        ("?y : r(a, ?y) s(b, ?y)", QuerySyntaxError, 15, "'&'"),
        ("?y ?z : r(?y, ?z)", QuerySyntaxError, 4, "a comma between variables"),
        ("?y, ?y : r(?y, ?z)", QuerySyntaxError, 5, "asks for ?y twice"),
        ('?y : r(a, ?y) & "open', QuerySyntaxError, 17, "not closed"),
        ("?y : r(a, ?x)", UnsafeQuery, 1, "does not occur"),
        ("?y : !r(a, ?y)", UnsafeQuery, 1, "only under negation"),
        ("?y : r(a, ?y) | !s(b, ?y)", UnsafeQuery, 1, "in alternative 2"),
        ("?y : r(a, ?y) | s(b, c)", UnsafeQuery, 1, "does not occur in alternative 2"),
        ("?y : r(a, ?y) & !s(?x, ?y)", UnsafeQuery, 20, "!exists ?x"),
        ("?y : r(a, ?y) & !exists ?x (!s(?x, ?y))", UnsafeQuery, 25, "No positive atom binds"),
        ("?y : r(a, ?y) & !exists ?x (s(b, ?y))", UnsafeQuery, 25, "never used"),
        ("?y : exists ?y (r(a, ?y))", UnsafeQuery, 1, "does not occur"),
        ("?y : exists ?z . r(a, ?y)", UnsafeQuery, 13, "never used"),
        ("?y : r(#99999999999999999999, ?y)", QuerySyntaxError, 8, "too large"),
    ],
)
def test_errors_say_where_and_what_to_do(
    text: str, kind: type[QueryError], column: int | None, words: str
) -> None:
    with pytest.raises(kind) as caught:
        parse_formula(text)
    error = caught.value
    assert words in str(error)
    assert "\n" not in str(error)
    assert error.position == (None if column is None else Position(1, column))


def test_positions_count_lines() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse_formula("?y :\n  r(a, ?y) &\n  & s(b, ?y)")
    assert caught.value.position == Position(3, 3)
    assert "line 3, column 3" in str(caught.value)


def test_queries_over_the_limits_are_rejected_before_any_work() -> None:
    many = " & ".join(f"r{number}(a, ?y)" for number in range(65))
    with pytest.raises(QueryTooLarge, match="64 atoms"):
        parse_formula(f"?y : {many}")
    assert len(parse_formula(f"?y : {many}", Limits(atoms=65)).patterns) == 1
    exploding = " & ".join(f"(r{n}(a, ?y) | s{n}(a, ?y))" for n in range(8))
    with pytest.raises(QueryTooLarge, match="128 alternatives"):
        parse_formula(f"?y : {exploding}")
    assert len(parse_formula(f"?y : {exploding}", Limits(disjuncts=256)).patterns) == 256
    with pytest.raises(QueryTooLarge, match="deep"):
        parse_formula("?y : " + "!(r(a, ?y) & " * 50 + "r(a, ?y)" + ")" * 50)
    with pytest.raises(QueryTooLarge, match="characters"):
        parse_formula("?y : " + "(" * 200_000)
    assert str(parse_formula("?y : " + "(" * 40_000 + "r(a, ?y)" + ")" * 40_000)) == "?y : r(a, ?y)"


def test_bad_formulas_built_in_python_raise_our_errors_too() -> None:
    for make in (
        lambda: And(()),
        lambda: Or((Atom(Name("r"), X, Y),)),
        lambda: Exists((), Atom(Name("r"), X, Y)),
    ):
        with pytest.raises(ClmptError):
            make()


def test_variables_must_be_words() -> None:
    with pytest.raises(QueryError, match="letters"):
        Query(Variable("a b"), Atom(Name("r"), Name("a"), Variable("a b")))
    with pytest.raises(QueryError, match="letters"):
        parse("SELECT ?e\u0301 { :a :r ?e\u0301 }")


def test_parse_recognises_all_three_languages() -> None:
    formula = parse("?y : #1(#7, ?y)")
    assert parse("(7, (1,))") == formula
    assert parse("# a comment\nselect ?y { <urn:clmpt:id:7> <urn:clmpt:id:1> ?y }") == formula
    with pytest.raises(QuerySyntaxError, match="BetaE"):
        parse("(7, (1,)")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('?x : borders("Ivory Coast, ?x)', "A quotation mark is not closed at column 14"),
        ("?x : borders(Ivory Coast, ?x)", "Put a name with spaces in quotation marks"),
        ("?x : borders(?x, Ivory Coast)", "Put a name with spaces in quotation marks"),
    ],
)
def test_names_with_spaces_must_be_quoted(text: str, words: str) -> None:
    with pytest.raises(QuerySyntaxError, match=words):
        parse(text)
