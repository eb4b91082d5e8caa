"""A variant of a recipe: its settings with changes, and a name that says what differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clmpt.experiments.recipes import (
    LONGEST_NAME,
    Tables,
    assigned,
    changed,
    chosen_reasoner,
    read_recipe,
    with_reasoner,
)
from clmpt.experiments.reproduction import Recipe, label
from clmpt.registry import REASONERS


def variant_tables(
    recipe: str | Path,
    reasoner: str | None = None,
    changes: Sequence[str] = (),
    name: str | None = None,
    device: str | None = None,
) -> Tables:
    """The recipe's tables with another reasoner and with changes such as 'training.seed=1'.

    What is changed is no longer compared with published figures, and has a name of its own.
    """
    tables = read_recipe(recipe)
    tables = {table: given for table, given in tables.items() if table != "fitting"}
    if reasoner:
        tables["reasoning"] = with_reasoner(tables.get("reasoning", {}), reasoner)
    tables = changed(tables, changes)
    about = tables.setdefault("experiment", {})
    set_here = {assigned(one, chosen_reasoner(tables))[:2] for one in changes}
    differs = bool(reasoner or changes)
    if name:
        about["name"] = name
    elif differs and ("experiment", "name") not in set_here:
        about["name"] = _name(tables, bool(reasoner), changes)
    if differs and ("experiment", "published") not in set_here:
        about["published"] = ""
    for table in ("pretraining", "training"):
        if device:
            tables.setdefault(table, {})["device"] = device
    return tables


def _name(tables: Tables, is_another: bool, changes: Sequence[str]) -> str:
    """A variant's name: the recipe's or the reasoner's, then the changes not in that name."""
    own = "" if is_another else tables["experiment"].get("name", "")
    chosen = chosen_reasoner(tables)
    named = () if own else ("reasoner", *REASONERS.find(chosen).labelled)
    quiet = (*named, "published", "device")
    rest = [one for one in changes if assigned(one, chosen)[1] not in quiet]
    name = ", ".join([own or label(Recipe.of(tables).reasoning), *rest])
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
