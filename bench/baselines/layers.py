# SPDX-License-Identifier: MIT
"""The layers of the papers in PyTorch, run eagerly on the CPU. Rows of experts are sorted, multiplied by one product an
expert and put back in order; the gradients of that are permutations and sums over a token's slots, not scattered
additions. Attention is an argument. Layers with a router also return its weighted losses. Over bfloat16 the router's
numbers are floats from its logits on, to the gates and losses."""

import torch
import torch.nn.functional as F


def sdpa(q, k, v):
    """q [B, T, heads, d_h], k and v the same or with one head that all queries share."""
    q, k, v = (a.transpose(1, 2) for a in (q, k, v))
    return F.scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q)).transpose(1, 2)


def scores(q, k, v):
    """The same with the matrix of scores."""
    b, t, heads, width = q.shape
    if k.size(2) == 1:
        q3, k3, v3 = q.reshape(b, t * heads, width), k.squeeze(2), v.squeeze(2)
    else:
        q3, k3, v3 = (a.transpose(1, 2).reshape(b * heads, t, width) for a in (q, k, v))
    s = torch.baddbmm(q3.new_empty(1), q3, k3.transpose(1, 2), beta=0, alpha=width**-0.5)
    o = torch.bmm(s.softmax(-1), v3)
    return o.view(b, t, heads, width) if k.size(2) == 1 else o.view(b, heads, t, width).transpose(1, 2)


def at_least_float(z):
    """Of a router's logits."""
    return z.float() if z.dtype == torch.bfloat16 else z


def take(x, index):
    """Rows of x, or the sums of those that each row of an index [n, k] names."""
    return x.index_select(0, index) if index.dim() == 1 else F.embedding_bag(index, x, mode="sum")


class Take(torch.autograd.Function):
    """take(x, index), whose gradient is take(dy, back)."""

    @staticmethod
    def forward(ctx, x, index, back):
        ctx.back = back
        return take(x, index)

    @staticmethod
    def backward(ctx, dy):
        return take(dy.contiguous(), ctx.back), None, None


class Slots:
    """The slots of `index` [tokens, k] by expert."""

    def __init__(self, index, experts):
        self.tokens, self.k = index.shape
        chosen = index.reshape(-1)
        self.order = chosen.argsort(stable=True)
        self.token = self.order // self.k
        self.place = torch.empty_like(self.order).scatter_(0, self.order, torch.arange(chosen.numel()))
        self.counts = torch.bincount(chosen, minlength=experts).tolist()

    def dispatch(self, x):
        """Rows of tokens, a copy for every slot, by expert."""
        return Take.apply(x, self.token, self.place.view(self.tokens, self.k))

    def by_token(self, x):
        """Rows by expert, in the order of the slots."""
        return Take.apply(x, self.place, self.order)

    def by_expert(self, x):
        return Take.apply(x, self.order, self.place)

    def combine(self, x):
        """Sums of each token's rows by expert."""
        return Take.apply(x, self.place.view(self.tokens, self.k), self.token)


class ExpertProduct(torch.autograd.Function):
    """A product for every expert, with the rows that are sorted by expert."""

    @staticmethod
    def forward(ctx, x, w, counts):
        ctx.save_for_backward(x, w)
        ctx.counts = counts
        y = x.new_empty(x.size(0), w.size(2))
        for a, b, c in zip(x.split(counts), w.unbind(), y.split(counts)):
            torch.mm(a, b, out=c)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dy, dx, dw = dy.contiguous(), torch.empty_like(x), torch.empty_like(w)
        parts = (a.split(ctx.counts) for a in (x, dx, dy))
        for a, da, dc, b, db in zip(*parts, w.unbind(), dw.unbind()):
            torch.mm(dc, b.t(), out=da)
            torch.mm(a.t(), dc, out=db)
        return dx, dw, None


def multi_head(p, attention, heads):
    b, t, _ = p.x.shape
    q, k, v = (p.x @ p.w_qkv).view(b, t, 3, heads, -1).unbind(2)
    return attention(q, k, v).reshape(b, t, -1) @ p.w_o


def moa(p, attention, k):
    """Zhang et al. 2022; gates by equation 9, losses by equations 13 to 16."""
    b, t, d = p.x.shape
    x, experts = p.x.view(b * t, d), p.w_g.size(1)
    z = at_least_float(x @ p.w_g)
    prob = z.softmax(-1)
    chosen, index = prob.topk(k)
    gate = chosen / chosen.sum(-1, keepdim=True).detach()
    slots = Slots(index, experts)
    share = torch.tensor(slots.counts, dtype=z.dtype) / index.numel()
    loss = 0.01 * experts / (b * t) * (prob.sum(0) * share).sum() + 0.001 * z.logsumexp(-1).square().mean()

    q = slots.by_token(ExpertProduct.apply(slots.dispatch(x), p.w_q, slots.counts)).view(b, t, k, -1)
    key, value = (x @ p.w_kv).view(b, t, 2, 1, -1).unbind(2)
    o = attention(q, key, value) * gate.to(x.dtype).view(b, t, k, 1)  # before W_o: cheaper than after it
    y = slots.combine(ExpertProduct.apply(slots.by_expert(o.reshape(b * t * k, -1)), p.w_o, slots.counts))
    return y.view(b, t, d), loss


def moh(p, attention, heads, shared, k):
    """Jin et al. 2024 as in the official code: every head is computed, and those that are off are multiplied by 0."""
    b, t, _ = p.x.shape
    routed = heads - shared
    z = at_least_float(p.x @ p.w_router)
    prob = z[..., :routed].softmax(-1)
    chosen, index = prob.topk(k)
    mask = torch.zeros_like(prob).scatter_(-1, index, 1)
    gate = k * prob * mask / chosen.sum(-1, keepdim=True)
    loss = 0.01 * routed * (prob.mean((0, 1)) * mask.mean((0, 1))).sum()
    scale = 2 * z[..., routed : routed + 2].softmax(-1)
    always = shared * z[..., routed + 2 :].softmax(-1)
    gate = torch.cat((scale[..., :1] * always, scale[..., 1:] * gate), -1).to(p.x.dtype)

    q, key, value = (p.x @ p.w_qkv).view(b, t, 3, heads, -1).unbind(2)
    return (attention(q, key, value) * gate.unsqueeze(-1)).reshape(b, t, -1) @ p.w_o, loss


def experts(p, index):
    """SwiGLU experts that are given, with given weights."""
    slots = Slots(index, p.w_2.size(0))
    up, gated = ExpertProduct.apply(slots.dispatch(p.x), p.w_13, slots.counts).chunk(2, -1)
    z = ExpertProduct.apply(up * F.silu(gated), p.w_2, slots.counts)
    return slots.combine(z * slots.by_expert(p.gate.view(-1, 1)))
