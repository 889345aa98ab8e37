"""Rewards of steps that nobody labelled: from a log-ratio, summed over what is still to come."""

from __future__ import annotations

from podium.advantage import SuffixSums, TwoSources
from podium.core.errors import PodiumError
from podium.core.method import Method, Role
from podium.evaluation.process import BestOfN, PairwiseAccuracy
from podium.keep import KeepWithin
from podium.methods.catalogue import recipe
from podium.objective import Clip, PolicyGradient, RolloutLogistic
from podium.reward import LogRatio, MarkPattern
from podium.rollout import Sample
from podium.shape import Whiten

__all__ = ["implicit_prm", "prl"]


@recipe(
    "prl",
    summary="The KL penalty as process reward: from each step on, what the policy still departs from its reference.",
    citation="Process Reward Learning, https://github.com/MaxwellJryao/Process-Reward-Learning",
    family="process",
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
    step and credited to all its tokens; PPO's clip 0.2, token mean, no KL beside it.

    A step has `step` tokens, or ends at each match of a pattern, such as `step="\\n"`. The release fills a step whose
    rho is exactly 0 from the next one (`skip_zero`). `prl@prm` takes the raw outcome, token by token.
    eta → ∞ is GRPO with a token mean, and so is a policy that has not left its reference.
    """
    if outcome not in ("group", "raw"):
        raise PodiumError(f"prl: outcome = {outcome!r} is not 'group' or 'raw'.")
    advantage = SuffixSums(step="token.step_end" if isinstance(step, str) else step, skip_zero=skip_zero)
    return Method(
        "prl",
        rollout=Sample(n=n),
        reward=(
            LogRatio(coefficient=-1 / eta),
            *((MarkPattern(step, into="token.step_end"),) if isinstance(step, str) else ()),
        ),
        advantage=advantage if outcome == "group" else advantage.replace(centre="none", scale="none"),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        roles=(Role("ref"),),
    )


@recipe(
    "implicit-prm",
    summary="A reward model that is a log-ratio, trained on outcomes as the policy goes, rewards every token for free.",
    citation="Free Process Rewards without Process Labels, https://github.com/PRIME-RL/ImplicitPRM; PRIME",
    family="process",
)
def implicit_prm(
    n: int = 4,
    beta: float = 0.05,
    coefficient: float = 5.0,
    gamma_process: float = 1.0,
    gamma_outcome: float = 1.0,
    low: float = 0.2,
    high: float = 0.8,
    clip: float = 0.2,
) -> Method:
    """q_t = log π_model − log π_ref; token rewards coefficient · q_t and the outcome at the last token, each less the
    group's mean (leave-one-out), summed over what is still to come and whitened over the batch's tokens; PPO's clip.

    The reward model starts as the policy, scores the batch, and is then trained on it: cross-entropy of
    sigmoid(beta · Σ q) against the outcome. Groups with a mean reward outside [low, high] are sampled again.
    coefficient = 0 is RLOO on outcomes, whitened. Q values are partial sums of q, so the rewards of steps add up to the
    reward of the answer however it is cut.
    """
    if n < 2:
        raise PodiumError(
            f"implicit-prm: n = {n}: a rollout is compared with the others of its group; take two or more."
        )
    margin = 1e-6  # the bounds themselves are kept
    return Method(
        "implicit-prm",
        rollout=Sample(n=n),
        reward=(LogRatio("reward_model", coefficient=coefficient),),
        keep=(KeepWithin(low=low - margin, high=high + margin),),
        advantage=TwoSources(gamma_process=gamma_process, gamma_outcome=gamma_outcome),
        shape=(Whiten(),),
        objective=(
            PolicyGradient(clip=Clip(clip, clip)),
            RolloutLogistic(1 / beta, "sum", "ref", groups="all", trains="reward_model"),
        ),
        evaluate=(PairwiseAccuracy(), BestOfN()),
        roles=(Role("reward_model"), Role("ref")),
    )
