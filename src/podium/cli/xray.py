"""`podium xray`: rollouts token by token, and what several methods would have done with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from podium.cli.console import line, table
from podium.cli.options import At, Methods, Trust
from podium.cli.preflight import check_typed
from podium.core.errors import PodiumError, nearest
from podium.core.printable import printable

__all__ = ["xray"]

RECORDED = ("logp", "entropy")  # the same for all methods
OF_METHODS = ("credit", "push", "ratio", "turn")


def xray(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    methods: Methods = None,
    iteration: Annotated[int | None, typer.Option(help="The iteration to read. [default: the last]")] = None,
    task: Annotated[str | None, typer.Option(help="Show only rollouts of this task.")] = None,
    by: Annotated[
        str, typer.Option(help="What colours show: credit, push, ratio, turn (its credit), logp, entropy, or a part.")
    ] = "push",
    count: Annotated[int, typer.Option(help="The largest number of rollouts to print.")] = 2,
    at: At = "checkpoint",
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole view as JSON.")] = False,
    trust: Trust = False,
) -> None:
    """Show rollouts token by token: credit, push, importance ratio, log-probability, entropy, what each part changed.

    Several methods are applied to the same recorded batch and shown side by side. A terminal shows tokens in colour,
    blue where they become likelier and red where less likely; in a pipe each token is a row of numbers.
    """
    check_typed(methods or [])
    from podium.sessions.xray import xray as session

    view = session(run, methods or [], iteration=iteration, task=task, at=at, trust=trust)
    if as_json:
        line(json.dumps(view))
        return
    for shown in chosen_rollouts(view, count):
        _show(shown, view["methods"], by)


def chosen_rollouts(view: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The first rollouts of groups with a difference in reward: of each, a right and a wrong one first."""
    groups = sorted(view["groups"], key=lambda group: group["flat"])
    picked = []
    for group in groups:
        first = {
            rollout["reward"]: {**rollout, **{k: group[k] for k in ("task", "prompt")}} for rollout in group["rollouts"]
        }
        picked += list(first.values())
    return picked[:count]


def _show(shown: dict[str, Any], methods: Sequence[str], by: str) -> None:
    verdict = "right" if shown["correct"] else "wrong"
    line(f"{shown['task']}: {verdict} · reward {shown['reward']:g}", style="bold")
    line(f"  {shown['prompt']}")
    columns = {name: values for name in methods if (values := _values(shown, name, by)) is not None}
    dropped = [name for name in methods if name not in shown["methods"]]
    if by in RECORDED:
        columns = {by: shown[by]}
    if dropped:
        line(f"  dropped by {', '.join(dropped)}", style="dim")
    if sys.stdout.isatty():
        for name, values in columns.items():
            line(f"  {name} · {by}", style="dim")
            print("  " + _coloured(shown["tokens"], values).replace("\n", "\n  "))
    else:
        rows = [[repr(token), *(_number(v[i]) for v in columns.values())] for i, token in enumerate(shown["tokens"])]
        table(("token", *columns), rows)
    line()


def _values(shown: dict[str, Any], method: str, by: str) -> list[float | None] | None:
    """[token] what is asked for, of a method; None: it drops the rollout."""
    view = shown["methods"].get(method)
    if view is None or by in RECORDED:
        return None
    if by == "turn":
        return [view["turns"][n] for n, turn in enumerate(shown["turns"]) for _ in range(turn["end"] - turn["start"])]
    if by in view:
        return view[by]
    found = view["parts"].get(by) or view["terms"].get(by)
    names = [*OF_METHODS, *RECORDED, *view["parts"], *view["terms"]]
    if found is None and not any(by in (*other["parts"], *other["terms"]) for other in shown["methods"].values()):
        raise PodiumError(f"--by {by!r}: there is no such value. {nearest(by, names)}")
    return found or [0.0] * len(shown["tokens"])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:+.4g}"


def _coloured(tokens: Sequence[str], values: Sequence[float | None]) -> str:
    """Tokens with a background from red (most negative) over none to blue (most positive)."""
    most = max((abs(v) for v in values if v is not None), default=0.0) or 1.0
    shown = []
    for token, value in zip(tokens, values, strict=True):
        text, share = printable(token), 0.0 if value is None else value / most
        tint = [round(40 + 160 * abs(share) * (part == (2 if share > 0 else 0))) for part in range(3)]
        body = text if abs(share) < 0.02 else f"\x1b[48;2;{tint[0]};{tint[1]};{tint[2]}m\x1b[97m{text}\x1b[0m"
        shown.append("⏎\n" if token == "\n" else body)
    return "".join(shown)
