"""The side of a user's reward functions that runs in other processes; `podium.worlds.rewarding` is the side of the run.

The server loads the functions once (`load_functions`); each process then answers calls of `score_completion`, and one
process calls of `score_batch`.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from podium.core.errors import PodiumError, nearest
from podium.core.named_code import load_source
from podium.core.printable import error_text
from podium.worlds.wire import from_wire

__all__ = ["describe_functions", "judging_batches", "load_functions", "score_batch", "score_completion"]

LARGEST = 1e30  # of a reward, as of any world's

_functions: list[Callable[..., Any]] = []
_problem: list[str] = []  # why they could not be loaded


def load_functions(names: Sequence[str], folder: str, path: Sequence[str]) -> None:
    """Load the functions in this process, for the processes that are forked from it."""
    try:
        os.chdir(folder)
        sys.path += [entry for entry in path if entry not in sys.path]
        _functions.extend(map(_load, names))
    except PodiumError as error:
        _problem.append(str(error))
    except BaseException as error:  # SystemExit too
        _problem.append(f"{names[len(_functions)]} could not be loaded: {error_text(error)}.")


def _load(name: str) -> Callable[..., Any]:
    source, _, attribute = name.rpartition(":")
    module = load_source(source)
    found = getattr(module, attribute, None)
    if not callable(found):
        options = [k for k, v in vars(module).items() if inspect.isfunction(v)]
        hint = nearest(attribute, options) if options else "It has no functions."
        raise PodiumError(f"{source} has no reward function {attribute!r}. {hint}")
    return found


def judging_batches() -> list[bool]:
    """Which of the functions are in TRL's form, and judge a whole batch."""
    return [_judges_batch(function) for function in _functions]


def _judges_batch(function: Callable[..., Any]) -> bool:
    names = [p.name for p in _named(function)]
    return "completions" in names and "solution_str" not in names


def describe_functions(columns: Sequence[str]) -> str:
    """Why the functions cannot grade rows with these columns; empty: they can."""
    try:
        for function in () if _problem else _functions:
            if _judges_batch(function):
                _given(function, _batch([""], [""], [dict.fromkeys(columns)]))
            else:
                _arguments(function, "", "", dict.fromkeys(columns))
    except PodiumError as problem:
        return str(problem)
    return _problem[0] if _problem else ""


def score_completion(prompt: Any, completion: str, columns: Any) -> dict[str, Any]:
    """The score of each function, None where it does not apply or judges batches; or, as `failure`, the name of a
    function and what it did wrong."""
    if _problem:
        return {"failure": _problem[0]}
    asked, row = from_wire(prompt), from_wire(columns)
    scores: list[float | None] = []
    for function in _functions:
        if _judges_batch(function):
            scores.append(None)
            continue
        try:
            scores.append(_number(_result(function, *_arguments(function, asked, completion, row))))
        except _Unusable as problem:
            return {"failure": f"the reward function {_name(function)} returned {problem}"}
        except BaseException as error:  # SystemExit too: nothing but an answer leaves this process
            return {"failure": f"the reward function {_name(function)} raised {error_text(error)}"}
    return {"scores": scores}


def score_batch(prompts: Sequence[Any], completions: Sequence[str], columns: Sequence[Any]) -> dict[str, Any]:
    """Of each completion the score of each function, None for those that judge completions alone, or which of the
    functions gave what is no reward; or, as `failure`, the name of a function and what it did wrong with the batch."""
    if _problem:
        return {"failure": _problem[0]}
    given = _batch([from_wire(prompt) for prompt in prompts], completions, [from_wire(row) for row in columns])
    found: list[list[float | None] | str] = [[] for _ in completions]
    for function in _functions:
        rewards: Sequence[Any] = [None] * len(completions)
        if _judges_batch(function):
            try:
                rewards = _one_each(_result(function, *_given(function, given)), len(completions))
            except _Unusable as problem:
                return {"failure": f"the reward function {_name(function)} returned {problem}"}
            except BaseException as error:  # SystemExit too: nothing but an answer leaves this process
                return {"failure": f"the reward function {_name(function)} raised {error_text(error)}"}
        for number, (scores, reward) in enumerate(zip(found, rewards, strict=True)):
            if isinstance(scores, list):
                try:
                    scores.append(_number(reward))
                except _Unusable as problem:
                    found[number] = f"the reward function {_name(function)} returned {problem}"
    return {"batch": found}


def _batch(prompts: Sequence[Any], completions: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What functions in TRL's form may ask for: lists, with None where a row lacks a column. Completions are messages
    where prompts are."""
    said = [
        [{"role": "assistant", "content": text}] if isinstance(prompt, list) else text
        for prompt, text in zip(prompts, completions, strict=True)
    ]
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    return {**columns, "prompts": list(prompts), "completions": said}


def _one_each(result: Any, count: int) -> Sequence[Any]:
    """The rewards of a batch, as numbers one by one."""
    values = result.tolist() if hasattr(result, "tolist") else result
    if not isinstance(values, (list, tuple)):
        raise _Unusable(f"{result!r}, not a list of rewards")
    if len(values) != count:
        raise _Unusable(f"{len(values)} rewards for {count} completions")
    return values


class _Unusable(Exception):
    """What a function returned, which is no reward."""


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _result(function: Callable[..., Any], positional: list[Any], named: dict[str, Any]) -> Any:
    result = function(*positional, **named)
    return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Any) -> Any:
    return await result


def _arguments(
    function: Callable[..., Any], prompt: Any, completion: str, row: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a function that grades a completion, in the form that its parameters show."""
    parameters = _named(function)
    names = [p.name for p in parameters]
    if "solution_str" in names:  # verl
        truth = row.get("ground_truth", row.get("answer"))
        own = {"data_source": row.get("data_source", ""), "solution_str": completion, "ground_truth": truth}
        given = {**row, **own, "extra_info": row.get("extra_info") or {}}
        return _given(function, given, rest=False)  # verl gives nothing but these four
    shown = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    given = {**row, "prompt": shown, "completion": completion}
    others = [p.name for p in parameters if p.default is p.empty and p.name not in given]
    if "completion" not in names:
        places = [completion] if "prompt" in names or len(others) == 1 else [shown, completion]
        if len(others) != len(places):
            raise _refusal(function, others[-1] if others else "completion", given)
        given |= dict(zip(others, places, strict=True))
    return _given(function, given)


def _named(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function that have names of their own."""
    parameters = inspect.signature(function).parameters.values()
    return [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


def _given(
    function: Callable[..., Any], given: Mapping[str, Any], rest: bool = True
) -> tuple[list[Any], dict[str, Any]]:
    """What a function gets of what can be given: what it names, and with `rest` all, if it has `**columns`."""
    parameters = _named(function)
    kinds = {p.kind for p in inspect.signature(function).parameters.values()}
    takes_all = rest and inspect.Parameter.VAR_KEYWORD in kinds
    missing = next((p.name for p in parameters if p.default is p.empty and p.name not in given), None)
    if missing is not None:
        raise _refusal(function, missing, given)
    positional = [given[p.name] for p in parameters if p.kind is p.POSITIONAL_ONLY and p.name in given]
    by_name = {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}
    return positional, {name: value for name, value in given.items() if takes_all or name in by_name}


def _refusal(function: Callable[..., Any], missing: str, given: Collection[str]) -> PodiumError:
    return PodiumError(
        f"The reward function {_name(function)} cannot be called: there is nothing to give it as {missing!r}. A reward "
        "function takes (prompt, completion), TRL's (prompts, completions) or verl's (data_source, solution_str, "
        f"ground_truth, extra_info), and may name columns of the row. {nearest(missing, given)}"
    )


def _number(result: Any) -> float | None:
    """The reward in what a function returned; None where it does not apply."""
    if isinstance(result, Mapping):  # verl's, with more to log
        if "score" not in result:
            raise _Unusable(f"{result!r}, which has no 'score'")
        result = result["score"]
    if isinstance(result, (list, tuple)) or getattr(result, "shape", None):
        if len(result) != 1:
            raise _Unusable(f"{len(result)} rewards for one completion")
        result = result[0]
    if result is None:
        return None
    if isinstance(result, str):
        raise _Unusable(f"{result!r}, which is no number")
    try:
        number = float(result)
    except (TypeError, ValueError) as error:
        raise _Unusable(f"{result!r}, which is no number") from error
    if math.isnan(number) or abs(number) > LARGEST:
        raise _Unusable(str(number))
    return number
