"""SAFE: a pessimistic critic, and a KL penalty with a moving threshold."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from podium import methods
from podium.core.value import Clock
from podium.memories import AsymmetricKL, EntropyGatedKL
from podium.parts.objective import KL
from podium.policy import Critic, critic
from podium.policy.head.functionals import soft_min
from podium.sessions.train import configure
from podium.training.build import build_run
from tests.methods.support import short_run
from tests.policy import tiny


def looks(controller: EntropyGatedKL, *rows: tuple[float, float, float]) -> list[dict[str, float]]:
    state, found = controller.initial(), []
    for kl, entropy, reward in rows:
        state = controller.step(state, kl, entropy, reward)
        found.append(state)
    return found


def test_the_controller_worked_example() -> None:
    rows = ((1, 1, 0.5), (1, 1, 0.5), (1.5, 1, 0.6), (2, 0.5, 0.6), (2, 3, 0.6), (2, 3, 0.6))
    found = looks(EntropyGatedKL(), *rows)
    expected = [0.45, 0.44946, 0.45222, 0.45177, 0.45171675, 0.4516654]
    assert [s["threshold"] for s in found] == pytest.approx(expected)
    assert [s["penalty"] for s in found] == pytest.approx([0, 0, 0, 0.000459546, 0.00228738, 0.00678702], abs=1e-8)
    assert float(soft_min(torch.tensor([1.0, 0.4]), 0.3)) == pytest.approx(0.569866, abs=1e-6)


def test_the_soft_minimum_lies_between_the_minimum_and_the_mean() -> None:
    values = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    for alpha in (0.01, 0.3, 10.0):
        found = soft_min(values, alpha)
        assert bool((found >= values.amin(-1) - 1e-6).all())
        assert bool((found <= values.mean(-1) + 1e-6).all())
    assert_close(soft_min(values, 1e-3), values.amin(-1), atol=1e-2, rtol=0)
    assert_close(soft_min(values, 1e4), values.mean(-1), atol=1e-2, rtol=0)


def test_the_penalty_sleeps_below_the_threshold_and_grows_above_it() -> None:
    state = EntropyGatedKL().initial() | {"rewards": [0.5], "ema": 0.5}
    penalties = [EntropyGatedKL().step(state | {"kl_short": k}, k, 1.0, 0.5)["penalty"] for k in (0.1, 0.4, 0.6, 0.9)]
    assert penalties[:2] == [0, 0]
    assert 0 < penalties[2] < penalties[3]


def test_the_penalty_falls_with_the_entropy_down_to_a_floor() -> None:
    state = EntropyGatedKL().initial() | {"kl_short": 0.9, "rewards": [0.5], "ema": 0.5}
    penalties = [EntropyGatedKL().step(state, 0.9, h, 0.5)["penalty"] for h in (0.1, 1.0, 3.0, 4.0, 9.0)]
    assert penalties[0] > penalties[1] > penalties[2] > penalties[3]
    assert penalties[3] == pytest.approx(penalties[4])  # the floor is a half


def test_the_coefficient_is_the_slope_of_the_penalty() -> None:
    step = 1e-6
    for controller in (EntropyGatedKL(), AsymmetricKL(window=2)):
        held = {"rewards": [0.5], "ema": 0.5} if isinstance(controller, EntropyGatedKL) else {"kls": [0.1]}

        def at(
            k: float, c: EntropyGatedKL | AsymmetricKL = controller, held: dict[str, object] = held
        ) -> dict[str, float]:
            before = {"kl_short": (k - 0.1) / 0.9} if isinstance(c, EntropyGatedKL) else {}
            return c.step({**c.initial(), **held, **before}, 1.0 if before else k, 1.0, 0.5)

        slope = (at(0.8 + step)["penalty"] - at(0.8 - step)["penalty"]) / (2 * step)
        assert at(0.8)["coefficient"] == pytest.approx(slope, rel=1e-4)


def test_the_penalty_acts_through_a_kl_term_and_in_the_release_through_nothing() -> None:
    acting = methods.safe_control().at(Clock(values={"kl.coefficient": 0.25}))
    assert [t.coefficient for t in acting.objective if isinstance(t, KL)] == [0.25]
    assert not [t for t in methods.get("safe-control@release").objective if isinstance(t, KL)]


def test_two_heads_say_nothing_at_first_and_come_apart_as_they_learn_the_same() -> None:
    head = critic(tiny.policy(), heads=2).value_head
    states = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    assert head(states).tolist() == [[0.0, 0.0]] * 5
    (head(states) - 1).square().sum().backward()
    torch.optim.SGD(head.parameters(), 0.1).step()
    said = head(states).detach()
    assert float((said[:, 0] - said[:, 1]).abs().min()) > 0


def test_a_critic_with_several_heads_is_made_where_a_term_asks_for_values() -> None:
    run = build_run(configure("safe-control", world="sums"))
    assert isinstance(run.trainer.learners["critic"].policy, Critic)
    assert set(run.trainer.learners) == {"policy", "critic"}
    assert set(run.trainer.roles) == {"ref"}


@pytest.mark.parametrize("settings", [{}, {"controller": "asymmetric"}, {"n": 4}])
def test_safe_control_trains(settings: dict[str, object], tmp_path: Path) -> None:
    last = short_run(methods.safe_control(**settings), tmp_path / "run", level=3).metrics[-1]  # type: ignore[arg-type]
    assert last["grad_norm.critic"] > 0
    assert last["kl.threshold"] > 0
