# SPDX-License-Identifier: MIT
"""training_step.py CXX HEADMIX EIGEN FOLDER [FLAGS...] [--tokens N...]: a training step of a small language model on the
CPU, 4 blocks of width 256, whose attention is an operator of headmix or written in PyTorch; times in turn in one process,
and the memory that a step adds, each in a process of its own. A page of results: bench/results. Needs PyTorch 2.4."""
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from page import block, build, page_of

WIDTH, HEADS, HEAD, BLOCKS, WORDS, SEQUENCES = 256, 8, 32, 4, 512, 4
SOURCE = """
#include <headmix/headmix.hpp>
#include <headmix/interop/torch.hpp>
using namespace headmix;
using Numbers = type_list<float>;
using Dense = torch_layer<MultiHead<256, 8, 32, causal>, void, type_list<>, Numbers>;
using Half = torch_layer<Moh<256, 32, TwoStage<2, 6, 2>, causal>, void, type_list<>, Numbers>;
using Chosen = torch_layer<Moa<256, 32, SoftmaxTopK<16, 4>, causal>, void, type_list<>, Numbers>;
TORCH_LIBRARY(step, library) {
  Dense::define(library, "step::multi_head");
  Half::define(library, "step::moh");
  Chosen::define(library, "step::moa");
}
"""


class Operator(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.operator = getattr(torch.ops.step, name)
        self.weights = torch.nn.ParameterList(start_of(name).values())

    def forward(self, x):
        y, *losses = self.operator(x, list(self.weights))
        return y, sum(losses) * 0.01 if losses else 0.0


def start_of(name):
    """The first weights of an operator by name; the layer in PyTorch begins with the same."""
    start = getattr(torch.ops.step, f"{name}_parameters")(0, torch.float32)
    w = dict(zip(getattr(torch.ops.step, f"{name}_names")(), (torch.nn.Parameter(w.detach()) for w in start)))
    if "W_g" in w:  # 0, where all experts are tied
        w["W_g"].data.normal_(0, 0.02, generator=torch.Generator().manual_seed(0))
    return w


class Dense(torch.nn.Module):
    """Multi-head attention by PyTorch's fused kernel."""

    def __init__(self, name="multi_head"):
        super().__init__()
        w = start_of(name)
        self.router = torch.nn.ParameterDict({n: p for n, p in w.items() if n in ("W_h", "W_r", "W_s")})
        self.qkv, self.o = (torch.nn.Linear(WIDTH, n * WIDTH, bias=False) for n in (3, 1))
        self.qkv.weight.data = torch.cat([w["W_q"], w["W_k"], w["W_v"]], 1).T.contiguous().detach()
        self.o.weight.data = w["W_o"].T.contiguous().detach()

    def heads(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

    def forward(self, x):
        return self.o(self.heads(x).flatten(2)), 0.0


class HalfOfHeads(Dense):
    """MoH with 2 shared heads and 2 of 6 routed ones, as its authors compute it: all heads, most gates 0."""

    def __init__(self):
        super().__init__("moh")

    def forward(self, x):
        p = (x @ self.router["W_r"]).softmax(-1)
        chosen, index = p.topk(2)
        mask = torch.zeros_like(p).scatter(-1, index, 1.0)
        balance = 6 * (p.mean((0, 1)) * mask.mean((0, 1))).sum()
        alpha = (x @ self.router["W_h"]).softmax(-1) * 2
        shared, routed = (x @ self.router["W_s"]).softmax(-1) * 2, mask * p / chosen.sum(-1, keepdim=True) * 2
        gates = torch.cat([shared * alpha[..., :1], routed * alpha[..., 1:]], -1)
        return self.o((self.heads(x) * gates[..., None]).flatten(2)), balance * 0.01


class FourOfSixteen(torch.nn.Module):
    """MoA with 4 of 16 experts: queries and results of all experts, attention of the chosen ones."""

    def __init__(self):
        super().__init__()
        w = start_of("moa")
        self.g, self.k, self.v, self.o = w["W_g"], w["W_k"], w["W_v"], w["W_o"]
        self.q = torch.nn.Parameter(w["W_q"].detach().transpose(0, 1).flatten(1).contiguous())

    def forward(self, x):
        z = x @ self.g
        p = z.softmax(-1)
        chosen, index = p.topk(4)
        counts = torch.zeros_like(p).scatter(-1, index, 1.0).sum((0, 1))
        balance = 16 * (p.mean((0, 1)) * counts / counts.sum()).sum()
        index = index[..., None].expand(-1, -1, -1, HEAD)
        q = (x @ self.q).unflatten(-1, (16, HEAD)).gather(2, index).transpose(1, 2)
        k, v = ((x @ w)[:, None].expand(-1, 4, -1, -1) for w in (self.k, self.v))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        gates = (chosen / chosen.sum(-1, keepdim=True).detach())[..., None]
        slots = torch.zeros(*x.shape[:2], 16, HEAD).scatter(2, index, gates * o)
        return slots.flatten(2) @ self.o.flatten(0, 1), 0.01 * (balance + z.logsumexp(-1).square().mean())


VARIANTS = {
    "multi-head attention, 8 heads": (lambda: Operator("multi_head"), Dense),
    "MoH, 4 of 8 heads": (lambda: Operator("moh"), HalfOfHeads),
    "MoA, 4 of 16 experts": (lambda: Operator("moa"), FourOfSixteen),
}


class Model(torch.nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.embedding, self.words = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Linear(WIDTH, WORDS)
        self.attention = torch.nn.ModuleList(attention() for _ in range(BLOCKS))
        torch.manual_seed(1)  # layers in PyTorch draw weights, too
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2 * BLOCKS))
        self.mlps = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))
            for _ in range(BLOCKS))

    def forward(self, text):
        x, losses = self.embedding(text), 0.0
        for i, (attention, mlp) in enumerate(zip(self.attention, self.mlps)):
            y, loss = attention(self.norms[2 * i](x))
            x, losses = x + y, losses + loss
            x = x + mlp(self.norms[2 * i + 1](x))
        return self.words(x), losses


def training(attention, tokens):
    """A function that takes a step and returns the objective, and one that runs attention alone."""
    torch.manual_seed(0)
    model = Model(attention)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-3)
    text = (torch.arange(SEQUENCES)[:, None] * 7 + torch.arange(tokens + 1) * 3) % WORDS

    def step():
        optimiser.zero_grad()
        logits, losses = model(text[:, :-1])
        objective = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()) + losses
        objective.backward()
        optimiser.step()
        return objective.item()

    x = torch.randn(SEQUENCES, tokens, WIDTH, requires_grad=True)

    def layer():
        y, loss = model.attention[0](x)
        (y.sum() + loss).backward()

    return step, layer


def memory(which):
    """VmRSS, or VmHWM: its peak, in MiB."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


compiler, headmix, eigen, folder, *flags = sys.argv[1:]
library = pathlib.Path(folder, "libstep.so")
if flags[:1] == ["--memory"]:
    _, name, side, tokens = flags
    torch.ops.load_library(library)
    step, _ = training(VARIANTS[name][int(side)], 8)
    step()
    step, _ = training(VARIANTS[name][int(side)], int(tokens))
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    step()
    print(memory("VmHWM") - before)
    sys.exit()

sizes = [256, 1024]
if "--tokens" in flags:
    at = flags.index("--tokens")
    sizes, flags = [int(n) for n in flags[at + 1:]], flags[:at]
pathlib.Path(folder, "step.cpp").write_text(SOURCE)
build(block(page_of(headmix), "sh", "cpp_extension", "g++ "), folder,
      {"python3": sys.executable, "g++ ": f"{compiler} ", "mine.cpp": "step.cpp", "libmine.so": "libstep.so",
       "-fopenmp": " ".join(flags)}, HEADMIX=str(pathlib.Path(headmix).parent.parent), EIGEN=eigen)
torch.ops.load_library(library)
print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads; {BLOCKS} blocks of width {WIDTH}, {SEQUENCES} "
      "sequences; medians of 9 runs in turn, ms; memory that a step adds, MiB (MALLOC_MMAP_THRESHOLD_=1000000; and by "
      "default, where freed blocks stay); the objective after 11 steps from the same weights")
print("| attention | tokens | step: headmix | PyTorch | ratio | layer: headmix | PyTorch | ratio | memory: headmix | "
      "PyTorch | by default: headmix | PyTorch | objective: headmix | PyTorch |\n" + "|---" * 14 + "|")
for tokens in sizes:
    for name, sides in VARIANTS.items():
        both = [training(attention, tokens) for attention in sides]
        seconds, objective = [[[], []], [[], []]], [0.0, 0.0]
        for run in range(11):
            for side, functions in enumerate(both):
                for what, f in enumerate(functions):
                    start = time.perf_counter()
                    found = f()
                    if run >= 2:
                        seconds[what][side].append(1000 * (time.perf_counter() - start))
                    if what == 0:
                        objective[side] = found
        peaks = [float(subprocess.run([sys.executable, __file__, compiler, headmix, eigen, folder, "--memory", name,
                                       str(side), str(tokens)], env={**os.environ, **heap}, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, check=True).stdout)
                 for heap in ({"MALLOC_MMAP_THRESHOLD_": "1000000"}, {}) for side in range(2)]
        (a, b), (c, d) = ([statistics.median(s) for s in what] for what in seconds)
        print(f"| {name} | {tokens} | {a:.1f} | {b:.1f} | {b / a:.2f} | {c:.1f} | {d:.1f} | {d / c:.2f} | "
              f"{' | '.join(f'{p:.0f}' for p in peaks)} | {objective[0]:.3f} | {objective[1]:.3f} |", flush=True)
