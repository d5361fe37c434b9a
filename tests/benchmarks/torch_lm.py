"""The usual PyTorch script for a looped language model (arXiv:2604.21106), to compare `llm` with.

`nn.Module` blocks, eager mode, autograd, `F.scaled_dot_product_attention`, `torch.optim.AdamW`. Prints a line
of JSON: seconds per step, the median of those timed, and its inverse.

    python tests/benchmarks/torch_lm.py --width 256 --num-recur 4 --threads 2
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

EPSILON = 1e-6


class Attention(nn.Module):
    """Causal, with rotary embedding before the RMSNorm (without scale) of queries and keys."""

    def __init__(self, width: int, head_size: int) -> None:
        super().__init__()
        self.head_size = head_size
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, context, width = x.shape
        shape = (batch, context, -1, self.head_size)
        query, key, value = (
            part(x).view(shape).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        query, key = (
            F.rms_norm(rotate(part, cos, sin), (self.head_size,), eps=EPSILON) for part in (query, key)
        )
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(seen.transpose(1, 2).reshape(batch, context, width))


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn the pairs (x_j, x_{j + s/2}) by the angles of their position."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos + second * sin, second * cos - first * sin], dim=-1)


class Block(nn.Module):
    """h ← h + Attention(norm(h)); h ← h + W_down relu(W_up norm(h))²."""

    def __init__(self, width: int, head_size: int) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(width, eps=EPSILON)
        self.attention = Attention(width, head_size)
        self.mlp_norm = nn.RMSNorm(width, eps=EPSILON)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, h: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        h = h + self.attention(self.attention_norm(h), cos, sin)
        return h + self.down(F.relu(self.up(self.mlp_norm(h))).square())


class LoopedLM(nn.Module):
    """Embedding → prelude → one block of layers / r layers, run r times → coda → logits 15 tanh(z / 15).

    With r > 1 every recurrence starts with W · [e ‖ h], e being the prelude's output; W starts as [I ‖ 0].
    """

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        width, self.num_recur = args.width, args.num_recur

        def blocks(count: int) -> nn.ModuleList:
            return nn.ModuleList(Block(width, args.head_size) for _ in range(count))

        self.embedding = nn.Embedding(args.vocabulary, width)
        self.embedding_norm = nn.RMSNorm(width, eps=EPSILON)
        self.prelude = blocks(args.prelude)
        self.inject = nn.Linear(2 * width, width, bias=False) if self.num_recur > 1 else None
        self.recurrent = blocks(args.layers // self.num_recur)
        self.recurrence_norm = nn.RMSNorm(width, eps=EPSILON)
        self.coda = blocks(args.coda)
        self.final_norm = nn.RMSNorm(width, eps=EPSILON)
        self.head = nn.Linear(width, args.vocabulary, bias=False)
        with torch.no_grad():
            if self.inject is not None:
                self.inject.weight.copy_(torch.eye(width, 2 * width))
            self.head.weight.normal_(std=0.001)
            for name, weight in self.named_parameters():
                if weight.ndim == 2 and not name.startswith(("embedding", "head", "inject")):
                    weight.uniform_(-((3 / weight.shape[1]) ** 0.5), (3 / weight.shape[1]) ** 0.5)
        angles = torch.outer(
            torch.arange(args.context),
            10_000.0 ** (-torch.arange(0, args.head_size, 2) / args.head_size),
        )
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        e = self.embedding_norm(self.embedding(tokens))
        for block in self.prelude:
            e = block(e, self.cos, self.sin)
        h = e
        for _ in range(self.num_recur):
            if self.inject is not None:
                h = self.inject(torch.cat([e, h], dim=-1))
            for block in self.recurrent:
                h = block(h, self.cos, self.sin)
            h = self.recurrence_norm(h)
        for block in self.coda:
            h = block(h, self.cos, self.sin)
        return 15 * torch.tanh(self.head(self.final_norm(h)) / 15)


def train_step(model: LoopedLM, optimiser: torch.optim.Optimizer, tokens: torch.Tensor) -> torch.Tensor:
    """One step on (sequences, context + 1) tokens; its loss."""
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    return loss.detach()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--head-size", type=int, default=32)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16, help="sequences a step")
    parser.add_argument("--vocabulary", type=int, default=1024)
    parser.add_argument("--prelude", type=int, default=2)
    parser.add_argument("--layers", type=int, default=16, help="executed by all recurrences together")
    parser.add_argument("--coda", type=int, default=2)
    parser.add_argument("--num-recur", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0, help="timed")
    parser.add_argument("--warmup", type=int, default=3, help="steps, not timed")
    parser.add_argument("--threads", type=int, default=None, help="default: as PyTorch chooses")
    parser.add_argument("--cores", type=int, nargs="+", default=None, help="to stay on; default: all")
    parser.add_argument("--fused", action="store_true", help="AdamW as one fused kernel")
    args = parser.parse_args()
    if args.cores is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, args.cores)
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = LoopedLM(args)
    optimiser = torch.optim.AdamW(
        model.parameters(),
        lr=1e-3,
        betas=(0.8, 0.95),
        eps=1e-10,
        weight_decay=0.0,
        fused=True if args.fused else None,
    )
    taken: list[float] = []
    while len(taken) < args.warmup + 3 or sum(taken[args.warmup :]) < args.seconds:
        tokens = torch.randint(args.vocabulary, (args.batch, args.context + 1))
        start = time.perf_counter()
        train_step(model, optimiser, tokens)
        taken.append(time.perf_counter() - start)
    step = statistics.median(taken[args.warmup :])
    print(json.dumps({"seconds_per_step": step, "steps_per_second": 1 / step}))


if __name__ == "__main__":
    main()
