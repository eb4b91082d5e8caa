"""SPARQL 1.1 queries: text to algebra, with errors that say where and what was expected.

Written by hand, since rdflib's parser accepts some queries that are none, takes a third of a second
to load and quadratic time for long lists, and knows no positions.
"""

from __future__ import annotations

from dataclasses import replace

from clmpt.errors import QueryError, QuerySyntaxError, QueryTooLarge
from clmpt.logic.algebra import (
    Aggregate,
    Basic,
    Call,
    Expression,
    JoinAll,
    OrderKey,
    Pattern,
    Select,
    Selected,
    SparqlQuery,
    Subquery,
    TriplePattern,
    Values,
    expression_variables,
    in_scope,
)
from clmpt.logic.formula import Variable
from clmpt.logic.parser import QUERY_FORMS, UPDATES
from clmpt.logic.rdf_terms import Iri
from clmpt.logic.sparql_expressions import AGGREGATES
from clmpt.logic.sparql_patterns import PatternParser
from clmpt.logic.sparql_tokens import Token

EXAMPLE = "SELECT ?x { :a :r ?x }"


def read_sparql(text: str, base: str = "") -> SparqlQuery:
    """The query in a text. `base` is what relative IRIs are resolved against, unless it has BASE.

    >>> query = read_sparql("SELECT ?x (COUNT(*) AS ?n) { ?x foaf:knows ?y } GROUP BY ?x")
    >>> [variable.name for variable in query.select.names]
    ['x', 'n']
    """
    if not text.strip():
        raise QuerySyntaxError("The query is empty", f"Write, for example, {EXAMPLE}")
    try:
        return _QueryParser(text, base).query()
    except RecursionError:
        raise QueryTooLarge("The query is nested too deeply", "Flatten it") from None


def as_sparql(query: object, base: str) -> SparqlQuery:
    """A query, read if it is a text; nothing else is one."""
    if isinstance(query, SparqlQuery):
        return query
    if not isinstance(query, str):
        raise QueryError(f"A SPARQL query is a text, not {type(query).__name__}")
    return read_sparql(query, base)


class _QueryParser(PatternParser):
    def query(self) -> SparqlQuery:
        self.prologue()
        token = self.next
        if token.is_word(*UPDATES):
            self.wrong(f"{token.text.upper()} changes a graph", "Graphs are only read here", token)
        form = self.word(*QUERY_FORMS) or self.fail(
            f"SELECT, ASK, CONSTRUCT or DESCRIBE, for example {EXAMPLE}"
        )
        found = {
            "SELECT": self.select_query,
            "ASK": self.ask_query,
            "CONSTRUCT": self.construct_query,
            "DESCRIBE": self.describe_query,
        }[form.text.upper()](form)
        if self.next.kind != "end":
            self.fail("the end")
        return replace(found, base=self.base)

    def prologue(self) -> None:
        while token := self.word("BASE", "PREFIX"):
            if token.is_word("BASE"):
                if self.next.kind != "iri":
                    self.fail("an IRI in angle brackets")
                self.base = self.need_iri().text
                continue
            name = self.next
            if name.kind != "prefixed" or name.text.find(":") != len(name.text) - 1:
                self.fail("a prefix such as ex:")
            self.take()
            if self.next.kind != "iri":
                self.fail("an IRI in angle brackets")
            self.prefixes[name.text[:-1]] = self.need_iri().text

    # --- the four forms ---------------------------------------------------------------------------

    def select_query(self, form: Token) -> SparqlQuery:
        columns, distinct, reduced = self.columns()
        default, named, has_dataset = self.dataset()
        select = self.rest(columns, distinct, reduced, form)
        return SparqlQuery(
            "SELECT",
            select,
            default_graphs=default,
            named_graphs=named,
            has_dataset=has_dataset,
            position=self.place(form),
        )

    def ask_query(self, form: Token) -> SparqlQuery:
        default, named, has_dataset = self.dataset()
        select = self.rest(None, False, False, form)
        return SparqlQuery(
            "ASK",
            select,
            default_graphs=default,
            named_graphs=named,
            has_dataset=has_dataset,
            position=self.place(form),
        )

    def construct_query(self, form: Token) -> SparqlQuery:
        template: list[TriplePattern] = []
        short = not self.next.is_mark("{")
        if not short:
            template = self.template()
        default, named, has_dataset = self.dataset()
        if short:  # CONSTRUCT WHERE { … }: the pattern is the template
            self.need_word("WHERE")
            template = self.template(blank_again=False)
            select = self.modifiers(None, False, False, form, Basic(tuple(template)))
        else:
            select = self.rest(None, False, False, form)
        return SparqlQuery(
            "CONSTRUCT",
            select,
            tuple(template),
            None,
            default,
            named,
            has_dataset,
            position=self.place(form),
        )

    def template(self, blank_again: bool = True) -> list[TriplePattern]:
        self.need_mark("{")
        found: list[TriplePattern] = []
        while not self.mark("}"):
            if not self.triples_here(found, paths=False):
                self.fail("a triple or '}'")
        if blank_again:
            self.blank.clear()  # those of the template are not those of the pattern
        return found

    def describe_query(self, form: Token) -> SparqlQuery:
        described: list[Variable | Iri] | None = None
        if not self.mark("*"):
            described = [self.variable() or self.need_iri()]
            while one := (self.variable() or self.iri()):
                described.append(one)
        default, named, has_dataset = self.dataset()
        if self.next.is_mark("{") or self.next.is_word("WHERE"):
            select = self.rest(None, False, False, form)
        else:
            select = self.modifiers(None, False, False, form, Basic(()))
        return SparqlQuery(
            "DESCRIBE",
            select,
            (),
            None if described is None else tuple(described),
            default,
            named,
            has_dataset,
            position=self.place(form),
        )

    def dataset(self) -> tuple[tuple[Iri, ...], tuple[Iri, ...], bool]:
        default: list[Iri] = []
        named: list[Iri] = []
        while self.word("FROM"):
            into = named if self.word("NAMED") else default
            into.append(self.need_iri())
        return tuple(default), tuple(named), bool(default or named)

    # --- the parts of a SELECT --------------------------------------------------------------------

    def subselect(self) -> Select:
        form = self.need_word("SELECT")
        return self.rest(*self.columns(), form)

    def columns(self) -> tuple[tuple[Selected, ...] | None, bool, bool]:
        modifier = self.word("DISTINCT", "REDUCED")
        distinct = bool(modifier and modifier.is_word("DISTINCT"))
        reduced = bool(modifier) and not distinct
        if self.mark("*"):
            return None, distinct, reduced
        found: list[Selected] = []
        self.aggregates = True
        while True:
            if variable := self.variable():
                found.append(Selected(variable))
            elif self.next.is_mark("("):
                found.append(self.named_expression(needs_name=True))
            elif self.next.is_word(*AGGREGATES):  # as Virtuoso allows: SELECT COUNT(?x)
                token = self.take()
                made = Variable(f"callret_{len(found)}")
                aggregate = self.aggregate(token.text.upper(), token)
                if self.word("AS"):  # … and COUNT(?x) AS ?n
                    made = self.need_variable()
                elif aggregate.argument is None:
                    self.wrong("COUNT(*) has no name", "Write (COUNT(*) AS ?n)", token)
                found.append(Selected(made, aggregate))
            else:
                break
        self.aggregates = False
        if not found:
            self.fail("a ?variable, (expression AS ?variable) or *")
        again = {Selected(one.variable): None for one in found if one.expression is None}
        kept = [one for one in found if one.expression or again.pop(one, one) is None]
        return tuple(kept), distinct, reduced

    def named_expression(self, needs_name: bool) -> Selected:
        self.need_mark("(")
        expression = self.expression()
        if not needs_name and not self.next.is_word("AS"):
            self.need_mark(")")
            return Selected(self.fresh(), expression)
        self.need_word("AS")
        variable = self.need_variable()
        self.need_mark(")")
        return Selected(variable, expression)

    def rest(
        self,
        columns: tuple[Selected, ...] | None,
        distinct: bool,
        reduced: bool,
        form: Token,
    ) -> Select:
        self.word("WHERE")
        return self.modifiers(columns, distinct, reduced, form, self.group())

    def modifiers(
        self,
        columns: tuple[Selected, ...] | None,
        distinct: bool,
        reduced: bool,
        form: Token,
        where: Pattern,
    ) -> Select:
        keys = self.keys()
        self.aggregates = True
        having: list[Expression] = []
        if self.word("HAVING"):
            having.append(self.constraint())
            while self.next.is_mark("(") or (
                self.next.kind == "word"
                and not self.next.is_word("ORDER", "LIMIT", "OFFSET", "VALUES")
            ):
                having.append(self.constraint())
        order = self.order()
        self.aggregates = False
        limit, offset = self.slice()
        values = self.values() if self.next.is_word("VALUES") else None
        found = Select(
            *(columns, where, distinct, reduced, keys, tuple(having), order, limit, offset),
            self.place(form),
        )
        self.check(found, form)
        return found if values is None else _with_values(found, values)

    def keys(self) -> tuple[Selected, ...]:
        if not self.word("GROUP"):
            return ()
        self.need_word("BY")
        found: list[Selected] = []
        while True:
            if variable := self.variable():
                found.append(Selected(variable))
            elif self.next.is_mark("("):
                found.append(self.named_expression(needs_name=False))
            elif self.next.kind in ("iri", "prefixed") or (
                self.next.kind == "word"
                and not self.next.is_word("HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES")
            ):
                found.append(Selected(self.fresh(), self.constraint()))
            else:
                break
        return tuple(found) or self.fail("what to group by")

    def order(self) -> tuple[OrderKey, ...]:
        if not self.word("ORDER"):
            return ()
        self.need_word("BY")
        found: list[OrderKey] = []
        while True:
            if direction := self.word("ASC", "DESC"):
                self.need_mark("(")
                key = self.expression()
                self.need_mark(")")
                found.append(OrderKey(key, direction.is_word("DESC")))
            elif variable := self.variable():
                found.append(OrderKey(variable))
            elif (
                self.next.is_mark("(")
                or self.next.kind in ("iri", "prefixed")
                or (self.next.kind == "word" and not self.next.is_word("LIMIT", "OFFSET", "VALUES"))
            ):
                found.append(OrderKey(self.constraint()))
            else:
                break
        return tuple(found) or self.fail("what to order by")

    def slice(self) -> tuple[int | None, int]:
        limit, offset = None, 0
        seen: set[str] = set()
        while token := self.word("LIMIT", "OFFSET"):
            word = token.text.upper()
            if word in seen:
                self.wrong(f"{word} is given twice", "Give it once", token)
            seen.add(word)
            if self.next.kind != "integer":
                self.fail("a whole number")
            number = min(int(self.take().text[:18]), 2**62)
            limit, offset = (number, offset) if word == "LIMIT" else (limit, number)
        return limit, offset

    # --- what the grammar does not say ------------------------------------------------------------

    def check(self, select: Select, form: Token) -> None:
        bound = set(in_scope(select.where))
        columns = select.columns
        if columns is None:
            if select.grouped and form.is_word("SELECT"):
                self.wrong("SELECT * with GROUP BY", "Name the variables", form)
            return
        bound |= {key.variable for key in select.keys}
        seen: set[Variable] = set()
        for column in columns:
            if column.expression is not None and column.variable in bound:
                self.wrong(
                    f"AS ?{column.variable.name}, which already has a value", "Rename it", form
                )
            if column.variable in seen and column.expression is not None:
                self.wrong(f"?{column.variable.name} is selected twice", "Rename one", form)
            seen.add(column.variable)
        if select.grouped:
            self.check_groups(select, columns, form)

    def check_groups(self, select: Select, columns: tuple[Selected, ...], form: Token) -> None:
        """Outside aggregates, a grouped query can only use what it groups by."""
        known = {key.variable for key in select.keys}
        for column in columns:
            expression = column.expression or column.variable
            for variable in _loose(expression):
                if variable not in known:
                    self.wrong(
                        f"?{variable.name} is neither grouped by nor aggregated",
                        "Add it to GROUP BY, or use SAMPLE",
                        form,
                    )
            if column.expression is not None:
                known.add(column.variable)


def _with_values(select: Select, values: Values) -> Select:
    """VALUES at the end is joined with the solutions; with groups, only after those are made."""
    if not select.grouped:
        parts = () if select.where == Basic(()) else (select.where,)
        return replace(select, where=JoinAll((*parts, values)))
    inner = replace(select, order=(), limit=None, offset=0, distinct=False)
    columns = tuple(Selected(variable) for variable in select.names)
    return Select(
        columns,
        JoinAll((Subquery(inner), values)),
        select.distinct,
        select.reduced,
        order=select.order,
        limit=select.limit,
        offset=select.offset,
        position=select.position,
    )


def _loose(expression: Expression) -> list[Variable]:
    """The variables of an expression that are not inside an aggregate."""
    if isinstance(expression, Aggregate):
        return []
    if isinstance(expression, Call):
        return [variable for argument in expression.arguments for variable in _loose(argument)]
    return expression_variables(expression) if isinstance(expression, Variable) else []
