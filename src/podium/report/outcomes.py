"""How episodes went: what they came to, and what went wrong in them, in words."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from podium.report.conversation import conversation_page, read_rollouts
from podium.store.run_directory import RunDirectory

__all__ = ["section", "troubles"]

# What is said of episodes of several turns, where a run measures it.
SHARES = {
    "invalid": "of the actions were not valid",
    "stop.turns": "of the episodes ended by the limit of turns",
    "stop.context": "ended by a full context",
}
SHOWN = 2  # rollouts in which the world failed


def troubles(line: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What went wrong in an iteration, by its reason, in a sentence each."""
    sentences, rollouts = [], line.get("rollouts", 0)
    if line.get("eval.failure"):
        share = 100 * line["eval.failed"]
        note = f"The world failed in {share:.0f} % of the held-out rollouts: {line['eval.failure']}."
        sentences.append((line["eval.failure"], note))
    if line.get("failure"):
        note = f"The world failed in {line['failures']:.0f} of {rollouts:.0f} rollouts: {line['failure']}."
        sentences.append((line["failure"], note))
    if line.get("judge.failure"):
        failed, calls, reason = line["judge.failures"], line["judge.calls"], line["judge.failure"]
        sentences.append((reason, f"The judge failed in {failed:.0f} of {calls:.0f} judgements: {reason}."))
    if line.get("contradictions"):
        count = line["contradictions"]
        note = f"{count:.0f} of {rollouts:.0f} rollouts are right and earned nothing: verdict and rewards disagree."
        sentences.append(("contradictions", note))
    if line.get("groups.merged"):
        note = f"In {line['groups.merged']:.0f} groups rewards differ by less than float32 can tell at their size: "
        sentences.append(("groups.merged", f"{note}they count as equal. Subtract a constant or scale them."))
    if line.get("groups.vanished"):
        note = f"In {line['groups.vanished']:.0f} groups rewards differ, and yet all advantages are 0: "
        sentences.append(("groups.vanished", f"{note}the rewards are too large, or differ by too little. Scale them."))
    for name in (name for name in line if name.startswith("not_finite.")):
        note = f"{name.removeprefix('not_finite.')} was infinite or undefined {line[name]:.0f} times: "
        sentences.append((name, f"{note}its mean leaves these values out."))
    if line.get("idle"):
        sentences.append(("idle", f"An agent never acted in {100 * line['idle']:.0f} % of the rollouts."))
    return sentences


def section(directory: RunDirectory, metrics: Sequence[Mapping[str, Any]]) -> str:
    """A report's section on episodes; empty where every rollout is one answer and nothing went wrong."""
    sampled = [line for line in metrics if "rollouts" in line]
    last = next((line for line in reversed(sampled) if "turns" in line), None)
    wrong = "".join(f"<li>{html.escape(note)}</li>" for _, note in troubles(_whole(metrics)))
    if last is None and not wrong:
        return ""
    sentences = []
    if last is not None:
        shares = [f"{100 * last[name]:.0f} % {what}" for name, what in SHARES.items() if name in last]
        sentences = [f"<p>In the last iteration: {last['turns']:.1f} turns on average; {', '.join(shares)}.</p>"]
    failed = next((line for line in reversed(sampled) if line.get("failures")), None)
    return "".join(
        ["<h2>How episodes went</h2>", *sentences, f"<ul>{wrong}</ul>" if wrong else "", _failed(directory, failed)]
    )


def _whole(metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The troubles of all iterations as those of one."""
    counts = ["rollouts", "failures", "judge.calls", "judge.failures", "contradictions"]
    counts += ["groups.merged", "groups.vanished"]
    counts += dict.fromkeys(name for line in metrics for name in line if name.startswith("not_finite."))
    totals: dict[str, Any] = {name: sum(line.get(name, 0) for line in metrics) for name in counts}
    counted = [line for line in metrics if "idle" in line]
    if counted:
        totals["idle"] = sum(line["idle"] * line["rollouts"] for line in counted) / totals["rollouts"]
    for reason in ("failure", "eval.failure", "judge.failure"):
        totals[reason] = next((line[reason] for line in metrics if reason in line), "")
    totals["eval.failed"] = max((line.get("eval.failed", 0.0) for line in metrics), default=0.0)
    return totals


def _failed(directory: RunDirectory, line: Mapping[str, Any] | None) -> str:
    """Rollouts of the last iteration in which the world failed."""
    file = directory.rollouts(line["iteration"]) if line is not None else None
    if file is None or not file.is_file():
        return ""
    failed = [each for each in read_rollouts(file) if each.verdict == "failed"][:SHOWN]
    return "".join(conversation_page(each, directory.path) for each in failed)
