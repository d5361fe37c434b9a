"""Folders of results with language models that were never trained, made in no time."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from llm import LoopedLM, build
from sweeps._jobs import Result, expand
from sweeps._lm import LM
from sweeps._models import to_arrays
from sweeps._spec import parse_spec
from sweeps._store import Store


def made_runs(out: Path, source: dict[str, Any], *, models: bool = True, **values: Any) -> Store:
    """The folder that a sweep of this spec would leave. values: a column's value as a function of its config.

    models: whether they have models, drawn and disturbed, and the hash of their corpus; else an array each.
    """
    spec = parse_spec(source, "made.toml")
    jobs = expand("lm", spec.configs)
    store = Store(out)
    with store.locked():
        store.claim(source, jobs)
    for job in jobs:
        config = job.config
        row = {name: column.type(1) for name, column in LM.columns.items()}
        row |= {"width": config.model.width, "num_recur": config.model.num_recur, "vocabulary": 256}
        row |= {"mask_documents": False, "seed": config.seed, "status": "done"}
        row |= {name: value(config) for name, value in values.items()}
        arrays = {"0000": np.array([config.seed])}
        if models:
            row["corpus_hash"] = build(config.data).hash
            model = LoopedLM.draw(config.model, 256, jax.random.key(config.seed))
            rng = np.random.default_rng(config.seed)  # as drawn, recurrences do nothing yet
            arrays = {
                name: array + 0.3 * rng.standard_normal(array.shape).astype(array.dtype)
                for name, array in to_arrays(model).items()
            }
        store.write(job, "done", Result([row], {"loss": np.zeros(1)}, model=arrays), {})
    return store
