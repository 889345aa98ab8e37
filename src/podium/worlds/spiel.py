"""The games of OpenSpiel as worlds of several agents, by the package open_spiel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from random import Random
from typing import Any, ClassVar

from podium.core.errors import PodiumError, nearest, one_of
from podium.protocols.context import History
from podium.protocols.seats import Player
from podium.protocols.world import Episode, Task, World
from podium.worlds.table import MoveOutcome, TableEpisode
from podium.worlds.texts.exercise import last_line_after

__all__ = ["LegalMove", "Spiel"]

SEEN = 4096  # characters of a game's description of what a player knows


class LegalMove(Player):
    """Makes a random one of the legal moves that it reads, or always the first or the last."""

    which: str = "random"  # random, first or last

    def __post_init__(self) -> None:
        one_of(self, "which", ("random", "first", "last"))

    def __call__(self, history: History, seed: int) -> str:
        seen = history.exchanges[-1].observation if history.exchanges else history.prompt
        moves = seen.rpartition("\nlegal: ")[2].partition("\n")[0].split(", ")
        chosen = {"random": Random(seed).randrange(len(moves)), "first": 0, "last": -1}[self.which]
        return f"move: {moves[chosen]}"


class Spiel(World):
    """A game of OpenSpiel, such as kuhn_poker: a player sees what it knows and the legal moves, and writes `move: …`.

    A text without a legal move loses the game: its writer gets the lowest return there is, and each other player that
    has moved an equal share of what it loses. `rollout.correct` says whether the first player has won.
    """

    name = "spiel"
    summary = "a game of OpenSpiel in self-play"
    isolation = "thread"
    max_tokens = 16
    max_turns = 200
    provides = (
        *World.provides,
        *("turn.agent", "turn.reward", "turn.state", "turn.next_state", "turn.action", "turn.valid"),
    )
    blank: ClassVar[Mapping[str, Any]] = {"valid": False}
    players: ClassVar[Mapping[str, Player]] = {which: LegalMove(which) for which in ("random", "first", "last")}

    task_name: str = "kuhn_poker"
    form: float = 0.0  # what each legal move earns besides, such as the 0.05 of MARS
    config: dict[str, Any] = field(default_factory=dict)  # parameters of the game

    def __post_init__(self) -> None:
        super().__post_init__()
        players = self.game().num_players()
        object.__setattr__(self, "agents", tuple(f"player {number}" for number in range(1, players + 1)))

    def game(self) -> Any:
        """The game itself."""
        if not self.task_name:
            raise PodiumError("spiel: needs the name of a game, such as spiel:tic_tac_toe.")
        try:
            import pyspiel
        except ImportError as error:
            raise PodiumError("spiel:NAME needs the package open_spiel: pip install 'podium-rl[games]'.") from error
        known = pyspiel.registered_names()
        if self.task_name not in known:
            raise PodiumError(f"OpenSpiel has no game {self.task_name!r}. {nearest(self.task_name, known)}")
        try:
            return pyspiel.load_game(self.task_name, self.config)
        except pyspiel.SpielError as error:
            raise PodiumError(f"The game {self.task_name!r} cannot be loaded: {error}.") from error

    def legal(self, state: Any, player: int) -> dict[str, int]:
        """The moves that a player may make in a state of the game, by their names in lower case."""
        return {state.action_to_string(player, move).lower(): move for move in state.legal_actions(player)}

    def view(self, state: Any, player: int) -> str:
        """What a player reads in a state of the game: all that it knows, where the game can say so."""
        kind, knows = state.get_game().get_type(), ""
        if kind.provides_information_state_string:
            knows = state.information_state_string(player)
        elif kind.provides_observation_string:
            knows = state.observation_string(player)
        known = f"{self.task_name}, {self.agents[player]}: {knows.strip()[:SEEN] or 'start'}"
        return f"{known}\nlegal: {', '.join(self.legal(state, player))}\nmove?"

    def task(self, index: int, split: str = "train") -> Task:
        key = f"{self.task_name}/{split}/{index}"
        return Task(key, self.reset(Task(key, "", domain=self.task_name)).observation, domain=self.task_name)

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _SpielGame(self, self.game(), f"{task.key}")


class _SpielGame(TableEpisode):
    """A state of the game. Chance is that of the task, so that its games share their conditions."""

    def __init__(self, world: Spiel, game: Any, seed: str) -> None:
        self.world, self.game, self.chance = world, game, Random(seed)
        self.at, self.acted = game.new_initial_state(), set[str]()
        self._draw_chance()
        super().__init__()

    def __deepcopy__(self, memo: dict[int, Any]) -> _SpielGame:
        twin = object.__new__(type(self))
        twin.__dict__.update({**self.__dict__, "at": self.at.clone(), "moves": dict(self.moves)})
        twin.chance, twin.acted, twin._waiting = Random(), set(self.acted), list(self._waiting)
        twin.chance.setstate(self.chance.getstate())
        return twin

    def _draw_chance(self) -> None:
        while self.at.is_chance_node():
            actions, weights = zip(*self.at.chance_outcomes(), strict=True)
            self.at.apply_action(self.chance.choices(actions, weights)[0])

    def _number(self, agent: str) -> int:
        return self.world.agents.index(agent)

    def to_move(self) -> tuple[str, ...]:
        if self.at.is_simultaneous_node():
            movers = [p for p in range(self.game.num_players()) if self.at.legal_actions(p)]
        else:
            movers = [self.at.current_player()]
        return tuple(self.world.agents[player] for player in movers)

    def view(self, agent: str) -> str:
        return self.world.view(self.at, self._number(agent))

    def key(self, agent: str) -> str:
        return self.view(agent)

    def judge(self, agent: str, text: str) -> Mapping[str, Any]:
        self.acted.add(agent)
        return {"valid": self._move(agent, text) is not None, "answer": text.strip()}

    def _move(self, agent: str, text: str) -> int | None:
        """The legal move in a text; None: there is none."""
        said = last_line_after(text, "move:")
        return None if said is None else self.world.legal(self.at, self._number(agent)).get(said.lower())

    def resolve(self, moves: Mapping[str, str]) -> MoveOutcome:
        chosen = {agent: self._move(agent, text) for agent, text in moves.items()}
        lost = [agent for agent, move in chosen.items() if move is None]
        if lost:
            least, others = self.game.min_utility(), max(len(self.world.agents) - len(lost), 1)
            share = -least * len(lost) / others
            earned = {agent: least if agent in lost else share for agent in self.acted}
            return MoveOutcome(self._with_form(earned, chosen), True, {"correct": False})
        if self.at.is_simultaneous_node():
            self.at.apply_actions([chosen.get(agent, 0) for agent in self.world.agents])
        else:
            (move,) = chosen.values()
            self.at.apply_action(move)
        self._draw_chance()
        done, rewards = self.at.is_terminal(), self.at.rewards()
        earned = {agent: rewards[self._number(agent)] for agent in self.world.agents if agent in self.acted}
        won = bool(done and self.at.returns()[0] > 0)
        return MoveOutcome(self._with_form(earned, chosen), done, {"correct": won})

    def _with_form(self, earned: Mapping[str, float], chosen: Mapping[str, int | None]) -> dict[str, float]:
        """What agents have earned, with the reward of those who have made a legal move."""
        return {agent: x + self.world.form * (chosen.get(agent) is not None) for agent, x in earned.items()}
