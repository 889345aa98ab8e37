"""The claims of the methods, by family."""

from podium.claims.claim import MethodClaim
from podium.claims.stated import base, entropy, group, hybrid

CLAIMS: dict[str, MethodClaim] = {
    claim.slug: claim for family in (base, group, entropy, hybrid) for claim in family.CLAIMED
}

__all__ = ["CLAIMS"]
