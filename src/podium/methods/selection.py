"""GRPO on the tasks that promise most: beliefs about tasks, domains, rankings, curricula."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.errors import PodiumError
from podium.core.method import Method
from podium.core.phases import Phases
from podium.core.watch import Watch
from podium.keep import DuplicateHard
from podium.methods.catalogue import recipe
from podium.methods.group import anchored
from podium.objective import KL, Clip, Entropy, Likelihood, PolicyGradient
from podium.reward import Marked
from podium.rollout import Sample
from podium.select import (
    BetaBeliefs,
    ByDomain,
    DomainRewards,
    DropMeasuring,
    HardFocus,
    InformationGain,
    LeastKnown,
    PassRates,
    Ranked,
    Sweeps,
    Thompson,
)

__all__ = ["drive", "insight", "one_shot_rlvr", "rulereasoner", "vade"]


@recipe(
    "vade",
    summary="Tasks are chosen by a draw from what is believed of their success: most variance first.",
    citation="VADE: Variance-Aware Dynamic Sampling via Online Sample-Level Difficulty Estimation",
    family="group",
)
def vade(n: int = 8, decay: float = 0.5, decay_rest: float = 0.99, uniform: float = 0.0, clip: float = 0.2) -> Method:
    """Each task has a Beta(a, b) belief; θ is drawn from it and the tasks of the highest θ (1 − θ) are sampled. Then
    a ← 1 + 0.5 (a − 1) + successes where a task was sampled, a ← 1 + 0.99 (a − 1) elsewhere; b likewise with failures.
    The update is GRPO's, without KL.

    Score and decay are this reading of the abstract; the authors' code has not been seen. With both decays 1 it is
    Thompson sampling of a policy that does not move; uniform = 1 draws tasks at random.
    """
    return Method(
        "vade",
        select=Thompson(uniform=uniform),
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        memories=(BetaBeliefs(decay=decay, decay_rest=decay_rest),),
    )


@recipe(
    "insight",
    summary="Tasks are chosen by what their rollouts would say about them, times a weight for difficulty.",
    citation="INSIGHT: Efficient RLVR Training via Weighted Mutual Information Data Selection",
    family="group",
    presets={
        "mopps": {"score": "thompson"},
        "difficulty": {"score": "difficulty"},
        "evidence": {"score": "evidence"},
        "random": {"pool": 1},
    },
)
def insight(
    n: int = 8,
    pool: int = 16,
    score: str = "information",
    eta: float = 3.0,
    mu: float = 0.3,
    discount: float = 1.0,
    clip: float = 0.2,
) -> Method:
    """With a Beta(a, b) belief of mean p: p (1 − p) e^{−eta (p − mu)²} · I_n, where I_n is the mutual information
    between n coming outcomes and the rate of success. Of `pool` random candidates for every place of the batch the best
    are sampled, n rollouts each; a and b count successes and failures. Then GRPO, without KL.

    The paper prints mu = 3.0 in one place; its ablation means 0.3. discount < 1 draws old counts back to the prior.
    Presets are what it is compared with: success rates drawn from the belief closest to ½ (`mopps`), its means closest
    to ½ (`difficulty`), the fewest outcomes seen (`evidence`), and no choice (`random`), which is GRPO.
    """
    scores = {
        "information": InformationGain(rollouts=n, eta=eta, mu=mu),
        "thompson": Thompson(),
        "difficulty": Thompson(draw="mean"),
        "evidence": LeastKnown(),
    }
    if score not in scores:
        raise PodiumError(f"insight: score = {score!r} is not one of {', '.join(scores)}.")
    return Method(
        "insight",
        select=scores[score].replace(pool=pool),
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        memories=(BetaBeliefs(decay=discount, decay_rest=1.0),),
    )


@recipe(
    "rulereasoner",
    summary="Domains in which the policy is weak fill more of the batch.",
    citation="RuleReasoner: Reinforced Rule-based Reasoning via Domain-aware Dynamic Sampling",
    family="group",
    presets={
        "paper": {"variant": "ewma"},
        "yaml": {"temperature": 0.8, "size": 8, "every": 16},
        "release": {"forget": True, "least": 0},
    },
)
def rulereasoner(
    n: int = 64,
    variant: str = "buffer",
    temperature: float = 0.3,
    size: int = 4,
    every: int = 8,
    least: int = 1,
    start: str = "uniform",
    forget: bool = False,
    clip: float = 0.2,
) -> Method:
    """v_d = max(0, target − r̄_d), r̄_d the domain's mean reward over the last `size` batches, damped by their age; a
    batch of B tasks has ⌊B · softmax(v / 0.3)_d⌋ of domain d, the rest go to the highest weights. Weights are looked at
    every 8 iterations. GRPO, temperature 0.8, no KL.

    `rulereasoner@paper` tracks a moving average instead of a buffer. The release empties its buffer after every
    iteration, so that a domain above 52 % counts as solved, and lets domains starve: `rulereasoner@release`. The
    constant that it adds to v cancels. At the start domains are drawn alike, or by 1/√size (`root`) or e^(1/√size)
    (`exponential`) of their number of tasks. temperature → ∞ draws all domains alike; with a single domain it is GRPO.
    """
    return Method(
        "rulereasoner",
        select=ByDomain(temperature=temperature, least=least, start=start),
        rollout=Sample(n=n, temperature=0.8),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        memories=(DomainRewards(variant=variant, size=size, every=every, forget=forget), PassRates()),
    )


SCORES = {"variance": "group.pass_rate.spread", "lim": "group.pass_rate.alignment", "random": "group.random"}


@recipe(
    "one-shot-rlvr",
    summary="GRPO on one task, copied to fill the batch: the one whose accuracy moved most in an earlier run.",
    citation="Wang et al. 2025, RL for Reasoning with One Training Example, https://arxiv.org/abs/2504.20571",
    family="study",
    presets={"entropy-only": {"policy": False, "kl": 0.0}, "lim": {"score": "lim"}},
)
def one_shot_rlvr(
    n: int = 8,
    shots: int = 1,
    source: str | None = None,
    score: str = "variance",
    policy: bool = True,
    kl: float = 0.001,
    entropy: float = 0.001,
    temperature: float = 0.6,
    clip: float = 0.2,
) -> Method:
    """Tasks are ranked by the standard deviation of their accuracy over the visits that the run `source` has logged
    (`lim`: by how closely it follows the average curve); the first `shots` are copied to fill the batch, every copy a
    group of its own. GRPO + kl · k3 − entropy · H, each term on or off: `one-shot-rlvr@entropy-only` has no reward.

    Without a source the ranking is of this run's own visits, and begins with the first task. With as many shots as
    tasks it is GRPO with an entropy bonus. `podium.evaluation.saturation.post_saturation` measures what held-out
    accuracy gains after the training task is solved.
    """
    if score not in SCORES:
        raise PodiumError(f"one-shot-rlvr: score = {score!r} is not one of {', '.join(SCORES)}.")
    method = Method(
        "one-shot-rlvr",
        select=Ranked(by=SCORES[score], shots=shots),
        rollout=Sample(n=n, temperature=temperature),
        reward=(Marked((("reflection", "(?i)rethink|recheck|recalculate"),)),),
        advantage=Normalize(),
        objective=(
            *((PolicyGradient(clip=Clip(clip, clip)),) if policy else ()),
            *((Entropy(coefficient=entropy),) if entropy else ()),
        ),
        evaluate=(Watch("rollout.reflection"),),
        memories=(PassRates(source=source),),
    )
    return anchored(method, KL("k3", coefficient=kl))


@recipe(
    "drive",
    summary="First many tasks with few rollouts, then ever fewer of the hardest with very many.",
    citation="DRIVE: Data Curation Best Practices for RLVR in Competitive Code Generation",
    family="group",
    presets={"method-section": {"n": 80}, "supervised": {"supervised": 2750}},
)
def drive(
    n: int = 64,
    first_n: int = 8,
    first: int = 32,
    short: float = 0.75,
    keep: tuple[int, ...] = (72, 50, 25),
    iterations: tuple[int, ...] = (64, 32, 32),
    pool: int = 175,
    supervised: int = 0,
    style: str = "short",
    clip: float = 0.2,
) -> Method:
    """`first` iterations of GRPO with 8 rollouts, which may be three quarters as long as later ones. Then before each
    phase the tasks of the one before are measured, n rollouts each, which are not trained; the `keep` with the lowest
    pass rates are trained for so many iterations. No task comes back.

    Tasks that are never solved stay in: of 64 rollouts at a rate of 2 % some succeed with probability 0.73, of 8 with
    0.15. The paper says 64 rollouts in one section and 80 in another. It begins with a distilled model: so many
    iterations `supervised` imitate the world's solutions first (`drive@supervised`: three passes over 470 000 tasks,
    512 at once), twice where none of 8 rollouts is right and not at all where all are, in place of its classifier of
    difficulty and its filter in five folds. One phase that keeps everything, with 8 rollouts and short = 1, is GRPO.
    """
    if len(keep) != len(iterations):
        raise PodiumError(f"drive: {len(keep)} sizes in keep for {len(iterations)} phases in iterations.")
    plain = Method(
        "drive",
        rollout=Sample(n=first_n, room=short),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
    )
    focus = plain.with_(
        select=HardFocus(keep=keep, pool=pool),
        rollout=Sample(n=n),
        keep=(DropMeasuring(),),
        memories=(Sweeps(iterations=iterations),),
    )
    imitate = Method(
        "imitate",
        rollout=Sample(n=first_n, demonstrations=(style, style)),
        keep=(DuplicateHard(),),
        objective=(Likelihood(where="rollout.imitated"),),
    )
    before = [method.until(count) for method, count in ((imitate, supervised), (plain, first)) if count]
    return Phases(*before, focus, name="drive")
