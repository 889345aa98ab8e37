"""Methods: parts, memories and roles as one value that composes, prints, and checks itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from podium.core import serial
from podium.core.errors import PodiumError, nearest, within
from podium.core.facts import RunFacts
from podium.core.memory import Memory, State
from podium.core.part import Advantage, Annotate, Keep, Metric, Part, Reward, Select, Shape, Strategy
from podium.core.term import Term
from podium.core.updates import Updates
from podium.core.value import Clock, Value, check_settings, opening
from podium.method.protocol import Protocol

if TYPE_CHECKING:
    from podium.method.check import Finding
    from podium.method.phases import Phase
    from podium.method.until import Until

__all__ = ["STAGES", "Method", "Role"]

# In the order of the training loop; those in LISTS hold several parts.
STAGES = (
    "select",
    "rollout",
    "annotate",
    "reward",
    "keep",
    "advantage",
    "shape",
    "objective",
    "updates",
    "metric",
)
LISTS = ("annotate", "reward", "keep", "shape", "objective", "metric")


class Role(Value):
    """A model other than the policy: where its weights come from and how they change.

    A role that a term of the objective trains (`trains="critic"`) is a learner with its own optimiser; it has a value
    head if a term that trains it reads the signal `value`. Other roles are never trained. A role with `refresh` is a
    past self of the policy; with `keep` it has a memory of the last ones, the newest of which scores texts.
    """

    name: str  # ref, critic, teacher, …
    # initial (the policy's first weights), phase (its weights when the phase began), policy (a view of it), critic (a
    # copy of that role), flow, quality (small networks on the policy's hidden states), or a model's path
    source: str = "initial"
    decay: float | None = None  # of an exponential moving average of its source, per update; None: frozen, or trained
    context: str | None = None  # a column of contexts under which it sees the tokens, such as turn.sibling.context
    heads: int = 1  # value heads: 1 is a linear head that starts at 0, more are small networks
    frozen: bool = False  # only its value heads are trained; the model under them stays as it is
    lr: float | None = None  # learning rate, where it is trained; None: that of the policy times `lr_ratio`
    lr_ratio: float = 1.0  # of its learning rate to the policy's
    # When it becomes a copy of the policy again: "phase" (when one begins) or every so many iterations; None: never.
    refresh: int | str | None = None
    keep: int = 1  # so many of the last copies; for each group one of them is drawn, where it writes

    @property
    def copies(self) -> tuple[str, ...]:
        """The names of its models, the newest first."""
        return (self.name, *(f"{self.name}.{age}" for age in range(1, self.keep)))

    def __post_init__(self) -> None:
        within(self, "heads", 1)
        within(self, "lr", 0, open_low=True, optional=True)
        within(self, "lr_ratio", 0, open_low=True)
        within(self, "decay", 0, 1, optional=True)
        within(self, "keep", 1)
        if isinstance(self.refresh, str) and self.refresh != "phase":
            raise PodiumError(f"Role.refresh = {self.refresh!r}: give a number of iterations, or 'phase'.")
        if self.refresh != "phase":
            within(self, "refresh", 1, optional=True)
        if self.refresh is None and self.keep > 1:
            raise PodiumError(
                f"Role {self.name!r} keeps {self.keep} copies of the policy: say when one is made (refresh)."
            )
        if self.refresh is not None and (self.source != "initial" or self.decay is not None):
            raise PodiumError(
                f"Role {self.name!r} is refreshed from the policy, so it begins as its initial weights: leave source "
                "and decay out."
            )
        if self.decay is not None and self.source not in ("initial", "policy", "critic"):
            raise PodiumError(
                f"Role {self.name!r} is a moving average of the policy or of the critic, so its source cannot be "
                f"{self.source!r}."
            )


class Method(Value):
    """The parts of each stage of the training loop, with the memories and roles that they need."""

    name: str = ""
    summary: str = ""
    citation: str = ""
    select: Select | None = None
    rollout: Strategy | None = None
    annotate: tuple[Annotate, ...] = ()
    reward: tuple[Reward, ...] = ()
    keep: tuple[Keep, ...] = ()
    advantage: Advantage | None = None
    shape: tuple[Shape, ...] = ()
    objective: tuple[Term, ...] = ()
    updates: Updates = Updates()
    metric: tuple[Metric, ...] = ()
    memories: tuple[Memory, ...] = ()
    roles: tuple[Role, ...] = ()
    protocol: Protocol | None = None  # how its authors train it; None: a run has Podium's own defaults

    def __post_init__(self) -> None:
        for name in (*LISTS, "memories", "roles"):
            if not isinstance(getattr(self, name), tuple):  # a single part stands for a list of one
                object.__setattr__(self, name, (getattr(self, name),))
        for stage in STAGES:
            held = getattr(self, stage)
            for part in held if stage in LISTS else [] if held is None else [held]:
                if not isinstance(part, Part) or part.stage != stage:
                    raise PodiumError(f"{part!r} is not a part of the stage {stage!r}.")
        for name, kind in (("memories", Memory), ("roles", Role)):
            for item in getattr(self, name):
                if not isinstance(item, kind):
                    raise PodiumError(f"{item!r} is not one of the method's {name}: give a {kind.__name__}.")

    # -- composition -----------------------------------------------------------------------------------------------

    def with_(self, **stages: Any) -> Method:
        """The method with whole stages replaced; a single part may stand for a list of one."""
        return self.replace(**stages)

    def __or__(self, other: Part | Memory | Role) -> Method:
        """Add a part: it replaces the one at its stage, or the one of its class where the stage holds a list."""
        if isinstance(other, Role):
            return self.replace(roles=(*(r for r in self.roles if r.name != other.name), other))
        if isinstance(other, Memory):
            return self.replace(memories=_replaced(self.memories, other))
        if not isinstance(other, Part) or other.stage not in STAGES:
            raise PodiumError(f"{other!r} is not a part, a memory or a role, so it cannot join a method.")
        if other.stage in LISTS:
            return self.replace(**{other.stage: _replaced(getattr(self, other.stage), other)})
        return self.replace(**{other.stage: other})

    def insert(self, part: Part, *, before: type[Part]) -> Method:
        """Add a part to its stage's list just before the first part of class `before`."""
        if not isinstance(part, Part) or part.stage not in LISTS:
            raise PodiumError(f"{part!r} does not belong to a stage that holds a list: use method | part.")
        held = getattr(self, part.stage)
        for place, old in enumerate(held):
            if isinstance(old, before):
                return self.replace(**{part.stage: (*held[:place], part, *held[place:])})
        names = ", ".join(type(p).__name__ for p in held) or "nothing"
        raise PodiumError(f"The stage {part.stage!r} has no {before.__name__} to insert before; it holds {names}.")

    def set(self, path: str, value: Any) -> Method:
        """The method with one setting changed: `advantage.scale`, `objective.KL.coefficient`, `updates.epochs`.

        Of several parts of one class all are changed, or one by its number: `objective.PolicyGradient[1].clip`.
        """
        head, _, rest = path.partition(".")
        if head not in self.field_names() or not rest:
            of_strategy = self.rollout is not None and head in self.rollout.field_names()
            meant = f"Did you mean 'rollout.{path}'?" if of_strategy else nearest(head, STAGES)
            raise PodiumError(f"{path!r} does not name a setting. {meant} Example: objective.KL.coefficient.")
        held = getattr(self, head)
        if not isinstance(held, tuple):
            return self.replace(**{head: _changed(held, rest, value, head)})
        label, _, rest = rest.partition(".")
        name, _, number = label.removesuffix("]").partition("[")
        places = [i for i, part in enumerate(held) if type(part).__name__ == name]
        if number:
            places = places[int(number) : int(number) + 1] if number.isdigit() else []
        if not places or not rest:
            raise PodiumError(f"{head!r} has no part {label!r}. {nearest(name, [type(p).__name__ for p in held])}")
        new = [_changed(p, rest, value, name) if i in places else p for i, p in enumerate(held)]
        return self.replace(**{head: tuple(new)})

    # -- reading ---------------------------------------------------------------------------------------------------

    def parts(self) -> Iterable[Part]:
        """All parts in the order of the loop."""
        for stage in STAGES:
            held = getattr(self, stage)
            yield from (held if stage in LISTS else [held] if held is not None else [])

    @property
    def remembers_tasks(self) -> bool:
        """Whether a memory recalls something of single tasks, so that it acts only if tasks come back."""
        return any(memory.remembers_tasks for memory in self.memories)

    def describe(self) -> str:
        """Stages, parts with their formulas, and citations, as text."""
        lines = [f"{self.name}: {self.summary}" if self.summary else self.name]
        if self.citation:
            lines.append(f"  {self.citation}")
        for part in self.parts():
            formula = opening(part)
            lines += [f"  {part.stage:<10} {part!r}", f"  {'':<10}   {formula}" if formula else ""]
        for memory in self.memories:
            lines.append(f"  {'memory':<10} {memory!r}")
        for role in self.roles:
            lines.append(f"  {'role':<10} {role!r}")
        return "\n".join(line for line in lines if line)

    # -- as a phase among others: see podium.method.phases -----------------------------------------------------------

    def until(self, *ends: int | Until) -> Phase:
        """This method as a phase that ends after a number of iterations, or when `Reached` or `Plateau` holds."""
        from podium.method.phases import Phase

        return Phase(self, ends)  # type: ignore[arg-type]

    def leaves(self) -> Iterable[Method]:
        """The plain methods that it consists of."""
        yield self

    def each(self, change: Callable[[Method], Method]) -> Method:
        """The same with `change` applied to every plain method."""
        return change(self)

    def main(self) -> Method:
        """The plain method whose protocol is that of the run: of phases the last one."""
        return self

    def start(self) -> State:
        """The progress at the start of a run: a plain method has none."""
        return {}

    def advance(self, clock: Clock, metrics: Mapping[str, Any]) -> State:
        """The progress after an iteration with these metrics; `clock` counts that iteration as done."""
        return dict(clock.progress)

    def begins_fresh(self, progress: State) -> bool:
        """Whether the phase that begins at this progress has new optimisers."""
        return False

    def to_yaml(self) -> str:
        """Complete and readable; `Method.from_yaml` gives an equal method back."""
        return serial.to_yaml(self)

    @classmethod
    def from_yaml(cls, text: str, *, trust: bool = False) -> Method:
        """The method of a YAML text. Code that it names must stand in the current project, unless `trust`."""
        method = serial.read_value(cls, text, trust=trust)
        if not method.name:
            raise PodiumError("Method needs the setting 'name'.")
        return method

    def check(
        self, columns: Iterable[str] = (), *, signals: Iterable[str] | None = None, facts: RunFacts | None = None
    ) -> list[Finding]:
        """Errors (the method cannot work) and warnings (it may not do what it says). See `podium.method.check`."""
        from podium.method.check import check_method

        return check_method(self, columns, signals, facts)


def _replaced(held: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
    alike = [place for place, old in enumerate(held) if type(old) is type(new)]
    if len(alike) > 1:
        name = type(new).__name__
        raise PodiumError(f"The method has {len(alike)} parts of class {name}: say which with with_(...) or set(...).")
    return (*held[: alike[0]], new, *held[alike[0] + 1 :]) if alike else (*held, new)


def _changed(held: Any, path: str, value: Any, owner: str) -> Any:
    """`held` with the field at `path` changed."""
    name, _, rest = path.partition(".")
    if not isinstance(held, Value):
        raise PodiumError(f"{owner} holds {held!r}, which has no setting {name!r}.")
    check_settings(type(held), [name], owner)
    return held.replace(**{name: _changed(getattr(held, name), rest, value, name) if rest else value})
