"""Groups of commands that name what there is to those who type something else."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from podium.core.errors import PodiumError, nearest
from podium.methods.catalogue import CATALOGUE

__all__ = ["Commands", "MethodCommands", "RootCommands"]


class Commands(TyperGroup):
    """A group whose misspelt commands get the nearest name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.commands and not name.startswith("-"):
            raise PodiumError(self.instead(name) or f"There is no command {name!r}. {nearest(name, self.commands)}")
        return super().resolve_command(ctx, args)

    def instead(self, name: str) -> str:
        """What to say of a word that means something elsewhere; empty: nothing."""
        return ""


class RootCommands(Commands):
    """`podium …`"""

    def instead(self, name: str) -> str:
        if name == "resume":
            return "There is no command 'resume'. To go on with a run: podium train --resume RUN"
        return f"{name!r} is a method, not a command. To train with it: podium train {name}" if _method(name) else ""


class MethodCommands(Commands):
    """`podium methods …`"""

    def instead(self, name: str) -> str:
        return f"{name!r} is a method, not a command. To see it: podium methods show {name}" if _method(name) else ""


def _method(name: str) -> bool:
    return name.partition("@")[0] in CATALOGUE
