"""Worlds that are not trusted: all of their code runs confined."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.protocols.world import World
from podium.sandbox import unconfinable
from tests.worlds.test_isolated import played

linux = pytest.mark.skipif(sys.platform != "linux" or bool(unconfinable()), reason="no sandbox here")

BOX = """
import socket
from podium.worlds import Answer, Feedback, Task

try:
    open({marker!r}, "w").close()
except OSError:
    pass

class Box(Answer):
    name = "box"
    seen = 0

    def task(self, index, split="train"):
        return Task(f"box/{{split}}/{{index}}", "echo: 1")

    def grade(self, task, text):
        Box.seen += 1
        if text == "call":
            socket.create_connection(("127.0.0.1", 9))
        answer = open({secret!r}).read() if text == "read" else ""
        return Feedback(float(Box.seen), info={{"correct": True, "answer": answer}})
"""


@linux
def test_a_world_in_a_sandbox_is_never_loaded_outside_it(tmp_path: Path) -> None:
    marker, secret = tmp_path / "marker", tmp_path / "secret"
    secret.write_text("secret")
    file = tmp_path / "code" / "box.py"
    file.parent.mkdir()
    file.write_text(BOX.format(marker=str(marker), secret=str(secret)))
    world = worlds.isolated(f"{file}:Box", isolation="sandbox")
    try:
        assert played_box(world, "hello") == (1.0, "")
        assert played_box(world, "hello") == (1.0, "")  # a process that has seen no other text
        assert "forbidden" in played_box(world, "call")[1]
        assert played_box(world, "read")[1].startswith("the world raised PermissionError")
        assert not marker.exists()
    finally:
        world.close()


def played_box(world: World, text: str) -> tuple[float, str]:
    feedback, failure = played(world, "good", (text,))
    return feedback.reward, failure


@pytest.mark.parametrize("name", ["code", "gym:chain_sum"])
def test_a_world_that_judges_in_a_sandbox_is_not_put_into_one(name: str) -> None:
    with pytest.raises(PodiumError, match="judges in a sandbox of its own"):
        worlds.isolated(name, isolation="sandbox")
