"""The SPARQL 1.1 protocol: queries by GET and POST, results in the format that a client accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

from clmpt.errors import DataError, QueryError, SettingError, UnsupportedQuery
from clmpt.logic.algebra import Form, SparqlQuery, in_scope
from clmpt.logic.rdf_terms import XSD, Iri, Literal, RdfTerm
from clmpt.logic.sparql_parser import read_sparql
from clmpt.service.served import Served
from clmpt.sparql.answering import Triple, answer_sparql
from clmpt.sparql.results import WrittenResult

LIKELY = 0.5  # the least probability of a row of likely results, and of a yes
PROBABILITY, STATUS = "probability", "status"  # what a query may select besides its own variables
_LONGEST = 1_000_000  # characters of a query

# Media type -> our name of the format, in the order of preference.
ROWS = {
    "application/sparql-results+json": "json",
    "application/sparql-results+xml": "xml",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/json": "json",
    "application/xml": "xml",
    "text/xml": "xml",
}
TRIPLES = {
    "text/turtle": "turtle",
    "application/n-triples": "ntriples",
    "application/rdf+xml": "rdfxml",
    "application/x-turtle": "turtle",
    "text/plain": "ntriples",
}


_OTHER_NAMES = {"rdfxml": ("xml", "rdf", "rdf+xml"), "ntriples": ("nt", "n-triples")}


class NotAcceptable(SettingError):
    """No format that the client accepts."""


class WrongContent(SettingError):
    """A body of a type that the protocol does not know."""


@dataclass(frozen=True)
class ProtocolRequest:
    """A query and what was sent with it, from whichever of the protocol's three forms."""

    query: str
    parameters: Mapping[str, str]
    default_graphs: tuple[str, ...] = ()
    named_graphs: tuple[str, ...] = ()

    @classmethod
    def of(cls, method: str, url: str, content_type: str, body: bytes) -> ProtocolRequest | None:
        """None for a GET without a query, which asks for the service's description."""
        pairs = _pairs(url)
        kind = content_type.partition(";")[0].strip().lower()
        if method == "POST" and kind == "application/sparql-query":
            pairs.append(("query", _text(body)))
        elif method == "POST" and kind == "application/x-www-form-urlencoded":
            pairs += _pairs(_text(body))
        elif method == "POST":
            raise WrongContent(
                f"A query is not sent as '{kind}'. Send it as application/sparql-query, or as "
                "application/x-www-form-urlencoded with the parameter 'query'."
            )
        names = [name for name, _ in pairs]
        if "update" in names or kind == "application/sparql-update":
            raise UnsupportedQuery("Nothing can be changed here", "Send a query")
        if "query" not in names and method == "GET":
            return None
        if names.count("query") != 1:
            raise QueryError(f"There are {names.count('query')} queries", "Send one")
        found = dict(pairs)
        if len(found["query"]) > _LONGEST:
            raise QueryError(f"The query is longer than {_LONGEST:,} characters", "Shorten it")
        return cls(
            found.pop("query"),
            found,
            tuple(value for name, value in pairs if name == "default-graph-uri"),
            tuple(value for name, value in pairs if name == "named-graph-uri"),
        )

    def parsed(self, base: str) -> SparqlQuery:
        query = read_sparql(self.query, base)
        if not self.default_graphs and not self.named_graphs:
            return query
        return replace(  # the protocol's dataset goes before the query's
            query,
            default_graphs=tuple(map(Iri, self.default_graphs)),
            named_graphs=tuple(map(Iri, self.named_graphs)),
            has_dataset=True,
        )

    def number(self, name: str, usual: float, most: float) -> float:
        text = self.parameters.get(name)
        try:
            value = usual if text is None else float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= most:
            raise SettingError(f"'{name}' must be a number from 0 to {most:g}, not '{text}'.")
        return value


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=1000)
    except UnicodeDecodeError:
        raise DataError("The request is not UTF-8. Encode it as UTF-8.") from None
    except ValueError:
        raise DataError("The request has too many parameters. Send at most 1,000.") from None


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise DataError("The request is not UTF-8. Encode it as UTF-8.") from None


# --- formats --------------------------------------------------------------------------------------


def negotiated(accept: str, form: Form, wanted: str | None) -> tuple[str, str]:
    """The media type of a result and our name of its format: the one that the client `wanted` or
    likes best. Clients send names of formats on their own, so what they accept goes before a name
    that this form of query lacks.

    >>> negotiated("text/csv;q=0.5, application/xml", "SELECT", None)
    ('application/xml', 'xml')
    >>> negotiated("*/*", "CONSTRUCT", None)
    ('text/turtle', 'turtle')
    """
    offered = TRIPLES if form in ("CONSTRUCT", "DESCRIBE") else ROWS
    for media, name in offered.items():
        if wanted in (media, name, *_OTHER_NAMES.get(name, ())):
            return media, name
    if wanted and accept in ("", "*/*"):
        raise NotAcceptable(
            f"There is no format '{wanted}' for {form}. "
            f"Choose one of: {', '.join(dict.fromkeys(offered.values()))}."
        )
    likings = _likings(accept or "*/*")
    best = max(offered, key=lambda media: _liking(media, likings))  # the first of equals
    if _liking(best, likings) <= 0:
        raise NotAcceptable(
            f"There is no result of {form} as '{accept}'. Accept one of: {', '.join(offered)}."
        )
    return best, offered[best]


def _likings(accept: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in accept.split(","):
        media, *options = (part.strip().lower() for part in one.split(";"))
        quality = next((option[2:] for option in options if option.startswith("q=")), "1")
        try:
            found[media] = float(quality)
        except ValueError:
            found[media] = 0.0
    return found


def _liking(media: str, likings: Mapping[str, float]) -> float:
    kind = media.partition("/")[0]
    return next((likings[one] for one in (media, f"{kind}/*", "*/*") if one in likings), 0.0)


# --- answers --------------------------------------------------------------------------------------


def exact_result(served: Served, request: ProtocolRequest) -> WrittenResult:
    graph = served.graph
    query = request.parsed(graph.rdf.base if graph.rdf else "")
    return answer_sparql(query, graph, union=request.parameters.get("union") == "true")


@dataclass(frozen=True)
class LikelyTable:
    """Likely rows in the form of a result, with their probability and status where selected."""

    form: Form
    variables: tuple[str, ...]
    rows: tuple[tuple[RdfTerm | None, ...], ...]
    notes: tuple[str, ...]
    probability: float | None = None  # of an ASK
    holds: bool | None = None
    triples: tuple[Triple, ...] = ()

    def __iter__(self) -> Iterator[tuple[RdfTerm | None, ...]]:
        return iter(self.rows)


def likely_result(served: Served, request: ProtocolRequest) -> LikelyTable:
    """The rows of at least the probability that the request asks for, the likeliest first."""
    graph, at_least = served.graph, request.number("at-least", LIKELY, 1)
    most = int(request.number("limit", 20_000, 1e9))
    query = request.parsed(graph.rdf.base if graph.rdf else "")
    asked, added = _without_ours(query)
    model = served.model(request.parameters.get("reasoner"))
    found = model.ask_sparql(asked, 0.0 if query.form == "ASK" else at_least)
    if found.probability is not None:
        yes = found.probability >= at_least
        return LikelyTable("ASK", (), (), found.notes, found.probability, yes)
    names = [variable.name for variable in query.select.names]
    rows = []
    for row in found.rows[:most]:
        cells = dict(zip(found.variables, row.cells, strict=True))
        if PROBABILITY in added and row.probability is not None:
            cells[PROBABILITY] = Literal(f"{row.probability:.6f}", XSD + "decimal")
        if STATUS in added and row.status is not None:
            cells[STATUS] = Literal(row.status)
        rows.append(tuple(cells.get(name) for name in names))
    return LikelyTable("SELECT", tuple(names), tuple(rows), found.notes)


def _without_ours(query: SparqlQuery) -> tuple[SparqlQuery, set[str]]:
    """The query without the columns that we fill in, and which these are."""
    select = query.select
    bound = {variable.name for variable in in_scope(select.where)}
    ours = {name for name in (PROBABILITY, STATUS) if name not in bound}
    columns = select.columns or ()
    added = {one.variable.name for one in columns if one.expression is None} & ours
    if not added:
        return query, set()
    kept = tuple(one for one in columns if one.expression or one.variable.name not in added)
    if not kept:
        raise UnsupportedQuery("It selects no variable of its own", "Select one", query.position)
    return replace(query, select=replace(select, columns=kept)), added


# --- the service's description --------------------------------------------------------------------


_FORMATS = (
    *("Turtle", "N-Triples", "RDF_XML"),
    *(f"SPARQL_Results_{form}" for form in ("JSON", "XML", "CSV", "TSV")),
)


def description(served: Served, endpoint: str) -> str:
    """By SPARQL 1.1 Service Description, as Turtle."""
    listed = ", ".join(f"<http://www.w3.org/ns/formats/{one}>" for one in _FORMATS)
    triples = served.graph.index.triples
    return f"""@prefix sd: <http://www.w3.org/ns/sparql-service-description#> .
@prefix void: <http://rdfs.org/ns/void#> .

[] a sd:Service ;
    sd:endpoint <{endpoint}> ;
    sd:supportedLanguage sd:SPARQL11Query ;
    sd:resultFormat {listed} ;
    sd:defaultDataset [ a sd:Dataset ; sd:defaultGraph [ a sd:Graph ; void:triples {triples} ] ] .
"""
