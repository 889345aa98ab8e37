"""OPD: on-policy distillation."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.updates import Updates
from podium.method import Home, Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Returns
from podium.parts.objective import Clip, Distil, PolicyGradient
from podium.parts.reward import LogRatio
from podium.strategies import Sample

__all__ = ["opd"]

OWN_POWER = 2.0  # of the policy's own first weights as a teacher


@recipe(
    summary="The student samples, a teacher scores every token: reverse KL, forward KL or JS on the student's states.",
    citation="Agarwal et al. 2023, On-Policy Distillation of Language Models, https://arxiv.org/abs/2306.13649; "
    "Lu et al. 2025, On-Policy Distillation, https://thinkingmachines.ai/blog/on-policy-distillation",
    tags=("distillation", "teacher", "on-policy", "reverse kl", "dense rewards"),
    home=Home(level=2),
    presets={
        "reverse": {"on": "vocabulary"},
        "forward": {"on": "vocabulary", "divergence": "forward"},
        "js": {"on": "vocabulary", "divergence": "js"},
        "student-top": {"on": "student"},
        "verl": {"on": "teacher", "divergence": "forward", "others": "dropped"},
    },
)
def opd(
    n: int = 4,
    teacher: str = "",
    power: float | None = None,
    on: str = "sampled",
    divergence: str = "reverse",
    mix: float = 0.5,
    k: int = 100,
    others: str = "bucket",
    clip: float | None = 0.2,
    mini_batches: int = 4,
) -> Method:
    """On sampled tokens: A_t = log q(y_t) − log π_old(y_t), a one-sample estimate of −KL(π ‖ q) that counts at token t
    alone, under PPO's clip. On more tokens: the gradient of the divergence itself, Σ_v over the teacher's or the
    student's k likeliest tokens or the whole vocabulary: `reverse` KL(π ‖ q), `forward` KL(q ‖ π), or `js` (1 − mix)
    KL(π ‖ m) + mix · KL(q ‖ m), m = (1 − mix) π + mix · q. The mean over all tokens. The world's rewards are only
    reported.

    The teacher is a role: a model with the same tokenizer. A copy of the policy would teach it nothing, so without a
    name the policy's own first weights at half the temperature are the teacher, softmax(2 · logits), towards which the
    policy sharpens. `js` with mix → 0 is the forward, → 1 the reverse KL, each times the small share. `opd@verl` is
    `forward_kl_topk` of verl (0.9), which leaves out the tokens beyond the k.

    Args:
        n: Rollouts per task.
        teacher: Directory or name of the teacher; empty: the policy's own first weights, sharpened.
        power: Sharpens the teacher, softmax(power · logits); None: 1, or 2 where the policy is its own teacher.
        on: What is compared: the `sampled` tokens, the k likeliest of the `student` or of the `teacher`, or the whole
            `vocabulary`, which holds as many numbers as it has tokens for each token of the batch.
        divergence: `reverse`, `forward` or `js`; on sampled tokens `reverse` alone.
        mix: The teacher's share in the mixture of `js`.
        k: Likeliest tokens that are compared one by one.
        others: The tokens beyond the k: one `bucket`, left out and the rest `renormalised`, or just left out
            (`dropped`).
        clip: Clip range of the importance ratio on sampled tokens; None: no clip.
        mini_batches: Optimiser steps per batch.
    """
    if on not in ("sampled", "student", "teacher", "vocabulary"):
        raise PodiumError(f"opd: on = {on!r} is not 'sampled', 'student', 'teacher' or 'vocabulary'.")
    if on == "sampled" and divergence != "reverse":
        raise PodiumError(f"opd: sampled tokens estimate the reverse KL, not {divergence!r}: set on='vocabulary'.")
    power = (1.0 if teacher else OWN_POWER) if power is None else power
    method = Method(
        rollout=Sample(n=n),
        updates=Updates(mini_batches=mini_batches),
        roles=(Role("teacher", source=teacher or "initial"),),
    )
    if on == "sampled":
        return method.replace(
            reward=(LogRatio("old", "teacher", -1.0, into="token.reward", power=power),),
            advantage=Returns(gamma=0.0),
            objective=(PolicyGradient(clip=None if clip is None else Clip(clip, clip)),),
        )
    distil = Distil(
        k=None if on == "vocabulary" else k,
        divergence=divergence,
        mix=mix,
        support="student" if on == "student" else "teacher",
        others=others,
        power=power,
    )
    return method.replace(objective=(distil,))
