"""The worked example of each method's card, through the same adapters as the vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from tests.conformance.case import Case
from tests.conformance.registry import adapters

TWO_GROUPS = {"rewards": [1.0, 0, 0, 1, 0, 0, 0, 1], "group_ids": [0] * 4 + [1] * 4, "lengths": [3] * 8}


def results(slug: str, inputs: Mapping[str, Any], **hyper: Any) -> Mapping[str, Any]:
    return adapters()[slug](Case.of(slug, inputs, hyper))


def close(actual: Any, expected: Any, to: float = 5e-6) -> bool:
    """Agreement to the digits that are printed."""
    return torch.allclose(torch.as_tensor(actual).double(), torch.tensor(expected).double(), rtol=0.0, atol=to)


def ratios(*rows: list[float]) -> dict[str, Any]:
    """Inputs in which the tokens have these log-ratios."""
    old = [[-1.0] * len(row) for row in rows]
    now = [[-1.0 + x for x in row] for row in rows]
    return {"old_logp": old, "logp": now, "mask": [[1.0] * len(row) for row in rows]}


@pytest.mark.parametrize(
    ("aggregation", "loss"),
    [("token-mean", 0.375), ("seq-mean-token-sum", 0.75), ("seq-mean-token-mean", 0.375)],
)
def test_reinforce_in_three_aggregations(aggregation: str, loss: float) -> None:
    inputs = {"logp": [[-1.0, -2], [-0.5, -1]], "advantage_per_token": [[1.0, 1], [-1, -1]], "mask": [[1.0, 1]] * 2}
    assert close(results("reinforce", inputs, aggregation=aggregation)["loss"], loss)


def test_ppo_gae_of_three_tokens() -> None:
    inputs = {"token_level_rewards": [[0.0, 0, 1]], "values": [[0.5, 0.4, 0.6]], "mask": [[1.0] * 3]}
    found = results("ppo", inputs, gamma=1.0, **{"lambda": 0.95})
    assert close(found["advantage_raw"], [[0.451, 0.58, 0.4]])


@pytest.mark.parametrize(("ratio", "loss"), [((1.5, 0.5), -0.2), ((1.5, 4.0), 0.9)])
def test_ppo_clipped_on_both_sides_and_by_the_dual_clip(ratio: tuple[float, ...], loss: float) -> None:
    inputs = ratios(torch.tensor(ratio).double().log().tolist()) | {"advantage_per_token": [[1.0, -1]]}
    found = results("ppo", inputs, clip_low=0.2, clip_high=0.2, dual_clip=3.0, aggregation="token-mean")
    assert close(found["loss"], loss)
    assert close(found["grad_logp"], [[0.0, 0.0]], to=0.0)


def test_grpo_two_groups_of_four() -> None:
    found = results("grpo", TWO_GROUPS)["advantage_per_rollout"]
    assert close(found, [0.86602, -0.86602, -0.86602, 0.86602, -0.5, -0.5, -0.5, 1.5], to=1e-5)


def test_dr_grpo_two_groups_of_four() -> None:
    found = results("dr-grpo", TWO_GROUPS, norm_adv_by_std_in_grpo=False)["advantage_per_rollout"]
    assert close(found, [0.5, -0.5, -0.5, 0.5, -0.25, -0.25, -0.25, 0.75])


def test_rloo_two_groups_of_four() -> None:
    found = results("rloo", TWO_GROUPS)["advantage_per_rollout"]
    assert close(found, [2 / 3, -2 / 3, -2 / 3, 2 / 3, -1 / 3, -1 / 3, -1 / 3, 1.0])


def test_dapo_overlong_penalty() -> None:
    found = results("dapo", {"lengths": [80, 90, 100]}, max_length=100, buffer_length=20)
    assert close(found["overlong_penalty"], [0.0, -0.5, -1.0])


def test_reinforce_plus_plus_baseline_is_token_weighted() -> None:
    inputs = {"rewards": [1.0, 0, 1, 0], "group_ids": [0] * 4, "lengths": [2, 4, 3, 4]}
    found = results("reinforce-plus-plus", inputs)["advantage_per_rollout"]
    assert close(found, [1.21529, -0.75955, 1.21529, -0.75955], to=1e-5)


def test_gspo_two_sequences() -> None:
    inputs = ratios([0.2, 0.1], [-0.3, -0.1]) | {"advantage_per_token": [[1.0, 1], [-1, -1]]}
    found = results("gspo", inputs, clip_low=0.2, clip_high=0.2, aggregation="seq-mean-token-mean")
    assert close(found["sequence_ratio"], [1.161834, 0.818731])
    assert close(found["loss"], -0.171552)
    assert close(found["grad_logp"], [[-0.290459, -0.290459], [0.204683, 0.204683]])


def test_cispo_keeps_a_gradient_on_clipped_tokens() -> None:
    inputs = ratios([0.2, 0.1], [-0.3, -0.1]) | {"advantage_per_token": [[1.0, 1], [-1, -1]]}
    found = results("cispo", inputs, clip_low=0.2, clip_high=0.2, aggregation="token-mean")
    assert close(found["grad_logp"], [[-0.3, -0.276293], [0.2, 0.226209]])


def test_opo_length_weighted_baseline() -> None:
    inputs = {"rewards": [1.0, 1, 0, 0], "group_ids": [0] * 4, "lengths": [5, 3, 4, 5]}
    assert close(results("opo", inputs)["advantage_per_rollout"], [0.529412, 0.529412, -0.470588, -0.470588])


def test_gpg_counts_nonzero_rewards_in_verl() -> None:
    inputs = {"rewards": [1.0, 1, 0, 0, 1, 0, 1, 1], "group_ids": [0] * 4 + [1] * 4, "lengths": [2] * 8}
    found = results("gpg", inputs)["advantage_per_rollout"]
    assert close(found, [0.8, 0.8, -0.8, -0.8, 0.4, -1.2, 0.4, 0.4])


def test_remax_subtracts_the_greedy_reward() -> None:
    found = results("remax", {"rewards": [1.0], "greedy_rewards": [0.4], "lengths": [3]})
    assert close(found["advantage_per_token"], [[0.6, 0.6, 0.6]])


def rows(states: list[str], wins: list[bool]) -> dict[str, Any]:
    """Rows of rollouts of one prompt that visit these states; a success has 10 at its last turn."""
    turns = [(i, t, s, t == len(path) - 1) for i, path in enumerate(states) for t, s in enumerate(path)]
    return {
        "prompt_id": ["p"] * len(turns),
        "rollout_id": [i for i, *_ in turns],
        "turn_index": [t for _, t, *_ in turns],
        "state_key": [s for _, _, s, _ in turns],
        "turn_reward": [10.0 * (last and wins[i]) for i, _, _, last in turns],
        "outcome_reward": [10.0 * wins[i] for i, *_ in turns],
    }


def test_gigpo_states_seen_by_a_success_and_a_failure() -> None:
    inputs = rows(["01", "021"], [True, False])
    found = results("gigpo", inputs, gamma=0.95, step_weight=1.0, mode="mean_std_norm")
    assert close(found["step_return"], [9.5, 10.0, 0, 0, 0])
    assert close(found["episode_advantage"], [1.095445, 1.095445, -0.730297, -0.730297, -0.730297])
    assert close(found["advantage"], [1.802552, 1.802552, -1.437403, -0.730297, -1.437403])
    plain = results("gigpo", inputs, gamma=0.95, step_weight=1.0, mode="mean_norm")
    assert close(plain["advantage"], [10.75, 11, -8.75, -4, -9])


def test_hgpo_longer_histories_weigh_more() -> None:
    inputs = rows(["sx", "sx", "tx"], [True, False, False])
    found = results("hgpo", inputs, gamma=0.95, history_length=2, mode="mean_std_norm")
    assert close(found["step_return"], [9.5, 10, 0, 0, 0, 0])
    assert close(found["advantage"], [0.999999, 1.165685, -0.999999, -0.882842, 0, -0.707106])
    short = results("hgpo", inputs, gamma=0.95, history_length=0, mode="mean_std_norm")
    assert close(short["advantage"][1::2], [1.414213, -0.707106, -0.707106])


@pytest.mark.parametrize(
    ("drop_zero", "second"),
    [(True, [0.707106, 0.707106, -1.414213]), (False, [0.282843, 0.282843, -1.414213])],
)
def test_hgpo_tied_histories_dilute_only_if_zeros_are_kept(drop_zero: bool, second: list[float]) -> None:
    inputs = rows(["sx", "sx", "tx"], [True, True, False])
    found = results("hgpo", inputs, gamma=0.95, history_length=2, mode="mean_std_norm", drop_zero=drop_zero)
    assert close(found["advantage"][1::2], second)


def test_salt_a_shared_first_step_is_not_punished() -> None:
    edges = [["sax", "xby"], ["sax", "xcz"], ["sdw"]]
    found = results("salt", {"outcome_reward": [1, 0, 0], "edges": edges}, divide_by_std=True)
    assert close(found["rollout_advantage"], [1.154699, -0.577349, -0.577349])
    for actual, expected in zip(
        found["step_advantage"], [[0.288675, 1.154699], [0.288675, -0.577349], [-0.577349]], strict=True
    ):
        assert close(actual, expected)


COVARIANT = {
    "logp": [[-0.1, -2, -0.5], [-1, -0.2, -3]],
    "old_logp": [[-0.2, -1.8, -0.5], [-1.1, -0.4, -2.5]],
    "advantages": [[1.0] * 3, [-1.0] * 3],
    "mask": [[1.0] * 3] * 2,
}


def test_kl_cov_pulls_on_the_two_tokens_of_largest_covariance() -> None:
    found = results("clip-cov-kl-cov", COVARIANT, variant="kl_cov", ratio=0.34, kl_coef=1.0, aggregation="token-mean")
    assert close(found["covariance"], [[1.033333, -0.866667, 0.633333], [-0.133333, -0.933333, 1.866667]])
    assert found["selected"].tolist() == [[0, 0], [1, 2]]
    assert close(found["loss"], 0.101534)
    assert close(found["grad_logp"], [[-0.017528, -0.136455, -0.166667], [0.184195, 0.203567, -0.065578]])


def test_clip_cov_drops_the_tokens_of_the_band() -> None:
    band = {"drop_ratio": 1.0, "cov_low": 0.5, "cov_high": 5.0, "clip_low": 1.0, "clip_high": 1.0}
    found = results("clip-cov-kl-cov", COVARIANT, variant="clip_cov", aggregation="token-mean", **band)
    assert found["dropped"].tolist() == [[0, 0], [0, 2], [1, 2]]
    assert close(found["loss"], 0.251307)
    assert close(found["grad_logp"][0], [0.0, -0.136455, 0.0])
    assert found["grad_logp"][1, 2] == 0


def test_real_group_of_four() -> None:
    inputs = {
        "logp": [[-1.0]] * 4,
        "old_logp": [[-1.2], [-0.9], [-1.1], [-1.0]],
        "mask": [[1.0]] * 4,
        "rewards": [1, 1, 0, 0],
        "group_size": 4,
    }
    found = results("real", inputs, tau=0.5)
    assert close(found["score"], [0.2, -0.1, 0.1, 0.0])
    assert close(found["loss"], 2.2316694, to=5e-7)
    assert close(found["grad_logp"][:, 0], [-0.4636129, -0.8447578, 0.7583049, 0.6208475], to=5e-7)
    assert close(found["bce_loss"], 0.7006100, to=5e-7)


@pytest.mark.parametrize(
    ("credit", "natural", "by_std", "advantage"),
    [
        ("uniform", True, False, [-0.33333, -2.16666, 0, -0.33333, -2.16666, 0]),
        ("std", True, True, [-0.57735, -3.75275, 0, -0.57735, -3.75275, 0]),
        ("sum-mean", False, True, [0.16667, -0.99999, 0.22222, 0.16667, -0.5, 0.44444]),
    ],
)
def test_riskpo_two_questions_of_three(credit: str, natural: bool, by_std: bool, advantage: list[float]) -> None:
    inputs = {
        "rewards": [1, 0, 1, 0, 0, 1],
        "question_ids": [0, 0, 0, 1, 1, 1],
        "bundle_ids": [0] * 6,
        "tracked_quantile_low": 0.5,
        "tracked_quantile_high": 1.5,
    }
    found = results(
        "riskpo",
        inputs,
        quantile_down=0.2,
        quantile_up=0.8,
        use_mixing_risk_measure=True,
        credit_assign_mode=credit,
        natural_baseline_adv=natural,
        norm_adv_by_std_in_grpo=by_std,
    )
    assert found["bundle_scores"][0] == [1, 0, 2]
    assert close(found["advantage"], advantage, to=1.1e-5)  # the printed digits are cut, not rounded


def test_think_rm_three_answers() -> None:
    inputs = {"pairs": [[0, 1, 2], [0, 2, 1], [1, 2, -1]], "n": 3, "group_size": 3}
    assert close(results("think-rm", inputs)["advantages"], [0.9999995, -0.9999995, 0.0], to=5e-7)


def test_think_rm_consistent_differences_are_grpo() -> None:
    r = [0.3, -1.2, 0.5, 0.9]
    pairs = [[i, j, r[i] - r[j]] for i in range(4) for j in range(i + 1, 4)]
    found = results("think-rm", {"pairs": pairs, "n": 4, "group_size": 4})["advantages"]
    assert close(found, [0.190657, -1.443546, 0.408551, 0.844338])
    grpo = results("grpo", {"rewards": r, "group_ids": [0] * 4, "lengths": [1] * 4})["advantage_per_rollout"]
    assert close(found, grpo.tolist(), to=2e-6)


def test_arenarl_four_rollouts_of_known_quality() -> None:
    inputs = {"pair_scores": [[quality] * 4 for quality in (6.0, 9.0, 3.0, 7.0)]}
    found = results("arenarl", inputs)
    for topology in ("anchor", "round_robin", "seeded_single_elimination"):
        assert close(found[topology], [-0.38730, 1.16189, -1.16189, 0.38730], to=1e-5)


def test_spo_single_stream_two_prompts() -> None:
    inputs = {"alpha": [4.0, 1.0], "beta": [4.0, 7.0], "rewards": [1.0, 0.0], "policy_shift": [0.005, 0.005]}
    found = results("spo-single-stream", inputs)
    assert close(found["value"], [0.5, 0.125])
    assert close(found["advantage_raw"], [0.5, -0.125])
    assert close(found["advantage"], [0.70711, -0.70711])
    assert close(found["rho"], [0.943874, 0.943874])
    assert close(found["new_alpha"], [4.775497, 0.943874])


# -- sentences of the cards that no vector here reaches ----------------------------------------------------------------


def test_clip_cov_never_drops_a_token_that_the_clip_has_stopped() -> None:
    band = {"drop_ratio": 1.0, "cov_low": 0.5, "cov_high": 5.0, "clip_low": 0.2, "clip_high": 0.2}
    found = results("clip-cov-kl-cov", COVARIANT, variant="clip_cov", aggregation="token-mean", **band)
    assert found["dropped"].tolist() == [[0, 0], [0, 2]]


@pytest.mark.parametrize(
    ("aggregation", "loss"),
    [("token-mean", 2.0), ("seq-mean-token-sum", 3.0), ("seq-mean-token-mean", 2.25), ("seq-mean-token-sum-norm", 2.0)],
)
def test_a_fully_masked_sequence_is_in_no_denominator_and_holes_are_skipped(aggregation: str, loss: float) -> None:
    inputs = {
        "logp": [[-1.0, -9, -2], [-9, -3, -9], [-9, -9, -9]],
        "advantage_per_token": [[1.0] * 3] * 3,
        "mask": [[1.0, 0, 1], [0, 1, 0], [0, 0, 0]],
    }
    assert close(results("reinforce", inputs, aggregation=aggregation)["loss"], loss)


def test_dr_grpo_divides_by_all_rows_even_by_an_empty_one() -> None:
    inputs = ratios([0.0, 0.0], [0.0, 0.0]) | {
        "advantage_per_token": [[-1.0, -1.0]] * 2,
        "mask": [[1.0, 1.0], [0.0, 0.0]],
    }
    found = results("dr-grpo", inputs, clip_low=0.2, clip_high=0.2, loss_norm_length=4)
    assert close(found["loss_verl_sum_over_sequences"], 0.5)
    assert close(found["loss_mean_over_sequences"], 0.25)


def test_gae_passes_through_a_masked_token_and_loses_its_reward() -> None:
    inputs = {"token_level_rewards": [[0.0, 5, 1]], "values": [[0.5, 0.9, 0.6]], "mask": [[1.0, 0, 1]]}
    found = results("ppo", inputs, gamma=1.0, **{"lambda": 1.0})
    assert close(found["advantage_raw"], [[0.5, 0.4, 0.4]])
    assert close(found["returns"], [[1.0, 1.3, 1.0]])


def test_reinforce_plus_plus_returns_stop_at_a_masked_token() -> None:
    inputs = {"token_level_rewards": [[0.1, 0.2, 0.0, 1.0]], "mask": [[1.0, 1, 0, 1]]}
    assert close(results("reinforce-plus-plus", inputs, gamma=1.0)["returns"], [[0.3, 0.2, 1.0, 1.0]])


def test_riskpo_rollouts_beyond_the_smallest_question_get_nothing() -> None:
    inputs = {
        "rewards": [1, 0, 1, 0, 1],
        "question_ids": [0, 0, 0, 1, 1],
        "bundle_ids": [7] * 5,
        "tracked_quantile_low": None,
        "tracked_quantile_high": None,
    }
    settings = {"quantile_down": 0.2, "quantile_up": 0.8, "norm_adv_by_std_in_grpo": False}
    found = results("riskpo", inputs, use_mixing_risk_measure=True, credit_assign_mode="uniform", **settings)
    assert found["bundle_scores"][7] == [1, 1]
    assert found["advantage"][2] == 0


def test_hgpo_a_return_at_the_mean_is_zero_whatever_its_last_bit() -> None:
    """Returns −0.3, −0.2, −0.1 from one state: the middle one is their mean, though not in binary fractions."""
    inputs = rows(["aaa"], [False]) | {"turn_reward": [-0.1, -0.1, -0.1]}
    found = results("hgpo", inputs, gamma=1.0, history_length=1, mode="mean_norm", length_weight_alpha=0.0)
    assert close(found["advantage"], [-0.1, -0.05, 0.075])


def test_clinical_r1_a_right_answer_in_a_bad_layout_beats_a_wrong_one_in_a_perfect_layout() -> None:
    responses = [
        "<think>t</think><answer>So \\boxed{B}</answer>",
        "<think>t</think><answer>\\boxed{A}</answer>",
        "So \\boxed{B}",
        "none",
    ]
    found = results("clinical-r1", {"responses": responses, "gold_choice": "B"})
    assert close(found["rewards"], [12.0, 1.5, 10.5, 0.5])
    assert close(found["grpo_advantages"], [0.985171, -0.775560, 0.733638, -0.943249])


def test_multirole_r1_three_sentences() -> None:
    inputs = {
        "sentences": [[["i", "think", "the", "tax"], ["the", "tax", "of", "the", "school"], ["but", "fair"]]],
        "sentence_types": [["declarative", "interrogative", "declarative"]],
        "accuracy": [1.0],
        "function_words": ["the", "of", "a", "but"],
    }
    found = results("multirole-r1", inputs)
    scores = [0.727273, 0.948450, 0.340151, 0.579380, 0.833333, 0.131379, 0.9, 0.685475]
    assert close(list(found["subscores"][0].values()), scores)
    assert close(found["yule_k"], [661.157], to=5e-4)
    assert close(found["diversity"], [0.643180])
    assert close(found["rewards"], [0.964318])


def test_info_consistent_grpo_two_pairs() -> None:
    pairs = [
        [["bond", "stock", "fund", "cash"], ["bond", "bond", "fund", "fund"]],
        [["bond", "fund"], ["bond", "fund", "bond", "fund"]],
    ]
    found = results("info-consistent-grpo", {"items_of_variant_pairs": pairs})
    assert close(found["entropy"], [[1.386294, 0.693147], [0.693147, 0.693147]])
    assert close(found["pair_stability"], [0.0, 1.0])
    assert close(found["rewards"], [[0.5, 0.0], [0.5, 0.5]])
    assert close(found["advantages_flat"], [0.499998, -1.499994, 0.499998, 0.499998])
    assert close(found["advantages_flat_with_group_stability"], [1.5, -0.5, -0.5, -0.5], to=1e-5)


def test_fleming_r1_centres_and_sums_over_tokens() -> None:
    found = results("fleming-r1", {"rewards": [1.0, 0, 1, 1], "sequence_logp": [-12.0, -10, -14, -11]})
    assert close(found["advantages"], [0.25, -0.75, 0.25, 0.25])
    assert close(found["loss"], 0.4375)


def test_guru_pass_at_k_and_its_filter() -> None:
    found = results("guru", {"n_samples": 16, "n_correct": [4]}, k=[1, 4, 8, 16])
    assert close(found["pass_at_k"], [[0.25, 0.728022, 0.961538, 1.0]])
    rates = {"weak_pass_rate": [0.9375, 0.5, 0.5], "strong_pass_rate": [1.0, 0.0, 0.25]}
    kept = results("guru", rates, drop_if_weak_at_least=0.9375, drop_if_strong_at_most=0.0)["keep"]
    assert kept.tolist() == [False, False, True]


def test_earl_credits_a_rewritten_group_by_its_gain_and_draws_tools_by_theirs() -> None:
    inputs = {"rewards": [0.0] * 4 + [1.0, 0, 1, 0], "counterfactual_rewards": [1.0, 0, 0, 1, 0, 0, 0, 0]}
    found = results("earl", inputs | {"group": [0] * 4 + [1] * 4}, epsilon=1e-6, divide_by_std=True)
    assert found["rewrite_mask"].tolist() == [True] * 4 + [False] * 4
    assert close(found["rollout_advantages"], [1.0, 0, 0, 1, 0.866024, -0.866024, 0.866024, -0.866024])
    gains = {"average_counterfactual_gain": {"calc": 0.2, "sort": 0.05}, "tools": ["calc", "sort"]}
    assert close(results("earl", gains)["tool_probabilities"], [0.679179, 0.320821])


def test_knowrl_six_of_eight_say_feasible() -> None:
    votes = [["feasible"] * 6 + ["infeasible"] * 2] * 2
    found = results("knowrl", {"declared": ["feasible", "infeasible"], "votes": votes}, k=8, keep_threshold=0.75)
    assert close(found["consensus"], [0.75, 0.75])
    assert close(found["agreement_with_declared"], [0.75, 0.25])
    assert found["majority"] == ["feasible", "feasible"]
    assert found["keep_as_seed"] == [True, False]


def test_search_r2_rewards_useful_searches_of_right_answers() -> None:
    inputs = {"outcome": [1.0, 0, 1, 0], "search_useful": [[1, 0], [1, 1, 1, 0], [], [0]]}
    found = results("search-r2", inputs, epsilon=1e-6)
    assert close(found["process"], [0.5, 0.75, 0, 0])
    assert close(found["rewards"], [1.5, 0, 1, 0])
    assert close(found["grpo_advantages"], [1.166665, -0.833332, 0.499999, -0.833332])


def test_search_r2_gains_by_precision_volume_and_skill() -> None:
    inputs = {"trajectory_probability": [0.5, 0.5], "trajectory_reward": [1.0, 0], "accept_probability": [0.9, 0.2]}
    inputs |= {"cut_distribution": [[0.5, 0.5], [1.0, 0]], "prefix_value": [[0.5, 0.2], [0.6, 0.1]]}
    found = results("search-r2", inputs)
    assert close(found["regenerated_value"], [0.35, 0.6])
    assert close(
        [found[name] for name in ("selection_precision", "intervention_volume", "trimming_skill", "gain")],
        [0.21875, 0.45, -0.025, 0.2075],
    )


def test_debate_reward_pays_a_decision_that_wins() -> None:
    inputs = {"env_reward": [0, -0.1, 1], "judge_score_action": [0.3, 0.2, -1], "judge_score_baseline": [0.1, 0.2, 0.5]}
    hyper = {"lambda": 0.5, "env_multiplier": 15.0, "debate_multiplier": 10.0}
    found = results("debate-reward", inputs, **hyper)
    assert close(found["debate_reward"], [10.0, 0, 0], to=0.0)
    assert close(found["reward"], [5, -0.75, 7.5], to=1e-12)


def test_bs_iris_pays_what_labels_became_likelier() -> None:
    inputs = {"before": [0.5, 0.6, 0.4], "after": [0.7, 0.5, 0.2], "label": [1, 1, 0]}
    for weight, first in ((1.0, 0.336472), (2.0, 0.672944)):
        found = results("bs-iris", inputs | {"weight": [weight, 1, 1]}, kind="improvement_reward", clip=1e-6)
        assert close(found["reward"], [first, -0.182322, 0.287682], to=1e-6)
    inputs = {"start": [0.5], "action": [[0.4], [-0.2]], "label": [1], "weight": [1.0]}
    found = results("bs-iris", inputs, kind="rollout", gamma=1.0, clip=1e-6)
    assert close(found["reward"], [[0.587787], [-0.251314]], to=1e-6)
    assert close(found["return_to_go"], [[0.336472], [-0.251314]], to=1e-6)
    assert close(found["total_gain"], [0.336472], to=1e-6)


def test_gf_screen_credits_what_the_segmenter_finds() -> None:
    keep = [0.2, 0.2, -0.3, 0.05, 0.0]
    inputs = {
        "reward": [1.0, 0, 0, 1, 0],
        "old_logits": [[0.0, 0.0]] * 5,
        "new_logits": [[0.0, z] for z in keep],
    }
    found = results(
        "gf-screen", inputs, std_floor=0.01, adv_clip=5.0, clip_eps=0.1, kl_coef=0.01, ratio_clamp=[0.01, 5]
    )
    assert close(found["advantages"], [1.09545, -0.73030, -0.73030, 1.09545, -0.73030])
    assert close(found["loss"], -0.0273152, to=1e-7)


def test_earli_compares_the_lengths_of_tours() -> None:
    inputs = {
        "coordinates": [[0, 0], [0, 1], [1, 1], [1, 0]],
        "demand": [0, 3, 3, 3],
        "tours": [[1, 2, 3], [2, 1, 3], [1, 3, 2]],
    }
    found = results("earli", inputs, capacity=6, population=6, seeds=3)
    assert close(found["cost"], [5.414214, 5.414214, 6.242641], to=1e-6)
    assert found["population_order"] == [0, 1, 2]
    assert close(found["advantage_mean_baseline"], [0.276142, 0.276142, -0.552285], to=1e-6)
