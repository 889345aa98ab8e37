"""The code of a run that stands in the script or the notebook which starts it, saved beside the run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from podium.core.errors import PodiumError
from podium.core.named_code import load_source
from podium.core.script_code import MAIN, definitions, script_source
from podium.core.serial import code_names, encode
from podium.store.files import atomic_text
from podium.training.config import Config
from podium.worlds.rewarding import reward_specs

__all__ = ["save_code"]


def save_code(config: Config, run: Path) -> Config:
    """The configuration with code of the script that is being run named by a copy, RUN.code/SCRIPT.py; refuses code
    that could not be found again. Without such code it stays as it is, and nothing is written."""
    main = sys.modules[MAIN]
    classes = [cls for cls in vars(main).values() if isinstance(cls, type) and cls.__module__ == MAIN]
    named = {name.rpartition(":")[2] for name in code_names(encode(config))}
    used = [cls for cls in classes if cls.__qualname__ in named]
    settings = dict(config.world_settings or {})
    rewards = [key for key, value in settings.items() if key.rpartition(".")[2] == "reward_functions" and value]
    functions = [
        spec.code.partition(":")[2] for key in rewards for spec in reward_specs(settings[key]) if _own(spec.code)
    ]
    if not used and not functions:
        return config
    source = script_source()
    if not source:
        raise PodiumError(
            f"{(*functions, *(cls.__name__ for cls in used))[0]} is defined where no other process can find it. Put it "
            "into a file, and name it: my_file.py:NAME."
        )
    stem = Path(getattr(main, "__file__", None) or "notebook").stem
    file = run.with_name(f"{run.name}.code") / f"{stem}.py"
    text = definitions(source, [*functions, *(cls.__name__ for cls in used)])
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic_text(file, f"# What the run {run.name} uses of {stem}, saved when it began.\n\n{text}")
    load_source(str(file))  # what cannot be loaded now could not be later
    for cls in used:
        cls.__podium_source__ = str(file)  # type: ignore[attr-defined]
    for key in rewards:
        settings[key] = _renamed(settings[key], str(file))
    return config.replace(world_settings=settings) if rewards else config


def _own(code: str) -> bool:
    return code.startswith(f"{MAIN}:")


def _renamed(names: Any, file: str) -> tuple[str, ...]:
    """Reward functions with the script in the place of `__main__`."""
    listed = (names,) if isinstance(names, str) else names
    return tuple(file + name.removeprefix(MAIN) if _own(name) else name for name in listed)
