"""A flow as a policy: Gaussian steps whose densities are exact, and the deterministic sampler as its limit."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.policy import FlowPolicy, load
from podium.policy.draw.sde import gaussian_logp, sigmas, step_mean, step_std
from podium.protocols.drawn_text import picture_text, read_picture
from podium.protocols.sampling import Completion, Generate, Sampling
from podium.sampler.drawing import FlowSampler


@pytest.fixture(scope="module")
def flow() -> FlowPolicy:
    policy = load("podium/flow")
    assert isinstance(policy, FlowPolicy)
    return policy


def batch_of(drawn: list[Completion]) -> Batch:
    turns = [Turn(c.ids, (3,), tokens={"sampler.logp": c.logp, **_named(c.captured)}) for c in drawn]
    return Batch.from_rollouts([Rollout(0, [turn]) for turn in turns])


def _named(captured: Any) -> dict[str, Any]:
    return {f"sampler.{name}": values for name, values in captured.items() if not isinstance(values[0], str)}


def test_a_step_is_that_of_the_card_and_without_noise_that_of_the_ode() -> None:
    """σ = 0.8, dt = −0.1, noise 0.7: s² = 0.49 · 4 = 1.96; both coefficients by hand."""
    x, v, sigma, dt = torch.tensor([[2.0]]), torch.tensor([[3.0]]), torch.tensor([[0.8]]), torch.tensor([[-0.1]])
    std = step_std(0.8, 0.7, torch.tensor([0.7]))
    assert float(std) == pytest.approx(1.4 * math.sqrt(0.1))
    mean = 2.0 * (1 - 1.96 * 0.1 / 1.6) + 3.0 * (1 + 1.96 * 0.2 / 1.6) * -0.1
    assert float(step_mean(x, v, sigma, dt, std[:, None])) == pytest.approx(mean, abs=1e-6)
    assert float(step_mean(x, v, sigma, dt, 0 * std[:, None])) == pytest.approx(2.0 - 0.3)
    assert float(step_std(1.0, 0.9, torch.tensor([0.7]))) == pytest.approx(0.7 * math.sqrt(1 / 0.1 * 0.1))


def test_the_density_is_that_of_torch_averaged_over_pixels() -> None:
    x, mean, std = torch.randn(4, 5), torch.randn(4, 5), torch.tensor([0.3, 0.5, 1.0, 2.0])
    exact = torch.distributions.Normal(mean, std[:, None]).log_prob(x).mean(-1)
    assert torch.allclose(gaussian_logp(x, mean, std), exact, atol=1e-5)


def test_trainer_and_sampler_agree(flow: FlowPolicy) -> None:
    (drawn,) = FlowSampler(flow).generate([Generate((3,), 6)])
    batch = batch_of(drawn)
    logp = Signal("logp", of="old")
    assert torch.allclose(flow.signals(batch, [logp])[logp], batch["token.sampler.logp"], atol=1e-6)
    assert len(drawn[0].ids) == 9


def test_what_is_drawn_depends_on_the_stream_alone(flow: FlowPolicy) -> None:
    sampler = FlowSampler(flow)
    (alone,) = sampler.generate([Generate((3,), 4, stream=(1,))])
    (_, among) = sampler.generate([Generate((5,), 2, stream=(2,)), Generate((3,), 4, stream=(1,))])
    assert [c.text for c in alone] == [c.text for c in among]


def test_finished_pictures_follow_the_ode_from_before_each_step(flow: FlowPolicy) -> None:
    (drawn,) = FlowSampler(flow).generate([Generate((3,), 1, capture=("finished", "estimate"))])
    times = sigmas(10).tolist()
    for step in (0, 4, 8):
        x = torch.tensor([drawn[0].captured["before"][step]])
        for sigma, following in zip(times[step:-1], times[step + 1 :], strict=True):
            x = x + flow.model(x, torch.tensor([[sigma]]), torch.tensor([3])) * (following - sigma)
        shades = ((x[0] + 1) * 8).round().clamp(0, 16).long().tolist()
        found = read_picture(drawn[0].captured["finished"][step], 8)
        assert found is not None
        assert max(abs(a - b) for a, b in zip(shades, found, strict=True)) <= 1  # rounding
    assert drawn[0].captured["estimate"][-1] == drawn[0].text  # one step is left


def test_at_temperature_0_it_draws_what_the_ode_does(flow: FlowPolicy) -> None:
    cold = Generate((3,), 1, Sampling(temperature=0.0), capture=("finished",))
    ((drawn,),) = FlowSampler(flow).generate([cold])
    assert set(drawn.captured["finished"]) == {drawn.text}


def test_more_evaluations_are_counted_for_finished_pictures_alone(flow: FlowPolicy) -> None:
    spent = []
    for capture in ((), ("estimate",), ("finished",)):
        sampler = FlowSampler(flow)
        sampler.generate([Generate((3,), 2, capture=capture)])
        spent.append(sampler.stats.encoded)
    assert spent == [20, 20, 110]


def test_the_exact_kl_is_that_of_torch(flow: FlowPolicy) -> None:
    from podium.parts.objective import StepKL

    now, ref, std = torch.randn(3, 5), torch.randn(3, 5), torch.tensor([0.2, 0.5, 1.0])
    batch = Batch.from_rollouts([Rollout(0, [Turn((0, 1, 2))])]).with_columns(
        {"token.now.step_mean": now, "token.ref.step_mean": ref, "token.sampler.std": std}
    )
    normal = torch.distributions.Normal
    exact = torch.distributions.kl_divergence(normal(now, std[:, None]), normal(ref, std[:, None])).mean(-1)
    assert torch.allclose(StepKL().loss(batch), exact, rtol=1e-4)


@pytest.mark.parametrize("prompt", ["What is 2 + 3?", "draw: 10"])
def test_what_cannot_be_drawn_gets_a_sentence(flow: FlowPolicy, prompt: str) -> None:
    with pytest.raises(PodiumError, match="A flow is asked"):
        flow.encode([{"content": prompt}])


@pytest.mark.parametrize("text", ["", "1 2 3", "17 " * 64, "x " * 64, "-1 " * 64])
def test_a_picture_of_another_size_or_shade_is_none(text: str) -> None:
    assert read_picture(text, 8) is None
    assert read_picture(picture_text([3] * 64), 8) == [3] * 64
