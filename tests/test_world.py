"""The graph of the world's countries: well-known facts, and consistency as a whole."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter, defaultdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from clmpt.world import FACTS

TOOL = Path(__file__).parents[1] / "tools" / "world"
LINES = FACTS.read_text(encoding="utf-8").splitlines()
TRIPLES = [tuple(line.split("\t")) for line in LINES]
PAIRS: dict[str, set[tuple[str, str]]] = defaultdict(set)
for _head, _relation, _tail in TRIPLES:
    PAIRS[_relation].add((_head, _tail))
COUNTRIES = {head for head, _ in PAIRS["region"]}

# The kinds of head and tail of each relation.
KINDS = {
    "borders": ("country", "country"),
    "capital": ("country", "city"),
    "coast": ("country", "sea"),
    "continent": ("country", "continent"),
    "currency": ("country", "currency"),
    "currency_unit": ("currency", "unit"),
    "drives_on": ("country", "side"),
    "government": ("country", "government"),
    "independent_from": ("country", "country"),
    "language_family": ("language", "family"),
    "located_in": ("city", "country"),
    "member_of": ("country", "organisation"),
    "near": ("city", "city"),
    "official_language": ("country", "language"),
    "part_of": ("region", "continent"),
    "region": ("country", "region"),
    "spoken_language": ("country", "language"),
    "time_zone": ("city", "offset"),
    "week_starts_on": ("country", "day"),
    "written_in": ("language", "script"),
}
FORMER_STATES = {"Czechoslovakia", "Ottoman Empire", "Soviet Union", "Yugoslavia"}

TRUE = """
Afghanistan | borders | China
Albania | member_of | NATO
Amsterdam | located_in | Netherlands
Arabic | written_in | Arabic script
Australia | capital | Canberra
Austria | coast | landlocked
Bangladesh | independent_from | Pakistan
Belgium | official_language | German
Bolivia | official_language | Quechua
Botswana | borders | Zambia
Brazil | official_language | Portuguese
Brazil | region | South America (region)
Bulgaria | currency | Euro
Burundi | capital | Gitega
Cameroon | official_language | English
Chile | coast | Pacific Ocean
Croatia | currency | Euro
Cyprus | drives_on | left side of the road
Czech Koruna | currency_unit | crown
Danish Krone | currency_unit | crown
Ecuador | currency | US Dollar
Egypt | continent | Asia
Equatorial Guinea | capital | Ciudad de la Paz
Finland | member_of | NATO
Finland | official_language | Swedish
Finnish | language_family | Uralic languages
Fiji | region | Melanesia
France | borders | Monaco
French | language_family | Romance languages
Georgia | coast | Black Sea
Germany | member_of | G7
Hungarian | language_family | Uralic languages
Indonesia | capital | Jakarta
Indonesia | member_of | BRICS
Ireland | member_of | European Union
Ivory Coast | currency | West African CFA Franc
Japan | drives_on | left side of the road
Kazakhstan | capital | Astana
Kazakhstan | coast | Caspian Sea
Kazakhstan | coast | landlocked
Kenya | official_language | Swahili
Liechtenstein | currency | Swiss Franc
Los Angeles | time_zone | UTC-8
Luxembourg | capital | Luxembourg City
Mali | member_of | African Union
Malta | official_language | Maltese
Mumbai | time_zone | UTC+5:30
Myanmar | capital | Naypyidaw
Norway | member_of | Schengen Area
Norway | government | monarchy
Palau | capital | Ngerulmud
Panama | independent_from | Colombia
Paraguay | official_language | Guarani
Poland | borders | Lithuania
Russia | continent | Europe
Samoa | drives_on | left side of the road
Serbian | written_in | Cyrillic script
Serbian | written_in | Latin script
Singapore | official_language | Tamil
South Africa | official_language | Zulu
South Sudan | independent_from | Sudan
Spain | spoken_language | Catalan
Sweden | member_of | NATO
Switzerland | official_language | Romansh
Timor-Leste | member_of | ASEAN
Turkey | capital | Ankara
United Kingdom | borders | Ireland
United States | spoken_language | Spanish
Vienna | near | Bratislava
Western Asia | part_of | Asia
"""

FALSE = """
Albania | borders | Serbia
Angola | member_of | OPEC
Australia | capital | Sydney
Brazil | official_language | Spanish
Bulgaria | currency | Bulgarian Lev
Burkina Faso | member_of | ECOWAS
Burundi | capital | Bujumbura
Croatia | currency | Croatian Kuna
Cuba | borders | United States
Cyprus | member_of | Schengen Area
Denmark | currency | Euro
France | borders | Brazil
Iceland | member_of | European Union
India | borders | Sri Lanka
Ireland | member_of | NATO
Kazakhstan | capital | Nur-Sultan
London | near | Rome
Mali | member_of | ECOWAS
Niger | member_of | ECOWAS
Norway | member_of | European Union
Russia | member_of | Council of Europe
Saudi Arabia | borders | Bahrain
Saudi Arabia | member_of | BRICS
Switzerland | currency | Euro
Turkey | capital | Istanbul
Ukraine | official_language | Russian
United Arab Emirates | member_of | OPEC
United Kingdom | member_of | European Union
United States | drives_on | left side of the road
"""

MEMBERS = {
    "ASEAN": 11,
    "African Union": 54,
    "Andean Community": 4,
    "Arab League": 22,
    "Asia-Pacific Economic Cooperation": 20,
    "BRICS": 10,
    "Benelux Union": 3,
    "Caribbean Community": 14,
    "Central American Integration System": 8,
    "Commonwealth of Independent States": 9,
    "Commonwealth of Nations": 56,
    "Community of Portuguese Language Countries": 9,
    "Council of Europe": 46,
    "ECOWAS": 12,
    "East African Community": 8,
    "Eurasian Economic Union": 5,
    "European Free Trade Association": 4,
    "European Union": 27,
    "G20": 19,
    "G7": 7,
    "Gulf Cooperation Council": 6,
    "International Organisation of La Francophonie": 50,
    "Mercosur": 5,
    "NATO": 32,
    "Nordic Council": 5,
    "OECD": 38,
    "OPEC": 11,
    "Organisation of Islamic Cooperation": 57,
    "Organization of American States": 34,
    "Pacific Islands Forum": 14,
    "Schengen Area": 29,
    "Shanghai Cooperation Organisation": 10,
    "South Asian Association for Regional Cooperation": 8,
    "Southern African Development Community": 16,
    "Visegrád Group": 4,
}


def listed(text: str) -> set[tuple[str, ...]]:
    return {tuple(line.split(" | ")) for line in text.strip().splitlines()}


def only_tail(relation: str) -> dict[str, str]:
    """The tail of each head, which may have only one."""
    tails = dict(PAIRS[relation])
    assert len(tails) == len(PAIRS[relation])
    return tails


def kinds() -> dict[str, set[str]]:
    kinds_of: dict[str, set[str]] = defaultdict(set)
    for relation, pairs in PAIRS.items():
        for pair in pairs:
            for name, kind in zip(pair, KINDS[relation], strict=True):
                former = relation == "independent_from" and name in FORMER_STATES
                kinds_of[name].add("former state" if former else kind)
    return kinds_of


def test_known_facts_are_included() -> None:
    assert len(listed(TRUE)) >= 40
    assert listed(TRUE) <= set(TRIPLES)


def test_known_errors_are_not_included() -> None:
    assert len(listed(FALSE)) >= 15
    assert not listed(FALSE) & set(TRIPLES)


def test_false_facts_use_names_in_the_file_except_for_dropped_ones() -> None:
    unknown = {name for fact in listed(FALSE) for name in fact[::2]} - set(kinds())
    assert unknown == {"Bulgarian Lev", "Croatian Kuna", "Nur-Sultan"}


def test_a_line_is_three_names_separated_by_tabs() -> None:
    assert all(len(triple) == 3 for triple in TRIPLES)
    assert all(name == " ".join(name.split()) != "" for triple in TRIPLES for name in triple)


def test_lines_are_sorted_and_distinct() -> None:
    assert sorted(set(LINES)) == LINES
    assert FACTS.read_bytes() == "".join(f"{line}\n" for line in LINES).encode()


def test_the_graph_is_neither_too_small_nor_too_large() -> None:
    assert 195 <= len(COUNTRIES) <= 250
    assert 700 <= len(kinds()) <= 2500
    assert 5000 <= len(LINES) <= 9000
    assert 14 <= len(PAIRS) <= 20


def test_relations_can_be_typed_without_quotes() -> None:
    assert set(PAIRS) == set(KINDS)
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", relation) for relation in PAIRS)


def test_every_name_has_one_kind() -> None:
    mixed = {name: found for name, found in kinds().items() if len(found) > 1}
    assert mixed == {}
    assert {name for name, found in kinds().items() if found == {"country"}} == COUNTRIES


def test_no_two_names_differ_only_in_case_or_spaces() -> None:
    looks = Counter("".join(name.casefold().split()) for name in kinds())
    assert [look for look, count in looks.items() if count > 1] == []


def test_only_currencies_scripts_and_days_may_occur_once() -> None:
    uses = Counter(name for head, _, tail in TRIPLES for name in (head, tail))
    used_once = {kind for name, found in kinds().items() if uses[name] == 1 for kind in found}
    assert used_once <= {"currency", "script", "day"}


@pytest.mark.parametrize("relation", ["borders", "near"])
def test_neighbours_are_mutual(relation: str) -> None:
    assert {(tail, head) for head, tail in PAIRS[relation]} == PAIRS[relation]
    assert not any(head == tail for head, tail in PAIRS[relation])


def test_every_country_has_one_capital_that_is_located_in_it() -> None:
    capitals = only_tail("capital")
    assert set(capitals) == COUNTRIES
    assert len(set(capitals.values())) == len(capitals)
    assert {(city, country) for country, city in capitals.items()} <= PAIRS["located_in"]


@pytest.mark.parametrize(
    "relation",
    ["coast", "continent", "currency", "drives_on", "official_language", "week_starts_on"],
)
def test_every_country_has_the_relation(relation: str) -> None:
    assert {country for country, _ in PAIRS[relation]} == COUNTRIES


def test_a_country_is_on_the_continent_of_its_region() -> None:
    region, continent = only_tail("region"), only_tail("part_of")
    expected = {(country, continent[region[country]]) for country in COUNTRIES}
    second = {
        ("Cyprus", "Europe"),
        ("Egypt", "Asia"),
        ("Kazakhstan", "Europe"),
        ("Russia", "Asia"),
        ("Turkey", "Europe"),
    }
    assert PAIRS["continent"] == expected | second


def test_a_landlocked_country_has_no_coast_except_on_the_caspian_sea() -> None:
    landlocked = {country for country, sea in PAIRS["coast"] if sea == "landlocked"}
    seas = {sea for country, sea in PAIRS["coast"] if country in landlocked}
    assert len(landlocked) == 45
    assert seas == {"landlocked", "Caspian Sea"}


def test_neighbours_share_a_continent_with_three_known_exceptions() -> None:
    on = defaultdict(set)
    for country, continent in PAIRS["continent"]:
        on[country].add(continent)
    apart = {frozenset(pair) for pair in PAIRS["borders"] if not on[pair[0]] & on[pair[1]]}
    exceptions = [("Colombia", "Panama"), ("Indonesia", "Papua New Guinea"), ("Morocco", "Spain")]
    assert apart == {frozenset(pair) for pair in exceptions}


def test_every_city_is_in_one_country_and_one_time_zone() -> None:
    assert set(only_tail("located_in")) == set(only_tail("time_zone"))


def test_time_zones_of_nearby_cities_are_at_most_two_hours_apart() -> None:
    def hours(offset: str) -> float:
        whole, _, minutes = offset.removeprefix("UTC").partition(":")
        return float(whole) + float(minutes or 0) / 60

    zone = only_tail("time_zone")
    # Warsaw and Brest are two hours apart in winter.
    assert max(abs(hours(zone[one]) - hours(zone[other])) for one, other in PAIRS["near"]) == 2


def test_a_language_is_not_both_official_and_only_spoken() -> None:
    assert not PAIRS["official_language"] & PAIRS["spoken_language"]


def test_every_language_has_a_script() -> None:
    languages = {name for name, found in kinds().items() if found == {"language"}}
    assert {language for language, _ in PAIRS["written_in"]} == languages


def test_organisations_have_the_known_number_of_members() -> None:
    assert Counter(tail for _, tail in PAIRS["member_of"]) == MEMBERS


def test_the_counts_in_the_provenance_match_the_file() -> None:
    page = FACTS.with_name("PROVENANCE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (\d+) \| ([^|]+), ([^|]+?) \|", page, re.MULTILINE)
    counts = {relation: int(count) for relation, count, _, _ in rows}
    assert counts == {relation: len(pairs) for relation, pairs in PAIRS.items()}
    assert {(head, relation, tail) for relation, _, head, tail in rows} <= set(TRIPLES)
    cities = len(PAIRS["located_in"])
    assert (
        f"{len(LINES)} facts about {len(COUNTRIES)} countries, {cities} cities and what they "
        f"share: {len(kinds())} names and {len(PAIRS)} relations"
    ) in " ".join(page.split())


def assemble(out: Path) -> subprocess.CompletedProcess[str]:
    for pin in (TOOL / "requirements.txt").read_text(encoding="utf-8").split():
        package, _, pinned = pin.partition("==")
        try:
            installed = version(package)
        except PackageNotFoundError:
            pytest.skip(f"{package} is not installed: see tools/world/requirements.txt")
        if installed != pinned:
            pytest.skip(f"{package} is {installed}, but the file was made with {pinned}")
    command = [sys.executable, str(TOOL / "assemble.py"), "--out", str(out)]
    return subprocess.run(command, check=False, cwd=out.parent, capture_output=True, text=True)


def test_the_pinned_packages_reproduce_the_file_and_overwrite_nothing(tmp_path: Path) -> None:
    made = tmp_path / "world.tsv"
    assert assemble(made).stderr == f"Wrote {made}.\n"
    assert made.read_bytes() == FACTS.read_bytes()
    kept = tmp_path / "mine.tsv"
    kept.write_text("mine", encoding="utf-8")
    assert "exists. Remove it first" in assemble(kept).stderr
    assert kept.read_text(encoding="utf-8") == "mine"
