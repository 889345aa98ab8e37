"""Checks of a method before it runs: unmet needs, and combinations that cancel or repeat each other."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from podium.core.columns import INHERITED
from podium.core.errors import nearest
from podium.core.facts import RunFacts
from podium.core.memory import Memory
from podium.core.part import Need, Part, Select
from podium.core.schedule import Follow, Schedule
from podium.core.signal import SIGNALS, Signal
from podium.core.term import Term
from podium.core.value import Value

if TYPE_CHECKING:
    from podium.method.method import Method

__all__ = ["Finding", "check_method", "known_columns", "met"]

# Columns that every rollout has, in any world.
ALWAYS = (
    "token.id",
    "token.position",
    "token.end",
    "turn.text",
    "turn.observation",
    "rollout.domain",
    "rollout.prompt",
    "rollout.length",
    "rollout.index",
    "rollout.truncated",
    "rollout.reward",
    "rollout.text",
    "turn.context",
    "turn.train_context",
    "group.task",
)
# Columns that annotators write from text (`podium.collect.annotations.registry`), and what each needs from the world.
ANNOTATIONS: dict[str, str | None] = {
    "rollout.sibling": None,
    "turn.sibling.context": None,
    "turn.truncated": None,
    "rollout.solution": "task.solution",
    "turn.solution.context": "task.solution",
    "rollout.points": "task.criteria",
    "rollout.met": "task.criteria",
    "rollout.answer_f1": "task.solution",
    "token.reasoning": "task.solution",
    "rollout.answer.context": "task.solution",
    "rollout.answer.ids": "task.solution",
    "turn.answer.context": "task.solution",
    "turn.answer.ids": "task.solution",
    "turn.blind.context": "turn.reward",  # a world of several turns
    "turn.blind.ids": "turn.reward",
    "turn.informed": "turn.reward",
    **dict.fromkeys(("turn.switch", "turn.done", "turn.reworded"), "turn.reward"),
    **{f"token.plan_{name}": "turn.reward" for name in ("switch", "subgoal", "action", "low")},
}
# What a select part can read of every task, in addition to what the memories recall of it.
OF_TASKS = ("group.domain", "group.domain.code", "group.number", "group.random")
# Abilities of worlds that are not columns, and what to say of a world without them.
ABILITIES = {
    "task.phrasings": "several phrasings of each task, which the world does not have: take the world shop",
    "task.solution": "written solutions, which the world has none of: take an embedded world or a file of JSON lines",
    "task.criteria": "a checklist for each task, which the world has none of: take an embedded puzzle, such as sums, "
    "or a file of JSON lines with world.criteria_field=…",
    "task.steps": "a world that can say where a solution goes wrong: take an embedded puzzle, such as sums",
    "task.dynamics": "a world that is a finite decision process, with exact values: take keydoor or lookup",
    "task.compare": "a judge that compares answers, which the world is not: take the world trips, or another judge",
    "task.views": "several views of each picture, which the world does not have: take digits",
    "task.context": "tasks that can be shown without their question, which the world cannot do: take scenes",
    "task.drawing": "pictures to draw, which the world does not ask for: take the world drawing",
    "task.choices": "tasks with a few answers to choose from, of which the world has none: take badges or scenes",
    "task.options": "sets of options to choose from, which the world does not offer: take the world team",
    "task.rate": "a judge that rates answers, which the world is not: take the world trips, or another judge",
}


# Remedies for missing columns that worlds and judges write, by name at any level.
_STEPS = "Take a world of several turns that names its states and rewards each turn: turn.{} among what it `provides`."
_PROFILED = "Take a world that runs and profiles what is written: turn.{} among what it `provides`."
REMEDIES = {
    "correct": "Take a world that knows right answers: rollout.correct among what it `provides`.",
    "answer": "Take a world that reads the answer in each text: rollout.answer among what it `provides`.",
    "well_formed": "Let the strategy have a format: draw.format.",
    "pair.difference": "Let a judge compare the rollouts of each group in pairs: Arena(topology='round_robin').",
    "informed": "Take a world of several turns: turn.reward among what it `provides`.",
    **{name: _STEPS.format(name) for name in ("state", "next_state", "action", "valid", "calls")},
    "progress": "Take a world that measures progress: keydoor, lookup, tools or clarify with progress=True.",
    **{name: _PROFILED.format(name) for name in ("completed", "speedup")},
    **dict.fromkeys(("picked", "evidence"), "Take a world that knows the evidence, such as lookup, clips or zoom."),
    "coverage": "Take a world that runs and profiles what is written, such as code with profile=True.",
    **dict.fromkeys(("parses", "interface_matches", "passed"), "Take a world that runs what is written, such as code."),
    "step.reward": _STEPS.format("reward"),
}


@dataclass(frozen=True)
class Finding:
    """An error (the method cannot work) or a warning (it may not do what it says)."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def check_method(
    method: Method, columns: Iterable[str] = (), signals: Iterable[str] | None = None, facts: RunFacts | None = None
) -> list[Finding]:
    """Findings for a method on a world that writes `columns`, with a policy that can compute `signals`, and, where the
    `facts` of a run are known, what cannot act in it."""
    have = _given(columns)
    return [
        *_unmet(method, set(have), set(_computed() if signals is None else signals)),
        *_roles(method, have),
        *_no_learner(method),
        *_unfollowed(method),
        *_normalised_twice(method),
        *_two_anchors(method),
        *_constant_rewards(method),
        *_single_rollouts(method),
        *_split_groups(method),
        *(() if facts is None else _inert(method, facts)),
    ]


def _given(columns: Iterable[str]) -> set[str]:
    """What is there before a method: what all rollouts have, the world's columns, and what is read from the texts."""
    have = set(ALWAYS) | set(columns)
    return have | {column for column, need in ANNOTATIONS.items() if need is None or need in have}


def known_columns(method: Method, columns: Iterable[str]) -> frozenset[str]:
    """All columns that there are in a run of a method on a world that writes `columns`."""
    writers: list[Part | Memory] = [*method.parts(), *method.memories]
    probes = [probe for part in method.parts() for probe in part.probes]
    drawn = None if method.rollout is None else method.rollout.format
    of_format = () if drawn is None else drawn.provides
    return frozenset(_given(columns)).union(
        of_format, _seat_columns(method), *(item.provides for item in (*writers, *probes))
    )


def _seat_columns(method: Method) -> set[str]:
    """The columns that say which turns a seat of the strategy has written."""
    return set() if method.rollout is None else {f"turn.by.{seat.role}" for seat in method.rollout.seats}


def _inert(method: Method, facts: RunFacts) -> Iterable[Finding]:
    """What can have no effect in a run of this size; each part and memory knows for itself."""
    facts = replace(facts, updates=method.updates.passes * method.updates.mini_batches)
    readers: list[Part | Memory] = [*method.parts(), *method.memories]
    for part in readers:
        for reason in part.inert(facts):
            yield Finding("warning", f"{part!r} {reason}")
        for schedule in _schedules(part):
            if schedule.length > facts.iterations:
                yield Finding(
                    "warning",
                    f"{schedule!r} of {type(part).__name__} changes until iteration {schedule.length}, and the run has "
                    f"{facts.iterations}: train longer, or shorten it.",
                )


def _computed() -> Iterable[str]:
    """The signals that a policy computes: the functionals of its head that are registered."""
    return SIGNALS


def _unmet(method: Method, have: set[str], signals: set[str]) -> Iterable[Finding]:
    sources = {"sampler", "old", "now"} | {role.name for role in method.roles}
    for memory in method.memories:
        have |= set(memory.provides)
    if method.rollout is not None and method.rollout.format is not None:
        have |= set(method.rollout.format.provides)
    have |= _seat_columns(method)
    # Memories read the batch at the end of the iteration.
    readers: list[Part | Memory] = [*method.parts(), *method.memories]
    have |= set(OF_TASKS)
    reported: set[str] = set()
    for part in readers:
        have = have if isinstance(part, Select) else have - set(OF_TASKS)
        probes = part.probes if isinstance(part, Part) else ()
        have |= {column for probe in probes for column in probe.provides}
        asked = [signal for probe in probes for signal in probe.signals]
        routed = part.routed if isinstance(part, Term) else ()
        for need in (*part.needs, *asked, *routed):
            passage = dict(need.settings).get("passage") if isinstance(need, Signal) else None
            if passage and not met(f"{need.level}.{passage}.ids", have):  # type: ignore[union-attr]
                yield Finding(
                    "error",
                    f"{part!r} scores the passage {passage!r} of each {need.level}, "  # type: ignore[union-attr]
                    "which nothing writes: the world knows no right answer, or the strategy does not ask for it.",
                )
            elif isinstance(need, Signal):
                if need.name not in signals:
                    yield Finding(
                        "error",
                        f"{part!r} needs the signal {need.name!r}, which the policy does not compute. "
                        + nearest(need.name, signals),
                    )
                elif missing := {need.of, *([need.role] if need.role else [])} - sources:
                    (role,) = missing
                    yield Finding(
                        "error", f"{part!r} needs {need!r}, but the method has no role {role!r}: add Role({role!r})."
                    )
            elif (ability := ANNOTATIONS.get(need) or need) in ABILITIES and not {ability, need} & have:
                if ability not in reported:  # once, however many parts need it
                    yield Finding("error", f"{part!r} needs {ABILITIES[ability]}.")
                reported.add(ability)
            elif not met(need, have):
                remedy = REMEDIES.get(need.partition(".")[2]) or REMEDIES.get(need) or nearest(need, have)
                yield Finding("error", f"{part!r} needs the column {need!r}, which nothing before it writes. {remedy}")
        have |= set(part.provides)


def met(need: Need, have: Set[str]) -> bool:
    """Whether a column is available, or follows from one that is."""
    assert isinstance(need, str)
    level, _, rest = need.partition(".")
    if rest.split(".")[0] in INHERITED:  # a finer level inherits it from any coarser one
        return any(x.partition(".")[2] == rest and _height(x) >= _height(need) for x in have)
    return need in have or (level == "step" and f"turn.{rest}" in have)


def _height(column: str) -> int:
    """How high the level of a column is; turns, segments and other steps are alike."""
    return {"token": 0, "rollout": 2, "group": 3, "batch": 4}.get(column.partition(".")[0], 1)


def _roles(method: Method, have: set[str]) -> Iterable[Finding]:
    trained = {term.trains for term in method.objective}
    named = {role.name for role in method.roles}
    for memory in (m for m in method.memories if m.reader and m.reader not in named):
        yield Finding("error", f"{memory!r} asks the role {memory.reader!r}, which the method does not have: add it.")
    asked = () if method.rollout is None else (*method.rollout.roles_asked, *method.rollout.seated)
    for name in dict.fromkeys(asked):
        if name not in {"policy", *named}:
            yield Finding(
                "error", f"{method.rollout!r} asks {name!r}, which is no role of the method: add Role({name!r})."
            )
    for role in method.roles:
        if role.source == "critic" and "critic" not in trained:
            yield Finding("error", f"{role!r} follows the critic, which the method does not train: add Role('critic').")
        if role.decay is not None and role.name in trained:
            yield Finding("error", f"{role!r} is a moving average of the policy, but a term trains it as well.")
        if role.refresh is not None and role.name in trained:
            yield Finding("error", f"{role!r} is a copy of the policy, but a term trains it as well.")
        if role.context is not None and role.context not in have:
            yield Finding("error", f"{role!r} reads the contexts {role.context!r}, which nothing writes.")


def _no_learner(method: Method) -> Iterable[Finding]:
    learners = {"policy"} | {role.name for role in method.roles}
    for term in method.objective:
        if term.trains not in learners:
            yield Finding(
                "error", f"{term!r} trains {term.trains!r}, which the method does not have: add Role({term.trains!r})."
            )


def _unfollowed(method: Method) -> Iterable[Finding]:
    exposed = {name for memory in method.memories for name in memory.scalars(memory.initial())}
    for part in method.parts():
        for follow in _follows(part):
            if follow.name not in exposed:
                yield Finding(
                    "error",
                    f"{part!r} follows {follow.name!r}, which no memory of the method exposes. "
                    + nearest(follow.name, exposed),
                )


def _follows(value: object) -> Iterable[Follow]:
    return (schedule for schedule in _schedules(value) if isinstance(schedule, Follow))


def _schedules(value: object) -> Iterable[Schedule]:
    """The schedules among the settings of a value, at any depth."""
    if isinstance(value, Schedule):
        yield value
    elif isinstance(value, Value):
        for setting in value.settings().values():
            yield from _schedules(setting)
    elif isinstance(value, tuple):
        for item in value:
            yield from _schedules(item)


def _normalised_twice(method: Method) -> Iterable[Finding]:
    twice = [p for p in (method.advantage, *method.shape) if isinstance(p, Part) and p.normalizes]
    if len(twice) > 1:
        names = " and then by ".join(repr(p) for p in twice)
        yield Finding("warning", f"advantages are divided by a spread twice: by {names}.")


def _two_anchors(method: Method) -> Iterable[Finding]:
    terms = [t for t in method.objective if t.holds_to_reference and t.where is None]
    rewards = [r for r in method.reward if any(isinstance(n, Signal) and n.of == "ref" for n in r.needs)]
    if len(terms) + len(rewards) > 1:
        names = " and ".join(repr(p) for p in (*terms, *rewards))
        yield Finding("warning", f"the policy is held to its reference twice: by {names}.")


def _constant_rewards(method: Method) -> Iterable[Finding]:
    cells = () if method.advantage is None else method.advantage.centred_within
    for reward in method.reward:
        if reward.constant_within and cells == (reward.constant_within,):
            yield Finding(
                "warning",
                f"{reward!r} is constant within a {reward.constant_within}, "
                f"so the baseline of {method.advantage!r} removes it.",
            )


def _single_rollouts(method: Method) -> Iterable[Finding]:
    if method.rollout is None or method.rollout.n != 1:
        return
    for term in (t for t in method.objective if t.couples == "group"):
        yield Finding(
            "warning",
            f"{method.rollout!r} makes groups of one, so {term!r} has nothing to compare: sample more, or, if it reads "
            "a file, give it pairs (`kto` takes answers that are judged one by one).",
        )
    advantage = method.advantage
    if advantage is not None and advantage.centred_within == ("group",):
        yield Finding(
            "warning",
            f"{method.rollout!r} makes groups of one, so {advantage!r} has nothing to compare with: sample more.",
        )


def _split_groups(method: Method) -> Iterable[Finding]:
    for term in method.objective:
        if term.couples == "group" and method.updates.unit == "rollout":
            yield Finding(
                "error",
                f"{term!r} compares the rollouts of a group, but {method.updates!r} splits groups: "
                "set updates.unit='group'.",
            )
