"""The battery passes on every part of Podium, and catches parts that are wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from podium.testing import BatteryFailed, check, examine, finite, registered_parts
from podium.testing.__main__ import main
from podium.testing.bench import Bench
from podium.testing.report import GROUPS
from tests.testing import planted


@pytest.mark.parametrize("part", registered_parts(), ids=lambda part: part.__name__)
def test_part_passes_the_battery(part: type) -> None:
    check(part)


def test_bases_are_not_parts_and_memories_are() -> None:
    names = {part.__name__ for part in registered_parts()}
    assert {"Normalize", "PolicyGradient", "SuccessTracker", "Updates", "Sample", "Uncertain"} <= names
    assert not {"Part", "Advantage", "Term", "Memory", "Strategy", "Clip", "Aggregate", "Normalizer", "Method"} & names


FAULTS = [
    (planted.FirstRowWins, "order", "depends on the order of the rows"),
    (planted.GroupNumber, "order", "depends on how the groups are numbered"),
    (planted.PaddingInMean, "order", "padding changes the result"),
    (planted.PerMicroBatch, "order", "shows how an update is split"),
    (planted.LosesRollouts, "order", "trains a token 2 times in 4 passes"),
    (planted.LeaksIntoTheWorld, "mask", "which is not trained"),
    (planted.LiveWeight, "mask", "a gradient flows through 'token.weight.importance'"),
    (planted.CountsTheRecorded, "mask", "a rollout that is only recorded has an influence"),
    (planted.CountsTheDropped, "mask", "a rollout that is not kept still counts"),
    (planted.NoEpsilon, "finite", "'rollout.advantage' is nan on 'one rollout in each group'"),
    (planted.SquaresInFloat32, "finite", "is off by 100% of its largest value in float32 on 'rewards around ±1e30'"),
    (planted.UnboundedRatio, "finite", "is inf in float32 on 'log-ratios of ±1e4', and `overflows` does not say why"),
    (planted.NeedsTokens, "finite", "with ZeroDivisionError"),
    (planted.DetachedByHand, "gradient", "finite differences give"),
    (planted.InertKnob, "settings", "InertKnob: inert setting 'bonus'"),
    (planted.BrokenOption, "settings", "BrokenOption(how='median') fails with KeyError"),
    (planted.NeverReads, "contract", "declares the need 'token.old.entropy', but never reads it"),
    (planted.OtherName, "contract", "promises 'rollout.advantage', which it does not return"),
    (planted.CouplesInSecret, "contract", "declares that it couples 'token', but a change shows across the rollout"),
    (planted.CouplesNothing, "contract", "declares that it couples 'group', but no change shows beyond the token"),
    (planted.Unhashable, "value", "cannot be hashed"),
    (planted.PrintsNonsense, "value", "which cannot be evaluated"),
    (planted.KeepsObjects, "value", "has a state that cannot be saved"),
    (planted.ChangesInPlace, "value", "changes its state in place"),
    (planted.RemembersElsewhere, "value", "goes on differently after its state was saved and loaded"),
]


def test_what_is_declared_to_overflow_does() -> None:
    bench = Bench()
    declared = [part for part in registered_parts() if getattr(part, "overflows", "")]
    assert declared
    for part in declared:
        silent = type(part.__name__, (part,), {"overflows": ""})
        with_defaults = finite.extreme_input_gives_the_numbers_of_float64(silent(), bench)
        failures = [with_defaults] if with_defaults else examine(silent).failures
        assert any("`overflows` does not say why" in failure for failure in failures), part


@pytest.mark.parametrize(("part", "group", "reason"), FAULTS, ids=lambda x: getattr(x, "__name__", None))
def test_planted_fault_is_found_in_its_group(part: type, group: str, reason: str) -> None:
    report = examine(part)
    assert not report.passed[group]
    assert any(reason in failure for failure in report.failures), report.failures


def test_every_group_has_a_planted_fault() -> None:
    assert {group for _, group, _ in FAULTS} == set(GROUPS)


def test_an_undeclared_column_is_named() -> None:
    (failure,) = examine(planted.ReadsInSecret).failures
    assert "reads 'rollout.style', which is not in its needs" in failure


def test_a_column_that_every_batch_has_need_not_be_declared() -> None:
    assert examine(planted.GroupsInSecret).passed["contract"]


def test_a_fault_in_one_group_does_not_spill_into_the_others() -> None:
    report = examine(planted.InertKnob)
    assert [group for group, passed in report.passed.items() if not passed] == ["settings"]


def test_a_sound_term_passes() -> None:
    check(planted.Sequence_())


def test_a_part_with_required_settings_starts_from_its_examples() -> None:
    check(planted.Needy)
    check(planted.NeedyWithoutExamples(scale=2.0))
    assert "examples()" in examine(planted.NeedyWithoutExamples).failures[0]


def test_check_raises_with_the_reasons() -> None:
    with pytest.raises(BatteryFailed, match="inert setting 'bonus'"):
        check(planted.InertKnob())


def test_an_inert_setting_can_be_given_values_that_matter() -> None:
    assert not examine(planted.Picky).ok
    check(planted.Picky, alternatives={"word": ["magic"]})


def test_columns_that_need_care_can_be_drawn_by_hand() -> None:
    assert "rollout.style" in examine(planted.ByStyle).failures[0]
    check(planted.ByStyle, columns={"rollout.style": lambda draw, name, n: draw.text(name, n, 2)})


USERS_FILE = '''
from podium import Advantage


class Centred(Advantage):
    """A = scale · (x − mean of the group), x any column of the rollouts."""

    of: str = "rollout.reward"
    scale: float = 1.0
    provides = ("rollout.advantage",)

    @property
    def needs(self):
        return (self.of,)

    def __call__(self, batch):
        return {"rollout.advantage": self.scale * batch.by("rollout", "group").centre(batch[self.of])}
'''


def test_a_users_file_passes_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "my_file.py").write_text(USERS_FILE)
    assert len(USERS_FILE.strip().splitlines()) <= 20
    command = [sys.executable, "-m", "podium.testing", "my_file.py:Centred"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("Centred ")
    assert "total: 1/1 parts passed" in done.stdout


def test_a_failure_is_told_and_the_exit_code_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(USERS_FILE.replace("self.scale * ", "").replace("Centred", "Careless"))
    assert main([f"{wrong}:Careless"]) == 1
    printed = capsys.readouterr().out
    assert "SETTINGS!" in printed
    assert "Careless: inert setting 'scale'" in printed


def test_a_misspelt_part_gets_its_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Normalise"]) == 1
    assert "Normalize" in capsys.readouterr().err
