"""Claims: what papers say of their methods, frozen before they are measured, and what the measurements came to."""

from podium.claims.claim import Cell, MethodArm, MethodClaim
from podium.claims.stated import CLAIMS

__all__ = ["CLAIMS", "Cell", "MethodArm", "MethodClaim"]
