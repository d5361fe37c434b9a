"""Parameters, FLOPs and memory of a cohort: pure functions of its config.

FLOPs count matrix products, 2 a multiply-add; a backward pass counts twice a forward one. Normalisation,
activation, optimiser and the drawing of inputs are left out.
"""

from toymodels._config import CohortConfig

BYTES = 4
"""Of a float32."""


def num_params(config: CohortConfig, depth: int) -> int:
    """Parameters that a student of this depth trains: ℓ · MLPs · (2mH + H), plus nm for a learnt head."""
    mlp = 2 * config.width * config.hidden + config.hidden
    return depth * config.layer_class.mlps_per_layer * mlp + _student_head(config)


def _student_head(config: CohortConfig) -> int:
    return (config.vocabulary or 0) * config.width if config.objective.student_has_head else 0


def _head_flops(config: CohortConfig) -> int:
    return 2 * (config.vocabulary or 0) * config.width


def student_forward_flops(config: CohortConfig, depth: int) -> int:
    """FLOPs of one student on one input: 4mH an MLP, and 2nm for the head."""
    mlps = depth * config.layer_class.mlps_per_layer
    return 4 * mlps * config.width * config.hidden + _head_flops(config)


def teacher_forward_flops(config: CohortConfig) -> int:
    """FLOPs of the teacher on one input; a flow is counted as ℓ* evaluations (it chooses its own number)."""
    return 4 * config.teacher.depth * config.width * config.hidden + _head_flops(config)


def step_flops(config: CohortConfig) -> int:
    """FLOPs of a training step of the whole cohort: a seed's teacher once, every student 3 times."""
    students = sum(3 * student_forward_flops(config, depth) for depth in config.depths)
    a_seed = teacher_forward_flops(config) + len(config.temperatures) * students
    return len(config.seeds) * config.batch * a_seed


def total_flops(config: CohortConfig) -> int:
    """FLOPs of the whole training, and of the evaluations (forward passes only)."""
    students = sum(student_forward_flops(config, depth) for depth in config.depths)
    a_seed = teacher_forward_flops(config) + len(config.temperatures) * students
    inputs = config.evaluation.batches * config.evaluation.batch
    evaluations = len(config.evaluation.at(config.steps)) * len(config.seeds) * inputs * a_seed
    return config.steps * step_flops(config) + evaluations


def memory_bytes(config: CohortConfig, vmapped: bool) -> int:
    """Estimated memory of the training step, in bytes, with replicates `vmapped` or one after another.

    Weights with both moments of Adam twice (before and after the step), the teachers, the gradients of all
    students of a seed, and what one backward pass needs: a layer's normalised input and its active hidden
    units. Of a vmapped cohort, every replicate's are alive at once; else only one student's.
    """
    replicates = len(config.seeds) * len(config.temperatures)
    weights = 2 * 3 * replicates * sum(num_params(config, depth) for depth in config.depths)
    layers = config.teacher.depth + (getattr(config.teacher, "resolution", None) or 0)  # of a path, once
    teachers = 2 * len(config.seeds) * layers * (2 * config.width + 1) * config.hidden
    at_once = replicates if vmapped else 1
    layers = max(config.depths) * config.layer_class.mlps_per_layer
    activations = layers * (2 * config.width + config.hidden + 1) + 6 * config.hidden
    outputs = 6 * (config.vocabulary or 0) + 6 * config.width
    with_gradients = replicates if vmapped else len(config.temperatures)
    gradients = with_gradients * sum(num_params(config, depth) for depth in config.depths)
    inputs = max(config.batch, config.evaluation.batch)
    return BYTES * (weights + teachers + gradients + at_once * inputs * (activations + outputs))
