"""A pretrained model's folder: found or downloaded, its config read, its weights checked and loaded."""

import sys
from pathlib import Path
from typing import Any

from llm.probe._families import Family, family_named
from llm.probe._libraries import library, quiet
from llm.probe._weights import check_weights, read_json

CONFIG = "config.json"
SMALL = ("*.json", "*.txt", "tokenizer.model")
"""What of a model on the hub is read besides its weights."""

WEIGHTS = ("*.safetensors", "*.bin")


def located(source: str) -> Path:
    """The folder of a model: `source` itself, or where the hub's cache keeps the model of this name.

    Raises ValueError where there is none, or the hub cannot be reached and nothing is cached.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    hub = library("huggingface_hub")
    is_path = source.startswith((".", "/", "~", "\\")) or source.count("/") > 1 or folder.exists()
    try:
        hub.utils.validate_repo_id(source)
    except hub.errors.HFValidationError:
        is_path = True
    if is_path:
        raise ValueError(f"{source} is no folder of a pretrained model, and no name on the hub could be that")
    try:
        with quiet(downloads=sys.stderr.isatty()):
            config = Path(hub.hf_hub_download(source, CONFIG))
            # Before its weights: those of an unknown family are not wanted.
            family_named(read_json(config).get("model_type"), f"{source}: {CONFIG}")
            return _with_weights(hub, source, config.parent)
    except ValueError:  # ours
        raise
    except hub.errors.LocalEntryNotFoundError:
        told = f"{source} is no folder here, and the hub cannot be reached for a model of that name"
        raise ValueError(f"{told}: name a folder, or try again with a connection") from None
    except (hub.errors.RepositoryNotFoundError, hub.errors.EntryNotFoundError):
        told = f"{source} is no folder here, and the hub shows you no model of that name with a {CONFIG}"
        raise ValueError(f"{told}: check the name; a private or gated one needs `hf auth login`") from None
    except Exception as error:  # of many kinds
        raise ValueError(f"{source} cannot be downloaded from the hub: {_said(error)}") from None


def _with_weights(hub: Any, name: str, cached: Path) -> Path:
    """The folder of a model on the hub with its weights; torch's own files only where there are no others."""
    folder = cached
    for kind in WEIGHTS:
        try:
            wanted = [*SMALL, kind]
            folder = Path(hub.snapshot_download(name, allow_patterns=wanted, ignore_patterns=["*/*"]))
        except Exception:
            if not any(any(cached.glob(kind)) for kind in WEIGHTS):
                raise
            return cached  # no connection: what is kept is checked like any folder
        if any(folder.glob(kind)):
            break
    return folder


def stamp(folder: Path) -> str:
    """Name, size and time of change of every file of the model: what is another model has another."""
    found = []
    for path in sorted(path for kind in (*SMALL, *WEIGHTS) for path in folder.glob(kind)):
        about = path.stat()  # of the file itself, where the cache of the hub has a link to it
        found.append(f"{path.name} {about.st_size} {about.st_mtime_ns}")
    return "\n".join(found)


def read_config(folder: Path) -> tuple[Any, Family]:
    """The config of a model and its family.

    Raises ValueError: config.json is missing, broken or refused by `transformers`; a family that no probe
    knows, or whose states are no pre-norm residual stream; weights of integers.
    """
    path = folder / CONFIG
    found = read_json(path)
    family = family_named(found.get("model_type"), str(path))
    if found.get("quantization_config") is not None:
        raise ValueError(f"{path}: quantization_config is set: probes read models of float weights only")
    try:
        with quiet():
            config = library("transformers").AutoConfig.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # of many kinds
        raise ValueError(f"{path} is refused by transformers: {_said(error)}") from None
    if (refusal := family.refusal(config)) is not None:
        raise ValueError(f"{path}: {refusal}")
    return config, family


def load(folder: Path, config: Any, dtype: Any, device: str) -> Any:
    """The model, in full.

    Raises ValueError: weights that are not all there, of other shapes than the config's, or unreadable.
    """
    is_safe = check_weights(folder)
    try:
        with quiet():
            model, found = library("transformers").AutoModelForCausalLM.from_pretrained(
                str(folder),
                config=config,
                dtype=dtype,
                use_safetensors=is_safe,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except Exception as error:  # of many kinds
        raise ValueError(f"the weights of {folder} cannot be loaded: {_said(error)}") from None
    if lacking := sorted(found["missing_keys"]):
        told = f"the weights of {folder} lack {len(lacking)} of the model's: {', '.join(lacking[:5])}"
        raise ValueError(f"{told}; they would be random: take the files of a whole model")
    return model.to(device).eval()


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
