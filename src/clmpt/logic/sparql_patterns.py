"""SPARQL graph patterns: triples, paths and groups."""

from __future__ import annotations

from itertools import count

from clmpt.errors import QueryTooLarge
from clmpt.logic.algebra import (
    AlternativePath,
    AnyOf,
    Basic,
    Bind,
    Call,
    Expression,
    InGraph,
    InversePath,
    JoinAll,
    NegatedPath,
    Optionally,
    Path,
    Pattern,
    PatternTerm,
    RepeatedPath,
    Select,
    SequencePath,
    Service,
    Subquery,
    TriplePattern,
    Values,
    Where,
    Without,
    in_scope,
)
from clmpt.logic.formula import Variable
from clmpt.logic.prefixes import PREFIXES
from clmpt.logic.rdf_terms import RDF, Iri, Literal
from clmpt.logic.sparql_expressions import ExpressionParser
from clmpt.logic.sparql_tokens import Token

LARGEST_GROUP = 400  # parts of a group that are not triples

_FIRST, _REST, _NIL = Iri(RDF + "first"), Iri(RDF + "rest"), Iri(RDF + "nil")


class _Group:
    """What has been read of a group: its pattern without the filters, and these."""

    def __init__(self) -> None:
        self.pattern: Pattern = Basic(())
        self.filters: list[Expression] = []
        self.triples: list[TriplePattern] = []  # of the basic pattern being read
        self.parts = 0

    def close_basic(self) -> None:
        if self.triples:
            self.join(Basic(tuple(self.triples)))
            self.triples = []

    def join(self, part: Pattern) -> None:
        if self.pattern == Basic(()):
            self.pattern = part
        elif isinstance(self.pattern, JoinAll):
            self.pattern = JoinAll((*self.pattern.parts, part))
        else:
            self.pattern = JoinAll((self.pattern, part))

    @property
    def condition(self) -> Expression | None:
        if not self.filters:
            return None
        return self.filters[0] if len(self.filters) == 1 else Call("&&", tuple(self.filters))

    @property
    def whole(self) -> Pattern:
        condition = self.condition
        return self.pattern if condition is None else Where(self.pattern, condition)


class PatternParser(ExpressionParser):
    """Reads groups. Blank nodes become variables that are never shown."""

    def __init__(self, text: str, base: str = "") -> None:
        super().__init__(text, base)
        self.numbers = count(1)
        self.blank: dict[str, tuple[Variable, int]] = {}  # by label; the basic pattern they are in
        self.basic_patterns = 0

    def subselect(self) -> Select:
        raise NotImplementedError

    # --- groups -----------------------------------------------------------------------------------

    def group(self) -> Pattern:
        return self.braces().whole

    def braces(self) -> _Group:
        self.need_mark("{")
        self.deeper()
        found = _Group()
        if self.next.is_word("SELECT"):
            found.join(Subquery(self.subselect()))
        else:
            self.fill(found)
        self.need_mark("}")
        self.depth -= 1
        return found

    def fill(self, group: _Group) -> None:
        self.basic_patterns += 1
        while not self.next.is_mark("}"):
            if self.triples_here(group.triples):
                continue
            token = self.next
            if self.word("FILTER"):
                group.filters.append(self.constraint())
            else:
                group.close_basic()
                self.element(group, token)
                self.basic_patterns += 1
                group.parts += 1
                if group.parts > LARGEST_GROUP:
                    raise QueryTooLarge(
                        f"A group has more than {LARGEST_GROUP} parts", "Split the query"
                    )
            self.mark(".")
        group.close_basic()

    def element(self, group: _Group, token: Token) -> None:
        place = self.place(token)
        if self.word("OPTIONAL"):
            inner = self.braces()
            group.pattern = Optionally(group.pattern, inner.pattern, inner.condition, place)
        elif self.word("MINUS"):
            group.pattern = Without(group.pattern, self.group(), place)
        elif self.word("BIND"):
            self.bind(group, token)
        elif self.word("GRAPH"):
            name = self.variable() or self.need_iri()
            group.join(InGraph(name, self.group(), place))
        elif self.word("SERVICE"):
            silent = bool(self.word("SILENT"))
            endpoint = self.variable() or self.need_iri()
            group.join(Service(endpoint, self.group(), silent, place))
        elif self.next.is_word("VALUES"):
            group.join(self.values())
        elif self.next.is_mark("{"):
            parts = [self.group()]
            while self.word("UNION"):
                parts.append(self.group())
            # A lone group stays a group of its own, so that its filters keep to it.
            group.join(AnyOf(tuple(parts)) if len(parts) > 1 else JoinAll((parts[0],)))
        else:
            self.fail("a triple, FILTER, OPTIONAL, UNION, '}' or the like")

    def bind(self, group: _Group, token: Token) -> None:
        self.need_mark("(")
        expression = self.expression()
        self.need_word("AS")
        variable = self.need_variable()
        self.need_mark(")")
        if variable in in_scope(group.pattern):
            self.wrong(f"BIND to ?{variable.name}, which already has a value", "Rename it", token)
        group.pattern = Bind(group.pattern, variable, expression, self.place(token))

    def constraint(self) -> Expression:
        """What may follow FILTER and HAVING: parentheses, a built-in function, or a call."""
        token = self.next
        if self.mark("("):
            found = self.expression()
            self.need_mark(")")
            return found
        if iri := self.iri():
            return self.function(iri, token)
        return self.named(token) if token.kind == "word" else self.fail("a condition")

    def values(self) -> Values:
        token = self.need_word("VALUES")
        rows: list[tuple[Iri | Literal | None, ...]] = []
        variables: list[Variable] = []
        several = not (variable := self.variable())
        if variable:
            variables = [variable]
        else:
            self.need_mark("(")
            while not self.mark(")"):
                variables.append(self.need_variable())
        if len(set(variables)) < len(variables):
            self.wrong("VALUES names a variable twice", "Name each once", token)
        self.need_mark("{")
        while not self.mark("}"):
            rows.append(self.row(len(variables)) if several else (self.value(),))
        return Values(tuple(variables), tuple(rows), self.place(token))

    def row(self, size: int) -> tuple[Iri | Literal | None, ...]:
        start = self.need_mark("(")
        found = []
        while not self.mark(")"):
            found.append(self.value())
        if len(found) != size:
            self.wrong(
                f"A row of VALUES has {len(found)} values for {size} variables", "Use UNDEF", start
            )
        return tuple(found)

    def value(self) -> Iri | Literal | None:
        if self.word("UNDEF"):
            return None
        return self.constant() or self.fail("an IRI, a literal or UNDEF")

    # --- triples ----------------------------------------------------------------------------------

    def triples_here(self, triples: list[TriplePattern], paths: bool = True) -> bool:
        """Reads a subject and what is said of it; False if there is none."""
        subject, complete = self.node(triples, paths)
        if subject is None:
            return False
        if not complete or self.relation_follows:
            self.properties(subject, triples, paths)
        if not self.next.is_mark("}") and not self.mark("."):
            following = self.next
            starts = following.kind == "word" or following.is_mark("{")
            if not starts or following.is_word("A", "TRUE", "FALSE"):
                self.fail("'.', ';', ',' or '}'")
        return True

    def node(self, triples: list[TriplePattern], paths: bool) -> tuple[PatternTerm | None, bool]:
        """A term, and whether it says something by itself, as [ :r ?x ] and ( 1 2 ) do."""
        if self.mark("["):
            found = self.fresh()
            if self.mark("]"):
                return found, False
            self.deeper()
            self.properties(found, triples, paths)
            self.depth -= 1
            self.need_mark("]")
            return found, True
        if self.next.is_mark("("):
            return self.collection(triples, paths)
        if self.next.kind == "blank":
            return self.labelled(self.take()), False
        return self.variable() or self.constant(), False

    def collection(self, triples: list[TriplePattern], paths: bool) -> tuple[PatternTerm, bool]:
        self.need_mark("(")
        self.deeper()
        head: PatternTerm = _NIL
        last: PatternTerm | None = None
        while not self.mark(")"):
            cell = self.fresh()
            if last is None:
                head = cell
            else:
                triples.append(TriplePattern(last, _REST, cell))
            item, _ = self.node(triples, paths)
            if item is None:
                self.fail("a term or ')'")
            triples.append(TriplePattern(cell, _FIRST, item))
            last = cell
        if last is not None:
            triples.append(TriplePattern(last, _REST, _NIL))
        self.depth -= 1
        return head, last is not None

    def properties(self, subject: PatternTerm, triples: list[TriplePattern], paths: bool) -> None:
        while True:
            predicate: Variable | Path | None = self.variable()
            if predicate is None:
                predicate = self.path() if paths else self.path_start()
            if predicate is None:
                self.fail("a relation")
            while True:
                value, _ = self.node(triples, paths)
                if value is None:
                    self.fail("a term")
                self.add(subject, predicate, value, triples)
                if not self.mark(","):
                    break
            if not self.mark(";"):
                return
            while self.mark(";"):
                pass
            if not self.relation_follows:
                return

    def add(
        self,
        subject: PatternTerm,
        predicate: Variable | Path,
        value: PatternTerm,
        triples: list[TriplePattern],
    ) -> None:
        """A triple; a sequence of steps becomes one triple for each, with new variables between.
        Advice to Wikidata's engine (hint:Prior …) is not part of the question."""
        if isinstance(subject, Iri) and subject.text.startswith(PREFIXES["hint"]):
            return
        if isinstance(predicate, InversePath):
            self.add(value, predicate.path, subject, triples)
        elif isinstance(predicate, SequencePath):
            for step in predicate.parts[:-1]:
                between = self.fresh()
                self.add(subject, step, between, triples)
                subject = between
            self.add(subject, predicate.parts[-1], value, triples)
        else:
            triples.append(TriplePattern(subject, predicate, value))

    def fresh(self) -> Variable:
        return Variable(f".{next(self.numbers)}")

    def labelled(self, token: Token) -> Variable:
        label = token.text
        known = self.blank.setdefault(label, (self.fresh(), self.basic_patterns))
        if known[1] != self.basic_patterns:
            self.wrong(
                f"The blank node {label} is used in two groups", "Use a variable instead", token
            )
        return known[0]

    # --- paths ------------------------------------------------------------------------------------

    @property
    def relation_follows(self) -> bool:
        token = self.next
        named = token.kind in ("iri", "prefixed", "variable") or (token.kind, token.text) == (
            "word",
            "a",
        )
        return named or token.is_mark("^", "!", "(")

    def path(self) -> Path | None:
        if not self.relation_follows:
            return None
        self.deeper()
        parts = [self.sequence()]
        while self.mark("|"):
            parts.append(self.sequence())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else AlternativePath(tuple(parts))

    def sequence(self) -> Path:
        parts = [self.step()]
        while self.mark("/"):
            parts.append(self.step())
        return parts[0] if len(parts) == 1 else SequencePath(tuple(parts))

    def step(self) -> Path:
        if self.mark("^"):
            return InversePath(self.repeated())
        return self.repeated()

    def repeated(self) -> Path:
        inner = self.path_primary()
        if token := self.mark("?", "*", "+"):
            return RepeatedPath(inner, token.text, self.place(token))  # type: ignore[arg-type]
        return inner

    def path_primary(self) -> Path:
        if self.mark("("):
            found = self.path() or self.fail("a path")
            self.need_mark(")")
            return found
        if token := self.mark("!"):
            return self.negated(token)
        return self.path_start() or self.fail("a relation")

    def negated(self, token: Token) -> NegatedPath:
        forward: list[Iri] = []
        backward: list[Iri] = []

        def one() -> None:
            into = backward if self.mark("^") else forward
            into.append(self.path_start() or self.fail("a relation"))

        if self.mark("("):
            if not self.mark(")"):
                one()
                while self.mark("|"):
                    one()
                self.need_mark(")")
        else:
            one()
        return NegatedPath(tuple(forward), tuple(backward), self.place(token))
