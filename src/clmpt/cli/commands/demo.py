"""demo: trains a model on the bundled world graph and asks it a few questions."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path

from clmpt.answering.answers import Answers
from clmpt.cli.commands.ask import as_plain, show_answers
from clmpt.cli.commands.fit import fit_and_show, show_figures
from clmpt.cli.output import command_name, duration, say, show_json, tell
from clmpt.experiments.fit_settings import fit_settings
from clmpt.graph.readers import read_graph
from clmpt.logic.drawing import draw_text
from clmpt.world import FACTS

QUESTIONS = (
    (
        "Which languages are official in a country that borders France but is not in the "
        "European Union?",
        '?language : borders(France, ?country) & !member_of(?country, "European Union") & '
        "official_language(?country, ?language)",
    ),
    (
        "Which members of NATO are monarchies?",
        "?country : member_of(?country, NATO) & government(?country, monarchy)",
    ),
    (
        "Where is a Turkic language official?",
        '?country : language_family(?language, "Turkic languages") & '
        "official_language(?country, ?language)",
    ),
    (
        "Which countries on the Mediterranean, with Arabic as an official language, are not in "
        "the European Union?",
        '?country : coast(?country, "Mediterranean Sea") & official_language(?country, Arabic) & '
        '!member_of(?country, "European Union")',
    ),
    (
        "Which neighbours of Brazil have Spanish or Dutch as an official language?",
        "?country : borders(Brazil, ?country) & (official_language(?country, Spanish) | "
        "official_language(?country, Dutch))",
    ),
)
_SHOWN = 10  # answers per question


def demo(options: argparse.Namespace) -> None:
    started, out = time.perf_counter(), Path(options.out)
    graph, _ = read_graph([FACTS])
    write = tell if options.json else say
    write("The countries of the world: languages, borders, seas, currencies, organisations …")
    device = {"device": options.device} if options.device else {}
    settings = fit_settings(graph, {"pretraining": device, "training": device})
    made = fit_and_show(graph, settings, out, str(FACTS), options.json)
    model = made.answerer(options.device or "auto")
    found = [(words, model.ask(question, _SHOWN)) for words, question in QUESTIONS]
    if options.json:
        show_json(
            {
                "folder": str(out),
                "questions": [{"words": words, **as_plain(answers)} for words, answers in found],
                "report": made.report,
                "beam search": made.baseline,
                "parts": dict(made.parts),
                "chosen": made.chosen,
            }
        )
        return
    hidden = len(model.graph.triples()) - len(model.graph.triples("train"))
    say(f"\n{hidden:,} of {graph.index.triples:,} facts were held out from training. An answer is")
    say("  known                     if it follows from the facts that the model was trained on")
    say("  predicted, true (hidden)  if it needs a held-out fact: a correct prediction")
    say("  predicted                 if it does not follow from the graph: wrong, or missing there")
    say("Certain answers come first, then what is likely, each with its probability and a reason.")
    for words, answers in found:
        _show(words, answers)
    show_figures(made)
    us, model_folder = command_name(), shlex.quote(str(out))
    say(f"\nAll of this took {duration(time.perf_counter() - started)}. The model is in {out}.")
    say("Next, for example:")
    say(f"  {us} ask {model_folder}")
    say(f"  {us} ask {model_folder} '?c : borders(?c, France)' --explain")
    say(f"  {us} ask {model_folder} 'SELECT ?c {{ ?c :member_of :ASEAN . :China :borders ?c }}'")
    say(f"  {us} serve {model_folder}    (a page, and a SPARQL endpoint)")
    say(f"  {us} fit YOUR_FACTS.tsv")


def _show(words: str, answers: Answers) -> None:
    say(f"\n{words}\n\n{answers.query}\n\n{draw_text(answers.query)}\n")
    show_answers(answers, titled=False)
    guess = next((one for one in answers if one.status != "known" and one.evidence), None)
    if guess is not None:
        say(f"\nWhy {guess.label}?  {guess.evidence}")
