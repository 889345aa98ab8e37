"""Clip-Cov and KL-Cov."""

from __future__ import annotations

from typing import Any

from podium import methods
from podium.parts.objective import KL
from podium.parts.shape import SelectTokens
from tests.conformance.adapters.tokens import together
from tests.conformance.case import Case
from tests.conformance.helpers import LOSS_COLUMNS, LOSS_SETTINGS, aggregate, configured, differentiate, padded
from tests.conformance.registry import adapter


@adapter("clip-cov-kl-cov", aside=("clip_fraction",))
def clip_cov_kl_cov(case: Case) -> dict[str, Any]:
    batch = padded(case, LOSS_COLUMNS | {"token.advantage": "advantages"}, group=together(case))
    settings = case.given(kl="kl_coef", low="cov_low", high="cov_high")
    settings |= case.given(share="ratio") | case.given(share="drop_ratio")
    variant = case.hyper["variant"]
    method = methods.clip_cov_kl_cov(variant=variant, **settings)
    method = method.set("objective.PolicyGradient.aggregate", aggregate(case))
    if variant == "clip_cov":
        method = configured(case, method, LOSS_SETTINGS)
        method = method.set("shape.DropCovariant.clip", method.objective[0].clip)
    else:
        method = method.set("objective.KL.aggregate", aggregate(case))
    outcome = differentiate(method.objective, batch, live=method.shape)
    found = {
        "loss": outcome.step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
        "covariance": batch.to_padded(SelectTokens("covariance").scores(batch)),
    }
    (part,) = method.shape
    if variant == "kl_cov":
        selected = part(batch)["token.selected"]
        distance = KL("abs", anchor="old")(batch)
        return found | {"selected": batch.to_padded(selected).nonzero(), "mean_abs_logratio": distance}
    dropped = part.dropped(batch)
    return found | {"dropped": batch.to_padded(dropped).nonzero()}
