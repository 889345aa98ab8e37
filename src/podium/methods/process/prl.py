"""PRL: process reward learning from the KL-regularised objective."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count
from podium.core.shares import ShareOfTokens
from podium.core.updates import Updates
from podium.method import Home, Method, Role
from podium.methods._shared import ADAMW, clip_for
from podium.methods.catalogue import recipe
from podium.parts.advantage import SuffixSums
from podium.parts.annotate import MarkPattern
from podium.parts.objective import PolicyGradient
from podium.parts.reward import LogRatio
from podium.strategies import Sample

__all__ = ["prl"]


@recipe(
    summary="Dense process reward from the KL-regularised objective: the remaining log-ratio to the reference.",
    citation="Process Reward Learning, https://github.com/MaxwellJryao/Process-Reward-Learning",
    tags=("process reward", "kl penalty", "credit assignment", "step-level"),
    protocol=ADAMW.replace(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        tasks=128,
        max_tokens=3072,
        max_turns=1,
        source="MaxwellJryao/Process-Reward-Learning: runs/run_grpo-3.sh",
    ),
    home=Home("sums", level=2),
    presets={
        "paper": {"outcome": "raw", "step": 1},
        "orm": {"step": 64},
        "llama": {"eta": 200.0, "step": 256},
        "1.5b": {"eta": 1.0, "step": 128},
        "prm": {"outcome": "raw", "step": 1},
    },
)
def prl(
    n: int = 5,
    eta: float = 100.0,
    step: Count | str = ShareOfTokens(64 / 3072),
    outcome: str = "group",
    clip: float = 0.2,
    skip_zero: bool = True,
    mini_batches: int = 1,
) -> Method:
    """rho_t = (R − mean)/(std + 1e-6) − (1/eta) Σ_{s ≥ t} (log π_old − log π_ref)_s, taken at the last token of each
    step and credited to all its tokens; token mean, no other KL penalty. One update per batch, so that there is nothing
    to clip.

    eta → ∞ is GRPO with a token mean, and so is a policy that equals its reference: the first iteration is GRPO's. Of
    the authors' three scripts the one for Qwen2.5-Math-7B (`@paper`, `@prm`) takes the raw outcome and credits token by
    token, although it names a step of 64 (`@orm` has that with the standardised outcome, as plain `prl` has it with 64
    of 3,072 tokens as a share). The other two name an eta of 200 (`@llama`) and of 1 (`@1.5b`, which also has a KL
    penalty of 0.001), but select GRPO's estimator, and run plain GRPO as shipped; the presets do what they name.

    Args:
        n: Rollouts per task (the group size).
        eta: Inverse weight of the KL term.
        step: Tokens of a step, a share of the run's limit, or a pattern that ends one, such as `step="\\n"`.
        outcome: `group` standardises the outcome in its group, `raw` does not.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip], with several updates per batch.
        skip_zero: A step whose rho is exactly 0 takes that of the next one, as in the release.
        mini_batches: Optimiser steps per batch.
    """
    if outcome not in ("group", "raw"):
        raise PodiumError(f"prl: outcome = {outcome!r} is not 'group' or 'raw'.")
    advantage = SuffixSums(step="token.step_end" if isinstance(step, str) else step, skip_zero=skip_zero)
    return Method(
        rollout=Sample(n=n),
        annotate=(MarkPattern(step, into="token.step_end"),) if isinstance(step, str) else (),
        reward=(LogRatio(coefficient=-1 / eta),),
        advantage=advantage if outcome == "group" else advantage.replace(centre="none", scale="none"),
        objective=(PolicyGradient(clip=clip_for(mini_batches, clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        roles=(Role("ref"),),
    )
