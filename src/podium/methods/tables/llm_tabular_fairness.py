"""Language models on rows of tables: gaps between groups."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Gaps between groups when a language model classifies table rows, against forests and small networks.",
    citation="Confronting LLMs with Traditional ML: Rethinking the Fairness of Large Language Models in Tabular "
    "Classifications, NAACL 2024, https://arxiv.org/abs/2310.14607, code: "
    "https://github.com/liuyanchen1015/TabularFairness",
    kind="study",
    run="podium lab llm-tabular-fairness",
    tags=("fairness", "tabular data", "in-context learning", "evaluation"),
    notes="""
    By group: accuracy, macro F1, the share of positive decisions (SP) and the true-positive rate (EoO); differences
    are the first group in sorted order minus the second. A rate of nobody is undefined, not 0.

    The code's: answers that cannot be parsed are wrong, but drop out of SP and EoO. The paper's: gaps of GPT-3.5
    stay above those of random forests and shallow networks; examples and fine-tuning help moderately, and flipping
    the labels of the examples shrinks them. Adult, German Credit and COMPAS must be downloaded, so the lab has
    people whose group says nothing about their merit, and podium/tiny2, whose pretraining text has a planted prior
    of 1.5 log-odds against one group.
    """,
)
