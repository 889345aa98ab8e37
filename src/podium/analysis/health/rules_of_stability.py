"""Whether the policy moves as it should: not too far, not too little, and in one piece."""

from __future__ import annotations

import statistics

from podium.analysis.health.course import RECENT, Course
from podium.analysis.health.rule import Verdict, rule

__all__ = [
    "DIVERGED",
    "ENTROPY_COLLAPSE",
    "ENTROPY_EXPLOSION",
    "KL_RUNAWAY",
    "LEARNING_RATE_HIGH",
    "LEARNING_RATE_LOW",
    "NOT_FINITE",
    "SAMPLER_GAP",
]


def _slower(course: Course, factor: float = 0.2) -> str:
    return course.again(f"optimizer.lr={course.setting.lr * factor:.2g}")


def _best(values: list[float]) -> float:
    """The best mean of as many iterations as are recent."""
    windows = [values[i : i + RECENT] for i in range(len(values) - RECENT + 1)]
    return max(map(statistics.fmean, windows), default=0.0)


@rule("diverged", "What the model could do before is gone; further training seldom brings it back.", least=3)
def DIVERGED(course: Course) -> Verdict:
    measured, right = course.measured, course.values("pass@1")
    resumed = f"{_slower(course)} (or resume from an earlier checkpoint with a lower learning rate)"
    if len(measured) > 1 and measured[-1]["eval.pass@1.high"] < measured[0]["eval.pass@1.low"]:
        before, now = (m["eval.pass@1"] for m in (measured[0], measured[-1]))
        return f"Held-out pass@1 is {now:.3f}; before training it was {before:.3f}.", resumed
    now, best = course.recent("pass@1"), _best(right)
    if now is None or best < 0.1 or now > 0.4 * best:
        return None
    return f"{100 * now:.0f} % of the answers are right, after {100 * best:.0f} % at its best.", resumed


@rule("not-finite", "A NaN or an infinity in one place is in all weights an update later.", least=1)
def NOT_FINITE(course: Course) -> Verdict:
    last = course.trained[-RECENT:]
    names = sorted(
        {k.removeprefix("not_finite.") for line in last for k, v in line.items() if "not_finite." in k and v}
    )
    if not names:
        return None
    seen = f"Infinite or undefined in the last {RECENT} iterations: {', '.join(names)}."
    return seen, f"{course.again(f'optimizer.lr={course.setting.lr * 0.2:.2g}', 'dtype=float32')}"


@rule("learning-rate-high", "Each update undoes what the others have learnt: reward becomes noise, or falls.", least=3)
def LEARNING_RATE_HIGH(course: Course) -> Verdict:
    signs = []
    moved = [abs(x) for x in course.values("approx_kl")]
    now = statistics.fmean(moved[-RECENT:]) if moved else 0.0
    clipped = course.recent("clip_fraction")
    if clipped is not None and clipped > 0.4 and now > 0.01:  # narrow clips, as of whole sequences, act at every step
        signs.append(f"{100 * clipped:.0f} % of the tokens reach the clip")
    if moved and (max(moved) > 0.5 or now > 0.1):
        signs.append(f"the updates of an iteration moved the policy by up to {max(moved):.2g} nats per token")
    norms = course.values("grad_norm.policy")
    usual = statistics.median(norms[:RECENT]) if norms else 0.0
    if usual and max(norms) > 30 * min(usual, norms[0]):
        signs.append(f"the gradient norm rose from {min(usual, norms[0]):.2g} to {max(norms):.2g}")
    if not signs:
        return None
    return f"With a learning rate of {course.setting.lr:g}, {' and '.join(signs)}.", _slower(course)


@rule("learning-rate-low", "The run costs what it costs and the model stays where it was.", least=12)
def LEARNING_RATE_LOW(course: Course) -> Verdict:
    far, moved = course.recent("kl.ref"), course.values("approx_kl")
    several = (course.recent("updates") or 0) > 1
    still = (far is not None and far < 2e-4) or (far is None and several and max(map(abs, moved), default=1) < 1e-5)
    measured = course.measured
    rose = len(measured) > 1 and measured[-1]["eval.pass@1.low"] > measured[0]["eval.pass@1.high"]
    if not still or rose or (course.rise("reward") or 0) > 3:
        return None
    what = f"KL to the first weights is {far:.1g}" if far is not None else "importance ratios stay at 1"
    seen = f"After {len(course.trained)} iterations with a learning rate of {course.setting.lr:g} {what}."
    return seen, course.again(f"optimizer.lr={course.setting.lr * 10:.2g}")


@rule("kl-runaway", "Far from the first weights a reward is easily gained by text that no person would accept.")
def KL_RUNAWAY(course: Course) -> Verdict:
    values = course.values("kl.ref")
    now = course.recent("kl.ref")
    if now is None or now < 0.5 or len(values) < 2 * RECENT:
        return None
    before = statistics.fmean(values[-2 * RECENT : -RECENT])
    if now < 1.3 * before and now < 2.0:
        return None
    seen = f"KL to the reference is {now:.2f} nats per token, and was {before:.2f} {RECENT} iterations before."
    return seen, f"{_slower(course, 0.3)} (or a larger coefficient of KL)"


@rule("sampler-gap", "If sampler and trainer disagree on probabilities, ratios and clips act on noise.", least=3)
def SAMPLER_GAP(course: Course) -> Verdict:
    gap, weight = course.recent("sampler_gap"), course.recent("weight.importance")
    if gap is not None and gap > 0.3 * course.setting.gap_allowed:
        seen = f"Log-probabilities of sampler and trainer differ by {gap:.2g} on average."
        return seen, course.again("dtype=float32")
    if weight is None or 0.8 < weight < 1.25:
        return None
    return f"The mean importance weight of the sampler is {weight:.2f}, not 1.", course.again("dtype=float32")


@rule("entropy-collapse", "A policy that always says the same explores nothing: groups become flat and learning stops.")
def ENTROPY_COLLAPSE(course: Course) -> Verdict:
    now, before, right = course.recent("entropy"), course.first("entropy"), course.recent("pass@1") or 0.0
    if now is None or not before or now > 0.12 * before or right >= 0.9:
        return None
    seen = f"Entropy fell from {before:.3f} to {now:.4f} nats per token, with {100 * right:.0f} % of the answers right."
    return (
        seen,
        f"podium train dapo --world {course.setting.world} (clip-higher), or a lower learning rate: {_slower(course)}",
    )


@rule("entropy-explosion", "Text becomes random: rewards come by luck, and the model forgets how to write.")
def ENTROPY_EXPLOSION(course: Course) -> Verdict:
    now, before = course.recent("entropy"), course.first("entropy")
    if now is None or before is None or now < 2.5 * before or now < before + 0.4:
        return None
    if (course.rise("pass@1") or 0) > 3:
        return None
    return f"Entropy rose from {before:.2f} to {now:.2f} nats per token, and the answers are no better.", _slower(
        course
    )
