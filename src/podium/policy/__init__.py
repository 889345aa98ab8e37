"""Policies: loading models, and computing the signals that training needs from them.

Start with `policy.py` (`Policy`). `model` loads and saves, `forward` passes packed or padded batches through the model,
`head` turns logits and hidden states into signals, `roles` holds critics and other models beside the policy; `native`
and `cuda` hold kernels. `network_policy.py`, `choose` and `draw` are policies that write no text.
"""

from collections.abc import Callable

from podium.policy.choose.chooser import Chooser
from podium.policy.draw.flow_policy import FlowPolicy
from podium.policy.head.divergence import divergence as divergence
from podium.policy.head.draw_shift import draw_shift as draw_shift
from podium.policy.head.effective_rank import rank_dynamics as rank_dynamics
from podium.policy.head.functionals import FUNCTIONALS, HeadRows, functional
from podium.policy.model.load import load
from podium.policy.policy import Policy
from podium.policy.roles.critic import Critic, critic, rescale, reward_model
from podium.policy.roles.embed import embed
from podium.policy.roles.flow import Flow
from podium.policy.roles.quality import QualityHead
from podium.policy.roles.reader import has_head, read_critic, scores_of, values_of

__all__ = [
    "FUNCTIONALS",
    "NETWORKS",
    "Chooser",
    "Critic",
    "Flow",
    "FlowPolicy",
    "Policy",
    "QualityHead",
    "HeadRows",
    "critic",
    "embed",
    "functional",
    "has_head",
    "load",
    "read_critic",
    "rescale",
    "reward_model",
    "scores_of",
    "values_of",
]

# Sources of roles that are small networks on the policy's hidden states.
NETWORKS: dict[str, Callable[[Policy], Policy]] = {"flow": Flow, "quality": QualityHead}
