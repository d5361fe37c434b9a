"""What is expected of a teacher whose weights drift along depth, before anything is simulated or trained.

Symbols: teacher depth ℓ*, layers l and l', width m, hidden size H, residual factor s on every W₂ (`step`),
correlation c_k of a weight with itself k layers on (`Teacher.correlation`), correlation length λ in units of
the whole depth, student depth ℓ.

**Updates.** Layer l adds Δh_l = s·W₂ relu(a_l)², a_l = W₁n_l + b₁, n_l = rms_norm(h_l). Weights have mean 0
and variance 1/(3·fan_in). Given the states, the a's of one hidden unit at two layers are jointly normal (in a
wide network; for normal weights at any width) with variance v = 1/3 + 1/(3m) and correlation

    cos ϑ = c_k · (q/3 + 1/(3m)) / v,    q = ⟨n_l, n_l'⟩/m,    k = |l − l'|.

For unit normals u, u' with that correlation E[relu(u)² relu(u')²] = J(ϑ)/(2π) with

    J(ϑ) = 3 sin ϑ cos ϑ + (π − ϑ)(1 + 2 cos²ϑ),    J(0) = 3π,    J(π/2) = π/2

(Cho and Saul, *Kernel methods for deep learning*, 2009, section 2.1, n = 2). W₂ gives another factor c_k, so

    g_k(q) = E⟨Δh_l, Δh_l'⟩/m = s² · c_k · v² · J(ϑ)/(6π),    E cos θ(Δh_l, Δh_l') ≈ c_k · J(ϑ)/(3π).

Every layer has the same mean square g_0(1) = s²v²/2. At lags that are short beside the time that states take
to turn (q ≈ 1) the mean cosine depends on c_k alone: 1 for tied weights, 0 for independent ones, and for a
drift c_k = exp(−k/(ℓ*λ)) it falls from 1 as 1 − (7/3)·k/(ℓ*λ), since J(ϑ)/J(0) = 1 − (2/3)ϑ² + … adds 4/3.

**States.** W₂ has mean 0 and states are what updates add up to, so in a wide network

    ⟨h_l, h_l'⟩/m = 1 + Σ_{i<l} Σ_{j<l'} g_|i−j|(q_ij),

which `mean_field` evaluates layer by layer: every term needs earlier states only. (The dynamical mean-field
theory of a network with shared or drifting weights; there are no transposed weights in a forward pass, so
nothing is fed back.) Tied weights give a displacement² ∝ (s·l)², independent ones ∝ s²·l: a flow and a random
walk, so that as ℓ* grows the first has a limit for s ∝ 1/ℓ*, the second, in law, for s ∝ 1/√ℓ*.

**Which exponent.** A student's layer stands for 1/ℓ of the depth. Within a correlation length the weights
hardly change, and beyond it they are forgotten, so a layer sees 1/(ℓλ) independent pieces of its teacher.

- ℓλ ≪ 1: a layer can only match the average of many independent pieces. It is off by an amount of order 1/ℓ,
  and errors of ℓ layers add like independent ones: (√ℓ · ℓ⁻¹)² = ℓ⁻¹ in squared error.
- ℓλ ≫ 1: a layer sees weights that hardly change. Their average it can learn; what is left is their variance
  within the layer, 1/(ℓλ), over a time 1/ℓ: an error of order ℓ⁻²/λ, besides the ℓ⁻² of a smooth flow. Errors
  of ℓ layers add like independent ones: (√ℓ · ℓ⁻²/λ)² = ℓ⁻³λ⁻².

Both are arXiv:2602.05970's arguments for its two teachers, the second with the drift in it. For λ < 1 they
meet where a student has one layer a correlation length, ℓ ≈ 1/λ (`crossover_depth`), and L·ℓ is a function of
ℓλ alone; the local exponent goes from 1 to 3. For λ > 1 the smooth flow's own error is the larger, and the
exponent is 3 for every ℓ > 1. What is found does not bear this out along ℓ (LOG.md).
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import ArrayLike, Float

from toymodels._teachers import Teacher

__all__ = ["MeanField", "crossover_depth", "local_exponent", "mean_field", "relu_square_kernel"]

Numbers = npt.NDArray[np.float64]


class MeanField(NamedTuple):
    """Expected inner products of a wide teacher, divided by its width.

    states: E⟨h_l, h_l'⟩/m, (ℓ* + 1, ℓ* + 1). updates: E⟨Δh_l, Δh_l'⟩/m, (ℓ*, ℓ*).
    """

    states: Numbers
    updates: Numbers

    def update_cosines(self, lags: int) -> Numbers:
        """Mean over l of the cosine between Δh_l and Δh_{l+k}, for k = 1 … `lags`; NaN at others."""
        cosines = _cosines(self.updates)
        known = [np.mean(np.diagonal(cosines, lag)) for lag in range(1, min(lags + 1, len(cosines)))]
        return np.array(known + [np.nan] * (lags - len(known)))

    @property
    def update_angle(self) -> float:
        """Angle (radians) with the cosine of neighbouring updates: π/2 in a random walk, 0 on a line."""
        return math.acos(np.clip(self.update_cosines(1)[0], -1, 1))

    @property
    def step_angles(self) -> Numbers:
        """θ(h_l, h_{l+1}) in radians, l = 0 … ℓ* − 1: (ℓ*,)."""
        return np.arccos(np.clip(np.diagonal(_cosines(self.states), 1), -1, 1))


def mean_field(teacher: Teacher, width: int) -> MeanField:
    """What a teacher's states and updates are expected to be: exact as the width grows (module's docstring).

    Of order ℓ*² numbers; any teacher that says its `correlation`.
    """
    depth = teacher.depth
    variance = 1 / 3 + 1 / (3 * width)
    # A layer is correlated with itself, whatever the teacher says of neighbours.
    correlation = np.array([teacher.correlation(lag) for lag in range(depth)])
    states, updates = np.ones((depth + 1, depth + 1)), np.zeros((depth, depth))
    for layer in range(depth):
        before = np.arange(layer + 1)
        q = states[layer, before] / np.sqrt(states[layer, layer] * states[before, before])
        c = correlation[layer - before]
        theta = np.arccos(np.clip(c * (q / 3 + 1 / (3 * width)) / variance, -1, 1))
        found = teacher.step**2 * c * variance**2 * relu_square_kernel(theta) / 2
        updates[layer, before] = updates[before, layer] = found
        # ⟨h_{l+1}, h_j⟩ = ⟨h_l, h_j⟩ + Σ_{i<j} ⟨Δh_l, Δh_i⟩, for every j up to l + 1 in turn.
        towards = np.concatenate([[0.0], np.cumsum(updates[layer, : layer + 1])])
        row = states[layer, : layer + 1] + towards[:-1]
        # ⟨h_{l+1}, h_{l+1}⟩ = ⟨h_{l+1}, h_l⟩ + ⟨h_l, Δh_l⟩ + ⟨Δh_l, Δh_l⟩.
        own = row[layer] + towards[layer] + found[-1]
        states[layer + 1, : layer + 2] = states[: layer + 2, layer + 1] = [*row, own]
    return MeanField(states, updates)


def relu_square_kernel(theta: Float[ArrayLike, "..."]) -> Numbers:
    """J(ϑ)/J(0): mean of relu(u)² relu(u')² for unit normals of correlation cos ϑ, over that of equal ones.

    theta: ϑ in radians. 1 for equal ones, 1/6 for independent. Cho and Saul, *Kernel methods for deep
    learning*, 2009, section 2.1, n = 2.
    """
    theta = np.asarray(theta, float)
    cosine = np.cos(theta)
    return np.asarray((3 * np.sin(theta) * cosine + (np.pi - theta) * (1 + 2 * cosine**2)) / (3 * np.pi))


def crossover_depth(length: float) -> float:
    """Students' depth with one layer a correlation length, ℓ = 1/λ: inf for λ = 0 and 0 for λ = ∞.

    length: λ, in units of the whole depth. Raises ValueError where it is negative.
    """
    if not length >= 0:
        raise ValueError(f"length is {length}: it must be at least 0")
    return math.inf if length == 0 else 1 / length


def local_exponent(layers_a_length: Float[ArrayLike, "..."]) -> Numbers:
    """α of a converged student with so many layers a correlation length, ℓλ: from 1 to 3.

    1 + 2x²/(1 + x²) at x = ℓλ: the slope of L ∝ ℓ⁻¹/(1 + x²), the simplest that joins both sides; what is
    predicted are its ends and the place of the bend, up to a factor of order one.
    """
    with np.errstate(over="ignore", divide="ignore"):
        inverse = np.asarray(layers_a_length, float) ** -2.0
    return np.asarray(1 + 2 / (1 + inverse))


def _cosines(products: Numbers) -> Numbers:
    size = np.sqrt(np.diagonal(products))
    return products / size / size[:, None]
