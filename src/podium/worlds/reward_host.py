"""The side of a user's reward functions that runs in other processes; `podium.worlds.rewarding` is the side of the run.

The server loads the functions once (`load_functions`); each process then answers calls of `score_completion`.
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

__all__ = ["describe_functions", "load_functions", "score_completion"]

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


def describe_functions(columns: Sequence[str]) -> str:
    """Why the functions cannot grade rows with these columns; empty: they can."""
    try:
        for function in () if _problem else _functions:
            _arguments(function, "", "", dict.fromkeys(columns))
    except PodiumError as problem:
        return str(problem)
    return _problem[0] if _problem else ""


def score_completion(prompt: Any, completion: str, columns: Any) -> dict[str, Any]:
    """The score of each function, None where it does not apply; or, as `failure`, the name of a function and what it
    did wrong."""
    if _problem:
        return {"failure": _problem[0]}
    asked, row = from_wire(prompt), from_wire(columns)
    scores: list[float | None] = []
    for function in _functions:
        try:
            scores.append(_number(_call(function, asked, completion, row)))
        except _Unusable as problem:
            return {"failure": f"the reward function {_name(function)} returned {problem}"}
        except BaseException as error:  # SystemExit too: nothing but an answer leaves this process
            return {"failure": f"the reward function {_name(function)} raised {error_text(error)}"}
    return {"scores": scores}


class _Unusable(Exception):
    """What a function returned, which is no reward."""


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _call(function: Callable[..., Any], prompt: Any, completion: str, row: Mapping[str, Any]) -> Any:
    positional, named = _arguments(function, prompt, completion, row)
    result = function(*positional, **named)
    return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Any) -> Any:
    return await result


def _arguments(
    function: Callable[..., Any], prompt: Any, completion: str, row: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a function, in the form that its parameters show."""
    parameters = list(inspect.signature(function).parameters.values())
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    parameters = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    names = [p.name for p in parameters]
    if "solution_str" in names:  # verl
        truth = row.get("ground_truth", row.get("answer"))
        own = {"data_source": row.get("data_source", ""), "solution_str": completion, "ground_truth": truth}
        given = {**row, **own, "extra_info": row.get("extra_info") or {}}
        takes_all = False  # verl gives nothing but these four
    elif "completions" in names:  # TRL: lists, here of one element; messages where the prompt has several
        said = [{"role": "assistant", "content": completion}] if isinstance(prompt, list) else completion
        given = {**{name: [value] for name, value in row.items()}, "prompts": [prompt], "completions": [said]}
    else:
        shown = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        given = {**row, "prompt": shown, "completion": completion}
        others = [p.name for p in parameters if p.default is p.empty and p.name not in given]
        if "completion" not in names:
            places = [completion] if "prompt" in names or len(others) == 1 else [shown, completion]
            if len(others) != len(places):
                raise _refusal(function, others[-1] if others else "completion", given)
            given |= dict(zip(others, places, strict=True))
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
