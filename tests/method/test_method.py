"""Methods as values: composition, description, YAML, and what `check` finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.memory import Memory
from podium.core.part import Advantage, Reward, Shape
from podium.core.schedule import Follow, Linear
from podium.core.serial import load_class
from podium.core.signal import Signal
from podium.core.updates import Updates
from podium.method import Method, Role
from podium.parts.advantage import GAE, Normalize
from podium.parts.objective import KL, Clip, Entropy, GroupSoftmax, PolicyGradient, ValueLoss
from podium.parts.reward import Overlong, SequenceKL, TokenReward
from podium.parts.shape import Rescale, SelectTokens, Whiten
from podium.strategies import Sample
from podium.worlds.sums import Sums

RECIPES = [
    name
    for slug, entry in methods.RECIPES.items()
    for name in (slug, *(f"{slug}@{preset}" for preset in entry.presets))
]

USER_FILE = '''
from podium import Advantage, Linear


class Centred(Advantage):
    """A = scale · (r − mean of the group)."""

    scale: float = 1.0
    column: str = "rollout.reward"

    provides = ("rollout.advantage",)

    @property
    def needs(self):
        return (self.column,)

    def __call__(self, batch):
        return {"rollout.advantage": self.scale * batch.by("rollout", "group").centre(batch[self.column])}
'''


@pytest.fixture
def user_file(tmp_path: Path) -> str:
    path = tmp_path / "my_parts.py"
    path.write_text(USER_FILE)
    return str(path)


# -- composition -----------------------------------------------------------------------------------------------------


def test_a_part_replaces_the_one_at_a_stage_that_holds_one() -> None:
    method = methods.grpo() | Normalize(scale="none") | Sample(n=3) | Updates(epochs=2)
    assert method.advantage == Normalize(scale="none")
    assert method.rollout == Sample(n=3)
    assert method.updates == Updates(epochs=2)


def test_in_a_list_a_part_replaces_the_one_of_its_class_or_is_appended() -> None:
    method = methods.grpo(kl=0.04) | KL("k1", coefficient=0.1) | Entropy(coefficient=0.01)
    assert [type(t).__name__ for t in method.objective] == ["PolicyGradient", "KL", "Entropy"]
    assert method.objective[1] == KL("k1", coefficient=0.1)
    assert (method | Whiten() | Whiten(level="rollout")).shape == (Whiten(level="rollout"),)


def test_which_of_two_parts_of_a_class_to_replace_must_be_said() -> None:
    method = methods.grpo().with_(objective=(KL("k1"), KL("k2", anchor="old")))
    with pytest.raises(PodiumError, match="2 parts of class KL: say which"):
        method | KL("k3")


def test_roles_and_memories_join_by_name_and_by_class() -> None:
    method = methods.get("spo-single-stream")
    memory = method.memories[1].replace(half_life=1.0)
    assert (method | memory).memories == (method.memories[0], memory)
    method = method | Role("ref") | Role("ref", decay=0.9) | Role("critic")
    assert method.roles == (Role("ref", decay=0.9), Role("critic"))


def test_with_replaces_whole_stages_and_a_single_part_stands_for_a_list() -> None:
    gspo = methods.grpo(kl=0).with_(objective=PolicyGradient(ratio="sequence", clip=Clip(3e-4, 4e-4)))
    assert gspo.objective == (PolicyGradient(ratio="sequence", clip=Clip(3e-4, 4e-4)),)
    assert methods.grpo().with_(reward=[Overlong(), TokenReward()]).reward == (Overlong(), TokenReward())
    assert Method("mine", shape=Whiten()).shape == (Whiten(),)  # type: ignore[arg-type]


def test_insert_orders_parts_within_a_list() -> None:
    method = methods.ppo().insert(Rescale(), before=Whiten)
    assert method.shape == (Rescale(), Whiten())
    with pytest.raises(PodiumError, match="no KL to insert before; it holds PolicyGradient, ValueLoss"):
        methods.ppo().insert(Entropy(), before=KL)
    with pytest.raises(PodiumError, match="does not belong to a stage that holds a list"):
        methods.ppo().insert(GAE(), before=Whiten)


def test_set_changes_one_setting_by_its_path() -> None:
    method = methods.grpo(kl=0.04)
    assert method.set("advantage.scale", "none").advantage == Normalize(scale="none")
    assert method.set("objective.KL.coefficient", 0.5).objective[1].coefficient == 0.5
    clip = method.set("objective.PolicyGradient.clip.high", 0.28).objective[0].clip  # type: ignore[attr-defined]
    assert clip == Clip(0.2, 0.28)
    assert method.set("updates.epochs", 3).updates.epochs == 3


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("advntage.scale", "'advntage.scale' does not name a setting. Did you mean 'advantage'"),
        ("advantage", "'advantage' does not name a setting"),
        ("draw.grammar", "Did you mean 'rollout.draw.grammar'?"),
        ("advantage.scael", "Normalize has no setting 'scael'. Did you mean 'scale'"),
        ("objective.PolicyGradient[7].clip.low", r"'objective' has no part 'PolicyGradient\[7\]'."),
        ("objective.PolicyGradent.clip", "'objective' has no part 'PolicyGradent'. Did you mean 'PolicyGradient'"),
        ("objective.PolicyGradient.clip.hihg", "Clip has no setting 'hihg'. Did you mean 'high'"),
        ("objective.PolicyGradient.ratio.x", "ratio holds 'token', which has no setting 'x'"),
        ("select.explore", "select holds None, which has no setting 'explore'"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(path: str, message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        methods.grpo().set(path, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Method("x", advantage=Whiten()), r"Whiten\(\) is not a part of the stage 'advantage'"),  # type: ignore[arg-type]
        (lambda: Method("x", objective=(Whiten(),)), r"Whiten\(\) is not a part of the stage 'objective'"),  # type: ignore[arg-type]
        (lambda: Method("x", shape="Whiten"), "'Whiten' is not a part of the stage 'shape'"),  # type: ignore[arg-type]
        (lambda: Method("x", roles=("ref",)), "'ref' is not one of the method's roles: give a Role"),  # type: ignore[arg-type]
        (lambda: Method("x", advantge=GAE()), "Method has no setting 'advantge'. Did you mean 'advantage'"),  # type: ignore[call-arg]
        (lambda: methods.grpo() | methods.ppo(), "is not a part, a memory or a role"),
        (lambda: methods.grpo() | Clip(), "is not a part, a memory or a role"),
        (lambda: Role("ref", decay=1.5), r"Role.decay = 1.5 is out of range \[0, 1\]"),
        (lambda: methods.get("grop"), "no method 'grop'. Did you mean 'grpo'"),
        (lambda: methods.get("grpo@vrel"), "grpo has no preset 'vrel'. Did you mean 'verl'"),
        (lambda: methods.get("grpo", clp=0.1), "'grpo' has no setting 'clp'. Did you mean 'clip'"),
    ],
)
def test_what_does_not_belong_in_a_method_is_refused(make: Any, message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        make()


# -- description and YAML --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_and_preset_comes_back_from_yaml_equal(name: str) -> None:
    method = methods.get(name)
    assert Method.from_yaml(method.to_yaml()) == method


def test_schedules_infinities_and_signals_survive_yaml() -> None:
    method = methods.grpo() | KL(coefficient=Linear(0.1, 0.0, over=10)) | GAE(lam=Follow("x", low=0.0))
    assert Method.from_yaml(method.to_yaml()) == method


def test_a_number_may_be_written_the_way_people_write_it() -> None:
    method = Method.from_yaml("{name: mine, advantage: {Normalize: {epsilon: 1e-4}}}")
    assert method.advantage == Normalize(epsilon=1e-4)


def test_a_part_of_a_user_s_file_works_like_ours(user_file: str) -> None:
    centred = load_class(f"{user_file}:Centred")
    method = methods.grpo(kl=0) | centred(scale=Linear(2.0, 1.0, over=4))  # type: ignore[operator]
    assert Method.from_yaml(method.to_yaml()) == method
    assert f"{user_file}:Centred" in method.to_yaml()
    assert method.check() == []
    batch = Batch.from_rewards([1.0, 0.0], ["a", "a"])
    assert centred(scale=2.0)(batch)["rollout.advantage"].tolist() == [1.0, -1.0]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("advantage: [", "This is not YAML"),
        ("just words", "A method in YAML is a mapping"),
        ("{name: x, advntage: null}", "Method has no setting 'advntage'. Did you mean 'advantage'"),
        ("{advantage: null}", "Method needs the setting 'name'"),
        ("{name: x, advantage: {Normalise: {}}}", "no part or value named 'Normalise'. Did you mean 'Normalize'"),
        (
            "{name: x, advantage: {Normalize: {epsilom: 1}}}",
            "Normalize has no setting 'epsilom'. Did you mean 'epsilon'",
        ),
        ("{name: x, advantage: {Normalize: 3}}", "Normalize holds 3: give its settings by name"),
        ("{name: x, advantage: Normalize}", "'Normalize' is not a part of the stage 'advantage'"),
        ("{name: x, advantage: {'nowhere.py:Part': {}}}", "There is no file 'nowhere.py'"),
        ("{name: x, advantage: {'no.such.module:Part': {}}}", "Cannot import 'no.such.module'"),
        (
            "{name: x, advantage: {'podium.parts.advantage:Normalise': {}}}",
            "no part or world named 'Normalise'. Did you mean 'Normalize'",
        ),
    ],
)
def test_yaml_that_is_no_method_is_refused(text: str, message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        Method.from_yaml(text)


def test_a_user_s_file_that_does_not_load_says_why(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import no_such_thing")
    with pytest.raises(PodiumError, match="could not be loaded: ModuleNotFoundError: No module named 'no_such_thing'"):
        load_class(f"{path}:Part")
    path.write_text(USER_FILE)
    with pytest.raises(PodiumError, match=r"no part or world named 'Centerd'. Did you mean 'Centred'"):
        load_class(f"{path}:Centerd")


class Loose(Advantage):
    held: Any = None


def test_a_setting_that_yaml_cannot_hold_is_refused() -> None:
    with pytest.raises(PodiumError, match="cannot be written to YAML"):
        (methods.grpo() | Loose(torch.ones(1))).to_yaml()


def test_a_description_names_stages_formulas_and_citation() -> None:
    text = methods.get("ppo").describe()
    assert text.startswith("ppo: Actor-critic: per-token advantages (GAE) from a learned value function")
    assert "https://arxiv.org/abs/1707.06347" in text
    assert "advantage  GAE()" in text
    assert "A_t = δ_t + gamma·lam·A_{t+1}" in text
    assert "role       Role(name='critic', lr_ratio=10.0)" in text


# -- check -----------------------------------------------------------------------------------------------------------


class ConstantBonus(Reward):
    """The same for every rollout of a group."""

    constant_within = "group"
    needs = ("rollout.reward",)
    provides = ("rollout.reward",)

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"rollout.reward": batch["rollout.reward"]}


class Exposing(Memory):
    """A memory that schedules can follow."""

    def initial(self) -> dict[str, Any]:
        return {}

    def scalars(self, state: dict[str, Any]) -> dict[str, float]:
        return {"controller.kl": 0.1}


def findings(method: Method, *columns: str, **settings: Any) -> list[str]:
    return [str(f) for f in method.check(columns, **settings)]


# Rewards, states or calls of turns; solutions of several turns; judges of pairs; a profiler; options; phrasings; exact
# values.
SPECIAL = (
    *("gigpo", "hgpo", "salt", "mars", "slea-rl", "infopo", "hiper", "archer", "mapo", "srgpo", "rlvmr"),
    *("matchtir", "pivotrl", "think-rm", "arenarl", "dr-kernel", "spear", "vspo-prs", "earl-rtl"),
    *("clinical-r1", "info-consistent-grpo", "cpl", "adalign-llm", "read", "advevo-marl", "oni"),
    *("ikea", "carr", "reseek", "nous", "search-r2", "earl-video", "ap-grpo"),
    *("listener-reward", "expo-hm", "doge", "graph-grpo", "mashost", "flow-grpo", "tp-grpo", "vgpo"),
    *("rlcf", "debate-reward", "gf-screen", "earli"),
)


@pytest.mark.parametrize("slug", SPECIAL)
def test_recipes_that_need_a_special_world_say_so(slug: str) -> None:
    assert findings(methods.get(slug), *Sums.provides)


@pytest.mark.parametrize("slug", [s for s in methods.RECIPES if s not in SPECIAL])
def test_recipes_that_need_no_special_world_have_no_findings(slug: str) -> None:
    assert findings(methods.get(slug), *Sums.provides) == []


@pytest.mark.parametrize(
    ("slug", "columns"),
    [
        ("gigpo", ["turn.reward", "turn.state", "turn.valid"]),
        ("hgpo", ["turn.reward", "turn.state", "turn.valid"]),
        ("salt", ["turn.state", "turn.action", "turn.next_state"]),
        ("think-rm", ["task.compare"]),
        ("copo", ["rollout.answer"]),
        ("v0-5", ["rollout.correct"]),
        ("gcpo-geometryzero", ["rollout.correct", "task.solution"]),
    ],
)
def test_recipes_with_needs_are_clean_in_a_world_that_meets_them_and_refused_elsewhere(
    slug: str, columns: list[str]
) -> None:
    method = methods.get(slug)
    assert findings(method, *columns) == []
    for left_out in columns:
        missing = findings(method, *(c for c in columns if c != left_out))
        name = left_out.partition(".")[2]
        assert missing
        assert all(f.startswith("error") and name in f for f in missing)


def test_a_column_that_nothing_writes_is_an_error_with_the_nearest_name() -> None:
    found = findings(methods.grpo(kl=0) | Normalize(of="rollout.rewrad"))
    assert len(found) == 1
    assert (
        "needs the column 'rollout.rewrad', which nothing before it writes. Did you mean 'rollout.reward'" in found[0]
    )


def test_a_column_written_only_later_in_the_loop_is_an_error() -> None:
    method = methods.grpo(kl=0) | TokenReward() | Normalize(of="token.reward")
    assert findings(method) == []
    assert "token.reward" in findings(method.with_(reward=()))[0]


def test_the_column_that_a_router_reads_is_a_need() -> None:
    term = PolicyGradient(where="token.selected")
    assert "needs the column 'token.selected'" in findings(methods.grpo(kl=0).with_(objective=term))[0]
    assert findings(methods.grpo(kl=0).with_(objective=term) | SelectTokens("covariance", 0.002, rule="floor")) == []


def test_an_advantage_is_met_from_above_but_not_from_below() -> None:
    class Upward(Shape):
        """Reads the advantage of rollouts."""

        needs = ("rollout.advantage",)
        provides = ("rollout.advantage",)

    method = Method("x", reward=(TokenReward(),), advantage=GAE(), roles=(Role("critic"),))
    assert findings(method) == []
    assert "needs the column 'rollout.advantage'" in findings(method | Upward())[0]
    assert findings(methods.grpo() | Upward()) == []


def test_an_objective_without_an_advantage_is_an_error() -> None:
    found = findings(methods.grpo(kl=0).with_(advantage=None))
    assert len(found) == 1
    assert "needs the column 'token.advantage'" in found[0]


def test_a_signal_that_the_policy_does_not_compute_is_an_error() -> None:
    class Reading(Advantage):
        """Reads a signal of its own."""

        needs = (Signal("varentropy", of="old"),)
        provides = ("token.advantage",)

    method = methods.grpo(kl=0) | Reading()
    assert (
        "needs the signal 'varentropy', which the policy does not compute. Did you mean 'entropy'"
        in findings(method)[0]
    )
    assert findings(method, signals=("logp", "varentropy")) == []


def test_a_role_that_the_method_does_not_have_is_an_error() -> None:
    found = findings(methods.grpo(kl=0) | KL())
    assert found == [
        f"error: {KL()!r} needs Signal('logp', of='ref'), but the method has no role 'ref': add Role('ref')."
    ]


def test_a_learner_that_the_method_does_not_have_is_an_error() -> None:
    found = findings(methods.ppo().with_(roles=()))
    assert found == [f"error: {ValueLoss(0.5)!r} trains 'critic', which the method does not have: add Role('critic')."]


def test_a_followed_scalar_that_no_memory_exposes_is_an_error() -> None:
    method = methods.grpo() | KL(coefficient=Follow("controler.kl"))
    assert "follows 'controler.kl', which no memory of the method exposes" in findings(method)[0]
    found = findings(method | Exposing())
    assert "Did you mean 'controller.kl'" in found[0]
    assert findings(method | KL(coefficient=Follow("controller.kl")) | Exposing()) == []


def test_dividing_by_a_spread_twice_is_a_warning() -> None:
    found = findings(methods.grpo(kl=0) | Whiten())
    assert found == ["warning: advantages are divided by a spread twice: by Normalize() and then by Whiten()."]
    assert findings(methods.grpo(kl=0) | Normalize(scale="none") | Whiten()) == []


def test_being_held_to_the_reference_twice_is_a_warning() -> None:
    found = findings(methods.grpo() | SequenceKL())
    assert len(found) == 1
    assert found[0].startswith("warning: the policy is held to its reference twice: by KL(")


def test_a_reward_that_its_own_baseline_removes_is_a_warning() -> None:
    found = findings(methods.grpo(kl=0) | ConstantBonus())
    assert len(found) == 1
    assert "constant within a group, so the baseline of Normalize() removes it" in found[0]
    assert findings(methods.reinforce() | ConstantBonus() | Normalize(key=())) == []


def test_groups_of_one_under_a_group_baseline_are_a_warning() -> None:
    found = findings(methods.grpo(kl=0, n=1))
    assert found == [
        "warning: Sample(n=1) makes groups of one, so Normalize() has nothing to compare with: sample more."
    ]
    assert findings(methods.reinforce(n=1)) == []


def test_a_group_loss_under_updates_that_split_groups_is_an_error() -> None:
    method = methods.real()
    assert findings(method) == []
    found = findings(method.set("updates.unit", "rollout"))
    assert len(found) == 1
    assert f"{GroupSoftmax(0.5)!r} compares the rollouts of a group" in found[0]
