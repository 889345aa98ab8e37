"""Names that vulture takes for unused: other code calls them, by a protocol or from outside the package.

Each line uses a name, which is how vulture's allowlists work; this file is never run.
"""
# ruff: noqa: B018, F821
# mypy: ignore-errors

__getattr__  # function in __init__.py
__dir__  # function in __init__.py
token_entropy  # variable in analysis/paired_models.py
regenerated  # variable in analysis/refinement.py
forced  # variable in core/columns.py
_.ignore_aliases  # method in core/yaml_text.py
_.capped  # method in parts/objective/clip.py
_.variance_reduction  # method in parts/select/belief.py
_.icepop  # method in parts/shape/correction.py
budget_left  # variable in tables/allocation.py
fairness_before  # variable in tables/distraction.py
fairness_after  # variable in tables/distraction.py
global_disparity  # variable in tables/information.py
local_disparity  # variable in tables/information.py
redundant_minus_masked  # variable in tables/information.py
global_parity  # variable in tables/information.py
local_parity  # variable in tables/information.py
redundant  # variable in tables/information.py
unique_client  # variable in tables/information.py
k_min  # variable in tables/random_values.py
_.hf_quantizer  # attribute in policy/model/load.py
_.is_quantized  # attribute in policy/model/load.py
_.argtypes  # attribute in policy/native/__init__.py
_.restype  # attribute in policy/native/__init__.py
_.generate  # method in protocols/sampling.py
memo  # variable in protocols/world.py
_.reused  # attribute in sampler/decoder_engine.py
STOPS  # variable in sampler/row_state.py
LIMIT  # variable in sampler/rows.py
_.action_value  # method in worlds/oracle.py
_.only_last_action  # attribute in worlds/player.py
_.force_recompile  # attribute in worlds/player.py
_.tempdir  # attribute in worlds/hosting.py
_.ignore_aliases  # method in core/yaml_text.py
prepare_sympy  # function in sandbox/graders.py
_.redirect_request  # method in collect/servers.py
_.podium_renew  # method in policy/engine_weights.py
_.__podium_source__  # attribute in training/saved_code.py
_.get_response  # method in worlds/verifiers_rollout.py
sampling_args  # variable in worlds/verifiers_rollout.py
