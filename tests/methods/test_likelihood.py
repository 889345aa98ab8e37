"""Likelihood rewards: the right answer scored after the reasoning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from podium import methods, worlds
from podium import policy as policies
from podium.collect.annotations import registry as annotate
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.signal import Signal
from podium.parts.reward.likelihood import LIKELIHOODS, answer_signal
from podium.policy.head.passage import reduced
from podium.training.config import Optimizer
from podium.training.learner import Learner
from podium.training.trainer import Trainer
from tests.methods.support import short_run

L = [[-0.1, -0.2], [-1.0, -0.5], [-0.3, -0.3], [-2.0, -1.0]]


def rewarded(kind: str, answers: list[list[float]], groups: list[int] | None = None) -> Batch:
    """Rewards and advantages of rollouts whose right answers' tokens have these log-probabilities."""
    method = methods.likelihood_reward(kind)
    score = reduced([torch.tensor(a, dtype=torch.float64) for a in answers], LIKELIHOODS[kind])
    batch = Batch.from_rewards(torch.zeros_like(score), groups or [0] * len(answers), {})
    batch = batch.with_columns({answer_signal(kind, "old"): score})
    for part in (*method.annotate, *method.reward, method.advantage):
        batch = batch.with_columns(part(batch))
    return batch


@pytest.mark.parametrize(
    ("kind", "advantages"),
    [
        ("logprob", [1.4, -0.2, 1.0, -2.2]),
        ("prob", [0.4669086, -0.2233421, 0.2108998, -0.4544663]),
        ("avg_prob", [0.3685739, -0.1308648, 0.2072861, -0.4449951]),
        ("jepo", [0.3549800, -0.1335992, 0.1449932, -0.2553006]),
    ],
)
def test_worked_example(kind: str, advantages: list[float]) -> None:
    assert rewarded(kind, L)["rollout.advantage"].tolist() == pytest.approx(advantages, abs=1e-6)


def test_tiny_probabilities_leave_log_advantages_and_kill_those_of_probabilities() -> None:
    shift = torch.tensor(1e-6).log().item()
    smaller = [[a + shift, b] for a, b in L]
    log, tiny = (rewarded("logprob", x)["rollout.advantage"] for x in (L, smaller))
    assert_close(log, tiny)
    before, after = (rewarded("prob", x)["rollout.advantage"].abs().max() for x in (L, smaller))
    assert after < 1e-5 * before


def test_the_group_reward_is_at_least_the_mean_log_probability() -> None:
    jepo = rewarded("jepo", L)["rollout.reward"]
    assert (jepo >= rewarded("logprob", L)["rollout.reward"].mean()).all()
    assert len(jepo.unique()) == 1


def test_with_answers_of_one_token_the_probability_is_the_expected_binary_reward() -> None:
    p = torch.tensor([0.2, 0.7])
    rewards = rewarded("prob", [[float(x.log())] for x in p])["rollout.reward"]
    drawn = torch.rand(200_000, 2, generator=torch.Generator().manual_seed(0)) < p
    assert_close(rewards.float(), drawn.float().mean(0), atol=5e-3, rtol=0)


def test_long_answers_underflow_to_nothing_but_stay_finite() -> None:
    long = [[-5.0] * 400, [-4.0] * 400]
    assert rewarded("prob", long)["rollout.advantage"].tolist() == [0, 0]
    assert rewarded("jepo", long)["rollout.advantage"].isfinite().all()


def test_a_lone_rollout_keeps_its_reward() -> None:
    for kind in ("logprob", "jepo"):
        batch = rewarded(kind, [[-0.5, -0.25]])
        assert_close(batch["rollout.advantage"], batch["rollout.reward"])


# -- the passage -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny() -> Any:
    return policies.load("podium/tiny")


def annotated(tiny: Any, *texts: str) -> list[Rollout]:
    world = worlds.get("sums", level=2)
    task = world.task(0)
    prompt = tiny.encode([{"role": "user", "content": task.prompt}])
    rows = [Rollout(task.key, [Turn(tiny.written(text), prompt)], columns={"text": text}) for text in texts]
    return annotate.right_answer(annotate.AnnotationContext(tiny, world), task, rows)


def test_reasoning_ends_before_the_answer_and_the_right_answer_follows_it(tiny: Any) -> None:
    world = worlds.get("sums", level=2)
    right = world.solve(world.task(0))
    cut, whole, never = annotated(tiny, "1+2=3\nanswer: 3", right, "1+2=3")
    assert [tiny.text(r.columns["answer.ids"]) for r in (cut, whole, never)] == [
        f" {world.reference(world.task(0))}"
    ] * 3
    assert tiny.text(cut.columns["answer.context"]).endswith("1+2=3\nanswer:")
    assert cut.columns["answer.context"] == never.columns["answer.context"]
    (turn,) = cut.turns
    marked = [i for i, inside in zip(turn.ids, turn.tokens["reasoning"], strict=True) if inside]
    assert tiny.text(marked) == "1+2=3"
    # After a right solution the passage is what the rollout itself went on to write.
    again = (*whole.columns["answer.context"], *whole.columns["answer.ids"])
    assert again == (*whole.turns[0].context, *whole.turns[0].ids)


def test_an_answer_without_reasoning_has_none(tiny: Any) -> None:
    (rollout,) = annotated(tiny, "answer: 3")
    assert not any(rollout.turns[0].tokens["reasoning"])
    assert tiny.text(rollout.columns["answer.context"]).endswith("answer:")


def test_the_signal_of_a_passage_carries_the_gradient_of_its_log_probability(tiny: Any) -> None:
    model = tiny.copy()
    batch = Batch.from_rollouts(annotated(tiny, "1+2=3\nanswer: 3", "answer: 3"))
    trainer = Trainer({"policy": Learner(model, Optimizer())}, {})
    signal = Signal("logp", of="now", level="rollout", passage="answer", reduce="sum", grad=True)
    found = trainer.signals(batch, [signal], grad=True)[signal]
    by_hand = model.score(batch["rollout.answer.context"], batch["rollout.answer.ids"], grad=True)
    assert_close(found, torch.stack([x.sum() for x in by_hand]))
    slopes = [
        torch.autograd.grad(x.sum(), model.model.lm_head.weight, retain_graph=True)[0]
        for x in (found, torch.cat(by_hand))
    ]
    assert slopes[0].abs().sum() > 0
    assert_close(*slopes)
    parts = {
        r: trainer.signals(batch, [Signal("logp", level="rollout", passage="answer", reduce=r)])
        for r in ("mean", "mean_exp")
    }
    for reduce, by in (("mean", lambda x: x.mean()), ("mean_exp", lambda x: x.exp().mean())):
        (value,) = parts[reduce].values()
        assert_close(value, torch.stack([by(x) for x in by_hand]).detach())


@pytest.mark.parametrize("slug", ["likelihood-reward", "likelihood-reward@jepo"])
def test_training_makes_the_right_answers_likelier(slug: str, tmp_path: Path) -> None:
    file = tmp_path / "sums.jsonl"
    rows = [{"question": f"sum: {a}+{b}", "answer": str(a + b)} for a, b in ((17, 38), (64, 29))]
    file.write_text("\n".join(map(json.dumps, rows)))
    method = methods.get(slug, n=4, kl=0.0)
    world = {"file": str(file), "test_file": str(file), "instructions": False}
    run = short_run(method, tmp_path / "run", world="jsonl", world_settings=world, iterations=8, tasks=2, lr=3e-4)
    perplexity = [line["answer.perplexity"] for line in run.metrics[1:]]
    assert all(line["grad_norm.policy"] > 0 for line in run.metrics[1:])
    assert perplexity[-1] < perplexity[0]
