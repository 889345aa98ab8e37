"""All rules on one run, and what a run among others of other seeds shows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from podium.analysis.health.course import Course
from podium.analysis.health.rule import Diagnosis
from podium.analysis.health.rules_of_evaluation import MEMORISED, NOISY_EVALUATION, REWARD_HACKING
from podium.analysis.health.rules_of_signal import (
    EVERYTHING_RIGHT,
    GROUPS_DROPPED,
    NO_SIGNAL,
    NO_UPDATE,
    REWARDS_VANISH,
    VERDICT_AND_REWARD,
)
from podium.analysis.health.rules_of_stability import (
    DIVERGED,
    ENTROPY_COLLAPSE,
    ENTROPY_EXPLOSION,
    KL_RUNAWAY,
    LEARNING_RATE_HIGH,
    LEARNING_RATE_LOW,
    NOT_FINITE,
    SAMPLER_GAP,
)
from podium.analysis.health.rules_of_system import (
    DISK,
    GPU_MEMORY,
    IDLE_PART,
    JUDGE_FAILS,
    MEMORY,
    WORLD_FAILS,
)
from podium.analysis.health.rules_of_text import (
    CONTEXT_FULL,
    INVALID_ACTIONS,
    LENGTH_EXPLOSION,
    TRUNCATION,
    TURN_LIMIT,
)

__all__ = ["RULES", "diagnose", "diagnose_seeds"]

RULES = (
    *(NO_SIGNAL, EVERYTHING_RIGHT, NO_UPDATE, GROUPS_DROPPED, REWARDS_VANISH, VERDICT_AND_REWARD),
    *(DIVERGED, NOT_FINITE, LEARNING_RATE_HIGH, LEARNING_RATE_LOW, KL_RUNAWAY, SAMPLER_GAP),
    *(ENTROPY_COLLAPSE, ENTROPY_EXPLOSION, LENGTH_EXPLOSION, TRUNCATION),
    *(TURN_LIMIT, CONTEXT_FULL, INVALID_ACTIONS),
    *(REWARD_HACKING, MEMORISED, NOISY_EVALUATION),
    *(IDLE_PART, WORLD_FAILS, JUDGE_FAILS, DISK, MEMORY, GPU_MEMORY),
)
# What follows from an illness and is not told beside it: nothing new is known by it.
STILL = ("idle-part", "noisy-evaluation", "learning-rate-low", "no-update")  # of a policy that does not move
BROKEN = ("no-signal", "truncation", "entropy-collapse", "entropy-explosion", "length-explosion", "invalid-actions")
UNTRUE = ("reward-hacking", "memorised", "noisy-evaluation")
FOLLOWS = {
    "learning-rate-high": ("diverged", "kl-runaway", "groups-dropped", *STILL, *BROKEN, *UNTRUE),
    "diverged": ("kl-runaway", *STILL, *BROKEN, *UNTRUE),
    "no-signal": STILL,
    "everything-right": ("entropy-collapse", *STILL),
    "no-update": ("idle-part", "noisy-evaluation", "learning-rate-low"),
    "learning-rate-low": ("idle-part", "noisy-evaluation"),
    "world-fails": ("no-signal", *STILL),
    "turn-limit": ("no-signal", *STILL),
    "context-full": ("no-signal", *STILL),
    "truncation": ("no-signal", *STILL),
    "length-explosion": ("truncation",),
    "reward-hacking": ("memorised", "noisy-evaluation"),
    "memorised": ("noisy-evaluation",),
}
APART = 3.0  # so many times the usual distance from the median of the seeds
LEAST_APART = 0.1  # of pass@1: seeds this close are never called apart
SEEDS = 3  # runs that it takes to say what is usual


def diagnose(course: Course) -> list[Diagnosis]:
    """What is wrong with a run, in the order of `RULES`; nothing that follows from another finding."""
    found = {each.rule: each for each in (rule(course) for rule in RULES) if each is not None}
    following = {name for cause in found for name in FOLLOWS.get(cause, ())}
    return [each for name, each in found.items() if name not in following]


def diagnose_seeds(courses: Sequence[Course]) -> dict[str, Diagnosis]:
    """By run, what sets it apart from runs of the same method and world with other seeds."""
    apart: dict[str, Diagnosis] = {}
    alike: dict[tuple[object, ...], list[Course]] = {}
    for course in courses:
        if course.evaluations:
            setting = course.setting
            alike.setdefault((setting.method, setting.world, setting.level, setting.lr), []).append(course)
    for group in alike.values():
        if len({course.setting.seed for course in group}) < SEEDS:
            continue
        ends = [float(course.evaluations[-1]["eval.pass@1"]) for course in group]
        middle = statistics.median(ends)
        spread = statistics.median(abs(end - middle) for end in ends)
        for course, end in zip(group, ends, strict=True):
            if middle - end > max(LEAST_APART, APART * 1.4826 * spread):
                seen = (
                    f"Seed {course.setting.seed} ended at {end:.3f} held-out pass@1, the median seed at {middle:.3f}."
                )
                matters = "A mean over seeds hides a run that went wrong, and a single seed may be that one."
                mend = f"podium doctor {course.setting.run}; compare its curves: podium view {course.setting.run}"
                apart[course.setting.run] = Diagnosis("diverged-seed", seen, matters, mend)
    return apart
