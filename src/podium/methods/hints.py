"""Tasks that are too hard get a hint: how much, where it comes from, and what becomes of the failed rollouts."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.method import Method, Role
from podium.core.schedule import Steps
from podium.core.watch import Watch
from podium.keep import KeepMixed
from podium.methods.catalogue import recipe
from podium.methods.group import anchored
from podium.objective import KL, Clip, Likelihood, PolicyGradient, Updates
from podium.reward import Bonus, Marked
from podium.rollout import (
    Guided,
    HintLevels,
    HintPrefix,
    HintRates,
    HintRounds,
    HintTiers,
    HintWorth,
    ItemResponse,
    LastHints,
    LearnToHint,
    Repair,
    SelfWritten,
    SolutionShares,
)
from podium.shape import BySetting, HintConsistency

__all__ = ["adhint", "ghpo", "hill", "sage", "scaf_grpo", "seele"]


@recipe(
    "ghpo",
    summary="A group without a success is sampled again after the first quarter, half, three quarters of a solution.",
    citation="Liu et al. 2025, GHPO: Adaptive Guidance for Stable and Efficient LLM RL, https://github.com/hkgc-1/GHPO",
    family="hybrid",
)
def ghpo(
    n: int = 8,
    shares: tuple[float, ...] = (0.25, 0.5, 0.75),
    after: int = 0,
    format_weight: float = 0.5,
    layout: str = r"(?m)^answer:",
    epsilon: float = 1e-4,
    clip: float = 0.2,
    style: str = "short",
) -> Method:
    """Where all n rollouts are wrong, the question gets the first 25 % of the characters of a solution, then 50 %, then
    75 %, until some rollout is right; those rollouts stand for the group, and are trained with the hint in the prompt.
    R = accuracy + 0.5 · [right format], A = (R − mean) / (std + 1e-4), token mean, no KL.

    A group with a success is never hinted. Never solved: the last rollouts stay, and only their format differs. Hints
    begin after `after` iterations; with none ever it is GRPO.
    """
    return Method(
        "ghpo",
        rollout=Repair(n=n, help=SolutionShares(shares, style=style), active=_from(after)),
        reward=(Marked((("format", layout),)), Bonus("rollout.format", format_weight)),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        evaluate=(Watch("rollout.guided"),),
    )


@recipe(
    "scaf-grpo",
    summary="One rollout of a hopeless group is replaced by the one that succeeds with the least of tiered hints.",
    citation="Scaf-GRPO: Scaffolded Group Relative Policy Optimization, https://github.com/dvlab-research/Scaf-GRPO",
    family="hybrid",
    presets={"paper": {"tiers": ("knowledge", "planning", "solution")}},
)
def scaf_grpo(
    n: int = 8,
    after: int = 50,
    tiers: tuple[str, ...] = ("knowledge", "solution"),
    pieces: int = 4,
    scaffold: str = "kept",
    epsilon: float = 1e-6,
    clip: float = 0.2,
    style: str = "short",
) -> Method:
    """After `after` iterations: where all rewards are 0, one rollout is sampled for each level of help (the first piece
    of a tier, its first two, …, tier after tier), and the success at the lowest level replaces the first rollout.
    GRPO's advantage on the new group, no KL. If no level succeeds nothing changes.

    Before, and in a group with a success, it is GRPO. The release leaves the tier `planning` out (`scaf-grpo@paper` has
    it). `scaffold`: trained with the hint in the prompt (`kept`), behind the bare question (`removed`), or both, which
    replaces two. Tasks without stored hints get the lines of a solution as pieces of its tier.
    """
    repair = Repair(
        n=n,
        help=HintTiers(tiers, pieces, style=style),
        tries=1,
        search="at once",
        take="rows",
        scaffold=scaffold,
        active=_from(after),
    )
    return Method(
        "scaf-grpo",
        rollout=repair,
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        evaluate=(Watch("rollout.guided"),),
    )


@recipe(
    "sage",
    summary="The policy writes hints of rising strength for tasks that it fails, and samples them again under these.",
    citation="SAGE: Self-Hinting Language Models Enhance Reinforcement Learning, https://github.com/BaohaoLiao/SAGE",
    family="hybrid",
    presets={"light": {"light": True}, "small": {"ask": ""}},
)
def sage(
    n: int = 8,
    ask: str = SelfWritten.ask,
    levels: int = 3,
    light: bool = False,
    low: float = 0.1,
    high: float = 0.35,
    epsilon: float = 1e-6,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    style: str = "short",
) -> Method:
    """Where all n rollouts fail, the policy is shown the solution and writes `levels` hints, from the idea to details;
    the group is sampled again under the weakest, then the next, until one succeeds, and these rollouts stand for the
    group, with the hint in the prompt. GRPO's advantage, clip 0.2 / 0.28, no KL.

    A group with a success is GRPO's. Hints that cannot be read leave the group as it is. `sage@small` is for models
    that follow no instructions: the solution stands in place of a hint, and what they write is cut into levels.
    `sage@light` samples once, at a level that the task remembers: one more if at most `low` of its rollouts succeeded
    the last time, one less if more than `high` did; it begins without a hint. Hints that cannot be read are replaced by
    the last ones of the task that could (`help.earlier` in the metrics); without any the task is asked without, which
    is then its level.
    """
    hints = SelfWritten(ask, levels, style=style, earlier="group.hints" if light else None)
    remembered = Guided(n=n, help=hints, guided=None, level="group.hint.level", scaffold="kept")
    return Method(
        "sage",
        rollout=remembered if light else Repair(n=n, help=hints),
        memories=(HintLevels(low, high, levels), LastHints()) if light else (),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high)),),
        evaluate=(Watch("rollout.guided"),),
    )


@recipe(
    "hill",
    summary="A second model learns to write hints: good ones make failing tasks solvable and are hardly needed.",
    citation="HiLL: Learning to Hint for Reinforcement Learning, https://github.com/Andree-9/HiLL",
    family="hybrid",
    presets={"small": {"ask": ""}},
)
def hill(
    n: int = 8,
    hints: int = 4,
    base: str = "mixed",
    transfer: float | None = 0.3,
    penalty: float = -0.2,
    ask: str = LearnToHint.ask,
    hinter: str = "initial",
    epsilon: float = 1e-6,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    mini_batches: int = 2,
    style: str = "short",
) -> Method:
    """For a task that all n rollouts fail the hinter, shown question, solution and a failed answer, writes `hints`
    hints; n rollouts try each. A hint gets (1 − pᴺ − (1 − p)ᴺ) · e^{min(d, 0) / transfer}, p the share of successes and
    d how much less likely they are without the hint, per token; `penalty` if it cannot be read or leaks the answer. The
    rollouts under the best hint replace the group, with the hint in the prompt. Both models learn by GRPO, the hints of
    a task being a group; groups without advantage are dropped.

    Without a failed group it is GRPO without its flat groups. base = "variance" is p (1 − p); transfer = None leaves
    the weight out. `hinter` is the policy's first weights, or the path of another model with the same tokens.
    `hill@small` is for models that follow no instructions: the solution stands in place of a hint, and the first half
    of what they then write is the hint.
    """
    clip = Clip(clip_low, clip_high)
    return Method(
        "hill",
        rollout=LearnToHint(
            n=n, search="at once", hints=hints, worth=HintWorth(base, transfer, penalty), ask=ask, style=style
        ),
        keep=(KeepMixed(top_up=False),),
        advantage=Normalize(epsilon=epsilon),
        objective=(
            PolicyGradient(clip=clip, where="rollout.solving"),
            PolicyGradient(clip=clip, where="rollout.hinting", behaviour="hinter", trains="hinter"),
        ),
        updates=Updates(mini_batches=mini_batches),
        evaluate=(Watch("rollout.guided", where="rollout.solving"),),
        roles=(Role("hinter", source=hinter),),
    )


@recipe(
    "seele",
    summary="Rounds of rollouts after so much of a solution that about half of them should succeed.",
    citation="Li et al. 2025, SEELE: Staying in the Sweet Spot, https://arxiv.org/abs/2509.06923",
    family="hybrid",
)
def seele(
    n: int = 8,
    rounds: int = 4,
    target: float = 0.5,
    imitation: float = 0.001,
    clip: float = 0.2,
    kl: float = 0.001,
    style: str = "short",
) -> Method:
    """After each round f(p) = b + (1 − b)/(1 + e^{−k (p + mu)}) is fitted to how often the task was solved after the
    share p of its solution, and the next round shows f⁻¹(target) of it; the last prediction starts the next visit.
    A = r − mean over all rounds; PPO's clip on what was written; −imitation · log π of the longest hint; k3 with 0.001.

    A task solved without a hint is asked without one. rounds = 1 with nothing shown is Dr. GRPO. Where the paper writes
    the hint's probability, this has its logarithm, a mean over tokens.
    """
    method = Method(
        "seele",
        rollout=HintRounds(n=n, rounds=rounds, response=ItemResponse(target), style=style),
        advantage=Normalize(scale="none", singleton="zero"),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), where="rollout.sampled"),
            Likelihood(where="rollout.demonstration", coefficient=imitation),
        ),
        evaluate=(Watch("rollout.guided"),),
        memories=(HintRates(),),
    )
    return anchored(method, KL("k3", coefficient=kl))


@recipe(
    "adhint",
    summary="Half of a group begins with part of a solution, longer for harder tasks; credit knows which is easy.",
    citation="ADHint: Adaptive Hints with Difficulty Priors for Reinforcement Learning",
    family="hybrid",
)
def adhint(
    n: int = 4,
    hinted: int = 4,
    least: float = 0.1,
    most: float = 0.9,
    noise: float = 0.05,
    epsilon: float = 1e-6,
    clip: float = 0.2,
    style: str = "short",
) -> Method:
    """n rollouts, then `hinted` that begin with the share (most − least) · (1 − mean reward) + least + noise of a
    solution's tokens. GRPO's advantage over both; a success counts 2 D / (D_N + D_H) times, D = 1 − mean reward of its
    half, a failure likewise with 1 − D. A hint token weighs e^{−|H − H̄| / H̄}, H the entropy there, H̄ that of the
    continuation, and nothing in a rollout of negative advantage. PPO's clip, against the policy's own old
    probabilities of the hint too.

    A task solved by all n is GRPO's, and so are advantages where both halves are equally hard. The forms of the weights
    follow a description of the paper.
    """
    return Method(
        "adhint",
        rollout=HintPrefix(n=n, hinted=hinted, least=least, most=most, noise=noise, style=style),
        advantage=Normalize(epsilon=epsilon),
        shape=(BySetting(epsilon), HintConsistency(epsilon)),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        evaluate=(Watch("rollout.hinted"),),
    )


def _from(iteration: int) -> float | Steps:
    """On from an iteration."""
    return Steps((0.0, 1.0), (0, iteration)) if iteration else 1.0
