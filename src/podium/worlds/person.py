"""Playing a world at the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from podium.core.errors import PodiumError
from podium.protocols.answer_text import ANSWER_MARK, final_answer
from podium.protocols.pieces import Dialogue, Picture, pieces_of
from podium.protocols.world import Answer, Feedback, World, task_of
from podium.store.pictures import thumbnail_png
from podium.worlds.picture import Codebook, pictures_in, png, sketched

__all__ = ["play"]

V = TypeVar("V")


def play(
    world: World,
    index: int = 0,
    read: Callable[[str], str] = input,
    write: Callable[[str], None] = print,
    *,
    split: str = "train",
    turns: int = 200,
    pictures: Path | None = None,
) -> Feedback | None:
    """Play one task; `read` takes a prompt and returns a line. Returns None if the person leaves (end of input).

    Pictures are sketched, and written to the folder `pictures` as PNG files where one is given.
    """
    if "instructions" in world.field_names():
        world = world.replace(instructions=True)
    task = task_of(world, index, split)
    episode = _tried(world, lambda: world.reset(task))
    show = _Pictures(getattr(world, "codebook", None), pictures, write)
    show(episode.observation)
    total = 0.0
    for _ in range(turns):
        try:
            text = read("> ")
        except (EOFError, KeyboardInterrupt):
            return None
        if isinstance(world, Answer) and final_answer(text) is None:
            text = f"{ANSWER_MARK} {text}"  # a person need not type it
        feedback = _tried(world, partial(episode.act, text))
        total += feedback.reward
        if feedback.observation:
            show(feedback.observation)
        if feedback.done:
            break
    write(f"Reward {total:g}." + (" Right." if feedback.info.get("correct") else ""))
    with suppress(PodiumError):  # not every world has solutions
        write(f"A solution:\n{world.solve(task)}")
    return feedback


class _Pictures:
    """Writes observations, with their pictures as sketches and files."""

    def __init__(self, codebook: Codebook | None, folder: Path | None, write: Callable[[str], None]) -> None:
        self.codebook, self.folder, self.write, self.count = codebook, folder, write, 0

    def __call__(self, observation: str) -> None:
        self.write(sketched(observation, self.codebook))
        if self.folder is None:
            return
        for data in self._files(observation):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.count += 1
            file = self.folder / f"{self.count}.png"
            file.write_bytes(data)
            self.write(f"Picture: {file}")

    def _files(self, observation: str) -> Iterator[bytes]:
        """The pictures of an observation as PNG files."""
        texts = [text for _, text in observation.messages] if isinstance(observation, Dialogue) else [observation]
        for piece in (piece for text in texts for piece in pieces_of(text)):
            if isinstance(piece, Picture):
                yield thumbnail_png(piece.read(), str(piece))
        if self.codebook is not None:
            for _, codes in pictures_in(observation):
                if codes is not None:
                    yield png(self.codebook.drawn(codes))


def _tried(world: World, do: Callable[[], V]) -> V:
    """Call a world, and turn its exceptions into a PodiumError."""
    try:
        return do()
    except (KeyboardInterrupt, PodiumError):
        raise
    except Exception as error:
        name = world.name or type(world).__name__
        raise PodiumError(f"The world {name!r} raised {type(error).__name__}: {error}.") from error
