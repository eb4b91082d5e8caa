"""Prints how fast an index of nearest neighbours is, and how much of the best it finds.

    python benchmarks/nearest.py
    python benchmarks/nearest.py --sizes 1000000x128 1000000x400

The tables are made up: rows scattered around centres, one for 200 rows, of different lengths;
questions are rows with noise. Real embeddings may be easier or harder: 'clmpt index' measures those
of a model. A row of the table is printed as soon as it is measured, so a run can be cut short.
"""

from __future__ import annotations

import argparse
import sys

from clmpt.compute.processors import let_threads_sleep

let_threads_sleep()

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from clmpt.compute.nearest_measuring import measured_lists  # noqa: E402

_QUESTIONS = 400
_LINE = "{:>12} {:>6} {:>8} {:>9} {:>9} {:>9} {:>10} {:>8} {:>7}\n"


def made_up(rows: int, width: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    centre_CD = torch.randn(max(50, rows // 200), width, generator=random)
    table_ED = centre_CD[torch.randint(len(centre_CD), (rows,), generator=random)]
    for part_ND in table_ED.split(2**16):
        part_ND += 0.7 * torch.randn(part_ND.shape, generator=random)
        part_ND *= 0.1 * (0.5 + torch.rand(len(part_ND), 1, generator=random))
    asked = torch.randint(rows, (_QUESTIONS,), generator=random)
    return table_ED, table_ED[asked] + 0.05 * torch.randn(_QUESTIONS, width, generator=random)


def measure(rows: int, width: int, recall: float) -> None:
    table_ED, question_BD = made_up(rows, width)
    for unit in (False, True):
        asked_BD = torch.nn.functional.normalize(question_BD, dim=-1) if unit else question_BD
        _, found = measured_lists(table_ED, unit, asked_BD, recall)
        kind = "cosine" if unit else "product"
        line = (
            *(f"{rows:,}", width, kind, f"{found.exact_ms:.1f}", f"{found.index_ms:.1f}"),
            *(f"{found.recall_at_10:.3f}", f"{found.recall_at_100:.3f}"),
            *(f"{found.build_seconds:.0f}", f"{found.bytes / 1e6:.0f}"),
        )
        sys.stdout.write(_LINE.format(*line))
        sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sizes = ["20000x64", "100000x128"]
    parser.add_argument("--sizes", nargs="+", default=sizes, metavar="ROWSxWIDTH")
    parser.add_argument("--recall", type=float, default=0.95, help="of the 100 best")
    options = parser.parse_args()
    headers = ("entities", "width", "scores", "exact ms", "index ms", "recall@10", "recall@100")
    sys.stdout.write(_LINE.format(*headers, "build s", "MB"))
    for size in options.sizes:
        rows, width = map(int, size.split("x"))
        measure(rows, width, options.recall)


if __name__ == "__main__":
    main()
