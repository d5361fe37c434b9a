"""The cohort engine: every student of one teacher stream, trained in one compiled loop.

Each step draws one batch a seed, sends it through that seed's teacher once, and updates the students of
every depth and temperature on the answer. The compiled `segment` runs any number of steps (its bounds and the
training's length are arguments, so it is traced once); between segments the held-out losses are taken.
"""

import dataclasses
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from toymodels import dynamics
from toymodels._config import Adam, CohortConfig, LearningRate
from toymodels._keys import Purpose, purpose_key, student_key
from toymodels._layers import AbstractLayer
from toymodels._network import AbstractNetwork, ResidualNetwork
from toymodels._objectives import Objective
from toymodels._plan import Plan, memory_limit, split

SEGMENT_SECONDS = 1.0
"""Training is cut into segments that take about as long, so that it can be watched, saved and stopped."""


OF_SEEDS = PartitionSpec("seeds")
"""Layout over the plan's devices of what has a leading axis of seeds."""

OF_STUDENTS = PartitionSpec("seeds", "temperatures")
"""Layout of what has leading axes (seed, temperature)."""


@dataclass(frozen=True)
class Geometry:
    """Angles of a network on the held-out inputs, in radians, meaned over inputs: one number a layer.

    step_angles: θ(h_l, h_{l+1}), length ℓ. update_angles: θ(Δh_l, Δh_{l+1}), length ℓ − 1.
    """

    step_angles: np.ndarray
    update_angles: np.ndarray

    @property
    def update_angle(self) -> float | None:
        """Mean angle between neighbouring updates; None for a single layer, which has no neighbour."""
        return float(np.mean(self.update_angles)) if self.update_angles.size else None


@dataclass(frozen=True)
class Student:
    """One trained student.

    losses: held-out loss at each of `CohortResult.steps`. trained_steps: updates made; fewer than asked for
    means that the loss or a gradient became non-finite at the next one, where the student was stopped.
    diverged: that happened, or the last held-out loss is not finite.
    """

    depth: int
    seed: int
    temperature: float
    losses: np.ndarray
    trained_steps: int
    diverged: bool
    network: ResidualNetwork
    geometry: Geometry


@dataclass(frozen=True)
class TaughtBy:
    """The teacher of one seed."""

    seed: int
    network: AbstractNetwork
    geometry: Geometry


@dataclass(frozen=True)
class CohortResult:
    """What a cohort reached: its students, their teachers, and the steps at which losses were taken."""

    config: CohortConfig
    steps: np.ndarray
    students: tuple[Student, ...]
    teachers: tuple[TaughtBy, ...]

    def student(self, *, depth: int, seed: int, temperature: float = 1.0) -> Student:
        """The one student of this depth, seed and temperature; KeyError if there is none."""
        for student in self.students:
            if (student.depth, student.seed, student.temperature) == (depth, seed, temperature):
                return student
        raise KeyError(f"no student of depth {depth}, seed {seed}, temperature {temperature} in this cohort")


@dataclass(frozen=True)
class Snapshot:
    """Where a training stood: all that it needs to go on, to the last bit.

    step: steps done, of `Progress.steps`. parts: what tells the parts of a divided cohort from each other;
    a snapshot fits no other division. arrays: by name, in the order in which `train_cohort` reads them.
    """

    step: int
    parts: str
    arrays: dict[str, np.ndarray]


class Progress(NamedTuple):
    """Handed to `on_progress` after every segment.

    step: steps done of all `steps`. losses: newest held-out losses (depth, seed, temperature) of the part
    that is being trained, None between evaluations. snapshot: saves the state; to be called before
    `on_progress` returns, since the next segment overwrites it.
    """

    step: int
    steps: int
    losses: np.ndarray | None
    snapshot: Callable[[], Snapshot]


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


class _StudentState(NamedTuple):
    network: ResidualNetwork
    optimiser: optax.OptState
    alive: jax.Array
    trained_steps: jax.Array


class _Streams(NamedTuple):
    """What belongs to a seed: every leaf has a leading axis of seeds."""

    teacher: AbstractNetwork
    data: jax.Array
    evaluation: jax.Array


@dataclass(frozen=True)
class _Program:
    """What the compiled functions depend on: cohorts that differ in seeds or steps share a compilation."""

    objective: Objective
    layer: type[AbstractLayer]
    width: int
    depths: tuple[int, ...]
    batch: int
    learning_rate: LearningRate
    adam: Adam
    evaluation_batches: int
    evaluation_batch: int
    plan: Plan

    @classmethod
    def of(cls, config: CohortConfig, plan: Plan) -> "_Program":
        return cls(
            objective=config.objective,
            layer=config.layer_class,
            width=config.width,
            depths=config.depths,
            batch=config.batch,
            learning_rate=config.learning_rate,
            adam=config.adam,
            evaluation_batches=config.evaluation.batches,
            evaluation_batch=config.evaluation.batch,
            plan=plan,
        )

    def optimiser(self, depth: int, steps: Any) -> optax.GradientTransformation:
        """Adam for a student of this depth, in a training of this many steps."""
        return optax.adam(
            lambda step: self.learning_rate.at(step, steps, depth),
            self.adam.beta1,
            self.adam.beta2,
            self.adam.epsilon,
        )

    def over(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """`function` over the leading axis of its arguments: side by side or one after another."""
        if self.plan.vmapped:
            return jax.vmap(function)(*arguments)
        if jax.tree.leaves(arguments)[0].shape[0] == 1:  # a loop of one costs copies of all its state
            result = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
            return jax.tree.map(lambda leaf: leaf[None], result)
        return jax.lax.map(lambda one: function(*one), arguments)

    def sharded(self, function: Callable[..., Any], arguments: int, results: Any) -> Callable[..., Any]:
        """`function` of states, streams, temperatures and `arguments` numbers, on every device of the plan.

        results: how its results are laid out, as the specs below.
        """
        if self.plan.devices == 1:
            return function
        specs = (OF_STUDENTS, OF_SEEDS, PartitionSpec("temperatures")) + (PartitionSpec(),) * arguments
        return jax.shard_map(function, mesh=self.mesh, in_specs=specs, out_specs=results, check_vma=False)

    @property
    def mesh(self) -> Mesh:
        """The plan's devices."""
        plan = self.plan
        devices = np.array(jax.local_devices()[: plan.devices])
        return Mesh(
            devices.reshape(plan.seeds, plan.temperatures, plan.batch), ("seeds", "temperatures", "batch")
        )

    def placed(self, tree: Any, spec: PartitionSpec) -> Any:
        """`tree` on the plan's devices, as `sharded` functions return it: else they compile twice."""
        return jax.device_put(tree, NamedSharding(self.mesh, spec))

    def inputs(self, key: jax.Array, batch: int) -> jax.Array:
        """This device's share of `batch` Gaussian inputs, (width, share)."""
        whole = jax.random.normal(key, (self.width, batch))
        if self.plan.batch == 1:
            return whole
        share = batch // self.plan.batch
        return jax.lax.dynamic_slice_in_dim(whole, jax.lax.axis_index("batch") * share, share, axis=1)

    def mean(self, tree: Any) -> Any:
        """The mean over the devices that share a batch."""
        return tree if self.plan.batch == 1 else jax.lax.pmean(tree, "batch")


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
        self.program = _Program.of(config, plan)
        self.states, self.streams, self.temperatures = _placed(config, plan)
        self.segment, self.evaluate, self.measure = _compiled(self.program)
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


def _placed(config: CohortConfig, plan: Plan) -> tuple[tuple[_StudentState, ...], _Streams, jax.Array]:
    """What training starts from, on the plan's devices."""
    program = _Program.of(config, plan)
    states, streams = _draw(config, plan)
    return (
        program.placed(states, OF_STUDENTS),
        program.placed(streams, OF_SEEDS),
        program.placed(jnp.asarray(config.temperatures), PartitionSpec("temperatures")),
    )


def _draw(config: CohortConfig, plan: Plan) -> tuple[tuple[_StudentState, ...], _Streams]:
    """Untrained students, one state a depth with leading axes (seed, temperature), and their streams."""
    program = _Program.of(config, plan)
    states = []
    for depth in config.depths:
        of_seeds = []
        for seed in config.seeds:
            network = dataclasses.replace(draw_student(config, seed, depth), unroll=plan.unroll)
            moments = program.optimiser(depth, config.steps).init(network)
            state = _StudentState(network, moments, jnp.array(True), jnp.array(0))
            of_seeds.append(_stack([state] * len(config.temperatures)))
        states.append(_stack(of_seeds))
    streams = _Streams(
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


@functools.lru_cache(maxsize=8)
def _compiled(program: _Program) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """`segment`, `evaluate` and `measure` for this program, each traced once."""

    def gradient(
        x: jax.Array, target: jax.Array, head: jax.Array | None, state: _StudentState, temperature: jax.Array
    ) -> tuple[jax.Array, ResidualNetwork]:
        def mean_loss(network: ResidualNetwork) -> jax.Array:
            return jnp.mean(program.objective.losses(network, x, target, head, temperature))

        loss, found = jax.value_and_grad(mean_loss)(state.network)
        # Finite only if loss and gradient are. The norm overflows before Adam's second moment does, which
        # would freeze a weight silently; it is taken here, while the gradient is in the cache.
        return loss + optax.tree.norm(found), found

    def update(
        optimiser: optax.GradientTransformation,
        state: _StudentState,
        check: jax.Array,
        gradient: ResidualNetwork,
    ) -> _StudentState:
        updates, after = optimiser.update(gradient, state.optimiser, state.network)
        alive = state.alive & jnp.isfinite(check)
        network, moments = jax.tree.map(
            lambda new, old: jnp.where(alive, new, old),
            (optax.apply_updates(state.network, updates), after),
            (state.network, state.optimiser),
        )
        return _StudentState(network, moments, alive, state.trained_steps + alive)

    def train_step(
        step: jax.Array,
        steps: jax.Array,
        states: tuple[_StudentState, ...],
        streams: _Streams,
        temperatures: jax.Array,
    ) -> tuple[_StudentState, ...]:
        def of_seed(states: tuple[_StudentState, ...], stream: _Streams) -> tuple[_StudentState, ...]:
            x = program.inputs(jax.random.fold_in(stream.data, step), program.batch)
            target = program.objective.target(stream.teacher, x)
            of_student = functools.partial(gradient, x, target, stream.teacher.head)
            gradients = program.mean([program.over(of_student, (state, temperatures)) for state in states])
            # Entry by entry, so always side by side: in turn, copies of all weights would cost as much again.
            return tuple(
                jax.vmap(functools.partial(update, program.optimiser(depth, steps)))(state, *pair)
                for depth, state, pair in zip(program.depths, states, gradients, strict=True)
            )

        return program.over(of_seed, (states, streams))

    def segment(
        states: tuple[_StudentState, ...],
        streams: _Streams,
        temperatures: jax.Array,
        start: jax.Array,
        stop: jax.Array,
        steps: jax.Array,
    ) -> tuple[_StudentState, ...]:
        return jax.lax.fori_loop(
            start, stop, lambda step, states: train_step(step, steps, states, streams, temperatures), states
        )

    def evaluate(states: tuple[_StudentState, ...], streams: _Streams, temperatures: jax.Array) -> jax.Array:
        def of_seed(states: tuple[_StudentState, ...], stream: _Streams) -> jax.Array:
            def of_batch(index: jax.Array) -> jax.Array:
                key = jax.random.fold_in(stream.evaluation, index)
                x = program.inputs(key, program.evaluation_batch)
                target = program.objective.target(stream.teacher, x)

                def of_student(state: _StudentState, temperature: jax.Array) -> jax.Array:
                    head = stream.teacher.head
                    return jnp.mean(program.objective.losses(state.network, x, target, head, temperature))

                return jnp.stack([program.over(of_student, (state, temperatures)) for state in states])

            return jnp.mean(jax.lax.map(of_batch, jnp.arange(program.evaluation_batches)), axis=0)

        return program.mean(jnp.moveaxis(program.over(of_seed, (states, streams)), 0, 1))

    def measure(
        states: tuple[_StudentState, ...], streams: _Streams, temperatures: jax.Array
    ) -> tuple[_Angles, list[_Angles]]:
        def of_seed(states: tuple[_StudentState, ...], stream: _Streams) -> tuple[_Angles, list[_Angles]]:
            key = jax.random.fold_in(stream.evaluation, 0)
            x = jax.random.normal(key, (program.width, program.evaluation_batch))

            def of_replicate(networks: tuple[ResidualNetwork, ...]) -> list[_Angles]:
                return _mean_angles(networks, x)

            students = program.over(of_replicate, (tuple(state.network for state in states),))
            return _mean_angles((stream.teacher,), x)[0], students

        return program.over(of_seed, (states, streams))

    return (
        jax.jit(program.sharded(segment, 3, OF_STUDENTS), donate_argnums=0),
        jax.jit(program.sharded(evaluate, 0, PartitionSpec(None, *OF_STUDENTS))),
        jax.jit(program.sharded(measure, 0, (OF_SEEDS, OF_STUDENTS))),
    )


_Angles = tuple[jax.Array, jax.Array]


def _mean_angles(networks: tuple[AbstractNetwork, ...], x: jax.Array) -> list[_Angles]:
    """Step and update angles of each network, meaned over the batch: `Geometry`'s two fields."""
    # All networks' states are laid end to end, so that the angles are compiled once, and those that
    # straddle two networks are dropped.
    trajectories = [network.states(x) for network in networks]
    states = jnp.concatenate(trajectories)
    step_angles = jnp.mean(dynamics.step_angles(states, axis=1), axis=-1)
    update_angles = jnp.mean(dynamics.update_angles(states, axis=1), axis=-1)
    angles = []
    start = 0
    for network in networks:
        end = start + network.depth
        angles.append((step_angles[start:end], update_angles[start : end - 1]))
        start = end + 1
    return angles


def _students(
    config: CohortConfig,
    states: tuple[_StudentState, ...],
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
