"""One training run, from a config to its result.

Training is cut into segments of about a second; between them it can be watched, saved and stopped. On a CPU
a run that goes on from a snapshot ends with the same bits as one that never stopped: batches and recurrences
are pure functions of seed and step.
"""

import hashlib
import time

import jax
import numpy as np
from jax.experimental import multihost_utils

from llm._accounting import num_steps, spent_flops
from llm._config import RunConfig
from llm._evaluate import evaluate
from llm._layout import Layout, whole
from llm._pack import OnProgress as OnBuild
from llm._peak import peak_flops
from llm._products import precise
from llm._program import Program, TrainState, compiled
from llm._recurrences import recurrences
from llm._result import OnProgress, Progress, RunResult, Snapshot, Speed, Validation
from llm._tokens import Tokens, build, check_tokens

SEGMENT_SECONDS = 1.0

DRAW = 5
"""Folded into the seed for the key that draws the model."""


def train(
    config: RunConfig,
    *,
    tokens: Tokens | None = None,
    layout: Layout | None = None,
    resume: Snapshot | None = None,
    on_progress: OnProgress = lambda progress: None,
    on_build: OnBuild | None = None,
) -> RunResult:
    """Train the model of `config`.

    tokens: what `config.data` asks for, if it has been built. layout: over devices, by default
    `Layout.choose`. resume: a snapshot of the same training. on_progress: is told about once a second; what
    it raises ends the training. on_build: the same while tokens are made.

    A loss that is not finite ends the training early; the result says so.
    Raises ValueError where the snapshot is of another training, CorpusError where no tokens can be had, or
    those given were made with another context or tokenizer than `config.data` has.
    """
    with jax.enable_x64(False), precise(config.precision):
        training = _Training(config, tokens or build(config.data, on_progress=on_build), layout)
        if resume is not None:
            training.restore(resume)
        training.run(on_progress)
        return training.result()


class _Training:
    """A run, from drawing to result."""

    def __init__(self, config: RunConfig, tokens: Tokens, layout: Layout | None) -> None:
        part = config.batch // config.accumulation
        check_tokens(tokens, config.data)
        self.config, self.tokens = config, tokens
        self.layout = layout or Layout.choose(config)
        if part % self.layout.devices:
            raise ValueError(
                f"batch / accumulation is {part}: it must be a multiple of the {self.layout.devices} devices"
            )
        program = Program.of(config, tokens.vocabulary, tokens.separator, self.layout)
        self.draw, self.step_once = compiled(program)
        self.steps = num_steps(config, tokens.vocabulary)
        self.rates = config.optimiser.rates(
            width=config.model.width,
            batch_tokens=config.batch_tokens,
            num_tokens=self.steps * config.batch_tokens,
        )
        key = jax.random.fold_in(jax.random.key(config.seed), DRAW)
        self.state: TrainState = self.draw(key)
        self.identity = hashlib.sha256(repr(config).encode()).hexdigest()
        self.step = 0
        self.losses: list[float] = []
        self.validations: list[Validation] = []
        self.seconds = 0.0
        self.timed_steps = 0

    # A snapshot's arrays: the state's leaves by number, and what has been seen.

    def snapshot(self) -> Snapshot:
        leaves = {f"{i:04d}": whole(leaf) for i, leaf in enumerate(jax.tree.leaves(self.state))}
        seen = np.array([(v.step, v.loss, v.bpb) for v in self.validations], np.float64).reshape(-1, 3)
        arrays = {**leaves, "losses": np.array(self.losses, np.float32), "validations": seen}
        return Snapshot(self.step, self.identity, self.tokens.hash, arrays)

    def restore(self, snapshot: Snapshot) -> None:
        if snapshot.corpus != self.tokens.hash:
            raise ValueError("the snapshot is of a training on other tokens: the corpus has changed since")
        if snapshot.config != self.identity:
            raise ValueError("the snapshot is of another training: its config was not this one")
        leaves, structure = jax.tree.flatten(self.state)
        names = [f"{i:04d}" for i in range(len(leaves))]
        arrays = [snapshot.arrays.get(name) for name in names]
        if [(a.shape, a.dtype) if a is not None else None for a in arrays] != [
            (leaf.shape, leaf.dtype) for leaf in leaves
        ]:
            raise ValueError("the snapshot is of another training: its arrays have other shapes or types")
        self.state = self.layout.restore(jax.tree.unflatten(structure, arrays), self.state)
        self.step = snapshot.step
        self.losses = snapshot.arrays["losses"].tolist()
        self.validations = [
            Validation(int(step), loss, bpb) for step, loss, bpb in snapshot.arrays["validations"].tolist()
        ]

    def run(self, on_progress: OnProgress) -> None:
        """Train to the end, or to the first loss that is not finite."""
        length = 1
        for stop in self.config.evaluation.at(self.steps)[len(self.validations) :]:
            while self.step < stop and not self.diverged:
                began, known = time.monotonic(), self.step_once._cache_size()
                end = min(stop, self.step + length)
                done = end - self.step
                self._advance(end)
                taken = time.monotonic() - began
                if self.step_once._cache_size() == known:  # nothing was compiled
                    self.seconds += taken
                    self.timed_steps += done
                length = self._agreed(max(1, min(2 * length, int(SEGMENT_SECONDS * done / taken))))
                if self.step < stop and not self.diverged:
                    on_progress(self._progress(None))
            validation = self._validated()
            self.validations.append(validation)
            if self.diverged:  # said by the result alone: nothing is to go on from here
                return
            on_progress(self._progress(validation))

    def _agreed(self, length: int) -> int:
        """That of the first process, whose clock decides: all save at the same steps, and only together."""
        if not self.layout.spans_processes:
            return length
        return int(multihost_utils.broadcast_one_to_all(np.int32(length)))

    def _progress(self, validation: Validation | None) -> Progress:
        losses = {"train": self.losses[-1]}
        if validation is not None:
            losses["validation"] = validation.loss
        return Progress(self.step, self.steps, losses, self.snapshot)

    def _advance(self, end: int) -> None:
        """Train up to this step, or to the end of the first whose loss is not finite."""
        config, losses = self.config, []
        part = config.batch // config.accumulation
        for step in range(self.step, end):
            batch = self.tokens.batch(config.seed, step, config.batch)
            placed = self.layout.place(batch.reshape(config.accumulation, part, -1), axis=1)
            detached, kept = recurrences(config.model, config.seed, step)
            self.state, loss = self.step_once(self.state, placed, self.rates, self.steps, detached, kept)
            losses.append(loss)
        found = [float(loss) for loss in losses]
        bad = [i for i, loss in enumerate(found) if not np.isfinite(loss)]
        self.losses += found[: bad[0] + 1] if bad else found
        self.step = len(self.losses)

    @property
    def diverged(self) -> bool:
        """Whether the newest loss, of training or of validation, is not finite."""
        newest = [*self.losses[-1:], *(validation.loss for validation in self.validations[-1:])]
        return not np.isfinite(newest).all()

    def _validated(self) -> Validation:
        if self.diverged:
            return Validation(self.step, float("nan"), float("nan"))
        found = evaluate(
            self.state.model,
            self.tokens,
            self.config.evaluation,
            precision=self.config.precision,
            layout=self.layout,
        )
        return Validation(self.step, *found)

    def result(self) -> RunResult:
        """What it reached."""
        config = self.config
        trained = self.step * config.batch_tokens
        flops = spent_flops(config, self.tokens.vocabulary, self.step)
        speed = None
        if self.timed_steps:
            rate = self.timed_steps * config.batch_tokens / self.seconds
            peak = peak_flops(config.precision) * self.layout.devices
            speed = Speed(rate, rate * flops / trained, rate * flops / trained / peak)
        return RunResult(
            config,
            self.state.model,
            np.array(self.losses, np.float32),
            tuple(self.validations),
            self.diverged,
            trained,
            flops,
            self.rates,
            self.tokens.hash,
            self.tokens.vocabulary,
            speed,
        )
