"""Pre-training with one row of scores per question, compared with one per triple and PyKEEN.

    python benchmarks/pretrain.py [FB15K-237 [NELL995]]

The folders default to those next to the checkout. On the first: ComplEx of rank 200, 1,000 rows per
batch, all kinds of steps alternating so that noise affects them alike; seconds per epoch are scaled
from the median step. PyKEEN is included if installed, with its loop over distinct questions (LCWA)
and Adagrad. On the second: the memory that rank 1,000 needs.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from clmpt.compute.tensor_files import save_tensors
from clmpt.evaluation.link_ranks import link_ranks
from clmpt.experiments.speed import matrix_peak
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.predictors.predictor import fresh_predictor, read_pretraining
from clmpt.queries.links import Links, known_answers, links_of
from clmpt.settings import Pretraining
from clmpt.training.pretrainer import Pretrainer

ROUNDS, STEPS_A_ROUND = 5, 6
SETTINGS = read_pretraining({"rank": 200, "batch": 1000, "device": "cpu"})
DATA = Path(__file__).parents[2] / "shared" / "data"


def seconds_of(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def trainer_of(graph: KnowledgeGraph, links: Links, settings: Pretraining) -> Pretrainer:
    return Pretrainer(fresh_predictor(graph, settings), links, settings)


def pykeen_steps(graph: KnowledgeGraph, links: Links) -> dict[str, Callable[[], float]]:
    """Functions that time a step of PyKEEN; none if it is not installed.

    Its loop over distinct questions, with the loss closest to ours and with its default loss.
    """
    try:
        from pykeen.models import ComplEx
        from pykeen.training import LCWATrainingLoop
        from pykeen.triples import CoreTriplesFactory
    except ImportError:
        return {}
    rng = np.random.default_rng(0)
    part = links.take(rng.permutation(len(links))[: STEPS_A_ROUND * SETTINGS.batch])
    owner = part.answers.owners
    columns = part.entity_P[owner], part.directed_P[owner], part.answers.entities
    factory = CoreTriplesFactory.create(
        torch.from_numpy(np.stack(columns, 1).astype(np.int64)),
        num_entities=len(graph.entities),
        num_relations=len(graph.relations),
    )

    def timed(**loss: str) -> Callable[[], float]:
        model = ComplEx(triples_factory=factory, embedding_dim=SETTINGS.rank, random_seed=0, **loss)
        optimizer = torch.optim.Adagrad(model.parameters(), SETTINGS.learning_rate)
        loop = LCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer)
        train = partial(loop.train, factory, num_epochs=1, batch_size=SETTINGS.batch)
        return lambda: seconds_of(partial(train, use_tqdm=False)) / STEPS_A_ROUND

    return {"PyKEEN, cross-entropy": timed(loss="crossentropy"), "PyKEEN, default loss": timed()}


def compare(folder: Path) -> None:
    graph = open_graph(folder)
    links = links_of(graph, "train")
    single = links.one_by_one()
    runs = {
        "one row per question": (trainer_of(graph, links, SETTINGS), len(links)),
        "one row per triple": (trainer_of(graph, single, SETTINGS), len(single)),
    }
    pykeen = pykeen_steps(graph, links)
    steps: dict[str, list[float]] = {name: [] for name in (*runs, *pykeen)}
    peaks = []
    for warm_up in (*(trainer.step for trainer, _ in runs.values()), *pykeen.values()):
        warm_up()
    for _ in range(ROUNDS):
        peaks.append(matrix_peak())
        for name, (trainer, _) in runs.items():
            steps[name] += [seconds_of(trainer.step) for _ in range(STEPS_A_ROUND)]
        for name, step in pykeen.items():
            steps[name].append(step())
    rows = {name: count for name, (_, count) in runs.items()}
    epochs = {
        name: statistics.median(found) * rows.get(name, len(links)) / SETTINGS.batch
        for name, found in steps.items()
    }
    print(f"{folder.name}: {links.facts:,} facts in {len(links):,} questions, rank {SETTINGS.rank}")
    grouped = epochs["one row per question"]
    for name, seconds in epochs.items():
        print(f"{name:22} {seconds:7.1f} s per epoch   {seconds / grouped:5.2f} ×")
    needed = 3 * 2 * len(links) * 2 * SETTINGS.rank * len(graph.entities)
    peak = statistics.median(peaks)
    reached = needed / grouped
    print(f"matrix product peak {peak / 1e9:.0f} GFLOP/s; in training {reached / 1e9:.0f}")
    print(f"fraction of peak        {reached / peak:.0%}")


def memory_of(folder: Path) -> None:
    """Steps, a saved state and ranking at rank 1,000, in this process."""
    settings = read_pretraining({"rank": 1000, "batch": 1000, "device": "cpu"})
    graph = open_graph(folder)
    trainer = trainer_of(graph, links_of(graph, "train"), settings)
    seconds = [seconds_of(trainer.step) for _ in range(3)]
    with tempfile.TemporaryDirectory() as scratch:
        save_tensors(Path(scratch) / "state.safetensors", trainer.state(), {})
    asked = links_of(graph, "valid").take(np.arange(2000))
    link_ranks(trainer.predictor, asked, known_answers(graph, asked))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    epoch = statistics.median(seconds) * trainer.steps_per_epoch
    print(f"{folder.name}: rank 1000, {peak:.2f} GiB peak, {epoch / 60:.0f} min per epoch")


def main() -> None:
    folders = [Path(argument) for argument in sys.argv[1:] if argument != "--memory"]
    if "--memory" in sys.argv:
        memory_of(folders[0])
        return
    folders += [DATA / "FB15k-237-betae", DATA / "NELL-betae"][len(folders) :]
    compare(folders[0])
    subprocess.run([sys.executable, __file__, "--memory", str(folders[1])], check=True)


if __name__ == "__main__":
    main()
