"""A small graph of real facts about the countries of the world; see PROVENANCE.md beside it."""

from __future__ import annotations

from pathlib import Path

FACTS: Path = Path(__file__).with_name("world.tsv")
