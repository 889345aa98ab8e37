"""What each part of a method does: with it and without it."""

from __future__ import annotations

import os

import pytest
import torch

from podium import methods
from podium.analysis.probe import parent, relative_distance, replacements
from podium.core.memory import Memory
from podium.core.part import Part
from podium.method import Method, Phases
from podium.methods.catalogue import RECIPES
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, Entropy, PolicyGradient
from podium.parts.shape import Whiten
from podium.sessions.probe import probe
from podium.strategies import Sample
from tools.checks.probes import excused

PLAIN = Method("plain", rollout=Sample(n=4), advantage=Normalize(), objective=(PolicyGradient(),))
WORLD = ("rollout.correct", "rollout.answer", "task.solution", "task.criteria", "task.steps")


def refusals(method: Method) -> list[str]:
    return [finding.message for finding in method.check(WORLD) if finding.kind == "error"]


def test_the_distance_is_a_share_of_the_update() -> None:
    """(3, 4) and (3, 1) from (0, 0): 3 apart, and the first has moved by 5."""
    one, other, start = torch.tensor([3.0, 4.0]), torch.tensor([3.0, 1.0]), torch.zeros(2)
    assert relative_distance(one, other, start) == pytest.approx(3 / 5)
    assert relative_distance(one, one, start) == 0
    assert relative_distance(start, one, start) == float("inf")


def test_plain_grpo_has_nothing_to_replace() -> None:
    assert list(replacements(PLAIN, WORLD)) == []


def test_a_part_is_replaced_by_its_neutral_form_or_left_out() -> None:
    clipped = PLAIN.with_(
        advantage=Normalize(scale="none"),
        shape=Whiten(),
        objective=(PolicyGradient(clip=Clip(0.2, 0.2)), Entropy(coefficient=0.01)),
    )
    found = {r.part: r.method for r in replacements(clipped, WORLD)}
    assert found["advantage.Normalize"] == clipped.with_(advantage=Normalize())
    assert found["shape.Whiten"] == clipped.with_(shape=())
    assert found["objective.PolicyGradient"] == clipped.with_(objective=(PolicyGradient(), clipped.objective[1]))
    assert found["objective.Entropy"] == clipped.with_(objective=clipped.objective[:1])


@pytest.mark.parametrize("slug", [slug for slug in RECIPES if slug != "think-rm"])
def test_without_a_part_no_other_reads_what_it_wrote(slug: str) -> None:
    method = methods.get(slug)
    known = set(refusals(method))
    for replacement in replacements(method, WORLD):
        assert replacement.method is not None or replacement.reason
        if replacement.method is not None:
            assert set(refusals(replacement.method)) <= known, replacement.part


def test_what_every_world_writes_is_never_lost() -> None:
    """A bonus rewrites the reward; without it the reward is that of the world."""
    found = {r.part: r for r in replacements(methods.r3(), WORLD)}
    assert found["reward.BrevityBonus"].by == "nothing"


def test_terms_on_marked_rollouts_are_on_all_where_nobody_marks_them() -> None:
    found = {r.part: r.method for r in replacements(methods.r3(kl=0.0), WORLD)}
    plain = found["rollout.ReplayAndReflect"]
    assert plain is not None
    assert [term.where for term in plain.objective] == [None]


def test_a_memory_goes_with_the_part_that_reads_it() -> None:
    found = {r.part: r for r in replacements(methods.vade(), WORLD)}
    assert found["memories.BetaBeliefs"].by == "nothing; Thompson with it"
    assert found["memories.BetaBeliefs"].method.select is None  # type: ignore[union-attr]


def test_a_tree_goes_with_what_reads_its_nodes() -> None:
    found = {r.part: r.method for r in replacements(methods.spo(branches=(2, 2), n=2), WORLD)}
    plain = found["rollout.Tree"]
    assert plain is not None
    assert isinstance(plain.rollout, Sample)
    assert plain.rollout.n == 8  # as many as the tree has leaves
    assert isinstance(plain.advantage, Normalize)


def test_phases_are_probed_one_by_one() -> None:
    method = Phases(PLAIN.with_(shape=Whiten()).until(1), PLAIN)
    (found,) = replacements(method, WORLD)
    assert found.part == "0.shape.Whiten"
    assert found.method == Phases(PLAIN.until(1), PLAIN)


def test_the_parent_is_grpo_of_the_same_size() -> None:
    method = methods.dars()
    assert parent(method).rollout == Sample(n=8)
    assert parent(method).updates == method.updates


def test_what_does_nothing_is_found() -> None:
    """A single update has a ratio of 1, so there is nothing to clip; an entropy bonus moves the weights."""
    method = PLAIN.with_(objective=(PolicyGradient(clip=Clip(0.2, 0.2)), Entropy(coefficient=0.1)))
    rows = {r.part: r for r in probe(method, whole=True, world="sums", level=2, tasks=2, iterations=2)}
    assert rows["objective.PolicyGradient"].distance == 0
    assert not rows["objective.PolicyGradient"].acts
    assert rows["objective.Entropy"].acts
    assert rows["objective.Entropy"].iterations == 1  # as soon as the two are apart
    assert rows["objective.Entropy"].acted == (2, 2)


def probed() -> list[str]:
    """Two methods that are quick to probe; with PROBED=all, or a number from 0 to 9, all of them or a tenth."""
    share, slugs = os.environ.get("PROBED", ""), sorted(RECIPES)
    if not share:
        return ["insight", "v0"]
    return slugs if share == "all" else slugs[int(share) :: 10]


@pytest.mark.parametrize("slug", probed())
def test_each_part_of_a_method_changes_what_it_learns_at_its_home(slug: str) -> None:
    if excused(slug, "everything"):
        pytest.skip(excused(slug, "everything"))
    rows = probe(slug)
    assert [row.part for row in rows if not row.acts and not excused(slug, row.part)] == []


def test_neutral_forms_are_neutral_themselves() -> None:
    """Whatever is put in a part's place would not be replaced again."""
    for slug in RECIPES:
        for leaf in methods.get(slug).leaves():
            items: list[Part | Memory] = list(leaf.parts())
            for part in items:
                neutral = part.neutral if isinstance(part, Part) else None
                assert neutral is None or neutral.neutral in (None, neutral), part
