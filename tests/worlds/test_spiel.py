"""Games of OpenSpiel: deals, legal moves, returns and forfeits, by the package itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.labs.experiments.kuhn_poker import averaged, equilibrium_gap
from podium.protocols.context import History
from podium.sessions.play_against import play_against
from podium.worlds.checker import check_world
from podium.worlds.spiel import LegalMove, Spiel
from tests.policy import tiny

pytest.importorskip("pyspiel", reason="open_spiel is not installed")


@pytest.mark.parametrize("name", ["kuhn_poker", "matrix_pd", "tic_tac_toe"])
def test_games_are_sound_worlds(name: str) -> None:
    assert check_world(worlds.get(f"spiel:{name}"), tasks=2) == []


def test_a_bet_that_is_passed_wins_the_ante() -> None:
    world = worlds.get("spiel:kuhn_poker")
    episode = world.reset(world.task(0))
    assert "legal: pass, bet" in episode.observation
    episode.act("move: bet")
    feedback = episode.act("move: pass")
    assert (feedback.reward, dict(feedback.rewards), feedback.done) == (-1.0, {"player 1": 1.0}, True)
    assert feedback.info["correct"]


def test_both_move_at_once_in_a_matrix_game() -> None:
    world = worlds.get("spiel:matrix_pd")
    episode = world.reset(world.task(0))
    moves = episode.observation.partition("legal: ")[2].partition("\n")[0].split(", ")
    assert episode.act(f"move: {moves[0]}").rewards == {}
    feedback = episode.act(f"move: {moves[1]}")
    assert (feedback.reward, dict(feedback.rewards)) == (10.0, {"player 1": 0.0})


def test_what_is_no_legal_move_loses() -> None:
    world = worlds.get("spiel:kuhn_poker")
    episode = world.reset(world.task(0))
    episode.act("move: pass")
    feedback = episode.act("move: fold")
    assert (feedback.reward, dict(feedback.rewards), feedback.done) == (-2.0, {"player 1": 2.0}, True)


def test_a_game_that_does_not_exist_is_refused() -> None:
    with pytest.raises(PodiumError, match=r"no game .kuhn_pocker.. .*kuhn_poker"):
        worlds.get("spiel:kuhn_pocker")


def test_a_legal_move_earns_its_form() -> None:
    world = worlds.get("spiel:kuhn_poker", form=0.05)
    episode = world.reset(world.task(0))
    assert episode.act("move: bet").reward == 0.05
    feedback = episode.act("move: pass")
    assert feedback.reward == pytest.approx(-0.95)
    assert dict(feedback.rewards) == {"player 1": 1.0}
    assert play_forfeit(form=0.05) == -2.0


def play_forfeit(**settings: float) -> float:
    world = worlds.get("spiel:kuhn_poker", **settings)
    return world.reset(world.task(0)).act("move: fold").reward


@pytest.mark.parametrize(("which", "said"), [("first", {"move: pass"}), ("last", {"move: bet"})])
def test_players_make_legal_moves(which: str, said: set[str]) -> None:
    seen = History("kuhn_poker, player 1: 2\nlegal: pass, bet\nmove?")
    assert {LegalMove(which)(seen, seed) for seed in range(20)} == said
    assert {LegalMove()(seen, seed) for seed in range(20)} == {"move: pass", "move: bet"}


def test_a_model_is_measured_against_players_as_each_agent(tmp_path: Path) -> None:
    found = play_against(
        tiny.directory(tmp_path), ["random", LegalMove("last")], world="spiel:kuhn_poker", tasks=2, samples=2
    )
    assert list(found) == ["random", "LegalMove(which='last')"]
    against = found["random"]
    assert list(against) == ["reward", "won", "reward.player 1", "reward.player 2"]
    assert against["reward"].mean == -2.0  # a model that writes nonsense forfeits, whichever agent it plays
    assert against["won"].mean == 0.0


def test_an_opponent_that_is_nobody_is_refused(tmp_path: Path) -> None:
    model = tiny.directory(tmp_path)
    with pytest.raises(PodiumError, match=r"'randon' is no player of the world .* Did you mean"):
        play_against(model, ["randon"], world="spiel:kuhn_poker", tasks=1)
    with pytest.raises(PodiumError, match="did not start from another"):
        play_against(model, ["base"], world="spiel:kuhn_poker", tasks=1)
    with pytest.raises(PodiumError, match="one agent alone"):
        play_against(model, ["random"], world="sums", tasks=1)


def test_an_equilibrium_has_no_nash_conv_and_the_known_value() -> None:
    world, a = Spiel(task_name="kuhn_poker"), 0.2
    bets = {"0": a, "1": 0, "2": 3 * a, "0pb": 0, "1pb": a + 1 / 3, "2pb": 1}
    bets |= {"0p": 1 / 3, "1p": 0, "2p": 1, "0b": 0, "1b": 1 / 3, "2b": 1}
    found = equilibrium_gap(world, averaged(world, [{key: [1 - bet, bet] for key, bet in bets.items()}]))
    assert found == {"nash_conv": pytest.approx(0, abs=1e-12), "off_value": pytest.approx(0, abs=1e-12)}
    uniform = equilibrium_gap(world, averaged(world, [{key: [0.5, 0.5] for key in bets}]))
    assert uniform["nash_conv"] == pytest.approx(11 / 12)
