"""Vision-language models: what they see is what their own processors and forward passes give them."""

import dataclasses

import pytest
import torch
from transformers import AutoTokenizer

from podium import policy
from podium.core.errors import PodiumError
from podium.policy.vision.picture_ids import FIRST, ids_of, in_order, picture_number, split_of
from podium.protocols.pieces import Dialogue, ModelTokens, Picture, Pieces
from podium.protocols.sampling import Generate, Sampling
from podium.sampler.local import LocalSampler
from podium.sampler.row_engine import Stats
from podium.sampler.uncached import UncachedEngine
from tests.policy.vision.models import idefics_tiny, picture_file, qwen_tiny, smol_tiny

SMALL, LARGE = Picture(data=picture_file()), Picture(data=picture_file(40, 20, seed=1))
MAKERS = {"qwen": qwen_tiny, "idefics": idefics_tiny, "smol": smol_tiny}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {name: make(folder / name) for name, make in MAKERS.items()}


@pytest.fixture(scope="module", params=MAKERS)
def seeing(request, models):
    return policy.load(str(models[request.param]))


def asked(model, *pieces):
    return model.encode([{"role": "user", "content": Pieces(*pieces)}])


def contexts(model):
    return [
        asked(model, SMALL, "\nwhat is it?"),
        asked(model, "from ", LARGE, " to ", SMALL, "\nwhich is larger?"),
        asked(model, "no picture"),
    ]


def own_logp(model, prompt, pictures, answer):
    """Log-probabilities by the model's own forward pass on what its own processor writes for the prompt."""
    own = model.model
    tokenizer = AutoTokenizer.from_pretrained(model.name)
    given = {}
    if own.config.model_type == "qwen2_vl":
        seen = model.processor(images=pictures, return_tensors="pt")
        for grid in seen["image_grid_thw"]:
            marks = "<|vision_start|>" + "<|IMAGE|>" * (int(grid.prod()) // 4) + "<|vision_end|>"
            prompt = prompt.replace("<picture>", marks, 1)
        prompt = prompt.replace("<|IMAGE|>", "<|image_pad|>")
        text = tokenizer(prompt + answer, add_special_tokens=False, return_tensors="pt")
        given = {**text, **seen, "mm_token_type_ids": (text["input_ids"] == own.config.image_token_id).int()}
    else:
        from transformers import Idefics3Processor

        processor = Idefics3Processor(model.processor, tokenizer, image_seq_len=4)
        given = dict(
            processor(
                text=prompt.replace("<picture>", "<image>") + answer,
                images=[pictures],
                add_special_tokens=False,
                return_tensors="pt",
            )
        )
    count = len(tokenizer(answer, add_special_tokens=False)["input_ids"])
    with torch.no_grad():
        logits = own(**{k: v for k, v in given.items() if torch.is_tensor(v)}).logits[0]
    ids = given["input_ids"][0]
    return logits[:-1].log_softmax(-1).gather(1, ids[1:, None])[-count:, 0]


def test_log_probabilities_are_those_of_the_model_on_what_its_own_processor_makes(seeing):
    from podium.store.pictures import open_picture

    small, large = (open_picture(p.data, "") for p in (SMALL, LARGE))
    prompt = "<|begin|><|user|>from <picture> to <picture>\nwhich?<|end|><|assistant|>"
    context = asked(seeing, "from ", LARGE, " to ", SMALL, "\nwhich?")
    (ours,) = seeing.score([context], [seeing.written("the first", ended=False)])
    theirs = own_logp(seeing, prompt, [large, small], "the first")
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_the_sampler_draws_from_what_the_trainer_scores(seeing):
    prompts = contexts(seeing)
    requests = [Generate(c, 3, Sampling(max_tokens=10), (0, 0, n)) for n, c in enumerate(prompts)]
    sampler = LocalSampler(seeing)
    for context, completions in zip(prompts, sampler.generate(requests), strict=True):
        scored = seeing.score([context] * 3, [c.ids for c in completions])
        for logp, completion in zip(scored, completions, strict=True):
            assert torch.allclose(logp, torch.tensor(completion.logp), atol=1e-5)


def test_without_a_cache_the_same_is_drawn(seeing):
    request = Generate(contexts(seeing)[1], 2, Sampling(max_tokens=6), (0, 0, 0))
    cached, whole = LocalSampler(seeing), LocalSampler(seeing)
    whole.engine = UncachedEngine(seeing, Stats())
    whole.state.engine = whole.engine
    (one,), (other,) = cached.generate([request]), whole.generate([request])
    assert [c.ids for c in one] == [c.ids for c in other]


def test_rows_of_a_batch_do_not_see_each_others_pictures(seeing):
    prompts, answer = contexts(seeing), seeing.written("a red box")
    together = seeing.score(prompts, [answer] * 3)
    for prompt, logp in zip(prompts, together, strict=True):
        assert torch.allclose(seeing.score([prompt], [answer])[0], logp, atol=1e-5)


def test_another_picture_changes_the_answer(seeing):
    answer = seeing.written("red")
    other = Picture(data=picture_file(seed=5))
    first, second = seeing.score([asked(seeing, p, "\ncolour?") for p in (SMALL, other)], [answer] * 2)
    assert not torch.allclose(first, second, atol=1e-3)


def test_gradients_reach_the_vision_tower(seeing):
    (logp,) = seeing.score([contexts(seeing)[0]], [seeing.written("red")], grad=True)
    logp.sum().backward()
    moved = [name for name, p in seeing.named_parameters() if p.grad is not None and bool(p.grad.any())]
    assert any("vis" in name for name in moved)
    seeing.model.zero_grad()


def test_observations_and_dialogues_hold_pictures(seeing):
    follow = seeing.follow_up(Pieces("closer: ", LARGE))
    assert in_order(follow) == [picture_number(LARGE.data)]
    dialogue = Dialogue(("system", "be short"), ("user", Pieces(SMALL, "what?")))
    assert in_order(seeing.encode([{"role": "user", "content": dialogue}])) == [picture_number(SMALL.data)]
    assert "what is it?" in seeing.text(contexts(seeing)[0])


def test_a_saved_model_sees_the_same(seeing, tmp_path):
    seeing.save(tmp_path)
    again = policy.load(str(tmp_path))
    context, answer = contexts(seeing)[0], seeing.written("red")
    assert torch.equal(seeing.score([context], [answer])[0], again.score([context], [answer])[0])
    copied = seeing.frozen_copy()
    assert torch.equal(seeing.score([context], [answer])[0], copied.score([context], [answer])[0])


def test_ids_of_pictures_say_which_and_where():
    number = picture_number(b"a picture")
    ids = ids_of(number, 3)
    assert [split_of(i) for i in ids] == [(number, 0), (number, 1), (number, 2)]
    assert all(FIRST <= i < 1 << 63 for i in ids)
    assert in_order([5, *ids, 7, *ids]) == [number, number]
    with pytest.raises(PodiumError, match="make it smaller"):
        ids_of(number, 1 << 14)


def test_a_picture_of_an_impossible_size_is_refused(models):
    model = policy.load(str(models["qwen"]))
    with pytest.raises(PodiumError, match=r"4000 x 4 pixels, which .* cannot see"):
        asked(model, Picture(data=picture_file(4000, 4)))


def test_a_picture_that_was_never_shown_is_refused(seeing):
    with pytest.raises(PodiumError, match="stored rollout has seen a picture"):
        seeing.score([(1, *ids_of(77, 4), 2)], [(3,)])


def test_a_model_without_eyes_refuses_pictures_by_name():
    with pytest.raises(PodiumError, match="cannot see <picture"):
        asked(policy.load("podium/tiny"), SMALL)


def test_a_picture_is_a_path_or_bytes():
    with pytest.raises(PodiumError, match="not both"):
        Picture("a.png", b"x")
    with pytest.raises(PodiumError, match="not both"):
        Picture()
    assert dataclasses.replace(SMALL) == SMALL
    assert ModelTokens(3) != SMALL


def test_a_template_that_takes_parts_gets_parts(models, tmp_path):
    model = policy.load(str(models["smol"]))
    template = (
        "<|begin|>{% for message in messages %}{{message['role'] | capitalize}}: {% for line in message['content'] %}"
        "{% if line['type'] == 'text' %}{{line['text']}}{% endif %}{% endfor %}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}Assistant:{% endif %}"
    )
    model.tokenizer.chat_template = template
    model.save(tmp_path)
    again = policy.load(str(tmp_path))
    assert again.text(asked(again, "which colour?")) == "User: which colour?\nAssistant:"
    assert in_order(asked(again, "which colour? ", SMALL)) == [picture_number(SMALL.data)]
    assert again.follow_up("and now?") == again.follow_up("and now?", ended=True)
    assert "and now?" in again.text(again.follow_up("and now?"))


def test_a_placeholder_that_the_model_writes_is_no_picture(seeing):
    own = seeing.kind.placeholder
    for context in (contexts(seeing)[0], contexts(seeing)[2]):  # with a picture and without
        with_it, with_end = seeing.score([context] * 2, [(own, 9), (seeing.end_ids[0], 9)])
        assert torch.isfinite(with_it).all()
        assert torch.equal(with_it[1], with_end[1])
