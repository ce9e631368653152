# SPDX-License-Identifier: MIT
"""headmix-lm's dense model and its training in PyTorch: rotary embedding, layer norm before each part, no biases but
those of the norms, exact GELU, the output matrix is the embedding; AdamW on clipped gradients."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Rotary(nn.Module):
    """Turns the pair (i, i + d / 2) of position t by t 10000^(-2 i / d)."""

    def __init__(self, d, context):
        super().__init__()
        angle = torch.arange(context)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x):
        low, high = x.chunk(2, -1)
        cos, sin = self.cos[: x.size(-2)], self.sin[: x.size(-2)]
        return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


class Block(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.rotary = Rotary(width // heads, context)
        self.norm, self.network_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, h):
        b, t, d = h.shape
        q, k, v = self.qkv(self.norm(h)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        h = h + self.o(a.transpose(1, 2).reshape(b, t, d))
        return h + self.down(F.gelu(self.up(self.network_norm(h))))


class Model(nn.Module):
    def __init__(self, layers, heads, width, context):
        super().__init__()
        self.byte = nn.Embedding(256, width)
        self.blocks = nn.ModuleList(Block(width, heads, context) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, p in self.named_parameters():
            writes_residual = name.endswith((".o.weight", ".down.weight"))
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 / ((2 * layers) ** 0.5 if writes_residual else 1))

    def forward(self, x, target):
        h = self.byte(x)
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(F.linear(self.norm(h), self.byte.weight).flatten(0, 1), target.flatten())


class Trainer:
    """The training step with the schedule of headmix-lm --warmup 0, in a run of `steps` steps."""

    def __init__(self, text, layers, heads, width, context, batch, steps, compiled):
        self.batch, self.context, self.steps, self.done = batch, context, steps, 0
        self.model = Model(layers, heads, width, context)
        self.parameters = list(self.model.parameters())
        matrices, others = ([p for p in self.parameters if (p.dim() == 2) == m] for m in (True, False))
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.99), fused=True)
        self.run = torch.compile(self.model) if compiled else self.model
        with open(text, "rb") as f:
            self.bytes = torch.frombuffer(bytearray(f.read()), dtype=torch.uint8)

    def step(self):
        self.done = min(self.done + 1, self.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = 1e-4 + 9e-4 * (1 + math.cos(math.pi * self.done / self.steps)) / 2
        begin = torch.randint(len(self.bytes) - self.context, (self.batch, 1))
        rows = self.bytes[begin + torch.arange(self.context + 1)].long()
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.run(rows[:, :-1], rows[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimiser.step()
        return loss.item()
