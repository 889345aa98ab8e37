"""KnowRL: what one can do, by agreement with oneself."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.memories import SeedTasks
from podium.method import Home, Method, Protocol, Role
from podium.methods._shared import anchored, clip_for
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize, Returns
from podium.parts.metric import SelfKnowledge
from podium.parts.objective import KL, PolicyGradient
from podium.parts.reward import SelfAgreement, TokenReward
from podium.parts.shape import Whiten
from podium.strategies import Introspect

__all__ = ["knowrl"]


@recipe(
    summary="Self-knowledge: the policy writes tasks it can and cannot do and is rewarded for agreeing with itself.",
    citation="KnowRL: Teaching Language Models to Know What They Know, https://arxiv.org/abs/2510.11407",
    tags=("self-knowledge", "label-free", "introspection", "self-consistency"),
    protocol=Protocol(
        model="Llama-3.1-8B",
        lr=5e-7,
        tasks=16,
        max_tokens=1024,
        max_turns=1,
        source="knowledge-verse-ai/KnowRL README (batches, samples); lr, lengths: wantbook-book/SeRL, its parent",
    ),
    home=Home(
        "mix:sums,rules",
        dials={"sums.level": 1, "rules.level": 5, "rules.domain": "lamps"},
        iterations=12,
        tasks=64,
        model="podium/tiny2",
    ),
    presets={
        "paper": {"trained": "votes", "alike": 0.7, "shots": 8, "tokens": 1024, "mini_batches": 8},
        "votes": {"trained": "votes"},
    },
)
def knowrl(
    trained: str = "tasks",
    n: int = 4,
    k: int = 8,
    reward: str = "agreement",
    threshold: float = 0.875,
    alike: float = 0.9,
    shots: int = 4,
    trials: int = 4,
    tokens: int = 8,
    replies: tuple[str, str] = ("yes", "no"),
    kl: float = 0.001,
    clip: float = 0.2,
    mini_batches: int = 4,
    seeds: SeedTasks = SeedTasks(),
) -> Method:
    """With example tasks in the prompt, the policy writes tasks x for a wanted label d (feasible, infeasible, in turn).
    Asked k times, afresh and without d, whether it can do x, it votes v_1 … v_k:
    a(x) = (1/k) Σ [v_j = d],    c(x) = max(n_F, n_I) / k.
    The reward of a written task is a(x) (or c(x)), A = (r − mean) / (std + 1e-6) over the tasks of the batch, unbiased,
    with PPO's clip and k3 to the reference. Tasks of c ≥ `threshold` whose majority is d become examples.

    `knowrl@votes`: the votes are trained instead, r_j = [v_j = the majority], by REINFORCE++ (KL in the token rewards,
    returns standardised over the tokens of the batch). The authors' code is not public: their README and the code it
    derives from suggest this form, so `knowrl@paper` has it. Unanimous votes then all get 1 and are still pushed up;
    k = 1 rewards every vote. Their parent also skips tasks whose mean vote reward lies outside [0.2, 0.8], which with
    two labels would skip all of high consensus: left out. A tie counts as feasible; a vote that cannot be read agrees
    with no label. Trivial tasks earn full reward: watch `self.distinct` and `self.feasible`.

    Nothing is learnt from the tasks of the world: each is tried `trials` times and asked about k times, to compare what
    the policy claims with what it can do (`self.auc`, `self.f1`).

    Args:
        trained: What is trained: the `tasks` that were written, or the `votes` on them.
        n: Tasks written for each task of the batch.
        k: Votes on each.
        reward: Of a written task: `agreement` with its label, or `consensus`.
        threshold: Consensus from which a task becomes an example.
        alike: ROUGE-L above which a task is no new one and is dropped.
        shots: Examples in the prompt.
        trials: Trials of each task of the world; 0: none, and no comparison with what the policy can do.
        tokens: Token limit of a vote.
        replies: The words for "feasible" and "infeasible" with which the last line of a vote begins.
        kl: Coefficient of the KL penalty to the reference; 0 loads no reference model.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch; the authors' batches of 128 votes are 8 steps of 16.
        seeds: The first examples of both labels.
    """
    strategy = Introspect(n=n, k=k, trained=trained, shots=shots, trials=trials, alike=alike).replace(
        tokens=tokens, replies=replies
    )
    method = Method(
        rollout=strategy,
        reward=(SelfAgreement(of=reward),),
        advantage=Normalize(key=()),
        objective=(PolicyGradient(clip=clip_for(mini_batches, clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        memories=(seeds.replace(threshold=threshold, alike=alike),),
        metric=(SelfKnowledge(measured=trials > 0),),
    )
    if trained == "tasks":
        return anchored(method, KL("k3", coefficient=kl))
    rewards = (SelfAgreement(of="vote"), TokenReward(beta=kl))
    voting = method.with_(reward=rewards, advantage=Returns(), shape=(Whiten(),))
    return voting if kl == 0 else voting | Role("ref")
