"""Requests in the words of vLLM and of OpenAI-compatible servers, and their answers as completions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podium.core import streams
from podium.core.errors import PodiumError
from podium.core.token_sets import set_of
from podium.protocols.sampling import ALLOWED, Completion, Generate, Sampling, Stop

__all__ = ["MOST_RECORDED", "EngineAnswer", "completion", "engine_settings", "unmapped"]

MOST_RECORDED = 256  # tokens of the distribution that an engine is asked for at each position


@dataclass(frozen=True)
class EngineAnswer:
    """What an engine has drawn: token ids, their log-probabilities, and per token those that it lists as likely."""

    ids: tuple[int, ...]
    logp: tuple[float, ...]
    likely: Sequence[Mapping[int, float]] = ()
    stopped: bool = False  # at an end token or a stop string, rather than at a limit


def unmapped(sampling: Sampling, capture: Sequence[str] = ()) -> str:
    """What engines outside have no equal of, in words; empty: nothing."""
    if sampling.warmth is not None:
        return "a temperature that follows the entropy"
    if sampling.grammar is not None:
        return "a grammar"
    other = sorted(set(capture) - {ALLOWED})
    if other:
        return f"{other[0]!r} of each token while it is sampled"
    cut = sampling.top_p < 1 or sampling.min_p > 0
    if ALLOWED in capture and sampling.temperature > 0 and (cut or sampling.top_k) and not _recorded(sampling):
        return f"a record of what top_p or min_p kept, unless top_k is set too, to at most {MOST_RECORDED}"
    return ""


def _recorded(sampling: Sampling) -> bool:
    return 0 < sampling.top_k <= MOST_RECORDED


def engine_settings(request: Generate, copy: int, seed: int, room: int, end_ids: Sequence[int]) -> dict[str, Any]:
    """The sampling settings of one completion, by the names that vLLM and its server share."""
    s = request.sampling
    if problem := unmapped(s, request.capture):
        raise PodiumError(f"An engine outside cannot sample with {problem}.")
    # A continued text has a stream of its own: engines count positions from where they begin.
    key = streams.key(seed, (*request.stream, request.first + copy, len(request.prefix)))
    settings: dict[str, Any] = {"temperature": s.temperature, "max_tokens": min(s.max_tokens, room), "seed": key >> 12}
    settings |= {"stop_token_ids": list(end_ids), "skip_special_tokens": False}
    settings |= {"stop": list(s.stop)} if s.stop else {}
    if s.temperature > 0:
        settings |= {"top_p": s.top_p} if s.top_p < 1 else {}
        settings |= {"top_k": s.top_k} if s.top_k else {}
        settings |= {"min_p": s.min_p} if s.min_p else {}
    records = ALLOWED in request.capture and s.temperature > 0 and _recorded(s)
    return {**settings, "logprobs": s.top_k if records else 0}


def completion(request: Generate, drawn: EngineAnswer, room: int, end_ids: Sequence[int]) -> Completion:
    """An engine's answer as a completion."""
    s, ids = request.sampling, drawn.ids
    if ids and ids[-1] in end_ids:
        stop = Stop.end
    elif drawn.stopped:
        stop = Stop.text
    else:
        stop = Stop.length if s.max_tokens <= room else Stop.context
    captured: dict[str, tuple[Any, ...]] = {}
    if ALLOWED in request.capture:
        recorded = bool(s.top_k) and s.temperature > 0
        captured[ALLOWED] = tuple(map(_kept, ids, drawn.likely)) if recorded else (None,) * len(ids)
    return Completion(ids, drawn.logp, stop, captured)


def _kept(token: int, likely: Mapping[int, float]) -> str:
    """The set of tokens that could be drawn: those with a probability."""
    return set_of({token, *(i for i, logp in likely.items() if logp > -math.inf)})
