"""The sampler of a chooser draws from the chooser's probabilities, each rollout from its own stream."""

from __future__ import annotations

import numpy as np
import pytest

from podium.core.errors import PodiumError
from podium.policy import Chooser
from podium.protocols.option_set import LINKS, ONE, OptionRow, OptionSet, encode_set
from podium.protocols.sampling import Generate, Sampling
from podium.sampler.choices import ChoiceSampler

ROWS = (OptionRow("a", (1.0, 0.2)), OptionRow("b", (0.0, 0.9)), OptionRow("c", (0.5, 0.5), "shown"))
HOST = (*ROWS, OptionRow("exit", (0.0, 0.0), "final"), *(OptionRow(f"{n}", (n, 1), "source") for n in (1, 2)))


@pytest.fixture(scope="module")
def sampler() -> ChoiceSampler:
    return ChoiceSampler(Chooser({"features": 2, "width": 8, "layers": 1, "heads": 2}, seed=1))


def test_choices_are_as_frequent_as_they_are_likely(sampler: ChoiceSampler) -> None:
    context = encode_set(OptionSet(LINKS, HOST))
    (drawn,) = sampler.generate([Generate(context, 4000)])
    by_choice: dict[tuple[int, ...], list[float]] = {}
    for completion in drawn:
        by_choice.setdefault(completion.ids, []).append(sum(completion.logp))
    assert len(by_choice) == 9  # two roles with two links each, and the exit
    for logps in by_choice.values():
        p = np.exp(logps[0])
        assert abs(len(logps) / 4000 - p) < 4 * np.sqrt(p * (1 - p) / 4000)


def test_what_is_drawn_depends_on_the_stream_alone(sampler: ChoiceSampler) -> None:
    context, other = encode_set(OptionSet(LINKS, HOST)), encode_set(OptionSet(ONE, ROWS))
    asked = Generate(context, 8, stream=(5, 1))
    (alone,) = sampler.generate([asked])
    (_, among) = sampler.generate([Generate(other, 3, stream=(5, 2)), asked])
    (rest,) = sampler.generate([Generate(context, 3, stream=(5, 1), first=5)])
    assert [c.ids for c in alone] == [c.ids for c in among]
    assert [c.ids for c in alone[5:]] == [c.ids for c in rest]


def test_greedy_choices_are_the_likeliest(sampler: ChoiceSampler) -> None:
    context = encode_set(OptionSet(ONE, ROWS))
    (drawn, greedy) = sampler.generate(
        [Generate(context, 200), Generate(context, 1, sampling=Sampling(temperature=0.0))]
    )
    likeliest = max(drawn, key=lambda completion: completion.logp)
    assert greedy[0].ids == likeliest.ids
    assert greedy[0].logp == pytest.approx(likeliest.logp)


def test_a_begun_choice_is_refused(sampler: ChoiceSampler) -> None:
    with pytest.raises(PodiumError, match="cannot continue what is begun"):
        sampler.submit(Generate(encode_set(OptionSet(ONE, ROWS)), prefix=(0,)))
