"""The labs: each a paper's experiment with its arms, what it claims, and what is drawn."""

from __future__ import annotations

import pkgutil
from functools import partial
from importlib import import_module

from podium.core.term import Aggregate
from podium.labs import experiments
from podium.labs.charts import along, exact_bandit, exchange, pass_curves, support
from podium.labs.findings import Claim
from podium.labs.lab import BASE_LABEL, QUICK, Lab, LabSize
from podium.labs.notes import crossing, laws, ratio_note
from podium.labs.reading import Logged, Mean, PassAt, Share
from podium.labs.trial import Trial
from podium.method import Method
from podium.methods import get

__all__ = ["LABS"]

TOP = PassAt()  # as many tries as there are samples
TOKEN_ENTROPY, ANSWER_ENTROPY = Mean("token_entropy", "nats"), Mean("answer_entropy", "nats")
RAW = Logged("|clip.surrogate|", "|raw term| × 1000", 1000.0)
CLIP_BIAS = Logged("clip.bias", "clip bias × 1000", 1000.0)
CLIPPED = Logged("clip_fraction", "clipped tokens (%)", 100.0)


def lite(scale: str, loss: str) -> Method:
    """A corner of the study: by what the centred reward is divided, and over what the loss is averaged."""
    method = get("lite-ppo").set("objective.PolicyGradient.aggregate", Aggregate(loss))
    if scale == "none":
        return method.set("advantage.scale", "none")
    return method.set("advantage.scope", ()) if scale == "batch" else method.set("advantage.scope", None)


def coin(clip: float) -> Method:
    """Random rewards, with so many updates on each batch that the ratio reaches the clip."""
    return get("clip-bias-spurious", clip=clip).set("updates.epochs", 4)


TWO_STAGE = Lab(
    "two-stage-negative",
    "Does reinforcement shrink what a model can reach, or widen it, and what do successes and failures each do?",
    arms={
        "both signs": partial(get, "grpo", kl=0.0),
        "successes only": partial(get, "two-stage-negative", sign="positive"),
        "failures only": partial(get, "two-stage-negative"),
    },
    claims=(
        Claim("training on both signs lowers pass@k at large k below the base's", TOP, BASE_LABEL, "both signs"),
        Claim("failures alone keep it higher than both signs do", TOP, "failures only", "both signs"),
        Claim("failures alone reach a lower pass@1", PassAt(1), "both signs", "failures only"),
    ),
    readings=(PassAt(1), TOP, TOKEN_ENTROPY, ANSWER_ENTROPY),
    charts=(pass_curves, along(PassAt(1)), along(TOP), along(TOKEN_ENTROPY), along(ANSWER_ENTROPY), exact_bandit),
    notes=(crossing,),
    size=LabSize(iterations=32, points=2, eval_tasks=32),
    settings={"world": "rules", "level": 3, "lr": 2e-4},
)

SPURIOUS = Lab(
    "clip-bias-spurious",
    "Rewards from a coin teach nothing. What does clipping then do to the objective and to the entropy?",
    arms={
        "clip 0.2": partial(coin, 0.2),
        "no clip": partial(coin, 1e9),
    },
    claims=(
        Claim("under random rewards clipping lowers the entropy", TOKEN_ENTROPY, "no clip", "clip 0.2"),
        Claim("without clipping they can raise it", TOKEN_ENTROPY, "no clip", BASE_LABEL),
    ),
    readings=(PassAt(1), TOKEN_ENTROPY, CLIPPED, RAW, CLIP_BIAS),
    charts=(along(TOKEN_ENTROPY), along(PassAt(1)), along(CLIP_BIAS), along(CLIPPED)),
    notes=(ratio_note("clip 0.2", RAW, CLIP_BIAS, "about 17"),),
    size=LabSize(iterations=12, points=3, eval_tasks=32, samples=16),
    quick=QUICK.replace(iterations=4, samples=16),
    settings={"world": "echo", "level": 3, "lr": 1e-4},
)

LEASH = Lab(
    "invisible-leash",
    "Does training reach answers that the base cannot, or only make likely what it could already find?",
    arms={
        "on-policy": partial(get, "grpo", kl=0.0),
        "with solutions": partial(get, "grao"),
    },
    claims=(
        Claim("on-policy training loses more tasks than it wins", Share("net_change"), BASE_LABEL, "on-policy"),
        Claim("its answers become less varied", ANSWER_ENTROPY, BASE_LABEL, "on-policy"),
        Claim("solutions from outside break the leash", Share("discovery"), "with solutions", "on-policy"),
    ),
    readings=(
        PassAt(1),
        TOP,
        Share("retention"),
        Share("discovery"),
        Share("net_change"),
        TOKEN_ENTROPY,
        ANSWER_ENTROPY,
    ),
    charts=(support, pass_curves, along(TOKEN_ENTROPY), along(ANSWER_ENTROPY)),
    notes=(crossing,),
    size=LabSize(seeds=4, points=2, eval_tasks=32),
    settings={"world": "echo", "level": 4, "lr": 3e-4},
)

TRICKS = Lab(
    "lite-ppo",
    "By what should the centred reward be divided, and over what should the loss be averaged?",
    arms={
        f"{scale} std, {name} loss" if scale != "none" else f"no std, {name} loss": partial(lite, scale, loss)
        for scale in ("group", "batch", "none")
        for name, loss in (("sequence", "token mean, rollout mean"), ("token", "token mean"))
    },
    claims=(
        Claim(
            "the batch's std with the token loss is better than the group's with the sequence loss",
            PassAt(1),
            "batch std, token loss",
            "group std, sequence loss",
        ),
        Claim(
            "the batch's std is better than the group's", PassAt(1), "batch std, token loss", "group std, token loss"
        ),
        Claim("the token loss is better", PassAt(1), "batch std, token loss", "batch std, sequence loss"),
    ),
    readings=(PassAt(1), PassAt(4), TOKEN_ENTROPY, Mean("length", "tokens")),
    charts=(along(PassAt(1)), along(TOKEN_ENTROPY), along(Mean("length", "tokens"))),
    size=LabSize(iterations=24, points=2, samples=16),
    quick=QUICK.replace(samples=16),
    settings={"world": "echo", "level": 3, "lr": 3e-4},
)

EXCHANGE = Lab(
    "clip-cov-kl-cov",
    "Is performance bought with entropy, R = −a · exp(H) + b, and does sparing covariant tokens keep entropy up?",
    arms={
        "grpo": partial(get, "grpo", kl=0.0),
        "clip-cov": partial(get, "clip-cov-kl-cov@clip-cov"),
        "kl-cov": partial(get, "clip-cov-kl-cov@kl-cov"),
    },
    claims=(
        Claim("KL-Cov keeps more entropy than GRPO", TOKEN_ENTROPY, "kl-cov", "grpo"),
        Claim("KL-Cov ends with a higher pass@1", PassAt(1), "kl-cov", "grpo"),
    ),
    readings=(PassAt(1), TOKEN_ENTROPY, ANSWER_ENTROPY),
    charts=(exchange(TOKEN_ENTROPY, PassAt(1)), along(PassAt(1)), along(TOKEN_ENTROPY)),
    notes=(laws(TOKEN_ENTROPY, PassAt(1)),),
    size=LabSize(points=5, samples=16),
    quick=QUICK.replace(points=2, samples=16),
    settings={"world": "echo", "level": 3, "lr": 3e-4},
)


def _of_files() -> dict[str, Lab | Trial]:
    """The studies of `podium.labs.experiments`, by the name of their file."""
    names = sorted(module.name for module in pkgutil.iter_modules(experiments.__path__))
    return {name.replace("_", "-"): import_module(f"{experiments.__name__}.{name}").STUDY for name in names}


LABS: dict[str, Lab | Trial] = {
    **{lab.slug: lab for lab in (TWO_STAGE, SPURIOUS, LEASH, TRICKS, EXCHANGE)},
    **_of_files(),
}
