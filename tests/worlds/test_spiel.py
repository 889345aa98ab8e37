"""Games of OpenSpiel: deals, legal moves, returns and forfeits, by the package itself."""

from __future__ import annotations

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.worlds.checker import check_world

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
