"""Loading models: the embedded one, a Hugging Face directory or hub name, or a GGUF file. Never a pickle."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from podium.core.errors import PodiumError, nearest
from podium.policy.choose.chooser import Chooser
from podium.policy.draw.flow_policy import FlowPolicy
from podium.policy.model import device as devices
from podium.policy.model import lora as adapters
from podium.policy.model.finite import check_finite
from podium.policy.network_policy import NetworkPolicy
from podium.policy.policy import Policy
from podium.policy.roles.matcher import Matcher
from podium.policy.vision.seen import FAMILIES as VISION
from podium.policy.vision.seen import processor_class
from podium.policy.vision.vision_policy import VisionPolicy
from podium.store.json_lines import read_object
from podium.store.manifest import check_manifest, is_checkpoint

__all__ = ["load", "load_tokenizer"]

EMBEDDED = "podium/"
NETWORKS: dict[str, type[NetworkPolicy]] = {kind.kind: kind for kind in (Chooser, FlowPolicy, Matcher)}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
CONNECT_S = 5.0  # seconds; enough for a slow network to connect
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def load(
    name: str | Path, *, dtype: str = "float32", device: str = "cpu", lora: Mapping[str, Any] | None = None
) -> Policy:
    """A policy from `podium/tiny`, a directory, a hub name or a GGUF file; with `lora`, only adapters are trained."""
    if dtype not in DTYPES:
        raise PodiumError(f"dtype = {dtype!r} is not one of {', '.join(map(repr, DTYPES))}.")
    place = devices.find_device(device, DTYPES[dtype])
    source, options, shown = _source(name)
    if own := _own_kind(Path(source)):
        return _network(own, Path(source), shown, place, lora)
    devices.check_host(shown, _weights(Path(source)), DTYPES[dtype])
    # The progress bar of the GGUF reader cannot be turned off.
    with _quiet(), redirect_stderr(io.StringIO()) if "gguf_file" in options else nullcontext():
        model, tokenizer = _read(source, options, shown, DTYPES[dtype])
    vocabulary = model.config.get_text_config().vocab_size
    if len(tokenizer) > vocabulary:
        raise PodiumError(
            f"{shown}: its tokenizer has {len(tokenizer)} tokens, its model only {vocabulary}. "
            "They do not belong together."
        )
    check_finite(shown, model.named_parameters())
    if lora is not None:
        model = adapters.attach(model, lora)
    devices.check_model_fits(shown, sum(p.numel() for p in model.parameters()), DTYPES[dtype], place, lora is not None)
    if vision := _sees(model):
        return VisionPolicy(model.to(place), tokenizer, _image_processor(source, options, shown, vision), name=shown)
    return Policy(model.to(place), tokenizer, name=shown)


def _sees(model: Any) -> str:
    """The family of a vision-language model; empty: it reads text alone."""
    kind = str(model.config.model_type)
    return kind if kind in VISION and hasattr(model.config, "vision_config") else ""


def _image_processor(source: str, options: dict[str, Any], shown: str, family: str) -> Any:
    """The model's own image processor, by Pillow and NumPy."""
    reader = processor_class(family)
    try:
        return reader.from_pretrained(source, **options)
    except Exception as error:
        raise PodiumError(
            f"{shown} is a vision-language model ({family}), whose image processor cannot be loaded: {_reason(error)}"
        ) from error


def _own_kind(path: Path) -> type[NetworkPolicy] | None:
    """The class of a policy that is a network of Podium's own; None: it is a language model."""
    config = path / "config.json"
    kind = read_object(config).get("model_type") if config.is_file() else None
    return NETWORKS.get(kind) if isinstance(kind, str) else None


def _network(
    own: type[NetworkPolicy], path: Path, shown: str, place: torch.device, lora: Mapping[str, Any] | None
) -> Policy:
    if lora is not None:
        raise PodiumError(f"{shown} is a {own.kind}, of which all weights are trained: leave lora out.")
    policy = own.from_directory(path, shown)
    policy.model.to(place)
    return policy


def _source(name: str | Path) -> tuple[str, dict[str, Any], str]:
    """Where the files are, options for the readers, and the name to show."""
    shown = str(name)
    if shown.startswith(EMBEDDED):
        folder = Path(str(files("podium"))) / "models"
        path = folder / shown.removeprefix(EMBEDDED)
        if not (path / "config.json").is_file():
            names = [EMBEDDED + p.parent.name for p in folder.glob("*/config.json")] if folder.is_dir() else []
            raise PodiumError(f"There is no embedded model {shown!r}. {nearest(shown, names)}")
        return str(path), {}, shown
    path = Path(shown).expanduser()
    if path.suffix == ".gguf":
        return (*_gguf(path), shown)
    if path.is_dir():
        _check_directory(path)
        return str(path), {}, shown
    if path.exists():
        raise PodiumError(
            f"{shown} is a file. A model is a directory with config.json and safetensors, or a GGUF file."
        )
    if not HUB_NAME.fullmatch(shown) or (path.parent != Path() and path.parent.is_dir()):
        raise PodiumError(f"There is no model directory {shown}.")
    return shown, _from_hub(shown), shown


def _from_hub(name: str) -> dict[str, Any]:
    """Options for a model of the hub, after a single request: the readers would retry for half a minute where there is
    no network."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=CONNECT_S)
    except RepositoryNotFoundError as error:
        raise PodiumError(
            f"{name} is neither a directory here nor a model of the hub that you may read. Check the name; if it is "
            "private or gated, log in with `hf auth login`."
        ) from error
    except Exception as error:
        # Its HTTP client may be one of several packages. Other errors are left to the readers, which report more.
        if not isinstance(error, ConnectionError) and type(error).__name__ not in ("ConnectError", "ConnectTimeout"):
            return {}
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return {"local_files_only": True, "adapter_kwargs": {"local_files_only": True}}
        raise PodiumError(
            f"{name} is no directory here, and the hub cannot be reached to fetch a model of that name: "
            f"{_reason(error).rstrip('.')}. Give a directory with config.json and safetensors or a GGUF file, or "
            "connect to the network."
        ) from error
    return {}


def _gguf(path: Path) -> tuple[str, dict[str, Any]]:
    if not path.is_file():
        raise PodiumError(f"There is no file {path}.")
    for package in ("gguf", "accelerate"):  # transformers reads GGUF through both
        if find_spec(package) is None:
            raise PodiumError(f"A GGUF file needs the package {package}: pip install 'podium-rl[gguf]'.")
    return str(path.parent), {"gguf_file": path.name}


def _check_directory(path: Path) -> None:
    """Refuse a directory that cannot be loaded, before anything is loaded."""
    place = path.resolve()
    if is_checkpoint(place.parent):
        check_manifest(place.parent, place.name)
    config = path / "config.json"
    if not config.is_file():
        raise PodiumError(f"{path} is not a model: it has no config.json.")
    if (path / "adapter_config.json").is_file():  # with peft, transformers would load the model that it names instead
        raise PodiumError(
            f"{path} holds adapters for another model (adapter_config.json). Merge them with peft's merge_and_unload "
            "and save the whole model; if that is what is here, remove adapter_config.json."
        )
    claims = read_object(config)
    weights = sorted(path.glob("*.safetensors"))
    if not weights:
        pickles = [p.name for p in path.iterdir() if p.suffix in (".bin", ".pt", ".pth", ".pkl")]
        if pickles:
            raise PodiumError(
                f"{path} has its weights as a pickle ({pickles[0]}), which can run any program when it is opened. "
                "Podium reads safetensors only: load it where you trust it and write it again with save_pretrained."
            )
        raise PodiumError(f"{path} has no weights: no *.safetensors.")
    tensors = 0
    for file in weights:
        try:
            with safe_open(file, framework="pt") as opened:
                tensors += len(opened.keys())
        except (SafetensorError, OSError) as error:
            raise PodiumError(f"{file} is damaged: {error}. Copy or download it again.") from error
    layers = claims.get("num_hidden_layers")
    if isinstance(layers, int) and layers > tensors:  # a model of a million layers would be built for hours
        raise PodiumError(f"{config} speaks of {layers} layers, but the files hold {tensors} tensors in all.")


def _weights(path: Path) -> int:
    """How many weights the files of a directory hold; 0 if there are none yet.

    Only `model*` files count: some directories hold the weights twice.
    """
    count = 0
    for file in sorted(path.glob("model*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            count += sum(prod(opened.get_slice(name).get_shape()) for name in opened.keys())  # noqa: SIM118
    return count


def _read(source: str, options: dict[str, Any], shown: str, dtype: torch.dtype) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    seeing = "gguf_file" not in options and _model_type(source, options) in VISION
    reader: Any = AutoModelForImageTextToText if seeing else AutoModelForCausalLM
    try:
        model, report = reader.from_pretrained(
            source,
            dtype=dtype,
            trust_remote_code=False,
            output_loading_info=True,
            **({} if "gguf_file" in options else {"use_safetensors": True}),
            **options,
        )
    except Exception as error:
        if "for this kind of AutoModel" in str(error):
            raise PodiumError(
                f"{shown} is not a causal language model: use one that writes a text token by token."
            ) from error
        raise PodiumError(f"{_failure(shown, source)}: {_reason(error)}") from error
    missing = sorted(report.get("missing_keys") or ()) + sorted(str(k) for k in report.get("mismatched_keys") or ())
    if missing:
        raise PodiumError(
            f"{shown} is incomplete: {len(missing)} weights are missing or have another shape, such as {missing[0]}."
        )
    if "gguf_file" in options:
        _forget_quantization(model)
    return model, _tokenizer(source, options, shown)


def _model_type(source: str, options: dict[str, Any]) -> str:
    """What kind of model a directory or the hub names; empty where it does not say."""
    from transformers import PretrainedConfig

    try:
        claims, _ = PretrainedConfig.get_config_dict(source, **options)
    except Exception:  # the reader of the model says what is wrong
        return ""
    return str(claims.get("model_type", ""))


def load_tokenizer(name: str | Path) -> Any:
    """The tokenizer of a model alone, without its weights."""
    source, options, shown = _source(name)
    with _quiet():
        return _tokenizer(source, options, shown)


def _tokenizer(source: str, options: dict[str, Any], shown: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(source, trust_remote_code=False, **options)
    except Exception as error:
        raise PodiumError(f"The tokenizer of {shown} cannot be loaded: {_reason(error)}") from error


def _forget_quantization(model: Any) -> None:
    """Drop the settings of the file's quantisation: the loaded weights are not quantised, nor are those saved later."""
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.is_quantized, model.hf_quantizer = False, None


def _failure(shown: str, source: str) -> str:
    if Path(source).exists():
        return f"The model {shown} cannot be loaded"
    return f"{shown} is neither a directory here nor a model that could be fetched from the hub"


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence progress bars and logs: Podium reports what users must know."""
    logging: Any = import_module("transformers.utils.logging")
    hub: Any = import_module("huggingface_hub.utils.logging")
    level, bars, hub_level = logging.get_verbosity(), logging.is_progress_bar_enabled(), hub.get_verbosity()
    logging.set_verbosity_error()
    hub.set_verbosity(50)  # critical only: it logs every retry when there is no network
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        hub.set_verbosity(hub_level)
        if bars:
            logging.enable_progress_bar()
