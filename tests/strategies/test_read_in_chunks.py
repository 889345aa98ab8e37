"""The memory agent: a text is read in pieces, and the answer comes from notes alone."""

from __future__ import annotations

import pytest

from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.method import Method
from podium.parts.advantage import Normalize
from podium.parts.objective import PolicyGradient
from podium.protocols.world import Episode, Feedback
from podium.strategies import Draw, ReadInChunks, Sample
from podium.strategies.requests import Play, Request
from podium.strategies.sample.read_in_chunks import _Reading, in_chunks, split_question
from podium.training.build import build_run
from podium.training.loop import iterate
from tests.conformance.plans import collected, made
from tests.sessions.test_train import small

PROMPT = "paint: black to grey, grey to brown, brown to green; grey 2 times"


class Asked(Episode):
    def act(self, text: str) -> Feedback:
        return Feedback(reward=float(text == "green"))


def test_the_question_is_what_stands_behind_the_last_separator() -> None:
    text, question = split_question(PROMPT, ReadInChunks().question)
    assert (text, question) == ("paint: black to grey, grey to brown, brown to green;", "grey 2 times")
    assert split_question("sum: 3+4", ReadInChunks().question) == ("", "sum: 3+4")


def test_pieces_have_nearly_equal_lengths() -> None:
    assert in_chunks("a b c d e", 2) == ["a b", "c d e"]
    assert in_chunks("a b", 5) == ["a", "b"]
    assert in_chunks("", 3) == []


def test_each_turn_sees_the_question_the_notes_and_one_piece() -> None:
    episode = _Reading(Asked(PROMPT), ReadInChunks(chunks=2))
    assert episode.observation == "grey 2 times\nnotes: \npaint: black to grey, grey"
    first = episode.act("black  grey")
    assert (first.done, first.observation) == (False, "grey 2 times\nnotes: black grey\nto brown, brown to green;")
    second = episode.act("grey green")
    assert (second.done, second.observation) == (False, "grey 2 times\nnotes: grey green")
    assert episode.act("green").reward == 1.0


def test_a_prompt_without_a_text_is_answered_at_once() -> None:
    assert _Reading(Asked("grey"), ReadInChunks()).act("green").reward == 1.0


def test_in_a_run_the_context_of_a_turn_holds_its_piece_alone() -> None:
    method = Method("reads", rollout=ReadInChunks(n=2, chunks=2), advantage=Normalize(), objective=(PolicyGradient(),))
    run = build_run(small(method, world="rules"))
    batch, line = iterate(run)
    turns = batch.partition("turn", "rollout").lengths().tolist()
    assert set(turns) <= {1, 3}
    assert 3 in turns
    assert line["acted"]["rollout.ReadInChunks"] == turns.count(3)
    sizes = [len(context) for context in batch["turn.context"]]
    assert max(sizes) < 80  # the notes of a turn replace all that was there before


@pytest.mark.parametrize(
    "settings", [{"chunks": 0}, {"question": "("}, {"show": "{text}"}, {"draw": Draw(max_turns=2)}]
)
def test_what_cannot_work_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(PodiumError):
        ReadInChunks(**settings)  # type: ignore[arg-type]


def test_its_neutral_form_reads_everything_at_once() -> None:
    draw = Draw(temperature=0.7)
    assert ReadInChunks(n=3, draw=draw).neutral == Sample(n=3, draw=draw)


def test_every_rollout_that_was_played_counts() -> None:
    asked: list[Play] = []

    def answers(request: Request) -> list[Rollout]:
        assert isinstance(request, Play)
        asked.append(request)
        return made(request, [1.0] * request.n)

    group = collected(ReadInChunks(n=3, chunks=2), answers)
    assert [rollout.columns["index"] for rollout in group] == [0, 1, 2]
    assert [request.max_turns for request in asked] == [3]
