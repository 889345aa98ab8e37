"""ProGRPO, ACE and the unlikeliness reward: how likely the policy found its own answers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.shape.confidence import OverconfidentErrors, PromptConfidence, least_likely_confidence
from tests.conformance.helpers import credited
from tests.methods.support import credit, rewards, short_run


def texts(reward: list[float], *logps: list[float], **columns: Any) -> Batch:
    """A group of answers with these log-probabilities under the policy that wrote them."""
    rollouts = [
        Rollout(
            "task",
            [Turn([0] * len(x), tokens={"old.logp": x, "ref.logp": [0.0] * len(x)})],
            columns={"reward": float(r)},
        )
        for r, x in zip(reward, logps, strict=True)
    ]
    named = {name.replace("__", "."): torch.tensor(x, dtype=torch.float64) for name, x in columns.items()}
    return Batch.from_rollouts(rollouts, dtype=torch.float64).with_columns(named)


# -- progrpo -----------------------------------------------------------------------------------------------------------


def answers(*lowest: float, reward: list[float], prompt: float = math.exp(-1)) -> Batch:
    """Answers of five tokens whose least likely one has this log-probability."""
    return texts(reward, *([low, -0.1, -0.1, -0.1, -0.1] for low in lowest), group__prompt__confidence=[prompt])


def test_progrpo_worked_example() -> None:
    prompt = texts([0], [-1, -0.2, -0.5, -0.1, -0.05])
    assert float(least_likely_confidence(prompt, 0.2)) == pytest.approx(0.36788, abs=1e-5)
    batch = answers(-2, -0.3, -1, reward=[1, 1, 0])
    assert credited(methods.progrpo(), batch)["rollout.confidence"].tolist() == pytest.approx(
        [0.13534, 0.74082, 0.36788], abs=1e-5
    )
    assert credit(methods.progrpo(), batch).tolist() == pytest.approx([0.64711, 0.46547, -1.15470], abs=1e-5)


def test_progrpo_right_answers_lose_with_confidence_and_the_group_sums_to_the_mean_gap() -> None:
    batch = answers(-3, -2, -1, -0.2, reward=[1, 1, 1, 0])
    a = credit(methods.progrpo(), batch)
    assert a[0] > a[1] > a[2]
    c = credited(methods.progrpo(), batch)["rollout.confidence"]
    assert float(a.sum()) == pytest.approx(0.3 * 4 * (math.exp(-1) - float(c.mean())))


def test_progrpo_with_alpha_zero_is_grpo_and_all_wrong_groups_stay_at_zero() -> None:
    batch = answers(-3, -2, reward=[1, 0])
    assert_close(credit(methods.progrpo(alpha=0.0), batch), credit(methods.grpo(kl=0), batch))
    assert credit(methods.progrpo(), answers(-3, -2, reward=[0, 0])).tolist() == [0, 0]


def test_progrpo_all_right_groups_still_prefer_the_rare_answer_unless_switched_off() -> None:
    batch = answers(-3, -0.2, reward=[1, 1])
    a = credit(methods.progrpo(), batch)
    assert a[0] > 0 > a[1]
    assert credit(methods.get("progrpo@mixed-only"), batch).tolist() == [0, 0]


def test_progrpo_a_single_rollout_has_no_group_advantage_but_the_shift() -> None:
    a = credit(methods.progrpo(), answers(-2, reward=[1]))
    assert a.tolist() == pytest.approx([0.3 * (math.exp(-1) - math.exp(-2))])


def test_the_probe_asks_for_each_prompt_once_token_by_token() -> None:
    rollouts = [
        Rollout(task, [Turn([9], context=ids)]) for task, ids in (("a", (1, 2, 3)), ("a", (1, 2, 3)), ("b", (4, 5)))
    ]
    asked = PromptConfidence().texts(Batch.from_rollouts(rollouts))
    assert asked["token.id"].tolist() == [2, 3, 5]
    assert asked["turn.train_context"] == ((1,), (4,))


def test_progrpo_trains_with_the_confidence_in_its_prompts(tmp_path: Path) -> None:
    lowest, whole = (
        short_run(methods.get(slug, n=4), tmp_path / slug, iterations=1).metrics[-1]
        for slug in ("progrpo", "progrpo@whole-prompt")
    )
    assert 0 < lowest["confidence"] < 1
    assert lowest["grad_norm.policy"] != whole["grad_norm.policy"]


# -- ace ---------------------------------------------------------------------------------------------------------------


def test_ace_worked_example() -> None:
    batch = texts([1, 0, 0], [0.5], [0.6, 0.4], [-2.0])
    assert credit(methods.ace(), batch).tolist() == pytest.approx([1.15470, -1.33556, -0.65063], abs=1e-5)


def test_ace_leaves_right_answers_alone_and_grows_with_the_rise_of_wrong_ones() -> None:
    errors = OverconfidentErrors()
    shift = torch.linspace(-5, 5, 11).double()
    assert errors.factor(torch.ones(11).double(), shift).tolist() == [1.0] * 11
    grown = errors.factor(-torch.ones(11).double(), shift)
    assert bool((grown.diff() > 0).all())
    assert float(errors.factor(-torch.ones(1), torch.zeros(1))) == pytest.approx(1 + math.log(2))
    assert errors.factor(-torch.ones(2), torch.tensor([-1e4, 1e4])).tolist() == [1.0, 10001.0]


def test_ace_with_alpha_zero_is_its_host() -> None:
    batch = texts([1, 0, 0], [0.5], [1.0], [-2.0])
    assert_close(credit(methods.ace(alpha=0.0), batch), credit(methods.grpo(kl=0), batch))


def test_ace_options() -> None:
    batch = texts([1, 0], [-1.0], [2.0, -1.0])
    assert credited(methods.ace(normalized=True), batch)["rollout.confidence.shift"].tolist() == [-1.0, 0.5]
    relu = credit(methods.ace(link="relu"), batch)
    assert float(relu[1]) == pytest.approx(2 * float(credit(methods.grpo(kl=0), batch)[1]))


def test_ace_on_a_bandit_the_spuriously_reinforced_wrong_arm_falls_faster() -> None:
    start = torch.tensor([0.0, 0.0, 2.0]).double()  # the third arm is wrong and twice as likely as it once was

    def after(method: Any) -> float:
        torch.manual_seed(0)
        logits = start.clone()
        for _ in range(100):
            arm = torch.multinomial(logits.softmax(0), 8, replacement=True)
            logp = logits.log_softmax(0)
            batch = Batch.from_padded(
                torch.ones(8, 1),
                [0] * 8,
                {
                    "rollout.reward": (arm == 0).double(),
                    "token.old.logp": logp[arm][:, None],
                    "token.ref.logp": torch.zeros(3).double().log_softmax(0)[arm][:, None],
                },
            )
            a = credit(method, batch)
            slope = (torch.nn.functional.one_hot(arm, 3) - logits.softmax(0)) * a[:, None]
            logits = logits + 0.05 * slope.mean(0)
        return float(logits.softmax(0)[2])

    assert after(methods.ace()) < after(methods.grpo(kl=0))


def test_ace_needs_a_reference_and_trains_with_one(tmp_path: Path) -> None:
    assert "add Role('ref')" in str(methods.ace().with_(roles=()).check())
    line = short_run(methods.ace(n=4), tmp_path / "run").metrics[-1]
    assert line["confidence.shift"] != 0
    assert line["grad_norm.policy"] > 0


# -- unlikeliness-reward -----------------------------------------------------------------------------------------------

LOGPS = ([-1, -0.5], [-2, -1], [-0.3, -0.2], [-1.5, -1.5])


def test_unlikeliness_worked_example() -> None:
    batch = texts([1, 1, 0, 1], *LOGPS)
    a = credit(methods.unlikeliness_reward(), batch)
    assert a.tolist() == pytest.approx([0.36451, 0.62961, -1.49119, 0.49706], abs=1e-5)
    assert credit(methods.unlikeliness_reward(beta=0.0), batch).tolist() == pytest.approx(
        [0.5, 0.5, -1.5, 0.5], abs=1e-5
    )


def test_unlikeliness_right_answers_earn_less_the_likelier_but_more_than_wrong_ones() -> None:
    batch = texts([1, 1, 1, 0, 1], [-3], [-2], [-1], [-2.5], [-0.1])
    after = credited(methods.unlikeliness_reward(beta=0.99), batch)
    right = after["rollout.reward"][[0, 1, 2, 4]]
    assert bool((right.diff() < 0).all())
    assert float(right.min()) > float(after["rollout.reward"][3]) == 0
    assert bool((after["rollout.advantage"][[0, 1, 2, 4]].diff() < 0).all())


def test_unlikeliness_with_beta_zero_is_grpo() -> None:
    batch = texts([1, 1, 0, 1], *LOGPS)
    assert_close(credit(methods.unlikeliness_reward(beta=0.0), batch), credit(methods.grpo(kl=0), batch))


def test_unlikeliness_all_right_groups_keep_a_signal_and_all_wrong_ones_are_dropped() -> None:
    method = methods.unlikeliness_reward()
    right = texts([1, 1], [-1], [-2])
    assert credit(method, right)[1] > 0 > credit(method, right)[0]
    kept = [
        method.keep[0](b.with_columns(method.reward[0](b)))["group.keep"] for b in (right, texts([0, 0], [-1], [-2]))
    ]
    assert [bool(k) for k in kept] == [True, False]


def test_unlikeliness_trains_two_epochs_and_skips_steps_with_a_large_gradient(tmp_path: Path) -> None:
    method = methods.unlikeliness_reward(n=4)
    line = short_run(method, tmp_path / "run", iterations=2).metrics[-1]
    assert (line["updates"], line["skipped"]) == (2, 0)
    assert line["reward.rank"] < 0
    line = short_run(method.set("updates.skip_above", 1e-9), tmp_path / "skipped", iterations=2).metrics[-1]
    assert line["skipped"] == 1
    assert line["kl.ref"] == 0  # nothing has moved


def test_an_iteration_without_a_group_to_train_changes_nothing_and_goes_on(tmp_path: Path) -> None:
    result = short_run(methods.unlikeliness_reward(n=2), tmp_path / "run", iterations=2, max_tokens=1)
    assert [line["updates"] for line in result.metrics[1:]] == [0, 0]


def test_a_right_answer_that_goes_on_after_its_end_counts_as_wrong() -> None:
    texts = ("1+1=2\nanswer: 2", "answer: 2\nand so on", "answer: 2 \n\n", "answer: 1\nanswer: 2", "no answer\nat all")
    batch = rewards([1, 1, 1, 1, 0], rollout__text=texts)
    method = methods.get("unlikeliness-reward@paper")
    marked = batch.with_columns(method.annotate[0](batch))
    assert marked["rollout.trailing_text"].tolist() == [False, True, False, False, False]
    assert method.reward[0](marked)["rollout.reward"].tolist() == [1, 0, 1, 1, 0]
