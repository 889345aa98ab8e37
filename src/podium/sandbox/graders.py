"""Scorers of other packages as functions that a sandbox calls, with one pool of processes for each package."""

from __future__ import annotations

import base64
import importlib
import logging
import pickle
from typing import Any

from podium.sandbox.client import Sandbox, SandboxedCall
from podium.sandbox.guard import no_programs
from podium.sandbox.limits import Limits
from podium.sandbox.workers import Workers

__all__ = [
    "GYM",
    "MATH",
    "pickled",
    "gym_score",
    "gym_workers",
    "math_equal",
    "math_workers",
    "prepare_gym",
    "prepare_sympy",
]


def gym_workers(limits: Limits) -> Workers:
    """Processes for `gym_score`."""
    warm_up = SandboxedCall(f"{__name__}:prepare_sympy", ())
    return Workers(Sandbox(("reasoning_gym", __name__), prepare=(warm_up,), limits=limits), f"{__name__}:gym_score")


def math_workers(limits: Limits) -> Workers:
    """Processes for `math_equal`."""
    warm_up = SandboxedCall(f"{__name__}:math_equal", ("\\frac{x}{2}", "0.5 x"))
    return Workers(Sandbox(("math_verify", __name__), prepare=(warm_up,), limits=limits), f"{__name__}:math_equal")


LIMITS = Limits(wall_s=5.0, cpu_s=5.0, memory_mb=512)
# Shared by all worlds of this process, of which there may be many alike. No process starts before the first call.
GYM, MATH = gym_workers(LIMITS), math_workers(LIMITS)

_datasets: dict[str, Any] = {}


def pickled(value: Any) -> str:
    """A value of any kind as text, for the functions below. Such values come from the user or from a data set, never
    from a model, and are unpickled only inside the sandbox."""
    return base64.b64encode(pickle.dumps(value)).decode()


def _unpickled(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))


def prepare_sympy() -> None:
    """Use sympy's parser once: what it loads and keeps at its first use takes longer than most verdicts."""
    with no_programs():
        importlib.import_module("sympy").parse_expr("(2*x + 1)**2").expand()


def prepare_gym(settings: str) -> None:
    """Make a data set of reasoning-gym, once, for the scores to come."""
    task, config, size = _unpickled(settings)
    _datasets[settings] = importlib.import_module("reasoning_gym").create_dataset(task, seed=0, size=size, **config)


def gym_score(settings: str, answer: str, entry: str) -> float:
    """The score of an answer by the task's own scorer; 0 where that raises, as some do for a malformed answer."""
    unpacked, score = _unpickled(entry), 0.0
    with no_programs():
        try:
            score = float(_datasets[settings].score_answer(answer, unpacked))
        except MemoryError:
            raise
        except Exception:
            score = 0.0
    return score


def math_equal(gold: str, answer: str) -> bool:
    """Whether math-verify considers the two equal."""
    math_verify = importlib.import_module("math_verify")
    logging.disable()  # it warns that its own time limits are off: they work by signals, and the sandbox keeps the time
    with no_programs():
        sides = [math_verify.parse(f"${text}$", parsing_timeout=None) for text in (gold, answer)]
        return bool(all(sides) and math_verify.verify(*sides, timeout_seconds=None))
