"""`podium bench`: how accurate estimators are, what domains give each other, and how well checkpoints are chosen."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podium.cli.commands import Commands
from podium.cli.console import line, table
from podium.cli.options import Device, Trust
from podium.cli.overrides import catalogue_entry, load, split_change
from podium.core.errors import PodiumError

if TYPE_CHECKING:
    from podium.worlds import World

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    help="Measure how accurate estimators are, what domains give each other, and how well checkpoints are chosen.",
    invoke_without_command=True,
)

COMPARED = ("grpo", "rloo", "reinforce", "ppo")  # in addition to every method of the family `turns`


@app.callback()
def root(context: typer.Context) -> None:
    """Measure how accurate estimators are, what domains give each other, and how well checkpoints are chosen."""
    if context.invoked_subcommand is None:
        line(context.get_help())


@app.command()
def credit(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[METHOD]...", help="The methods to measure. [default: those with credit assignment over turns]"
        ),
    ] = None,
    world: Annotated[
        str, typer.Option(help="Worlds whose exact values are known, with commas between them.")
    ] = "keydoor,lookup",
    level: Annotated[int, typer.Option(help="The level of the worlds.")] = 3,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="PATH=VALUE", help="Change a setting of the worlds: world.slip=0.1, world.miss=0.3."
        ),
    ] = None,
    strength: Annotated[
        str | None, typer.Option(help="Strengths of the policies; 0 is random. [default: three that fit the world]")
    ] = None,
    rollouts: Annotated[str, typer.Option(help="Rollouts per task.")] = "8",
    tasks: Annotated[int, typer.Option(help="The number of tasks.", min=1)] = 8,
    seeds: Annotated[int, typer.Option(help="The number of batches.", min=1)] = 20,
    noise: Annotated[
        float, typer.Option(help="The standard deviation of the error in the noisy reference values.", min=0)
    ] = 0.1,
    out: Annotated[Path | None, typer.Option(help="Write tables and figures to this HTML file.")] = None,
    svg: Annotated[
        Path | None, typer.Option(help="Write one figure per world, credit-WORLD.svg, to this folder.")
    ] = None,
    trust: Trust = False,
) -> None:
    """Compare the credit that methods give each step with its exact advantage, in worlds where that is known.

    Tabular policies of several strengths walk through houses with keys and doors, and look up the answers to questions;
    every method credits the same rollouts.
    """
    strengths = None if strength is None else _parse_numbers(strength, "--strength")
    counts = [int(x) for x in _parse_numbers(rollouts, "--rollouts")]
    for name in names or ():
        catalogue_entry(name)
    from podium.analysis.credit import STRENGTHS, CreditScore, Estimator, compare_estimators, fitting, references
    from podium.methods.catalogue import RECIPES
    from podium.report.credit_page import HEADER, NOTE, cells, heading, write_credit, write_figure

    settings = {path.removeprefix("world."): value for path, value in map(split_change, changes or [])}
    exact = [_exact_world(name.strip(), level=level, **settings) for name in dict.fromkeys(world.split(","))]
    chosen = names or [*COMPARED, *(slug for slug, entry in RECIPES.items() if entry.family == "turns")]
    methods = [load(name, (), trust=trust) for name in chosen]
    fit: list[list[Estimator]] = []
    for place in exact:  # all of them, before anything is measured
        estimators, refused = fitting(methods, place)
        if names and refused:
            raise PodiumError(next(iter(refused.values())))
        fit.append([*estimators, *references(noise)])
    scores: dict[str, list[CreditScore]] = {}
    for place, estimators in zip(exact, fit, strict=True):
        for value in strengths or STRENGTHS.get(place.name, STRENGTHS["keydoor"]):
            for count in counts:
                batch = compare_estimators(estimators, place, strength=value, rollouts=count, tasks=tasks, seeds=seeds)
                scores.setdefault(place.name, []).extend(batch)
                line(heading(batch[0]))
                table(HEADER, [cells(score) for score in batch])
                line()
    line(NOTE)
    for reason in refused.values():
        line(f"Left out: {reason}", style="yellow")
    if out is not None:
        title = f"Credit on {' and '.join(scores)}, {tasks} tasks, {seeds} seeds"
        line(f"Report: {write_credit([score for group in scores.values() for score in group], out, title)}")
    if svg is not None:
        for name, group in scores.items():
            line(f"Figure: {write_figure(group, svg / f'credit-{name}.svg')}")


@app.command()
def transfer(
    domains: Annotated[
        str, typer.Option(help="Worlds, with commas between them, as --world names them.")
    ] = "sums,rules,countdown",
    least_known: Annotated[
        str, typer.Option(help="The domain that the model knows least, which is claimed to need its own training.")
    ] = "",
    model: Annotated[str, typer.Option(help="The model to start from.")] = "podium/tiny",
    out: Annotated[
        Path | None, typer.Option(help="The directory of the results; what is there already is continued.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="The number of seeds per domain.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version, of some minutes, with wide intervals.")
    ] = False,
) -> None:
    """Train on each domain and on their mix, at equal sizes, and print what each gives every other.

    Rows are what was trained on, columns the gain in the success rate on held-out tasks, with 95 % intervals over tasks
    and seeds.
    """
    from podium import labs
    from podium.labs.transfer import transfer as experiment

    names = [name.strip() for name in domains.split(",") if name.strip()]
    outcome = labs.lab(experiment(names, least_known, model=model), out=out, seeds=seeds, quick=quick, progress=line)
    line()
    header = ["trained on", *(outcome.label(reading) for reading in outcome.study.readings)]
    table(header, [[arm, *("" if m is None else str(m) for m in row)] for arm, row in outcome.table()])
    line()
    line(outcome.found())
    if outcome.study.claims:
        line(outcome.agreement())
    line(f"Figure: {outcome.path / 'lab.html'}")


@app.command()
def selection(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Runs of one world, whose checkpoints are chosen among.")
    ],
    k: Annotated[int, typer.Option("--k", help="How many checkpoints are chosen.", min=2)] = 3,
    rollouts: Annotated[int, typer.Option(help="How many logged rollouts the estimates are made from.", min=2)] = 256,
    samples: Annotated[int, typer.Option(help="Fresh rollouts per task, which are the truth.", min=1)] = 4,
    seed: Annotated[int, typer.Option(help="The seed of the random numbers.")] = 0,
    device: Device = None,
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Choose among the checkpoints of runs by off-policy estimates, and compare with what they are worth.

    The estimates come from rollouts that the runs logged while they trained, whose probabilities are known exactly:
    importance sampling of whole rollouts and turn by turn, both self-normalised, and doubly robust. In worlds whose
    dynamics are known (keydoor, lookup, carry) the probabilities of fresh rollouts bracket the exact value, and the
    share of estimates that lie outside is printed, too: more --samples narrow the bounds.
    """
    from podium.sessions.checkpoint_selection import select_checkpoints

    told = None if json else line
    found = select_checkpoints(
        runs, rollouts=rollouts, samples=samples, seed=seed, device=device or "cpu", trust=trust, progress=told
    )
    if json:
        line(dumps(found.as_dict(k)))
        return
    line()
    bounds = [] if found.bounds is None else [f"[{low:.3f}, {high:.3f}]" for low, high in found.bounds]
    rows = [
        [
            name,
            f"{true:.3f}",
            *bounds[n : n + 1],
            *(f"{x[n]:.3f}" for x in found.estimates.values()),
            f"{found.sample_size[n]:.1f}",
        ]
        for n, (name, true) in enumerate(zip(found.candidates, found.true, strict=True))
    ]
    exact = ["exact within"] if bounds else []
    table(["checkpoint", "true", *exact, *found.estimates, "effective sample size"], rows)
    line()
    header = ["estimator", "normalised error", "rank correlation", f"regret@{k}", f"worst@{k}", f"SharpeRatio@{k}"]
    header += ["outside the bounds"] if bounds else []
    table(header, [[name, *(f"{x:.3f}" for x in found.quality(name, k).values())] for name in found.estimates])
    line(f"{found.rollouts} logged rollouts, of mean reward {found.behaviour:.3f}.")


def _exact_world(name: str, **settings: Any) -> World:
    """The world of this name, if its exact values are known."""
    from podium.worlds import EMBEDDED, World, get

    if type(get(name)).dynamics is World.dynamics:
        options = [other for other, kind in EMBEDDED.items() if kind.dynamics is not World.dynamics]
        raise PodiumError(f"The exact values of the world {name!r} are not known: choose {' or '.join(options)}.")
    return get(name, **settings)


def _parse_numbers(text: str, option: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise PodiumError(f"{option} = {text!r} must be numbers with commas between them, such as 4,8.") from None
    low = 1 if option == "--rollouts" else 0
    if any(not low <= x < float("inf") for x in numbers) or (low and any(x != int(x) for x in numbers)):
        raise PodiumError(f"{option} = {text!r}: {'whole numbers from 1' if low else 'numbers from 0'} on are needed.")
    return numbers
