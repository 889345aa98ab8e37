"""Guru: what training on one domain gives the others."""

from __future__ import annotations

from podium.labs.transfer import transfer

__all__ = ["STUDY"]

# Of these three podium/tiny knows countdown least.
STUDY = transfer(("sums", "rules", "countdown"), "countdown", slug="guru")
