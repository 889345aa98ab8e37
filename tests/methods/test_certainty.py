"""UCAS and the effective rank: what the model makes of its own answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from podium import methods
from podium.core import Signal
from podium.core.batch import Batch
from podium.core.value import Clock
from podium.memories import RankBaselines
from podium.parts.shape import RankBonus
from podium.policy.head.effective_rank import effective_rank
from tests.conformance.helpers import credited
from tests.methods.support import short_run
from tests.policy import tiny
from tests.policy.head.test_functionals import rollouts

LENGTHS = torch.tensor([2, 1, 2])
MASK = (torch.arange(2) < LENGTHS[:, None]).double()
CERTAINTY = torch.tensor([[8.0, 8.0], [10.0, 0.0], [9.0, 9.0]], dtype=torch.float64)
LOGITS = torch.tensor([[20.0, 10.0], [15.0, 0.0], [25.0, 12.0]], dtype=torch.float64)


def batch_of(rewards: list[float], certainty: Tensor = CERTAINTY, logits: Tensor = LOGITS) -> Batch:
    columns = {
        "token.old.mean_logp": -certainty,
        "token.old.logit": logits,
        "rollout.reward": torch.tensor(rewards, dtype=torch.float64),
    }
    return Batch.from_padded(MASK, [0] * 3, columns)


# -- ucas --------------------------------------------------------------------------------------------------------------


def test_ucas_worked_example() -> None:
    a = credited(methods.ucas(), batch_of([1, 0, 0]))["token.advantage"]
    assert a.tolist() == pytest.approx([1.032519, 1.065853, -0.406662, -0.814079, -0.770746], abs=1e-6)


def test_ucas_without_its_factors_and_its_penalty_is_grpo() -> None:
    batch = batch_of([1, 0, 0])
    plain = credited(methods.ucas(positive=0, negative=0, penalty=0), batch)["token.advantage"]
    assert_close(plain, credited(methods.grpo(), batch)["token.advantage"])


def test_ucas_keeps_the_signs_of_advantages() -> None:
    a = credited(methods.ucas(penalty=5.0), batch_of([1, 0, 0]))["token.advantage"]
    assert bool((a[:2] >= 0).all())
    assert bool((a[2:] < 0).all())


def test_ucas_is_the_identity_on_answers_that_are_equally_sure() -> None:
    same = torch.tensor([[7.0, 7.0], [14.0, 0.0], [7.0, 7.0]], dtype=torch.float64)
    factor = credited(methods.ucas(penalty=0.0), batch_of([1, 0, 0], same))["rollout.factor"]
    assert factor.tolist() == pytest.approx([1.0] * 3)


def test_ucas_pushes_sure_tokens_down_where_all_rewards_are_equal() -> None:
    a = credited(methods.ucas(), batch_of([1, 1, 1]))["token.advantage"]
    assert bool((a <= 0).all())
    assert float(a.min()) == pytest.approx(-0.05)


def test_ucas_is_finite_for_a_group_of_one_that_is_very_sure() -> None:
    batch = batch_of([-1, -1, -1], 1e4 * CERTAINTY)
    alone = Batch.from_padded(
        MASK,
        [0, 1, 2],
        {
            "token.old.mean_logp": -1e4 * CERTAINTY,
            "token.old.logit": LOGITS,
            "rollout.reward": batch["rollout.reward"],
        },
    )
    assert bool(credited(methods.ucas(), alone)["token.advantage"].isfinite().all())
    untouched = credited(methods.ucas(penalty=0.0, singleton="zero"), alone)["rollout.advantage"]
    assert untouched.tolist() == pytest.approx([-1.0] * 3, abs=1e-5)


# -- verl-effective-rank -----------------------------------------------------------------------------------------------


def test_the_effective_rank_of_orthogonal_centred_directions_is_their_number() -> None:
    corners = torch.eye(5, dtype=torch.float64)  # centred, five points of equal norm span four directions
    assert float(effective_rank(corners)) == pytest.approx(4, abs=1e-5)
    assert float(effective_rank(torch.ones(4, 3))) == pytest.approx(1)
    assert float(effective_rank(torch.ones(1, 3))) == 0


def bonus_of(a: list[float], part: RankBonus) -> tuple[Batch, Tensor]:
    n = len(a)
    generator = torch.Generator().manual_seed(1)
    columns: dict[str, Any] = {
        "rollout.advantage": torch.tensor(a, dtype=torch.float64),
        part.needs[-1].column: torch.randn(n, 3, generator=generator, dtype=torch.float64),  # type: ignore[union-attr]
        "batch.rank.averages": torch.tensor([[0.5, 0.1, 0.2]], dtype=torch.float64),
    }
    batch = Batch.from_padded(torch.ones(n, 3), [0] * n, columns)
    return batch, part(batch)["token.advantage"].reshape(n, 3) - batch["rollout.advantage"][:, None]


def test_the_bonus_is_at_most_the_advantage_over_kappa_and_never_negative() -> None:
    batch, added = bonus_of([1.0, -1.0, 0.5, 0.0, -0.2, 2.0], RankBonus(kappa=2.0))
    assert bool((added >= 0).all())
    assert bool((added <= batch["rollout.advantage"].abs()[:, None] / 2).all())
    assert bool((added[:, :2] == 0).all())  # on the last token alone
    assert float(added.max()) > 0


def test_the_bonus_may_go_to_all_tokens() -> None:
    _, added = bonus_of([1.0, -1.0], RankBonus(credit="all"))
    assert_close(added, added[:, :1].expand(2, 3))


@pytest.mark.parametrize("part", [RankBonus(kappa=1e12), RankBonus(weight=0.0)])
def test_without_room_or_weight_for_a_bonus_it_is_grpo(part: RankBonus) -> None:
    _, added = bonus_of([1.0, -1.0, 0.5], part)
    assert float(added.abs().max()) < 1e-9


def test_there_is_no_bonus_in_the_first_iteration() -> None:
    method, memory = methods.get("verl-effective-rank@paper"), RankBaselines()
    first = method.at(Clock(values=memory.scalars(memory.initial()))).shape[0]
    assert first.weight == 0  # type: ignore[attr-defined]
    later = method.at(Clock(values=memory.scalars(memory.initial() | {"seen": 1}))).shape[0]
    assert later.weight == 1  # type: ignore[attr-defined]


def test_the_averages_are_used_before_they_move() -> None:
    memory = RankBaselines(rate=0.3)
    batch = Batch.from_padded(
        torch.ones(2, 1),
        [0, 0],
        {
            "rollout.reward": torch.zeros(2, dtype=torch.float64),
            memory.needs[-1].column: torch.ones(2, 3, dtype=torch.float64),  # type: ignore[union-attr]
        },
    )
    assert memory.recall(memory.initial(), [])["batch.rank.averages"].tolist() == [[0.0, 0.0, 0.0]]
    after = memory.observe(memory.initial(), batch)
    assert after["mean"] == pytest.approx((0.3, 0.3, 0.3))


def test_the_policy_says_the_rank_of_each_rollout() -> None:
    policy, made = tiny.policy(), rollouts()
    signal = Signal("rank_dynamics", of="old", level="rollout", stride=2, window=512)
    found = policy.signals(Batch.from_rollouts(made), [signal])[signal]
    turn = made[0].turns[0]
    hidden = policy.states([(*turn.context, *turn.ids[:-1])])[0][len(turn.context) - 1 :]
    assert float(found[0, 0]) == pytest.approx(float(effective_rank(hidden.double())), rel=1e-4)
    assert found[-2].tolist() == [0.0, 0.0, 0.0]  # an empty answer


@pytest.mark.parametrize(("slug", "shown"), [("ucas", "certainty"), ("verl-effective-rank", "rank")])
def test_they_train(slug: str, shown: str, tmp_path: Path) -> None:
    last = short_run(methods.get(slug, n=4), tmp_path / "run", level=2).metrics[-1]
    assert last["grad_norm.policy"] > 0
    assert last[shown] > 0
