"""Scorers of other packages, as functions that a sandbox calls."""

from __future__ import annotations

import base64
import importlib
import pickle
from typing import Any

from podium.sandbox.guard import AnswerIsCode, guard_evaluation

__all__ = ["gym_score", "math_equal", "packed_entry", "prepare_gym"]

_datasets: dict[str, Any] = {}


def prepare_gym(key: str, task: str, config: dict[str, Any], size: int) -> None:
    """Make a data set of reasoning-gym, once, for the scores to come."""
    _datasets[key] = importlib.import_module("reasoning_gym").create_dataset(task, seed=0, size=size, **config)


def packed_entry(entry: Any) -> str:
    """An entry of a data set as text. It may hold objects that JSON cannot; it comes from the data set, not from a
    model, and goes only into the sandbox."""
    return base64.b64encode(pickle.dumps(entry)).decode()


def gym_score(key: str, answer: str, entry: str) -> float:
    """The score of an answer by the task's own scorer; 0 where that raises, as some do for a malformed answer."""
    guard = guard_evaluation()
    unpacked = pickle.loads(base64.b64decode(entry))
    try:
        score = float(_datasets[key].score_answer(answer, unpacked))
    except MemoryError:
        raise
    except Exception:
        score = 0.0
    if guard.refused:
        raise AnswerIsCode(f"the answer is a program: it uses {guard.refused[:40]!r}")
    return score


def math_equal(gold: str, answer: str) -> bool:
    """Whether math-verify considers the two equal."""
    math_verify = importlib.import_module("math_verify")
    guard = guard_evaluation()
    # The sandbox keeps the time: math-verify's own limits work by signals.
    sides = [math_verify.parse(f"${text}$", parsing_timeout=None) for text in (gold, answer)]
    equal = bool(all(sides) and math_verify.verify(*sides, timeout_seconds=None))
    if guard.refused:
        raise AnswerIsCode(f"the answer is a program: it uses {guard.refused[:40]!r}")
    return equal
