"""The group-relative family: rollouts of one task are each other's baseline."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.errors import PodiumError
from podium.core.method import Method, Role
from podium.keep import DropTruncated, KeepMixed
from podium.methods.catalogue import recipe
from podium.objective import KL, Aggregate, Clip, PolicyGradient, Updates
from podium.reward import Overlong, SequenceKL
from podium.rollout import Sample
from podium.shape import Rescale

__all__ = ["dapo", "dr_grpo", "gpg", "grpo", "opo", "rloo"]

TOKEN_MEAN = Aggregate("token mean")
SEQUENCE_MEAN = Aggregate("token mean, rollout mean")
# One name, different numbers: what each code base does with the rewards of a group and with the loss.
GRPO = {
    "paper": {},
    "verl": {"kl": 0.001, "kl_limit": 10.0, "dual": 3.0, "aggregate": TOKEN_MEAN},
    "trl": {"kl": 0.0, "advantage": Normalize(epsilon=1e-4, singleton="error"), "aggregate": TOKEN_MEAN},
    "openrlhf": {"kl": 0.0, "advantage": Normalize(epsilon=1e-9, singleton="error"), "aggregate": TOKEN_MEAN},
    "nemo": {
        "kl": 0.01,
        "advantage": Normalize(centre="leave_one_out", scale="std_of_others", zero_scale="skip", singleton="zero"),
        "aggregate": TOKEN_MEAN,
    },
}


def anchored(method: Method, kl: KL) -> Method:
    """The method held to its reference by `kl`, unless the coefficient is 0."""
    return method if kl.coefficient == 0 else method | kl | Role("ref")


@recipe(
    "grpo",
    summary="Rollouts of one task are each other's baseline: reward minus group mean, over group std.",
    citation="Shao et al. 2024, DeepSeekMath, https://arxiv.org/abs/2402.03300",
    presets=GRPO,
)
def grpo(
    n: int = 8,
    advantage: Normalize = Normalize(),
    clip: float = 0.2,
    dual: float | None = None,
    kl: float = 0.04,
    kl_limit: float | None = None,
    aggregate: Aggregate = SEQUENCE_MEAN,
) -> Method:
    """A_i = (r_i − mean) / (std + 1e-6) over the rollouts of a group, on every token of rollout i; PPO's clipped
    surrogate with a token ratio; k3 to the reference in the loss; mean over tokens of a rollout, then over rollouts.

    The word GRPO means different numbers in different code bases. For rewards [1, 0, 0, 0] the success gets 1.5 in
    `grpo@verl`, `grpo@trl` and `grpo@openrlhf` (up to epsilon), 1.0 in `grpo@nemo` (leave-one-out, undivided because
    the others do not vary; its failures get −0.577).
    """
    method = Method(
        "grpo",
        rollout=Sample(n=n),
        advantage=advantage,
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual), aggregate=aggregate),),
    )
    return anchored(method, KL("k3", limit=kl_limit, coefficient=kl, aggregate=aggregate))


@recipe(
    "dr-grpo",
    summary="GRPO without the two divisions that bias it: no group std, a constant instead of the length.",
    citation="Liu et al. 2025, Understanding R1-Zero-like training, https://arxiv.org/abs/2503.20783",
)
def dr_grpo(n: int = 8, clip: float = 0.2, max_length: int = 3000, over_rollouts: str = "mean") -> Method:
    """A_i = r_i − mean; loss = (1/B) Σ_i (1/L) Σ_t l with a constant L (the maximum length), B counting empty answers.

    `over_rollouts="sum"` is the form of older verl, which does not divide by the number of rollouts B.
    Times G/(G − 1) it is RLOO's advantage; with `advantage.scale=std` and GRPO's aggregation it is GRPO.
    """
    if over_rollouts not in ("mean", "sum"):
        raise PodiumError(f"dr-grpo: over_rollouts = {over_rollouts!r} is not 'mean' or 'sum'.")
    over = "mean of all" if over_rollouts == "mean" else "sum"
    aggregate = Aggregate(f"token sum / {max_length}, rollout {over}")
    return Method(
        "dr-grpo",
        rollout=Sample(n=n),
        advantage=Normalize(scale="none"),
        objective=(PolicyGradient(clip=Clip(clip, clip), aggregate=aggregate),),
    )


@recipe(
    "dapo",
    summary="GRPO with a higher upper clip, groups without signal replaced, token mean, a soft length penalty.",
    citation="Yu et al. 2025, DAPO, https://arxiv.org/abs/2503.14476",
)
def dapo(
    n: int = 16,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 10.0,
    max_length: int = 20480,
    buffer: int = 4096,
    penalty: float = 1.0,
    max_rounds: int = 10,
    truncated: str = "train",
) -> Method:
    """GRPO's advantage; clip to [1 − 0.2, 1 + 0.28] and dual clip 10; the mean over all tokens of the update; groups
    whose rewards are all equal are dropped and made up for by sampling more; reward falls by up to `penalty` over
    the last `buffer` tokens before `max_length`. No KL. `truncated="drop"` leaves answers that were cut off out of the
    loss (overlong filtering).

    With clip_high = 0.2, no dual clip, penalty = 0 and without KeepMixed it is GRPO with a token mean.
    """
    if truncated not in ("train", "drop"):
        raise PodiumError(f"dapo: truncated = {truncated!r} is not 'train' or 'drop'.")
    return Method(
        "dapo",
        rollout=Sample(n=n),
        reward=(Overlong(max_length=max_length, buffer=buffer, factor=penalty),),
        keep=(KeepMixed(max_rounds=max_rounds), *((DropTruncated(),) if truncated == "drop" else ())),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
    )


@recipe(
    "rloo",
    summary="The baseline of a rollout is the mean reward of the others of its group.",
    citation="Ahmadian et al. 2024, Back to Basics, https://arxiv.org/abs/2402.14740",
)
def rloo(n: int = 4, kl: float = 0.05) -> Method:
    """A_i = r_i − mean of the other rollouts' rewards = G/(G − 1) · (r_i − mean); REINFORCE on whole answers; the
    distance to the reference, summed over the answer, is subtracted from the reward.

    Without the factor G/(G − 1) it is Dr. GRPO's advantage.
    """
    method = Method(
        "rloo",
        rollout=Sample(n=n),
        advantage=Normalize(centre="leave_one_out", scale="none"),
        objective=(PolicyGradient(ratio="none", aggregate=Aggregate("token sum, rollout mean")),),
    )
    return method if kl == 0 else method | SequenceKL(kl) | Role("ref")


@recipe(
    "opo",
    summary="The variance-minimising baseline: the length-weighted mean reward of the group, exactly on-policy.",
    citation="Hao et al. 2025, On-Policy RL with Optimal reward baseline, https://arxiv.org/abs/2505.23585",
)
def opo(n: int = 8) -> Method:
    """A_i = r_i − Σ_j n_j r_j / Σ_j n_j over the group, n the number of action tokens; no KL, no entropy bonus, one
    optimiser step a batch.

    Equal lengths give Dr. GRPO's advantage.
    """
    return Method(
        "opo",
        rollout=Sample(n=n),
        advantage=Normalize(scale="none", weight="rollout.length"),
        objective=(PolicyGradient(),),
        updates=Updates(epochs=1, mini_batches=1),
    )


@recipe(
    "gpg",
    summary="Plain policy gradient with the group mean as baseline, rescaled for groups without signal.",
    citation="Chu et al. 2025, GPG, https://arxiv.org/abs/2504.02546",
    presets={"paper": {}, "verl": {"count": "nonzero"}},
)
def gpg(n: int = 8, count: str = "active") -> Method:
    """A_i = alpha · (r_i − mean), with alpha = rollouts of the batch / rollouts of groups whose rewards differ;
    loss = token mean of −A · log π: no ratio, no clip, no KL.

    `gpg@verl` counts nonzero rewards instead, so that wrong answers with reward 0 count as missing.
    With alpha = 1 it is Dr. GRPO's advantage under REINFORCE.
    """
    return Method(
        "gpg",
        rollout=Sample(n=n),
        advantage=Normalize(scale="none"),
        shape=(Rescale(count),),
        objective=(PolicyGradient(ratio="none"),),
    )
