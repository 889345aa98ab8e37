"""The network of a chooser: attention over the rows of a set, a score for each row, and one for each pair of rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["ChooserNetwork", "SetScores"]


@dataclass(frozen=True)
class SetScores:
    """Scores of a padded batch of sets."""

    rows: Tensor  # [set, row] logits
    pairs: Tensor  # [set, row, row] log-odds of the pair of a row and a later one, or of a link to a row from another


class ChooserNetwork(nn.Module):
    """Rows [set, row, feature] → scores. The order of the rows does not matter, nor do padded ones.

    h = rows through `layers` blocks of attention and a feed-forward layer; a row's logit is w·h, that of a pair
    (i, j) is h_i W h_jᵀ.
    """

    def __init__(self, features: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.features, self.heads = features, heads
        self.embed = nn.Linear(features, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.row = nn.Linear(width, 1)
        self.pair, self.bias = nn.Linear(width, width, bias=False), nn.Parameter(torch.zeros(()))
        for last in (self.row.weight, self.pair.weight):
            nn.init.normal_(last, std=0.1 * width**-0.5)  # at first all choices are nearly equally likely

    def forward(self, numbers: Tensor, present: Tensor) -> SetScores:
        h = self.embed(numbers)
        for block in self.blocks:
            h = block(h, present)
        h = self.norm(h)
        pairs = self.pair(h) @ h.transpose(1, 2) + self.bias
        return SetScores(self.row(h)[..., 0], pairs)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inside, self.outside = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, h: Tensor, present: Tensor) -> Tensor:
        sets, rows, width = h.shape
        q, k, v = self.inside(self.first(h)).view(sets, rows, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = present[:, None, None, :]
        seen = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        h = h + self.outside(seen.transpose(1, 2).reshape(sets, rows, width))
        changed: Tensor = h + self.down(nn.functional.silu(self.up(self.second(h))))
        return changed
