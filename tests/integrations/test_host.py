"""Which methods another trainer can hold, and why not: the list agrees with what was found by trying."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import podium
from podium import PodiumError, methods
from podium.core.updates import Updates
from podium.integrations.host import IN_TRL, Guest, HostTrainer, refusals
from podium.methods.catalogue import RECIPES

TRIED = json.loads(Path(podium.__file__).with_name("hosts.json").read_text("utf-8"))
TRL = HostTrainer("TRL", {*IN_TRL, "rollout.answer", "rollout.reference_answer", "rollout.reward.right"})
TURNS = HostTrainer("TRL", TRL.columns, turns=True)


def test_what_was_tried_is_what_is_refused() -> None:
    for name in sorted(RECIPES):
        reasons = refusals(methods.get(name), TURNS)
        tried = TRIED[name]["trl"]
        if reasons:
            assert tried == " ".join(reasons), f"{name}: run python -m tools.checks.hosts trl again"
        else:  # episodes of one world were tried, which lack what the method's own worlds write
            assert tried.startswith("runs") or "column 'turn." in tried or "reference_answer" in tried, (
                f"{name}: {tried}"
            )


def test_at_least_fifty_methods_run_in_trl() -> None:
    assert sum(entry["trl"].startswith("runs") for entry in TRIED.values()) >= 50


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ppo", "It trains critic beside the policy"),
        ("cure", "several phases"),
        ("xrpo", "Its rollouts come from Rounds"),
        ("ttrl", "drawn with trained"),
        ("lp-reg", "not Signal"),
        ("scalerl", "NotMastered chooses tasks"),
    ],
)
def test_a_refusal_names_its_reason(name: str, reason: str) -> None:
    with pytest.raises(PodiumError, match=reason):
        Guest(methods.get(name), TURNS, iterations=4, max_tokens=16)


def test_a_column_that_nobody_gives_is_named_with_its_reader() -> None:
    bare = HostTrainer("TRL", {"rollout.reward", "token.id"})
    (reason, *_) = refusals(methods.get("dapo"), bare)
    assert "reads rollout." in reason
    assert refusals(methods.get("grpo"), bare) == []
    assert refusals(methods.get("grpo").with_(updates=Updates(epochs=2)), bare) == []
