"""The options of completion."""

from __future__ import annotations

from clmpt.cli.options.option_types import AddCommand


def help_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    complete = command(
        "completion",
        "completion:completion",
        "print a shell completion script",
        "clmpt completion bash > ~/.local/share/bash-completion/completions/clmpt",
    )
    complete.add_argument("shell", choices=["bash", "zsh", "fish", "tcsh"])
