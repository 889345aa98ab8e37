"""Everything that a run depends on, as one value: the content of `config.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from podium.core import serial
from podium.core.errors import PodiumError, one_of, within
from podium.core.named_code import UntrustedCode, check_code
from podium.core.schedule import Count, Number
from podium.core.value import Value
from podium.method import DEFAULTS, SCHEDULES, Method
from podium.policy.model.device import usual_dtype
from podium.protocols.world import ISOLATIONS, World
from podium.sampler.outside import LOCAL, check_name
from podium.store.run_directory import RunDirectory
from podium.training.quantized_adam import BLOCK
from podium.worlds.names import world_code

__all__ = ["MOMENTS", "USUAL", "Config", "Optimizer"]


# Bytes of a trained weight's gradient and of the optimiser's two running means, by their precision.
MOMENTS = {"float32": 4 + 8, "8bit": 4 + 2 * (1 + 4 / BLOCK)}


class Optimizer(Value):
    """AdamW with a warm-up and a schedule of the learning rate. What is None is as the method's protocol says."""

    lr: Number = None  # learning rate
    betas: tuple[float, float] | None = None  # decay rates of the running means of gradients and of their squares
    weight_decay: Number = None  # decoupled, as AdamW has it
    warmup: Count = None  # updates
    schedule: str | None = None  # constant, linear or cosine decay over the run
    final: Number = None  # where the decay ends, as a share of `lr`
    clip: Number = None  # of the gradient norm; 0: none

    def __post_init__(self) -> None:
        for name in ("lr", "weight_decay", "warmup", "clip"):
            within(self, name, 0, optional=True)
        within(self, "final", 0, 1, optional=True)
        if self.schedule is not None:
            one_of(self, "schedule", SCHEDULES)

    def over(self, other: Optimizer) -> Optimizer:
        """These settings, and those of `other` where they are None."""
        return other.replace(**{name: value for name, value in self.settings().items() if value is not None})


# Podium's own, where neither the run nor a protocol says otherwise.
USUAL = Optimizer(**{name: getattr(DEFAULTS, name) for name in Optimizer.field_names()})


class Config(Value):
    """A re-runnable description of a run. `podium.training.resolve` fills in what is None, so that the config.yaml of a
    run is complete."""

    method: Method  # a slug of the catalogue, a combination, or a value
    world: str | World = "sums"  # by name, or the value itself
    world_settings: dict[str, Any] | None = None  # level and dials
    model: str = "podium/tiny"  # an embedded model, a Hugging Face directory or name, or a GGUF file
    iterations: Count = None  # None: as an exact protocol says, else 60
    token_budget: int | None = None  # stop after this many sampled tokens, whatever `iterations` says
    tasks: Count = None  # per iteration; None: as an exact protocol says, else 16
    # Distinct training tasks of an endless world, so that tasks come back; None: so few that they do where the method
    # remembers tasks, else no end of them.
    pool: int | None = None
    seed: int = 0  # of all random numbers of the run
    max_tokens: Count = None  # per turn; None: as an exact protocol says, else the world's
    max_turns: int | None = None  # of an episode; None: as an exact protocol says, else the world's
    optimizer: Optimizer = Optimizer()  # its settings: below
    micro_tokens: int | None = None  # tokens in one forward pass of training; None: 16384, on a GPU what fits
    checkpointing: bool = False  # recompute activations in the backward pass: less memory, more time
    device: str = "cpu"  # cpu, cuda or cuda:N
    dtype: str | None = None  # of the computation; None: bfloat16 on a GPU that supports it, float32 elsewhere
    sampler: str = "local"  # what samples: local (Podium's own), vllm (in this process), or openai:URL (a server)
    sampler_settings: dict[str, Any] | None = None  # of vLLM, or of the calls to a server
    lora: int | None = None  # rank; None: all weights are trained
    moments: str = "float32"  # precision of the optimiser's running means: float32, or 8bit, a quarter of the memory
    # Of several processes each keeps a share of the optimiser's moments, and the others' updates are sent to it.
    shard: bool = False
    eval_every: int = 20  # iterations; 0: only before and after
    eval_tasks: int = 128  # held-out tasks of one evaluation
    eval_samples: int = 2  # answers to each of them
    checkpoint_every: int = 25  # iterations; 0: only at the end
    keep_checkpoints: int = 2  # the newest ones
    keep_rollouts_gb: float | None = 2.0  # of whole rollouts, those of the newest iterations; None: all of them
    keep_examples: int = 8  # rollouts of each older iteration that keep their text
    # Seconds between SIGTERM or SIGUSR1 and the end of the process: an iteration under way may use them to end.
    grace_s: float = 25.0
    act_limit_s: float | None = None  # time limit of an action in a world that is not embedded; None: the world's
    isolation: str | None = None  # how episodes run: inline, thread, process or sandbox; None: as the world says
    # The largest mean |log-prob| gap between sampler and trainer that a run survives; None: what rounding explains,
    # 1e-3, in bfloat16 5e-2.
    sentinel: float | None = None

    def __post_init__(self) -> None:
        for name in ("eval_tasks", "eval_samples", "keep_checkpoints"):
            within(self, name, 1)
        for name in ("iterations", "tasks", "pool", "max_tokens", "max_turns", "micro_tokens", "lora"):
            within(self, name, 1, optional=True)
        for name in ("eval_every", "checkpoint_every", "keep_examples"):
            within(self, name, 0)
        within(self, "token_budget", 1, optional=True)
        within(self, "act_limit_s", 0, open_low=True, optional=True)
        within(self, "grace_s", 0)
        within(self, "keep_rollouts_gb", 0, optional=True)
        within(self, "sentinel", 0, open_low=True, optional=True)
        if self.isolation is not None:
            one_of(self, "isolation", ISOLATIONS)
        if self.dtype is not None:
            one_of(self, "dtype", ("float32", "bfloat16"))
        one_of(self, "moments", tuple(MOMENTS))
        check_name(self.sampler)
        if self.sampler == LOCAL and self.sampler_settings:
            raise PodiumError("sampler_settings belong to vllm or to a server: name one with sampler.")
        if self.shard and self.moments != "float32":
            raise PodiumError("shard keeps moments in float32: leave moments='8bit' out, or shard.")

    @property
    def precision(self) -> str:
        """The precision of the computation: `dtype`, or what is usual on the device."""
        return self.dtype or usual_dtype(self.device)

    @property
    def gap_allowed(self) -> float:
        """The largest mean gap between the log-probabilities of sampler and trainer that the sentinel accepts."""
        return self.sentinel or (5e-2 if self.precision == "bfloat16" else 1e-3)

    def to_yaml(self) -> str:
        return serial.to_yaml(self)

    @classmethod
    def from_yaml(
        cls, text: str, *, trust: bool = False, run: Path | None = None, leave_out: tuple[str, ...] = ()
    ) -> Config:
        """The configuration of a YAML text. Unless `trust`, code that it names must be in the current project, and not
        in the directory of the `run` that the text belongs to. `leave_out` may hold `method` and `world`, of which then
        no code is executed: of a world only the name is read, of a method its name and, if it is Podium's own, the
        strategy of its last phase."""
        data = _without(serial.read_data(cls, text), leave_out)
        if not trust:
            (settings,) = data.values()
            world = settings.get("world")
            named = isinstance(world, str) and "world" not in leave_out
            of_world = world_code(world, settings.get("world_settings") or {}) if named else []
            check_code([*serial.code_names(data), *of_world], run)
        return serial.decode_as(Config, data)

    @classmethod
    def of_run(cls, directory: RunDirectory, *, trust: bool = False, leave_out: tuple[str, ...] = ()) -> Config:
        """The configuration in the config.yaml of a run."""
        text, file = directory.read_config(), directory.path / "config.yaml"
        try:
            return cls.from_yaml(text, trust=trust, run=directory.path, leave_out=leave_out)
        except UntrustedCode as problem:
            raise UntrustedCode(f"{file}: {problem}") from problem
        except PodiumError as problem:
            raise PodiumError(f"{file}: {problem}") from problem
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as problem:  # of a part's checks
            raise PodiumError(f"{file}: {type(problem).__name__}: {problem}.") from problem


def _without(data: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """The data of a configuration with only the names of these fields, so that their code need not be executed."""
    ((name, settings),) = data.items()
    settings = dict(settings)
    if "method" in fields and isinstance(settings.get("method"), dict):
        (method,) = settings["method"].values()
        name_of, summary = (str(method.get(key, "")) if isinstance(method, dict) else "" for key in ("name", "summary"))
        strategy = _last_strategy(settings["method"])
        own = None if any(serial.code_names(strategy)) else serial.decode(strategy)
        settings["method"] = serial.encode(Method(name=name_of, summary=summary, rollout=own))
    if "world" in fields and isinstance(settings.get("world"), dict):
        settings["world"] = next(iter(settings["world"]))
    return {name: settings}


def _last_strategy(method: Any) -> Any:
    """The data of the strategy of a method, in the last of its phases; None: it has none."""
    (settings,) = method.values() if isinstance(method, dict) and len(method) == 1 else ({},)
    if not isinstance(settings, dict):
        return None
    phases, methods = settings.get("phases"), settings.get("methods")
    if phases:
        return _last_strategy(phases[-1]["Phase"]["method"])
    return _last_strategy(methods[-1]) if methods else settings.get("rollout")
