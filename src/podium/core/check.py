"""What is wrong with a method before it runs: needs that nobody meets, and combinations that cancel or double."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from podium.core.batch import INHERITED
from podium.core.errors import nearest
from podium.core.part import Need, Part
from podium.core.signal import Signal
from podium.objective.regularize import KL
from podium.objective.term import COUPLINGS

if TYPE_CHECKING:
    from podium.core.method import Method

__all__ = ["Finding", "check"]

# What every rollout has, whatever the world.
ALWAYS = (
    "token.id",
    "token.position",
    "rollout.length",
    "rollout.index",
    "rollout.truncated",
    "rollout.reward",
    "group.task",
)
SIGNALS = ("logp", "entropy", "value")


@dataclass(frozen=True)
class Finding:
    """One reason: an error (it cannot work) or a warning (it may not do what it says)."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def check(method: Method, columns: Iterable[str] = (), signals: Iterable[str] | None = None) -> list[Finding]:
    """Findings for a method on a world that writes `columns`, with a policy that can compute `signals`."""
    findings: list[Finding] = []
    findings += _unmet(method, set(ALWAYS) | set(columns), set(SIGNALS if signals is None else signals))
    findings += _normalised_twice(method)
    findings += _two_anchors(method)
    findings += _constant_rewards(method)
    findings += _split_groups(method)
    if method.objective and method.advantage is None and any("token.advantage" in t.needs for t in method.objective):
        findings.append(Finding("error", "the objective reads an advantage, but there is no advantage part."))
    return findings


def _unmet(method: Method, have: set[str], signals: set[str]) -> Iterable[Finding]:
    sources = {"sampler", "old", "now"} | {role.name for role in method.roles}
    for memory in method.memories:
        have |= set(memory.provides)
    for part in method.parts():
        for need in part.needs:
            if isinstance(need, Signal):
                if need.name not in signals:
                    yield Finding(
                        "error",
                        f"{part!r} needs the signal {need.name!r}, which the policy does not compute. {nearest(need.name, signals)}",
                    )
                elif need.of not in sources:
                    yield Finding(
                        "error",
                        f"{part!r} needs {need!r}, but the method has no role {need.of!r}: add Role({need.of!r}).",
                    )
            elif not _met(need, have):
                yield Finding(
                    "error",
                    f"{part!r} needs the column {need!r}, which nothing before it writes. {nearest(need, have)}",
                )
        have |= set(part.provides)


def _met(need: Need, have: set[str]) -> bool:
    assert isinstance(need, str)
    level, _, rest = need.partition(".")
    if rest.split(".")[0] in INHERITED:  # a finer level inherits it from any coarser one
        return any(name.partition(".")[2] == rest for name in have)
    return need in have or need.replace("step.", "turn.") in have


def _normalised_twice(method: Method) -> Iterable[Finding]:
    twice = [p for p in (method.advantage, *method.shape) if isinstance(p, Part) and p.normalizes]
    if len(twice) > 1:
        names = " and then by ".join(repr(p) for p in twice)
        yield Finding("warning", f"advantages are divided by a spread twice: by {names}.")


def _two_anchors(method: Method) -> Iterable[Finding]:
    terms = [t for t in method.objective if isinstance(t, KL) and t.where is None]
    rewards = [r for r in method.reward if any(isinstance(n, Signal) and n.of == "ref" for n in r.needs)]
    if len(terms) + len(rewards) > 1:
        names = " and ".join(repr(p) for p in (*terms, *rewards))
        yield Finding("warning", f"the policy is held to its reference twice: by {names}.")


def _constant_rewards(method: Method) -> Iterable[Finding]:
    key = getattr(method.advantage, "key", None)
    for reward in method.reward:
        if reward.constant_within and key == (reward.constant_within,):
            yield Finding(
                "warning",
                f"{reward!r} is constant within a {reward.constant_within}, so the baseline of {method.advantage!r} removes it.",
            )


def _split_groups(method: Method) -> Iterable[Finding]:
    for term in method.objective:
        if COUPLINGS.index(term.couples) >= COUPLINGS.index("group") and method.updates.unit == "rollout":
            yield Finding(
                "error",
                f"{term!r} compares the rollouts of a group, but {method.updates!r} splits groups: set updates.unit='group'.",
            )
