"""Adaptive KL coefficients: controllers that react to the KL, the entropy and the rewards of training."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.core.signal import Signal

__all__ = ["AsymmetricKL", "EntropyGatedKL"]

REFERENCE = "SAFE, https://github.com/ryyzn9/SAFE"
OLD, REF, ENTROPY = Signal("logp", of="old"), Signal("logp", of="ref"), Signal("entropy", of="sampler")
PHASES = {"WARMUP": 1.5, "CLIMBING": 1.2, "CONVERGED": 1.0, "PLATEAU": 0.8}  # factors on the threshold


class _Controller(Memory):
    """Observes the mean KL, entropy and reward of a batch, `times` times each; schedules follow `kl.coefficient`."""

    times: int = 1  # observations per batch: one for each epoch of its training, ≥ 1

    needs = ("rollout.reward", OLD, REF, ENTROPY)
    provides = ("batch.kl.penalty", "batch.kl.threshold")

    def __post_init__(self) -> None:
        within(self, "times", 1)

    def step(self, state: State, kl: float, entropy: float, reward: float) -> State:
        """The state after one observation, with `penalty`, `coefficient` (its slope in the KL) and `threshold`."""
        raise NotImplementedError

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {f"batch.kl.{name}": torch.tensor([state[name]]) for name in ("penalty", "threshold")}

    def observe(self, state: State, batch: Batch) -> State:
        tokens, rollouts = batch.by("token").agg, batch.by("rollout").agg
        if not bool(tokens.count().any()):
            return state
        kl, entropy = (float(tokens.mean(x.double())[0]) for x in (batch[OLD] - batch[REF], batch[ENTROPY]))
        for _ in range(self.times):
            state = self.step(state, kl, entropy, float(rollouts.mean(batch["rollout.reward"].double())[0]))
        return state

    def scalars(self, state: State) -> dict[str, float]:
        return {"kl.coefficient": state["coefficient"]}


class EntropyGatedKL(_Controller):
    """An entropy-gated KL penalty above an adaptive threshold θ, stronger where the entropy H is low.

        penalty = weight · max(k − θ, 0)² · max(½, floor / (H + 0.1)),  θ = clip((base + u) · phase, lowest, highest)

    k is a moving average of the KL. u is a PID controller on the velocity of the smoothed reward, with set point 0.001.
    The phase of training, from the last `window` rewards and those before them, is a factor: WARMUP 1.5, CLIMBING 1.2,
    CONVERGED 1, PLATEAU 0.8. The coefficient is the penalty's slope in k. weight = 0 is no penalty.
    """

    reference = REFERENCE
    base: float = 0.3  # of θ, nats
    lowest: float = 0.1  # bounds of θ
    highest: float = 0.6
    weight: float = 0.1  # ≥ 0
    floor: float = 2.0  # nats: below this entropy the penalty is stronger
    kp: float = 0.3  # proportional, integral and derivative gain
    ki: float = 0.01
    kd: float = 0.05
    window: int = 50  # observations, ≥ 1

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "window", 1)
        within(self, "weight", 0)
        within(self, "lowest", high=self.highest)

    def initial(self) -> State:
        inputs = {"ema": 0.0, "error": 0.0, "integral": 0.0, "kl_short": 0.0}
        outputs = {"threshold": 0.0, "penalty": 0.0, "coefficient": 0.0, "entropy_factor": 1.0, "phase": "WARMUP"}
        return {"rewards": [], **inputs, **outputs}

    def step(self, state: State, kl: float, entropy: float, reward: float) -> State:
        first, rewards = not state["rewards"], [*state["rewards"], reward][-2 * self.window :]
        ema = reward if first else 0.95 * state["ema"] + 0.05 * reward
        error = 0.0 if first else ema - state["ema"] - 0.001
        integral = min(max(state["integral"] + error, -1.0), 1.0)
        change = 0.0 if first else error - state["error"]
        u = self.kp * error + self.ki * integral + self.kd * change
        phase = self.phase(rewards)
        threshold = min(max((self.base + u) * PHASES[phase], self.lowest), self.highest)
        short = 0.9 * state["kl_short"] + 0.1 * kl
        beyond = max(short - threshold, 0.0)
        factor = max(0.5, self.floor / (entropy + 0.1)) if beyond > 0 else 1.0
        return {
            "rewards": rewards,
            "ema": ema,
            "error": error,
            "integral": integral,
            "kl_short": short,
            "threshold": threshold,
            "penalty": self.weight * beyond**2 * factor,
            "coefficient": 2 * self.weight * beyond * factor,
            "entropy_factor": factor,
            "phase": phase,
        }

    def phase(self, rewards: Sequence[float]) -> str:
        """The phase of training, by the rewards of the last observations."""
        if len(rewards) < self.window:
            return "WARMUP"
        recent, before = rewards[-self.window :], rewards[-2 * self.window : -self.window]
        if len(before) == self.window and fmean(recent) > fmean(before) + 0.01:
            return "CLIMBING"
        return "CONVERGED" if pstdev(recent) < 0.02 and fmean(recent) > 0.7 else "PLATEAU"


class AsymmetricKL(_Controller):
    """A one-sided KL penalty, on exceeding a threshold and on rising: neither a small nor a falling KL is penalised.

        penalty = weight · max(k − threshold, 0)² + momentum · max(m, 0)²

    k is the KL and m its mean rise over a window. The coefficient is the penalty's slope in k.
    """

    reference = REFERENCE
    threshold: float = 0.3  # nats
    weight: float = 0.1  # ≥ 0
    momentum: float = 5.0  # ≥ 0
    window: int = 50  # observations, ≥ 1

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "window", 1)
        within(self, "weight", 0)
        within(self, "momentum", 0)

    def initial(self) -> State:
        return {"kls": [], "threshold": self.threshold, "penalty": 0.0, "coefficient": 0.0}

    def step(self, state: State, kl: float, entropy: float, reward: float) -> State:
        kls = [*state["kls"], kl][-self.window :]
        beyond = max(kl - self.threshold, 0.0)
        rise = max((kl - kls[0]) / self.window, 0.0) if len(kls) == self.window else 0.0
        return {
            "kls": kls,
            "threshold": self.threshold,
            "penalty": self.weight * beyond**2 + self.momentum * rise**2,
            "coefficient": 2 * (self.weight * beyond + self.momentum * rise / self.window),
        }
