"""GF-Screen: does a gate that is rewarded by what a segmenting network finds screen better than one taught labels?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from podium.core.build import Rollout
from podium.evaluation.resample import Array
from podium.labs.findings import Claim, StudySize
from podium.labs.network_runs import held_out_rollouts, trained_run
from podium.labs.trial import Quantity, Trial, TrialFindings
from podium.methods import get
from podium.report.chart import Series, chart
from podium.worlds.scans import Scans

__all__ = ["STUDY", "ScreenSize"]

DICE = Quantity("dice", "Dice", (0.0, 1.0))
KEPT = Quantity("kept", "crops kept", (0.0, 1.0))
THRICE = Quantity("thrice", "crops kept, three times those of gates")
FALSE = Quantity("false", "false voxels per scan")
LEVEL = 1


class ScreenSize(StudySize):
    """How long gates are trained, and on how many scans they are tried."""

    seeds: int = 6
    iterations: int = 24
    tasks: int = 8
    eval_tasks: int = 80


def _gated(name: str, seed: int, size: ScreenSize) -> Mapping[str, Array]:
    """A gate as it is trained by the method, which keeps a crop where that is likelier than not."""
    sizes = {"iterations": size.iterations, "tasks": size.tasks, "level": LEVEL}
    with trained_run(get(name), seed, world="scans", model="podium/chooser", **sizes) as run:
        groups = held_out_rollouts(run, size.eval_tasks, 1, temperature=0.0)
    return _measured([group[0] for group in groups], times=3)


def _measured(rollouts: list[Rollout], times: int) -> Mapping[str, Array]:
    kept = np.array([float(r.columns["kept"]) for r in rollouts])
    found = {name: np.array([float(r.columns[of]) for r in rollouts]) for name, of in COLUMNS.items()}
    return {**found, "kept": kept, "thrice": times * kept}


def _everything(seed: int, size: ScreenSize) -> Mapping[str, Array]:
    """No gate: the segmenting network sees all crops."""
    world = Scans(level=LEVEL)
    info = []
    for number in range(size.eval_tasks):
        task = world.task(number, "test")
        episode = world.reset(task)
        last = [episode.act("1") for _ in task.data["glance"]][-1]
        info.append({**last.info, "reward": last.reward})
    found = {name: np.array([float(x[of]) for x in info]) for name, of in COLUMNS.items()}
    return {**found, "kept": np.ones(len(info)), "thrice": np.ones(len(info))}


COLUMNS = {"dice": "reward", "false": "false"}
BOTH, REWARDED, SUPERVISED, OPEN = "rewards and labels", "rewards alone", "labels alone", "no gate"


def _traded(findings: TrialFindings) -> str:
    """Dice over the share of crops that the segmenting network sees, a dot for each seed."""
    series = []
    for arm, seeds in findings.values.items():
        dots = [(float(v["kept"].mean()), float(v["dice"].mean())) for v in seeds]
        series.append(Series(arm, [x for x, _ in dots], [y for _, y in dots], style="dots"))
    return chart("Dice of held-out scans", series, x_label="share of crops that are segmented")


STUDY = Trial(
    "gf-screen",
    "Does a gate that is rewarded by what a segmenting network finds screen better than one that is taught labels?",
    arms={
        BOTH: partial(_gated, "gf-screen"),
        REWARDED: partial(_gated, "gf-screen@rewarded"),
        SUPERVISED: partial(_gated, "gf-screen@supervised"),
        OPEN: _everything,
    },
    claims=(
        Claim("a third of the crops or fewer are segmented", THRICE, OPEN, BOTH),
        Claim("Dice is above that without a gate", DICE, BOTH, OPEN),
        Claim("Dice is above that of a gate that is taught labels alone", DICE, BOTH, SUPERVISED),
        Claim("fewer voxels are marked falsely than with labels alone", FALSE, SUPERVISED, BOTH),
    ),
    readings=(DICE, KEPT, FALSE, THRICE),
    charts=(_traded,),
    size=ScreenSize(),
    quick=ScreenSize(seeds=3, iterations=8, eval_tasks=30),
)
