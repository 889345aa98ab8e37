"""Signals: numbers that a model computes for tokens. A signal is a value; its column holds the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["SIGNALS", "Signal"]

# The names of the signals that a policy can compute. Each is a functional of the head; `podium.policy` implements those
# named here, and registering another one adds its name.
SIGNALS = {
    "divergence",
    "draw_shift",
    "entropy",
    "estimate",
    "expected_discriminator",
    "finished",
    "flow_error",
    "flow_score",
    "log_odds",
    "logit",
    "logp",
    "logp_of",
    "mean_logp",
    "quality",
    "rank_dynamics",
    "similarity",
    "step_mean",
    "top",
    "value",
}


@dataclass(frozen=True, init=False)
class Signal:
    """What to compute (`logp`, `entropy`, `value`, …), by whom, and with which settings.

    `of` is `sampler` (as it was when the token was sampled; a log-probability is that of softmax(logits / temperature)
    over the tokens that could be drawn, even at a temperature that varies), `old` (the
    trainer's weights before the first update), `now` (the weights of the current update), or the name of a role (`ref`,
    `critic`, …). A setting is a number, or the name of a column of rollouts that holds one for each: `Signal("logp",
    of="ref", power="rollout.power")`. The setting `role` asks for another model as it is at the current update:
    `Signal("value", of="now", role="critic")`, where `Signal("value", of="critic")` is computed once, before the first
    update.
    """

    name: str
    of: str
    level: str
    grad: bool  # whether the objective differentiates through it
    settings: tuple[tuple[str, Any], ...]

    def __init__(self, name: str, of: str = "now", level: str = "token", grad: bool = False, **settings: Any) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "of", of)
        object.__setattr__(self, "level", level)
        object.__setattr__(self, "grad", grad)
        object.__setattr__(self, "settings", tuple(sorted(settings.items())))

    @property
    def role(self) -> str:
        """The model other than the learner that is asked at each update; empty: there is none."""
        return str(dict(self.settings).get("role", ""))

    @property
    def column(self) -> str:
        """The column of the batch that holds it: `token.old.logp`, `token.now.entropy[top_p=0.8]`."""
        inside = ",".join(f"{k}={v}" for k, v in self.settings)
        return f"{self.level}.{self.of}.{self.name}" + (f"[{inside}]" if inside else "")

    def __repr__(self) -> str:
        extra = "".join(f", {k}={v!r}" for k, v in self.settings)
        level = "" if self.level == "token" else f", level={self.level!r}"
        return f"Signal({self.name!r}, of={self.of!r}{level}{', grad=True' if self.grad else ''}{extra})"
