"""The batches of the battery are as varied as it says, and its instruments measure what they say."""

from __future__ import annotations

import pytest
import torch

from podium import shape
from podium.core import Batch, Origin, Purpose, stop_gradient
from podium.core.part import constants
from podium.core.signal import Signal
from podium.testing.finite import DEGENERATE
from podium.testing.padding import with_padding
from podium.testing.recorder import recording
from podium.testing.subject import difference, with_row_numbers
from podium.testing.synthetic import ORDINARY, Scene, synthetic

WANTED = ("rollout.reward", "step.state", "token.old.logp", "pair.difference", "segment.score", "rollout.length")


def test_an_ordinary_batch_is_ragged_and_interleaved() -> None:
    batch = synthetic(ORDINARY[0], WANTED)
    assert batch.partition("rollout", "group").lengths().tolist() == [4, 3, 5]
    assert (batch.link("rollout", "group").diff() < 0).any()
    assert len(set(batch.partition("turn", "rollout").lengths().tolist())) > 1
    assert len(set(batch.length().tolist())) > 2
    assert batch["token.old.logp"].dtype == torch.float64
    assert not torch.equal(batch["rollout.index"], Batch(batch._links)["rollout.index"])


def test_tokens_of_the_world_stand_between_those_of_the_policy() -> None:
    batch = synthetic(ORDINARY[0])
    given = batch["token.origin"] == Origin.given
    before, after = (batch.shift(batch.action.long(), "token", by=by) == 1 for by in (1, -1))
    assert (given & before).any()
    assert (given & after).any()


def test_every_group_has_someone_to_train_and_a_baseline() -> None:
    batch = synthetic(ORDINARY[2])
    groups = batch.partition("rollout", "group").agg
    assert groups.any(batch.trained("rollout") | (batch["rollout.purpose"] == Purpose.train)).all()
    assert groups.any(batch["rollout.purpose"] == Purpose.baseline).all()
    assert not batch.trained("token").all()


def test_a_column_does_not_depend_on_which_others_are_wanted() -> None:
    few, many = (synthetic(ORDINARY[0], wanted) for wanted in (WANTED[:1], WANTED))
    assert torch.equal(few["rollout.reward"], many["rollout.reward"])
    assert not torch.equal(few["rollout.reward"], synthetic(ORDINARY[0], WANTED, seed=1)["rollout.reward"])


def test_columns_of_unknown_levels_get_a_segmentation() -> None:
    batch = synthetic(ORDINARY[0], WANTED)
    assert batch.size("turn") < batch.size("segment") < batch.size("token")
    assert len(batch["segment.score"]) == batch.size("segment")


def _sizes(batch: Batch) -> list[int]:
    return batch.partition("rollout", "group").lengths().tolist()


def _gap(batch: Batch) -> float:
    return float((batch["token.now.logp"] - batch["token.old.logp"]).abs().max())


def _rewards(batch: Batch) -> set[float]:
    return set(batch["rollout.reward"].tolist())


SIGNS = {
    "one rollout in each group": lambda b: _sizes(b) == [1, 1, 1],
    "a single rollout": lambda b: _sizes(b) == [1],
    "a single group": lambda b: len(_sizes(b)) == 1,
    "equal rewards": lambda b: len(_rewards(b)) == 1,
    "rewards of zero": lambda b: _rewards(b) == {0.0},
    "binary rewards in pairs": lambda b: set(_sizes(b)) == {2} and _rewards(b) == {0.0, 1.0},
    "rewards around 1e6": lambda b: max(map(abs, _rewards(b))) > 1e6,
    "equal rewards around 1e6": lambda b: len(_rewards(b)) == 1 and min(_rewards(b)) > 1e5,
    "rewards around 1e-8": lambda b: max(map(abs, _rewards(b))) < 1e-7,
    "an empty answer": lambda b: (b.length() == 0).sum() == 2,
    "an empty answer among binary rewards": lambda b: (b.length() == 0).sum() == 2 and _rewards(b) == {0.0, 1.0},
    "nothing but empty answers": lambda b: b.size("token") == 0,
    "tokens of the world only": lambda b: b.size("token") > 0 and not b.action.any(),
    "everything masked": lambda b: b.action.any() and not b.trained("token").any(),
    "everything masked, binary rewards": lambda b: not b.trained("token").any() and _rewards(b) == {0.0, 1.0},
    "policies far apart": lambda b: _gap(b) > 300,
    "policies far apart, binary rewards": lambda b: _gap(b) > 300 and _rewards(b) == {0.0, 1.0},
    "one rollout in each group, not all trained": lambda b: min(_sizes(b)) == 1 and not b.trained("rollout").all(),
    "nobody counts": lambda b: not b.counted("rollout").any(),
    "nobody counts, binary rewards": lambda b: not b.counted("rollout").any() and _rewards(b) == {0.0, 1.0},
}


@pytest.mark.parametrize("scene", DEGENERATE, ids=lambda scene: scene.name)
def test_a_degenerate_scene_is_what_its_name_says(scene: Scene) -> None:
    assert SIGNS[scene.name](synthetic(scene, ("rollout.reward", "token.now.logp", "token.old.logp")))


def test_padding_adds_tokens_of_the_world_and_nothing_else() -> None:
    batch = with_row_numbers(synthetic(ORDINARY[2], WANTED))
    wide = with_padding(batch, 3)
    longest = int(batch.partition("token", "rollout").lengths().max())
    assert wide.size("token") == len(batch) * (longest + 3)
    own = wide["token.row"] >= 0
    assert torch.equal(wide["token.row"][own], torch.arange(batch.size("token")))
    assert torch.equal(wide["token.old.logp"][own], batch["token.old.logp"])
    assert not (wide.action & ~own).any()
    assert torch.equal(wide.length(), batch.length())
    for level in ("turn", "rollout", "group", "segment"):
        assert wide.size(level) == batch.size(level)
        assert torch.equal(wide.link("token", level)[own], batch.link("token", level))


def test_reads_by_name_are_recorded_and_structure_is_not() -> None:
    log: set[str] = set()
    batch = recording(synthetic(ORDINARY[2], WANTED), log)
    for level in ("token", "rollout", "group"):
        batch.trained(level), batch.counted(level), batch.weight(level)
    batch.random("token", "draw"), batch.length(), batch.by("rollout", "group").rank(torch.zeros(len(batch)))
    assert log == set()
    batch.by("step", "group", "state").count()
    batch[Signal("logp", of="old")], batch.relation("pair")["difference"], batch["rollout.length"]
    assert log == {"turn.state", "token.old.logp", "pair.difference", "rollout.length"}


def test_a_batch_made_from_a_recording_one_records_except_what_the_part_added() -> None:
    log: set[str] = set()
    batch = recording(synthetic(ORDINARY[0], WANTED), log)
    batch.with_columns({"rollout.mine": torch.zeros(len(batch))}).take("group", torch.tensor([1]))["rollout.mine"]
    assert log == set()
    batch.take("group", torch.tensor([1]))["rollout.reward"]
    assert log == {"rollout.reward"}


def test_constants_can_be_held_and_are_let_go_again() -> None:
    x = torch.ones(1, requires_grad=True)
    with constants(lambda x: torch.full_like(x, 7.0)):
        assert stop_gradient(x).item() == 7.0
    assert stop_gradient(x).item() == 1.0
    assert not stop_gradient(x).requires_grad


def test_difference_follows_elements_and_ignores_new_ones() -> None:
    old = {"token.x": torch.tensor([1.0, 2.0, 3.0])}
    new = {"token.x": torch.tensor([9.0, 3.0, 1.0])}
    assert difference(old, new, {"token": torch.tensor([-1, 2, 0])}) is None
    assert difference(old, new, {"token": torch.tensor([-1, 2, 1])}) == "'token.x' at token 1 is 1.0 instead of 2.0"
    assert "shape" in str(difference(old, {"token.x": torch.tensor([1.0])}))
    assert difference({"rollout.a": ("x", "y")}, {"rollout.a": ("x", "z")}) == "'rollout.a' is 'z' instead of 'y'"


def test_clip_stops_tokens_by_its_dual_bound_too() -> None:
    batch = synthetic(Scene("many tokens", groups=(8, 8, 8)), ("token.advantage", "token.now.logp", "token.old.logp"))
    one = shape.DropCovariant(share=1.0, low=-9.0, high=9.0)
    both = one.replace(clip=one.clip.replace(dual=1.1))
    spared = both.dropped(batch) != one.dropped(batch)
    ratio = (batch["token.now.logp"] - batch["token.old.logp"]).exp()
    assert spared.any()
    assert ((batch["token.advantage"] < 0) & (ratio > 1.1))[spared].all()
