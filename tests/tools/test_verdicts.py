"""Seeds of several studies on the cores of one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from podium.labs import LABS
from tools import verdicts

STUDY = "policy-cliff"  # which takes a second


def test_all_that_is_named_is_a_study() -> None:
    assert set(verdicts.STUDIES) <= set(LABS)


def test_seeds_are_shared_kept_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [str(tmp_path), STUDY, "--quick", "--jobs", "2", "--minutes", "2"]
    verdicts.main([*command, "--seeds", "2"])
    said = capsys.readouterr().out
    assert "0 of 2 seeds are complete" in said
    assert said.count("done") == 2
    rows = [line for line in (tmp_path / "verdicts.md").read_text().splitlines() if STUDY in line]
    assert len(rows) == len(LABS[STUDY].claims)
    assert all("| 2 |" in row for row in rows)
    verdicts.main([*command, "--seeds", "2"])
    assert "2 of 2 seeds are complete" in capsys.readouterr().out


def test_nothing_begins_when_the_time_is_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts.main([str(tmp_path), STUDY, "--quick", "--minutes", "0"])
    assert STUDY not in (tmp_path / "verdicts.md").read_text()
    assert "done" not in capsys.readouterr().out


def test_a_study_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"There is no lab 'policy-clif'\. Did you mean 'policy-cliff'"):
        verdicts.main([str(tmp_path), "policy-clif"])
