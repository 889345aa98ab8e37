"""Labs: small experiments with a table, a figure and a verdict."""

from __future__ import annotations

import dataclasses
import json
import re
import xml.etree.ElementTree as xml
from collections.abc import Sequence
from pathlib import Path

import pytest

import podium
from podium.cli import main
from podium.labs import LABS, Lab
from podium.labs.lab import BASE_LABEL, LabFindings

Capture = pytest.CaptureFixture[str]
TINY = {"iterations": 2, "tasks": 2, "n": 4, "seeds": 2, "points": 1, "eval_tasks": 3, "samples": 4}


def figures(page: Path) -> list[xml.Element]:
    return [xml.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def leash(tmp_path_factory: pytest.TempPathFactory) -> LabFindings:
    found = podium.lab("invisible-leash", out=tmp_path_factory.mktemp("leash"), **TINY)
    assert isinstance(found, LabFindings)
    return found


@pytest.mark.parametrize(
    "slug", [slug for slug, made in LABS.items() if isinstance(made, Lab) and slug != "invisible-leash"]
)
def test_every_lab_has_figures_and_numbers(slug: str, tmp_path: Path) -> None:
    found = podium.lab(slug, out=tmp_path, **{**TINY, "seeds": 1})
    assert isinstance(found, LabFindings)
    assert_complete(found)


def test_the_leash_has_figures_and_numbers(leash: LabFindings) -> None:
    assert_complete(leash)


def assert_complete(found: LabFindings) -> None:
    drawn = figures(found.path / "lab.html")
    assert len(drawn) == len(found.study.charts)
    for figure in drawn:
        texts = [t.text for t in figure.iter() if t.tag == "text"]
        assert len(texts) >= 4  # a title, ticks and the unit of the axis
        assert "nan" not in xml.tostring(figure, encoding="unicode")
    page = (found.path / "lab.html").read_text(encoding="utf-8")
    assert "src=" not in page
    assert "<link" not in page
    table = json.loads((found.path / "lab.json").read_text())["table"]
    assert list(table) == [BASE_LABEL, *found.study.arms]
    for reading in table[BASE_LABEL]:
        measures = [table[arm][reading] for arm in found.study.arms if table[arm][reading] is not None]
        assert measures  # some readings are of what one arm alone has
        assert all(m["low"] <= m["mean"] <= m["high"] for m in measures)


def test_the_same_lab_gives_the_same_numbers(leash: LabFindings, tmp_path: Path) -> None:
    again = podium.lab("invisible-leash", out=tmp_path, **TINY)
    assert again.as_dict() == leash.as_dict()


def test_all_arms_begin_as_the_same_model(leash: LabFindings) -> None:
    for first, second in zip(*leash.points.values(), strict=True):
        assert first[0] == second[0]
        assert first[0].tally.tasks == second[-1].tally.tasks


def test_a_finished_lab_is_not_run_again(leash: LabFindings) -> None:
    runs: Sequence[Path] = sorted(leash.path.glob("*/seed-*/metrics.jsonl"))
    before = [file.read_bytes() for file in runs]
    again = podium.lab("invisible-leash", out=leash.path, **TINY)
    assert again.as_dict() == leash.as_dict()
    assert [file.read_bytes() for file in runs] == before


def test_another_size_needs_another_place(leash: LabFindings) -> None:
    with pytest.raises(podium.PodiumError, match=r"other settings.*--out"):
        podium.lab("invisible-leash", out=leash.path, **{**TINY, "samples": 5})


def test_one_seed_decides_nothing(leash: LabFindings) -> None:
    alone = LabFindings(
        leash.study, leash.size.replace(seeds=1), leash.path, {k: v[:1] for k, v in leash.points.items()}
    )
    assert {v.word for v in alone.verdicts()} == {"undecided (one seed)"}


def test_the_base_has_lost_and_won_nothing(leash: LabFindings) -> None:
    labels = [leash.label(r) for r in leash.study.readings]
    base = dict(zip(labels, leash.table()[0][1], strict=True))
    assert base["net change@4"] is not None
    assert base["net change@4"].mean == 0.0


# -- as typed ----------------------------------------------------------------------------------------------------------


def test_labs_are_listed(capsys: Capture) -> None:
    assert main(["lab"]) == 0
    assert [row.split()[0] for row in capsys.readouterr().out.splitlines()[1:]] == list(LABS)


def test_a_typed_lab_says_what_was_found(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = LABS["clip-cov-kl-cov"]
    assert isinstance(made, Lab)
    monkeypatch.setitem(LABS, made.slug, dataclasses.replace(made, quick=made.quick.replace(**TINY)))
    assert main(["lab", made.slug, "--quick", "--seeds", "1", "--out", str(tmp_path / "x")]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^kl-cov +[\d.]+ \[", out, re.MULTILINE)
    assert "Found: " in out
    assert "The paper says that " in out
    assert (tmp_path / "x" / "lab.html").is_file()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("invisible-leesh", "There is no lab 'invisible-leesh'. Did you mean 'invisible-leash'?"),
        ("grpo", "There is no lab 'grpo'."),
        ("invisible-leash --seeds 0", "Size.seeds = 0 is out of range"),
        ("invisible-leash --quick --out /proc/nowhere/x", "could not be written"),
        ("invisible-leash --seeds many", "valid integer"),
    ],
)
def test_bad_input_is_one_line(capsys: Capture, line: str, words: str) -> None:
    assert main(["lab", *line.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_a_size_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(podium.PodiumError, match="sampels"):
        podium.lab("lite-ppo", out=tmp_path, sampels=3)
