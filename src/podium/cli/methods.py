"""`podium methods`: list, show, check, compare and combine the methods of the catalogue."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Annotated

import typer

from podium.cli.commands import MethodCommands
from podium.cli.compare import advantages, one_group
from podium.cli.console import line, table
from podium.cli.overrides import load
from podium.cli.show import show as show_method
from podium.core.errors import PodiumError, nearest
from podium.docs import differences
from podium.method import STAGES, Method
from podium.methods.catalogue import CATALOGUE, KINDS, Entry, get
from podium.methods.combination import VERDICTS, Combination, combine
from podium.methods.matrix import Matrix, row
from podium.methods.matrix import matrix as all_pairs

__all__ = ["app"]


app = typer.Typer(
    cls=MethodCommands,
    rich_markup_mode=None,
    help="The catalogue of methods: list, show, check, compare, combine them.",
)

Name = Annotated[str, typer.Argument(metavar="METHOD", help="A slug, slug@preset, or the path of a YAML file.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="kl=0 (of the recipe), advantage.scale=none (of a part)."),
]


@app.callback(invoke_without_command=True)
def list_methods(
    context: typer.Context,
    family: Annotated[str | None, typer.Option(metavar="NAME", help="Only this family.")] = None,
    kind: Annotated[str | None, typer.Option(metavar="NAME", help=f"Only this kind: {', '.join(KINDS)}.")] = None,
    stage: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only methods that do something of their own at this stage.")
    ] = None,
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only where slug, summary or notes say TEXT.")
    ] = None,
) -> None:
    """List the catalogue, or show, check, compare methods of it."""
    if context.invoked_subcommand is not None:
        return
    families = list(dict.fromkeys(e.family for e in CATALOGUE.values()))
    _known("family", family, families)
    _known("kind", kind, KINDS)
    _known("stage", stage, STAGES)
    found = [
        entry
        for entry in sorted(CATALOGUE.values(), key=lambda e: families.index(e.family))
        if (family is None or entry.family == family)
        and (kind is None or entry.kind == kind)
        and (stage is None or _acts_at(get(entry.slug), stage))
        and (search is None or _mentions(entry, search))
    ]
    if found:
        table(("method", "kind", "family", "summary"), [(e.slug, e.kind, e.family, e.summary) for e in found])
    else:
        line("No entry of the catalogue fits.")


def _known(what: str, value: str | None, options: Collection[str]) -> None:
    if value is not None and value not in options:
        raise PodiumError(f"There is no {what} {value!r}. {nearest(value, options)}")


def _acts_at(method: Method, stage: str) -> bool:
    """Whether the method has parts there, other than those that a method without any choices has."""
    return bool(getattr(method, stage) != getattr(Method(""), stage))


def _mentions(entry: Entry, text: str) -> bool:
    return text.lower() in f"{entry.slug}\n{entry.summary}\n{entry.citation}\n{entry.notes}".lower()


@app.command()
def show(
    name: Name,
    changes: Changes = None,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print the complete method as YAML instead.")] = False,
) -> None:
    """Show a method: formula, stages, settings, needs, presets."""
    method = load(name, changes or ())
    if yaml:
        print(method.to_yaml(), end="")
    else:
        show_method(method, CATALOGUE.get(name.partition("@")[0]))


@app.command()
def check(
    name: Name,
    columns: Annotated[str, typer.Option(metavar="A,B,…", help="Columns that your world writes.")] = "",
    changes: Changes = None,
) -> None:
    """Say what is wrong with a method before it runs.

    The exit code is 1 if it cannot work.
    """
    method = load(name, changes or ())
    names = [c.strip() for c in columns.split(",") if c.strip()]
    for column in names:
        if "." not in column:
            raise PodiumError(f"--columns: {column!r} must be named level.name, such as turn.{column}.")
    findings = method.check(names)
    for finding in findings:
        line(str(finding), style="red" if finding.kind == "error" else "yellow")
    if not findings:
        line(f"{method.name}: nothing to object to.")
    if any(finding.kind == "error" for finding in findings):
        raise typer.Exit(1)


@app.command()
def compare(
    names: Annotated[list[str], typer.Argument(metavar="METHOD", help="Several methods, or one with all its presets.")],
    rewards: Annotated[str, typer.Option(metavar="R,R,…", help="Rewards of one group of rollouts.")] = "1,0,0,0",
) -> None:
    """Compare what methods make of the same rewards.

    Prints the advantage of each rollout of a group, and the settings in which the methods differ from the first.
    """
    if len(names) == 1 and names[0] in CATALOGUE:
        names = [names[0], *(f"{names[0]}@{preset}" for preset in CATALOGUE[names[0]].presets)]
    methods = [load(name, ()) for name in names]
    numbers = _numbers(rewards)
    batch = one_group(numbers)
    rows, refusals = [], []
    for method in methods:
        try:
            rows.append((method.name, *(f"{a:.4f}" for a in advantages(method, batch).tolist())))
        except PodiumError as problem:
            refusals.append(f"{method.name}: {problem}")
    if rows:
        table(("method", *(f"r={r:g}" for r in numbers)), rows)
    for refusal in refusals:
        line(refusal, style="yellow")
    first = methods[0]
    changed = [(m.name, d.path, repr(d.left), repr(d.right)) for m in methods[1:] for d in differences(first, m)]
    if changed:
        line()
        table(("method", "setting or part", f"in {first.name}", "here"), changed)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise PodiumError(f"--rewards = {text!r} must be numbers with commas between them, such as 1,0,0,0.") from None


@app.command()
def matrix(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[METHOD [METHOD]]", help="None: all pairs; one: its row; or a pair.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
) -> None:
    """Say which methods combine, and why others do not.

    Each method is read as its changes of plain GRPO; two combine where these can be joined. `A+B` names what comes of
    it, here and in podium train.
    """
    held = [load(name, ()) for name in names or ()]
    if not held:
        found = all_pairs()
        print(json.dumps(found.data(), indent=1)) if as_json else _overview(found)
    elif len(held) == 1:
        pairs = row(held[0])
        print(json.dumps({slug: pair.data() for slug, pair in pairs.items()}, indent=1)) if as_json else _row(pairs)
    elif len(held) == 2:
        both = combine(*held)
        print(json.dumps(both.data(), indent=1)) if as_json else _pair(both, " and ".join(m.name for m in held))
        if both.method is None:
            raise typer.Exit(1)
    else:
        raise PodiumError(f"A pair is two methods, not {len(held)}: name what comes of some as one, such as A+B.")


def _overview(found: Matrix) -> None:
    counts, shares = found.counts(), found.shares()
    stages = [stage for stage in STAGES if stage != "evaluate"]  # metrics stand beside each other
    line("Of the pairs of methods that change something at these stages, so many of 100 combine:")
    line(" ".join(("", *stages)).rjust(10 + sum(len(stage) + 1 for stage in stages)))
    for x in stages:
        cells = (f"{100 * shares[x, y]:.0f}" if (x, y) in shares else "" for y in stages)
        line(f"{x:<10}" + "".join(cell.rjust(len(y) + 1) for cell, y in zip(cells, stages, strict=True)))
    line()
    line("What keeps most of the others apart:")
    table(("pairs", "conflict"), [(str(count), kind) for kind, count in found.obstacles().most_common(8)])
    line()
    line(f"{counts['yes']} ordered pairs combine, {counts['care']} with a choice or a warning, {counts['no']} do not.")
    line("One method with all others: podium methods matrix METHOD. A pair, with reasons: podium methods matrix A B.")


def _row(pairs: Mapping[str, Combination]) -> None:
    order = sorted(pairs.items(), key=lambda item: VERDICTS.index(item[1].verdict))
    rows = [(slug, pair.verdict, " ".join(pair.reasons[:1])) for slug, pair in order]
    table(("with", "combines", "why not, or what to look at first"), rows)


def _pair(both: Combination, names: str) -> None:
    for kind in ("conflict", "choice", "warning"):
        for reason in getattr(both, f"{kind}s"):
            line(f"{kind}: {reason}", style="red" if kind == "conflict" else "yellow")
    line(f"{names} do not combine." if both.method is None else both.method.describe())
