"""A chooser's probabilities sum to 1 over all choices, respect the mask, and depend neither on order nor on padding."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.policy import Chooser, load
from podium.protocols.option_set import EACH, LINKS, ONE, PAIRS, OptionRow, OptionSet, encode_set

ROWS = (
    OptionRow("a", (1.0, 0.2, -0.5)),
    OptionRow("b", (0.0, 0.9, 0.5)),
    OptionRow("c", (0.3, 0.3, 0.3), "shown"),
    OptionRow("d", (-1.0, 0.1, 0.8)),
)
HOST = (*ROWS, OptionRow("exit", (0.0, 0.0, 0.0), "final"), *(OptionRow(f"{n}", (n, 1, 0), "source") for n in (1, 2)))


@pytest.fixture(scope="module")
def chooser() -> Chooser:
    policy = Chooser({"features": 4, "width": 8, "layers": 2, "heads": 2}, seed=3)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(2.0)  # further from equal probabilities
    return policy


def logp(policy: Chooser, *turns: tuple[OptionSet, tuple[int, ...]], name: str = "logp") -> torch.Tensor:
    """The sum over the choices of each turn."""
    rollouts = [Rollout(0, [Turn(ids, encode_set(options))]) for options, ids in turns]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    signal = Signal(name, of="now")
    return batch.reduce(policy.signals(batch, [signal])[signal], "token", "rollout", "sum")


def choices(options: OptionSet) -> list[tuple[int, ...]]:
    rows = [n for n, row in enumerate(options.rows) if row.allowed] if options.kind in (ONE, LINKS) else [None]
    found = []
    for row in rows:
        first = () if row is None else (row,)
        found += [(*first, *rest) for rest in itertools.product((0, 1), repeat=len(options.decided(*first)))]
    return found


@pytest.mark.parametrize("kind", [ONE, EACH, PAIRS, LINKS])
def test_the_probabilities_of_all_choices_sum_to_1(chooser: Chooser, kind: str) -> None:
    options = OptionSet(kind, HOST if kind == LINKS else ROWS)
    total = logp(chooser, *((options, choice) for choice in choices(options))).exp().sum()
    assert float(total) == pytest.approx(1.0, abs=1e-5)


def test_a_masked_option_has_no_probability(chooser: Chooser) -> None:
    assert logp(chooser, (OptionSet(ONE, ROWS), (2,))).tolist() == [-torch.inf]


def test_neither_order_nor_padding_matters(chooser: Chooser) -> None:
    options, turned = OptionSet(ONE, ROWS), OptionSet(ONE, ROWS[::-1])
    alone, reversed_, among = (
        logp(chooser, (options, (0,))),
        logp(chooser, (turned, (3,))),
        logp(chooser, (options, (0,)), (OptionSet(LINKS, HOST), (4,))),
    )
    assert float(alone) == pytest.approx(float(reversed_), abs=1e-6)
    assert float(alone) == pytest.approx(float(among[0]), abs=1e-6)


def test_entropy_is_that_of_the_choices(chooser: Chooser) -> None:
    options = OptionSet(ONE, ROWS)
    each = logp(chooser, *((options, choice) for choice in choices(options)))
    entropy = logp(chooser, (options, (0,)), name="entropy")
    assert float(entropy) == pytest.approx(float(-(each.exp() * each).sum()), abs=1e-5)


def test_a_saved_chooser_is_the_same(chooser: Chooser, tmp_path: Path) -> None:
    chooser.save(tmp_path)
    loaded = load(tmp_path)
    assert isinstance(loaded, Chooser)
    options = OptionSet(PAIRS, ROWS)
    assert torch.equal(logp(loaded, (options, (0, 1, 1))), logp(chooser, (options, (0, 1, 1))))
    assert torch.equal(logp(chooser.copy(), (options, (0, 1, 1))), logp(chooser, (options, (0, 1, 1))))


def test_too_many_numbers_and_unknown_signals_get_a_sentence(chooser: Chooser) -> None:
    wide = OptionSet(ONE, (OptionRow("a", (0.0,) * 5),))
    with pytest.raises(PodiumError, match="has 5 numbers per row, and the chooser reads 4 at most"):
        chooser.encode([{"content": str(wide)}])
    batch = Batch.from_rollouts([Rollout(0, [Turn((0,), encode_set(OptionSet(ONE, ROWS)))])])
    with pytest.raises(PodiumError, match="A chooser does not compute"):
        chooser.signals(batch, [Signal("top", of="now")])
    with pytest.raises(PodiumError, match="leave lora out"):
        load("podium/chooser", lora={"r": 4})


def test_damaged_settings_are_refused(chooser: Chooser, tmp_path: Path) -> None:
    chooser.save(tmp_path)
    config = (tmp_path / "config.json").read_text()
    for old, new, message in (
        ('"width": 8', '"width": 10', "does not fit the chooser"),
        ('"width": 8', '"width": "x"', "width = 'x' is no whole number"),
        ('"width": 8', '"breadth": 8', "is not that of a chooser"),
    ):
        (tmp_path / "config.json").write_text(config.replace(old, new))
        with pytest.raises(PodiumError, match=message):
            load(tmp_path)
