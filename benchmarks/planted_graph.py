"""A graph of people with planted rules, so that what is missing is known.

Every fact that is held out follows from those that are kept, by one of the `RULES`, or is one of a
few that are equally likely. So a model can be measured against the best possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

# Shapes: P people, F facts

Rows = npt.NDArray[np.int64]

RELATIONS = (
    *("born_in", "located_in", "citizen_of", "lives_in", "resident_of", "works_for", "employs"),
    *("seat_in", "has_profession", "guild_profession", "guild_country", "member_of"),
    *("married_to", "knows"),
)
# What is held out, and what it follows from.
RULES = {
    "citizen_of": "composition: the country of the city of birth",
    "resident_of": "composition: the country of the city of residence",
    "member_of": "intersection: the guild of one's profession in one's country",
    "works_for": "inverse: who is employed by a company works for it",
    "married_to": "symmetry: of a couple, one direction is kept",
    "knows": "chance: anybody of the city where one lives",
}
COUNTRIES, PROFESSIONS = 200, 50
_HELD_OUT = 0.01  # of the facts of each rule
_AT_HOME = 0.8  # live where they were born


@dataclass(frozen=True)
class Planted:
    """Facts (head, relation, tail), which of them are held out, and who lives where."""

    kinds: tuple[tuple[str, int], ...]  # of entities: name and first id, in order
    entities: int
    facts_F3: Rows
    hidden_F: npt.NDArray[np.bool_]
    neighbours_P: Rows  # how many live in the same city, by person

    def names(self) -> npt.NDArray[np.str_]:
        starts = [first for _, first in self.kinds] + [self.entities]
        found = [
            np.char.add(f"{kind}_", np.arange(stop - first).astype(str))
            for (kind, _), first, stop in zip(self.kinds, starts, starts[1:], strict=False)
        ]
        return np.concatenate(found)

    def first(self, kind: str) -> int:
        return dict(self.kinds)[kind]


def planted_graph(people: int, seed: int = 0) -> Planted:
    """About eleven facts a person; a million entities and ten million facts for 930,000 people."""
    random = np.random.default_rng(seed)
    cities, companies, guilds = people // 100 + 20, people // 20 + 20, COUNTRIES * PROFESSIONS
    sizes = {
        "country": COUNTRIES, "profession": PROFESSIONS, "guild": guilds, "city": cities,
        "company": companies, "person": people,
    }  # fmt: skip
    starts = np.cumsum([0, *sizes.values()])
    first = dict(zip(sizes, starts.tolist(), strict=False))
    who = np.arange(people)
    country_of = random.integers(COUNTRIES, size=cities)
    born = random.integers(cities, size=people)
    moved = random.random(people) > _AT_HOME
    home = np.where(moved, random.integers(cities, size=people), born)
    seat = np.concatenate([np.arange(cities), random.integers(cities, size=companies - cities)])
    trade = random.integers(PROFESSIONS, size=people)
    guild = np.arange(guilds)
    employer = _near(home, seat, cities, random)
    couple = random.permutation(people)[: people // 2 * 2].reshape(-1, 2)
    person, company, city = who + first["person"], first["company"], first["city"]
    parts = {
        "born_in": (person, city + born),
        "located_in": (city + np.arange(cities), country_of),
        "citizen_of": (person, country_of[born]),
        "lives_in": (person, city + home),
        "resident_of": (person, country_of[home]),
        "works_for": (person, company + employer),
        "employs": (company + employer, person),
        "seat_in": (company + np.arange(companies), city + seat),
        "has_profession": (person, first["profession"] + trade),
        "guild_profession": (first["guild"] + guild, first["profession"] + guild % PROFESSIONS),
        "guild_country": (first["guild"] + guild, guild // PROFESSIONS),
        "member_of": (person, first["guild"] + country_of[born] * PROFESSIONS + trade),
        "married_to": (
            first["person"] + np.concatenate([couple[:, 0], couple[:, 1]]),
            first["person"] + np.concatenate([couple[:, 1], couple[:, 0]]),
        ),
        "knows": (
            np.concatenate([person, person]),
            first["person"] + _near(np.concatenate([home, home]), home, cities, random),
        ),
    }
    neighbours_P = np.bincount(home, minlength=cities)[home]
    rows = _with_held_out(parts, len(couple), random)
    return Planted(tuple(first.items()), int(starts[-1]), *rows, neighbours_P)


def _with_held_out(
    parts: dict[str, tuple[Rows, Rows]], couples: int, random: np.random.Generator
) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """The facts of all relations, each once, and which of them are held out."""
    facts, hidden = [], []
    for number, name in enumerate(RELATIONS):
        head, tail = parts[name]
        rows = np.stack([head, np.full(len(head), number), tail], 1)
        drawn = random.random(len(rows)) < _HELD_OUT * (name in RULES)
        if name == "married_to":
            drawn[couples:] = False  # the other direction of each couple
        facts.append(rows)
        hidden.append(drawn)
    facts_F3, first_F = np.unique(np.concatenate(facts), axis=0, return_index=True)
    return facts_F3.astype(np.int64), np.concatenate(hidden)[first_F]


def _near(of: Rows, place: Rows, places: int, random: np.random.Generator) -> Rows:
    """A random one of those at the place of each; of the nearest place if there are none."""
    order = np.argsort(place, kind="stable")
    begin = np.searchsorted(place[order], np.arange(places + 1))
    width = np.maximum(begin[of + 1] - begin[of], 1)
    at = begin[of] + (random.random(len(of)) * width).astype(np.int64)
    return order[np.minimum(at, len(order) - 1)]


def write_facts(path: Path, rows_F3: Rows, names: npt.NDArray[np.str_]) -> None:
    """Facts as lines head, relation, tail, separated by tabs; whole or not at all."""
    scratch = path.with_suffix(".part")
    texts, relations = names.tolist(), RELATIONS
    with scratch.open("w", encoding="utf-8") as file:
        for start in range(0, len(rows_F3), 100_000):
            rows = rows_F3[start : start + 100_000].tolist()
            file.writelines(f"{texts[h]}\t{relations[r]}\t{texts[t]}\n" for h, r, t in rows)
    scratch.rename(path)


def best_possible(planted: Planted, rule: str) -> float:
    """The MRR of somebody who knows the rules: 1, or the mean over equally likely tails."""
    if rule != "knows":
        return 1.0
    size = planted.neighbours_P.astype(float)
    harmonic = np.log(np.maximum(size, 1)) + np.euler_gamma + 1 / (2 * np.maximum(size, 1))
    return float(np.mean(harmonic / np.maximum(size, 1)))
