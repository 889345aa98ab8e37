"""Rollouts that share beginnings: where they fork, what their segments are worth, and which copies are trained."""

from __future__ import annotations

from podium.advantage import BoundaryDifference, FinalBaseline, NodeDifference, Normalize, PositionDifference
from podium.core.errors import PodiumError
from podium.core.method import Method, Role
from podium.core.schedule import Number, Steps
from podium.core.watch import Watch
from podium.keep import KeepMixed, WaitingSegments
from podium.methods.catalogue import recipe
from podium.methods.group import anchored, dapo
from podium.objective import KL, Aggregate, Clip, PolicyGradient, QualityLoss, Updates
from podium.reward import Overlong, SearchScore, WeightedVote
from podium.rollout import CriticalToken, Cutpoints, Fork, Grow, Prune, ScoreBins, Search, SolvedTexts, Tree
from podium.select import DropMeasuring, StillHard, Sweeps
from podium.shape import DropSure, DropUncredited, HoldToShortest, RejectFar, TakeSegments, TrainShared, Whiten

__all__ = ["arrol", "cure", "deepsearch", "rose", "spo"]


@recipe(
    "spo",
    summary="Credit for segments without a critic: the change of the mean reward of rollouts from segment to segment.",
    citation="Segment Policy Optimization, https://github.com/AIFrameResearch/SPO",
    family="process",
    presets={"chain": {"form": "chain"}, "standardised": {"scale": "std"}},
)
def spo(
    form: str = "tree",
    n: int | None = None,
    branches: tuple[int, ...] = (6, 6),
    window: int = 600,
    scale: str = "none",
    every: int = 5,
    probes: int = 9,
    sure: float = 0.9,
    temperature: float = 0.6,
    segments: int | None = 512,
    mini_batches: int = 1,
    max_ratio: float = 10.0,
    clip: float = 0.2,
    kl: float = 1e-4,
) -> Method:
    """Tree: n segments of at most `window` tokens, `branches` continuations of each and so on; A = V(node) − V(parent),
    V the mean of a node's children; every segment is trained once, those with A = 0 not at all. Chain (`spo@chain`): n
    rollouts, and `probes` more at every `every`-th token with p < `sure`; A = V(next cut) − V(last), at the end R − V.
    Both: tokens with p ≥ `sure` are not trained; A is whitened over the tokens that are; PPO's clip, token mean.

    A tree without branches is GRPO without std, and with `scale="std"` with the population's. An iteration trains
    `segments` of a tree's segments, drawn from its own and those that earlier ones left (None: all of its own), and
    whitens over all of its own, so that those it leaves are on the same scale. An update whose mean ratio is above
    `max_ratio` is left out; the only update of a batch has the ratio 1. The release takes 4 or 8 `mini_batches` of 128
    or 64 segments. The KL's coefficient is an assumption.
    """
    if form not in ("tree", "chain"):
        raise PodiumError(f"spo: form = {form!r} is not 'tree' or 'chain'.")
    tree, updates = form == "tree", Updates(epochs=1 if form == "tree" else 2, mini_batches=mini_batches)
    grown = Tree(n=n or 6, branches=branches, window=window, temperature=temperature)
    cut = Fork(n=n or 1, places=Cutpoints(sure, every), branches=probes, purpose="baseline", temperature=temperature)
    credited = (TrainShared("once"), DropUncredited()) if tree else ()
    drawn = (TakeSegments(segments),) if tree and segments else ()
    near = () if updates.single else (RejectFar(max_ratio),)
    method = Method(
        "spo",
        rollout=grown if tree else cut,
        advantage=NodeDifference(scale) if tree else BoundaryDifference(sure),
        shape=(*credited, DropSure(sure), Whiten(trained_only=True), *drawn, *near),
        objective=(PolicyGradient(clip=Clip(clip, clip), clamp=10.0),),
        evaluate=(
            Watch("token.keep.unsure"),
            *((Watch("node.value"),) if tree else ()),
            *((Watch("batch.weight.near"),) if near else ()),
        ),
        updates=updates,
        memories=(WaitingSegments(),) if drawn else (),
    )
    return anchored(method, KL("k3", coefficient=kl))


@recipe(
    "cure",
    summary="Further rollouts from a random high-entropy token of the first ones, all in one group; then DAPO.",
    citation="CURE, https://github.com/bytedance/CURE",
    family="entropy",
    presets={"stage-2": {"stage": 2}},
)
def cure(
    n: int = 4,
    branches: int = 3,
    candidates: int = 20,
    order: str = "entropy",
    characters: int = 2,
    stage: int = 1,
    max_prompt: int = 1500,
    max_length: int = 3584,
    buffer: int = 512,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    max_rounds: int = 10,
) -> Method:
    """Each of n rollouts is cut at one of its `candidates` tokens of highest entropy and continued `branches` times:
    the copied part carries no loss. DAPO's advantage over all n (1 + branches), its clip, filter and overlong reward.

    `cure@stage-2` is DAPO with as many ordinary rollouts: `Phases(get("cure").until(300), get("cure@stage-2"))`
    trains one after the other. branches = 0 is DAPO with n. A candidate is not the first token and has at least
    `characters` characters; without any the whole is sampled anew. Of a question and a copied part with more than
    `max_prompt` tokens together the first are kept.
    """
    if stage not in (1, 2):
        raise PodiumError(f"cure: stage = {stage!r} is not 1 or 2.")
    lengths = {"max_length": max_length, "buffer": buffer, "max_rounds": max_rounds}
    plain = dapo(n=n * (1 + branches), clip_low=clip_low, clip_high=clip_high, **lengths).with_(name="cure")
    if stage == 2:
        return plain
    places = CriticalToken(candidates, characters, order)
    fork = Fork(n=n, places=places, branches=branches, prompt=max_prompt)
    forked = plain.with_(rollout=fork, evaluate=Watch("rollout.fork"))
    return forked | TrainShared("new")


@recipe(
    "rose",
    summary="Rollouts fork where likely next tokens mean different things; credit from fork to fork, less for length.",
    citation="ROSE: Reinforced Efficient Reasoning via Semantically Diverse Exploration, "
    "https://github.com/ZiqiZhao1/ROSE-rl",
    family="process",
    presets={"tree": {"credit": "prefix"}},
)
def rose(
    n: int = 8,
    restart: float = 0.5,
    metric: str = "cosine-entropy",
    candidates: int = 20,
    length_exponent: float = 0.0,
    credit: str = "position",
    max_length: int = 3000,
    clip: float = 0.2,
    kl: float = 0.001,
    max_rounds: int = 8,
) -> Method:
    """Each rollout begins anew with probability `restart`, or forks from the place with the largest −F · H among all so
    far; A = V(next fork) − V(last fork), V(k) the mean reward of the group's rollouts with a fork at k, at the end
    R − V. Right answers longer than the shortest lose |A| · (1 − ((L_s − k*)/(L − k*))^λ) after what they share.

    restart = 1 with λ = 0 is Dr. GRPO. As in the release V is keyed by the position alone: forks at one place of
    different texts are mixed; `rose@tree` keys it by the text, and so what two answers share. λ is 0 in the release.
    """
    if credit not in ("position", "prefix"):
        raise PodiumError(f"rose: credit = {credit!r} is not 'position' or 'prefix'.")
    by_place = PositionDifference(length_exponent)
    aggregate = Aggregate(f"token sum / {max_length}, rollout mean")
    method = Method(
        "rose",
        rollout=Grow(n=n, restart=restart, metric=metric, candidates=candidates),
        keep=(KeepMixed(max_rounds=max_rounds),),
        advantage=by_place if credit == "position" else NodeDifference(values="leaves"),
        shape=(HoldToShortest(length_exponent),) if credit == "prefix" and length_exponent else (),
        objective=(PolicyGradient(clip=Clip(clip, clip), aggregate=aggregate),),
        evaluate=(Watch("rollout.fork"),),
    )
    return anchored(method, KL("k3", coefficient=kl))


@recipe(
    "arrol",
    summary="Half of the rollouts are stopped early by a head that learns which beginnings end well.",
    citation="ARRoL: Prune as You Generate, https://github.com/Hsu1023/ARRoL",
    family="group",
)
def arrol(
    n: int = 8,
    keep: float = 0.5,
    target: float = 0.5,
    detect: int = 512,
    cold: int = 20,
    bins: int = 10,
    prior_weight: float = 1.0,
    lr: float = 1e-3,
    clip: float = 0.2,
    kl: float = 0.001,
) -> Method:
    """n rollouts pause after `detect` tokens; with a chance p of ending well, a head's score corrected by how often
    scores of its bin were right, one goes on with probability p q⁺ + (1 − p) q⁻: a share `keep` survives, and `target`
    of these should be right. GRPO on the survivors alone; the head learns from them by cross-entropy.

    No pruning in the first `cold` iterations. keep = 1 is GRPO. The survivors are a biased sample, which the method
    accepts. `weighted_vote` is the accuracy of votes weighted by the head's scores. The paper's code is not released:
    the survival formula is one that meets its targets, and the head's width and learning rate are assumptions.
    """
    early: Number = Steps((1.0, keep), (0, cold)) if cold else keep
    method = Method(
        "arrol",
        rollout=Prune(n=n, keep=early, target=target, detect=detect, prior_weight=prior_weight),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)), QualityLoss()),
        evaluate=(Watch("rollout.detected"), WeightedVote()),
        memories=(ScoreBins(bins),),
        roles=(Role("quality", source="quality", lr=lr),),
    )
    return anchored(method, KL("k3", coefficient=kl))


@recipe(
    "deepsearch",
    summary="Each task is searched as a tree of chunks; what the search found a chunk to be worth is its score.",
    citation="DeepSearch: Monte Carlo Tree Search inside RLVR training, https://github.com/smiles724/DeepSearch",
    family="process",
    presets={"uncertain": {"uncertainty": 0.4}, "rounds": {"pool": 256}},
)
def deepsearch(
    n: int = 8,
    width: int = 8,
    max_depth: int = 64,
    c: float = 2.0,
    uncertainty: float = 0.0,
    budget: int | None = None,
    round_length: int = 100,
    rare: float = 0.25,
    pool: int | None = None,
    rounds: int = 3,
    max_length: int = 16384,
    buffer: int = 4096,
    scale: str = "none",
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 10.0,
) -> Method:
    """Monte Carlo tree search until n ends are recorded: verdicts ±1 are backed up with the weight (depth + 1)/T, never
    below a positive node. A = score − mean of the group's final scores, the score of a chunk tanh of its value and of
    the last one its verdict, plus the reward for length. DAPO's clip, token mean, no KL.

    width = n with max_depth = 1 is Dr. GRPO's advantage with rewards ±1. Right answers to tasks that a round of
    `round_length` iterations solved at a rate in (0, `rare`] are reused in the next one instead of a search. With a
    `pool` of tasks (`deepsearch@rounds`) four samples measure each before it is trained, and before the next round
    those still in: a round has the tasks of rates up to `rare`, measured by the policy of the time where the paper
    takes its best checkpoint. Without one all tasks are trained. `scale="std"` divides by the std, which the release
    has switched off. A rollout that is alone keeps its score as advantage. Inner chunks differ from the last one, so a
    group of equal verdicts is trained too.
    """
    search = Search(n=n, width=width, max_depth=max_depth, c=c, uncertainty=uncertainty, budget=budget)
    return Method(
        "deepsearch",
        select=StillHard(rare, pool) if pool else None,
        rollout=search,
        reward=(Overlong(max_length=max_length, buffer=buffer), SearchScore()),
        keep=(DropMeasuring(),) if pool else (),
        advantage=FinalBaseline(scale=scale),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
        evaluate=(Watch("node.worth"), Watch("rollout.fork"), Watch("rollout.replayed")),
        memories=(SolvedTexts(round_length, rare), *((Sweeps((round_length,) * rounds),) if pool else ())),
    )
