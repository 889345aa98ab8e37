"""Methods with a reward model or a direction: what they are made of, and that the whole of each trains."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from podium import methods, policy
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.parts.objective import FeedbackLoss, Preference, ReactionLoss
from podium.parts.reward import ModelReward
from podium.sessions.train import resume
from podium.store.run_directory import RunDirectory
from tests.methods.support import short_run
from tests.sessions.test_train import numbers

SMALL = {"tasks": 2, "max_tokens": 24}


def test_causalrm_learns_who_reacts_then_what_they_like_then_a_policy(tmp_path: Path) -> None:
    method = methods.causalrm(n=4, react=1, fit=1, epochs=1)
    reaction, reward, trained = method.leaves()
    assert isinstance(reaction.objective[0], ReactionLoss)
    assert isinstance(reward.objective[0], FeedbackLoss)
    assert isinstance(trained.reward[0], ModelReward)
    result = short_run(method, tmp_path / "run", iterations=3, checkpoint_every=2, keep_checkpoints=9, **SMALL)
    base = dict(policy.load("podium/tiny").named_parameters())
    model = policy.read_critic(result.path / "checkpoints" / "iteration-000003" / "rm")
    assert all(torch.equal(p, base[name]) for name, p in model.model.named_parameters())  # the states are frozen
    assert max(float(p.detach().abs().max()) for p in model.value_head.heads[0][2].parameters()) > 0  # type: ignore
    second = policy.load(result.path / "checkpoints" / "iteration-000002" / "policy")
    last = policy.load(result.path / "checkpoints" / "iteration-000003" / "policy")
    assert all(torch.equal(p, base[name]) for name, p in second.named_parameters())
    assert not all(torch.equal(p, base[name]) for name, p in last.named_parameters())
    whole = numbers(result.path)
    shutil.rmtree(result.path / "checkpoints" / "iteration-000003")
    resume(result.path)  # from the end of the second stage
    assert numbers(result.path) == whole


def test_a_naive_causalrm_corrects_nothing() -> None:
    reward, _ = methods.causalrm(estimator="naive").leaves()
    (term,) = reward.objective
    assert (term.where, [type(part).__name__ for part in reward.annotate]) == (
        "rollout.observed",
        ["SimulatedFeedback"],
    )
    known = next(m for m in methods.causalrm(rates=(0.2, 0.1)).leaves() if m.name == "reward model")
    assert len(known.annotate) == 1
    with pytest.raises(PodiumError, match="sum below 1"):
        methods.causalrm(rates=(0.9, 0.1))


def test_dpa_imitates_given_answers_then_the_best_of_its_own(tmp_path: Path) -> None:
    given, sampled = methods.dpa(n=3, first=1).leaves()
    assert given.rollout.styles == ("short", "long")  # type: ignore[union-attr]
    result = short_run(methods.dpa(n=3, first=1), tmp_path / "run", iterations=2, **SMALL)
    assert result.finished
    assert -1 <= RunDirectory(result.path).metrics()[-1]["steering"] <= 1
    with pytest.raises(PodiumError, match="name styles of solutions"):
        methods.dpa(styles=())
    assert [role.source for role in methods.dpa(rm="my-rm").main().roles] == ["my-rm"]
    assert sampled.rollout.n == 3  # type: ignore[union-attr]


def test_skywork_fits_its_reward_model_to_the_pairs_of_the_first_stage(tmp_path: Path) -> None:
    first, second = methods.skywork_r1v2(n=4, first=1, rm="fit").leaves()
    assert [term.trains for term in first.objective] == ["policy", "policy", "policy", "rm"]
    assert second.reward[0].score == "rollout.scores"  # type: ignore[attr-defined]
    assert short_run(methods.skywork_r1v2(n=4, first=1, rm="fit"), tmp_path / "run", iterations=2, **SMALL).finished
    (only,) = methods.skywork_r1v2(stage=2).leaves()
    assert only.reward[0].score is None  # type: ignore[attr-defined]
    (named,) = methods.skywork_r1v2(stage=2, rm="my-rm").leaves()
    assert [role.source for role in named.roles] == ["my-rm"]
    mine, _ = methods.skywork_r1v2(score="rollout.mine", rm="fit").leaves()
    assert [role.name for role in mine.roles] == ["ref"]


def test_a_pairwise_objective_on_values_is_bradley_and_terry() -> None:
    """Rewards 1, 0, 0 and values 2, 0, 1 after the last token: pairs of the margins 2 and 1."""
    rows = [
        Rollout(0, [Turn((1, 2), tokens={"now.value": (9.0, value)})], columns={"reward": reward})
        for value, reward in ((2.0, 1.0), (0.0, 0.0), (1.0, 0.0))
    ]
    batch = Batch.from_rollouts(rows, dtype=torch.float64)
    term = Preference(temperature=1.0, score="value", against=None, trains="rm")
    margins = torch.tensor([2.0, 1.0], dtype=torch.float64)
    assert float(term(batch)) == pytest.approx(float(-torch.nn.functional.logsigmoid(margins).mean()))
    with pytest.raises(PodiumError, match="against=None"):
        Preference(score="value")
