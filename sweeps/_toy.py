"""Toy sweeps: a cohort of one seed is a job; each of its students is a row."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sweeps._config import canonical
from sweeps._jobs import Checkpoint, Column, Kind, Progress, Result
from sweeps._models import from_arrays, to_arrays

if TYPE_CHECKING:
    import toymodels
    from toymodels import CohortConfig, CohortResult, ResidualNetwork


class Toy(Kind):
    """Teacher–student cohorts of `toymodels`."""

    columns: ClassVar[dict[str, Column]] = {
        "teacher": Column(str, None, "teacher kind"),
        "rho": Column(float, None, "correlation of the teacher's layers; null where the kind has none"),
        "correlation_length": Column(
            float,
            "depths",
            "of the teacher's weights; 0 if independent, null if correlation does not fall",
        ),
        "layer_correlation": Column(float, None, "of a weight of the teacher with itself in the next layer"),
        "normal_weights": Column(bool, None, "whether the teacher's weights are normal (true) or uniform"),
        "teacher_depth": Column(int, "layers", "depth of the teacher"),
        "residual_scale": Column(float, None, "factor on every W2 of the teacher"),
        "objective": Column(str, None, "mse or kl"),
        "given_head": Column(bool, None, "KL with the teacher's head (true) or a learnt one; null for mse"),
        "layer": Column(str, None, "integrator of the students"),
        "width": Column(int, None, "width m"),
        "hidden": Column(int, None, "hidden size of the MLPs"),
        "vocabulary": Column(int, None, "outputs of the head; null without one"),
        "batch": Column(int, "inputs", "inputs a training step"),
        "steps": Column(int, "steps", "training steps asked for"),
        "learning_rate": Column(float, None, "base of the learning rate"),
        "reference_depth": Column(float, "layers", "depth at which the rate is its base; null: at all"),
        "hold_fraction": Column(float, None, "share of the steps before the rate decays"),
        "final_fraction": Column(float, None, "share of the rate that is left at the end"),
        "beta1": Column(float, None, "Adam's decay of the first moment"),
        "beta2": Column(float, None, "Adam's decay of the second moment"),
        "epsilon": Column(float, None, "Adam's epsilon"),
        "evaluation_inputs": Column(int, "inputs", "held-out inputs that a loss is the mean of"),
        "depth": Column(int, "layers", "depth of the student"),
        "temperature": Column(float, None, "temperature of the teacher's softmax; null for mse"),
        "seed": Column(int, None, "seed of teacher, initialisation and data"),
        "num_params": Column(int, "parameters", "parameters that the student trains"),
        "flops": Column(float, "FLOPs", "the student's own training FLOPs, teacher and evaluation left out"),
        "step": Column(int, "steps", "training steps done when the loss was taken"),
        "loss": Column(float, "nats for kl, squared state for mse", "held-out loss; null once diverged"),
        "status": Column(str, None, "done, or diverged: stopped in training, or a held-out loss not finite"),
        "update_angle": Column(
            float, "radians", "mean angle between neighbouring updates of the student; null where not finite"
        ),
        "step_angle": Column(float, "radians", "the same between its neighbouring states"),
        "teacher_update_angle": Column(float, "radians", "the same of its teacher"),
        "teacher_step_angle": Column(float, "radians", "the same of its teacher"),
    }

    sorted_by: ClassVar[tuple[str, ...]] = (
        "teacher",
        "rho",
        "correlation_length",
        "teacher_depth",
        "steps",
        "temperature",
        "seed",
        "depth",
        "job",
    )

    @property
    def config(self) -> type:
        from toymodels import CohortConfig

        return CohortConfig

    def split(self, config: "CohortConfig") -> "list[CohortConfig]":
        return [dataclasses.replace(config, seeds=(seed,)) for seed in config.seeds]

    def label(self, config: "CohortConfig") -> str:
        own = getattr(config.teacher, "length", getattr(config.teacher, "rho", None))
        return f"{config.teacher.kind}{'' if own is None else f' {own:g}'}, seed {config.seeds[0]}"

    def flops(self, config: "CohortConfig") -> int:
        from toymodels import total_flops

        return total_flops(config)

    def memory_bytes(self, configs: "Sequence[CohortConfig]") -> int:
        from sweeps._machine import accelerated
        from toymodels import memory_bytes

        return memory_bytes(_together(configs), vmapped=accelerated())

    def least_bytes(self, configs: "Sequence[CohortConfig]") -> int:
        from sweeps._machine import accelerated
        from toymodels import memory_bytes

        alone = [
            dataclasses.replace(configs[0], depths=(depth,), **_one_temperature(configs[0]))
            for depth in configs[0].depths
        ]
        return max(memory_bytes(config, vmapped=accelerated()) for config in alone)

    def num_rows(self, config: "CohortConfig") -> int:
        return len(config.depths) * len(config.temperatures)

    def shares_cores(self, config: "CohortConfig") -> bool:
        from toymodels import worth_sharing

        return worth_sharing(config)

    def product(self, config: "CohortConfig") -> tuple[int, int, int]:
        return config.hidden, config.width, config.batch

    def program(self, config: "CohortConfig") -> str:
        return canonical(dataclasses.replace(config, seeds=(0,), steps=1))

    def companions(self, config: "CohortConfig") -> str:
        return canonical(dataclasses.replace(config, seeds=(0,)))

    def train(
        self,
        configs: "Sequence[CohortConfig]",
        *,
        resume: Checkpoint | None = None,
        max_bytes: int | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        keep_models: bool = False,
    ) -> list[Result]:
        from toymodels import Snapshot, train_cohort

        together = _together(configs)

        def report(progress: "toymodels.Progress") -> None:
            def checkpoint() -> Checkpoint:
                snapshot = progress.snapshot()
                return Checkpoint(snapshot.arrays, {"step": snapshot.step, "parts": snapshot.parts})

            losses = None
            if progress.losses is not None and progress.losses.shape == _shape(together):
                losses = [_newest(together, progress.losses[:, j]) for j in range(len(configs))]
            share = progress.step / progress.steps
            on_progress(Progress(share, round(share * together.steps), losses, checkpoint))

        result = train_cohort(
            together,
            max_bytes=max_bytes,
            resume=None if resume is None else Snapshot(arrays=resume.arrays, **resume.about),
            on_progress=report,
        )
        found = []
        for config in configs:
            of_students = rows(config, result)
            model = _networks(config, result) if keep_models else None
            found.append(Result(of_students, curves(config, result), _divergence(of_students), model=model))
        return found

    def series(
        self, rows: list[dict[str, Any]], arrays: "dict[str, np.ndarray]"
    ) -> dict[str, list[dict[str, Any]]]:
        return series(rows, arrays)

    def model(
        self, config: "CohortConfig", rows: list[dict[str, Any]], arrays: dict[str, np.ndarray]
    ) -> "dict[tuple[int, float], ResidualNetwork]":
        """The students by depth and temperature."""
        from toymodels import draw_student

        (seed,) = config.seeds
        found = {}
        for depth in config.depths:
            like = draw_student(config, seed, depth)
            for temperature in config.temperatures:
                prefix = f"{_name(config, depth, temperature)}/"
                found[depth, temperature] = from_arrays(like, arrays, prefix)
        return found


def _networks(config: "CohortConfig", result: "CohortResult") -> dict[str, np.ndarray]:
    """The arrays of every student of the job's seed."""
    (seed,) = config.seeds
    return {
        name: array
        for student in _students_of(result, seed)
        for name, array in to_arrays(
            student.network, f"{_name(config, student.depth, student.temperature)}/"
        ).items()
    }


def _name(config: "CohortConfig", depth: int, temperature: float) -> str:
    """Of a student, in the names of arrays."""
    return f"{depth}_{config.temperatures.index(temperature)}"


def _together(configs: "Sequence[CohortConfig]") -> "CohortConfig":
    """Configs that differ in their seed alone, as one."""
    seeds = tuple(config.seeds[0] for config in configs)
    return dataclasses.replace(configs[0], seeds=seeds)


def _one_temperature(config: "CohortConfig") -> dict[str, Any]:
    """The change of a config that leaves it one temperature."""
    if not config.objective.needs_head:
        return {}
    return {"objective": dataclasses.replace(config.objective, temperatures=config.temperatures[:1])}  # type: ignore[call-arg]  # an objective with a head has them


def _shape(config: "CohortConfig") -> tuple[int, ...]:
    return len(config.depths), len(config.seeds), len(config.temperatures)


def _newest(config: "CohortConfig", losses: np.ndarray) -> dict[str, float]:
    """Losses (depth, temperature) by the names of their curves."""
    return {
        f"loss_{depth}_{k}": float(losses[i, k])
        for i, depth in enumerate(config.depths)
        for k in range(len(config.temperatures))
    }


def rows(config: "CohortConfig", result: "CohortResult") -> list[dict[str, Any]]:
    """A row for each student of the job's seed, at the end of training, in the order of `Toy.columns`."""
    from toymodels import num_params, student_forward_flops

    (seed,) = config.seeds
    teacher = next(teacher for teacher in result.teachers if teacher.seed == seed)
    has_temperature = config.objective.needs_head
    found = []
    for student in _students_of(result, seed):
        loss = None if student.diverged else _finite(student.losses[-1])
        row = {
            "teacher": config.teacher.kind,
            "rho": getattr(config.teacher, "rho", None),
            "correlation_length": _finite(config.teacher.correlation_length),
            "layer_correlation": config.teacher.correlation(1),
            "normal_weights": config.teacher.normal_weights,
            "teacher_depth": config.teacher.depth,
            "residual_scale": config.teacher.step,
            "objective": config.objective.kind,
            "given_head": getattr(config.objective, "given_head", None),
            "layer": config.layer,
            "width": config.width,
            "hidden": config.hidden,
            "vocabulary": config.vocabulary,
            "batch": config.batch,
            "steps": config.steps,
            "learning_rate": config.learning_rate.base,
            "reference_depth": config.learning_rate.reference_depth,
            "hold_fraction": config.learning_rate.hold_fraction,
            "final_fraction": config.learning_rate.final_fraction,
            "beta1": config.adam.beta1,
            "beta2": config.adam.beta2,
            "epsilon": config.adam.epsilon,
            "evaluation_inputs": config.evaluation.batches * config.evaluation.batch,
            "depth": student.depth,
            "temperature": student.temperature if has_temperature else None,
            "seed": seed,
            "num_params": num_params(config, student.depth),
            "flops": 3.0
            * student_forward_flops(config, student.depth)
            * config.batch
            * student.trained_steps,
            "step": student.trained_steps,
            "loss": loss,
            "status": "diverged" if loss is None else "done",
            "update_angle": _finite(student.geometry.update_angle),
            "step_angle": _finite(np.mean(student.geometry.step_angles)),
            "teacher_update_angle": _finite(teacher.geometry.update_angle),
            "teacher_step_angle": _finite(np.mean(teacher.geometry.step_angles)),
        }
        assert tuple(row) == tuple(Toy.columns)
        found.append(row)
    return found


def curves(config: "CohortConfig", result: "CohortResult") -> dict[str, np.ndarray]:
    """What does not fit in a row, by name, for `curves.npz`.

    `steps`; `loss_<depth>_<k>` with k the index of the temperature; `step_angles_…`, `update_angles_…` of
    each student in the same way, and of the teacher (`…_teacher`).
    """
    (seed,) = config.seeds
    teacher = next(teacher for teacher in result.teachers if teacher.seed == seed)
    arrays = {
        "steps": result.steps,
        "step_angles_teacher": teacher.geometry.step_angles,
        "update_angles_teacher": teacher.geometry.update_angles,
    }
    for student in _students_of(result, seed):
        name = _name(config, student.depth, student.temperature)
        arrays[f"loss_{name}"] = student.losses
        arrays[f"step_angles_{name}"] = student.geometry.step_angles
        arrays[f"update_angles_{name}"] = student.geometry.update_angles
    return arrays


def series(rows: list[dict[str, Any]], arrays: "dict[str, np.ndarray]") -> dict[str, list[dict[str, Any]]]:
    """A job's arrays as long tables.

    `curves`: a student's held-out loss at a step. `angles`: of a layer, from 1, of the teacher (depth and
    temperature null) or a student: `step_angle` that it turns the state by, `update_angle` between its update
    and the next one's, null in the last layer (radians).
    """
    temperatures = list(dict.fromkeys(row["temperature"] for row in rows))
    curves, angles = [], _angles({"depth": None, "temperature": None}, arrays, "teacher")
    for row in rows:
        student = {"depth": row["depth"], "temperature": row["temperature"]}
        name = f"{row['depth']}_{temperatures.index(row['temperature'])}"
        losses = arrays[f"loss_{name}"]
        for step, loss in zip(arrays["steps"].tolist(), losses.tolist(), strict=True):
            curves.append(student | {"step": step, "loss": _finite(loss)})
        angles += _angles(student, arrays, name)
    return {"curves": curves, "angles": angles}


def _angles(network: dict[str, Any], arrays: "dict[str, np.ndarray]", name: str) -> list[dict[str, Any]]:
    steps, updates = (arrays[f"{which}_angles_{name}"].tolist() for which in ("step", "update"))
    return [
        network | {"layer": layer, "step_angle": _finite(step), "update_angle": _finite(update)}
        for layer, (step, update) in enumerate(itertools.zip_longest(steps, updates), start=1)
    ]


def _divergence(of_students: list[dict[str, Any]]) -> str | None:
    """Which students diverged, and when."""
    gone = [f"depth {row['depth']} at step {row['step']}" for row in of_students if row["loss"] is None]
    if not gone:
        return None
    more = f" and {len(gone) - 5} more" if len(gone) > 5 else ""
    return f"loss or gradient not finite: {', '.join(gone[:5])}{more}"


def _students_of(result: "CohortResult", seed: int) -> list[Any]:
    return [student for student in result.students if student.seed == seed]


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
