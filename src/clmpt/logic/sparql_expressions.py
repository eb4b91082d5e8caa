"""SPARQL expressions."""

from __future__ import annotations

from abc import ABC, abstractmethod

from clmpt.logic.algebra import Aggregate, Call, ExistsTest, Expression, Pattern
from clmpt.logic.rdf_terms import Iri, Literal
from clmpt.logic.sparql_tokens import SparqlTokens, Token

AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"})
MANY = 1_000_000
# Built-in function -> the least and the greatest number of its arguments.
ARGUMENTS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(
        [
            "STR",
            "LANG",
            "DATATYPE",
            "IRI",
            "URI",
            "ABS",
            "CEIL",
            "FLOOR",
            "ROUND",
            "STRLEN",
            "UCASE",
            "LCASE",
            "ENCODE_FOR_URI",
            "YEAR",
            "MONTH",
            "DAY",
            "HOURS",
            "MINUTES",
            "SECONDS",
            "TIMEZONE",
            "TZ",
            "MD5",
            "SHA1",
            "SHA256",
            "SHA384",
            "SHA512",
            "ISIRI",
            "ISURI",
            "ISBLANK",
            "ISLITERAL",
            "ISNUMERIC",
            "BOUND",
        ],
        (1, 1),
    ),
    **dict.fromkeys(
        [
            "LANGMATCHES",
            "CONTAINS",
            "STRSTARTS",
            "STRENDS",
            "STRBEFORE",
            "STRAFTER",
            "STRLANG",
            "STRDT",
            "SAMETERM",
        ],
        (2, 2),
    ),
    **dict.fromkeys(["RAND", "NOW", "UUID", "STRUUID"], (0, 0)),
    "BNODE": (0, 1),
    "IF": (3, 3),
    "COALESCE": (0, MANY),
    "CONCAT": (0, MANY),
    "REGEX": (2, 3),
    "SUBSTR": (2, 3),
    "REPLACE": (3, 4),
}
_COMPARISONS = ("=", "!=", "<", ">", "<=", ">=")


class ExpressionParser(SparqlTokens, ABC):
    """Reads expressions; aggregates are allowed only where `aggregates` says so."""

    aggregates = False

    @abstractmethod
    def group(self) -> Pattern:
        """A group in braces, for EXISTS."""

    def expression(self) -> Expression:
        self.deeper()
        parts = [self.conjunction()]
        while self.mark("||"):
            parts.append(self.conjunction())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else Call("||", tuple(parts))

    def conjunction(self) -> Expression:
        parts = [self.comparison()]
        while self.mark("&&"):
            parts.append(self.comparison())
        return parts[0] if len(parts) == 1 else Call("&&", tuple(parts))

    def comparison(self) -> Expression:
        left = self.sum()
        operator = self.mark(*_COMPARISONS)
        if operator:
            return Call(operator.text, (left, self.sum()), self.place(operator))
        negated = self.next.is_word("NOT") and self.tokens[self.at + 1].is_word("IN")
        if negated:
            self.take()
        if word := self.word("IN"):
            inside = Call("IN", (left, *self.arguments()), self.place(word))
            return Call("!", (inside,), self.place(word)) if negated else inside
        return left

    def sum(self) -> Expression:
        found = self.product()
        while sign := self.mark("+", "-"):
            found = Call(sign.text, (found, self.product()), self.place(sign))
        return found

    def product(self) -> Expression:
        found = self.unary()
        while sign := self.mark("*", "/"):
            found = Call(sign.text, (found, self.unary()), self.place(sign))
        return found

    def unary(self) -> Expression:
        token = self.next
        if token.is_mark("!"):
            self.take()
            self.deeper()
            found: Expression = Call("!", (self.unary(),), self.place(token))
            self.depth -= 1
            return found
        if token.is_mark("+", "-") and (number := self.literal()):
            return number
        if sign := self.mark("+", "-"):
            self.deeper()
            found = Call(f"{sign.text}1", (self.primary(),), self.place(sign))
            self.depth -= 1
            return found
        return self.primary()

    def primary(self) -> Expression:
        if self.mark("("):
            inner = self.expression()
            self.need_mark(")")
            return inner
        if variable := self.variable():
            return variable
        token = self.next
        if iri := self.iri():
            return self.function(iri, token) if self.next.is_mark("(") else iri
        if literal := self.literal():
            return literal
        if token.kind == "word":
            return self.named(token)
        return self.fail("an expression")

    def function(self, iri: Iri, token: Token) -> Expression:
        """A call of a function by its IRI. DISTINCT is allowed by the grammar and changes nothing
        for a function."""
        self.need_mark("(")
        self.word("DISTINCT")
        return Call(f"<{iri.text}>", self.listed(), self.place(token))

    def named(self, token: Token) -> Expression:
        name = token.text.upper()
        place = self.place(token)
        if name == "NOT" and self.tokens[self.at + 1].is_word("EXISTS"):
            self.take(), self.take()
            return ExistsTest(self.outside(), True, place)
        if name == "EXISTS":
            self.take()
            return ExistsTest(self.outside(), False, place)
        if name in AGGREGATES:
            self.take()
            return self.aggregate(name, token)
        if name not in ARGUMENTS:
            self.fail("an expression")
        self.take()
        least, most = ARGUMENTS[name]
        if name == "BOUND":
            self.need_mark("(")
            arguments: tuple[Expression, ...] = (self.need_variable(),)
            self.need_mark(")")
        else:
            arguments = self.arguments()
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            self.wrong(f"{name} takes {wanted} arguments, not {len(arguments)}", "", token)
        return Call(name, arguments, place)

    def outside(self) -> Pattern:
        """The group of an EXISTS, in which no aggregate can be used."""
        before, self.aggregates = self.aggregates, False
        found = self.group()
        self.aggregates = before
        return found

    def arguments(self) -> tuple[Expression, ...]:
        self.need_mark("(")
        return self.listed()

    def listed(self) -> tuple[Expression, ...]:
        """Expressions up to the closing parenthesis."""
        if self.mark(")"):
            return ()
        found = [self.expression()]
        while self.mark(","):
            found.append(self.expression())
        self.need_mark(")")
        return tuple(found)

    def aggregate(self, name: str, token: Token) -> Aggregate:
        if not self.aggregates:
            self.wrong(f"{name} cannot be used here", "Use it in SELECT, HAVING or ORDER BY", token)
        self.need_mark("(")
        distinct = bool(self.word("DISTINCT"))
        self.aggregates = False  # none inside another
        if name == "COUNT" and self.mark("*"):
            argument: Expression | None = None
        else:
            argument = self.expression()
        self.aggregates = True
        separator = " "
        if name == "GROUP_CONCAT" and self.mark(";"):
            self.need_word("SEPARATOR")
            self.need_mark("=")
            text = self.literal()
            if not isinstance(text, Literal):
                self.fail("a string")
            separator = text.text
        self.need_mark(")")
        return Aggregate(name, argument, distinct, separator, self.place(token))
