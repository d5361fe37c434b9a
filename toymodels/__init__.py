"""Residual networks that teach and learn: what a layer is worth in the smallest model that shows it.

    config = CohortConfig(teacher=Tied(depth=64), width=8, depths=(2, 4, 8), seeds=(0,), steps=1000)
    result = train_cohort(config)
    result.student(depth=8, seed=0).losses

`dynamics` measures any trajectory of hidden states. Facts and names: arXiv:2602.05970.
"""

from toymodels import dynamics, theory
from toymodels._accounting import (
    memory_bytes,
    num_params,
    step_flops,
    student_forward_flops,
    teacher_forward_flops,
    total_flops,
)
from toymodels._config import Adam, CohortConfig, Evaluation, LearningRate
from toymodels._keys import Purpose, purpose_key, student_key
from toymodels._layers import LAYERS, MLP, AbstractLayer, Euler, Midpoint, rms_norm
from toymodels._limits import DriftingFlowNetwork, FlowNetwork
from toymodels._network import AbstractNetwork, ResidualNetwork, draw_layers
from toymodels._objectives import KL, MSE, Objective
from toymodels._plan import Plan, memory_limit, split, worth_sharing
from toymodels._result import CohortResult, Geometry, Progress, Snapshot, Student, TaughtBy
from toymodels._teachers import Correlated, Drifting, Flow, Independent, Teacher, Tied
from toymodels._train import draw_student, draw_teacher, train_cohort

__all__ = [
    "KL",
    "LAYERS",
    "MLP",
    "MSE",
    "AbstractLayer",
    "AbstractNetwork",
    "Adam",
    "CohortConfig",
    "CohortResult",
    "Correlated",
    "Drifting",
    "DriftingFlowNetwork",
    "Euler",
    "Evaluation",
    "Flow",
    "FlowNetwork",
    "Geometry",
    "Independent",
    "LearningRate",
    "Midpoint",
    "Objective",
    "Plan",
    "Progress",
    "Purpose",
    "ResidualNetwork",
    "Snapshot",
    "Student",
    "TaughtBy",
    "Teacher",
    "Tied",
    "draw_layers",
    "draw_student",
    "draw_teacher",
    "dynamics",
    "memory_bytes",
    "memory_limit",
    "num_params",
    "purpose_key",
    "rms_norm",
    "split",
    "step_flops",
    "student_forward_flops",
    "student_key",
    "teacher_forward_flops",
    "theory",
    "total_flops",
    "train_cohort",
    "worth_sharing",
]
