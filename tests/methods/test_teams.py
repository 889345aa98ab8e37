"""READ and AdvEvo-MARL as runs: what is refused, what stays as it is, and that both resume to the bit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.labs.experiments.read import Deliveries, delivered
from podium.method import Method
from podium.parts.advantage import PrefixCredit, TeamBaseline
from podium.parts.objective import PrefixValueLoss
from podium.parts.shape import AdvantageWeights
from podium.protocols.context import History, Latest
from podium.sessions.train import configure, resume, train
from podium.store.run_directory import RunDirectory
from podium.strategies import AdvantageFilter
from podium.strategies.agents.advantage_filter import Refused, _Walk
from tests.sessions.test_train import numbers

RUN: dict[str, Any] = {"model": "podium/tiny2", "tasks": 2, "eval_every": 0, "eval_tasks": 1, "lr": 3e-4}
READ = {"n": 2, "imitate": 0, "warmup": 0, "epochs": 1}


def carrying(method: Method, **settings: Any) -> Any:
    dials = {"rounds": 2, "boxes": 1}
    return configure(method, world="carry", world_settings=dials, checkpoint_every=1, **{**RUN, **settings})


def besieged(method: Method, **settings: Any) -> Any:
    return configure(method, world="vault", checkpoint_every=1, keep_checkpoints=9, **{**RUN, **settings})


def saved(path: Path, role: str, place: int = -1) -> bytes:
    return (RunDirectory(path).checkpoints()[place] / role / "model.safetensors").read_bytes()


def test_the_worked_example_of_prefix_credit() -> None:
    before, after = torch.tensor([0.4, 0.55]), torch.tensor([0.55, 0.5])
    local = PrefixCredit().local(before, after)
    assert local.tolist() == pytest.approx([0.15, -0.05])
    rule = AdvantageFilter(gamma=0.97)
    assert rule.value(0.4) == pytest.approx(0.412371, abs=1e-6)
    assert rule.joint_advantage(0.5, 0.4) == pytest.approx(0.087629, abs=1e-6)
    assert [rule.accepts(x, 0.0) for x in local.tolist()] == [True, False]
    assert AdvantageWeights().weights(local).tolist() == pytest.approx([1.161834, 0.951229])


def test_weights_are_capped_and_become_1_at_a_high_temperature() -> None:
    local = torch.tensor([100.0, -1.0])
    assert AdvantageWeights().weights(local)[0] == pytest.approx(20.0)
    assert AdvantageWeights(1e9).weights(local).tolist() == pytest.approx([1.0, 1.0])


def test_returns_of_a_team_are_discounted_by_rounds_and_not_by_turns() -> None:
    rounds, rewards = (0, 0, 1, 1), (0.0, 0.5, 0.0, 0.5)
    turns = [Turn([0], columns={"round": r, "reward": x}) for r, x in zip(rounds, rewards, strict=True)]
    batch = Batch.from_rollouts([Rollout(0, turns)])
    batch = batch.with_columns({Signal("value", of="now"): torch.zeros(4)})
    loss = PrefixValueLoss(gamma=0.5)
    assert loss.returns(batch).tolist() == pytest.approx([0.75, 0.75, 0.5, 0.5])
    assert loss.loss(batch).tolist() == pytest.approx([1.125, 1.125, 0.5, 0.5])


def test_the_threshold_halves_with_each_proposal_and_doubles_with_each_round() -> None:
    """A step of r proposals leaves α · 2^(1 − r) for the next."""
    rule, walk = AdvantageFilter(n=1, threshold=0.4, tries=9), _Walk(0, 0.4)
    walk.threshold *= 2  # a round begins
    proposal = Rollout(0, [Turn([0], columns={"action": "wait"})], columns={"stop": "turns"})
    thresholds = []
    for score in (0.3, 0.15, 0.2):
        rule._judge(walk, proposal, score, 10)
        thresholds.append(walk.threshold)
    assert thresholds == pytest.approx([0.4, 0.2, 0.1])
    assert (walk.tries, walk.scores, walk.queries) == ([3], [0.2], 3)


def test_the_best_of_the_refused_is_taken_when_the_tries_are_exhausted() -> None:
    rule, walk = AdvantageFilter(n=1, tries=2), _Walk(0, 0.0)
    for action, score in (("take", -0.1), ("wait", -0.2)):
        rule._judge(walk, Rollout(0, [Turn([0], columns={"action": action})], columns={"stop": "turns"}), score, 10)
    assert [turn.columns["action"] for turn in walk.turns] == ["take"]


def test_refused_actions_stand_below_the_last_message() -> None:
    assert Refused(Latest(), ("no",))(History("state")) == ["state\nno"]
    with pytest.raises(PodiumError, match="told"):
        AdvantageFilter(told="{reason}")


def test_by_exact_values_no_bad_action_is_taken_where_a_good_one_was_proposed() -> None:
    size = Deliveries(seeds=1, tasks=3)
    found, random = delivered("filter", 0, size), delivered("random", 0, size)
    assert list(found["regretted"]) == [0.0] * 3  # type: ignore[call-overload]
    assert sum(found["queries"]) < sum(random["queries"])  # type: ignore[arg-type]


def test_the_worked_example_of_a_team_baseline() -> None:
    rows = [("attacker", 1.0), ("attacker", 1.0), ("defender", -1.0), ("defender", 2.0), ("defender", 0.0)]
    turns = [Turn([0], columns={"role": r, "agent": str(n), "reward": x}) for n, (r, x) in enumerate(rows)]
    batch = Batch.from_rollouts([Rollout(0, turns)])
    plain = TeamBaseline(scaled=False)(batch)
    assert plain["turn.advantage"].tolist() == pytest.approx([0, 0, -1.333333, 1.666667, -0.333333], abs=1e-5)
    scaled = TeamBaseline()(batch)["turn.advantage"][2:]
    assert scaled.tolist() == pytest.approx([-0.872872, 1.091089, -0.218218], abs=1e-5)


def test_an_agent_that_acts_twice_counts_once() -> None:
    rows = [("a", 1.0), ("a", 1.0), ("b", 0.0)]
    turns = [Turn([0], columns={"role": "team", "agent": a, "reward": x}) for a, x in rows]
    found = TeamBaseline(scaled=False)(Batch.from_rollouts([Rollout(0, turns)]))
    assert found["turn.return"].tolist() == [2.0, 2.0, 0.0]
    assert found["turn.baseline"].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("mode", ["S", "J"])
def test_a_filter_without_training_leaves_the_policy_as_it_is(mode: str, tmp_path: Path) -> None:
    config = carrying(methods.read(mode=mode, train_policy=False, **READ), iterations=2, keep_checkpoints=9)
    result = train(config, out=tmp_path / "run")
    assert saved(tmp_path / "run", "policy", 0) == saved(tmp_path / "run", "policy")
    assert result.metrics[-1]["watched.queries"] > 4  # turns


def test_attackers_and_defenders_resume_to_the_bit(tmp_path: Path) -> None:
    config = besieged(methods.advevo_marl(n=2, imitate=1), iterations=3)
    train(config, out=tmp_path / "whole")
    for done in (1, 2):  # at the end of imitation, and after it
        cut = tmp_path / f"cut-{done}"
        shutil.copytree(tmp_path / "whole", cut)
        for later in RunDirectory(cut).checkpoints()[done:]:
            shutil.rmtree(later)
        resume(cut, config=config)
        assert numbers(cut) == numbers(tmp_path / "whole")
        for role in ("policy", "attacker"):
            assert saved(cut, role) == saved(tmp_path / "whole", role)
    assert saved(tmp_path / "whole", "attacker") != saved(tmp_path / "whole", "policy")


def test_worlds_without_agents_and_training_nobody_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="trains nobody"):
        methods.advevo_marl(train_attacker=False, train_defenders=False)
    with pytest.raises(PodiumError, match=r"turn\.round"):
        train(configure(methods.read(**READ), world="sums", **RUN), out=tmp_path / "run")
