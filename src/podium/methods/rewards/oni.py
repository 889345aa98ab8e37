"""ONI: intrinsic rewards from a language model's feedback, learned online."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.memories import Captions
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import GAE
from podium.parts.metric import StatesVisited
from podium.parts.objective import Clip, PolicyGradient, ValueLoss
from podium.parts.reward import Intrinsic, TokenReward
from podium.parts.shape import Whiten
from podium.strategies import LabelCaptions, judge_named

__all__ = ["oni"]

THRESHOLDS = {"retrieval": 0.5, "classification": 0.5, "ranking": -0.5}  # of probabilities, or standard deviations
# What an annotator is asked about a caption, and about two: podium/tiny2 knows the first.
QUESTIONS = {
    "criterion": "You see:\n{answer}\nDoes this help to find the gold? Say yes or no.",
    "pair": "You see either\n{left}\nor\n{right}\nWhich helps more to find the gold? Say `verdict: A` or `verdict: B`.",
}
AUTHORS = {"lr": 1e-4, "batch": 256, "width": 64, "extrinsic": 0.1}


@recipe(
    summary="Captions of turns are labelled online by a language model; the labels become an intrinsic reward.",
    citation="Zheng et al. 2024, Online Intrinsic Rewards for Decision Making Agents from Large Language Model "
    "Feedback, https://arxiv.org/abs/2410.23022",
    tags=("intrinsic reward", "exploration", "annotator", "multi-turn", "sparse rewards", "reward model"),
    presets={
        "classification": {"form": "classification"},
        "ranking": {"form": "ranking"},
        "judge": {"annotator": "podium/tiny2"},
        "reward-free": {"extrinsic": 0.0},
        "extrinsic": {"intrinsic": 0.0},
        "paper": AUTHORS,
        "sparse": {**AUTHORS, "extrinsic": 10.0},
    },
    protocol=Protocol(
        lr=1e-4,
        clip=4.0,
        schedule="constant",
        warmup=0,
        weight_decay=0.0,
        source="facebookresearch/oni, scripts/main.py; its policy is a network for NetHack",
    ),
    home=Home("keydoor", level=2, dials={"progress": True}, iterations=5, tasks=16, pool=16),
)
def oni(
    n: int = 4,
    form: str = "retrieval",
    extrinsic: float = 1.0,
    intrinsic: float = 0.4,
    exponent: float = 3.0,
    threshold: float | None = None,
    annotator: str = "world",
    way: str = "options",
    noise: float = 0.0,
    calls: int = 100,
    delay: int = 0,
    steps: int = 32,
    batch: int = 64,
    lr: float = 3e-3,
    width: int = 32,
    gamma: float = 0.99,
    clip: float = 0.2,
    mini_batches: int = 4,
) -> Method:
    """R_t = extrinsic · r_t + intrinsic · r_int(m_t) / c_t^3 for the caption m_t of a turn, which has occurred c_t
    times in the rollout; r_int comes from labels that an annotator gives while the agent plays.

    - `retrieval`: a table {caption: 0 or 1}; captions without a label earn 0 and are queued, the newest first;
    - `oni@classification`: 1 where a network on the characters, trained on the labels, gives P(helpful) > 0.5;
    - `oni@ranking`: the network ranks, trained on pairs (a tie counts half for each); its score is normalised by
      running moments, this batch included, and kept above −0.5, so that mildly negative values pass. With a threshold
      of 0 nothing negative does.

    intrinsic = 0 (`oni@extrinsic`) is PPO on the scaled reward of the world, extrinsic = 0 (`oni@reward-free`) knows
    the captions alone. A repeated caption earns at most 1.202 times its first reward. Labels count from the next
    iteration on, and rewards once given stay as they are.

    The policy learns by PPO with a critic and a discount per turn. The authors' asynchronous V-trace with rollouts of
    the current policy is this with λ = 1. In the released ranking branch the un-normalised score enters the total, by a
    misspelt variable; here it is the normalised one. The release counts the first screen of an episode as a caption;
    here captions are what follows an action. Its network has six convolutions of 64 channels, this one three of
    `width`. `oni@paper` has the authors' weights for NetHack's score, `oni@sparse` those for tasks with a sparse
    reward; rates and widths of the plain recipe are for runs of a few iterations.

    The world annotates where it measures progress (`progress=true` of keydoor): a turn that comes nearer to the goal is
    helpful. A model or a server takes its place by `annotator=`; `oni@judge` asks podium/tiny2, which knows the
    question.

    Args:
        n: Rollouts per task; a critic needs no group.
        form: What is made of the labels: `retrieval`, `classification` or `ranking`.
        extrinsic: Weight of the world's reward (0.1 for NetHack's score, 10 for its sparse tasks).
        intrinsic: Weight of the intrinsic reward.
        exponent: Exponent of the count of a caption in its rollout.
        threshold: Above it the intrinsic reward counts: a probability, or in ranking standard deviations. None: 0.5,
            and −0.5 in ranking.
        annotator: Who labels captions: `world`, `policy`, a model or a run's folder, or the address of a server on this
            machine.
        way: How a model is asked: the `options` yes and no by their probabilities, or a `written` verdict.
        noise: Share of the world's labels that are wrong.
        calls: Captions or pairs that are annotated in an iteration.
        delay: Iterations that the annotator is behind.
        steps: Gradient steps of the network each time labels arrive.
        batch: Labels of such a step (256 in the release).
        lr: Learning rate of the network (1e-4 in the release).
        width: Channels of the network.
        gamma: Discount factor per turn.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """
    judge, roles = judge_named(annotator, way, **({} if annotator == "world" else QUESTIONS))
    limit = THRESHOLDS.get(form, 0.5) if threshold is None else threshold
    return Method(
        rollout=LabelCaptions(n=n, annotator=judge, calls=calls, noise=noise),
        reward=(
            Intrinsic(form, extrinsic=extrinsic, intrinsic=intrinsic, exponent=exponent, threshold=limit),
            TokenReward(of="turn.reward"),
        ),
        advantage=GAE(gamma=gamma, per="turn"),
        shape=(Whiten(),),
        objective=(PolicyGradient(clip=Clip(clip, clip)), ValueLoss()),
        updates=Updates(mini_batches=mini_batches),
        metric=(StatesVisited(),),
        memories=(Captions(form, delay=delay, steps=steps, batch=batch, lr=lr, width=width),),
        roles=(Role("critic", lr_ratio=10.0), *roles),
    )
