"""The keep stage: what is dropped before it is trained."""

from podium.keep.mixed import KeepMixed

__all__ = ["KeepMixed"]
