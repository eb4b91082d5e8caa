"""Recipes: the tables of settings that `fit`, `train` and `reproduce` read from TOML.

The tables that all models share are in `settings.py`; `[reasoning]` names a reasoner and has its
settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from clmpt.errors import SettingError
from clmpt.registry import REASONERS
from clmpt.settings import Pretraining, Settings, Training, check_known, setting
from clmpt.storage.files import read_toml, toml_value

LONGEST_NAME = 100
_MOST_BASES = 4
_PACKAGE = Path(__file__).parents[1]
_SHIPPED = (_PACKAGE, _PACKAGE.parents[1])  # in a wheel and in a checkout
_TABLES = ("experiment", "queries", "fitting", "pretraining", "reasoning", "training")

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Fitting(Settings):
    """What `clmpt fit` does besides training."""

    hide: float = setting(
        0.1, "fraction of facts held out for validation and test", least=0, below=1
    )
    queries: int = setting(0, "maximum training queries per shape; 0: by graph size", least=0)
    test_queries: int = setting(0, "maximum test queries per shape; 0: by graph size", least=0)
    tries: int = setting(
        0, "regularisations of the predictor to try; 1: none; 0: by graph size", least=0, most=4
    )
    seed: int = setting(0, "same seed, same numbers; for every stage without its own", least=0)


@dataclass(frozen=True)
class Experiment(Settings):
    """What is reproduced, and what it is compared to."""

    name: str = setting("", "its name in reports; empty: the reasoner and what differs")
    benchmark: str = setting("", "compare with its published figures: fb15k, fb15k-237 or nell995")
    published: str = setting("", "the published row that it reproduces")
    seed: int = setting(0, "same seed, same numbers; for every stage without its own", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("name", "benchmark", "published"):
            text = getattr(self, name)
            if not text.isprintable() or len(text) > LONGEST_NAME:
                raise SettingError(
                    f"'{name}' must be at most {LONGEST_NAME} printable characters, not "
                    f"{text[:LONGEST_NAME]!a}."
                )


@dataclass(frozen=True)
class Queries(Settings):
    """The queries to sample if the data folder lacks them."""

    trained: str = setting("1p 2p 3p 2i 3i 2in 3in inp pin pni", "shapes to train on")
    measured: str = setting("1p 2p 3p 2i 3i ip pi 2u up 2in 3in inp pin pni", "shapes to test on")
    train: int = setting(10_000, "training queries per shape", least=1)
    train_negated: int = setting(1_000, "training queries per shape with negation", least=1)
    test: int = setting(1_000, "test queries per shape", least=1)
    test_links: int = setting(1_000, "test queries per shape with a single atom", least=1)
    tested: Literal["test", "valid"] = setting(
        "test", "the split that is measured; if 'valid', choose nothing on its queries"
    )
    folder: str = setting("", "the benchmark folder with queries, if it is not the graph's")
    seed: int = setting(0, "same seed, same queries", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("trained", "measured"):
            if not getattr(self, name).split():
                raise SettingError(f"'{name}' must name at least one shape.")


def read_recipe(path: str | Path) -> Tables:
    """The tables of a recipe.

    A recipe may name another one in the same folder as its `base`, and override its settings. The
    recipes that come with the package, `recipes/…`, are found from anywhere.
    """
    path = shipped(Path(path))
    tables = read_toml(path)
    merged: Tables = {}
    for _ in range(_MOST_BASES):
        base = tables.pop("base", None)
        for name, content in tables.items():
            if name not in _TABLES or not isinstance(content, dict):
                known = ", ".join(f"[{name}]" for name in _TABLES)
                raise SettingError(
                    f"'{path}' has an unknown entry '{name}'. Allowed tables: {known}."
                )
        merged = _merged(tables, merged)
        if base is None:
            return merged
        if not isinstance(base, str) or Path(base).name != base:
            raise SettingError(f"The base of '{path}' must be a file in the same folder.")
        path = path.parent / base
        tables = read_toml(path)
    raise SettingError(f"'{path}' has more than {_MOST_BASES} bases, or is its own.")


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables, merged; `above` takes precedence."""
    found = dict(below)
    for name, value in above.items():
        both = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
        found[name] = _merged(found[name], value) if both else value
    return found


def shipped(path: Path) -> Path:
    """A file that may be one of those that come with the package."""
    if path.exists() or path.parts[:1] != ("recipes",) or ".." in path.parts:
        return path
    return next((root / path for root in _SHIPPED if (root / path).is_file()), path)


# --- changes on the command line ------------------------------------------------------------------


def changed(tables: Tables, assignments: Sequence[str]) -> Tables:
    """An experiment's tables, changed by assignments `table.name=value`.

    The table may be left out if only one has such a setting.

    >>> changed({"training": {"batch": 512}}, ["training.batch=64", "rank=8", "decay=cosine"])
    Traceback (most recent call last):
    clmpt.errors.SettingError: 'decay' is ambiguous: pretraining.decay or training.decay.
    >>> changed({"training": {"batch": 512}}, ["training.batch=64", "rank=8"])
    {'training': {'batch': 64}, 'pretraining': {'rank': 8}}
    """
    found = _merged({}, tables)
    for assignment in assignments:
        table, name, value = assigned(assignment, chosen_reasoner(found))
        found.setdefault(table, {})[name] = value
    return found


def chosen_reasoner(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The reasoner that the tables choose."""
    found = tables.get("reasoning", {}).get("reasoner", "clmpt")
    if not isinstance(found, str):
        raise SettingError(f"'reasoner' must be of type str, not {found!r}.")
    return found


def with_reasoner(reasoning: Mapping[str, Any], reasoner: str) -> dict[str, Any]:
    """A table `[reasoning]` with another reasoner; drops the settings next to the old one's
    name."""
    if reasoning.get("reasoner", "clmpt") == reasoner:
        return {**reasoning, "reasoner": reasoner}
    tables = {name: table for name, table in reasoning.items() if isinstance(table, Mapping)}
    return {**tables, "reasoner": reasoner}


def assigned(assignment: str, reasoner: str = "clmpt") -> tuple[str, str, Any]:
    """The table, name and value of an assignment `table.name=value` or `name=value`.

    >>> assigned("rank=8")
    ('pretraining', 'rank', 8)
    """
    key, equals, text = assignment.partition("=")
    if not equals:
        raise SettingError(f"'{assignment}' must be NAME=VALUE, such as training.batch=64.")
    tables = _names_by_table(reasoner)
    table, dot, name = key.strip().rpartition(".")
    if dot and table not in tables:
        raise SettingError(f"There is no table '{table}'. Available: {', '.join(tables)}.")
    if not dot:
        table = _only_table(name, tables)
    check_known(name, tables[table])
    return table, name, toml_value(text)


def _names_by_table(reasoner: str) -> dict[str, list[str]]:
    """The names of an experiment's settings."""
    kinds: dict[str, type[Any]] = {
        "experiment": Experiment,
        "queries": Queries,
        "pretraining": Pretraining,
        "reasoning": REASONERS.find(reasoner).Settings,
        "training": Training,
    }
    names = {table: [each.name for each in fields(kind)] for table, kind in kinds.items()}
    names["reasoning"].insert(0, "reasoner")
    return names


def _only_table(name: str, tables: Mapping[str, Sequence[str]]) -> str:
    having = [table for table, names in tables.items() if name in names]
    if len(having) > 1:
        listed = " or ".join(f"{table}.{name}" for table in having)
        raise SettingError(f"'{name}' is ambiguous: {listed}.")
    if not having:
        near = get_close_matches(name, [known for names in tables.values() for known in names], 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise SettingError(f"There is no setting '{name}'.{hint}")
    return having[0]
