"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.label_free.ttrl import ttrl
from podium.parts.reward import AnswerEntropy, VoteShare

__all__ = ["ttrv"]


@recipe(
    summary="Unlabelled tasks: each rollout is rewarded by the share of the group that gives its answer.",
    citation="TTRV: Test-Time Reinforcement Learning for Vision Language Models, https://github.com/Akshit21112002/TTRV",
    presets={"own": {"entropy_of": "own"}},
)
def ttrv(
    votes: int = 64,
    trained: int = 32,
    entropy_weight: float = 0.75,
    frequency_weight: float = 1.0,
    entropy_of: str = "group",
    epsilon: float = 1e-6,
    clip: float = 0.2,
    kl: float = 0.001,
) -> Method:
    """r_i = w_f · p(answer_i) − w_e · H/ln K over the `votes` answers of a task, of which K are different; one without
    an answer votes for having none. GRPO over the first `trained` rollouts, as in TTRL.

    The entropy is one number a group and cancels in GRPO's advantage, so w_e moves the logged rewards alone; it acts
    with a baseline of the whole batch, or as `ttrv@own`, by how much each answer raises it. With the indicator of the
    most frequent answer instead of p it is TTRL where there is no tie.
    """
    share = VoteShare(frequency_weight, empty="votes")
    penalty = AnswerEntropy(entropy_weight, entropy_of, empty="votes")
    return ttrl(votes, trained, epsilon, clip, kl).with_(reward=(share, penalty))
