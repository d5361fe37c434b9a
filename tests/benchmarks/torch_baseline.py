"""The usual PyTorch script for one cell: six students trained one after another (arXiv:2602.05970).

`nn.Module` layers, (batch, width) tensors, eager mode, autograd, `torch.optim.Adam`. Each student's every
step draws a batch and runs the teacher on it under `no_grad`, since nothing is shared between trainings.
Prints a line of JSON: seconds per step of each student, and steps per second of the cell, which is
1 / Σ_students seconds per step.

    python tests/benchmarks/torch_baseline.py --threads 2
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    """h ← h + W₂ · relu(W₁ · rms_norm(h) + b₁)²; `nn.Linear` starts uniform in ±1/√fan_in, as it should."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w_in = nn.Linear(width, hidden)
        self.w_out = nn.Linear(hidden, width, bias=False)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return h + self.w_out(F.relu(self.w_in(F.rms_norm(h, h.shape[-1:]))).square())


class Network(nn.Module):
    """rms_norm, `depth` layers, rms_norm. Every W₂ is multiplied by `residual_scale`."""

    def __init__(self, depth: int, width: int, hidden: int, residual_scale: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(Layer(width, hidden) for _ in range(depth)))
        with torch.no_grad():
            for layer in self.layers:
                layer.w_out.weight.mul_(residual_scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(self.layers(F.rms_norm(x, x.shape[-1:])), x.shape[-1:])


def seconds_per_step(teacher: Network, depth: int, args: argparse.Namespace) -> float:
    """Median over `args.steps` training steps of one student, after `args.warmup` more."""
    student = Network(depth, args.width, args.hidden, residual_scale=0.0)
    rate = 6e-4 * 2 / depth**0.5
    optimizer = torch.optim.Adam(student.parameters(), lr=rate, fused=True if args.fused else None)
    seconds = []
    for _ in range(args.warmup + args.steps):
        start = time.perf_counter()
        x = torch.randn(args.batch, args.width)
        with torch.no_grad():
            target = teacher(x)
        loss = F.mse_loss(student(x), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[args.warmup :])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--teacher-depth", type=int, default=128)
    parser.add_argument("--depths", type=int, nargs="+", default=[6, 12, 16, 24, 32, 48])
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=15, help="timed, for each student")
    parser.add_argument("--warmup", type=int, default=5, help="not timed, for each student")
    parser.add_argument("--threads", type=int, default=None, help="default: as PyTorch chooses")
    parser.add_argument("--fused", action="store_true", help="Adam as one fused kernel instead of a loop")
    args = parser.parse_args()
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    teacher = Network(args.teacher_depth, args.width, args.hidden, args.teacher_depth**-0.5)
    students = {depth: seconds_per_step(teacher, depth, args) for depth in args.depths}
    step = sum(students.values())
    print(json.dumps({"seconds_per_step": step, "steps_per_second": 1 / step, "students": students}))


if __name__ == "__main__":
    main()
