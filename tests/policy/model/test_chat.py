"""Conversations as token ids."""

from __future__ import annotations

import copy
from random import Random
from unittest.mock import patch

import pytest
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from podium.core import PodiumError
from podium.policy import Policy
from tests.policy import tiny

SAID = [{"role": "user", "content": "1 plus 2"}]


def shown(policy: Policy, ids: tuple[int, ...]) -> str:
    text: str = policy.tokenizer.decode(list(ids))
    return text


def test_a_context_ends_where_the_models_turn_begins() -> None:
    policy = tiny.policy()
    assert shown(policy, policy.encode(SAID)) == "<|user|>1 plus 2<|end|>\n<|assistant|>"


def test_follow_ups_continue_a_conversation_as_the_template_would() -> None:
    policy = tiny.policy()
    answer = tuple(policy.tokenizer("is 3", add_special_tokens=False)["input_ids"])
    whole = policy.encode([*SAID, {"role": "assistant", "content": "is 3"}, {"role": "user", "content": "and 4"}])
    assert (*policy.encode(SAID), *answer, *policy.end_ids, *policy.follow_up("and 4")) == whole
    assert (*policy.encode(SAID), *answer, *policy.follow_up("and 4", ended=False)) == whole


def test_text_has_no_special_tokens() -> None:
    policy = tiny.policy()
    assert policy.text(policy.encode(SAID)) == "1 plus 2\n"


def test_the_templates_own_end_token_ends_a_turn() -> None:
    tokenizer = copy.deepcopy(tiny.tokenizer())
    tokenizer.chat_template = tiny.TEMPLATE.replace("<|end|>", "<|system|>")
    policy = Policy(tiny.model(), tokenizer)
    assert policy.end_ids == (1, 4)


def test_without_a_template_prompts_are_plain_text_and_it_is_said() -> None:
    tokenizer = copy.deepcopy(tiny.tokenizer())
    tokenizer.chat_template = None
    policy = Policy(tiny.model(), tokenizer, name="base")
    assert policy.notes == ("The tokenizer of base has no chat template: prompts are plain text and a line break.",)
    assert shown(policy, policy.encode(SAID)) == "1 plus 2\n"
    assert shown(policy, policy.follow_up("and 4")) == "\nand 4\n"
    assert policy.end_ids == (1,)


def test_a_template_that_refuses_a_role_is_named() -> None:
    tokenizer = copy.deepcopy(tiny.tokenizer())
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system here') }}{% endif %}"
        "{{ m['content'] }}<|end|>{% endfor %}"
    )
    policy = Policy(tiny.model(), tokenizer, name="strict")
    with pytest.raises(PodiumError, match="template of strict refuses the roles system, user: no system here"):
        policy.encode([{"role": "system", "content": "."}, *SAID])


def pieces() -> Policy:
    """A model whose tokenizer drops a space at the beginning, and spells unknown characters by their bytes."""
    vocabulary = {token: i for i, token in enumerate((*tiny.SPECIAL, "▁a", "▁b", "c", "."))}
    vocabulary |= {f"<0x{byte:02X}>": len(vocabulary) + byte for byte in range(256)}
    plain = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    space, rest = decoders.Replace("▁", " "), [decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    plain.decoder = decoders.Sequence([space, *rest])
    made = PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<|end|>", pad_token="<|pad|>")
    made.chat_template = tiny.TEMPLATE
    return Policy(tiny.model(), made)


def one_by_one(policy: Policy, ids: tuple[int, ...]) -> list[int]:
    """What is readable after each token."""
    return [len(policy.text(ids[: n + 1]).rstrip("\ufffd")) for n in range(len(ids))]


@pytest.mark.parametrize("text", ["", "1 plus 2", "3 × 4 is 12 😀", "你好 plus\n", "é"])
def test_tokens_end_where_their_text_does_also_in_the_middle_of_a_character(text: str) -> None:
    policy = tiny.policy()
    ids = policy.written(text)
    assert policy.read(ids) == (text, one_by_one(policy, ids))


def test_parts_of_characters_that_make_none_end_where_the_last_whole_one_does() -> None:
    policy, random = tiny.policy(), Random(0)
    for _ in range(50):
        ids = (*(random.randrange(tiny.VOCABULARY) for _ in range(30)), *policy.written("€ 1"))
        assert policy.ends(ids) == one_by_one(policy, ids)


def test_a_space_that_is_dropped_at_the_beginning_is_there_later() -> None:
    policy = pieces()
    a, b, euro = 5, 6, [9 + byte for byte in "€".encode()]
    assert policy.read((a, b, a)) == ("a b a", [1, 3, 5])
    assert policy.read((b, *euro, a)) == ("b€ a", [1, 1, 1, 2, 4])


def test_a_text_that_is_known_is_not_decoded_again() -> None:
    policy = tiny.policy()
    ids = policy.written("1 plus 2")
    whole = policy.read(ids)
    with patch.object(policy.chat, "_decode", side_effect=AssertionError):
        assert policy.read(ids, "1 plus 2") == whole
    assert policy.read(ids, "something else") == whole
