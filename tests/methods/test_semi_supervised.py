"""TraPO: tasks without labels that learn like tasks with labels."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.memories import Trajectories
from podium.parts.reward import PseudoLabel
from podium.parts.reward.vote import has_label
from podium.parts.shape import MatchTrajectories
from podium.parts.shape.trajectories import trajectory_similarity
from podium.worlds import Sums
from tests.methods.catalogue import finite, lines, small
from tests.methods.support import credit, rewards

RISING = torch.tensor([[0.0, 0.1, 0.4, 0.5, 0.9]], dtype=torch.float64)


def test_similarity_does_not_depend_on_the_scale_of_a_curve() -> None:
    other = torch.tensor([[0.1, 0.3, 0.2, 0.6, 0.7]], dtype=torch.float64)
    assert_close(trajectory_similarity(3 * other + 0.2, RISING), trajectory_similarity(other, RISING))
    assert_close(trajectory_similarity(RISING, RISING), torch.ones(1, dtype=torch.float64))


def test_a_curve_that_never_moves_is_like_no_other() -> None:
    flat = torch.full((1, 5), 0.3, dtype=torch.float64)
    assert float(trajectory_similarity(flat, RISING)) == 0
    assert float(trajectory_similarity(RISING, flat)) == 0
    assert float(trajectory_similarity(RISING, RISING[:0])) == 0


def groups(known: list[tuple[float, ...]], now: list[float], given: list[bool]) -> Batch:
    columns = {
        "group.curve": tuple(known),
        "group.labelled": torch.tensor(given),
        "batch.references": ((),),
    }
    return rewards(*[[x, x] for x in now]).with_columns(columns)


def test_unlabelled_tasks_train_where_their_curve_is_similar_or_the_most_similar() -> None:
    batch = groups([(0.0, 0.2), (0.1, 0.3), (0.9, 0.5)], [0.6, 0.7, 0.1], [True, False, False])
    after = MatchTrajectories(tau=0.4, warmup=3)(batch)
    assert after["group.weight.matched"].tolist() == [1, 1, 0]
    assert MatchTrajectories(tau=-1.0, warmup=3)(batch)["group.weight.matched"].tolist() == [1, 1, 1]
    assert MatchTrajectories(tau=0.4, warmup=4)(batch)["group.weight.matched"].tolist() == [1, 0, 0]
    assert MatchTrajectories(match=False)(batch)["group.weight.matched"].tolist() == [1, 1, 1]


def test_with_labels_for_all_it_is_dr_grpos_advantage() -> None:
    batch = rewards([1, 0, 0, 1], rollout__answer=("1", "2", "3", "1"))
    reward = PseudoLabel(labelled=1.0)(batch)
    assert_close(reward["rollout.reward"], batch["rollout.reward"])
    assert_close(methods.trapo().advantage(batch)["rollout.advantage"], credit(methods.dr_grpo(), batch))


def test_a_tie_or_a_single_vote_has_no_favourite() -> None:
    for answers, wanted in (
        (("1", "1", "2", ""), [1, 1, 0, 0]),
        (("1", "1", "2", "2"), [0, 0, 0, 0]),
        (("1", "2", "3", ""), [0, 0, 0, 0]),
        (("", "", "", ""), [0, 0, 0, 0]),
    ):
        found = PseudoLabel(labelled=0.0)(rewards([1, 1, 1, 1], rollout__answer=answers))
        assert found["rollout.reward"].tolist() == wanted


def test_which_tasks_have_labels_is_a_matter_of_their_names() -> None:
    names = [f"task {i}" for i in range(400)]
    assert has_label(names, 0.25) == has_label(names, 0.25)
    assert 70 < sum(has_label(names, 0.25)) < 130
    assert sum(has_label(names, 0.0)) == 0


def test_references_are_forgotten_when_a_labelled_task_comes_again() -> None:
    memory = Trajectories()
    state = memory.initial()
    batch = groups([(), ()], [0.5, 0.25], [True, False]).with_columns({"group.top": torch.tensor([False, True])})
    for visits in (1, 2, 3):
        state = memory.observe(state, batch)
        assert len(state["labelled"]) == 1
        assert len(state["labelled"][0]) == visits
        assert len(state["top"][1]) == visits


class Few(Sums):
    def size(self, split: str = "train") -> int | None:
        return 4 if split == "train" else None


def test_unlabelled_tasks_join_after_the_warm_up() -> None:
    found = lines(small(methods.trapo(labelled=0.5, warmup=2, tau=-1.1)), Few(level=2), iterations=2, tasks=4)
    assert finite(found)
    assert found[0]["watched.weight.matched"] < 1
    assert found[1]["watched.weight.matched"] == 1
    assert found[1]["updates"] == 2  # labelled and unlabelled tasks apart
