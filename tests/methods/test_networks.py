"""Methods whose policies write no text: they learn, every part acts, and their runs resume to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import podium
from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin
from podium.core.errors import PodiumError
from podium.parts.advantage import ActionRewards, EdgeSuccess, ValueAnchored
from podium.parts.objective import PolicyGradient
from podium.parts.reward import TurningPoints
from podium.report.run_page import write_report
from podium.sessions.train import configure, resume, train
from podium.training.preemption import StopRequest
from tests.methods.support import credit
from tests.sessions.test_preemption import signalled
from tests.sessions.test_train import numbers, weights

FEW = {"eval_tasks": 16, "eval_samples": 1, "eval_every": 0}


def graphs(edges: list[list[int]], rewards: list[float]) -> Batch:
    rollouts = [Rollout(0, [Turn(z)], columns={"reward": r}) for z, r in zip(edges, rewards, strict=True)]
    return Batch.from_rollouts(rollouts, dtype=torch.float64)


def test_an_edge_is_credited_by_the_success_of_its_graphs() -> None:
    """The card's worked example, and one more edge that no graph has."""
    batch = graphs([[1, 0, 1, 0], [1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], [1.0, 1.0, 0.0, 0.0])
    found = EdgeSuccess()(batch)
    assert found["token.success"][:3].tolist() == [1.0, 0.5, 0.5]
    assert found["token.advantage"][:4].tolist() == pytest.approx([1.154697, -0.577348, -0.577348, 0.0], abs=1e-6)
    assert credit(methods.graph_grpo(credit="graph"), batch).tolist() == pytest.approx([0.866024] * 2 + [-0.866024] * 2)


def test_equal_rewards_and_a_single_edge_give_no_signal() -> None:
    for batch in (graphs([[1, 0], [1, 1]], [1.0, 1.0]), graphs([[1, 0], [0, 0]], [1.0, 0.0])):
        assert EdgeSuccess()(batch)["token.advantage"].abs().max() == 0
    two = EdgeSuccess()(graphs([[1, 1], [1, 0], [0, 1], [0, 1]], [1.0, 1.0, 0.0, 0.0]))["token.advantage"][:2]
    assert two.tolist() == pytest.approx([0.5**0.5, -(0.5**0.5)], abs=1e-5)  # successes of 1 and 1/3


def test_shrinking_moves_a_rare_edge_towards_the_mean_reward() -> None:
    batch = graphs([[1, 1], [1, 0], [1, 0], [1, 0]], [1.0, 0.0, 0.0, 0.0])
    assert EdgeSuccess(shrink=1.0)(batch)["token.success"][:2].tolist() == pytest.approx([0.25, (1 + 0.25) / 2])


def test_graph_grpo_learns_which_agents_should_talk(tmp_path: Path) -> None:
    result = podium.train("graph-grpo", out=tmp_path / "run", **FEW)
    before, after = (line["eval.pass@1"] for line in (result.evaluations[0], result.evaluations[-1]))
    assert after > before + 0.4
    assert min(result.metrics[-1]["acted"].values()) > 0


@pytest.mark.parametrize("slug", ["debate-reward", "earli", "gf-screen", "graph-grpo", "mashost", "tp-grpo"])
def test_a_run_without_text_resumes_to_the_bit(slug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure(slug, **FEW).replace(iterations=3, tasks=2)
    train(config, out=tmp_path / "whole")
    with monkeypatch.context() as patched:
        signalled(patched, StopRequest, "forbid", 4)  # in the second iteration, before its first update
        assert train(config, out=tmp_path / "cut").saved == 1
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")
    whole = weights(tmp_path / "whole")
    assert all(torch.equal(x, whole[name]) for name, x in weights(tmp_path / "cut").items())


def test_a_chooser_and_a_world_of_texts_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match=r"no set of options\. Take a world that offers options"):
        podium.train("grpo", world="sums", model="podium/chooser", out=tmp_path / "a")
    with pytest.raises(PodiumError, match="sets of options to choose from"):
        podium.train("graph-grpo", world="sums", out=tmp_path / "b")
    assert not list(tmp_path.iterdir())


def test_other_methods_train_a_chooser_too(tmp_path: Path) -> None:
    result = podium.train("grpo", world="team", model="podium/chooser", out=tmp_path, iterations=2, tasks=4, **FEW)
    assert result.finished


def test_a_language_model_does_not_compute_what_a_chooser_does(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="log_odds"):
        podium.train("graph-grpo", world="team", model="podium/tiny", out=tmp_path, iterations=1, tasks=2, **FEW)


# -- flows -------------------------------------------------------------------------------------------------------------


def test_tp_grpo_learns_to_draw_what_is_asked_and_reports_show_it(tmp_path: Path) -> None:
    result = podium.train("tp-grpo", out=tmp_path, iterations=26, tasks=8, **{**FEW, "eval_tasks": 60})
    before, after = (line["eval.reward"] for line in (result.evaluations[0], result.evaluations[-1]))
    assert after > before + 0.1
    assert '<img alt="picture of 8 x 8 pixels"' in write_report(tmp_path).read_text()


@pytest.mark.parametrize("slug", ["flow-grpo", "gf-screen", "mashost", "tp-grpo", "vgpo"])
def test_every_part_of_a_method_acts(slug: str, tmp_path: Path) -> None:
    result = podium.train(slug, out=tmp_path, iterations=2, tasks=2, **FEW)
    assert min(result.metrics[-1]["acted"].values()) > 0


def test_a_first_step_that_decides_the_end_earns_more_as_a_turning_point() -> None:
    scores = [[0.1, 0.6, 0.7, 0.9], [0.5, 0.45, 0.4, 0.2]]
    turn = [Turn(range(3), tokens={"score": row[1:]}) for row in scores]
    rollouts = [Rollout(0, [t], columns={"score": row[0]}) for t, row in zip(turn, scores, strict=True)]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    turned, plain = (TurningPoints(turning=on, balance=False)(batch) for on in (True, False))
    assert turned["token.reward.step"].tolist() == pytest.approx([0.8, 0.1, 0.2, -0.3, -0.05, -0.2])
    assert plain["token.reward.step"][:3].sum() == pytest.approx(0.8)  # telescopes to the end minus the start


def test_a_rollout_that_falls_turns_where_it_begins_to_fall() -> None:
    """From 0.5 to 0.2 by way of 0.6, 0.4 and 0.3: the second step turns it, and earns 0.2 − 0.6."""
    turn = Turn(range(4), tokens={"score": [0.6, 0.4, 0.3, 0.2]})
    batch = Batch.from_rollouts([Rollout(0, [turn], columns={"score": 0.5})], dtype=torch.float64)
    found = TurningPoints(balance=False)(batch)
    assert found["token.turning"].tolist() == [False, True, False, False]
    assert found["token.reward.step"].tolist() == pytest.approx([0.1, -0.4, -0.1, -0.1])
    assert found["token.place"].tolist() == [0, 1, 2, 3]


def test_turning_points_whatever_follows_go_the_way_of_the_rollout_after_a_step_that_went_the_other() -> None:
    """The first rises from 0.2 to 0.4, and its third step, which leads back to where it came from, earns its own 0.2;
    in the second the steps beside the change stand still; the third ends where it began."""
    scores = [[0.2, 0.5, 0.4, 0.6, 0.4], [0.2, 0.2, 0.6, 0.5, 0.5], [0.5, 0.6, 0.4, 0.5]]
    rollouts = [
        Rollout(0, [Turn(range(len(row) - 1), tokens={"score": row[1:]})], columns={"score": row[0]}) for row in scores
    ]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    found = TurningPoints(consistent=False, balance=False)(batch)
    assert found["token.turning"].tolist() == [True, False, True, False] + [False] * 7
    earned = [0.2, -0.1, 0.2, -0.2, 0.0, 0.4, -0.1, 0.0, 0.1, -0.2, 0.1]
    assert found["token.reward.step"].tolist() == pytest.approx(earned)


def test_values_pass_over_what_the_policy_has_not_drawn() -> None:
    """Scores 0.4 and 0.8 with a token of the world between: Q = 0.4 + 0.5 · 0.8 and 0.8, whose mean is 0.8."""
    origin = [Origin.policy, Origin.given, Origin.policy]
    turn = Turn(range(3), origin=origin, tokens={"score": [0.4, 9.0, 0.8]})
    found = ValueAnchored(gamma=0.5, k=0.5)(Batch.from_rollouts([Rollout(0, [turn])], dtype=torch.float64))
    assert found["token.q"][[0, 2]].tolist() == pytest.approx([0.8, 0.8])
    assert found["token.omega"][[0, 2]].tolist() == pytest.approx([1.0, 1.0])
    assert found["token.advantage"][[0, 2]].tolist() == pytest.approx([0.4, 0.4])  # alone: k · Q
    nothing = Turn(range(2), tokens={"score": [0.0, 0.0]})
    flat = ValueAnchored()(Batch.from_rollouts([Rollout(0, [nothing])], dtype=torch.float64))
    assert flat["token.omega"].tolist() == [1.0, 1.0]


def test_the_signal_of_values_lives_in_a_group_without_spread_iff_there_is_an_absolute_term() -> None:
    turns = [Turn(range(3), tokens={"score": [0.2, 0.4, 0.8]}) for _ in range(2)]
    batch = Batch.from_rollouts([Rollout(0, [turn]) for turn in turns], dtype=torch.float64)
    assert ValueAnchored(k=0.0)(batch)["token.advantage"].abs().max() == 0
    found = ValueAnchored(k=0.1)(batch)["token.advantage"][:3]
    assert found.tolist() == pytest.approx([0.13995, 0.12031, 0.06138], abs=1e-5)


def test_values_of_the_last_score_alone_are_grpo() -> None:
    turns = [Turn(range(2), tokens={"score": [0.0, r]}) for r in (0.2, 0.9, 0.4)]
    batch = Batch.from_rollouts([Rollout(0, [turn]) for turn in turns], dtype=torch.float64)
    found = ValueAnchored(gamma=1.0, k=0.0)(batch)["token.advantage"]
    reward = torch.tensor([0.2, 0.9, 0.4], dtype=torch.float64)
    expected = (reward - reward.mean()) / (reward.std(unbiased=False) + 1e-4)
    assert torch.allclose(found, expected.repeat_interleave(2))


# -- hosts -------------------------------------------------------------------------------------------------------------


def test_an_action_that_costs_something_is_credited_less_even_in_a_team_that_succeeds() -> None:
    """The card's worked example."""
    worth = [[0.5, -1.0], [0.0, 0.0], [0.0, 0.5], [0.0, 0.0]]
    turns = [[Turn([0], columns={"action_reward": x}) for x in row] for row in worth]
    rollouts = [Rollout(0, t, columns={"reward": r}) for t, r in zip(turns, [1.0, 0.0, 1.0, 0.0], strict=True)]
    found = ActionRewards()(Batch.from_rollouts(rollouts, dtype=torch.float64))["turn.advantage"]
    expected = [1.116024, 0.366024, -0.866024, -0.866024, 0.866024, 1.116024, -0.866024, -0.866024]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


def test_the_ratio_of_an_action_is_that_of_its_joint_probability() -> None:
    turns = [Turn([0, 1, 1]), Turn([2])]
    batch = Batch.from_rollouts([Rollout(0, turns)], dtype=torch.float64).with_columns(
        {
            "token.now.logp": torch.tensor([-0.5, -1.0, -0.2, -0.1], dtype=torch.float64),
            "token.old.logp": torch.tensor([-0.6, -0.8, -0.5, -0.3], dtype=torch.float64),
        }
    )
    gradient = methods.mashost().objective[0]
    assert gradient.span_log_ratio(batch).tolist() == pytest.approx([0.1 - 0.2 + 0.3, 0.2])
    with pytest.raises(PodiumError, match="no spans of which a ratio could be joint"):
        PolicyGradient(joint=True)


# -- debates and gates -------------------------------------------------------------------------------------------------


def test_every_part_of_self_play_in_debates_acts(tmp_path: Path) -> None:
    result = podium.train("debate-reward", out=tmp_path, iterations=2, tasks=2, **FEW)
    acted = result.metrics[-1]["acted"]
    assert min(count for part, count in acted.items() if part != "objective.clip") > 0  # ratios stay near 1 at first
    assert "contradictions" not in result.metrics[-1]  # what one debater earns the other loses


def crops(found: list[float], now: list[float]) -> Batch:
    turns = [Turn([1], columns={"found": x, "lesion": x}) for x in found]
    odds = {"token.now.log_odds": torch.tensor(now, dtype=torch.float64)}
    batch = Batch.from_rollouts([Rollout(0, turns)], dtype=torch.float64)
    return batch.with_columns({**odds, "token.old.log_odds": odds["token.now.log_odds"].clone()})


def test_a_gate_that_has_not_moved_has_the_gradient_of_its_advantages() -> None:
    """−A (1 − p) / N on the log-odds of keeping; where all rewards are equal only labels pull."""
    method = methods.gf_screen(kl=0.0)
    batch = crops([1.0, 0.0, 0.0, 0.0], [0.0, 0.5, -0.5, 1.0])
    batch = batch.with_columns(method.advantage(batch))
    odds = batch["token.now.log_odds"].requires_grad_()
    surrogate, labels = method.objective
    (gradient,) = torch.autograd.grad(surrogate(batch), odds)
    a = torch.tensor([1.5, -0.5, -0.5, -0.5], dtype=torch.float64)
    assert torch.allclose(gradient, -a * (1 - torch.sigmoid(odds)) / 4, atol=1e-6)
    (pull,) = torch.autograd.grad(labels(batch), odds)
    wanted = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    assert torch.allclose(pull, 0.1 * (torch.sigmoid(odds) - wanted) / 4)
    none = crops([0.0, 0.0], [0.3, -0.3])
    assert method.advantage(none)["turn.advantage"].abs().max() == 0


def test_without_labels_and_rewards_there_is_nothing_to_train() -> None:
    with pytest.raises(PodiumError, match="labels"):
        methods.gf_screen(labels=0.0, rewarded=False)
