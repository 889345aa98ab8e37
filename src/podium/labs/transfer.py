"""Transfer between domains: what training on each of them, and on their mix, gives the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from functools import cache, partial

import numpy as np
from numpy.typing import ArrayLike

from podium import policy as policies
from podium import worlds
from podium.core.errors import PodiumError, nearest
from podium.evaluation.measure import held_out
from podium.evaluation.resample import Array
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial, TrialFindings
from podium.methods import get
from podium.policy import Policy
from podium.sessions.evaluate import driver_for
from podium.sessions.train import configure
from podium.training.build import build_run
from podium.training.loop import iterate

__all__ = ["MIX", "QUICK_TRANSFER", "TransferSize", "transfer"]

MIX = "mix"  # the arm that is trained on all domains together


class TransferSize(StudySize):
    """How large the experiment is. Every arm trains on as many tasks as the others."""

    seeds: int = 3
    iterations: int = 30
    tasks: int = 16  # an iteration
    n: int = 8  # rollouts a task
    level: int = 1  # of every domain
    eval_tasks: int = 48  # held out, of each domain
    samples: int = 8  # answers to each


QUICK_TRANSFER = TransferSize(seeds=2, iterations=4, tasks=8, eval_tasks=12, samples=4)


def transfer(
    domains: Sequence[str], least_known: str = "", *, model: str = "podium/tiny", lr: float = 2e-4, slug: str = ""
) -> Trial:
    """A trial that trains on each domain and on the mix of all, with plain GRPO, and reads what each gives the others.

    gain(d → e) is the success rate on held-out tasks of e after training on d, less that of the model before. The
    domain that the model knows least is claimed to gain more from its own training than from any other domain's. The
    slug names the results; empty: after domains and model.
    """
    if len(domains) < 2 or len(set(domains)) < len(domains):
        listed = ",".join(domains)
        raise PodiumError(f"Transfer needs two domains or more, each once, such as sums,rules: not {listed!r}.")
    if least_known and least_known not in domains:
        raise PodiumError(f"{least_known!r} is not one of the domains. {nearest(least_known, domains)}")
    gains = {domain: Quantity(f"gain.{domain}", f"on {domain}", (-1.0, 1.0)) for domain in domains}
    own = gains.get(least_known)
    return Trial(
        slug or re.sub(r"\W+", "-", "-".join(("transfer", *domains, model))),
        "What does training on one domain give the others, and which of them need their own?",
        arms={
            **{domain: partial(_gains, domain, tuple(domains), model, lr) for domain in domains},
            MIX: partial(_gains, f"mix:{','.join(domains)}", tuple(domains), model, lr),
        },
        claims=()
        if own is None
        else tuple(
            Claim(f"{least_known} gains more from its own training than from {other}'s", own, least_known, other)
            for other in domains
            if other != least_known
        ),
        readings=tuple(gains.values()),
        notes=(partial(_needs, tuple(domains)),),
        size=TransferSize(),
        quick=QUICK_TRANSFER,
    )


def _gains(
    world: str, domains: tuple[str, ...], model: str, lr: float, seed: int, size: TransferSize
) -> dict[str, ArrayLike]:
    """Trains on a world, and compares the policy with the model before, task by task."""
    # The filter is left open, so that all arms train on equally many tasks.
    method = get("guru", n=size.n, high=2.0, low=-1.0, measure=0)
    config = configure(
        method,
        model=model,
        world=world,
        world_settings={"level": size.level},
        iterations=size.iterations,
        tasks=size.tasks,
        lr=lr,
        seed=seed,
        eval_every=0,
        eval_tasks=1,
    )
    with closing(build_run(config)) as run:
        for _ in range(size.iterations):
            iterate(run)
        after = {domain: _rates(run.policy, domain, seed, size) for domain in domains}
    before = _base_rates(domains, model, seed, size)
    return {f"gain.{domain}": after[domain] - before[domain] for domain in domains}


@cache
def _base_rates(domains: tuple[str, ...], model: str, seed: int, size: TransferSize) -> dict[str, Array]:
    """The success rates of the model before training."""
    policy = policies.load(model)
    return {domain: _rates(policy, domain, seed, size) for domain in domains}


def _rates(policy: Policy, domain: str, seed: int, size: TransferSize) -> Array:
    """[task] the share of right answers to each held-out task of a domain."""
    with closing(worlds.get(domain, level=size.level)) as world:
        groups = held_out(driver_for(policy, world), tasks=size.eval_tasks, samples=size.samples, seed=seed)
    return np.array([np.mean([bool(r.columns["correct"]) for r in group]) for group in groups])


def _needs(domains: tuple[str, ...], findings: TrialFindings) -> str:
    """need(e) = gain(e → e) − the largest gain(d → e) of the other domains, in words."""
    parts = []
    for domain in domains:
        reading = next(r for r in findings.study.readings if r.name == f"gain.{domain}")
        gain = {d: findings.columns(reading, d)[..., 0].mean() for d in domains}
        best = max((other for other in domains if other != domain), key=lambda other: gain[other])
        parts.append(f"{domain} {gain[domain] - gain[best]:+.3f} (next best {best})")
    return f"in-domain need: {', '.join(parts)}"
