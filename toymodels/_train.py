"""The cohort engine: every student of one teacher stream, trained in one compiled loop.

Training is cut into segments; between them it can be watched, saved and stopped, and at the steps of
`Evaluation` the held-out losses are taken.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from toymodels._config import CohortConfig
from toymodels._keys import Purpose, purpose_key, student_key
from toymodels._network import AbstractNetwork, ResidualNetwork
from toymodels._plan import Plan, memory_limit, split
from toymodels._program import OF_SEEDS, OF_STUDENTS, Program, Streams, StudentState, compiled
from toymodels._result import CohortResult, Geometry, Progress, Snapshot, Student, TaughtBy

SEGMENT_SECONDS = 1.0
"""Training is cut into segments that take about as long, so that it can be watched, saved and stopped."""


def train_cohort(
    config: CohortConfig,
    *,
    plan: Plan | None = None,
    max_bytes: int | None = None,
    resume: Snapshot | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> CohortResult:
    """Train every student of `config`.

    plan: how to run it, `Plan.choose` by default. max_bytes: split the cohort so that each part stays below
    this (default `memory_limit`); the parts run one after another. resume: a snapshot of the same training,
    which goes on from there and, on a CPU, ends with the same bits as if it had never stopped. on_progress:
    is told about once a second; what it raises ends the training.

    All numbers are float32, whatever JAX is set to, and so is the precision of products on every device:
    converged students reach losses of 1e-6.
    Raises ValueError when a single student exceeds `max_bytes`, or when the snapshot is of another training.
    """
    plan = plan or Plan.choose(config)
    parts = split(config, plan.vmapped, memory_limit() if max_bytes is None else max_bytes)
    name = repr([(part.seeds, part.temperatures, part.depths) for part in parts])
    if resume is not None and resume.parts != name:
        raise ValueError("the snapshot is of a cohort with other students, or divided otherwise")
    saved = _Leaves(resume.arrays if resume else {})
    trainings: list[_Training] = []
    results = []
    with jax.default_matmul_precision("highest"), jax.enable_x64(False):
        for i, part in enumerate(parts):
            training = _Training(part, plan)
            trainings.append(training)
            before = i * config.steps
            if resume is not None and resume.step > before:
                training.restore(min(resume.step - before, config.steps), saved)

            def report(step: int, losses: np.ndarray | None, before: int = before) -> None:
                def snapshot() -> Snapshot:
                    leaves = [leaf for training in trainings for leaf in training.leaves()]
                    return Snapshot(before + step, name, {f"{k:05d}": leaf for k, leaf in enumerate(leaves)})

                on_progress(Progress(before + step, len(parts) * config.steps, losses, snapshot))

            training.run(report)
            results.append(training.result())
    teachers = {teacher.seed: teacher for result in results for teacher in result.teachers}
    students = tuple(student for result in results for student in result.students)
    return CohortResult(config, results[0].steps, students, tuple(teachers.values()))


def draw_teacher(config: CohortConfig, seed: int) -> AbstractNetwork:
    """The teacher of this seed."""
    key = purpose_key(seed, Purpose.TEACHER)
    return config.teacher.network(key, config.width, config.hidden, config.vocabulary)


def draw_student(config: CohortConfig, seed: int, depth: int) -> ResidualNetwork:
    """The untrained student of this seed and depth; the same at every temperature."""
    return ResidualNetwork.student(
        config.layer_class,
        student_key(seed, depth),
        width=config.width,
        hidden=config.hidden,
        depth=depth,
        vocabulary=config.vocabulary if config.objective.student_has_head else None,
    )


class _Leaves:
    """The arrays of a snapshot, taken one after another."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.left = [arrays[name] for name in sorted(arrays)]

    def take(self, like: Any) -> Any:
        """As many arrays as `like` has, in its structure.

        Raises ValueError where their shapes or types differ.
        """
        leaves, structure = jax.tree.flatten(like)
        taken, self.left = self.left[: len(leaves)], self.left[len(leaves) :]
        if [(leaf.shape, leaf.dtype) for leaf in taken] != [(leaf.shape, leaf.dtype) for leaf in leaves]:
            raise ValueError("the snapshot is of another training: its arrays have other shapes or types")
        return jax.tree.unflatten(structure, taken)


class _Training:
    """One part of a cohort, from drawing to results."""

    def __init__(self, config: CohortConfig, plan: Plan) -> None:
        self.config = config
        self.program = Program.of(config, plan)
        self.states, self.streams, self.temperatures = _placed(config, plan)
        self.segment, self.evaluate, self.measure = compiled(self.program)
        self.steps = np.array(config.evaluation.at(config.steps))
        self.step = 0
        self.losses: list[np.ndarray] = []

    def leaves(self) -> list[np.ndarray]:
        """The state and the losses so far."""
        # Copies: on a CPU an array of NumPy's can be a view of memory that the next segment overwrites.
        return [np.array(leaf) for leaf in jax.tree.leaves(self.states)] + self.losses

    def restore(self, step: int, saved: _Leaves) -> None:
        """Go to where `leaves` had been taken, after `step` steps."""
        states = saved.take(self.states)
        self.states = self.program.placed(states, OF_STUDENTS)
        shape = (len(self.config.depths), len(self.config.seeds), len(self.config.temperatures))
        taken = np.count_nonzero(self.steps <= step)
        self.losses = saved.take([np.zeros(shape, np.float32)] * taken)
        self.step = step

    def run(self, report: Callable[[int, np.ndarray | None], None]) -> None:
        """Train to the end; `report` is told the step, and the losses where they were taken."""
        length = 1
        for stop in self.steps[len(self.losses) :].tolist():
            while self.step < stop:
                began = time.monotonic()
                end = min(stop, self.step + length)
                self.states = self.segment(
                    self.states, self.streams, self.temperatures, self.step, end, self.config.steps
                )
                jax.block_until_ready(self.states)
                taken = (time.monotonic() - began) / (end - self.step)
                length = max(1, min(2 * length, int(SEGMENT_SECONDS / taken)))
                self.step = end
                if self.step < stop:
                    report(self.step, None)
            self.losses.append(np.asarray(self.evaluate(self.states, self.streams, self.temperatures)))
            report(self.step, self.losses[-1])

    def result(self) -> CohortResult:
        """What it reached."""
        angles = self.measure(self.states, self.streams, self.temperatures)
        of_teachers, of_students = jax.device_get(angles)
        states, teachers = jax.device_get((self.states, self.streams.teacher))
        return CohortResult(
            self.config,
            self.steps,
            tuple(_students(self.config, states, of_students, np.stack(self.losses, axis=-1))),
            tuple(
                TaughtBy(seed, _on_device(_pick(teachers, j)), Geometry(*_pick(of_teachers, j)))
                for j, seed in enumerate(self.config.seeds)
            ),
        )


def _placed(config: CohortConfig, plan: Plan) -> tuple[tuple[StudentState, ...], Streams, jax.Array]:
    """What training starts from, on the plan's devices."""
    program = Program.of(config, plan)
    states, streams = _draw(config, plan)
    return (
        program.placed(states, OF_STUDENTS),
        program.placed(streams, OF_SEEDS),
        program.placed(jnp.asarray(config.temperatures), PartitionSpec("temperatures")),
    )


def _draw(config: CohortConfig, plan: Plan) -> tuple[tuple[StudentState, ...], Streams]:
    """Untrained students, one state a depth with leading axes (seed, temperature), and their streams."""
    program = Program.of(config, plan)
    states = []
    for depth in config.depths:
        of_seeds = []
        for seed in config.seeds:
            network = dataclasses.replace(draw_student(config, seed, depth), unroll=plan.unroll)
            moments = program.optimiser(depth, config.steps).init(network)
            state = StudentState(network, moments, jnp.array(True), jnp.array(0))
            of_seeds.append(_stack([state] * len(config.temperatures)))
        states.append(_stack(of_seeds))
    streams = Streams(
        teacher=_stack([draw_teacher(config, seed) for seed in config.seeds]),
        data=jnp.stack([purpose_key(seed, Purpose.DATA) for seed in config.seeds]),
        evaluation=jnp.stack([purpose_key(seed, Purpose.EVALUATION) for seed in config.seeds]),
    )
    return tuple(states), streams


def _stack(trees: list[Any]) -> Any:
    # By numpy: hundreds of arrays of different shapes would each cost a compilation.
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *trees)


def _pick(tree: Any, *index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _on_device(tree: Any) -> Any:
    return jax.tree.map(jnp.asarray, tree)


def _students(
    config: CohortConfig,
    states: tuple[StudentState, ...],
    angles: list[Any],
    losses: np.ndarray,
) -> list[Student]:
    students = []
    for i, depth in enumerate(config.depths):
        for j, seed in enumerate(config.seeds):
            for k, temperature in enumerate(config.temperatures):
                state = _pick(states[i], j, k)
                students.append(
                    Student(
                        depth=depth,
                        seed=seed,
                        temperature=temperature,
                        losses=losses[i, j, k],
                        trained_steps=int(state.trained_steps),
                        diverged=not (bool(state.alive) and np.isfinite(losses[i, j, k, -1])),
                        network=_on_device(state.network),
                        geometry=Geometry(*_pick(angles[i], j, k)),
                    )
                )
    return students
