# SPDX-License-Identifier: MIT
"""headmix-lm's dense model and its training step in PyTorch: learned positions, layer norm before each part, no biases
but those of the norms, exact GELU, the output matrix is the embedding; AdamW on clipped gradients."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.network_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, h):
        b, t, d = h.shape
        q, k, v = self.qkv(self.norm(h)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.o(a.transpose(1, 2).reshape(b, t, d))
        return h + self.down(F.gelu(self.up(self.network_norm(h))))


class Model(nn.Module):
    def __init__(self, layers, heads, width, context):
        super().__init__()
        self.byte, self.position = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 / ((2 * layers) ** 0.5 if name.endswith(("o.weight", "down.weight")) else 1))

    def forward(self, x, target):
        h = self.byte(x) + self.position.weight[: x.size(1)]
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(F.linear(self.norm(h), self.byte.weight).flatten(0, 1), target.flatten())


def train(text, s, compiled):
    """Seconds, the loss at the end and the number of parameters."""
    model = Model(s["layers"], s["heads"], s["width"], s["context"])
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    run = torch.compile(model) if compiled else model
    data = torch.frombuffer(bytearray(open(text, "rb").read()), dtype=torch.uint8)
    window = torch.arange(s["context"] + 1)

    def step():
        begin = torch.randint(len(data) - s["context"], (s["batch"], 1))
        rows = data[begin + window].long()
        optimiser.zero_grad(set_to_none=True)
        loss = run(rows[:, :-1], rows[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        return loss

    if compiled:
        step()
    begin = time.perf_counter()
    for _ in range(s["steps"]):
        loss = step()
    loss = loss.item()
    return time.perf_counter() - begin, loss, sum(p.numel() for p in model.parameters())
