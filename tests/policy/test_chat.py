"""Conversations as token ids."""

from __future__ import annotations

import copy

import pytest

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
