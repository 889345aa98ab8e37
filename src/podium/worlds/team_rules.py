"""A team of agents by rule: who knows what, what passes along links, and what the writer answers in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

__all__ = ["NEEDED", "QUERIES", "ROLES", "Team", "answers_right"]

# What each role does with what it hears; all of them pass on what they know.
ROLES = ("reader", "counter", "liar", "idler", "checker", "solver", "writer")
# What the writer must know to answer each query.
QUERIES = {"find": "fact", "count": "number", "solve": "result"}
NEEDED = {"find": {"reader"}, "count": {"counter"}, "solve": {"reader", "counter", "solver"}}
OWN = {"reader": "fact", "counter": "number", "liar": "lie"}
FAILS = 0.05  # how often a reader or a counter has nothing to say
BELIEVED = 0.9  # how often an answer is wrong if the writer has heard a lie


@dataclass
class Team:
    """Roles in the order in which they speak, and for each the earlier ones that it hears."""

    roles: list[str] = field(default_factory=list)
    hears: list[tuple[int, ...]] = field(default_factory=list)

    def without(self, place: int) -> Team:
        """The team if one of its members were not there."""
        kept = [n for n in range(len(self.roles)) if n != place]
        number = {old: new for new, old in enumerate(kept)}
        return Team(
            [self.roles[n] for n in kept], [tuple(number[i] for i in self.hears[n] if i != place) for n in kept]
        )


def answers_right(team: Team, query: str, overload: float, seed: str) -> bool:
    """Whether the last writer of a team knows the answer, and no lie has misled it.

    Every agent says what it knows and has heard. Of m messages an agent misses each with probability (m − 1) ·
    `overload`. A checker passes no lies on; a solver that has heard the fact and the number knows the result. The same
    seed gives the same luck to the same agents, whatever else is in the team.
    """
    if "writer" not in team.roles:
        return False
    said: list[set[str]] = []
    for role, ears in zip(team.roles, team.hears, strict=True):
        knows = _own(role, seed)
        missed = min((len(ears) - 1) * overload, 1.0)
        for speaker in ears:
            luck = Random(f"{seed}/{team.roles[speaker]}/{role}").random()
            knows |= said[speaker] if luck >= missed else set()
        if role == "checker":
            knows -= {"lie"}
        if role == "solver" and {"fact", "number"} <= knows:
            knows |= {"result"}
        said.append(knows)
    heard = said[_last(team.roles, "writer")]
    misled = "lie" in heard and Random(f"{seed}/believes").random() < BELIEVED
    return QUERIES[query] in heard and not misled


def _own(role: str, seed: str) -> set[str]:
    """What an agent knows by itself."""
    if role not in OWN or (role != "liar" and Random(f"{seed}/{role}").random() < FAILS):
        return set()
    return {OWN[role]}


def _last(roles: Sequence[str], role: str) -> int:
    return max(n for n, name in enumerate(roles) if name == role)
