"""The options of serve."""

from __future__ import annotations

from clmpt.cli.options.option_types import (
    AddCommand,
    add_device,
    add_trust,
    count,
    number,
    size,
)


def service_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    serve = command(
        "serve",
        "serve:serve_folders",
        "answer questions over HTTP: a SPARQL endpoint, a JSON interface and a page",
        "clmpt serve clmpt-world --port 8000",
    )
    serve.add_argument(
        "folders", nargs="+", metavar="MODEL-OR-GRAPH", help="models, or graphs for exact answers"
    )
    serve.add_argument(
        "--graph", metavar="FOLDER", help="of a single model, if its graph has moved or has changed"
    )
    serve.add_argument("--host", default="127.0.0.1", help="who can reach it (default: 127.0.0.1)")
    serve.add_argument("--port", type=count, default=8000, metavar="N", help="(default: 8000)")
    serve.add_argument(
        "--workers", type=count, default=1, metavar="N", help="processes (default: 1)"
    )
    serve.add_argument(
        "--token", metavar="TEXT", help="what requests must send; also from CLMPT_TOKEN"
    )
    serve.add_argument(
        "--time-limit", type=number, default=30.0, metavar="SECONDS", help="a question (30)"
    )
    serve.add_argument(
        "--memory-limit", type=size, default=2**31, metavar="SIZE", help="a question (2G)"
    )
    serve.add_argument(
        "--read-timeout",
        type=number,
        default=20.0,
        metavar="SECONDS",
        help="until a request must be there (20)",
    )
    serve.add_argument(
        "--waiting", type=count, default=128, metavar="N", help="questions that may wait (128)"
    )
    add_device(serve)
    add_trust(serve)
