"""Importance weights between sampler and trainer: 1 where they agree, bounded where they do not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from podium import methods
from podium.cli.overrides import load
from podium.core.batch import Batch
from podium.core.columns import Origin
from podium.core.errors import PodiumError
from podium.parts.shape import SamplerCorrection, SamplerRejection
from podium.protocols.sampling import Warmth
from podium.sessions.train import train
from podium.strategies import Draw, Sample
from podium.training.build import build_run
from podium.training.loop import iterate
from tests.sessions.test_train import small

W = "token.weight.importance"


def batch(ratio: Any, origin: Any = None) -> Batch:
    """Two answers of two tokens with π_old / π_sampler as given."""
    logs = torch.tensor(ratio, dtype=torch.float64).log()
    columns = {"token.old.logp": logs - 1.0, "token.sampler.logp": torch.full_like(logs, -1.0)}
    made = Batch.from_padded(torch.ones(2, 2), ["a", "a"], columns)
    return made if origin is None else made.with_columns({"token.origin": origin})


RATIOS = [[0.25, 1.0], [3.0, 1.5]]


def weights(part: SamplerCorrection, *args: Any) -> list[float]:
    return part(batch(RATIOS, *args))[W].tolist()


def test_equal_policies_give_one_at_every_level() -> None:
    for level in ("token", "sequence"):
        part = SamplerCorrection(level=level, cap=math.inf)
        assert part(batch([[1.0, 1.0], [1.0, 1.0]]))[W].tolist() == [1.0] * 4


def test_without_a_cap_the_weight_is_the_ratio() -> None:
    assert weights(SamplerCorrection(cap=math.inf)) == pytest.approx([0.25, 1.0, 3.0, 1.5])


def test_truncation_stops_at_the_cap() -> None:
    assert weights(SamplerCorrection()) == pytest.approx([0.25, 1.0, 2.0, 1.5])
    assert weights(SamplerCorrection(low=0.5)) == pytest.approx([0.5, 1.0, 2.0, 1.5])


def test_masking_takes_the_tokens_outside_the_band_out() -> None:
    assert weights(SamplerCorrection.icepop()) == pytest.approx([0.0, 1.0, 0.0, 1.5])


def test_a_sequence_has_the_product_of_its_tokens() -> None:
    assert weights(SamplerCorrection(level="sequence", cap=math.inf)) == pytest.approx([0.25, 0.25, 4.5, 4.5])
    assert weights(SamplerCorrection(level="sequence")) == pytest.approx([0.25, 0.25, 2.0, 2.0])


def test_the_geometric_mean_does_not_grow_with_the_length() -> None:
    root = math.sqrt(4.5)
    assert weights(SamplerCorrection(level="geometric", cap=math.inf)) == pytest.approx([0.5, 0.5, root, root])


# RATIOS: tokens 0.25, 1 and 3, 1.5; products 0.25 and 4.5; geometric means 0.5 and 2.12.
@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"level": "token"}, [False, True, False, True]),  # the bounds are one half and 2
        ({"level": "token", "low": 0.2}, [True, True, False, True]),
        ({"level": "token", "cap": 3.1, "low": 0.0}, [True, True, True, True]),
        ({"level": "sequence", "cap": 5.0}, [True, True, True, True]),
        ({"level": "sequence", "cap": 4.2}, [True, True, False, False]),
        ({"level": "geometric", "cap": 2.05}, [True, True, False, False]),
        ({"level": "geometric", "cap": 2.2, "veto": 0.3}, [False, False, True, True]),
        ({"level": "geometric", "cap": math.inf, "low": 0.6}, [False, False, True, True]),
    ],
)
def test_what_rejection_leaves_out(settings: dict[str, Any], kept: list[bool]) -> None:
    assert SamplerRejection(**settings)(batch(RATIOS))["token.keep.drift"].tolist() == kept


def test_a_token_that_nobody_drew_vetoes_nothing() -> None:
    origin = [Origin.expert, Origin.policy, Origin.policy, Origin.policy]
    part = SamplerRejection(cap=math.inf, veto=0.5)
    assert part(batch(RATIOS, origin))["token.keep.drift"].tolist() == [True] * 4


def test_a_token_that_nobody_drew_has_the_weight_one() -> None:
    origin = [Origin.expert, Origin.policy, Origin.copied, Origin.hint]
    assert weights(SamplerCorrection(), origin) == pytest.approx([1.0, 1.0, 2.0, 1.0])


@pytest.mark.parametrize("settings", [{"cap": 0.5}, {"low": 2.0}, {"outside": "drop"}, {"level": "turn"}])
def test_bounds_that_exclude_equal_policies_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(PodiumError):
        SamplerCorrection(**settings)


def test_under_top_p_sampler_and_trainer_score_what_was_kept() -> None:
    """As sampled, π_old / π_sampler is 1: both are over the tokens that the truncation left."""
    method = methods.get("grpo", n=4).with_(rollout=Sample(n=4, draw=Draw(top_p=0.5)))
    run = build_run(small(method))
    groups = run.driver.collect([method.rollout.plan(r) for r in run.requests(run.begin(), 2)])
    made = Batch.from_rollouts([r for g in groups for r in g])
    w = run.apply([SamplerCorrection(cap=math.inf)], made)[W]
    assert (w - 1).abs().max() < 1e-4
    assert abs(float(w.double().mean()) - 1) < 1e-5
    assert min(len(sets) for sets in made["rollout.allowed"]) > 0
    whole = run.apply([SamplerCorrection(cap=math.inf)], made.without(["token.allowed"]))[W]
    assert whole.min() < 0.95  # without the sets it would be the probability mass that was kept


@pytest.mark.parametrize(
    "draw",
    [
        Draw(top_p=0.8),
        Draw(top_k=2, temperature=0.7),
        Draw(top_k=3, top_p=0.6),
        Draw(warmth=Warmth(0.3, -1.0, 0.5, 0.5)),
    ],
)
def test_in_a_run_truncation_is_no_drift(draw: Draw) -> None:
    method = methods.get("grpo", n=4, kl=0.0, mini_batches=1).with_(
        rollout=Sample(n=4, draw=draw), shape=SamplerCorrection(cap=math.inf)
    )
    batch, line = iterate(build_run(small(method, world="sums", level=3)))
    assert batch[W] == pytest.approx(torch.ones(len(batch[W])), abs=1e-4)
    assert line["weight.importance"] == pytest.approx(1.0, abs=1e-4)
    assert line["sampler_gap"] < 1e-5


def test_a_run_reports_the_mean_weight(tmp_path: Path) -> None:
    plain = train(small(iterations=2), out=tmp_path / "plain")
    method = load("grpo", ["n=4", "shape.SamplerCorrection.cap=3"], ["SamplerCorrection"])
    assert method.shape == (SamplerCorrection(cap=3),)
    result = train(small(method, iterations=2), out=tmp_path / "run")
    assert result.metrics[1]["weight.importance"] == pytest.approx(1.0, abs=1e-4)
    assert result.metrics[1]["loss"] == pytest.approx(plain.metrics[1]["loss"], abs=1e-5)


def test_a_part_is_typed_with_its_settings_as_in_yaml() -> None:
    method = load("grpo", [], ["SamplerCorrection: {level: sequence, cap: 5}"])
    assert method.shape == (SamplerCorrection(level="sequence", cap=5),)
    with pytest.raises(PodiumError, match="'SamplerCorrection'"):
        load("grpo", [], ["SamplerCorection"])
