"""Every tagged line of code has a row in the table of equations, and vice versa."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_tags_and_rows_match() -> None:
    tags = {
        (tag, str(path.relative_to(ROOT / "src" / "clmpt")))
        for path in (ROOT / "src").rglob("*.py")
        for tag in re.findall(r"# (eq:[\w-]+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    table = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(eq:[\w-]+)` \|.*\| `([\w/.]+)` \|$", table, re.MULTILINE))
    assert tags == rows
    assert len(rows) >= 6
