"""The doctor: what is wrong with a run, by its directory, and while it goes on by each new line of metrics."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from podium.analysis.health import Course, Diagnosis, Machine, RunSetting, diagnose, diagnose_seeds
from podium.store.metrics_log import read_log
from podium.store.run_directory import RunDirectory
from podium.training.config import Config
from podium.training.stored_config import stored_config

__all__ = ["Watch", "examine_runs", "history_of"]

CGROUP = Path("/sys/fs/cgroup")
SAID = ("world-fails",)  # what a run says by itself while it goes on


def examine_runs(runs: Sequence[Path | str]) -> dict[str, list[Diagnosis]]:
    """By run, what is wrong with it; of several runs with different seeds also which of them is set apart."""
    courses = {str(run): history_of(run) for run in runs}
    apart = diagnose_seeds(list(courses.values()))
    return {
        run: [*diagnose(course), *([apart[course.setting.run]] if course.setting.run in apart else [])]
        for run, course in courses.items()
    }


def history_of(run: Path | str) -> Course:
    """The course of a run, read from its directory; no code that it names is executed."""
    directory = RunDirectory(run)
    config = stored_config(directory, leave_out=("method", "world")).config
    lines = read_log(directory.metrics_file).lines
    done = max((int(line["iteration"]) for line in lines), default=0)
    machine = machine_of(directory.path, done) if done < (config.iterations or 0) else Machine()
    return Course(lines, setting_of(config, directory.path), machine)


def setting_of(config: Config, path: Path) -> RunSetting:
    """What rules read of a configuration."""
    level = (config.world_settings or {}).get("level")
    return RunSetting(
        run=str(path),
        method=config.method.name,
        world=config.world if isinstance(config.world, str) else config.world.name,
        level=level if isinstance(level, int) else None,
        iterations=int(config.iterations or 0),
        tasks=int(config.tasks or 0),
        lr=float(config.optimizer.lr or 0.0),
        max_tokens=int(config.max_tokens or 0),
        eval_tasks=config.eval_tasks,
        eval_samples=config.eval_samples,
        gap_allowed=config.gap_allowed,
        seed=config.seed,
    )


class Watch:
    """Looks at a run after each iteration, and tells what is wrong as soon as it is, each illness once."""

    def __init__(self, config: Config, path: Path, lines: Sequence[Mapping[str, Any]], tell: Callable[[str], None]):
        self.setting, self.path, self.tell = setting_of(config, path), path, tell
        self.lines = list(lines)
        self.told: set[str] = set(SAID)

    def __call__(self, line: Mapping[str, Any]) -> None:
        self.lines.append(line)
        course = Course(self.lines, self.setting, machine_of(self.path, int(line["iteration"])))
        for found in diagnose(course):
            if found.rule not in self.told:
                self.told.add(found.rule)
                self.tell(f"Iteration {line['iteration']}, {found.text}")


def machine_of(path: Path, iterations: int) -> Machine:
    """What is left on this machine for a run that has done so many iterations."""
    disk = None
    with suppress(OSError):
        disk = shutil.disk_usage(path).free
    free, total = _memory()
    gpu_free, gpu_total = _gpu_memory()
    written = _written(path / "rollouts") / iterations if iterations else 0.0
    return Machine(disk, written, free, total, gpu_free, gpu_total)


def _written(folder: Path) -> int:
    with suppress(OSError):
        return sum(entry.stat().st_size for entry in os.scandir(folder))
    return 0


def _memory() -> tuple[int | None, int | None]:
    """Free and total memory: of the container, where it has a limit, or of the machine."""
    with suppress(OSError, ValueError):
        limit = int((CGROUP / "memory.max").read_text())
        statistics = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        used = int((CGROUP / "memory.current").read_text()) - int(statistics.get("inactive_file", 0))
        return limit - used, limit
    with suppress(OSError, ValueError, KeyError):
        lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        kilobytes = {words[0].rstrip(":"): int(words[1]) for words in lines}
        return 1024 * kilobytes["MemAvailable"], 1024 * kilobytes["MemTotal"]
    return None, None


def _gpu_memory() -> tuple[int | None, int | None]:
    """What torch can still take of the GPU that this process uses, with what it holds in reserve."""
    import torch

    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return None, None
    free, total = torch.cuda.mem_get_info()
    return free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated(), total
