"""Whether held-out tasks confirm what training shows, and whether they can."""

from __future__ import annotations

import math

from podium.analysis.health.course import Course
from podium.analysis.health.rule import Verdict, rule

__all__ = ["MEMORISED", "NOISY_EVALUATION", "REWARD_HACKING", "tasks_needed"]

WORTH_KNOWING = 0.05  # a difference in pass@1 that people take for one


def tasks_needed(tasks: int, half_width: float, difference: float) -> int:
    """How many held-out tasks tell a difference of pass@1 from 0, if `tasks` of them measure each of the two rates to
    ± `half_width`: the width shrinks with the root of their number."""
    error = math.sqrt(2) * half_width
    return math.ceil(tasks * (error / difference) ** 2)


@rule("reward-hacking", "The policy has found a way to be rewarded that is not the one that was meant.")
def REWARD_HACKING(course: Course) -> Verdict:
    reward = course.rise("reward")
    if reward is None or reward < 2:
        return None
    read = (
        f"podium rollouts {course.setting.run} --count 20 (read what is rewarded), then {course.again('eval_every=5')}"
    )
    measured = course.measured
    best = max(measured, key=lambda m: m["eval.pass@1"], default=None)
    if best is not None and measured[-1]["eval.pass@1.high"] < best["eval.pass@1.low"]:
        now, was, when = measured[-1]["eval.pass@1"], best["eval.pass@1"], best["iteration"]
        return (
            f"Reward rises in training, and held-out pass@1 fell from {was:.3f} (iteration {when}) to {now:.3f}.",
            read,
        )
    if (course.rise("pass@1") or 0) < -3:
        return "Reward rises in training, and ever fewer answers are right.", read
    return None


@rule("memorised", "The tasks of training are known by heart, and others are not solved by that.")
def MEMORISED(course: Course) -> Verdict:
    right, measured = course.recent("pass@1"), course.measured
    if right is None or len(measured) < 2 or course.first("pass@1") is None:
        return None
    held_out, grown = measured[-1]["eval.pass@1.high"], right - (course.first("pass@1") or 0)
    if right < held_out + 0.25 or grown < 0.2:
        return None
    known, others = 100 * right, 100 * measured[-1]["eval.pass@1"]
    seen = f"{known:.0f} % of the answers in training are right, and {others:.0f} % on held-out tasks."
    return seen, f"{course.again('pool=null')} (more distinct tasks; with a file of data, more rows)"


@rule("noisy-evaluation", "Held-out pass@1 has changed visibly, and chance alone changes it as much.", least=3)
def NOISY_EVALUATION(course: Course) -> Verdict:
    measured = course.evaluations
    if len(measured) < 2 or not course.ended:
        return None
    first, last = measured[0], measured[-1]
    difference = last["eval.pass@1"] - first["eval.pass@1"]
    halves = [(m["eval.pass@1.high"] - m["eval.pass@1.low"]) / 2 for m in (first, last)]
    error, tasks = math.hypot(*halves), course.setting.eval_tasks
    if not WORTH_KNOWING <= abs(difference) < error:  # a smaller change is not read as one
        return None
    needed = tasks_needed(tasks, error / math.sqrt(2), abs(difference))
    changed = f"Held-out pass@1 changed by {difference:+.3f} ± {error:.3f} ({tasks} tasks)"
    seen = f"{changed}: {needed:,} tasks would tell whether it has."
    return seen, f"podium eval {course.setting.run} --compare --tasks {needed}"
