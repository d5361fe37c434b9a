"""What arXiv:2604.21106 (version 3) published, where a figure sets it beside ours.

Symbols: width d = 64 s, recurrences r, unique parameters N without embedding and head, tokens D, budget C.
Its models have 20 executed layers and 35 M to 1.1 B parameters; its losses are nats a token of FineWeb-Edu.
"""

PAPER = "arXiv:2604.21106"
RECURRENCES = (1, 2, 4, 8)
BUDGETS = (4.64e17, 1e18, 2.15e18, 4.64e18, 1e19, 2.15e19)
HEAD_SIZE, CONTEXT, VOCABULARY = 128, 2048, 32_001  # words and one more: padded to 32 064

NUM_PARAMS = {
    6: (35.4, 21.5, 14.5, 10.9),
    8: (62.9, 38.3, 25.7, 19.4),
    10: (98.3, 59.8, 40.2, 30.3),
    12: (141.6, 86.1, 57.8, 43.7),
    14: (192.7, 117.2, 78.7, 59.4),
    16: (251.7, 153.1, 102.8, 77.6),
    18: (318.6, 193.8, 130.1, 98.2),
    20: (393.3, 239.2, 160.6, 121.3),
    24: (566.3, 344.5, 231.2, 174.6),
    28: (770.8, 468.9, 314.7, 237.7),
    34: (1136.5, 691.4, 464.1, 350.4),
}
"""s -> N in millions, by r."""

NUM_TOKENS: dict[int, tuple[float | None, ...]] = {
    6: (0.98, 2.10, None, None, None, None),
    8: (0.64, 1.36, 2.95, None, None, None),
    10: (0.45, 0.97, 2.08, 4.49, None, None),
    12: (0.34, 0.72, 1.55, 3.34, 7.13, None),
    14: (None, 0.56, 1.20, 2.59, None, None),
    16: (None, None, 0.96, 2.07, 4.43, None),
    18: (None, None, None, 1.70, 3.62, 7.78),
    20: (None, None, None, 1.42, 3.05, None),
    24: (None, None, None, None, 2.20, 4.71),
    28: (None, None, None, None, None, 3.58),
    34: (None, None, None, None, None, 2.52),
}
"""s -> D in billions, by budget; the paper prints one number for all r."""

PHI_ENDS = 0.41, 0.53
PHI: dict[str, tuple[float, tuple[float, float] | None]] = {
    "all": (0.459, PHI_ENDS),
    "lower": (0.44, None),
    "upper": (0.49, None),
    "shared": (0.453, None),
    "truncated": (0.380, None),
    "hyperconnections": (0.646, None),
}
"""phi and its 95 % interval, if published: of all runs, of the lower and the upper half of the budgets, of
the four lower budgets, over which the two case studies were run, and of these."""

CHINCHILLA = {
    1: {"A": 58.0, "alpha": 0.251, "B": 150.0, "beta": 0.267, "E": 1.56, "r_squared": 0.9979},
    2: {"A": 33.0, "alpha": 0.216, "B": 910.0, "beta": 0.365, "E": 1.60, "r_squared": 0.9983},
    4: {"A": 23.0, "alpha": 0.191, "B": 1300.0, "beta": 0.388, "E": 1.56, "r_squared": 0.9976},
    8: {"A": 41.0, "alpha": 0.235, "B": 780.0, "beta": 0.362, "E": 1.69, "r_squared": 0.9980},
}
"""The Chinchilla law of each r."""

R_SQUARED = {"phi free": 0.9972, "phi = 0": 0.9858, "phi = 1": 0.9552}
"""Of the joint law."""

GROWTH = {
    "num_params": {1: 0.57, 2: 0.70, 4: 0.76, 8: 0.67},
    "num_tokens": {1: 0.53, 2: 0.42, 4: 0.37, 8: 0.44},
}
"""Exponents of the best sizes, by parabolas: N* and D* proportional to C^exponent."""

GAPS = {2: (0.03, 0.06), 4: (0.05, 0.08), 8: (0.09, 0.12)}
"""Loss of the frontier above that of r = 1, lowest and highest over the budgets, in nats."""

UNIQUE, EFFECTIVE = 0.41, 0.58
"""Its worked example, r = 4 at the width where r = 1 has 1 B parameters: unique and effective ones, in B."""

INJECTIONS = {"linear": 2.793, "additive": 2.797, "passthrough": 7.400, "hyperconnections": 2.757}
"""Validation loss at s = 10, r = 4, C = 1e18, in nats."""
