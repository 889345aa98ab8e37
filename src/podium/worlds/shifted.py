"""What worlds with pictures share: a shift of the pixels between what there is and what the model sees."""

from __future__ import annotations

from typing import ClassVar

from podium.core.errors import one_of, within
from podium.protocols.world import World
from podium.worlds.picture import SHIFTS, Codebook, Codes, Pixels, shifted

__all__ = ["ShiftedPictures"]


class ShiftedPictures(World):
    """A world whose pictures the model sees under a shift."""

    codebook: ClassVar[Codebook]
    shift: str = "none"  # noise, blur, inverted
    strength: float = 0.6  # of noise and blur

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "shift", SHIFTS)
        within(self, "strength", 0, 1)

    def seen_pixels(self, pixels: Pixels, seed: object) -> Pixels:
        """The pixels as the shift shows them; the seed is that of the noise."""
        return shifted(pixels, self.shift, self.strength, seed)

    def seen_codes(self, codes: Codes, seed: object) -> Codes:
        """The codes that the model reads of a picture that is drawn from codes."""
        if self.shift == "none":
            return codes
        return self.codebook.read(self.seen_pixels(self.codebook.drawn(codes), seed))
