"""Teams of agents by rule: which of them may talk to which is chosen, or a whole team is built, for each query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from random import Random
from typing import Any, ClassVar

from podium.core.errors import PodiumError, within
from podium.protocols.context import Latest
from podium.protocols.option_set import LINKS, PAIRS, OptionRow, OptionSet, choice_of
from podium.protocols.world import Episode, Feedback, Task, World
from podium.worlds.puzzle import Draft, Procedural
from podium.worlds.team_rules import QUERIES, ROLES, Team, answers_right

__all__ = ["TeamWorld"]

# The agents of each level, in the order in which they speak.
MEMBERS = {
    1: ("reader", "counter", "liar", "solver", "writer"),
    2: ("reader", "counter", "liar", "idler", "solver", "writer"),
    3: ("reader", "counter", "checker", "liar", "idler", "solver", "writer"),
}
STEPS = 8  # actions of one that builds a team
FREE = 3  # agents that may be added before each costs something
DUPLICATE, TURNED_RIGHT, ADDED = -1.0, 0.5, -0.1  # rewards of an action, beside the answer's
NOTHING: dict[str, Any] = {"correct": False, "answer": "", "edges": 0.0, "redundant": 0.0, "action_reward": 0.0}
INVALID = Feedback(state="invalid", info={**NOTHING, "valid": False})  # what cannot be chosen ends the episode


class TeamWorld(Procedural):
    """A query needs what some agents know to reach the writer; a liar misleads it, and many messages are overheard.

    The agents are fixed, and it is chosen for every two of them whether the earlier one talks to the later. With
    `build`, a host adds agents one by one with the links to them, deletes the last one, or exits;
    `turn.action_reward` is then what the action is worth by itself: −1 for an agent that is there already or comes
    after the writer, 0.5 where the answer turned right, −0.1 for every agent beyond the third. `rollout.edges` counts
    links, `rollout.redundant` is the share of agents without whom the answer is the same.
    """

    name = "team"
    summary = "choose which agents of a team talk to each other, or build the team, so that it answers a query"
    levels = tuple(MEMBERS)
    provides = (
        *World.provides,
        "rollout.edges",
        "rollout.redundant",
        "task.options",
        "turn.valid",
        "turn.action_reward",
        "turn.reward",
    )
    blank: ClassVar[Mapping[str, Any]] = {"edges": 0.0, "redundant": 0.0, "action_reward": 0.0}
    max_tokens = 64
    max_turns = STEPS
    context = Latest()

    build: bool = False  # whether the team is built by a host
    overload: float = 0.06  # how much likelier a message is missed for each further one that its hearer gets

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "overload", 0, 1)

    @property
    def family(self) -> str:
        return f"{self.name}-{self.level}" + ("-build" if self.build else "")

    def draft(self, rng: Random) -> Draft:
        query, first, second = rng.choice(list(QUERIES)), rng.randrange(10, 100), rng.randrange(10, 100)
        text = f"query: {query} {first} {second}"
        return Draft(text, text, {"query": query})

    def prompt(self, draft: Draft) -> str:
        query = draft.data["query"]
        return f"{draft.question}\n{self.host_options(Team(), query) if self.build else self.agents_shown(query)}"

    def agents_shown(self, query: str) -> OptionSet:
        """The agents of the level, of which every two are a choice."""
        return OptionSet(PAIRS, tuple(OptionRow(role, _numbers(role, query)) for role in MEMBERS[self.level]))

    def host_options(self, team: Team, query: str) -> OptionSet:
        """The roles that can be added, delete and exit; and the agents that are there, from which links may lead."""
        roles = [OptionRow(role, (*_numbers(role, query), 0, 0, 0, 0)) for role in MEMBERS[self.level]]
        placed = [
            OptionRow(f"{role} {n + 1}", (*_numbers(role, query), 0, 0, 1, (n + 1) / STEPS), "source")
            for n, role in enumerate(team.roles)
        ]
        delete = OptionRow("delete", (*_numbers("", query), 1, 0, 0, 0), "final" if len(team.roles) > 1 else "shown")
        leave = OptionRow("exit", (*_numbers("", query), 0, 1, 0, 0), "final" if team.roles else "shown")
        return OptionSet(LINKS, (*roles, delete, leave, *placed))

    def outcome(self, team: Team, query: str, seed: int) -> dict[str, Any]:
        """What comes of a team: whether it is right, and how it is made."""
        right = self.is_right(team, query, seed)
        same = [self.is_right(team.without(n), query, seed) == right for n in range(len(team.roles))]
        return {
            "correct": right,
            "answer": " ".join(f"{a}>{b}" for b, ears in enumerate(team.hears) for a in ears),
            "edges": float(sum(map(len, team.hears))),
            "redundant": sum(same) / max(len(same), 1),
        }

    def is_right(self, team: Team, query: str, seed: int) -> bool:
        return answers_right(team, query, self.overload, str(seed))

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Building(self, task, seed) if self.build else _Wiring(self, task, seed)


class _Wiring(Episode):
    """One turn: which agents talk to which."""

    def __init__(self, world: TeamWorld, task: Task, seed: int) -> None:
        super().__init__(task.prompt, state=task.key)
        self.world, self.task, self.seed = world, task, seed

    def act(self, text: str) -> Feedback:
        members = MEMBERS[self.world.level]
        pairs = list(combinations(range(len(members)), 2))
        chosen = choice_of(text, self.world.agents_shown(self.task.data["query"]))
        if chosen is None:
            return INVALID
        talks = [pair for pair, yes in zip(pairs, chosen, strict=True) if yes]
        team = Team(list(members), [tuple(a for a, b in talks if b == n) for n in range(len(members))])
        info = self.world.outcome(team, self.task.data["query"], self.seed)
        return Feedback(float(info["correct"]), state=self.task.key, info={**NOTHING, **info, "valid": True})


class _Building(Episode):
    """A team in the making."""

    def __init__(self, world: TeamWorld, task: Task, seed: int) -> None:
        super().__init__(task.prompt, state=task.key)
        self.world, self.query, self.seed = world, task.data["query"], seed
        self.team, self.added, self.steps = Team(), 0, 0

    def act(self, text: str) -> Feedback:
        options = self.world.host_options(self.team, self.query)
        choice = choice_of(text, options)
        if choice is None:
            return INVALID
        first, *links = choice
        self.steps += 1
        chosen, was_right = options.rows[first].name, self._right()
        earned = 0.0
        if chosen == "delete":
            self.team = self.team.without(len(self.team.roles) - 1)
        elif chosen != "exit":
            earned = self._add(chosen, links)
        if self._right() and not was_right:
            earned += TURNED_RIGHT
        done = chosen == "exit" or self.steps == STEPS
        info: dict[str, Any] = {"action_reward": earned, "valid": True}
        if not done:
            seen = f"query: {self.query}\n{self.world.host_options(self.team, self.query)}"
            return Feedback(0.0, False, seen, " ".join(self.team.roles), info)
        info |= self.world.outcome(self.team, self.query, self.seed)
        return Feedback(float(info["correct"]), True, state="over", info=info)

    def _add(self, role: str, links: Sequence[int]) -> float:
        """Add an agent; returns what that is worth by itself."""
        useless = role in self.team.roles or "writer" in self.team.roles  # nobody after the writer reaches it
        self.team = Team([*self.team.roles, role], [*self.team.hears, tuple(n for n, yes in enumerate(links) if yes)])
        self.added += 1
        return (DUPLICATE if useless else 0.0) + (ADDED if self.added > FREE else 0.0)

    def _right(self) -> bool:
        return self.world.is_right(self.team, self.query, self.seed)


def _numbers(role: str, query: str) -> tuple[float, ...]:
    """What is known of an agent: its role and the query, each as a mark among all there are."""
    if role and role not in ROLES:
        raise PodiumError(f"There is no role {role!r}.")
    return (*(float(role == name) for name in ROLES), *(float(query == name) for name in QUERIES))
