"""RLCF: test-time adaptation by the feedback of a frozen model that embeds pictures and texts."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.memories import KeptViews
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import PolicyGradient
from podium.parts.reward import OptionCertainty, SimilarityReward
from podium.strategies import LikeliestOptions

__all__ = ["rlcf"]

ALL = 1_000_000  # more options than any task has


@recipe(
    summary="Test-time adaptation of one input at a time: a frozen CLIP-like model scores the likeliest answers.",
    citation="Zhao et al. 2024, Test-Time Adaptation with CLIP Reward for Zero-Shot Generalization in Vision-Language "
    "Models, ICLR 2024, https://arxiv.org/abs/2305.18010, code: https://github.com/mzhaoshuai/RLCF",
    tags=("test-time training", "label-free", "vision", "multimodal", "clip", "episodic adaptation"),
    protocol=Protocol(
        model="CLIP-ViT-B/16",
        lr=7e-3,
        weight_decay=5e-4,
        schedule="constant",
        tasks=1,
        iterations=3,
        max_turns=1,
        source="mzhaoshuai/RLCF TPT scripts: prompt tuning; for the image encoder the learning rate is 1e-5",
    ),
    home=Home(
        *("digits", 1),
        dials={"shift": "noise", "strength": 0.4, "unlabelled": True, "images": 8},
        iterations=6,
        tasks=8,
        model="podium/tiny2",
    ),
    presets={
        "entropy": {"reward": "entropy", "k": ALL, "scorer": ""},
        "captions": {"length": "mean", "k": 6},
        "paper": {"views": 64},
    },
)
def rlcf(
    k: int = 3,
    views: int = 1,
    share: float = 0.1,
    scorer: str = "podium/matcher",
    reward: str = "similarity",
    weight: float = 2.5,
    baseline: str = "view",
    divide: bool = False,
    length: str = "sum",
    template: str = "see {}\nanswer: {}",
    caption: str = "{}",
) -> Method:
    """s_j = max(0, weight · cos(x, y_j)) for the `k` likeliest answers y_j to an input x, by a frozen scorer;
    A_j = s_j − mean(s);  loss = mean over views and answers of −A_j · log p(y_j | x).

    Nothing is sampled and no label is read; there is no ratio, no clipping and no KL. `podium adapt rlcf` does it for
    one input at a time and then puts the weights and the optimiser's state back; `podium train rlcf` keeps what it has
    learnt. The probability of an answer is that among all options of the task. Since Σ_j A_j = 0, the gradient in the
    logits of the other options is 0. With k = 1 nothing is subtracted, as in the release, so that the likeliest answer
    is always reinforced. All scores equal: no update.

    `rlcf@paper` also shows augmented views of the input, and keeps the tenth of them in which the options have the
    lowest entropy; which ones is decided once for each input. On pictures as small as those of digits they mislead the
    model, so that by default the input as it is is the only view. `rlcf@entropy` is its rival: the entropy of the
    options is minimised in each view, without a scorer (TPT minimises that of their mean). `rlcf@captions` takes the
    mean over tokens, as for captions. The release searches captions by beams and can weigh several scorers; here
    answers are the options that a task lists, and the scorer is one.

    Args:
        k: Answers that are scored, the likeliest ones.
        views: Ways to show an input, the first as it is; 64 in the paper.
        share: Which share of the views is kept, those of the lowest entropy.
        scorer: The frozen model: podium/matcher, or the path of another model that embeds.
        reward: `similarity`, that of the scorer, or `entropy`, what minimises the entropy of the options.
        weight: What multiplies the cosine.
        baseline: Whose mean is subtracted: the answers of the same `view`, or of `all` views.
        divide: Whether advantages are divided by the standard deviation (unbiased, + 1e-5).
        length: Whether the log-probability of an answer is the `sum` or the `mean` over its tokens.
        template: What the model writes for an option, in place of each {}.
        caption: What the scorer reads for an option.
    """
    scored = reward == "similarity"
    several = k > 1
    normalize = Normalize(
        key=("group", "rollout.view") if baseline == "view" else ("group",),
        centre="mean" if several and scored else "none",
        scale="std" if divide and several else "none",
        epsilon=1e-5,
    )
    rollout = LikeliestOptions(
        k=k, views=views, share=share, template=template, scorer="scorer" if scored else "", caption=caption
    )
    method = Method(
        rollout=rollout,
        reward=(SimilarityReward(weight) if scored else OptionCertainty(),),
        advantage=normalize,
        objective=(PolicyGradient(ratio="none", aggregate=Aggregate(f"token {length}, rollout mean")),),
        updates=Updates(mini_batches=1),
        roles=(Role("scorer", source=scorer),) if scored else (),
    )
    return method | KeptViews() if views > 1 else method
