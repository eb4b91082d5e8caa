"""The options of evaluate, bench."""

from __future__ import annotations

from clmpt.cli.options.option_types import AddCommand, add_device, add_processes, add_trust, count


def measuring_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    measure = command(
        "evaluate",
        "evaluate:evaluate_model",
        "evaluate a model: filtered MRR and Hits@k, on links or on queries by shape",
        "clmpt evaluate films-clmpt --queries test.queries --report films-report",
    )
    measure.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="made by train, pretrain or convert; or 'exact'"
    )
    measure.add_argument("--links", action="store_true", help="link prediction, both directions")
    over = "with --links: over N questions of each split, drawn at random (default: all)"
    measure.add_argument("--limit", type=count, default=0, metavar="N", help=over)
    measure.add_argument(
        "--queries",
        metavar="SOURCE",
        help="a query file or folder; a predictor uses beam search",
    )
    measure.add_argument(
        "--reasoner",
        metavar="NAME",
        help="one that the checkpoint has: hybrid, clmpt, truth-values, beam-search",
    )
    measure.add_argument(
        "--calibration", action="store_true", help="how well probabilities hold, by hops"
    )
    measure.add_argument("--svg", metavar="FILE", help="with --calibration: draw it")
    known = "whose facts a reasoner may use, such as truth values (default: train)"
    measure.add_argument("--known", nargs="+", metavar="SPLIT", help=known)
    measure.add_argument(
        "--index", action="store_true", help="answer with the model's index: ranks are approximate"
    )
    measure.add_argument("--shapes", nargs="+", metavar="SHAPE", help="only these shapes")
    measure.add_argument("--report", metavar="FOLDER", help="write Markdown, JSON and a picture")
    measure.add_argument("--graph", metavar="FOLDER", help="if the graph has moved since training")
    measure.add_argument(
        "--split", metavar="NAME", help="(default: valid and test for --links, test for --queries)"
    )
    add_processes(measure)
    add_trust(measure)
    add_device(measure, "auto")


def bench_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    bench = command(
        "bench",
        "bench:bench",
        "measure how fast this machine trains and answers, at two sizes",
        "clmpt bench --sizes M --steps 5",
    )
    bench.add_argument("--reasoner", default="clmpt", metavar="NAME", help="(default: clmpt)")
    bench.add_argument("--sizes", nargs="+", choices=["S", "M"], default=["M", "S"])
    bench.add_argument(
        "--steps", type=count, default=3, metavar="N", help="report the median of N (default: 3)"
    )
