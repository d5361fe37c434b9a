"""The compiled training step: every student of one teacher stream, updated on one batch.

Each step draws one batch a seed, sends it through that seed's teacher once, and updates the students of
every depth and temperature on the answer. The compiled `segment` runs any number of steps: its bounds and the
training's length are arguments, so it is traced once.
"""

import functools
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
from toymodels._layers import AbstractLayer
from toymodels._network import AbstractNetwork, ResidualNetwork
from toymodels._objectives import Objective
from toymodels._plan import Plan

OF_SEEDS = PartitionSpec("seeds")
"""Layout over the plan's devices of what has a leading axis of seeds."""

OF_STUDENTS = PartitionSpec("seeds", "temperatures")
"""Layout of what has leading axes (seed, temperature)."""


class StudentState(NamedTuple):
    network: ResidualNetwork
    optimiser: optax.OptState
    alive: jax.Array
    trained_steps: jax.Array


class Streams(NamedTuple):
    """What belongs to a seed: every leaf has a leading axis of seeds."""

    teacher: AbstractNetwork
    data: jax.Array
    evaluation: jax.Array


@dataclass(frozen=True)
class Program:
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
    def of(cls, config: CohortConfig, plan: Plan) -> "Program":
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


@functools.lru_cache(maxsize=8)
def compiled(program: Program) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """`segment`, `evaluate` and `measure` for this program, each traced once."""

    def gradient(
        x: jax.Array, target: jax.Array, head: jax.Array | None, state: StudentState, temperature: jax.Array
    ) -> tuple[jax.Array, ResidualNetwork]:
        def mean_loss(network: ResidualNetwork) -> jax.Array:
            return jnp.mean(program.objective.losses(network, x, target, head, temperature))

        loss, found = jax.value_and_grad(mean_loss)(state.network)
        # Finite only if loss and gradient are. The norm overflows before Adam's second moment does, which
        # would freeze a weight silently; it is taken here, while the gradient is in the cache.
        return loss + optax.tree.norm(found), found

    def update(
        optimiser: optax.GradientTransformation,
        state: StudentState,
        check: jax.Array,
        gradient: ResidualNetwork,
    ) -> StudentState:
        updates, after = optimiser.update(gradient, state.optimiser, state.network)
        alive = state.alive & jnp.isfinite(check)
        network, moments = jax.tree.map(
            lambda new, old: jnp.where(alive, new, old),
            (optax.apply_updates(state.network, updates), after),
            (state.network, state.optimiser),
        )
        return StudentState(network, moments, alive, state.trained_steps + alive)

    def train_step(
        step: jax.Array,
        steps: jax.Array,
        states: tuple[StudentState, ...],
        streams: Streams,
        temperatures: jax.Array,
    ) -> tuple[StudentState, ...]:
        def of_seed(states: tuple[StudentState, ...], stream: Streams) -> tuple[StudentState, ...]:
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
        states: tuple[StudentState, ...],
        streams: Streams,
        temperatures: jax.Array,
        start: jax.Array,
        stop: jax.Array,
        steps: jax.Array,
    ) -> tuple[StudentState, ...]:
        return jax.lax.fori_loop(
            start, stop, lambda step, states: train_step(step, steps, states, streams, temperatures), states
        )

    def evaluate(states: tuple[StudentState, ...], streams: Streams, temperatures: jax.Array) -> jax.Array:
        def of_seed(states: tuple[StudentState, ...], stream: Streams) -> jax.Array:
            def of_batch(index: jax.Array) -> jax.Array:
                key = jax.random.fold_in(stream.evaluation, index)
                x = program.inputs(key, program.evaluation_batch)
                target = program.objective.target(stream.teacher, x)

                def of_student(state: StudentState, temperature: jax.Array) -> jax.Array:
                    head = stream.teacher.head
                    return jnp.mean(program.objective.losses(state.network, x, target, head, temperature))

                return jnp.stack([program.over(of_student, (state, temperatures)) for state in states])

            return jnp.mean(jax.lax.map(of_batch, jnp.arange(program.evaluation_batches)), axis=0)

        return program.mean(jnp.moveaxis(program.over(of_seed, (states, streams)), 0, 1))

    def measure(
        states: tuple[StudentState, ...], streams: Streams, temperatures: jax.Array
    ) -> tuple[_Angles, list[_Angles]]:
        def of_seed(states: tuple[StudentState, ...], stream: Streams) -> tuple[_Angles, list[_Angles]]:
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
