"""Protocols: how the warm-up of a published run becomes that of another, and what `@paper` takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podium.core.errors import PodiumError
from podium.core.facts import RunFacts
from podium.core.schedule import Linear
from podium.memories import PassRates
from podium.method import Home, Method, Phases, Protocol
from podium.methods.catalogue import CATALOGUE, get, home_of, recipe
from podium.parts.objective import Entropy
from podium.strategies import Sample


def test_a_warm_up_keeps_its_share_of_the_run() -> None:
    assert Protocol().warmup_updates(60, 4) is None
    assert Protocol(warmup=0.1).warmup_updates(60, 4) == 24
    assert Protocol(warmup=20, iterations=100).warmup_updates(60, 4) == 12  # 20 of 400 updates, so 12 of 240
    assert Protocol(warmup=50).warmup_updates(60, 4) == 24  # at most a tenth, where their run's length is not known
    assert Protocol(warmup=10).warmup_updates(60, 4) == 10
    assert Protocol(warmup=50, exact=True).warmup_updates(2, 1) == 50


def test_impossible_protocols_are_refused() -> None:
    for wrong in ({"lr": 0}, {"warmup": -1}, {"tasks": 0}, {"schedule": "square"}, {"final": 2}):
        with pytest.raises(PodiumError):
            Protocol(**wrong)


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CATALOGUE, "_entries", dict(CATALOGUE._entries))

    @recipe(
        summary="A summary.",
        citation="Nobody 2026",
        protocol=Protocol(lr=1e-6, tasks=128, source="a script"),
        home=Home("keydoor", level=1),
        presets={"paper": {"n": 16}, "other": {"n": 2, "protocol": Protocol(lr=2e-6), "home": Home("echo")}},
    )
    def a_test(n: int = 8) -> Method:
        return Phases(Method(name="first", rollout=Sample(n=n)).until(3), Method(name="second", rollout=Sample(n=n)))


@pytest.mark.usefixtures("entered")
def test_every_phase_has_the_protocol_and_the_paper_is_exact() -> None:
    plain, paper, other = get("a-test"), get("a-test@paper"), get("a-test@other")
    assert [leaf.protocol.exact for leaf in plain.leaves()] == [False, False]
    assert plain.protocol.lr == 1e-6
    assert [(leaf.protocol.exact, leaf.rollout.n) for leaf in paper.leaves()] == [(True, 16), (True, 16)]
    assert (other.protocol.lr, other.protocol.exact) == (2e-6, False)
    assert Method.from_yaml(paper.to_yaml()) == paper


@pytest.mark.usefixtures("entered")
def test_a_home_belongs_to_the_recipe_or_to_its_preset() -> None:
    assert home_of("a-test").world == home_of("a-test@paper").world == home_of("a-test+grpo").world == "keydoor"
    assert home_of("a-test@other").world == "echo"
    assert home_of("a-test").run_settings == {
        "world": "keydoor",
        "world_settings": {"level": 1},
        "iterations": 12,
        "tasks": 16,
    }


def test_a_home_can_name_its_model() -> None:
    assert Home("sums", model="podium/tiny2").run_settings["model"] == "podium/tiny2"
    assert "model" not in Home("sums").run_settings


def test_what_cannot_act_in_a_run_is_warned_of() -> None:
    facts = RunFacts(iterations=10, tasks=4, max_tokens=48, max_turns=1)
    method = get("grpo", kl=0.0).set("updates.mini_batches", 8) | PassRates()
    decaying = method | Entropy(coefficient=Linear(0.1, 0.0, over=200))

    def warnings(changed: Method, **known: int) -> list[str]:
        findings = changed.check(("rollout.correct",), facts=replace(facts, **known))
        return [finding.message for finding in findings if finding.kind == "warning"]

    assert any("8 mini-batches of whole groups, and an iteration has 4 tasks" in w for w in warnings(method))
    assert not any("mini-batches" in w for w in warnings(method, tasks=8))
    assert any("PassRates" in w and "no task comes back" in w for w in warnings(method))
    assert not any("comes back" in w for w in warnings(method, pool=8))
    assert any("changes until iteration 200, and the run has 10" in w for w in warnings(decaying))
    assert not any("until iteration" in w for w in warnings(decaying, iterations=200))
    single = method.set("updates.mini_batches", 1)
    assert any("nothing to clip" in w for w in warnings(single))
    assert not any("nothing to clip" in w for w in warnings(method, tasks=8))
