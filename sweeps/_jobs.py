"""Jobs and rows of toy sweeps: a cohort of one seed is a job; each of its students is a row."""

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sweeps._config import canonical, digest, encode

if TYPE_CHECKING:
    from toymodels import CohortConfig, CohortResult

SCHEMA_VERSION = 1
"""Raised when the meaning of a config or a column changes: older records then count as another job's."""


@dataclass(frozen=True)
class Column:
    """A column of the table: its type, its unit (or None) and what it is."""

    type: type
    unit: str | None
    meaning: str


COLUMNS: dict[str, Column] = {
    "job": Column(str, None, "id of the job that trained this student"),
    "teacher": Column(str, None, "teacher kind"),
    "rho": Column(float, None, "correlation of the teacher's layers; null where the kind has none"),
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
"""The schema of a table, in column order."""


@dataclass(frozen=True)
class Job:
    """What is trained and recorded together: `config` has one seed."""

    config: "CohortConfig"

    @property
    def id(self) -> str:
        """Short hash of the config and the schema's version."""
        return job_id(self.config)

    @property
    def label(self) -> str:
        """For a person; nothing reads it back."""
        return f"{self.config.teacher.kind}, seed {self.config.seeds[0]}"


def job_id(config: Any) -> str:
    """The id of the job with this config, encoded or not."""
    return digest({"schema": SCHEMA_VERSION, "config": encode(config)})


def expand(cohorts: "tuple[CohortConfig, ...]") -> list[Job]:
    """One job for each cohort and seed; the same one twice is one."""
    jobs = (Job(dataclasses.replace(config, seeds=(seed,))) for config in cohorts for seed in config.seeds)
    return list(dict.fromkeys(jobs))


def merge(jobs: list[Job]) -> list[list[Job]]:
    """Jobs that differ in their seed alone, together: what one accelerator can train side by side."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(canonical(dataclasses.replace(job.config, seeds=(0,))), []).append(job)
    return list(groups.values())


def train(jobs: list[Job], **options: Any) -> "list[tuple[list[dict[str, Any]], dict[str, np.ndarray]]]":
    """Rows and curves of each job, trained as one cohort; the jobs differ in their seed alone."""
    from toymodels import train_cohort

    seeds = tuple(job.config.seeds[0] for job in jobs)
    result = train_cohort(dataclasses.replace(jobs[0].config, seeds=seeds), **options)
    return [(rows(job, result), curves(job, result)) for job in jobs]


def rows(job: Job, result: "CohortResult") -> list[dict[str, Any]]:
    """A row for each student of the job's seed, at the end of training, in the order of `COLUMNS`."""
    from toymodels import num_params, student_forward_flops

    config = job.config
    (seed,) = config.seeds
    teacher = next(teacher for teacher in result.teachers if teacher.seed == seed)
    has_temperature = config.objective.needs_head
    found = []
    for student in _students_of(result, seed):
        loss = None if student.diverged else _finite(student.losses[-1])
        row = {
            "job": job.id,
            "teacher": config.teacher.kind,
            "rho": getattr(config.teacher, "rho", None),
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
        assert tuple(row) == tuple(COLUMNS)
        found.append(row)
    return found


def curves(job: Job, result: "CohortResult") -> dict[str, np.ndarray]:
    """What does not fit in a row, by name, for `curves.npz`.

    `steps`; `loss_<depth>_<k>` with k the index of the temperature; `step_angles_…`, `update_angles_…` of
    each student in the same way, and of the teacher (`…_teacher`).
    """
    (seed,) = job.config.seeds
    teacher = next(teacher for teacher in result.teachers if teacher.seed == seed)
    arrays = {
        "steps": result.steps,
        "step_angles_teacher": teacher.geometry.step_angles,
        "update_angles_teacher": teacher.geometry.update_angles,
    }
    for student in _students_of(result, seed):
        name = f"{student.depth}_{job.config.temperatures.index(student.temperature)}"
        arrays[f"loss_{name}"] = student.losses
        arrays[f"step_angles_{name}"] = student.geometry.step_angles
        arrays[f"update_angles_{name}"] = student.geometry.update_angles
    return arrays


def _students_of(result: "CohortResult", seed: int) -> list[Any]:
    return [student for student in result.students if student.seed == seed]


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
