# SPDX-License-Identifier: MIT
"""The layers at a size: parameters, and the function to time. Checked against loops over tokens and heads."""

from types import SimpleNamespace

import torch
import torch.nn.functional as F

import layers


def numbers(*shape):
    return torch.rand(shape) * 2 - 1


def weights(*shape):
    return numbers(*shape) * shape[-2] ** -0.5


def parameters(layer, s):
    """Named as in layers.py; s: the sizes by the letters of headmix-bench's rows."""
    d = s["D"]
    if layer == "experts":
        return {
            "x": numbers(s["T"], d),
            "gate": torch.rand(s["T"], s["K"]),
            "w_13": weights(s["E"], d, 2 * s["F"]),
            "w_2": weights(s["E"], s["F"], d),
        }
    x = numbers(s.get("B", 1), s["T"], d)
    if layer == "moa":
        e, h = s["E"], s["H"]
        w_q, w_kv, w_o = weights(e, d, h), weights(d, 2 * h), weights(e, h, d)
        return {"x": x, "w_g": weights(d, e), "w_q": w_q, "w_kv": w_kv, "w_o": w_o}
    p = {"x": x, "w_qkv": weights(d, 3 * d), "w_o": weights(d, d)}
    return p if layer == "multi_head" else p | {"w_router": weights(d, s["N"] + 2)}


def forward(layer, s, p, attention):
    """A function that gives the layer's outputs: y, and losses where there are some."""
    if layer == "multi_head":
        return lambda: (layers.multi_head(p, attention, s["N"]),)
    if layer == "moa":
        return lambda: layers.moa(p, attention, s["K"])
    if layer == "moh":
        on = s["N"] * s["active"] // 100
        return lambda: layers.moh(p, attention, s["N"], on // 2, on - on // 2)
    index = torch.rand(s["T"], s["E"]).topk(s["K"])[1]
    return lambda: (layers.experts(p, index),)


def variants(layer, s, backward, scalar):
    """What may be timed, by name; the fastest is. The scalar is PyTorch's name of a type."""
    kind = getattr(torch, scalar)
    p = SimpleNamespace(**{name: a.to(kind) for name, a in parameters(layer, s).items()})
    leaves = [a.requires_grad_(backward) for a in vars(p).values()]
    names = ("eager",) if layer == "experts" else ("sdpa", "scores")

    def timed(f):
        def only_forward():
            with torch.no_grad():
                return f()

        if not backward:
            return only_forward
        dy = [numbers(*y.shape).to(y.dtype) for y in only_forward()]
        return lambda: torch.autograd.grad(f(), leaves, dy)

    return {name: timed(forward(layer, s, p, getattr(layers, name, None))) for name in names}


def softmax_of(q, k, v):
    return ((k @ q) * q.numel() ** -0.5).softmax(0) @ v


def by_loops(layer, s, p, index):
    """The same by the equations, a token and a head at a time."""
    if layer == "experts":
        rows = []
        for t, x in enumerate(p.x):
            up, gated = zip(*((x @ p.w_13[e]).chunk(2) for e in index[t]))
            rows.append(sum(p.gate[t, j] * ((up[j] * F.silu(gated[j])) @ p.w_2[e]) for j, e in enumerate(index[t])))
        return (torch.stack(rows),)
    batch, length, d = p.x.shape
    y, loss = torch.zeros_like(p.x), []
    if layer == "moa":
        z = p.x.reshape(-1, d) @ p.w_g
        prob, count, experts = z.softmax(-1), torch.zeros(s["E"]), s["E"]
        for b in range(batch):
            key, value = (p.x[b] @ p.w_kv).chunk(2, -1)
            for t in range(length):
                row = prob[b * length + t]
                best = row.argsort(descending=True)[: s["K"]]
                for e in best:
                    count[e] += 1
                    o = softmax_of(p.x[b, t] @ p.w_q[e], key, value)
                    y[b, t] += row[e] / row[best].sum().detach() * (o @ p.w_o[e])
        share = count / count.sum()
        loss = [0.01 * experts * (prob.mean(0) * share).sum() + 0.001 * z.exp().sum(-1).log().square().mean()]
        return (y, *loss)
    heads, width = s["N"], d // s["N"]
    if layer == "moh":
        on = heads * s["active"] // 100
        shared, k = on // 2, on - on // 2
        w_r, w_h, w_s = p.w_router.split((heads - shared, 2, shared), -1)
        mean, used = torch.zeros(heads - shared), torch.zeros(heads - shared)
    for b in range(batch):
        q, key, value = (a.view(length, heads, width) for a in (p.x[b] @ p.w_qkv).chunk(3, -1))
        for t in range(length):
            gate = torch.ones(heads)
            if layer == "moh":
                prob = (p.x[b, t] @ w_r).softmax(0)
                best = prob.argsort(descending=True)[:k]
                of_shared, of_routed = 2 * (p.x[b, t] @ w_h).softmax(0)
                routed = torch.zeros(heads - shared).index_put((best,), k * prob[best] / prob[best].sum())
                gate = torch.cat((of_shared * shared * (p.x[b, t] @ w_s).softmax(0), of_routed * routed))
                mean, used = mean + prob, used.index_put((best,), torch.ones(k), accumulate=True)
            for i in range(heads):
                o = softmax_of(q[t, i], key[:, i], value[:, i])
                y[b, t] += gate[i] * (o @ p.w_o[i * width : (i + 1) * width])
    if layer == "moh":
        loss = [0.01 * (heads - shared) * (mean * used).sum() / (batch * length) ** 2]
    return (y, *loss)


def check():
    """Outputs and gradients of every layer and variant against the loops, in double."""
    small = {
        "multi_head": {"B": 2, "T": 7, "D": 12, "N": 3},
        "moa": {"B": 2, "T": 7, "D": 10, "E": 5, "K": 2, "H": 4},
        "moh": {"T": 9, "D": 24, "N": 8, "active": 50},
        "experts": {"T": 13, "D": 6, "F": 5, "E": 4, "K": 2},
    }
    torch.set_default_dtype(torch.float64)
    for layer, s in small.items():
        for name in ("sdpa", "scores"):
            p = SimpleNamespace(**parameters(layer, s))
            leaves = [a.requires_grad_() for a in vars(p).values()]
            torch.manual_seed(1)
            found = forward(layer, s, p, getattr(layers, name))()
            torch.manual_seed(1)
            index = torch.rand(s["T"], s["E"]).topk(s["K"])[1] if layer == "experts" else None
            expected = by_loops(layer, s, p, index)
            dy = [numbers(*y.shape) for y in found]
            found += torch.autograd.grad(found, leaves, dy)
            expected += torch.autograd.grad(expected, leaves, dy)
            for a, b in zip(found, expected, strict=True):
                if not torch.allclose(a, b, rtol=1e-10, atol=1e-12):
                    raise SystemExit(f"{layer}, {name}: off by {(a - b).abs().max():g} of {b.abs().max():g}")
    torch.set_default_dtype(torch.float32)
