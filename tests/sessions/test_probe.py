"""What each part of a method does: with it and without it."""

from __future__ import annotations

import datetime
import os

import pytest
import torch

from podium import methods, worlds
from podium.analysis.probe import added_parts, parent, relative_distance, replacements
from podium.core.memory import Memory
from podium.core.part import Part
from podium.method import Method, Phases
from podium.methods.catalogue import RECIPES
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, Entropy, PolicyGradient
from podium.parts.shape import Whiten
from podium.sessions.probe import PRESET, probe
from podium.strategies import Sample
from podium.training.preflight import columns_of
from tools.checks.probes import excused, names, small_probes, small_run

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


@pytest.mark.parametrize(("slug", "world"), [("advevo-marl", "vault"), ("mars", "vault"), ("causalrm", "countdown")])
def test_every_part_can_be_replaced_in_the_world_of_the_method(slug: str, world: str) -> None:
    found = list(replacements(methods.get(slug), columns_of(worlds.get(world))))
    assert found
    assert [row.part for row in found if row.method is None] == []


@pytest.mark.parametrize("slug", list(RECIPES))
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


def test_the_parent_is_the_method_that_is_extended() -> None:
    """HGPO changes GiGPO's step-level advantages."""
    method, plain = methods.hgpo(), methods.gigpo()
    extended = parent(method, RECIPES["hgpo"].extends)
    assert extended.advantage == plain.advantage
    assert extended.updates == plain.updates.replace(mini_batches=method.updates.mini_batches)
    assert extended.rollout == Sample(n=method.rollout.n)  # type: ignore[union-attr]


@pytest.mark.parametrize("slug", RECIPES)
def test_what_a_recipe_extends_is_in_the_catalogue(slug: str) -> None:
    assert RECIPES[slug].extends in RECIPES


def test_a_setting_that_asks_for_a_lost_column_falls_back_to_its_default() -> None:
    """ArCHer's critic cannot be left out; without revisited states it no longer looks for them."""
    found = {r.part: r for r in replacements(methods.archer(), (*WORLD, "turn.reward"))}
    plain = found["rollout.SampleAndRevisit"]
    assert plain.by == "Sample(n=4); TurnCriticLoss adapted"
    assert plain.method is not None
    before, after = (method.objective[1] for method in (methods.archer(), plain.method))
    assert after == before.replace(revisited=False)


def test_a_memory_that_schedules_follow_is_replaced_by_one_that_observes_nothing() -> None:
    found = {r.part: r for r in replacements(methods.dcpo_distribution(), WORLD)}
    blank = found["memories.EntropySetpoint"]
    assert blank.by == "one that observes nothing"
    assert blank.method is not None
    (memory,) = blank.method.memories
    state = memory.observe(memory.initial(), PLAIN)  # type: ignore[arg-type]
    assert state == {"entropy": 0.0}
    assert memory.scalars(state) == {"setpoint.gap": 0.2, "setpoint.temperature": 1.2}


def test_values_that_nobody_learns_any_more_are_not_read() -> None:
    """Without the running normalisation safe-control's critic has no target: what reads its values goes, too."""
    found = {r.part: r.method for r in replacements(methods.safe_control(), WORLD)}
    plain = found["reward.RunningNormalize"]
    assert plain is not None
    assert plain.annotate == ()
    assert [term.trains for term in plain.objective] == ["policy"] * len(plain.objective)


def test_a_critic_without_its_loss_stays_as_it_is() -> None:
    found = {r.part: r.method for r in replacements(methods.ppo(), WORLD)}
    untrained = found["objective.ValueLoss"]
    assert untrained is not None
    assert untrained.objective[-1].coefficient == 0.0


def test_equal_names_are_numbered() -> None:
    terms = (PolicyGradient("none"), PolicyGradient("none", coefficient=0.5), Entropy())
    found = {r.part: r.method for r in replacements(PLAIN.with_(objective=terms), WORLD)}
    assert list(found) == ["objective.PolicyGradient", "objective.PolicyGradient 2", "objective.Entropy"]
    assert found["objective.PolicyGradient 2"] == PLAIN.with_(objective=(terms[0], terms[2]))


def test_the_distance_counts_from_where_the_runs_part() -> None:
    """The second phase alone has the entropy bonus: a share of its own update, however long the first one was."""
    settings = {"world": "sums", "level": 2, "tasks": 2, "iterations": 2}
    late = Phases(PLAIN.until(1), PLAIN.with_(objective=(PolicyGradient(), Entropy(coefficient=1.0))))
    (row,) = probe(late, only=("1.objective.Entropy",), **settings)
    assert row.iterations == 2
    assert row.distance is not None
    assert row.distance > 0.1


def test_what_does_nothing_is_found() -> None:
    """A single update has a ratio of 1, so there is nothing to clip; an entropy bonus moves the weights."""
    method = PLAIN.with_(objective=(PolicyGradient(clip=Clip(0.2, 0.2)), Entropy(coefficient=0.1)))
    rows = {r.part: r for r in probe(method, whole=True, world="sums", level=2, tasks=2, iterations=2)}
    assert rows["objective.PolicyGradient"].distance == 0
    assert not rows["objective.PolicyGradient"].acts
    assert rows["objective.Entropy"].acts
    assert rows["objective.Entropy"].iterations == 1  # as soon as the two are apart
    assert rows["objective.Entropy"].acted == (2, 2)


def test_of_a_preset_only_its_own_parts_are_left_out() -> None:
    """gspo@token has another ratio; cispo@trl one update a batch."""
    assert added_parts(methods.get("gspo@token"), methods.get("gspo")) == {"objective.PolicyGradient"}
    assert added_parts(methods.get("cispo@trl"), methods.get("cispo")) == {"updates.Updates"}
    assert added_parts(methods.get("gspo"), methods.get("gspo")) == set()
    assert excused("grpo@trl", "objective.PolicyGradient")
    assert not excused("gspo@verl", "objective.PolicyGradient")


def test_presets_of_another_model_or_of_the_default_are_not_probed() -> None:
    probed = set(names(presets=True))
    assert {"grpo@trl", "gspo@token", "opsd@ema"} < probed
    assert not {"grpo@paper", "mc-grpo@7b", "drpo@7b", "gigpo@release"} & probed


def test_a_preset_is_compared_with_its_method() -> None:
    """Another learning rate alone is no difference of parts, and none between a method and itself."""
    small = {"world": "sums", "level": 2, "tasks": 2, "iterations": 1}
    (row,) = probe("mc-grpo@std", only=(PRESET,), **small)
    assert (row.by, row.acts) == ("mc-grpo", True)
    (row,) = probe("mc-grpo@7b", only=(PRESET,), **small)
    assert not row.acts


def probed() -> list[str]:
    """A tenth of the methods, another one every day; with PROBED=all, or a number from 0 to 9, all of them or that."""
    share, slugs = os.environ.get("PROBED", ""), sorted(names())
    number = int(share) if share.isdigit() else datetime.date.today().timetuple().tm_yday % 10
    return slugs if share == "all" else slugs[number::10]


@pytest.mark.parametrize("slug", probed())
def test_each_part_of_a_method_changes_what_it_learns(slug: str) -> None:
    """Those that an iteration of four tasks a phase clearly shows; `tools.checks.probes` takes the whole home."""
    wanted = small_probes(slug)
    if not wanted:
        pytest.skip("no part of it shows in so small a run, or none was measured: see checks/probes.json")
    rows = probe(slug, only=wanted, **small_run(slug))
    assert sorted(row.part for row in rows if row.distance is not None and row.acts) == sorted(wanted)


def test_neutral_forms_are_neutral_themselves() -> None:
    """Whatever is put in a part's place would not be replaced again."""
    for slug in RECIPES:
        for leaf in methods.get(slug).leaves():
            items: list[Part | Memory] = list(leaf.parts())
            for part in items:
                neutral = part.neutral if isinstance(part, Part) else None
                assert neutral is None or neutral.neutral in (None, neutral), part
