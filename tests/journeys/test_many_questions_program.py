"""A Python program with a thousand questions: from a file of them to a table of answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas

import clmpt

PROGRAM = """
import json, sys
import pandas
import clmpt

folder, source, out = sys.argv[1:]
asked = [json.loads(line)["question"] for line in open(source, encoding="utf-8")]
model = clmpt.load(folder, device="cpu")
try:
    found = model.ask(asked, limit=3)
except clmpt.BadQuestions as error:
    print(error, file=sys.stderr)
    for index in sorted(error.problems, reverse=True):
        del asked[index]
    found = model.ask(asked, limit=3)
frames = [one.to_pandas().assign(question=text) for text, one in zip(asked, found, strict=True)]
pandas.concat(frames).to_csv(out, index=False)
"""
FORMS = (
    "?c : borders(?c, {0})",
    "?l : borders(?c, {0}) & official_language(?c, ?l)",
    "?c : borders(?c, {0}) & !member_of(?c, NATO)",
    "SELECT ?c {{ ?c :borders {1} }} LIMIT 2",
    "?c : borders(?c, {0}) | borders({0}, ?c)",
)


def test_a_program_asks_a_thousand_questions(world_model: Path, tmp_path: Path) -> None:
    graph = clmpt.open_graph(world_model)
    places = list(graph.solve("?a : borders(?a, ?b)"))
    questions = [
        form.format(json.dumps(place), f"<{place}>" if "://" in place else f":{place}")
        for place in places
        if place.isalpha()
        for form in FORMS
    ]
    questions = (questions * (1 + 999 // len(questions)))[:999]
    questions.insert(500, "?c : borders(?c, Atlantis)")
    source, out = tmp_path / "questions.jsonl", tmp_path / "answers.csv"
    lines = [json.dumps({"question": question}) for question in questions]
    source.write_text("\n".join(lines), encoding="utf-8")
    command = [sys.executable, "-c", PROGRAM, str(world_model), str(source), str(out)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    assert "1 of 1,000 questions cannot be asked" in run.stderr
    assert "question 501: Unknown entity 'Atlantis'" in run.stderr
    table = pandas.read_csv(out, keep_default_na=False)
    assert set(table["question"]) == {*questions} - {questions[500]}
    known = table[table["question"] == '?c : borders(?c, "France")']
    assert set(known["name"]) <= set(graph.solve("?c : borders(?c, France)"))
    assert set(known["status"]) <= {"known", "hidden"}
