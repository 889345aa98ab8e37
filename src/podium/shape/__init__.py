"""The shape stage: what happens to advantages, weights and clip bounds before the loss."""

from podium.shape.covariance import DropCovariant, SelectCovariant
from podium.shape.edges import SharedEdges
from podium.shape.rescale import Rescale, Whiten

__all__ = ["DropCovariant", "Rescale", "SelectCovariant", "SharedEdges", "Whiten"]
