"""REFINE: continuations of a text, rewarded by the text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.parts.reward import ContinuationReward
from podium.parts.reward.continuation import SIMILARITY
from podium.policy.head.passage import mean_cosine
from podium.strategies import Continuations
from podium.strategies.sample.continuations import chunk_probabilities, smoothed
from podium.training.build import build_run
from podium.training.loop import collect_round
from podium.training.metrics import Metrics
from tests.methods.support import short_run
from tests.sessions.test_train import small


def test_worked_example_of_places() -> None:
    h = torch.tensor([1.0, 2, 0, 3, 1, 2], dtype=torch.float64)
    assert smoothed(h, 3).tolist() == pytest.approx([1, 1, 1.666667, 1.333333, 2, 1], abs=1e-6)
    expected = [[0.2533099, 0.2533099, 0.4933803], [0.2729060, 0.5315483, 0.1955457]]
    assert_close(chunk_probabilities(h, 2, 3), torch.tensor(expected, dtype=torch.float64), atol=1e-6, rtol=0)
    assert Continuations(chunks=2, positions="argmax").chosen(h, [0.5, 0.5]) == [1, 3]


def test_worked_example_of_rewards() -> None:
    states = torch.tensor([[[1.0, 0], [1, 0]], [[1, 1], [0, 1]]], dtype=torch.float64)
    truth = torch.tensor([[[1.0, 0], [0, 1]], [[1, 0], [0, 1]]], dtype=torch.float64)
    tokens, right = torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1.0, 9], [9, 4]], dtype=torch.float64)
    batch = Batch.from_padded(
        torch.ones(2, 2),
        [0, 0],
        {"token.id": tokens, "token.truth": right, "rollout.truth.length": torch.tensor([2.0, 2.0])},
    )
    similar = torch.stack([mean_cosine(a, b) for a, b in zip(states, truth, strict=True)])
    batch = batch.with_columns({SIMILARITY: similar})
    batch = batch.with_columns(ContinuationReward("hybrid")(batch))
    assert batch["rollout.reward"].tolist() == pytest.approx([1.0, 1.3535534])
    advantage = methods.refine("mid").advantage(batch)["rollout.advantage"]
    assert advantage.tolist() == pytest.approx([-0.7071040, 0.7071040], abs=1e-5)


@pytest.mark.parametrize(("kind", "full"), [("cosine", 1.0), ("binary", 1.0), ("hybrid", 2.0)])
def test_the_true_continuation_gets_the_full_reward(kind: str, full: float) -> None:
    states = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    columns = {
        "token.id": torch.tensor([[5, 6, 7]]),
        "token.truth": torch.tensor([[5.0, 6, 7]]),
        "rollout.truth.length": torch.tensor([3.0]),
    }
    batch = Batch.from_padded(torch.ones(1, 3), [0], columns)
    batch = batch.with_columns({SIMILARITY: mean_cosine(states, states)[None]})
    assert float(ContinuationReward(kind)(batch)["rollout.reward"]) == pytest.approx(full)


def test_a_continuation_that_ends_early_misses_the_rest() -> None:
    states = torch.eye(4)
    assert float(mean_cosine(states[:1], states)) == pytest.approx(0.25)
    assert float(mean_cosine(states[:0], states)) == 0


def test_places_concentrate_on_what_cannot_be_predicted() -> None:
    """A copy task: the middle of each half is random, all else follows from what stands before."""
    entropy = torch.full((40,), 0.01, dtype=torch.float64)
    entropy[8:12], entropy[28:32] = 6.0, 6.0
    strategy = Continuations(chunks=2, k=3)
    u = torch.rand(500, 2, generator=torch.Generator().manual_seed(0)).tolist()
    drawn = torch.tensor([strategy.chosen(entropy, pair) for pair in u])
    inside = ((drawn % 20 >= 7) & (drawn % 20 <= 12)).float().mean()
    assert inside > 0.9
    even = torch.tensor([strategy.replace(positions="uniform").chosen(entropy, pair) for pair in u])
    assert ((even % 20 >= 7) & (even % 20 <= 12)).float().mean() < 0.4


def test_without_reinforcement_it_is_language_modelling(tmp_path: Path) -> None:
    line = short_run(methods.refine("mid", rl=0.0, chunks=4, k=3), tmp_path / "run", tasks=2, iterations=1).metrics[-1]
    assert line["loss.PolicyGradient"] == 0
    assert line["loss"] == line["loss.Likelihood"] > 0


@pytest.mark.parametrize(("slug", "texts"), [("refine@mid", 1), ("refine@test-time", 1), ("refine@post", 2)])
def test_it_trains_on_texts_and_their_continuations(slug: str, texts: int, tmp_path: Path) -> None:
    line = short_run(methods.get(slug, chunks=4), tmp_path / "run", tasks=2, iterations=2).metrics[-1]
    assert line["rollouts"] == 2 * (texts + 4)
    assert line["grad_norm.policy"] > 0
    assert line["sampler_gap"] < 1e-5


def test_post_training_keeps_the_solution_out_of_the_text() -> None:
    method = methods.refine("post", chunks=2)
    run = build_run(small(method))
    batch = collect_round(run, run.begin(), Metrics())
    of_text, sampled = batch["rollout.of_text"].bool(), batch["rollout.sampled"].bool()
    groups = batch.link("rollout", "group")
    for group in range(batch.size("group")):
        mine = groups == group
        assert int((mine & ~of_text).sum()) == 1  # the solution, after the task
        assert int((mine & sampled).sum()) == 2  # a continuation in each part of the task
    rows = batch.link("turn", "rollout").tolist()
    contexts = dict(zip(rows, batch["turn.train_context"], strict=True))
    for row in (~of_text).nonzero().reshape(-1).tolist():
        assert len(contexts[row]) > 1  # the whole task is given
    steps = [step["rollout.of_text"].bool().tolist() for step in method.updates(batch)]
    kinds = [all(step) for step in steps]
    assert all(all(step) or not any(step) for step in steps)
    assert kinds == sorted(kinds, reverse=True)  # the texts first, then the solutions
    assert 0 < sum(kinds) < len(kinds)


def test_its_stages_follow_each_other_in_one_run(tmp_path: Path) -> None:
    result = short_run("refine", tmp_path / "run", iterations=2)
    assert [line["updates"] for line in result.metrics[1:]] == [4, 8]  # mid-training, then two nested updates
