"""PRL: process reward learning from the KL-regularised objective."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import SuffixSums
from podium.parts.annotate import MarkPattern
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import LogRatio
from podium.strategies import Sample

__all__ = ["prl"]


@recipe(
    summary="Dense process reward from the KL-regularised objective: the remaining log-ratio to the reference.",
    citation="Process Reward Learning, https://github.com/MaxwellJryao/Process-Reward-Learning",
    tags=("process reward", "kl penalty", "credit assignment", "step-level"),
    presets={"llama": {"eta": 200.0, "step": 256}, "prm": {"outcome": "raw", "step": 1}},
)
def prl(
    n: int = 5,
    eta: float = 100.0,
    step: int | str = 64,
    outcome: str = "group",
    clip: float = 0.2,
    skip_zero: bool = True,
) -> Method:
    """rho_t = (R − mean)/(std + 1e-6) − (1/eta) Σ_{s ≥ t} (log π_old − log π_ref)_s, taken at the last token of each
    step and credited to all its tokens; PPO's clip 0.2, token mean, no other KL penalty.

    eta → ∞ is GRPO with a token mean, and so is a policy that equals its reference. `prl@prm` takes the raw outcome,
    token by token.

    Args:
        n: Rollouts per task (the group size).
        eta: Inverse weight of the KL term.
        step: Tokens of a step, or a pattern that ends one, such as `step="\\n"`.
        outcome: `group` standardises the outcome in its group, `raw` does not.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        skip_zero: A step whose rho is exactly 0 takes that of the next one, as in the release.
    """
    if outcome not in ("group", "raw"):
        raise PodiumError(f"prl: outcome = {outcome!r} is not 'group' or 'raw'.")
    advantage = SuffixSums(step="token.step_end" if isinstance(step, str) else step, skip_zero=skip_zero)
    return Method(
        rollout=Sample(n=n),
        annotate=(MarkPattern(step, into="token.step_end"),) if isinstance(step, str) else (),
        reward=(LogRatio(coefficient=-1 / eta),),
        advantage=advantage if outcome == "group" else advantage.replace(centre="none", scale="none"),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        roles=(Role("ref"),),
    )
