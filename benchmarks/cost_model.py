"""What a step of pre-training on a sample costs, from its settings and the speeds of a machine.

    python benchmarks/cost_model.py

prints what follows for graphs that do not fit this machine. `distributed.py speed` measures the
speeds of this one and prints what follows from them beside what it measures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

NUMBER = 4  # bytes
ID = 8
# Reads and writes, counted in sampled_softmax.py and cross_entropy.py.
PASSES_OVER_SCORES = 10
PASSES_OVER_ROWS = 8  # that a process looks up: once for the step, once for each of its groups
PASSES_OVER_CANDIDATES = 8  # of each group
PASSES_OVER_ANSWERS = 40  # N3: a power takes as long as several passes
PASSES_OVER_RELATIONS = 10  # of a table that every process has: gradient, sum, Adagrad


@dataclass(frozen=True)
class Job:
    """Pre-training with `candidates`: a graph and the settings that a step's cost depends on.

    Facts and questions are of both directions; a question with many answers counts several times.
    """

    entities: int
    relations: int
    facts: float
    questions: float
    width: int
    batch: int
    candidates: int
    group: int = 0
    divided: str = "entities"


@dataclass(frozen=True)
class Speeds:
    """What a process can do in a second; `across` is for all processes of a machine together."""

    products: float  # operations of matrix products
    passes: float  # bytes read or written
    inside: float  # bytes to other processes of its machine
    across: float  # bytes to other machines
    latency: float  # seconds of an operation of all processes, however little is sent
    fixed: float  # seconds of a step that depend on nothing: Python, starting operations
    question: float  # seconds to look a question up and put it into a batch


@dataclass(frozen=True)
class Step:
    """A process's part of a step: bytes, and seconds by what they are spent on."""

    sent: float
    products: float
    passes: float
    sending: float
    waiting: float
    host: float

    @property
    def seconds(self) -> float:
        return self.products + self.passes + self.sending + self.waiting + self.host

    @property
    def communication(self) -> float:
        return (self.sending + self.waiting) / self.seconds


def step_of(job: Job, machines: int, processes: int, speeds: Speeds) -> Step:
    """One step, with so many processes on each machine. No entity is counted as drawn twice."""
    number = machines * processes
    own, answers = job.batch / number, job.facts / job.questions
    group = min(job.group or job.batch, job.batch)
    seen = max(own, group)
    compared = job.candidates + answers * group
    rows = own + job.candidates + answers * seen
    has_all = job.divided == "entities"
    others = (number - 1) / number
    sent = others * rows * (2 * NUMBER * job.width + ID)
    if has_all:
        sent += others * 2 * NUMBER * job.relations * job.width
    else:
        sent += others * own * (2 * NUMBER * job.width + ID)
    groups = seen / group
    passed = PASSES_OVER_SCORES * own * compared
    passed += PASSES_OVER_ROWS * (1 + groups) * rows * job.width
    passed += PASSES_OVER_CANDIDATES * groups * compared * job.width
    passed += PASSES_OVER_ANSWERS * answers * own * job.width
    passed += PASSES_OVER_RELATIONS * job.relations * job.width if has_all else 0
    away = (number - processes) / max(number - 1, 1)
    rounds = 0 if number == 1 else 6 if has_all else 9
    return Step(
        sent,
        6 * own * compared * job.width / speeds.products,
        NUMBER * passed / speeds.passes,
        sent * (1 - away) / speeds.inside + processes * sent * away / speeds.across,
        rounds * speeds.latency,
        speeds.fixed + seen * speeds.question,
    )


def memory_of(job: Job, number: int) -> float:
    """Bytes of a process's part of the table, its optimizer's sums, and what a step needs."""
    step = job.candidates + job.facts / job.questions * (job.group or job.batch)
    own = job.batch / number
    tables = job.entities * (NUMBER * job.width + NUMBER) / number
    return tables + NUMBER * (2 * own * step + 6 * (own + step) * job.width)


# --- larger machines ------------------------------------------------------------------------------

# As measured here: a step takes 2.6 ms at least, a question of a small graph 0.2 µs. One of a graph
# that no cache holds is taken to be five times slower.
FIXED, QUESTION = 3e-3, 1e-6
# Four tenths of what the makers state for float32, six tenths of the memory's bandwidth; NVLink
# and networks at half of what they are sold as.
V100 = Speeds(0.4 * 15.7e12, 0.6 * 900e9, 20e9, 0.5 * 25e9 / 8, 5e-5, FIXED, QUESTION)
CPUS = Speeds(6 * 40e9, 20e9, 2e9, 0.5 * 100e9 / 8, 2e-4, FIXED, QUESTION)

# Facts and rows of both directions. How many of their questions are distinct is a guess.
WIKIKG2 = Job(2_500_604, 1_070, 2 * 16_109_182, 20e6, 400, 1000, 1024)
FREEBASE = Job(86_054_151, 29_648, 2 * 304_727_650, 380e6, 400, 1000, 1024)


def at(job: Job, number: int, own: int, **chosen: str | int) -> Job:
    """The job with so many questions for each process, compared in groups of their own."""
    return replace(job, batch=number * own, group=own, **chosen)


def show(name: str, job: Job, machines: int, processes: int, speeds: Speeds) -> None:
    step, number = step_of(job, machines, processes, speeds), machines * processes
    epoch = job.questions / job.batch * step.seconds
    memory = memory_of(job, number) / 2**30
    print(
        f"{name:<54}{1000 * step.seconds:13.1f}{step.communication:13.0%}{step.sent / 2**20:13.1f}"
        f"{memory:13.1f}{job.facts / 2 / epoch / 1e6:13.2f}{epoch / 60:13.1f}"
    )


def main() -> None:
    columns = ("ms a step", "sending", "MB sent", "GB", "M facts/s", "min an epoch")
    print(f"{'':<54}" + "".join(f"{column:>13}" for column in columns))
    show("ogbl-wikikg2, one V100", at(WIKIKG2, 1, 1000), 1, 1, V100)
    show("ogbl-wikikg2, eight V100s", at(WIKIKG2, 8, 1000), 1, 8, V100)
    for own in (1000, 4000):
        for divided in ("entities", "tables"):
            job = at(FREEBASE, 64, own, divided=divided)
            show(f"Freebase, 8 × 8 V100s, {own} each, {divided} divided", job, 8, 8, V100)
    for machines in (4, 8):
        job = at(FREEBASE, 8 * machines, 1000, divided="tables")
        show(f"Freebase, {machines} × 48 cores, 1000 each, tables divided", job, machines, 8, CPUS)


if __name__ == "__main__":
    main()
