"""RLFR: flow rewards from the latent space of good trajectories."""

from __future__ import annotations

from podium.method import Method, Phases, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import SuffixSums
from podium.parts.objective import Clip, FlowMatch, PolicyGradient
from podium.parts.reward import FlowReward
from podium.strategies import Sample

__all__ = ["rlfr"]


@recipe(
    summary="Flow-matching reward on hidden states: tokens that deviate from correct rollouts are penalised.",
    citation="RLFR: Extending RL for LLMs with Flow Environment, https://github.com/Jinghaoleven/RLFR",
    tags=("hidden states", "process reward", "reward shaping", "token-level"),
    presets={"token-pre": {"neighbour": "after"}},
)
def rlfr(
    n: int = 8,
    coefficient: float = 0.01,
    threshold: float = 0.6,
    top_k: int = 15,
    timestep: float = 0.8,
    neighbour: str = "before",
    clip: float = 0.2,
    pretrain: int = 0,
) -> Method:
    """A_t = (R − mean)/(std + 1e-9) + Σ_{s ≥ t} c_s, with c = −coefficient · n: n is the flow's score at a token,
    scaled to [0, 1] over the rollout, where it exceeds `threshold` and is one of the `top_k` largest. The flow is
    fitted to the tokens of right rollouts in the same updates. PPO's clip.

    coefficient = 0 is GRPO without KL penalty. The paper first fits the flow to expert texts: so do the first
    `pretrain` iterations, on the world's solutions, with the policy frozen. The release scores some models with the
    state of the token before and others with that of the one after (`@token-pre`), having fitted the flow on the
    latter: here both are one setting.

    Args:
        n: Rollouts per task (the group size).
        coefficient: Weight of the flow reward.
        threshold: Least normalised deviation that is penalised.
        top_k: Tokens per rollout that are penalised at most; 0: all.
        timestep: Time in [0, 1] at which the flow is evaluated.
        neighbour: Which token's state the flow is conditioned on: the one `before` or `after`.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        pretrain: Iterations that fit the flow to the world's solutions first; 0: it follows the right rollouts from the
            start.
    """
    flow = Role("flow", source="flow")
    method = Method(
        rollout=Sample(n=n),
        reward=(FlowReward(coefficient, threshold, top_k, timestep=timestep, neighbour=neighbour),),
        advantage=SuffixSums(of="token.reward.flow", step=1, skip_zero=False, epsilon=1e-9),
        objective=(
            PolicyGradient(clip=Clip(clip, clip)),
            FlowMatch(neighbour=neighbour, where="rollout.correct"),
        ),
        roles=(flow,),
    )
    if pretrain == 0:
        return method
    fit = FlowMatch(neighbour=neighbour, where="rollout.demonstration")
    solutions = Sample(n=1, demonstrations=("short",))
    return Phases(Method("fit", rollout=solutions, objective=(fit,), roles=(flow,)).until(pretrain), method)
