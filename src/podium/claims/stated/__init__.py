"""The claims of the methods, by family."""

from podium.claims.claim import MethodClaim
from podium.claims.stated import base, group

CLAIMS: dict[str, MethodClaim] = {claim.slug: claim for family in (base, group) for claim in family.CLAIMED}

__all__ = ["CLAIMS"]
