"""Tables as LaTeX, for papers; they need the package booktabs."""

from __future__ import annotations

from clmpt.pages.page import Table

_ESCAPED = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "–": "--",
        "…": r"\dots{}",
        "±": r"$\pm$",
        "×": r"$\times$",
        "−": "$-$",
        "↑": r"$^{\uparrow}$",
        "↓": r"$^{\downarrow}$",
    }
)


def latex_text(text: str) -> str:
    """Any text for LaTeX: what has a meaning there is escaped.

    >>> latex_text("100% of CLMPT_small, Avg_p ± 1")
    '100\\\\% of CLMPT\\\\_small, Avg\\\\_p $\\\\pm$ 1'
    """
    return " ".join(text.split()).translate(_ESCAPED)


def latex_table(table: Table) -> str:
    """A tabular: the first column to the left, figures to the right."""
    kind = "l" if table.is_text else "r"
    lines = [" & ".join(map(latex_text, row)) + r" \\" for row in (table.headers, *table.rows)]
    head, *body = lines
    columns = "l" + kind * (len(table.headers) - 1)
    rules = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule"]
    return "\n".join([*rules, *body, r"\bottomrule", r"\end{tabular}"]) + "\n"
