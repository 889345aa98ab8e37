"""`podium methods`: list, show, check, probe, compare and combine the methods of the catalogue.

Listing and showing read the generated catalogue; everything else imports the library, and with it torch, when it runs.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podium.cli.commands import MethodCommands
from podium.cli.console import line, rows, table, unbroken
from podium.cli.method_search import search_entries
from podium.cli.options import Level, Trust, World
from podium.cli.overrides import catalogue_entry, load
from podium.cli.preflight import check_typed
from podium.cli.show import show_entry, show_method
from podium.core.errors import PodiumError, nearest
from podium.docs.catalogue_text import EntryText, read_catalogue

if TYPE_CHECKING:
    from podium.method import Method
    from podium.method.check import Finding

__all__ = ["app"]


app = typer.Typer(
    cls=MethodCommands,
    rich_markup_mode=None,
    help="List, show, check, probe, compare and combine methods.",
)

Name = Annotated[str, typer.Argument(metavar="METHOD", help="A slug, slug@preset, A+B, or the path of a YAML file.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change an argument of the recipe (kl=0) or a setting of a part (advantage.scale=none). May be repeated.",
    ),
]


@app.callback(invoke_without_command=True)
def list_methods(
    context: typer.Context,
    family: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this family: base, group, entropy, turns, …")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this kind: method, metric, study, tool or reading.")
    ] = None,
    stage: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only methods with a part at this stage: keep, advantage, shape, …"),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help='Only methods about this, best first: "curriculum", "off-policy", "tool use".'
        ),
    ] = None,
) -> None:
    """List, show, check, probe, compare and combine methods.

    Without a command, the methods of the catalogue are listed by family.
    """
    if context.invoked_subcommand is not None:
        return
    catalogue = read_catalogue()
    _check_option("family", family, list(catalogue.families))
    _check_option("kind", kind, catalogue.kinds)
    _check_option("stage", stage, catalogue.stages)
    entries = [
        entry
        for entry in catalogue.entries.values()
        if (family is None or entry.family == family)
        and (kind is None or entry.kind == kind)
        and (stage is None or stage in entry.stages)
    ]
    if search is not None:
        _print_entries(search_entries(entries, search, catalogue.families))
        return
    for number, (name, sentence) in enumerate((n, s) for n, s in catalogue.families.items() if _members(entries, n)):
        if number:
            line()
        line(f"{name}: {sentence}", style="bold")
        _print_entries(_members(entries, name), indent=2, least=max(len(entry.slug) for entry in entries))
    if not entries:
        _print_entries([])


def _members(entries: Sequence[EntryText], family: str) -> list[EntryText]:
    return [entry for entry in entries if entry.family == family]


def _print_entries(entries: Sequence[EntryText], indent: int = 0, least: int = 0) -> None:
    """One row per method; what is no method says so."""
    if not entries:
        line("No entry of the catalogue matches.")
    kinds = {entry.slug: "" if entry.kind == "method" else f"({entry.kind}) " for entry in entries}
    rows([(e.slug, f"{kinds[e.slug]}{e.summary}") for e in entries], indent=indent, least=least)


def _check_option(what: str, value: str | None, options: Collection[str]) -> None:
    if value is not None and value not in options:
        plural = {"family": "families"}.get(what, f"{what}s")
        suggestion = nearest(value, options)
        suggestion = f"{suggestion} " if suggestion.startswith("Did you mean") else ""
        raise PodiumError(f"There is no {what} {value!r}. {suggestion}The {plural} are {', '.join(options)}.")


@app.command()
def show(
    name: Name,
    changes: Changes = None,
    full: Annotated[bool, typer.Option("--all", help="Print every setting, not only those that were changed.")] = False,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print the complete method as YAML instead.")] = False,
    trust: Trust = False,
) -> None:
    """Show the formula, stages and settings of a method.

    Its needs and presets are shown too; of what is no method, the command that runs it. Of the settings, only those
    that differ from the defaults of the parts are printed, unless --all is given.
    """
    listed = read_catalogue().entries.get(name)
    if listed is not None and not listed.trains and not changes and not yaml:
        show_entry(listed)
        return
    entry = catalogue_entry(name)
    if entry is not None and not changes and not yaml:
        show_method(name, entry.summary, entry.citation, read_catalogue().method(name), entry, full)
        return
    from podium.docs.reading import method_text

    method = load(name, changes or (), trust=trust)
    if yaml:
        unbroken(method.to_yaml())
    else:
        show_method(method.name, method.summary, method.citation, method_text(method), entry, full)


@app.command()
def export(
    name: Name,
    changes: Changes = None,
    out: Annotated[Path | None, typer.Option(help="The file to write. [default: print it]")] = None,
    trust: Trust = False,
) -> None:
    """Write a method as one readable Python file that needs torch alone: advantage, loss, updates on a batch."""
    catalogue_entry(name)
    from podium.methods.standalone import standalone

    text = standalone(load(name, changes or (), trust=trust), name)
    if out is None:
        unbroken(text)
        return
    if out.exists():
        raise PodiumError(f"{out} exists already: choose another file.")
    out.write_text(text, "utf-8")
    line(f"{out}: try it with python {out}")


@app.command()
def check(
    name: Name,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="The columns that your world writes, if it is not one by name.")
    ] = None,
    world: World = None,
    level: Level = None,
    changes: Changes = None,
    trust: Trust = False,
) -> None:
    """Report what is wrong with a method before it runs: what it needs and does not get, and what cannot act.

    The world is the method's own unless one is named. The exit code is 1 if the method cannot work.
    """
    names = None if columns is None else _parse_columns(columns)
    method = load(name, changes or (), trust=trust)
    if names is not None:
        where, findings = "a world with these columns", method.check(names)
    else:
        where, findings = _check_in_run(name, method, world, level)
    for finding in findings:
        line(str(finding), style="red" if finding.kind == "error" else "yellow")
    if not findings:
        line(f"{method.name}: no errors and no warnings on {where}.")
    if any(finding.kind == "error" for finding in findings):
        raise typer.Exit(1)


def _parse_columns(text: str) -> list[str]:
    names = [c.strip() for c in text.split(",") if c.strip()]
    for column in names:
        if "." not in column:
            raise PodiumError(f"--columns: {column!r} must be named level.name, such as turn.{column}.")
    return names


def _check_in_run(name: str, method: Method, world: str | None, level: int | None) -> tuple[str, list[Finding]]:
    """A world in words, and the findings for a run of the method on it."""
    from podium.sessions.train import check_run, configure

    settings: dict[str, Any] = {} if world is None else {"world": world}
    settings |= {} if level is None else {"level": level}
    config = configure(name if world is None and catalogue_entry(name) is not None else method, **settings)
    return str(config.world), check_run(config.replace(method=method))


@app.command()
def probe(
    name: Name,
    world: World = None,
    level: Level = None,
    iterations: Annotated[
        int | None, typer.Option(help="Iterations at most. [default: those of the method's home]")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of all random numbers.")] = 0,
    changes: Changes = None,
    trust: Trust = False,
) -> None:
    """Measure what each part of a method does.

    The method is trained with and without each of its parts, under the same random numbers, until the weights are more
    than 1 % of the update apart. A part that is needed by others is left out with them.
    """
    typed = {"world": world, "level": level, "iterations": iterations, "seed": seed}
    settings: dict[str, Any] = {key: value for key, value in typed.items() if value is not None}
    check_typed([name], world=world)
    from podium.sessions.probe import APART
    from podium.sessions.probe import probe as measure
    from podium.sessions.train import at_home

    method = load(name, changes or (), trust=trust)
    if world is None and catalogue_entry(name) is not None:
        settings = at_home(name, settings)
    measured = measure(method, whole=True, **settings)
    cells = []
    for row in measured:
        distance = "–" if row.distance is None else f"{row.distance:.2%}"
        acted = "–" if row.acted is None else f"in {row.acted[0]} of {row.acted[1]} iterations"
        cells.append((row.part, row.by, distance, str(row.iterations), acted))
    table(("part", "replaced by", "apart", "after", "acted"), cells)
    for row in measured:
        if row.reason:
            line(f"{row.part} could not be replaced: {row.reason}", style="yellow")
    idle = [row.part for row in measured if not row.acts]
    line(f"At most {APART:.0%} apart: {', '.join(idle)}." if idle else "Each of them makes a difference.")


@app.command()
def compare(
    names: Annotated[list[str], typer.Argument(metavar="METHOD", help="Several methods, or one with all its presets.")],
    rewards: Annotated[str, typer.Option(metavar="R,R,…", help="The rewards of one group of rollouts.")] = "1,0,0,0",
    trust: Trust = False,
) -> None:
    """Compare advantages for the same rewards.

    Prints the advantage of each rollout of a group, and the settings in which the methods differ from the first.
    """
    numbers = _parse_rewards(rewards)
    entries = [catalogue_entry(name) for name in names]
    if len(names) == 1 and entries[0] is not None and names[0] == entries[0].slug:
        names = list(entries[0].names)
    from podium.cli.reward_comparison import advantages, one_group
    from podium.docs.reading import differences

    methods = [load(name, (), trust=trust) for name in names]
    batch = one_group(numbers)
    cells, refusals = [], []
    for method in methods:
        try:
            cells.append((method.name, *(f"{a:.4f}" for a in advantages(method, batch).tolist())))
        except PodiumError as problem:
            refusals.append(f"{method.name}: {problem}")
    if cells:
        table(("method", *(f"r={r:g}" for r in numbers)), cells)
    for refusal in refusals:
        line(refusal, style="yellow")
    first = methods[0]
    changed = [(m.name, d.path, repr(d.left), repr(d.right)) for m in methods[1:] for d in differences(first, m)]
    if changed:
        line()
        table(("method", "setting or part", f"in {first.name}", "here"), changed)


def _parse_rewards(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise PodiumError(f"--rewards = {text!r} must be numbers with commas between them, such as 1,0,0,0.") from None


@app.command()
def matrix(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[METHOD [METHOD]]", help="None: all pairs. One: it with all others. Two: this pair."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    trust: Trust = False,
) -> None:
    """Show which methods combine, and why others do not.

    Each method is read as a set of changes to plain GRPO; two methods combine if their changes can be joined. A+B names
    the combination, here and in podium train.
    """
    if len(names or ()) > 2:
        raise PodiumError(f"A pair is two methods, not {len(names or ())}: name a combination as one, such as A+B.")
    methods = [load(name, (), trust=trust) for name in names or ()]
    from podium.cli.matrix_tables import show_matrix, show_pair, show_row
    from podium.methods import matrix as pairs
    from podium.methods.combination import combine

    if not methods:
        everything = pairs.matrix()
        _print_json(everything.data()) if as_json else show_matrix(everything)
    elif len(methods) == 1:
        row = pairs.row(methods[0])
        _print_json({slug: pair.data() for slug, pair in row.items()}) if as_json else show_row(row)
    else:
        both = combine(*methods)
        _print_json(both.data()) if as_json else show_pair(both, " and ".join(m.name for m in methods))
        if both.method is None:
            raise typer.Exit(1)


@app.command()
def coverage(
    as_json: Annotated[bool, typer.Option("--json", help="Print the methods of each cell as JSON.")] = False,
) -> None:
    """Show what the catalogue covers: feedback, reward models and optimisers, each with a command that runs one.

    The axes are those of a survey of reinforcement learning for language models; podium methods show prints the place
    of a method on each.
    """
    from podium.cli.survey_table import covered, show_coverage

    found = covered(read_catalogue())
    _print_json(found) if as_json else show_coverage(found, read_catalogue())


def _print_json(data: object) -> None:
    unbroken(json.dumps(data, indent=1) + "\n")
