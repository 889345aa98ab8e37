"""Finding methods by the words that people use for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from re import Pattern

from podium.docs.catalogue_text import EntryText

__all__ = ["search_entries"]

# What is searched, and how much a match there counts.
WEIGHTS = {"slug": 12.0, "tags": 8.0, "summary": 6.0, "citation": 4.0, "notes": 2.0, "family": 1.0}
# Words of the field, and what a method's text may say instead.
SYNONYMS = {
    "advantage estimation": ("baseline", "credit"),
    "agent": ("turns", "tools", "multi-turn", "episode"),
    "clip higher": ("clip high", "asymmetric clip", "upper clip", "decoupled clip"),
    "credit assignment": ("credit", "step advantage", "turn level", "process reward", "per-token advantage"),
    "critic": ("value function", "value model", "value head", "GAE"),
    "curriculum": ("difficulty", "easy to hard", "task selection", "solve rate"),
    "data selection": ("task selection", "curriculum", "prompt selection", "which tasks", "filter"),
    "demonstration": ("expert", "SFT", "supervised", "imitation", "solutions of the world"),
    "difficulty": ("hard tasks", "easy tasks", "solve rate", "success rate", "pass rate"),
    "distillation": ("teacher", "distil", "self-distillation"),
    "dynamic sampling": ("groups without signal", "resample", "flat groups", "groups without advantage", "oversample"),
    "entropy collapse": ("entropy", "entropy bonus"),
    "exploration": ("explore", "entropy", "novelty", "diversity", "pass@k"),
    "hint": ("guidance", "scaffold", "partial solution", "prefix of a solution"),
    "importance sampling": ("importance ratio", "importance weight", "sampler correction", "off-policy"),
    "kl": ("reference", "KL divergence", "trust region"),
    "length bias": ("length penalty", "length normalisation", "long answers", "longer answers", "verbosity"),
    "long context": ("context window", "memory agent", "long documents"),
    "majority vote": ("majority", "vote", "pseudo-label", "self-consistency"),
    "mcts": ("tree search", "tree", "UCT", "search tree"),
    "multi turn": ("turns", "agent", "steps of an episode"),
    "off policy": ("importance ratio", "replay", "stale", "demonstrations", "asynchronous"),
    "overthinking": ("length penalty", "shorter answers", "thinking budget", "long answers", "answer length"),
    "ppo": ("clipped surrogate", "GAE", "critic"),
    "process reward": ("step reward", "process supervision", "step-level reward", "PRM"),
    "replay buffer": ("replay", "experience", "earlier rollouts", "stored responses"),
    "reward hacking": ("spurious reward", "cheat", "KL to the reference", "reward model", "format reward"),
    "reward model": ("preference", "judge", "learned reward", "Bradley-Terry"),
    "rubric": ("criteria", "checklist", "judge"),
    "self consistency": ("majority", "vote", "agreement of answers"),
    "self play": ("proposer", "challenger", "asymmetric roles", "own tasks", "variants of tasks", "two players"),
    "self training": ("pseudo-label", "SFT on own solutions", "majority"),
    "sequence level": ("sequence ratio", "ratio of the sequence", "sequence"),
    "sft": ("supervised", "demonstrations", "imitation", "cross-entropy"),
    "test time": ("TTRL", "majority", "without labels"),
    "token level": ("each token", "per token", "token", "token weights"),
    "tool use": ("tools", "tool call", "code interpreter", "search calls"),
    "tree search": ("tree", "fork", "branch", "MCTS"),
    "trust region": ("clip", "KL", "ratio bound"),
    "unsupervised": ("without labels", "label-free", "majority", "self-reward", "confidence", "pseudo-label"),
    "value function": ("critic", "value model", "value head", "GAE"),
}
EXACT = 100.0  # what the slug itself counts
ENDINGS = ("ations", "ation", "ating", "ated", "ates", "ate", "ings", "ing", "ed", "es", "s", "e")


def search_entries(entries: Iterable[EntryText], query: str, families: dict[str, str]) -> list[EntryText]:
    """The entries that a query describes, best first: those that have all of its words (or a synonym of it), else those
    that have most of them."""
    terms = _known_phrase(_terms(query))
    if not terms:
        return []
    phrase, words = _pattern(terms), [_pattern([term]) for term in terms]
    synonyms = [_pattern(_terms(other)) for other in _synonyms(terms)]
    texts = [(entry, _fields(entry, families)) for entry in entries]
    scores = []
    for _, fields in texts:
        weights = [_weight(fields, word) for word in words]
        direct = 2 * _weight(fields, phrase) + (sum(weights) / len(weights) if all(weights) else 0.0)
        indirect = max((_weight(fields, synonym) for synonym in synonyms), default=0.0)
        named = EXACT if fields["slug"] == " ".join(terms) else 0.0
        scores.append(max(direct, indirect) + named)
    if not any(scores):
        matched = [sum(_weight(fields, word) > 0 for word in words) for _, fields in texts]
        scores = [float(number == max(matched) > 0) for number in matched]
    ranked = sorted(zip(scores, texts, strict=True), key=lambda pair: -pair[0])
    return [entry for score, (entry, _) in ranked if score]


def _pattern(terms: Sequence[str]) -> Pattern[str]:
    """Words side by side. Short words must match to the letter, longer ones may begin a word; a phrase may be written
    as one word."""
    words = [re.escape(term) + (r"\w*" if len(term) > 3 else "") for term in terms]
    return re.compile(rf"\b{' ?'.join(words)}\b")


def _weight(fields: dict[str, str], pattern: Pattern[str]) -> float:
    """What the fields count in which the pattern is found."""
    return sum(WEIGHTS[name] for name, text in fields.items() if pattern.search(text))


def _fields(entry: EntryText, families: dict[str, str]) -> dict[str, str]:
    texts = {
        "slug": entry.slug,
        "tags": "; ".join(entry.tags),
        "summary": entry.summary,
        "citation": entry.citation.partition("http")[0],
        "notes": entry.notes,
        "family": f"{entry.family}; {families.get(entry.family, '')}",
    }
    return {name: " ".join(_terms(text)) for name, text in texts.items()}


def _terms(text: str) -> list[str]:
    """The stems of the words of a text, without case, hyphens, plurals and endings."""
    return [_stem(word) for word in re.findall(r"\w+", text.lower().replace("_", " "))]


def _stem(word: str) -> str:
    word = {"curricula": "curriculum", "criteria": "criterion"}.get(word, word)
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    for ending in ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= (3 if ending == "s" else 4) and not (ending == "s" and stem.endswith("s")):
            return stem
    return word


def _known_phrase(terms: list[str]) -> list[str]:
    """The words of a phrase that was written as one: `selfplay` is self play."""
    phrases = {"".join(_terms(phrase)): _terms(phrase) for phrase in SYNONYMS}
    return phrases.get("".join(terms), terms)


def _synonyms(terms: Sequence[str]) -> list[str]:
    """The synonyms of every phrase in the query."""
    query = f" {' '.join(terms)} "
    return [
        other for phrase, others in SYNONYMS.items() if f" {' '.join(_terms(phrase))} " in query for other in others
    ]
