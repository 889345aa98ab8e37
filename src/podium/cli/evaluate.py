"""`podium eval`: measure a model or a run on held-out tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podium.cli.console import line, table
from podium.cli.options import AnswerField, Data, Device, Level, PromptField, Reward, Trust, World, data_settings
from podium.cli.overrides import split_change
from podium.cli.preflight import check_world_file
from podium.core.errors import PodiumError

if TYPE_CHECKING:
    from podium.evaluation.resample import Measure

__all__ = ["evaluate", "expand_options"]

NUMBERS = re.compile(r"\d+(,\d+)*,?")
WITHOUT_VALUE = {
    "--compare": "base",
    "--thinking": "auto",
    "--judge": "options",
    "--interventions": "plan,knowledge,subproblems",
}  # what an option means when no value follows it


def evaluate(
    target: Annotated[str, typer.Argument(help="The directory of a run, or a model.")],
    world: World = None,
    level: Level = None,
    data: Data = None,
    prompt_field: PromptField = None,
    answer_field: AnswerField = None,
    reward: Reward = None,
    k: Annotated[
        list[str] | None,
        typer.Option("--k", metavar="K", help="Report pass@k for these k: --k 1 8 64, or --k 1,8,64. [default: 1 8]"),
    ] = None,
    tasks: Annotated[int, typer.Option(help="The number of held-out tasks.")] = 128,
    samples: Annotated[int | None, typer.Option(help="Answers per task. [default: the largest k]")] = None,
    seed: Annotated[int, typer.Option(help="The seed of the random numbers.")] = 0,
    temperature: Annotated[float, typer.Option(help="The sampling temperature; 0 is greedy decoding.")] = 1.0,
    device: Device = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change a setting of the world: world.noise=0.1."),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(help="Compare with this model or run; without a value, with the model that the run started from."),
    ] = None,
    thinking: Annotated[
        str | None,
        typer.Option(
            help="Report the accuracy if thinking is cut off after so many tokens: 0,16,64; alone: powers of two."
        ),
    ] = None,
    frontier: Annotated[
        bool,
        typer.Option(
            "--frontier",
            help="Report reward against KL divergence from the base (or --compare MODEL), beside best-of-N and the "
            "optimum.",
        ),
    ] = False,
    interventions: Annotated[
        str | None,
        typer.Option(
            help="Report what help from the world is worth to the run and to its base (or --compare MODEL): "
            "plan,knowledge,subproblems; alone: all of them."
        ),
    ] = None,
    gaps: Annotated[
        str | None,
        typer.Option(help="Report success for each value of this column: domain, level, length, …", metavar="COLUMN"),
    ] = None,
    dependence: Annotated[
        str | None,
        typer.Option(
            help="Report, in bits, what success tells about this column, overall and within domains.",
            metavar="COLUMN",
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            help="Try the model, the run or the server http://localhost:PORT/v1 as a judge of pairs of which the "
            "better is known: by the probability of `options`, or as it has `written` a verdict; alone: options."
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="In a world of several agents, play each of them in turn against this opponent: a player of the "
            "world (random), a run or a model, or base, the model that the run started from. May be repeated."
        ),
    ] = None,
    retries: Annotated[int, typer.Option(help="How often a judge may try again to write a verdict.")] = 2,
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Measure a model or a run on held-out tasks.

    Reports pass@k, avg@k, maj@k, length, entropy and distinct correct answers; with --compare, what training has gained
    and lost; with --thinking, how accuracy grows with thinking; with --frontier, how much reward training gives for its
    divergence from the base; with --interventions, what help is worth before and after training; with --judge, how good
    it is as a judge (on the world verdicts, unless you name another): accuracy, agreement of both orders, bias to what
    stands first and to length, nonsense, and calibration; with --against, what it earns against opponents, and how
    often it wins; with --gaps, how success differs by a column; with --dependence, what it tells about one.
    """
    settings: dict[str, Any] = {path.removeprefix("world."): value for path, value in map(split_change, changes or [])}
    world, of_world = data_settings(world, data, prompt_field, answer_field, reward)
    settings |= of_world | ({} if level is None else {"level": level})
    settings |= {"world": world, "tasks": tasks, "seed": seed, "temperature": temperature, "device": device or "cpu"}
    settings["trust"] = trust
    ks = _parse_numbers(k or ["1,8" if compare is None else "1,8,64" if samples is None else f"1,{samples}"])
    budgets = None if thinking in (None, "auto") else _parse_numbers([thinking], "--thinking 0,16,64")
    check_world_file(world)
    from podium.cli.model_comparison import show_comparison, show_measures
    from podium.cli.reward_frontier import show_frontier
    from podium.cli.thinking_curve import show_curve
    from podium.sessions import evaluate as session

    if judge is not None:
        from podium.sessions.try_judge import try_judge

        settings.pop("trust")
        warmth = settings.pop("temperature")
        settings["temperature"] = 0.6 if warmth == 1.0 else warmth
        _show(try_judge(target, way=judge, retries=retries, **settings), json)
    elif against:
        from podium.sessions.play_against import play_against

        _show_matches(play_against(target, against, samples=samples or 1, **settings), json)
    elif gaps is not None or dependence is not None:
        _show_columns(target, gaps, dependence, json, samples=samples or 8, **settings)
    elif interventions is not None:
        axes = list(dict.fromkeys(filter(None, (axis.strip() for axis in interventions.split(",")))))
        aided = session.interventions(
            target, compare or session.BASE_MODEL, axes=axes, samples=samples or 1, **settings
        )
        if json:
            line(dumps(aided.as_dict()))
        else:
            show_measures(aided.measures())
    elif frontier:
        if temperature != 1.0:
            raise PodiumError("--frontier compares models as they were trained: at temperature 1.")
        settings.pop("temperature")
        wanted = 64 if samples is None else samples
        plane = session.frontier(target, compare or session.BASE_MODEL, samples=wanted, **settings)
        if json:
            line(dumps(plane.as_dict()))
        else:
            show_frontier(plane, Path(target) if Path(target).is_dir() else Path())
    elif compare is not None:
        pair = session.contrast(target, compare, ks=ks, samples=samples, **settings)
        if json:
            line(dumps(pair.as_dict()))
        else:
            show_comparison(pair)
    elif thinking is not None:
        points = session.thinking(target, budgets=budgets, samples=samples or 1, **settings)
        if json:
            line(dumps([point.as_dict() for point in points]))
        else:
            show_curve(points)
    else:
        _show(session.evaluate(target, ks=ks, samples=samples, **settings), json)


def _show(measures: Mapping[str, Measure], json: bool) -> None:
    if json:
        line(dumps({name: measure.as_dict() for name, measure in measures.items()}))
    else:
        cells = [[n, f"{m.mean:.3f}", f"[{m.low:.3f}, {m.high:.3f}]"] for n, m in measures.items()]
        table(["measure", "mean", "95 % interval"], cells)


def _show_columns(target: str, gaps: str | None, dependence: str | None, json: bool, **settings: Any) -> None:
    """How success depends on columns."""
    from podium.cli.column_tables import show_dependence, show_gaps
    from podium.sessions.column_report import report_dependence, report_gaps

    if gaps is not None:
        by_value = report_gaps(target, gaps, **settings)
        line(dumps(by_value.as_dict())) if json else show_gaps(by_value)
    if dependence is not None:
        bits = report_dependence(target, dependence, **settings)
        line(dumps(bits.as_dict())) if json else show_dependence(bits)


def _show_matches(found: Mapping[str, Mapping[str, Measure]], json: bool) -> None:
    if json:
        line(dumps({who: {name: m.as_dict() for name, m in measures.items()} for who, measures in found.items()}))
    else:
        names = list(next(iter(found.values())))
        cells = [
            [who, *(f"{m.mean:.3f} [{m.low:.3f}, {m.high:.3f}]" for m in measures.values())]
            for who, measures in found.items()
        ]
        table(["against", *names], cells)


def expand_options(arguments: Sequence[str]) -> list[str]:
    """The arguments as the parser takes them: `--k 1 8 64` becomes `--k 1 --k 8 --k 64`, and `--compare`,
    `--thinking`, `--judge` and `--interventions` get the value that they stand for when none follows."""
    expanded: list[str] = []
    for number, word in enumerate(arguments):
        # A number continues the list if everything between it and its --k is a number too.
        more = NUMBERS.fullmatch(word) and expanded[-2:-1] == ["--k"] and arguments[number - 1] != "--k"
        expanded += ["--k", word] if more else [word]
        following = arguments[number + 1] if number + 1 < len(arguments) else "-"
        if word in WITHOUT_VALUE and following.startswith("-"):
            expanded.append(WITHOUT_VALUE[word])
    return expanded


def _parse_numbers(words: Sequence[str], example: str = "--k 1 8 64") -> list[int]:
    """The numbers of `1`, `8,64`, …, each once."""
    for word in words:
        if NUMBERS.fullmatch(word) is None:
            raise PodiumError(f"{example.split()[0]} {word!r} is not a number: write {example}.")
    return list(dict.fromkeys(int(n) for word in words for n in word.split(",") if n))
