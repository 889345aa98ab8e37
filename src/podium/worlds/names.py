"""Worlds by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from podium.core.errors import PodiumError, nearest
from podium.core.serial import load_class
from podium.protocols.world import World
from podium.worlds.badges import Badges
from podium.worlds.calculator import Calculator
from podium.worlds.carry import Carry
from podium.worlds.cases import Cases
from podium.worlds.clarify import Clarify
from podium.worlds.clips import Clips
from podium.worlds.code import Code
from podium.worlds.code_file import CodeFile
from podium.worlds.countdown import Countdown
from podium.worlds.dataset import Dataset
from podium.worlds.debates import EvidenceWorld
from podium.worlds.digits import Digits
from podium.worlds.dilemma import Dilemma
from podium.worlds.drawing import Drawing
from podium.worlds.echo import Echo
from podium.worlds.graded import Graded
from podium.worlds.gym import Gym
from podium.worlds.jsonl import Jsonl
from podium.worlds.judge import Judged
from podium.worlds.keydoor import KeyDoor
from podium.worlds.lookup import Lookup
from podium.worlds.lookup_folder import LookupFolder
from podium.worlds.mix import Mix
from podium.worlds.opinions import Opinions
from podium.worlds.picture import Codebook
from podium.worlds.rewarding import reward_specs
from podium.worlds.routes import Routes
from podium.worlds.rules import Rules
from podium.worlds.scans import Scans
from podium.worlds.scenes import Scenes
from podium.worlds.scienceworld import ScienceWorld
from podium.worlds.shop import Shop
from podium.worlds.sorting import Sorting
from podium.worlds.spiel import Spiel
from podium.worlds.sums import Sums
from podium.worlds.team import TeamWorld
from podium.worlds.textworld import TextWorld
from podium.worlds.tools import Tools
from podium.worlds.trips import Trips
from podium.worlds.vault import Vault
from podium.worlds.verdicts import Verdicts
from podium.worlds.verifiers import Verifiers, module_of
from podium.worlds.zoom import Zoom

__all__ = ["BRIDGES", "EMBEDDED", "FORMS", "codebook_of", "drawn_side_of", "get", "names_code", "world_code"]

EMBEDDED: dict[str, type[World]] = {
    world.name: world
    for world in (
        *(Echo, Sums, Countdown, Rules, Cases, Opinions, Shop, Trips, Code, KeyDoor, Lookup, Tools, Clarify),
        *(Scenes, Zoom, Digits, Badges, Clips, Dilemma, Carry, Vault, Verdicts, Sorting, Calculator),
        *(TeamWorld, EvidenceWorld, Scans, Routes, Drawing),
    )
}
BRIDGES: dict[str, type[Gym | TextWorld | ScienceWorld | Spiel | Verifiers]] = {
    w.name: w for w in (Gym, TextWorld, ScienceWorld, Spiel, Verifiers)
}
# Worlds of data of your own, each with the setting that says where that is.
FILES: dict[str, tuple[type[World], str]] = {
    "data": (Dataset, "file"),
    "jsonl": (Jsonl, "file"),
    "code": (CodeFile, "file"),
    "lookup": (LookupFolder, "folder"),
}
# The other names that `get` accepts.
FORMS = (
    *(f"{name}:{setting.upper()}" for name, (_, setting) in FILES.items()),
    *("mix:NAME,NAME", *(f"{name}:NAME" for name in BRIDGES), "my_file.py:MyWorld"),
)


def get(name: str | World, **settings: Any) -> World:
    """The world of this name with these settings.

    Examples: `get("countdown", level=2)`, `get("data:questions.csv")`, `get("jsonl:questions.jsonl")`,
    `get("code:problems.jsonl")`,
    `get("lookup:wiki", results=5)`, `get("gym:chain_sum", min_terms=2)`, `get("textworld:coin", level=5)`,
    `get("my_file.py:MyWorld")`,
    `get("mix:sums,rules", level=2, **{"rules.domain": "lamps"})`.
    """
    if isinstance(name, World):
        return name.replace(**settings) if settings else name
    kind, _, rest = name.partition(":")
    if name in EMBEDDED:
        return _checked(_make(EMBEDDED[name], settings, name))
    if kind == Mix.name and ":" in name:
        return _mixed(rest, settings)
    if kind in FILES:
        of_data, setting = FILES[kind]
        world = _checked(_make(of_data, {setting: rest, **settings}, name))
        world.size()  # reads the data, so that errors in them are reported now
        return world
    if kind in BRIDGES and ":" in name:
        names = BRIDGES[kind].field_names()
        fields = {k: v for k, v in settings.items() if k in names}
        config = {**fields.pop("config", {}), **{k: v for k, v in settings.items() if k not in names}}
        bridge = _make(BRIDGES[kind], {"task_name": rest, "config": config, **fields}, name)
        if isinstance(bridge, Gym):
            _ = bridge.dataset  # checks its settings now
        if isinstance(bridge, Verifiers):
            bridge.size()
        return _checked(bridge)
    if name.endswith(".py"):
        raise PodiumError(f"{name} is a file: name the class in it too, as in {name}:MyWorld.")
    if names_code(name):
        cls = load_class(name)
        if not issubclass(cls, World):
            raise PodiumError(f"{name} is not a world: derive it from podium.worlds.World.")
        return _make(cls, settings, name)
    raise PodiumError(f"There is no world {name!r}. {nearest(name, [*EMBEDDED, *FORMS])}")


def codebook_of(key: str) -> Codebook | None:
    """The codebook of the embedded world whose task has this key, where its tasks have pictures."""
    return getattr(EMBEDDED.get(key.partition("-")[0]), "codebook", None)


def drawn_side_of(key: str) -> int | None:
    """How many rows the pictures have that are drawn in the embedded world whose task has this key; None: none are."""
    return getattr(EMBEDDED.get(key.partition("-")[0]), "side", None)


def names_code(name: str) -> bool:
    """Whether `get` would load code by this name, `my_file.py:MyWorld` or `package.module:MyWorld`."""
    return ":" in name and name.partition(":")[0] not in (*FILES, *BRIDGES, Mix.name)


def world_code(world: str, settings: Mapping[str, Any]) -> list[str]:
    """The names of code that opening a world would load: its own, and that of its reward functions."""
    rewards = [value for key, value in settings.items() if key.rpartition(".")[2] == "reward_functions" and value]
    kind, _, name = world.partition(":")
    own = [f"{module_of(name)}:load_environment"] if kind == Verifiers.name else [world] * names_code(world)
    return own + [spec.code for value in rewards for spec in reward_specs(value)]


def _mixed(listed: str, settings: dict[str, Any]) -> World:
    """The worlds of a list `sums,rules` as one; a setting `rules.level` is of one of them, `level` of all."""
    names = [name.strip() for name in listed.split(",")] if listed else []
    own: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, value in settings.items():
        name = max((name for name in names if key.startswith(f"{name}.")), key=len, default="")
        if name:
            own[name][key.removeprefix(f"{name}.")] = value
        elif key != "level":
            options = ["level", *(f"{name}.level" for name in names)]
            raise PodiumError(
                f"mix has no setting {key!r}: a setting of one part is NAME.{key}. {nearest(key, options)}"
            )
    for name in names:
        if names_code(name):
            raise PodiumError(
                f"mix: {name} is code of your own, which runs in processes of its own; a mix is made of embedded "
                "worlds, files and bridges."
            )
        if "level" in settings:
            own[name].setdefault("level", settings["level"])
    return Mix(names=tuple(names), parts=tuple(get(name, **own[name]) for name in names))


def _checked(world: World) -> World:
    """The world, unless it runs programs that this system cannot confine, or its reward functions cannot be called."""
    if isinstance(world, Judged):
        world.check_system()
    if isinstance(world, Graded):
        world.check_rewards()
    return world


def _make(cls: type[World], settings: dict[str, Any], name: str) -> World:
    names = cls.field_names()
    for key in settings:
        if key not in names:
            raise PodiumError(f"The world {name!r} has no setting {key!r}. {nearest(key, names)}")
    for f in dataclasses.fields(cls):
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING and f.name not in settings:
            raise PodiumError(f"The world {name!r} needs the setting {f.name!r}.")
    try:
        return cls(**settings)
    except PodiumError:
        raise
    except Exception as error:  # from a constructor that the user wrote
        raise PodiumError(f"The world {name!r} could not be made: {type(error).__name__}: {error}.") from error
