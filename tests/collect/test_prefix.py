"""Rollouts that begin with text that is already there: who wrote it, who trains it, what the world sees of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from podium.collect.driver import Driver
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.columns import Origin
from podium.core.errors import PodiumError
from podium.protocols.context import Context, History
from podium.protocols.sampling import Sampling
from podium.protocols.scaffold import with_hint
from podium.sampler.local import LocalSampler
from podium.strategies.requests import Play, Resume, TaskRequest, Written
from podium.worlds import get
from tests.policy import tiny


class Hinted(Context):
    """The question with a hint."""

    hint: str = "2 plus 2"

    def __call__(self, history: History) -> list[str]:
        return [with_hint(history.prompt, self.hint)]


def collect(play: Any, world: str = "echo", max_tokens: int = 12, policy: Any = None, **settings: Any) -> list[Rollout]:
    """The rollouts that a plan of one request, made from the task by `play`, returns."""
    policy = policy or tiny.policy()
    opened = get(world)
    driver = Driver(
        LocalSampler(policy),
        opened,
        follow_up=policy.follow_up,
        written=policy.written,
        score=policy.score,
    )
    request = TaskRequest(opened.task(0), 0, Sampling(max_tokens=max_tokens), (0, 0, 0))

    def plan() -> Any:
        (answer,) = yield [play(request)]
        return answer

    (rollouts,) = driver.collect([plan()])
    return rollouts


def test_given_text_is_graded_with_what_follows_and_marked() -> None:
    policy = tiny.policy()
    begun = Written(text="1 plus 2", origin=Origin.hint, trained=False)
    made = collect(lambda r: Play(r, n=3, begun=begun), policy=policy)
    batch = Batch.from_rollouts(made)
    length = len(policy.written("1 plus 2", False))
    position = batch["token.position"]
    assert torch.equal(batch["token.origin"] == Origin.hint, position < length)
    assert torch.equal(batch.trained("token"), position >= length)
    assert set(batch["rollout.source"]) == {"hint"}
    assert all(text.startswith("1 plus 2") for text in batch["rollout.text"])
    assert int(batch.partition("token", "rollout").lengths().max()) <= 12  # the limit is for the whole turn


def test_a_context_with_a_hint_and_another_to_train_under() -> None:
    (rollout,) = collect(lambda r: Play(r, context=Hinted(), train_context=get("echo").context))
    turn = rollout.turns[0]
    assert turn.train_context is not None
    assert len(turn.context) > len(turn.train_context)
    assert rollout.columns["source"] == "policy"


def test_given_tokens_are_scored_where_asked() -> None:
    policy = tiny.policy()
    begun = Written(text="1 plus 2", origin=Origin.expert, scored=True)
    (rollout,) = collect(lambda r: Play(r, begun=begun), policy=policy)
    turn, length = rollout.turns[0], len(policy.written("1 plus 2", False))
    (expected,) = policy.score([turn.context], [turn.ids[:length]])
    assert turn.tokens["sampler.logp"][:length] == pytest.approx(expected.tolist(), abs=1e-6)


def test_going_on_from_ones_own_beginning_changes_nothing() -> None:
    """The same random numbers at the same places: a rollout cut anywhere and continued is the same rollout."""
    policy = tiny.policy()
    (whole,) = collect(lambda r: Play(r, first=3), policy=policy)
    for cut in (1, 4, len(whole.turns[0].ids)):
        begun = Written.of(whole.turns[0], cut)
        (again,) = collect(lambda r, begun=begun: Play(r, first=3, begun=begun), policy=policy)
        assert again.turns[0].ids == whole.turns[0].ids
        assert again.turns[0].tokens["sampler.logp"] == pytest.approx(whole.turns[0].tokens["sampler.logp"], abs=1e-5)
        assert again.columns["stop"] == whole.columns["stop"]


def test_what_others_go_on_from_is_not_encoded_again() -> None:
    policy, seen = tiny.policy(), []
    opened = get("echo")
    sampler = LocalSampler(policy)
    driver = Driver(sampler, opened, follow_up=policy.follow_up, written=policy.written)
    request = TaskRequest(opened.task(0), 0, Sampling(max_tokens=12), (0, 0, 0))

    def plan() -> Any:
        ((trunk,),) = yield [Play(request, keep=True)]
        seen.append(sampler.stats.encoded)
        ((fork,),) = yield [Play(request, begun=Written.of(trunk.turns[0], 3), wave=1)]
        return [trunk, fork]

    if policy.decoder is None:
        pytest.skip("this model keeps no keys and values")
    driver.collect([plan()])
    assert sampler.stats.encoded == seen[0]


def test_a_beginning_that_leaves_no_room_is_graded_as_it_is() -> None:
    (rollout,) = collect(lambda r: Play(r, begun=Written(text="1 plus 2 plus 3 plus 4")), max_tokens=3)
    assert rollout.columns["truncated"]
    assert Origin.policy.name not in (rollout.turns[0].origin or ())


def test_a_closed_beginning_is_a_whole_answer() -> None:
    policy = tiny.policy()
    ids = tuple(policy.written("1 plus 2", True))
    (rollout,) = collect(lambda r: Play(r, begun=Written(ids)), policy=policy)
    assert tuple(rollout.turns[0].ids) == ids
    assert rollout.columns["stop"] == "end"


def test_a_beginning_longer_than_the_context_is_refused() -> None:
    ids = (3,) * 5000
    with pytest.raises(PodiumError, match="5000 tokens after a context"):
        collect(lambda r: Play(r, begun=Written(ids)))


def test_numbers_must_fit_the_tokens() -> None:
    with pytest.raises(PodiumError, match="3 tokens and 2 numbers of 'logp'"):
        collect(lambda r: Play(r, begun=Written((3, 4, 5), (0.0, 0.0))))


def test_a_later_turn_of_an_episode_can_be_begun() -> None:
    policy = tiny.policy()
    (whole,) = collect(lambda r: Play(r, max_turns=3), world="keydoor", max_tokens=4, policy=policy)
    begun = Written.of(whole.turns[1], 2)
    (fork,) = collect(
        lambda r: Resume(Play(r, max_turns=3, wave=1, begun=begun), tuple(whole.turns[:1]), (0, 0)),
        world="keydoor",
        max_tokens=4,
        policy=policy,
    )
    assert fork.turns[0].ids == whole.turns[0].ids
    assert fork.turns[1].ids[:2] == whole.turns[1].ids[:2]
    assert list(fork.turns[1].origin or ())[:2] == ["copied", "copied"]
    assert set(fork.turns[2].origin or ()) == {"policy"}
