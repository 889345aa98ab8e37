"""Trials: experiments without training, with the tables, verdicts and pages of labs."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import podium
from podium.cli import main
from podium.labs import LABS, Claim, Quantity, StudySize, Trial
from podium.labs.charts import traced
from podium.labs.trial import TrialFindings

ERROR = Quantity("error", "squared error", (0.0, np.inf))
Made = dict[str, np.ndarray]
Capture = pytest.CaptureFixture[str]


class Draws(StudySize):
    draws: int = 50


def average(seed: int, size: Draws) -> Made:
    """The mean of the draws."""
    x = np.random.default_rng(seed).standard_normal((20, size.draws))
    return {"error": x.mean(1) ** 2, "number": np.arange(3.0), "curve": np.arange(3.0) + seed}


def first(seed: int, size: Draws) -> Made:
    x = np.random.default_rng(seed).standard_normal((20, size.draws))
    return {"error": x[:, 0] ** 2}


MEANS = Trial(
    "means",
    "Is the mean of many draws nearer to the truth than the first of them?",
    arms={"mean": average, "first": first},
    claims=(Claim("the mean is nearer", ERROR, "first", "mean"), Claim("it is not", ERROR, "mean", "first")),
    readings=(ERROR,),
    charts=(traced("curve", over="number", title="curve", x_label="number"),),
    notes=(lambda found: f"there are {len(found.values)} arms",),
    size=Draws(seeds=6),
    quick=Draws(seeds=3, draws=10),
)


def run(place: Path, trial: Trial = MEANS, **size: int) -> TrialFindings:
    found = podium.lab(trial, out=place, **size)
    assert isinstance(found, TrialFindings)
    return found


def test_a_trial_has_a_table_verdicts_and_a_page(tmp_path: Path) -> None:
    found = run(tmp_path)
    assert [v.word for v in found.verdicts()] == ["agrees", "does not agree"]
    assert [name for name, _ in found.table()] == ["mean", "first"]
    page = (tmp_path / "lab.html").read_text(encoding="utf-8")
    assert "squared error" in page
    assert "The mean of the draws." in page  # what the arm is
    assert page.count("<svg") == 1
    data = json.loads((tmp_path / "lab.json").read_text())
    assert data["claims"][0]["verdict"] == "agrees"
    assert data["notes"] == ["there are 2 arms"]
    assert data["size"] == {"seeds": 6, "draws": 50}


def test_differences_are_paired_by_seed_and_element(tmp_path: Path) -> None:
    shifted = dataclasses.replace(
        MEANS, arms={"mean": lambda s, z: {"error": first(s, z)["error"] + 0.01}, "first": first}
    )
    gap = run(tmp_path, shifted).difference(ERROR, "mean", "first")
    assert (gap.mean, gap.low, gap.high) == pytest.approx((0.01, 0.01, 0.01))


def test_a_curve_has_a_band_over_seeds(tmp_path: Path) -> None:
    trace = run(tmp_path, seeds=2).trace("curve", "mean")
    assert [m.mean for m in trace] == [0.5, 1.5, 2.5]
    assert all(m.low < m.mean < m.high for m in trace)


def test_an_interrupted_trial_goes_on_where_it_stopped(tmp_path: Path) -> None:
    calls: list[tuple[str, int]] = []

    def stops(seed: int, size: Draws) -> Made:
        calls.append(("first", seed))
        if seed == 1 and len(calls) == 4:
            raise KeyboardInterrupt
        return first(seed, size)

    def counts(seed: int, size: Draws) -> Made:
        calls.append(("mean", seed))
        return average(seed, size)

    trial = dataclasses.replace(MEANS, arms={"mean": counts, "first": stops})
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, trial, seeds=2)
    calls.append(("again", 0))
    found = run(tmp_path, trial, seeds=2)
    assert calls == [("mean", 0), ("first", 0), ("mean", 1), ("first", 1), ("again", 0), ("first", 1)]
    whole = run(tmp_path / "whole", seeds=2)
    assert found.as_dict() == whole.as_dict()


def test_more_seeds_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    run(tmp_path, seeds=2)
    before = (tmp_path / "seed-1.json").read_bytes()
    assert run(tmp_path, seeds=3).as_dict() == run(tmp_path / "other", seeds=3).as_dict()
    assert (tmp_path / "seed-1.json").read_bytes() == before


def test_another_size_needs_another_place(tmp_path: Path) -> None:
    run(tmp_path, seeds=2)
    with pytest.raises(podium.PodiumError, match=r"other settings.*--out"):
        run(tmp_path, seeds=2, draws=51)
    with pytest.raises(podium.PodiumError, match=r"other settings.*--out"):
        run(tmp_path, dataclasses.replace(MEANS, slug="others"), seeds=2)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    run(tmp_path, seeds=2)
    (tmp_path / "seed-1.json").write_text("{")
    with pytest.raises(podium.PodiumError, match=r"seed-1.json is damaged. Delete it"):
        run(tmp_path, seeds=2)


def raises(seed: int, size: Draws) -> Made:
    if seed == 1:
        raise ZeroDivisionError("nothing to divide by")
    return average(seed, size)


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        (raises, r"means: the arm 'mean' with seed 1 failed: ZeroDivisionError: nothing to divide by"),
        (lambda s, z: {"regret": [0.0]}, r"the arm 'mean' with seed 0 returned no 'error', only regret"),
        (lambda s, z: {"error": [np.nan] * 20}, r"the arm 'mean' with seed 0 returned a 'error' that is not finite"),
        (lambda s, z: {"error": [0.0] * 19}, r"'error' has the shapes \(19,\), \(20,\)"),
    ],
)
def test_what_goes_wrong_is_one_sentence(arm: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(podium.PodiumError, match=words):
        run(tmp_path, dataclasses.replace(MEANS, arms={"mean": arm, "first": first}))


def test_a_claim_names_arms_that_there_are() -> None:
    with pytest.raises(podium.PodiumError, match=r"means: the claim that it is nearer is about 'frist'.*'first'"):
        dataclasses.replace(MEANS, claims=(Claim("it is nearer", ERROR, "frist", "mean"),))


def test_a_typed_trial_says_what_was_found(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LABS, MEANS.slug, MEANS)
    assert main(["lab", "means", "--quick", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^mean, seed 2: [\d.]+ s$", out, re.MULTILINE)
    assert re.search(r"^first +[\d.]+ \[", out, re.MULTILINE)
    assert "The paper says that the mean is nearer: agrees; that it is not: does not agree." in out
    assert main(["lab", "means", "--quick", "--seeds", "0", "--out", str(tmp_path)]) == 2
    assert "Draws.seeds = 0 is out of range" in capsys.readouterr().err


TRIALS: Mapping[str, Trial] = {slug: study for slug, study in LABS.items() if isinstance(study, Trial)}


@pytest.mark.parametrize("slug", TRIALS)
def test_the_file_of_a_study_is_its_slug(slug: str) -> None:
    assert TRIALS[slug].slug == slug


def test_processes_share_the_seeds_of_a_study(tmp_path: Path) -> None:
    shared = podium.lab("policy-cliff", out=tmp_path / "shared", quick=True, seeds=2, jobs=2)
    alone = podium.lab("policy-cliff", out=tmp_path / "alone", quick=True, seeds=2)
    assert shared.as_dict() == alone.as_dict()
    with pytest.raises(podium.PodiumError, match="a study that is named"):
        podium.lab(MEANS, out=tmp_path / "own", jobs=2)
