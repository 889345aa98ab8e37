"""Groups of commands that suggest the nearest name for what was misspelt."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from podium.core.errors import PodiumError, nearest
from podium.docs.catalogue_text import read_catalogue

__all__ = ["Commands", "MethodCommands", "RootCommands"]


class Commands(TyperGroup):
    """A group whose misspelt commands get the nearest name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.commands and not name.startswith("-"):
            raise PodiumError(self.advice(name) or f"There is no command {name!r}. {nearest(name, self.commands)}")
        return super().resolve_command(ctx, args)

    def advice(self, name: str) -> str:
        """What to say about a word that means something elsewhere; empty: nothing."""
        return ""


class RootCommands(Commands):
    """`podium …`"""

    def advice(self, name: str) -> str:
        if name == "resume":
            return "There is no command 'resume'. To continue a run: podium train --resume RUN"
        if _is_method(name):
            return f"{name!r} is a method, not a command. To train with it: podium train {name}"
        return ""


class MethodCommands(Commands):
    """`podium methods …`"""

    def advice(self, name: str) -> str:
        if _is_method(name):
            return f"{name!r} is a method, not a command. To see it: podium methods show {name}"
        return ""


def _is_method(name: str) -> bool:
    return name.partition("@")[0] in read_catalogue().entries
