"""The likeliest options of a task under several views."""

import math

import pytest
import torch

from podium import methods, policy
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.memories import KeptViews
from podium.parts.reward import OptionCertainty
from podium.sessions.train import configure
from podium.strategies.sample.likeliest_options import LikeliestOptions, confident_views, likeliest
from podium.training.build import build_run
from podium.training.loop import iterate
from podium.worlds import Digits
from podium.worlds.picture import pictures_in

NOISY = {"world": "digits", "world_settings": {"level": 1, "shift": "noise", "strength": 0.4}}


def small(**settings):
    return methods.rlcf(views=4, share=0.5, **settings)


def test_likeliest_takes_the_first_of_equal_ones():
    assert likeliest([(-1.0,), (-0.5, -0.5), (-0.2,)], 2) == [2, 0]


def test_views_with_the_lowest_entropy_are_kept_in_their_order():
    def of(p):
        return [(math.log(p),), (math.log(1 - p),)]

    assert confident_views([of(0.5), of(0.9), of(0.6), of(0.99)], 0.5) == (1, 3)
    assert confident_views([of(0.5), of(0.9), of(0.6)], 0.1) == (1,)  # at least one


def test_certainty_follows_the_gradient_of_the_entropy():
    logits = torch.tensor([0.3, 1.1, -0.7], dtype=torch.float64, requires_grad=True)
    logp = logits.log_softmax(0)
    rollouts = [
        Rollout("t", [Turn((n,))], columns={"view": 0, "option_logp": x.item(), "reward": 0.0})
        for n, x in enumerate(logp)
    ]
    reward = OptionCertainty()(Batch.from_rollouts(rollouts, dtype=torch.float64))["rollout.reward"]
    assert float(reward.sum()) == pytest.approx(0.0, abs=1e-12)
    (surrogate,) = torch.autograd.grad(-(reward * logp).mean(), logits, retain_graph=True)
    (exact,) = torch.autograd.grad(-(logp.exp() * logp).sum(), logits)
    assert torch.allclose(surrogate, exact, atol=1e-12)


def test_views_begin_with_the_task_and_differ():
    world = Digits(shift="noise", strength=0.4)
    task = world.task(3, "test")
    views = world.views(task, 4)
    assert views[0] is task
    assert len({str(view.prompt) for view in views}) == 4
    assert views == world.views(task, 4)
    codes = [codes for _, codes in pictures_in(views[1].prompt) if codes is not None]
    assert codes[0].shape == (4, 4)


def test_options_are_trained_with_the_probabilities_that_they_have_among_each_other():
    run = build_run(configure(small(), model="podium/tiny2", tasks=1, iterations=1, pool=1, eval_every=0, **NOISY))
    try:
        batch, metrics = iterate(run)
    finally:
        run.close()
    assert len(batch) == 6  # two views, three options each
    logp = batch.reduce(batch["token.sampler.logp"], "token", "rollout", "sum")
    assert torch.allclose(logp, batch["rollout.option_logp"], atol=1e-5)
    assert metrics["sampler_gap"] < 1e-4  # the trainer scores them within the same sets
    assert sorted(set(batch["rollout.view"].tolist())) == sorted(run.memories.states["KeptViews"]["views"].popitem()[1])


def test_kept_views_stay_those_of_the_first_time():
    memory = KeptViews()

    def seen(*views):
        return Batch.from_rollouts([Rollout("t", [Turn((1,))], columns={"view": v, "reward": 0.0}) for v in views])

    state = memory.observe(memory.observe(memory.initial(), seen(2, 5, 2)), seen(0, 1))
    assert memory.recall(state, ["t", "new"])["group.views"] == ((2, 5), ())


def test_a_task_without_a_choice_is_refused():
    config = configure(methods.rlcf(views=1), model="podium/tiny2", world="digits", level=2, tasks=1, iterations=1)
    with pytest.raises(PodiumError, match="leaves no choice"):
        iterate(build_run(config))


@pytest.mark.parametrize(
    ("settings", "message"), [({"k": 0}, "k = 0"), ({"template": "answer"}, "no {}"), ({"share": 0.0}, "share = 0")]
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(PodiumError, match=message):
        LikeliestOptions(**settings)


def test_a_matcher_knows_clean_digits():
    matcher, world = policy.load("podium/matcher"), Digits()
    vectors = policy.embed(matcher, [str(d) for d in range(10)])
    tasks = [world.task(n, "test") for n in range(40)]
    nearest = (policy.embed(matcher, [t.prompt for t in tasks]) @ vectors.T).argmax(1).tolist()
    assert sum(str(n) == t.data["answer"] for n, t in zip(nearest, tasks, strict=True)) >= 38


def test_a_matcher_refuses_a_picture_of_another_size_and_to_be_trained():
    matcher, two = policy.load("podium/matcher"), Digits(level=2)
    with pytest.raises(PodiumError, match="reads one picture of 16 patches"):
        policy.embed(matcher, [two.task(0).prompt])
    with pytest.raises(PodiumError, match="cannot be the policy"):
        matcher.values(None, 1.0)
