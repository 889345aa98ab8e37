"""What can be refused before a model is loaded, or even before torch is imported: names, files, places, devices."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from podium.cli.overrides import catalogue_entry, split_change
from podium.core.errors import PodiumError, nearest
from podium.docs.catalogue_text import read_catalogue
from podium.store.json_lines import objects
from podium.training.preflight import check_resources

if TYPE_CHECKING:
    from podium.training.config import Config

__all__ = ["check_config", "check_setting_names", "check_typed", "check_world_file"]

DATA_FILES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
FIRST_ROWS = 1000  # of a file of JSON lines that are looked at before torch is imported


def check_typed(
    methods: Sequence[str] = (),
    *,
    out: Path | None = None,
    world: str | None = None,
    device: str | None = None,
    model: str | None = None,
) -> None:
    """Refuse misspelt methods, a directory that cannot be written, and files, devices or models that are not there."""
    for method in methods:
        catalogue_entry(method)
    check_resources(out=Path("runs") if out is None else out, device=device, model=model)
    check_world_file(world)


def check_setting_names(method: str, changes: Sequence[str]) -> None:
    """Refuse a setting that neither the recipe nor the run nor the optimiser has; those of parts are checked with the
    parts, which need torch."""
    catalogue, entry = read_catalogue(), catalogue_entry(method)
    for path in [split_change(change)[0] for change in changes]:
        head, _, name = path.partition(".")
        if head == "optimizer" and name and name not in catalogue.optimizer_settings:
            raise PodiumError(f"Optimizer has no setting {name!r}. {nearest(name, catalogue.optimizer_settings)}")
        if entry is None or name or path in (*entry.arguments, *catalogue.run_settings):
            continue
        if path in catalogue.optimizer_settings:
            raise PodiumError(f"--set {path}: write optimizer.{path}.")
        if path in catalogue.world_settings:
            raise PodiumError(f"--set {path}: write world.{path}.")
        problem = f"Neither the recipe {method!r} nor the run has a setting {path!r}."
        raise PodiumError(f"{problem} {nearest(path, [*entry.arguments, *catalogue.run_settings])}")


def check_config(config: Config) -> None:
    """Refuse a device that is not there, a world that cannot be made, and a method that cannot run on it."""
    from podium import worlds
    from podium.training.preflight import check_fit
    from podium.worlds.names import names_code

    _ = config.precision  # which looks for the device
    name = config.world
    if not isinstance(name, str) or name.partition(":")[0] in worlds.BRIDGES or names_code(name):
        return  # bridges are slow to open, and users' worlds run in other processes: only the run opens them
    with closing(worlds.get(name, **(config.world_settings or {}))) as world:
        check_fit(config.method, world, name)


def check_world_file(world: str | None) -> None:
    """Refuse `jsonl:FILE` and `FILE.py:MyWorld` if there is no such file, or if it does not begin with JSON lines; and
    `data:FILE` if FILE has the name of a file and is not there."""
    kind, _, rest = (world or "").partition(":")
    own = kind == "jsonl" or (kind == "data" and Path(rest).suffix.lower() in DATA_FILES and not Path(rest).is_dir())
    file = rest if own else kind if kind.endswith(".py") and rest else ""
    if file and not Path(file).is_file():
        raise PodiumError(f"There is no file {file!r} (looked in {Path.cwd()}).")
    if kind == "jsonl":
        for _ in islice(objects(file), FIRST_ROWS):
            pass  # which raises where a line is no object; the world reads the rest
