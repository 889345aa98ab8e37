"""Methods without labels: the rollouts of a task vote on its answer."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.errors import PodiumError
from podium.core.method import Method
from podium.core.watch import Watch
from podium.methods.catalogue import recipe
from podium.methods.group import anchored
from podium.objective import KL, Clip, PolicyGradient
from podium.reward import Majority, VoteQuality
from podium.rollout import Fork, Sample, TopEntropy
from podium.shape import CertaintyFactor, Whiten

__all__ = ["ettrl", "ttrl", "ttrv"]


@recipe(
    "ttrl",
    summary="Unlabelled tasks: the most frequent answer of many rollouts is the label, and each is rewarded by it.",
    citation="Zuo et al. 2025, TTRL: Test-Time Reinforcement Learning, https://arxiv.org/abs/2504.16084",
    family="group",
)
def ttrl(votes: int = 64, trained: int = 32, epsilon: float = 1e-6, clip: float = 0.2, kl: float = 0.001) -> Method:
    """r_i = [answer_i = the most frequent of the `votes` answers]; of these the first `trained` rollouts are trained,
    with GRPO's advantage over themselves alone; clip 0.2, k3 to the reference with 0.001, token mean.

    The true label enters the metrics only. Where the vote is right on every task it is GRPO on the first `trained`
    rollouts; `trained = votes` trains all. A lone trained rollout gets advantage 0 (the release: its reward); a task
    without any answer is skipped (the release fails there).
    """
    method = Method(
        "ttrl",
        rollout=Sample(n=votes, trained=trained),
        reward=(Majority(),),
        advantage=Normalize(epsilon=epsilon, singleton="zero", trained_only=True),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        evaluate=(VoteQuality(), VoteQuality(trained_only=True)),
    )
    return anchored(method, KL("k3", coefficient=kl))


@recipe(
    "ttrv",
    summary="Unlabelled tasks: each rollout is rewarded by the share of the group that gives its answer.",
    citation="TTRV: Test-Time Reinforcement Learning for Vision Language Models, https://github.com/Akshit21112002/TTRV",
    family="group",
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
    reward = Majority(True, frequency_weight, entropy_weight, entropy_of, empty="votes")
    return ttrl(votes, trained, epsilon, clip, kl).with_(name="ttrv", reward=(reward,))


@recipe(
    "ettrl",
    summary="TTRL with rollouts that fork at uncertain tokens, and more weight for those that are certain.",
    citation="ETTRL: Balancing Exploration and Exploitation in LLM Test-Time RL Via Entropy Mechanism",
    family="group",
    presets={"clip": {"reshape": "clip"}},
)
def ettrl(
    trees: int = 12,
    points: int = 2,
    branches: int = 2,
    reshape: str = "entropy",
    floor: float | None = 0.0,
    limit: float = 2.0,
    epsilon: float = 1e-6,
    clip: float = 0.2,
    kl: float = 0.001,
) -> Method:
    """`trees` rollouts, from the `points` tokens of highest entropy of each `branches` more: trees · (1 + points ·
    branches) leaves, which vote as in TTRL. A ← (2 − H_i / H̄) · A with the mean entropy H_i of each leaf and H̄ of the
    group, at least `floor`; or with `ettrl@clip` A ← clip(A, ±limit).

    points = 0 is TTRL with `trees` rollouts, up to the weight, whose mean is 1 in each group. Above 2 H̄ the paper's
    weight turns advantages around: floor = None does as the paper. Shared tokens are trained in every leaf.
    """
    if reshape not in ("entropy", "clip"):
        raise PodiumError(f"ettrl: reshape = {reshape!r} is not 'entropy' or 'clip'.")
    held = Whiten(centre="none", scale="none", level="rollout", limit=limit)
    return ttrl(trees, trees, epsilon, clip, kl).with_(
        name="ettrl",
        rollout=Fork(n=trees, places=TopEntropy(points), branches=branches),
        shape=(CertaintyFactor(floor) if reshape == "entropy" else held,),
        evaluate=(VoteQuality(), Watch("rollout.fork")),
    )
