"""Games of two in which what is best for one is bad for both: the iterated prisoner's dilemma, and splitting coins."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, ClassVar

from podium.core.errors import one_of, within
from podium.protocols.context import Since
from podium.protocols.world import Episode, Task, World
from podium.worlds.table import MoveOutcome, TableEpisode
from podium.worlds.texts.dilemmas import (
    COINS,
    PAYOFFS,
    WORTH,
    DilemmaRound,
    dilemma_prompt,
    dilemma_reply,
    read_message,
    read_move,
    read_share,
    split_prompt,
    split_reply,
)

__all__ = ["Dilemma"]

GAMES = {1: "ipd", 2: "split", 3: "trust-and-split"}  # by level
FIRST, SECOND = "ann", "bob"
# Rivals that the world plays itself: what they do in a round, given what the learner did in the one before.
RIVALS = ("defect", "cooperate", "tit_for_tat")
LONGEST = 100  # characters of an answer that are kept
NEARLY = 0.9  # of the most that both can earn together


class Dilemma(World):
    """Two agents play `rounds` rounds and move at the same time. A move that cannot be read ends the game.

    Level 1 is the iterated prisoner's dilemma. At level 2 both name how many of ten coins they take, which are worth 1
    or 10 to each; if they ask for more than there are, they get shares of what they asked for. At level 3 each says
    first what a coin is worth to it, truly or not. `rollout.cooperation` is what both have earned, as a share of the
    most that they can. With `rival` the world plays the second agent by a rule.

    Each round of coins is told anew, and agents see that round alone, unless `recall` tells them what both took before.
    """

    name = "dilemma"
    summary = "social dilemmas of two: the iterated prisoner's dilemma, and coins to split, with messages or without"
    isolation = "inline"
    levels = (1, 2, 3)
    agents = (FIRST, SECOND)
    context = Since("split:")
    max_tokens = 12
    max_turns = 40
    provides = (
        *World.provides,
        *(
            "turn.agent",
            "turn.reward",
            "turn.state",
            "turn.next_state",
            "turn.action",
            "turn.valid",
            "rollout.cooperation",
        ),
    )
    blank: ClassVar[Mapping[str, Any]] = {"valid": False, "cooperation": 0.0}

    rounds: int = 5
    recall: bool = False  # show the earlier rounds at levels 2 and 3, and what both took
    rival: str = ""  # defect, cooperate or tit_for_tat: who plays the second agent; empty: a seat of the method

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "rounds", 1, 10)
        one_of(self, "rival", ("", *RIVALS))

    def task(self, index: int, split: str = "train") -> Task:
        chance = Random(f"{split}/{index}")
        worths = [[chance.choice(WORTH) for _ in self.agents] for _ in range(self.rounds)]
        game = GAMES[self.level]
        task = Task(f"dilemma-{self.level}/{split}/{index}", "", self.level, game, {"worths": worths})
        return Task(task.key, self.reset(task).observation, self.level, game, task.data)

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Game(self, task.domain, task.data["worths"])


class _Game(TableEpisode):
    def __init__(self, world: Dilemma, game: str, worths: list[list[int]]) -> None:
        self.world, self.game = world, game
        self.worths = [dict(zip(world.agents, each, strict=True)) for each in worths]
        self.played: list[dict[str, Any]] = []  # the moves of each round, by agent
        self.messages: dict[str, str] = {}  # of this round
        self.earned = 0.0  # by both
        self.seen: dict[str, list[str]] = {agent: [] for agent in world.agents}
        super().__init__()

    def to_move(self) -> tuple[str, ...]:
        return (FIRST,) if self.world.rival else self.world.agents

    def view(self, agent: str) -> str:
        other = SECOND if agent == FIRST else FIRST
        last = self.played[-1] if self.played else None
        if self.game == "ipd":
            return dilemma_reply(DilemmaRound(last[agent], last[other])) if last else dilemma_prompt(self.world.rounds)
        if self.messages:
            return split_reply(self.messages[other])
        worth = self.worths[len(self.played)][agent]
        before = f"you took {last[agent]}, other took {last[other]}\n" if last and self.world.recall else ""
        return before + split_prompt(worth, message=self.game != "split")

    def key(self, agent: str) -> str:
        stage = "take" if self.messages else "move"
        return f"{agent}/{self.played}/{stage}/{self.view(agent)}"

    def judge(self, agent: str, text: str) -> Mapping[str, Any]:
        return {"valid": self._read(text) is not None, "answer": text.strip()[:LONGEST]}

    def _read(self, text: str) -> Any:
        """The move in a text; None: it cannot be read."""
        if self.game == "ipd":
            return read_move(text)
        return read_message(text) if self.game != "split" and not self.messages else read_share(text)

    def resolve(self, moves: Mapping[str, str]) -> MoveOutcome:
        read = {agent: self._read(text) for agent, text in moves.items()}
        if any(move is None for move in read.values()):
            return MoveOutcome({}, True, self._verdict())
        if self.world.rival:
            read[SECOND] = self._rival()
        if self.game == "trust-and-split" and not self.messages:
            self.messages = read
            return MoveOutcome(info=self._verdict())
        rewards, self.messages = self._rewards(read), {}
        self.played.append(read)
        self.earned += sum(rewards.values())
        paid = {agent: reward for agent, reward in rewards.items() if agent in moves}
        return MoveOutcome(paid, len(self.played) == self.world.rounds, self._verdict())

    def _rewards(self, read: Mapping[str, Any]) -> dict[str, float]:
        if self.game == "ipd":
            return {
                FIRST: float(PAYOFFS[read[FIRST], read[SECOND]]),
                SECOND: float(PAYOFFS[read[SECOND], read[FIRST]]),
            }
        scale = min(1.0, COINS / max(sum(read.values()), 1))
        worths = self.worths[len(self.played)]
        return {agent: worths[agent] * share * scale for agent, share in read.items()}

    def _rival(self) -> Any:
        """What the world's own player does."""
        kind = self.world.rival
        mirrored = self.played[-1][FIRST] if self.played else None
        if self.game == "ipd":
            return mirrored or "cooperate" if kind == "tit_for_tat" else kind
        if self.game == "trust-and-split" and not self.messages:
            worth = self.worths[len(self.played)][SECOND]
            return str(max(WORTH) if kind == "defect" else worth)
        fair = COINS // 2
        return COINS if kind == "defect" else fair if kind == "cooperate" or mirrored is None else mirrored

    def _verdict(self) -> dict[str, Any]:
        best = 2 * PAYOFFS["cooperate", "cooperate"] * self.world.rounds
        if self.game != "ipd":
            best = sum(COINS * max(each.values()) for each in self.worths)
        share = self.earned / best
        return {"cooperation": share, "correct": share >= NEARLY}
