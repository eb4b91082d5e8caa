"""Pre-training on graphs with many entities: what a step takes, and what it learns.

    python benchmarks/millions.py steps [--most 10000000]
    python benchmarks/millions.py planted [--people 1000000] [--minutes 20]

`steps` takes some steps on random facts about 10^4, 10^5, … entities, with all entities scored and
with a sample of them: time a step, and memory. `planted` makes a graph in which people are citizens
of the country that the city of their birth is in, holds some of these facts out, pre-trains for
some minutes, and says where the held-out countries rank among all entities.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np
import torch

from clmpt.graph.edges import EdgeIndex, build_index
from clmpt.predictors.complex import ComplEx
from clmpt.predictors.predictor import read_pretraining
from clmpt.queries.links import Links
from clmpt.queries.store import AnswerSets
from clmpt.settings import Pretraining
from clmpt.training.pretrainer import Pretrainer

STEPS = 20


def links_among(entities: int, questions: int, relations: int, seed: int = 0) -> Links:
    """Random one-hop questions with one or two answers each."""
    random = np.random.default_rng(seed)
    counts = random.integers(1, 3, questions)
    answers = AnswerSets(
        np.concatenate([[0], np.cumsum(counts)]), random.integers(entities, size=counts.sum())
    )
    directed = random.integers(2 * relations, size=questions)
    return Links(random.integers(entities, size=questions), directed, answers)


def measure_steps(entities: int, settings: Pretraining) -> None:
    """Prints the time of a step and the memory of the process, for one size."""
    generator = torch.Generator().manual_seed(0)
    tables = ComplEx.initial(entities, 40, settings.rank, 1e-3, generator)
    predictor = ComplEx(*tables, torch.arange(20, 40))
    learner = Pretrainer(predictor, links_among(entities, 60_000, 20), settings)
    learner.step()
    started = time.perf_counter()
    for _ in range(STEPS):
        learner.step()
    seconds = (time.perf_counter() - started) / STEPS
    table = predictor.entities_ED.nbytes / 2**20
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{entities:>12,} {settings.candidates or 'all':>10} {1000 * seconds:9.1f} "
          f"{table:11,.0f} {memory:11,.0f}", flush=True)  # fmt: skip


def steps(options: argparse.Namespace) -> None:
    print(
        f"{'entities':>12} {'candidates':>10} {'ms a step':>9} {'table, MB':>11} {'memory, MB':>11}"
    )
    for candidates, largest in ((0, 100_000), (1024, options.most)):
        size = 10_000
        while size <= largest:
            chosen = ["--entities", str(size), "--candidates", str(candidates)]
            subprocess.run([sys.executable, __file__, "one", *chosen], check=True)
            size *= 10


def one(options: argparse.Namespace) -> None:
    given = {"rank": options.rank, "batch": 1024, "candidates": options.candidates}
    measure_steps(options.entities, read_pretraining({**given, "averaging": 0.0, "device": "cpu"}))


# --- planted rules --------------------------------------------------------------------------------

BORN, IN, CITIZEN, KNOWS, WORKS, SEAT = range(6)


def planted(people: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, int]:
    """Facts (head, relation, tail), which of them are held out, and the number of entities.

    Citizenship follows from where one was born; people mostly know and work with people of their
    own city, and companies have their seats in cities.
    """
    random = np.random.default_rng(seed)
    countries, cities, companies = 200, max(200, people // 50), max(200, people // 20)
    first_city, first_company = countries, countries + cities
    first_person = first_company + companies
    who = np.arange(people)
    country_of = random.integers(countries, size=cities)
    home = random.integers(cities, size=people)
    seat = random.integers(cities, size=companies)
    by_city = np.argsort(home, kind="stable")
    start = np.searchsorted(home[by_city], np.arange(cities + 1))
    company_at = np.argsort(seat, kind="stable")
    company_start = np.searchsorted(seat[company_at], np.arange(cities + 1))

    def near(of: np.ndarray, begin: np.ndarray, order: np.ndarray) -> np.ndarray:
        """A random member of each one's city."""
        width = begin[of + 1] - begin[of]
        at = begin[of] + (random.random(len(of)) * width).astype(int)
        return order[np.minimum(at, len(order) - 1)]

    parts = [
        (first_person + who, BORN, first_city + home),
        (first_city + np.arange(cities), IN, country_of),
        (first_person + who, CITIZEN, country_of[home]),
        (first_company + np.arange(companies), SEAT, first_city + seat),
        (first_person + who, WORKS, first_company + near(home, company_start, company_at)),
    ]
    parts += [
        (first_person + who, KNOWS, first_person + near(home, start, by_city)) for _ in range(6)
    ]
    facts = np.concatenate([np.stack([h, np.full(len(h), r), t], 1) for h, r, t in parts]).astype(
        np.int64
    )
    facts = np.unique(facts, axis=0)
    hidden = (facts[:, 1] == CITIZEN) & (random.random(len(facts)) < 0.05)
    return facts, hidden, first_person + people


def links_from(index: EdgeIndex) -> Links:
    """All one-hop questions of an index, in both directions."""
    key_K = np.asarray(index.keys_K1[:-1])
    directed_K = key_K // index.entities
    answers = AnswerSets(np.asarray(index.offsets_K2[:-1], np.int64), index.neighbours_X)
    return Links(key_K - directed_K * index.entities, directed_K, answers)


def learn_planted(options: argparse.Namespace) -> None:
    started = time.perf_counter()
    facts, hidden, entities = planted(options.people)
    print(f"{entities:,} entities, {len(facts):,} facts, {hidden.sum():,} held out")
    links = links_from(build_index(entities, 6, [facts[~hidden].astype(np.int32)]))
    print(f"prepared in {time.perf_counter() - started:.0f} s")
    given = {"rank": options.rank, "batch": 1024, "candidates": 1024, "averaging": 0.0}
    settings = read_pretraining({**given, "epochs": 100, "device": "cpu", "regularisation": 0.01})
    tables = ComplEx.initial(entities, 12, settings.rank, 1e-2, torch.Generator().manual_seed(0))
    predictor = ComplEx(*tables, torch.arange(6, 12))
    learner = Pretrainer(predictor, links, settings)
    print(f"{learner.steps_per_epoch:,} steps an epoch")
    asked = facts[hidden][np.random.default_rng(1).permutation(int(hidden.sum()))[:1000]]
    begun = time.perf_counter()
    due = 0.0
    while (seconds := time.perf_counter() - begun) < 60 * options.minutes:
        if seconds >= due:
            print(f"{seconds:6.0f} s, {learner.steps_done:7,} steps: {_figures(predictor, asked)}")
            due += 60
        learner.step()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{_figures(predictor, asked)}; by chance the MRR is {np.log(entities) / entities:.6f}")
    print(f"{memory:.1f} GB, {time.perf_counter() - started:.0f} s in all")


def _figures(predictor: ComplEx, asked: np.ndarray) -> str:
    rank = ranks(predictor, asked)
    return f"MRR {np.mean(1 / rank):.3f}, {np.mean(rank == 1):.1%} first"


@torch.inference_mode()
def ranks(predictor: ComplEx, asked: np.ndarray) -> np.ndarray:
    """The rank of each fact's tail among all entities; a person has one country."""
    head, relation, tail = (torch.from_numpy(asked[:, n]) for n in range(3))
    found = []
    for at in range(0, len(asked), 50):
        scores = predictor.score_tails(head[at : at + 50], relation[at : at + 50])
        own = scores.gather(1, tail[at : at + 50, None])
        found.append(1 + (scores > own).sum(1))
    return torch.cat(found).numpy().astype(float)


def main() -> None:
    parser = argparse.ArgumentParser()
    kinds = parser.add_subparsers(required=True)
    for name, run in (("steps", steps), ("one", one), ("planted", learn_planted)):
        kind = kinds.add_parser(name)
        kind.set_defaults(run=run)
        kind.add_argument("--rank", type=int, default=64)
        kind.add_argument("--most", type=int, default=10_000_000)
        kind.add_argument("--entities", type=int, default=10_000)
        kind.add_argument("--candidates", type=int, default=1024)
        kind.add_argument("--people", type=int, default=1_000_000)
        kind.add_argument("--minutes", type=float, default=20)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
