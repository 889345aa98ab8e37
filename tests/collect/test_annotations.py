"""Given texts as rollouts, and what takes words to know about rollouts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from podium import methods, worlds
from podium import policy as policies
from podium.collect.annotations import registry as annotate
from podium.collect.driver import Driver
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError
from podium.core.part import Reward
from podium.protocols.sampling import Sampling
from podium.sampler.local import LocalSampler
from podium.strategies import Sample
from podium.strategies.requests import Plan, Recite, Score, TaskRequest


@pytest.fixture(scope="module")
def tiny() -> Any:
    return policies.load("podium/tiny")


def driver(tiny: Any, world: str = "sums") -> Driver:
    opened = worlds.get(world)
    return Driver(LocalSampler(tiny), opened, written=tiny.written, ends=tiny.ends, score=tiny.score)


def request(played: Driver, number: int = 0) -> TaskRequest:
    return TaskRequest(played.world.task(number), number, Sampling(max_tokens=40), (0, 0, number))


@pytest.mark.parametrize("world", ["echo", "sums", "countdown", "rules"])
def test_a_recited_solution_is_graded_encoded_and_marked(tiny: Any, world: str) -> None:
    played = driver(tiny, world)
    asked = request(played)
    ((rollout,),) = ([r] for r in played.collect([Sample(n=1, demonstrations=("short",)).plan(asked)])[0][1:])
    (turn,) = rollout.turns
    assert rollout.columns["text"] == played.world.solve(asked.task, "short", seed=0) == tiny.text(turn.ids)
    assert (rollout.columns["reward"], rollout.columns["correct"]) == (1.0, True)
    assert turn.ids[-1] in tiny.end_ids
    assert set(turn.origin or ()) == {Origin.expert.name}
    assert turn.context == tiny.encode([{"role": "user", "content": asked.task.prompt}])


def test_own_texts_can_be_recited_for_any_purpose(tiny: Any) -> None:
    played = driver(tiny)

    def plan() -> Plan:
        answers = yield [Recite(request(played), ("answer: 1",), purpose=Purpose.probe, origin=Origin.hint, index=3)]
        return answers[0]  # type: ignore[return-value]

    ((rollout,),) = played.collect([plan()])
    assert rollout.columns["text"] == "answer: 1"
    assert (rollout.columns["purpose"], rollout.columns["index"]) == (int(Purpose.probe), 3)
    assert not rollout.columns["correct"]


def test_demonstrations_neither_count_nor_vote_but_are_trained(tiny: Any) -> None:
    played = driver(tiny)
    strategy = Sample(n=3, trained=2, demonstrations=("short", "long"))
    groups = played.collect([strategy.plan(request(played, i)) for i in range(2)])
    batch = Batch.from_rollouts([r for group in groups for r in group])
    assert batch.by("rollout", "group").agg.count().tolist() == [3, 3]
    assert batch.trained("rollout").reshape(2, 5).tolist() == [[True, True, False, True, True]] * 2
    assert batch["rollout.index"].reshape(2, 5).tolist() == [[0, 1, 2, 3, 4]] * 2


def test_without_demonstrations_a_batch_is_as_it_was(tiny: Any) -> None:
    played = driver(tiny)
    (group,) = played.collect([Sample(n=2).plan(request(played))])
    batch = Batch.from_rollouts(group)
    assert "token.origin" not in batch
    assert "rollout.demonstration" not in batch


def test_a_driver_without_words_says_so() -> None:
    tiny = policies.load("podium/tiny")
    played = Driver(LocalSampler(tiny), worlds.get("echo"))
    with pytest.raises(PodiumError, match="no way to encode it"):
        played.collect([Sample(n=1, demonstrations=("short",)).plan(request(played))])


def test_a_text_can_be_scored_by_a_plan(tiny: Any) -> None:
    played = driver(tiny)
    ids = tiny.written("answer: 3")

    def plan() -> Plan:
        (found,) = yield [Score(ids[:1], ids[1:], "entropy")]
        assert found == pytest.approx(tiny.score([ids[:1]], [ids[1:]], name="entropy")[0].tolist())
        return []

    assert played.collect([plan()]) == [[]]


def test_characters_after_each_token_add_up_to_the_text(tiny: Any) -> None:
    for text in ("12+7=19\nanswer: 19", "", "né 漢字 🙂 end"):
        ids = tiny.written(text)
        ends = tiny.ends(ids)
        assert len(ends) == len(ids)
        assert ends == sorted(ends)
        assert ends[-1] == len(tiny.text(ids)) == len(text)


class Shouted(Reward):
    """Reads a column that takes words to make."""

    needs = ("rollout.shouts",)
    provides = ("rollout.reward",)

    def __call__(self, batch: Batch) -> Any:
        return {"rollout.reward": batch["rollout.shouts"].to(batch.dtype)}


def test_an_annotation_of_ones_own_runs_only_where_a_method_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annotate, "_REGISTRY", dict(annotate._REGISTRY))

    @annotate.annotation("rollout.shouts")
    def shouts(context: Any, task: Any, rollouts: list[Rollout]) -> list[Rollout]:
        return [annotate.annotated(r, {"shouts": r.columns["text"].isupper()}) for r in rollouts]

    mine = methods.grpo().with_(reward=Shouted())
    assert shouts in annotate.annotations_of(mine)
    assert shouts not in annotate.annotations_of(methods.grpo())
    assert not [f for f in mine.check() if f.kind == "error"]
    (found,) = shouts(None, None, [Rollout("t", [], columns={"text": "YES"})])  # type: ignore[arg-type]
    assert found.columns["shouts"] is True


def test_segments_of_rollouts_become_a_level() -> None:
    rows = [
        Rollout("a", [Turn([1, 2, 3], tokens={"segment": [0, 0, 1]})], segments={"x": [1.0, 2.0]}),
        Rollout("a", [Turn([4], tokens={"segment": [0]})], segments={"x": [3.0]}),
    ]
    batch = Batch.from_rollouts(rows)
    assert batch["segment.x"].tolist() == [1, 2, 3]
    assert batch.spread(batch["segment.x"], "segment", "token").tolist() == [1, 1, 2, 3]
    assert batch.take("rollout", torch.tensor([1]))["segment.x"].tolist() == [3]
    with pytest.raises(PodiumError, match="Rollout 0 has 1 values for its 2 segments"):
        Batch.from_rollouts([dataclasses.replace(rows[0], segments={"x": [1.0]}), rows[1]])
