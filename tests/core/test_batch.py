"""Levels, columns, row sets, and the verbs between levels."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from podium.core import Batch, PodiumError, Relation, Signal
from tests.core.hierarchy import Hierarchy, cells, close, hierarchies, mean, tensor, transform

# Two groups; rollout 0 has turns of 2 and 1 tokens, rollout 1 one turn of 2, rollout 2 none, rollout 3 one of 1.
LINKS = {
    ("token", "turn"): torch.tensor([0, 0, 1, 2, 2, 3]),
    ("turn", "rollout"): torch.tensor([0, 0, 1, 3]),
    ("rollout", "group"): torch.tensor([1, 0, 0, 1]),
}


def batch(**columns: object) -> Batch:
    return Batch(LINKS, {name.replace("__", "."): value for name, value in columns.items()})


# -- structure -------------------------------------------------------------------------------------------------------


def test_links_compose_from_token_to_batch() -> None:
    b = batch()
    assert b.link("token", "rollout").tolist() == [0, 0, 0, 1, 1, 3]
    assert b.link("token", "group").tolist() == [1, 1, 1, 0, 0, 1]
    assert b.link("turn", "batch").tolist() == [0, 0, 0, 0]
    assert b.link("turn", "turn").tolist() == [0, 1, 2, 3]
    assert b.is_above("group", "token")
    assert not b.is_above("token", "group")


def test_crossing_to_a_level_that_is_not_above_is_refused() -> None:
    b = batch()
    for call in (
        lambda: b.link("rollout", "turn"),
        lambda: b.spread(torch.zeros(6), "token", "turn"),
        lambda: b.reduce(torch.zeros(4), "rollout", "token"),
        lambda: b.by("rollout", "turn"),
        lambda: b.scan(torch.zeros(4), "rollout", "turn"),
    ):
        with pytest.raises(PodiumError, match=r"is not above '\w+': a \w+ does not belong to one"):
            call()


def test_rollouts_have_no_order_within_their_group() -> None:
    b = batch()
    for call in (lambda: b.position("rollout", "group"), lambda: b.scan(torch.zeros(6), "token", "group")):
        with pytest.raises(PodiumError, match="have no order of their own"):
            call()


def test_a_named_level_stands_beside_the_turns() -> None:
    b = batch(token__x=torch.arange(6.0)).with_level("segment", torch.tensor([0, 1, 1, 2, 3, 4]))
    assert b.size("segment") == 5
    assert b.link("segment", "rollout").tolist() == [0, 0, 1, 1, 3]
    close(b.reduce(b["token.x"], "token", "segment", "sum"), [0, 3, 3, 4, 5])
    close(b.reduce(b["token.x"], "token", "turn", "sum"), [1, 2, 7, 5])
    assert not b.is_above("segment", "turn")
    assert b.position("segment").tolist() == [0, 1, 0, 1, 0]


def test_the_alias_step_means_the_level_that_one_says() -> None:
    b = batch(turn__reward=torch.ones(4)).with_level("segment", torch.tensor([0, 1, 1, 2, 3, 4]))
    assert b.size("step") == 4
    assert b["step.reward"].tolist() == [1, 1, 1, 1]
    moved = b.with_step("segment").with_columns({"step.reward": torch.zeros(5)})
    assert moved.size("step") == 5
    assert moved["segment.reward"].tolist() == [0] * 5
    assert moved["turn.reward"].tolist() == [1] * 4
    assert moved.by("step", "step").cells == 5


def test_a_level_of_groups_can_be_named_too() -> None:
    b = batch(rollout__reward=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    b = b.with_level("bundle", torch.tensor([0, 0]), of="group", parent="batch")
    assert b.link("token", "bundle").tolist() == [0] * 6
    close(b.reduce(b["rollout.reward"], "rollout", "bundle", "sum"), [10])
    assert b.trained("bundle").tolist() == [True]
    assert b.take("bundle", torch.tensor([0])).size("rollout") == 4
    assert 0 <= float(b.random("bundle", "x")) < 1


@pytest.mark.parametrize(
    ("name", "index", "message"),
    [
        (
            "segment",
            [0, 0, 0, 0, 1, 2],
            "A segment crosses the border of a rollout: number the segments over the whole",
        ),
        ("segment", [1, 1, 0, 2, 2, 3], "tokens must stand in the order of their segments"),
        ("segment", [0, 0, 1], "3 numbers of segments for 6 tokens"),
        ("turn", [0, 0, 1, 2, 2, 3], "cannot be named 'turn'"),
        ("step", [0, 0, 1, 2, 2, 3], "cannot be named 'step'"),
        ("my.level", [0, 0, 1, 2, 2, 3], "cannot be named 'my.level'"),
    ],
)
def test_a_level_that_does_not_fit_is_refused(name: str, index: list[int], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        batch().with_level(name, torch.tensor(index))


# -- columns ---------------------------------------------------------------------------------------------------------


def test_a_finer_level_inherits_the_advantage_of_the_nearest_coarser_one() -> None:
    b = batch(rollout__advantage=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert "token.advantage" in b
    assert b["token.advantage"].tolist() == [1, 1, 1, 2, 2, 4]
    b = b.with_columns({"turn.advantage": torch.tensor([5.0, 6.0, 7.0, 8.0])})
    assert b["token.advantage"].tolist() == [5, 5, 6, 7, 7, 8]
    assert b["rollout.advantage"].tolist() == [1, 2, 3, 4]
    assert "group.advantage" not in b
    assert "token.reward" not in batch(rollout__reward=torch.ones(4))  # only advantages are inherited


def test_an_advantage_of_a_named_level_is_inherited_without_the_alias() -> None:
    b = batch(rollout__advantage=torch.zeros(4)).with_level("segment", torch.tensor([0, 1, 1, 2, 3, 4]))
    b = b.with_columns({"segment.advantage": torch.arange(5.0)})
    assert b["token.advantage"].tolist() == [0, 1, 1, 2, 3, 4]
    assert b["turn.advantage"].tolist() == [0, 0, 0, 0]  # a turn lies in no segment


def test_length_and_position_follow_from_the_structure() -> None:
    b = batch(token__origin=["policy", "given", "policy", "policy", "policy", "policy"])
    assert "rollout.length" in b
    assert "token.position" in b
    assert b["rollout.length"].tolist() == [2, 2, 0, 1]
    assert b["token.position"].tolist() == [0, 1, 2, 0, 1, 0]
    assert "rollout.length" not in Batch.from_rewards([1.0], [0])
    assert Batch.from_rewards([1.0], [0]).get("rollout.length") is None


def test_verbs_leave_the_batch_as_it_was() -> None:
    b = batch(rollout__reward=torch.ones(4))
    more = b.with_columns({"rollout.reward": torch.zeros(4), "group.x": torch.ones(2)})
    assert b["rollout.reward"].tolist() == [1] * 4
    assert "group.x" not in b
    assert "rollout.reward" not in more.without(["rollout.reward"])


def test_a_signal_names_its_column() -> None:
    entropy = Signal("entropy", of="now", top_p=0.8)
    b = batch().with_columns({entropy: torch.ones(6)})
    assert entropy.column == "token.now.entropy[top_p=0.8]"
    assert b[entropy].tolist() == [1] * 6
    assert Signal("entropy") not in b


def test_codes_of_a_column_are_those_of_its_newest_values() -> None:
    b = batch(rollout__answer=["x", "x", "y", "y"], rollout__reward=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    close(b.by("rollout", "answer").mean(b["rollout.reward"]), [1.5, 1.5, 3.5, 3.5])
    b = b.with_columns({"rollout.answer": ["x", "y", "x", "y"]})
    close(b.by("rollout", "answer").mean(b["rollout.reward"]), [2, 3, 2, 3])


def test_lists_of_floats_take_the_floating_type_of_the_batch() -> None:
    b = batch(rollout__reward=torch.ones(4, dtype=torch.float64))
    assert b.with_columns({"rollout.x": [0.1, 0.2, 0.3, 0.4]})["rollout.x"].dtype == torch.float64
    assert Batch(LINKS, {"rollout.x": [0.1] * 4, "turn.y": torch.zeros(4).double()})["rollout.x"].dtype == torch.float64


def test_to_moves_every_column_link_and_relation() -> None:
    b = batch(rollout__reward=torch.ones(4), rollout__answer=list("abcd"), rollout__n=[1, 2, 3, 4])
    b = b.with_relation("pair", Relation("rollout", torch.tensor([0]), torch.tensor([1]), {"d": torch.ones(1)}))
    double = b.to(dtype=torch.float64)
    assert double.dtype == torch.float64
    assert double["rollout.n"].dtype == torch.int64
    assert double.relation("pair")["d"].dtype == torch.float64
    meta = b.to("meta")
    assert meta.device.type == "meta"
    assert meta["rollout.reward"].device.type == "meta"
    assert meta.relation("pair").left.device.type == "meta"
    assert meta["rollout.answer"] == tuple("abcd")
    with pytest.raises(PodiumError, match="floating type"):
        b.to(dtype=torch.int64)


# -- row sets --------------------------------------------------------------------------------------------------------


def test_purposes_say_who_counts_and_who_is_trained() -> None:
    purposes = ["train", "vote", "baseline", "probe", "demo", "replaced"]
    b = Batch.from_rewards(torch.arange(6.0), [0] * 6, {"rollout.purpose": purposes})
    assert b.counted("rollout").tolist() == [True, True, False, False, False, False]  # type: ignore[union-attr]
    assert b.trained("rollout").tolist() == [True, False, False, False, True, False]
    close(b.by("rollout", "group").mean(b["rollout.reward"]), [0.5] * 6)
    close(b.partition("rollout", "group").mean(b["rollout.reward"]), [2.5] * 6)  # a plain partition: everyone


def test_keep_at_any_level_takes_a_row_out_of_the_training_but_not_of_statistics() -> None:
    b = batch(
        rollout__reward=torch.arange(4.0),
        group__keep=torch.tensor([True, True]),
        rollout__keep__long=torch.tensor([True, False, True, True]),
        turn__keep=torch.tensor([False, True, True, True]),
        token__keep__rare=torch.tensor([True, True, True, True, True, False]),
    )
    assert b.trained("token").tolist() == [False, False, True, False, False, False]
    assert b.trained("turn").tolist() == [False, True, False, False]
    assert b.trained("rollout").tolist() == [True, False, False, False]
    assert b.trained("group").tolist() == [False, True]
    assert b.counted("rollout") is None
    close(b.by("rollout", "group").count(), [2, 2, 2, 2])


def test_a_rollout_without_a_token_is_trained_only_if_empty_ones_are_asked_for() -> None:
    assert batch().trained("rollout").tolist() == [True, True, False, True]
    assert batch().trained("rollout", empty=True).tolist() == [True] * 4
    assert Batch.from_rewards([1.0, 0.0], [0, 1]).trained("rollout").tolist() == [True, True]


def test_weights_multiply_over_names_and_levels() -> None:
    b = batch(
        group__weight=torch.tensor([2.0, 3.0]),
        rollout__weight__age=torch.tensor([1.0, 5.0, 1.0, 1.0]),
        token__weight=torch.tensor([1.0, 1.0, 1.0, 1.0, 0.5, 1.0]),
    )
    weight = b.weight("token")
    assert weight is not None
    assert weight.tolist() == [3, 3, 3, 10, 5, 3]
    assert b.weight("rollout").tolist() == [3, 10, 2, 3]  # type: ignore[union-attr]
    assert batch().weight("token") is None


def test_given_tokens_are_no_actions_and_enter_no_aggregate() -> None:
    b = batch(token__origin=["policy", "given", "hint", "expert", "forced", "copied"], token__x=torch.arange(6.0))
    assert b.action.tolist() == [True, False, True, True, True, True]
    close(b.reduce(b["token.x"], "token", "rollout", "mean"), [1, 3.5, 0, 5])
    close(b.by("token").mean(b["token.x"]), [14 / 5] * 6, 1e-6)
    close(b.reduce(b["token.x"], "token", "rollout", "sum", where=b["token.x"] < 4), [2, 3, 0, 0])


# -- verbs between levels --------------------------------------------------------------------------------------------


@given(hierarchies())
@settings(deadline=None, max_examples=60)
def test_spread_and_reduce_are_those_of_plain_python(h: Hierarchy) -> None:
    b = h.batch()
    for child, parent in (("token", "turn"), ("token", "group"), ("turn", "rollout"), ("rollout", "batch")):
        link, below, above = h.link(child, parent), h.numbers(child), h.numbers(parent)
        close(b.spread(tensor(above), parent, child), [above[i] for i in link])
        where = h.mask(child)
        held = [[i for i, up in enumerate(link) if up == cell and where[i]] for cell in range(h.sizes[parent])]
        mask = torch.tensor(where, dtype=torch.bool)
        for how, of in (("sum", sum), ("mean", mean)):
            expected = [of([below[i] for i in members]) for members in held]
            close(b.reduce(tensor(below), child, parent, how, where=mask), expected)  # type: ignore[arg-type]
        truth = tensor([v > 0 for v in below]) if below else torch.zeros(0, dtype=torch.bool)
        for how, test in (("any", any), ("all", all)):
            expected = [test(below[i] > 0 for i in members) for members in held]
            assert b.reduce(truth, child, parent, how, where=mask).tolist() == expected  # type: ignore[arg-type]


def test_a_column_of_any_level_above_is_copied_down_to_the_tokens() -> None:
    b = Batch.from_padded(torch.tensor([[1, 1], [1, 0]]), [0, 0], {"rollout.power": torch.tensor([2.0, 3.0])})
    b = b.with_columns({"token.low": torch.tensor([0.1, 0.2, 0.3]), "turn.score": torch.tensor([5.0, 7.0])})
    assert b.spread_column("rollout.power").tolist() == [2.0, 2.0, 3.0]
    assert b.spread_column("step.score").tolist() == [5.0, 5.0, 7.0]
    assert b.spread_column("step.score", "turn").tolist() == [5.0, 7.0]
    assert torch.equal(b.spread_column("token.low"), b["token.low"])


@given(hierarchies())
@settings(deadline=None, max_examples=60)
def test_by_takes_levels_columns_of_any_level_text_numbers_and_codes_as_keys(h: Hierarchy) -> None:
    words = [h.random.choice("ab") for _ in range(h.sizes["turn"])]
    scores = h.numbers("group", (0.1, 0.2))
    codes = [h.random.randrange(-1, 2) for _ in range(h.sizes["token"])]
    b = h.batch({"turn.word": words, "group.score": tensor(scores)})
    x = h.numbers("token")
    turn, group = h.link("token", "turn"), h.link("token", "group")
    keys = [(words[turn[i]], scores[group[i]], codes[i], turn[i]) for i in range(len(x))]
    p = b.by("token", "turn.word", "score", torch.tensor(codes, dtype=torch.long), "turn")
    close(p.mean(tensor(x)), transform(keys, lambda m: mean([x[i] for i in m])))
    assert p.cells == len(cells(keys))


def test_a_key_may_be_a_column_of_vectors() -> None:
    b = Batch.from_rewards(
        torch.tensor([1.0, 2.0, 4.0]), [0, 0, 0], {"rollout.at": torch.tensor([[1, 2], [1, 3], [1, 2]])}
    )
    close(b.by("rollout", "at").mean(b["rollout.reward"]), [2.5, 2, 2.5])


def test_cells_of_a_level_stand_at_its_places_even_if_empty() -> None:
    b = batch(token__x=torch.arange(6.0))
    close(b.by("token", "rollout").agg.sum(b["token.x"]), [3, 7, 0, 5])
    close(b.by("token", "rollout").agg.count(), [3, 2, 0, 1])


def test_pairs_of_a_group_are_all_ordered_pairs_of_different_members() -> None:
    b = Batch.from_rewards(torch.zeros(5), [0, 1, 0, 1, 0])
    pair = b.pairs("rollout", "group")
    found = sorted(zip(pair.left.tolist(), pair.right.tolist(), strict=True))
    assert found == [(0, 2), (0, 4), (1, 3), (2, 0), (2, 4), (3, 1), (4, 0), (4, 2)]


def test_a_relation_sums_over_the_pairs_of_each_side() -> None:
    relation = Relation(
        "rollout", torch.tensor([0, 0, 2]), torch.tensor([1, 2, 1]), {"won": torch.tensor([1.0, 0.0, 1.0])}
    )
    b = Batch.from_rewards(torch.zeros(3), [0, 0, 0]).with_relation("duel", relation)
    duel = b.relation("duel")
    assert duel.sum(duel["won"], "left", 3).tolist() == [1, 0, 1]
    assert duel.sum(duel["won"], "right", 3).tolist() == [0, 2, 0]
    with pytest.raises(PodiumError, match=r"no relation 'dual'. Did you mean 'duel'"):
        b.relation("dual")
    with pytest.raises(PodiumError, match=r"no column 'wun'. Did you mean 'won'"):
        duel["wun"]


def test_a_batch_prints_its_sizes_and_columns() -> None:
    assert repr(batch(rollout__reward=torch.ones(4))) == (
        "Batch(6 tokens, 4 turns, 4 rollouts, 2 groups; rollout.reward, group.task, rollout.index)"
    )
