"""MEC-B: minimum entropy coupling with a bottleneck."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Lossy compression with a prescribed output: actions of a policy carry a message, its law unchanged.",
    citation="Ebrahimi et al. 2024, Minimum Entropy Coupling with Bottleneck, https://arxiv.org/abs/2410.21666",
    kind="study",
    run="podium lab mec-b",
    tags=("communication", "compression", "information theory", "evaluation"),
    notes="""
    X → T → Y with H(T) ≤ R bits, where X and Y have given laws and I(X;Y) is to be large. Since I(X;Y) ≥ I(X;T) +
    I(Y;T) − R, a code and a coupling are found one after the other. The code merges blocks of symbols: the two lightest
    if that meets the rate, otherwise the two heaviest, and again. The coupling of the code and Y gives the largest
    masses that are left as much as both allow. Then p(x, y) = Σ_t p(x, t) p(y | t).

    In a coding game the message m is sent by actions: at each step the receiver's belief is coupled with π(·|s), the
    sender draws the action from the row of m, the receiver takes the action's column. Averaged over messages the
    actions follow π exactly. R = 0 sends nothing; R ≥ H(belief) is the plain coupling.

    `podium.analysis.coupling` has the parts, with the moves of mass between two codes. `podium lab mec-b` plays the
    authors' 8 × 8 grid by a soft-optimal policy, against uniform quantisation at the same rate. The paper's second
    greedy coupling is not included; the message is one of 64 by default in place of 512.

    `podium lab mec-b-text` hides bits in a language model's text by the same couplings, a token at a time; from Python
    `podium.analysis.hidden_text` has `hidden_in`, `found_in` and `surplus`, by how much the text is more surprising
    than the model's own.
    """,
)
