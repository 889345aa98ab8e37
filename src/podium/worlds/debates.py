"""Debates on decisions: two debaters reveal measurements of a patient in turn, and a judge sees these alone."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, ClassVar

import numpy as np

from podium.core.errors import one_of
from podium.protocols.context import History, Latest
from podium.protocols.option_set import ONE, OptionRow, OptionSet, read_set
from podium.protocols.seats import Player
from podium.protocols.world import Episode, Task, World
from podium.worlds.evidence_judge import common_judge
from podium.worlds.patients import ACTIONS, FEATURES, Numbers, admitted, clinician, dose_number, doses
from podium.worlds.puzzle import task_key
from podium.worlds.table import MoveOutcome, TableEpisode

__all__ = ["EvidenceWorld", "Revealing", "argued_set", "verdict"]

ARGUMENTS = {1: 4, 2: 6}  # by level
FIRST, SECOND = "proponent", "opponent"
SEAT = "seat"  # of the method: who plays it is up to the strategy
GRID = 4  # a measurement is told by its row and column in a grid of so many columns
# Where the numbers of a row are.
VALUE, REVEALED, OWN = 7, 8, 9


def argued_set(state: Numbers, revealed: Numbers, own: int, other: int, left: float) -> OptionSet:
    """The measurements that a debater can still reveal, with those that are revealed. Each row tells which measurement
    it is (7 numbers), its value, whether it is revealed, one's own doses, by how much they exceed the other's, the
    products of these with the value, and what share of the arguments is left."""
    rows = []
    more = [x - y for x, y in zip(doses(own), doses(other), strict=True)]
    for n, name in enumerate(FEATURES):
        place = [float(n // GRID == k) for k in range(len(FEATURES) // GRID)] + [float(n % GRID == k) for k in range(4)]
        value = float(state[n])
        told = (*doses(own), *more, *(value * x for x in more))
        numbers = (*place, value, float(revealed[n]), *map(float, told), left)
        rows.append(OptionRow(name, numbers, "shown" if revealed[n] else "option"))
    return OptionSet(ONE, tuple(rows))


def verdict(state: Numbers, revealed: Numbers, first: int, second: int) -> float:
    """By how much the judge prefers the first decision to the second."""
    scores = common_judge()(np.stack([state] * 2), np.stack([revealed] * 2), np.array([first, second]))
    return float(scores[0] - scores[1])


class Revealing(Player):
    """A debater by rule: reveals a random measurement, or the one after which the judge likes its own decision best."""

    which: str = "random"  # random or greedy

    def __post_init__(self) -> None:
        one_of(self, "which", ("random", "greedy"))

    def __call__(self, history: History, seed: int) -> str:
        options = read_set(history.exchanges[-1].observation if history.exchanges else history.prompt)
        free = [n for n, row in enumerate(options.rows) if row.allowed]
        return str(Random(seed).choice(free) if self.which == "random" else _greedy(options, free))


def _greedy(options: OptionSet, free: list[int]) -> int:
    rows = np.array([row.numbers for row in options.rows])
    fluids, pressors, more_fluids, more_pressors = (int(x) for x in rows[0, OWN : OWN + 4])
    decisions = (dose_number(fluids, pressors), dose_number(fluids - more_fluids, pressors - more_pressors))
    state, revealed = (np.stack([rows[:, column]] * len(free)) for column in (VALUE, REVEALED))
    revealed[np.arange(len(free)), free] = 1.0
    own, other = (common_judge()(state, revealed, np.full(len(free), x)) for x in decisions)
    return free[int((own - other).argmax())]


class EvidenceWorld(World):
    """A patient, and two decisions on doses, one of them a clinician's: each debater defends one and reveals, in turn
    with the other, one of twelve measurements at a time: 4 at level 1, 6 at level 2. A judge who sees what is revealed,
    and nothing else, says whose decision it prefers; that debater earns 1, the other −1.

    Which decision the first debater, the proponent, defends and who begins is drawn for each task. `rollout.correct`
    says whether the proponent has won, `rollout.agrees` whether the judge says the same as it would of all the
    evidence. In held-out tasks the world plays the opponent by the rule `tested`, so that they measure strength; with
    `seat` both are played by the method, as in training. The patients are simulated, and the judge is a network that is
    fitted to decisions of a simulated clinician when it is first asked.
    """

    name = "evidence"
    summary = "debates: reveal measurements of a patient so that a judge prefers the decision that you defend"
    isolation = "inline"
    levels = tuple(ARGUMENTS)
    agents = (FIRST, SECOND)
    players: ClassVar[Mapping[str, Player]] = {which: Revealing(which) for which in ("random", "greedy")}
    context = Latest()
    max_tokens = 4
    max_turns = max(ARGUMENTS.values())
    provides = (
        *World.provides,
        *("task.options", "rollout.agrees", "turn.valid"),
        *("turn.agent", "turn.reward", "turn.state", "turn.next_state", "turn.action"),
    )
    blank: ClassVar[Mapping[str, Any]] = {"valid": False, "agrees": False}

    rival: str = SEAT  # who plays the opponent in training: random, greedy, or a seat of the method
    tested: str = "random"  # the same in held-out tasks

    def __post_init__(self) -> None:
        super().__post_init__()
        for dial in ("rival", "tested"):
            one_of(self, dial, (SEAT, *self.players))

    def task(self, index: int, split: str = "train") -> Task:
        against = self.tested if split == "test" else self.rival
        key = task_key(f"{self.name}-{self.level}" + ("" if against == SEAT else f"-{against}"), split, index)
        draw = np.random.default_rng(Random(f"evidence/{split}/{index}").getrandbits(64))
        state = admitted(1, draw)[0].round(2)
        chosen = int(draw.choice(ACTIONS, p=clinician(state)))
        pair = [chosen, int((chosen + draw.integers(1, ACTIONS)) % ACTIONS)]
        if draw.random() < 0.5:
            pair.reverse()
        begins = int(draw.integers(2))
        data = {"state": state.tolist(), "decisions": pair, "begins": begins, "against": against}
        task = Task(key, "", self.level, data=data)
        return Task(key, self.reset(task).observation, self.level, data=data)

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Debate(self, task, seed)


class _Debate(TableEpisode):
    def __init__(self, world: EvidenceWorld, task: Task, seed: int) -> None:
        self.state_seen = np.array(task.data["state"])
        self.decisions, self.key_of_task = task.data["decisions"], task.key
        self.seed = f"{task.key}/{seed}"
        self.arguments, self.turn = ARGUMENTS[world.level], task.data["begins"]
        self.rival = world.players.get(task.data["against"])
        self.revealed = np.zeros(len(FEATURES))
        self.given = 0  # arguments so far
        self._let_rival()
        super().__init__()

    def _let_rival(self) -> None:
        """The world's own player moves, where it is the opponent's turn."""
        if self.rival is not None and self.turn == 1 and self.given < self.arguments:
            text = self.rival(History(self.view(SECOND)), Random(f"{self.seed}/{self.given}").getrandbits(32))
            self._reveal(int(text))

    def _reveal(self, number: int) -> None:
        self.revealed[number] = 1.0
        self.given += 1
        self.turn = 1 - self.turn

    def _options(self, agent: str) -> OptionSet:
        own, other = self.decisions if agent == FIRST else reversed(self.decisions)
        return argued_set(self.state_seen, self.revealed, own, other, 1 - self.given / self.arguments)

    def to_move(self) -> tuple[str, ...]:
        return ((FIRST, SECOND)[self.turn],)

    def view(self, agent: str) -> str:
        own, other = (doses(x) for x in (self.decisions if agent == FIRST else reversed(self.decisions)))
        about = f"you defend fluids {own[0]} pressors {own[1]} against fluids {other[0]} pressors {other[1]}"
        return f"{about}\n{self._options(agent)}"

    def key(self, agent: str) -> str:
        return f"{self.key_of_task}/{agent}/{''.join(str(int(x)) for x in self.revealed)}"

    def judge(self, agent: str, text: str) -> Mapping[str, Any]:
        return {"valid": self._named(text) is not None}

    def _named(self, text: str) -> int | None:
        """The measurement that a text reveals; None: it names none that is still hidden."""
        number = int(text) if text.strip().isdecimal() and len(text) < 6 else -1
        return number if 0 <= number < len(FEATURES) and not self.revealed[number] else None

    def resolve(self, moves: Mapping[str, str]) -> MoveOutcome:
        ((agent, text),) = moves.items()
        number = self._named(text)
        if number is None:  # what cannot be chosen loses the debate
            return self._ended(agent != FIRST, agent)
        self._reveal(number)
        self._let_rival()
        if self.given < self.arguments:
            return MoveOutcome()
        return self._ended(verdict(self.state_seen, self.revealed, *self.decisions) > 0, agent)

    def _ended(self, won: bool, last: str) -> MoveOutcome:
        whole = verdict(self.state_seen, np.ones(len(FEATURES)), *self.decisions) > 0
        rewards = {FIRST: 1.0 if won else -1.0, SECOND: -1.0 if won else 1.0}
        acted = {last} if self.rival is not None or self.given == 0 else {FIRST, SECOND}
        info = {"correct": won, "answer": FIRST if won else SECOND, "agrees": won == whole}
        return MoveOutcome({a: r for a, r in rewards.items() if a in acted}, True, info)
