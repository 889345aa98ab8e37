"""Rewards of captions: counted, weighed and normalised."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.advantage import GAE
from podium.parts.metric import StatesVisited
from podium.parts.reward import Intrinsic, TokenReward

ZETA_3 = 1.2020569


def episode(captions: list[str], scores: list[float], rewards: list[float] | None = None) -> Rollout:
    turns = [
        Turn([0, 1], columns={"caption": caption, "caption.score": score, "reward": reward})
        for caption, score, reward in zip(captions, scores, rewards or [0.0] * len(scores), strict=True)
    ]
    return Rollout("one", turns, columns={"reward": 0.0, "index": 0})


def batch_of(*rollouts: Rollout) -> Batch:
    return Batch.from_rollouts(rollouts, dtype=torch.float64)


def test_the_third_turn_of_a_repeated_caption_earns_an_eighth() -> None:
    columns = Intrinsic(intrinsic=1.0)(batch_of(episode(["gold", "hit", "gold"], [1.0, 0.0, 1.0])))
    assert columns["turn.reward.intrinsic"].tolist() == [1.0, 0.0, 0.125]
    assert columns["rollout.reward.intrinsic"].tolist() == [1.125]


def test_repeating_a_helpful_caption_for_ever_earns_at_most_a_fifth_more_than_once() -> None:
    columns = Intrinsic(intrinsic=0.4)(batch_of(episode(["gold"] * 500, [1.0] * 500)))
    total = float(columns["rollout.reward.intrinsic"])
    assert 1.2 * 0.4 < total < ZETA_3 * 0.4


def test_counts_begin_anew_in_each_rollout() -> None:
    batch = batch_of(episode(["gold", "gold"], [1.0, 1.0]), episode(["gold"], [1.0]))
    assert Intrinsic()(batch)["turn.caption.count"].tolist() == [1, 2, 1]


def test_without_intrinsic_reward_the_worlds_is_scaled_and_clipped() -> None:
    batch = batch_of(episode(["a", "b"], [1.0, 1.0], [2.0, -50.0]))
    assert Intrinsic(extrinsic=0.1, intrinsic=0.0)(batch)["turn.reward"].tolist() == [0.2, -1.0]


def test_ranking_scores_are_normalised_by_moments_that_include_the_batch() -> None:
    batch = batch_of(episode(list("abcd"), [2.0, 0.0, 1.0, -1.0]))
    batch = batch.with_columns({"batch.caption.statistics": torch.tensor([[1e-4, 0.0, 1.0]], dtype=torch.float64)})
    ranked = Intrinsic("ranking", intrinsic=1.0, threshold=-0.5)(batch)["turn.reward.intrinsic"]
    expected = torch.tensor([1.161908, -0.387290, 0.387309, 0.0], dtype=torch.float64)
    torch.testing.assert_close(ranked, expected, atol=1e-6, rtol=0)


def test_a_single_score_has_no_variance_of_its_own() -> None:
    batch = batch_of(episode(["a"], [2.0]))
    batch = batch.with_columns({"batch.caption.statistics": torch.tensor([[1e-4, 0.0, 1.0]], dtype=torch.float64)})
    assert Intrinsic("ranking")(batch)["turn.reward"].isfinite().all()


def test_a_turn_has_its_outcome_at_its_last_token_and_is_discounted_as_a_whole() -> None:
    batch = batch_of(episode(["a", "b"], [0.0, 0.0], [1.0, 4.0]))
    batch = batch.with_columns(TokenReward(of="turn.reward")(batch))
    assert batch["token.reward"].tolist() == [0.0, 1.0, 0.0, 4.0]
    batch = batch.with_columns({"token.old.value": torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=torch.float64)})
    columns = GAE(gamma=0.5, per="turn")(batch)
    assert columns["token.return"].tolist() == [3.0, 3.0, 4.0, 4.0]
    assert columns["token.advantage"].tolist() == [2.5, 2.0, 2.0, 1.0]


def test_states_are_counted_once_in_each_rollout() -> None:
    def walk(index: int, *states: str) -> Rollout:
        return Rollout("one", [Turn([0], columns={"next_state": s}) for s in states], columns={"index": index})

    batch = batch_of(walk(0, "a", "b", "a"), walk(1, "a"))
    assert StatesVisited()(batch)["batch.states_visited"].tolist() == [1.5]
