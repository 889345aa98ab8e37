"""What each part of a method does: the method with one part replaced by what does nothing in its place.

`replacements` lists those methods. `podium.sessions.probe` trains each of them under the same random numbers as the
method itself and measures how far the weights move apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from podium.core.activity import label
from podium.core.columns import INHERITED
from podium.core.memory import Memory
from podium.core.part import Metric, Part, Strategy
from podium.core.term import Term
from podium.core.updates import Updates
from podium.method import Method
from podium.method.check import ALWAYS
from podium.method.method import LISTS
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Draw, Sample

__all__ = ["Replacement", "parent", "relative_distance", "replacements", "weight_vector"]


@dataclass(frozen=True)
class Replacement:
    """A method with one part replaced."""

    part: str  # the part's name, such as shape.Whiten; in phases with the number of its method in front
    by: str  # what stands in its place, and which parts went with it
    method: Method | None  # None: the part cannot be replaced
    reason: str = ""  # why it cannot


def relative_distance(one: Tensor, other: Tensor, start: Tensor) -> float:
    """‖one − other‖ / ‖one − start‖: how far two updates from `start` are apart, as a share of the first."""
    apart, moved = float((one - other).norm()), float((one - start).norm())
    return 0.0 if apart == 0 else apart / moved if moved else float("inf")


def parent(method: Method) -> Method:
    """GRPO with the method's rollouts per task, sampling temperature and updates: what most methods extend."""
    main = method.main()
    return Method(
        "parent",
        rollout=_usual_strategy(main.rollout or Sample()),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(0.2, 0.2)),),
        updates=Updates(main.updates.passes, main.updates.mini_batches),
        protocol=main.protocol,
    )


def replacements(method: Method, columns: Iterable[str]) -> Iterator[Replacement]:
    """The method without each of its parts in turn: its neutral form in its place, or nothing, or what is usual there.

    Parts that read columns which only the replaced one writes are replaced with it. `columns` are those of
    the world.
    """
    have = {*ALWAYS, *columns}

    def refusals(changed: Method) -> list[str]:
        return [finding.message for finding in changed.check(have) if finding.kind == "error"]

    leaves = list(method.leaves())
    known = set(refusals(method))
    for number, leaf in enumerate(leaves):
        prefix = f"{number}." if len(leaves) > 1 else ""
        for item in _probed(leaf):
            if _without(leaf, item) is None:
                continue
            changed, gone = _closed(leaf, item, have)
            name = prefix + label(item)
            neutral = None if isinstance(item, Memory) else _neutral(item)
            in_its_place = "nothing" if neutral is None else repr(neutral)
            also = [type(other).__name__ for other in gone if other is not item]
            with_them = f"; {', '.join(also)} with it" if also else ""
            whole = None if changed is None else _exchanged(method, number, changed)
            wrong = [] if whole is None else [text for text in refusals(whole) if text not in known]
            if changed is None or whole is None or wrong:
                yield Replacement(name, "–", None, wrong[0] if wrong else "another part cannot do without it")
            else:
                yield Replacement(name, in_its_place + with_them, whole)


def _probed(method: Method) -> Iterable[Part | Memory]:
    """What can be replaced: everything that acts on the training, and each only once."""
    yield from (part for part in method.parts() if not isinstance(part, Metric))
    yield from method.memories


def _usual_strategy(strategy: Strategy) -> Strategy:
    """Plain sampling of as many rollouts at the same temperature."""
    neutral = strategy.neutral
    if isinstance(neutral, Strategy):
        return neutral
    return Sample(n=strategy.n or Sample().n, draw=Draw(temperature=strategy.temperature))


def _neutral(part: Part, lost: Collection[str] = ()) -> Part | None:
    """What stands in a part's place and does not read what is `lost`; None: nothing."""
    if isinstance(part, Strategy):
        return _usual_strategy(part)
    usual = {"advantage": Normalize(), "updates": Updates()}.get(part.stage)
    options = [option for option in (part.neutral, usual) if option is not None and not _reads(option, lost)]
    return options[0] if options else None


def _reads(part: Part | Memory, columns: Collection[str]) -> bool:
    marked = isinstance(part, Term) and part.where in columns
    return marked or any(need in columns for need in part.needs if isinstance(need, str))


def _without(method: Method, item: Part | Memory, lost: Collection[str] = ()) -> Method | None:
    """The method with one part replaced; None where it is as plain as can be, or its only term."""
    if isinstance(item, Memory):
        return method.replace(memories=tuple(m for m in method.memories if m is not item))
    held = getattr(method, item.stage)
    neutral = _unmarked(item, held) if isinstance(item, Term) and item.where in lost else _neutral(item, lost)
    if neutral == item:
        return None
    if item.stage not in LISTS:
        return method.replace(**{item.stage: neutral})
    new = tuple(x for part in held for x in ((part,) if part is not item else () if neutral is None else (neutral,)))
    if item.stage == "objective" and not any(isinstance(x, Term) and x.trains == "policy" for x in new):
        return None
    return method.replace(**{item.stage: new})


def _unmarked(term: Term, held: Iterable[Term]) -> Term | None:
    """A term on marked elements where nobody marks them any more: on all of them, unless there is such a term or it
    trains another model."""
    there = any(type(other) is type(term) and other.where is None for other in held)
    return None if there or term.trains != "policy" else term.replace(where=None)


def _closed(method: Method, item: Part | Memory, have: Collection[str]) -> tuple[Method | None, list[Part | Memory]]:
    """The method without a part and without all that read what only it has written; and these."""
    gone: list[Part | Memory] = []
    due: list[Part | Memory] = [item]
    changed: Method | None = method
    lost: set[str] = set()
    while due and changed is not None:
        current = due.pop(0)
        gone.append(current)
        changed = _without(changed, current, lost)
        if changed is None:
            break
        lost |= _lost(current.provides, changed, have)
        readers = [other for other in _everything(changed) if _reads(other, lost) and not isinstance(other, Metric)]
        due += [other for other in readers if not any(other is x for x in (*gone, *due))]
    if changed is not None:
        changed = _without_idle(changed, method, have)
    return changed, gone


def _lost(columns: Iterable[str], method: Method, have: Collection[str]) -> set[str]:
    """Those of these columns that the method no longer has; one that levels inherit it has at any level."""
    written = {*have, *(name for other in _everything(method) for name in other.provides)}
    names = {name.partition(".")[2] for name in written} & set(INHERITED)
    return {column for column in columns if column not in written and column.partition(".")[2] not in names}


def _everything(method: Method) -> list[Part | Memory]:
    return [*method.parts(), *method.memories]


def _without_idle(changed: Method, before: Method, have: Collection[str]) -> Method:
    """The method without metrics that report columns which nobody writes any more."""
    lost = _lost([name for other in _everything(before) for name in other.provides], changed, have)
    return changed.replace(metric=tuple(m for m in changed.metric if not _reads(m, lost)))


def _exchanged(method: Method, number: int, leaf: Method) -> Method:
    """The method with another one in the place of its `number`-th leaf."""
    count = iter(range(len(list(method.leaves()))))
    return method.each(lambda old: leaf if next(count) == number else old)


def weight_vector(tensors: Iterable[Tensor]) -> Tensor:
    """All weights as one vector."""
    return torch.cat([t.detach().double().reshape(-1).cpu() for t in tensors])
