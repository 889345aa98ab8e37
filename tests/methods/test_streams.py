"""SPO and RiskPO in training: memories that follow the policy, and tasks in bundles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.memories import QuantileTracker, StoredResponses, SuccessTracker
from podium.parts.advantage import RiskBundles, bundles
from podium.parts.keep import Bundle
from podium.parts.select import Uncertain
from podium.parts.shape import Whiten
from tests.methods.support import credit, rewards, short_run

# -- spo-single-stream -------------------------------------------------------------------------------------------------


def observed(tracker: SuccessTracker, state: dict[str, Any], reward: float, shift: float) -> dict[str, Any]:
    batch = rewards([reward], group__policy_shift=torch.tensor([shift], dtype=torch.float64))
    return tracker.observe(state, batch)


def value(tracker: SuccessTracker, state: dict[str, Any]) -> float:
    return float(tracker.recall(state, [0])["group.tracker.value"])


def test_spo_tracked_value_converges_to_the_rate_of_a_fixed_policy() -> None:
    torch.manual_seed(0)
    tracker, values = SuccessTracker(rho_min=0.96), []
    state = tracker.initial()
    for _ in range(600):
        state = observed(tracker, state, float(torch.rand(()) < 0.3), 0.0)
        values.append(value(tracker, state))
    assert sum(values[100:]) / 500 == pytest.approx(0.3, abs=0.05)


def test_spo_adapts_within_the_length_of_its_memory_after_a_jump_of_the_policy() -> None:
    tracker = SuccessTracker()
    state = tracker.initial()
    for _ in range(50):
        state = observed(tracker, state, 0.0, 1.0)
    before = value(tracker, state)
    for _ in range(8):  # 1 / (1 − rho_min) visits
        state = observed(tracker, state, 1.0, 1.0)
    assert before < 0.05
    assert value(tracker, state) > 0.55


def test_spo_a_batch_of_right_answers_has_a_signal_where_expectations_differ() -> None:
    known = {"group__tracker__value": torch.tensor([0.9, 0.2, 0.5], dtype=torch.float64)}
    a = credit(methods.spo_single_stream(offline=0), rewards([1], [1], [1], **known))
    assert (float(a.mean()), float(a.std())) == pytest.approx((0, 1), abs=1e-6)
    assert a.argmax() == 1


def test_spo_draws_uncertain_tasks_most_and_every_task_sometimes() -> None:
    drawn = Uncertain()({"group.tracker.value": torch.tensor([0.0, 0.5, 0.9, 1.0])})
    assert drawn.argmax() == 1
    assert float(drawn.min()) > 0


def test_spo_with_group_mean_and_group_std_is_grpo() -> None:
    batch = rewards([1, 0, 0], [1, 1, 0])
    method = methods.spo_single_stream(offline=0)
    grouped = method.with_(shape=Whiten(level="rollout", key=("group",), epsilon=1e-6, epsilon_at="outside"))
    mean = batch.by("rollout", "group").agg.mean(batch["rollout.reward"])
    a = credit(grouped, batch.with_columns({"group.tracker.value": mean}))
    torch.testing.assert_close(a, credit(methods.grpo(kl=0), batch))


def response(task: str, logp: list[float]) -> Rollout:
    return Rollout(task, [Turn(range(len(logp)), context=(7, 8), tokens={"now.logp": logp})], columns={"reward": 1.0})


def test_spo_a_response_is_stored_with_the_log_probabilities_after_its_update_and_scored_again() -> None:
    memory = StoredResponses()
    first = Batch.from_rollouts([response("a", [-1.0, -2.0]), response("b", [-3.0])])
    assert memory.revisit(memory.initial(), first) is None
    state = memory.observe(memory.initial(), first)
    visit = Batch.from_rollouts([response("a", [-9.0]), response("new", [-9.0])])
    again = memory.revisit(state, visit)
    assert again is not None
    assert again["token.id"].tolist() == [0, 1]
    assert again["turn.train_context"] == ((7, 8),)
    scored = again.with_columns({"token.now.logp": torch.tensor([-1.5, -1.7])})
    assert memory.revisited(visit, scored)["group.policy_shift"].tolist() == pytest.approx([0.4, 0.0])
    after = memory.observe(state, visit)
    assert set(after["responses"]) == {"a", "b", "new"}
    assert after["responses"]["a"] == [((7, 8), (0,), (-9.0,))]


def test_spo_trains_and_sees_the_policy_move_on_tasks_it_meets_again(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    tasks = [{"question": f"sum: {a} + {b}", "answer": str(a + b)} for a, b in ((3, 4), (12, 7), (40, 31), (8, 8))]
    file.write_text("\n".join(map(json.dumps, tasks)))
    settings = {"world": "jsonl", "file": str(file), "test_file": str(file), "instructions": False, "grader": "exact"}
    settings |= {"spurious": "random", "max_tokens": 30}  # so that rewards differ
    lines = short_run("spo-single-stream@online", tmp_path / "run", iterations=4, **settings).metrics[1:]
    assert lines[0]["policy_shift"] == 0
    assert all(line["policy_shift"] > 0 for line in lines[1:])
    assert 0 < lines[-1]["tracker.value"] < 1


def test_spo_groups_that_only_measure_set_the_counts() -> None:
    tracker = SuccessTracker()
    shift = {"group__policy_shift": torch.zeros(2, dtype=torch.float64)}
    batch = rewards([1, 1, 0, 0, 0, 0, 0, 0], [0] * 8, group__keep=[False, False], **shift)
    state = tracker.observe(tracker.initial(), batch)
    found = tracker.recall(state, [0, 1])
    # 1 / (1 − 0.875) = 8 samples in all: 8 · (2 + ½) / 9 and 8 · (6 + ½) / 9; then 8 · ½ / 9 and 8 · 8½ / 9.
    assert found["group.tracker.alpha"].tolist() == pytest.approx([20 / 9, 4 / 9])
    assert found["group.tracker.beta"].tolist() == pytest.approx([52 / 9, 68 / 9])
    assert tracker.scalars(state) == {"tracked_tasks": 2.0}


def test_spo_measures_every_task_before_it_trains(tmp_path: Path) -> None:
    method = methods.get("spo-single-stream")
    lines = short_run(method, tmp_path / "run", iterations=9, tasks=4, pool=8).metrics[1:]
    assert [line["phase"] for line in lines] == [0] * 3 + [1] * 6  # two iterations see all, the third sees nothing new
    assert all("grad_norm.policy" not in line for line in lines[:3])
    assert lines[3]["policy_shift"] == 0  # nothing was stored before the first update
    assert lines[2]["tracker.value"] != 0.5


# -- riskpo ------------------------------------------------------------------------------------------------------------


def papers(*scores: float, **settings: Any) -> list[float]:
    """Values of papers of one question: a bundle of one task whose rollouts have these rewards."""
    columns = {
        "group__bundle": [0],
        "batch__risk__levels": torch.tensor([[0.2, 0.8]], dtype=torch.float64),
        "batch__risk__quantiles": torch.tensor([[1.0, 3.0]], dtype=torch.float64),
    }
    return credit(
        methods.riskpo().with_(keep=(), advantage=RiskBundles(**{"credit": "uniform", "scale": "none", **settings})),
        rewards(scores, **columns),
    ).tolist()


def test_riskpo_a_lower_score_never_has_a_larger_value_and_those_beyond_the_upper_quantile_are_alike() -> None:
    values = papers(0, 0.5, 1, 2, 3, 4, 5)
    assert values == sorted(values)
    assert values[4] == values[5] == values[6] == 0
    assert all(v <= 0 for v in values)


def test_riskpo_without_tail_and_natural_baseline_the_value_is_the_score_above_the_smallest() -> None:
    settings = {"tail_weight": 0.0, "low": 0.0, "high": 1.0, "natural_baseline": False, "quantiles": "batch"}
    assert papers(2, 0, 5, 3, **settings) == pytest.approx([2, 0, 5, 3], rel=1e-5)


def test_riskpo_tracked_quantiles_converge_to_those_of_the_scores() -> None:
    torch.manual_seed(0)
    tracker = QuantileTracker(levels=(0.2, 0.8), lr=0.02)
    tracked = torch.zeros(2, dtype=torch.float64)
    for _ in range(3000):
        tracked = tracker.track(tracked, torch.randn(64).double())
    assert tracked.tolist() == pytest.approx([-0.8416, 0.8416], abs=0.06)


def test_riskpo_bundles_hold_every_task_once_and_none_is_a_stub() -> None:
    batch = rewards(*[[1, 0]] * 12)
    sizes = torch.bincount(Bundle(5)(batch)["group.bundle"]).tolist()
    assert sizes == [6, 6]  # not 5, 5 and 2
    assert [len(set(Bundle(5)(rewards(*[[1, 0]] * n))["group.bundle"].tolist())) for n in (1, 5, 7, 8, 16)] == [
        1,
        1,
        1,
        2,
        3,
    ]


def test_riskpo_scores_of_a_larger_bundle_are_scaled_to_the_mean_size() -> None:
    batch = rewards([1, 0], [1, 0], [1, 1], group__bundle=[0, 0, 1])  # papers of two questions and of one
    score, taken = bundles.scores(batch, bundles.papers(batch))
    # Sums 2, 0 | 1, 1 times 1.5 / 2 | 1.5 / 1.
    assert sorted(score[taken].tolist()) == [0.0, 1.5, 1.5, 1.5]


def test_riskpo_gives_no_group_of_a_remainder_an_advantage_of_its_own_size() -> None:
    torch.manual_seed(0)
    batch = rewards(*torch.randint(0, 2, (16, 8)).double().tolist())
    levels, quantiles = torch.tensor([[0.2, 0.8]]).double(), torch.tensor([[1.0, 4.0]]).double()
    batch = batch.with_columns({"batch.risk.levels": levels, "batch.risk.quantiles": quantiles})
    method = methods.get("riskpo@math")
    a = credit(method.with_(keep=()), batch.with_columns(method.keep[0](batch)))
    means = batch.by("rollout", "group").agg.mean(a).abs()
    assert float(means.max()) < 3 * float(means.median())


def test_riskpo_trains_on_quantiles_of_the_iteration_before(tmp_path: Path) -> None:
    tracked = short_run(methods.riskpo(n=4, bundle=2), tmp_path / "run", iterations=3).metrics[1:]
    released = short_run(methods.riskpo(n=4, bundle=2, quantiles="batch"), tmp_path / "own", iterations=3).metrics[1:]
    assert all(line["grad_norm.policy"] > 0 for line in (tracked[0], released[0]))
    assert tracked[0]["loss"] == released[0]["loss"]  # nothing is tracked yet
    assert tracked[2]["loss"] != released[2]["loss"]
