"""Whether texts and episodes end as they should."""

from __future__ import annotations

from podium.analysis.health.course import Course
from podium.analysis.health.rule import Verdict, rule

__all__ = ["CONTEXT_FULL", "INVALID_ACTIONS", "LENGTH_EXPLOSION", "TRUNCATION", "TURN_LIMIT"]


@rule("length-explosion", "Longer answers cost time in proportion, and nothing is gained by them here.")
def LENGTH_EXPLOSION(course: Course) -> Verdict:
    now, before = course.recent("length"), course.first("length")
    right, was_right = course.recent("pass@1") or 0.0, course.first("pass@1") or 0.0
    if now is None or not before or now < 2 * before or (course.rise("length") or 9) < 3 or right > was_right + 0.1:
        return None
    rates = f"{100 * right:.0f} % are right (before: {100 * was_right:.0f} %)"
    remedy = f"podium train dr-grpo --world {course.setting.world} (no division by length), or dapo (a penalty for it)"
    return f"Answers grew from {before:.0f} to {now:.0f} tokens, and {rates}.", remedy


@rule("truncation", "An answer that is cut off is wrong whatever it was about to say.", least=3)
def TRUNCATION(course: Course) -> Verdict:
    # Limits of turns and of the context count as truncation too, and have rules of their own.
    cut = course.recent("truncated")
    others = sum(course.recent(f"stop.{reason}") or 0.0 for reason in ("turns", "context"))
    if cut is None or cut - others < 0.25:
        return None
    longer = course.again(f"max_tokens={2 * course.setting.max_tokens}")
    return f"{100 * cut:.0f} % of the answers were cut at max_tokens = {course.setting.max_tokens}.", longer


@rule("turn-limit", "An episode that ends by the limit earns nothing, however well it went.", least=3)
def TURN_LIMIT(course: Course) -> Verdict:
    cut, turns = course.recent("stop.turns"), course.recent("turns") or 1.0
    if cut is None or cut < 0.7:
        return None
    return f"{100 * cut:.0f} % of the episodes ended by the limit of turns.", course.again(
        f"max_turns={round(2 * turns)}"
    )


@rule("context-full", "What no longer fits in the context is lost, and so is the episode.", least=3)
def CONTEXT_FULL(course: Course) -> Verdict:
    cut = course.recent("stop.context")
    if cut is None or cut < 0.1:
        return None
    seen = f"{100 * cut:.0f} % of the episodes ended because the model's context was full."
    shorter = course.again(f"max_tokens={max(course.setting.max_tokens // 2, 1)}")
    return seen, f"{shorter} (shorter turns), or a context that forgets, such as Draw(context=Window(2))"


@rule("invalid-actions", "What the world cannot read changes nothing in it: turns are spent on the format.")
def INVALID_ACTIONS(course: Course) -> Verdict:
    invalid = course.recent("invalid")
    if invalid is None or invalid < 0.6:
        return None
    seen = f"{100 * invalid:.0f} % of the actions were not valid."
    return seen, f"podium train sft --world {course.setting.world} first, then train on with --model RUN"
