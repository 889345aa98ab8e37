"""Answers that the policy would not have found alone: by teachers, by rewriting, under examples or a checklist."""

from __future__ import annotations

from podium.advantage import DampReplayed, Normalize
from podium.core.errors import PodiumError
from podium.core.method import Method
from podium.core.schedule import Linear, Power, Schedule, Sigmoid
from podium.core.watch import Watch
from podium.evaluation.diversity import Diversity
from podium.keep import InjectTeachers, RejectGuided, RouteByOrigin
from podium.methods.catalogue import recipe
from podium.methods.group import anchored
from podium.objective import KL, Aggregate, Clip, Entropy, PolicyGradient, Shaped
from podium.reward import BrevityBonus, GuidedBonus, Marked, RankTruncated, Rubric, WeightedSum
from podium.rollout import (
    Guided,
    Rectified,
    Refine,
    Repair,
    ReplayAndReflect,
    RubricShown,
    Stored,
    StoredRollouts,
    Teachers,
    WorkedExamples,
)
from podium.rollout.help import Help

__all__ = ["ampo", "icpo", "r3", "rgr_grpo", "ruscarl", "scope"]


@recipe(
    "ampo",
    summary="Where every rollout fails, some are replaced by the teachers' answers that the policy understands best.",
    citation="Yuan et al. 2025, AMPO: Adaptive Multi-Guidance Policy Optimization, https://github.com/SII-Enigma/AMPO",
    family="hybrid",
    presets={"hybrid": {"even_solved": 0.3}, "always": {"even_solved": 1.0}},
)
def ampo(
    n: int = 8,
    teachers: str = "",
    known: int = 4,
    most: int = 2,
    even_solved: float = 0.0,
    format_share: float = 0.1,
    layout: str = r"(?m)^answer:",
    gamma: float = 0.1,
    clip: float = 0.2,
    dual: float = 10.0,
    max_length: int = 8192,
    entropy: float = 0.001,
) -> Method:
    """Reward 0.9 · accuracy + 0.1 · format. In a group without a success the `most` teachers of the highest 0.9 · (mean
    probability of the right answer's tokens after their reasoning) + 0.1 · format replace failures at random, with
    reward 1. A = R − mean; own tokens: PPO's clip with dual clip; a teacher's: −A p / (p + gamma). Σ over all tokens of
    the update / max_length, which is not divided by the number of rollouts; an entropy bonus; no KL.

    With one success it is GRPO without the std, unless `even_solved` lets teachers replace failures there too, with so
    much probability (`ampo@hybrid`: 0.3; `ampo@always`: 1). `teachers` is a file of answers by task; without one the
    world's solutions in its different styles are the teachers, at most `known` of them. As in the release a teacher's
    answer is taken for right whatever the verdict.
    """
    whole = Aggregate(f"token sum / {max_length}")
    method = Method(
        "ampo",
        rollout=Repair(
            n=n, help=Teachers(teachers, known), when="some wrong" if even_solved else "all wrong", take="candidates"
        ),
        reward=(
            Marked((("format", layout),)),
            WeightedSum((("rollout.correct", 1 - format_share), ("rollout.format", format_share))),
        ),
        keep=(InjectTeachers(most, format_share, even_solved), RouteByOrigin()),
        advantage=Normalize(scale="none", singleton="zero"),
        objective=(
            PolicyGradient(clip=Clip(clip, clip, dual=dual), where="token.own", aggregate=whole),
            Shaped(gamma, where="token.foreign", aggregate=whole),
        ),
        evaluate=(Watch("rollout.guided"),),
    )
    return method if entropy == 0 else method | Entropy(coefficient=entropy)


@recipe(
    "rgr-grpo",
    summary="A checklist is the reward; the best imperfect answer is rewritten from what it lacks and joins the group.",
    citation="RGR-GRPO: Reward and Guidance through Rubrics",
    family="hybrid",
)
def rgr_grpo(n: int = 8, rewrites: int = 1, gamma: float = 0.1, epsilon: float = 1e-6, clip: float = 0.2) -> Method:
    """R = Σ points of the criteria met / Σ of all points. Unless some rollout meets all, the policy is shown the best
    one with the criteria that it misses, and rewrites it; a rewrite that is better joins the group. A = (R − mean) /
    (std + 1e-6) over all of them; own tokens: PPO's clip; those of a rewrite, as an answer to the bare question:
    −A p / (p + gamma). Mean over all tokens.

    Without a rewrite it is GRPO with rubric rewards. The formulas follow the abstract and notes on the paper. Embedded
    worlds judge their criteria by rule.
    """
    return Method(
        "rgr-grpo",
        rollout=Refine(n=n, tries=rewrites),
        reward=(Rubric(),),
        advantage=Normalize(epsilon=epsilon),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), where="rollout.plain", over="all"),
            Shaped(gamma, where="rollout.guided", over="all"),
        ),
        evaluate=(Watch("rollout.guided"), Watch("rollout.perfect")),
    )


@recipe(
    "scope",
    summary="A wrong answer that began well keeps its right steps, and a guide's end; it replaces the failure.",
    citation="SCOPE: Step-wise Correction for On-Policy Exploration",
    family="hybrid",
)
def scope(
    n: int = 8,
    threshold: float = 0.5,
    prefix: float = 0.5,
    most: int = 1,
    gamma: float = 0.1,
    epsilon: float = 1e-6,
    clip: float = 0.2,
) -> Method:
    """A wrong rollout whose first step with a score below `threshold` comes after at least the share `prefix` of its
    steps is cut there and continued by a guide; if the whole is then right it replaces its source. GRPO's advantage on
    the new group; tokens before the cut: PPO's clip; the guide's: −A p / (p + gamma). Mean over all tokens.

    prefix > 1 is GRPO; prefix = 0 also replaces whole rollouts. The formulas follow the abstract. Steps are lines,
    scored by the world, whose solutions are the guide. `diversity` in the metrics is 1 − the mean overlap of the sets
    of tokens of two rollouts of a task, which the paper reports to grow.
    """
    return Method(
        "scope",
        rollout=Repair(n=n, help=Rectified(threshold, prefix, most), when="some wrong", take="rows", most=most),
        keep=(RouteByOrigin(),),
        advantage=Normalize(epsilon=epsilon),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), where="token.own", over="all"),
            Shaped(gamma, where="token.foreign", over="all"),
        ),
        evaluate=(Watch("rollout.guided"), Diversity()),
    )


@recipe(
    "icpo",
    summary="Some rollouts are written after a worked example and trained as answers to the bare question.",
    citation="Huang et al. 2025, ICPO: In-Context Steered Policy Optimization, https://github.com/Celine-hxy/ICPO",
    family="hybrid",
    presets={"paper": {"reject": True}},
)
def icpo(
    n: int = 8,
    guided: int = 1,
    examples: Help = WorkedExamples(),
    bonus: float = 1.0,
    steps: int = 400,
    gamma: float = 0.1,
    reject: bool = False,
    epsilon: float = 1e-6,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual: float = 3.0,
    kl: float = 0.001,
) -> Method:
    """The last `guided` of n rollouts see another task with its solution, which is removed for training. A right one of
    them gets 1 + bonus · max(0, 1 − t / steps). GRPO's advantage over all; plain tokens: PPO's clip with dual clip;
    guided ones: −A p / (p + gamma). Mean over all tokens; k3 with 0.001.

    The release trains on wrong guided rollouts too; `icpo@paper` leaves them out of the loss. guided = 0 is GRPO. Notes
    on the paper give gamma = 0.01, the release has 0.1. `examples` may be any other help.
    """
    method = Method(
        "icpo",
        rollout=Guided(n=n, help=examples, guided=guided),
        reward=(GuidedBonus(Linear(bonus, 0.0, over=steps)),),
        keep=(RejectGuided(),) if reject else (),
        advantage=Normalize(epsilon=epsilon),
        objective=(
            PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual), where="rollout.plain", over="all"),
            Shaped(gamma, where="rollout.guided", over="all"),
        ),
        evaluate=(Watch("rollout.correct", where="rollout.guided"),),
    )
    return anchored(method, KL("k3", coefficient=kl))


@recipe(
    "ruscarl",
    summary="Members of a group see ever fewer criteria of the checklist that rewards them; trained without any.",
    citation="Zhou et al. 2025, RuscaRL: Rubric-Scaffolded RL, https://arxiv.org/abs/2508.16949",
    family="hybrid",
)
def ruscarl(
    n: int = 8,
    steps: int = 350,
    midpoint: float = 0.2,
    steepness: float = 125.0,
    fade: str = "sigmoid",
    power: float = 1.0,
    full: int | None = None,
    scaffold: str = "removed",
    epsilon: float = 1e-6,
    clip: float = 0.2,
    kl: float = 0.001,
    temperature: float = 0.7,
    top_p: float = 0.8,
    top_k: int = 20,
) -> Method:
    """Member i = 0 … n − 1 sees a random share (n − 1 − i)/(n − 1) · s(t) of the criteria, s(t) = 1/(1 + e^{steepness
    (x − midpoint)}), x the share of `steps` that is over; training sees the bare question. R = Σ points of the criteria
    met / Σ positive points; GRPO's advantage; clip 0.2; k3 with 0.001.

    s = 0 is GRPO with rubric rewards. fade = "linear" is s = 1 − x, "power" (1 − x)^power, "none" 1. With `full` so
    many members see the share s(t) and the others nothing. scaffold = "kept" trains with the criteria in the prompt.
    `rollout.note` may stand below them: the authors forbid to mention them, which podium/tiny does not understand. The
    midpoint and the steepness, nearly a switch, are those of the authors' script; their code's own are 0.3 and 10.
    """
    strategy = RubricShown(
        n=n,
        fade=_fade(fade, steps, midpoint, steepness, power),
        binary=full,
        scaffold=scaffold,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
    )
    method = Method(
        "ruscarl",
        rollout=strategy,
        reward=(Rubric(),),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        evaluate=(Watch("rollout.guided"), Watch("rollout.perfect")),
    )
    return anchored(method, KL("k3", coefficient=kl))


def _fade(rule: str, steps: int, midpoint: float, steepness: float, power: float) -> float | Schedule:
    """From everything at the first step to nothing at the last; a single step shows everything."""
    over = max(steps - 1, 1)
    rules: dict[str, float | Schedule] = {
        "sigmoid": Sigmoid(1.0, over, midpoint, steepness),
        "linear": Power(1.0, over),
        "power": Power(1.0, over, power),
        "none": 1.0,
    }
    if rule not in rules:
        raise PodiumError(f"ruscarl: fade = {rule!r} is not one of {', '.join(rules)}.")
    return rules[rule] if steps > 1 else 1.0


@recipe(
    "r3",
    summary="Groups without contrast get stored rollouts of the other outcome; failures are reflected on and ranked.",
    citation="R³: Replay, Reflection and Ranking Rewards",
    family="hybrid",
)
def r3(
    n: int = 8,
    replayed: int = 2,
    alpha: float = 1.0,
    tau: float = 0.2,
    top: float = 0.2,
    highest: float = 0.5,
    max_length: int = 32768,
    epsilon: float = 1e-6,
    clip: float = 0.2,
    kl: float = 0.04,
) -> Method:
    """A group of failures gets up to `replayed` stored successes of its task, a group of successes stored failures;
    A = (R − mean) / (alpha · std + 1e-6) there, alpha = 1 elsewhere. A task whose mean reward so far is below `tau` is
    also asked with an earlier wrong answer in the prompt, as a group of its own. Truncated failures of a hopeless group
    are ranked: high peaks of entropy over a low mean get up to `highest`. Right answers get a bonus for brevity.

    With nothing stored and nothing truncated it is GRPO with that bonus. Stored rollouts keep the log-probabilities of
    their time. tau, replayed, top, highest and alpha are not in the paper's text as recovered.
    """
    surrogate = PolicyGradient(clip=Clip(clip, clip), where="rollout.fresh", over="all")
    method = Method(
        "r3",
        rollout=ReplayAndReflect(n=n, help=Stored(replayed), most=replayed, tau=tau),
        reward=(RankTruncated(top, highest, without="rollout.replayed"), BrevityBonus(max_length)),
        advantage=DampReplayed(alpha, epsilon),
        objective=(surrogate, surrogate.replace(where="rollout.replayed", behaviour="sampler")),
        evaluate=(Watch("rollout.replayed"), Watch("rollout.reflecting")),
        memories=(StoredRollouts(),),
    )
    return anchored(method, KL("k3", coefficient=kl))
