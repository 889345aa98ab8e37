"""Entropy, process and study methods as their authors train them: what makes each of them more than its parent."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from podium import methods
from podium.core.facts import RunFacts
from podium.core.value import Clock
from podium.method import Method, Phases, Plateau
from podium.methods.catalogue import RECIPES
from podium.parts.objective import KL
from podium.parts.shape import RankBonus
from podium.training.build import build_run
from podium.training.loop import iterate
from tests.sessions.test_train import small

FAMILIES = ("entropy", "process", "study")
OTHERS = {"earl-rtl", "pear", "spae"}
SLUGS = [slug for slug in RECIPES if RECIPES[slug].family in FAMILIES and slug not in OTHERS]


def trained(method: Method, iterations: int = 1, **settings: Any) -> torch.Tensor:
    """The weights after a short run."""
    run = build_run(small(method, world="sums", level=1, iterations=iterations, **settings))
    for _ in range(iterations):
        iterate(run)
    return torch.cat([p.detach().reshape(-1) for p in run.policy.parameters()])


@pytest.mark.parametrize("slug", SLUGS)
def test_it_says_how_its_authors_train_it(slug: str) -> None:
    entry = RECIPES[slug]
    assert entry.protocol is not None
    assert entry.protocol.source
    for preset in ("", *entry.presets):
        method = methods.get(f"{slug}@{preset}" if preset else slug)
        assert type(method).from_yaml(method.to_yaml()) == method
        assert method.protocol is not None
        assert method.protocol.exact == (preset == "paper")


@pytest.mark.parametrize(
    ("slug", "updates"),
    [
        ("ares-aepo", 4),
        ("clip-cov-kl-cov", 8),
        ("dcpo-distribution", 4),
        ("entropy-discriminator-clip", 1),
        ("entropy-exchange-shaping", 16),
        ("hapo-heterogeneous", 16),
        ("high-entropy-tokens", 16),
        ("implicit-prm", 4),
        ("light-if", 4),
        ("likelihood-reward", 1),
        ("lp-reg", 1),
        ("lp-reg@off-policy", 8),
        ("prl", 1),
        ("qwenlong-aepo", 1),
        ("refine", 4),
        ("rlfr", 8),
        ("safe-control", 2),
        ("siren", 16),
        ("steer", 16),
        ("ucas", 8),
        ("verl-effective-rank", 2),
    ],
)
def test_it_takes_as_many_steps_per_batch_as_published(slug: str, updates: int) -> None:
    plan = methods.get(slug).main().updates
    assert plan.passes * plan.mini_batches == updates


def test_kl_cov_holds_tokens_once_a_batch_has_several_updates() -> None:
    held, free = (methods.clip_cov_kl_cov(n=4, kl=kl, mini_batches=4, max_rounds=1) for kl in (50.0, 0.0))
    a, b = (trained(method, tasks=4, lr=1e-3) for method in (held, free))
    assert float((a - b).norm()) > 1e-4


def test_a_distance_to_the_old_policy_warns_of_a_single_update() -> None:
    term, facts = KL("abs", anchor="old"), RunFacts(iterations=5, tasks=4, max_tokens=10, max_turns=1)
    assert "one optimiser step" in next(iter(term.inert(facts)))
    assert not list(term.inert(RunFacts(5, 4, 10, 1, updates=8)))
    assert not list(KL("k3").inert(facts))
    assert not list(KL("k3", anchor="old", min_p=0.02).inert(facts))


def test_a_stride_longer_than_an_answer_is_warned_of() -> None:
    facts = RunFacts(iterations=5, tasks=4, max_tokens=30, max_turns=1)
    assert "at most 30" in next(iter(RankBonus(stride=40).inert(facts)))
    assert not list(RankBonus(stride=2).inert(facts))


def test_light_if_and_refine_and_rlfr_and_qwenlong_have_all_their_stages() -> None:
    stages = {slug: [m.name for m in methods.get(slug).children()] for slug in ("light-if", "refine", "rlfr")}
    assert stages["light-if"] == ["cold start", "first stage", "second stage"]
    assert stages["refine"] == ["mid-training", "post-training"]
    assert stages["rlfr"][0] == "fit"
    assert len(methods.get("qwenlong-aepo").children()) == 5


def test_the_flow_learns_a_hundred_times_faster_than_the_policy() -> None:
    (flow,) = methods.rlfr().main().roles
    assert flow.lr_ratio == 100


def test_the_plateau_of_a_falling_entropy_is_where_it_stops_falling() -> None:
    method = Phases(methods.dapo().until(Plateau("entropy", falling=True)), methods.entropy_exchange_shaping(start=0))
    series = [1 - 0.02 * i for i in range(30)] + [0.4] * 10
    state, turns = method.start(), []
    for iteration, entropy in enumerate(series):
        turns.append(state["phase"])
        state = method.advance(Clock(iteration + 1, {}, state), {"entropy": entropy})
    assert turns.index(1) == 36  # after five measurements since the last fall, in iteration 30
    assert 'Plateau("entropy", falling=True)' in RECIPES["entropy-exchange-shaping"].notes


def test_a_study_trains_as_grpo_does() -> None:
    study, grpo = methods.invisible_leash(n=4), methods.grpo(n=4, kl=0.0)
    assert (study.objective, study.advantage, study.rollout) == (grpo.objective, grpo.advantage, grpo.rollout)
