# SPDX-License-Identifier: MIT
"""What PyTorch makes of the same work on the same GPU, eagerly: dense attention, attention alone, and MoA, MH-MoE and
MoE with "rows sorted and expanded": they gather a copy of the rows for every expert, multiply them by grouped products
and put the results back in order. Prints rows as common.cuh describes; one that cannot run says why.

usage: baselines.py [--tflops=T] [--tbytes=T]"""

import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

B, T, D, H, K, E = 8, 2048, 1024, 128, 8, 32
N = B * T
ceilings = dict(a[2:].split("=") for a in sys.argv[1:])
peak = float(ceilings.get("tflops", 0))


def numbers(*shape, scale=1.0, grad=False):
    x = (torch.rand(*shape, device="cuda") * 2 - 1).mul_(scale).to(torch.bfloat16)
    return x.requires_grad_(grad)


clocks_are_up = False


def raise_clocks(f):
    """Works for 0.3 s, once, so that the clocks have risen before anything is timed."""
    global clocks_are_up
    end = time.monotonic() + (0 if clocks_are_up else 0.3)
    while time.monotonic() < end:
        for i in range(3):
            f(i)
        torch.cuda.synchronize()
    clocks_are_up = True


def median_us(f, times):
    raise_clocks(f)
    for i in range(3):
        f(i)
    events = [(torch.cuda.Event(True), torch.cuda.Event(True)) for _ in range(times)]
    torch.cuda._sleep(4_000_000)  # all that is timed lies in the stream before the first of it begins
    for i, (begin, end) in enumerate(events):
        begin.record()
        f(i % 3)
        end.record()
    torch.cuda.synchronize()
    return 1000 * statistics.median(b.elapsed_time(e) for b, e in events)


def row(name, gflop, make, times=50):
    """make() prepares and gives the f(i) that is timed."""
    try:
        f = make()
        us = median_us(f, times)
        floor = f"{gflop / peak * 1e3:.1f}\t{gflop / peak * 1e3 / us:.2f}" if peak else "-\t-"
        print(f"torch\t{name}\t{us:.1f}\t{gflop / us * 1e3:.0f}\t{floor}", flush=True)
    except Exception as error:  # a kernel that this version or GPU lacks
        reason = str(error).strip().splitlines() or [type(error).__name__]
        print(f"torch\t{name}: not run ({reason[0][:90]})\t-\t-\t-\t-", flush=True)
    torch.cuda.empty_cache()


def with_backward(forward, *leaves):
    """The pass forward and backward, with gradients made anew."""
    dy = [numbers(*forward(i).shape, scale=0.01) for i in range(3)]

    def both(i):
        y = forward(i)
        mine = [leaf[i] if isinstance(leaf, list) else leaf for leaf in leaves]
        torch.autograd.backward(y, dy[i], inputs=mine)
        for leaf in mine:
            leaf.grad = None

    return both


def attention_alone(backend, causal, backward):
    """As many queries as MoA has: K rows a token over one key/value head."""

    def make():
        q = [numbers(B, K, T, H, grad=backward) for _ in range(3)]
        k = [numbers(B, 1, T, H, grad=backward) for _ in range(3)]
        v = [numbers(B, 1, T, H, grad=backward) for _ in range(3)]

        def forward(i):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q[i], k[i], v[i], is_causal=causal, enable_gqa=True)

        return with_backward(forward, q, k, v) if backward else forward

    return make


def dense_attention(backend, causal, backward):
    """Multi-head attention with K heads of H columns: the activated width of MoA."""

    def make():
        x = [numbers(B, T, D, grad=backward) for _ in range(3)]
        w_qkv = numbers(3 * K * H, D, scale=0.05, grad=backward)
        w_o = numbers(D, K * H, scale=0.05, grad=backward)

        def forward(i):
            q, k, v = F.linear(x[i], w_qkv).view(B, T, 3, K, H).permute(2, 0, 3, 1, 4)
            with sdpa_kernel(backend):
                o = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            return F.linear(o.transpose(1, 2).reshape(B, T, K * H), w_o)

        return with_backward(forward, x, w_qkv, w_o) if backward else forward

    return make


def grouped(x, w, offsets):
    return F.grouped_mm(x, w, offs=offsets) if hasattr(F, "grouped_mm") else torch._grouped_mm(x, w, offs=offsets)


def sorted_slots(index, experts):
    """The slots by expert, where each expert ends, and the place of every slot."""
    chosen = index.reshape(-1)
    perm = chosen.argsort(stable=True)
    ends = torch.zeros(experts, dtype=torch.int32, device="cuda").index_add_(
        0, chosen, torch.ones(chosen.numel(), dtype=torch.int32, device="cuda")
    ).cumsum(0, dtype=torch.int32)
    return perm, ends, torch.empty_like(perm).scatter_(0, perm, torch.arange(chosen.numel(), device="cuda"))


def expanded_moa(backend, causal, backward):
    def make():
        x = [numbers(N, D, grad=backward) for _ in range(3)]
        w_g = numbers(E, D, scale=0.05, grad=backward)
        w_q = numbers(E, D, H, scale=0.05, grad=backward)
        w_o = numbers(E, H, D, scale=0.05, grad=backward)
        w_kv = numbers(2 * H, D, scale=0.05, grad=backward)

        def forward(i):
            p = F.linear(x[i], w_g).float().softmax(-1)
            gate, index = p.topk(K)
            gate = gate / gate.sum(-1, keepdim=True)
            perm, ends, place = sorted_slots(index, E)
            q = grouped(x[i][perm // K], w_q, ends)[place].view(B, T, K, H).transpose(1, 2)
            k, v = F.linear(x[i], w_kv).view(B, 1, T, 2 * H).split(H, dim=-1)
            with sdpa_kernel(backend):
                o = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
            o = o.transpose(1, 2).reshape(N * K, H)
            z = grouped(o[perm], w_o, ends)[place].view(N, K, D)
            return torch.bmm(gate.to(z.dtype).unsqueeze(1), z).squeeze(1)

        return with_backward(forward, x, w_g, w_q, w_o, w_kv) if backward else forward

    return make


def expanded_moe(n, d, split, experts, k, hidden, backward):
    """SwiGLU experts for n tokens; with split > 1 for their sub-tokens, between the head and the merge layer."""

    def make():
        part = d // split
        x = [numbers(n, d, grad=backward) for _ in range(3)]
        w_g = numbers(experts, part, scale=0.05, grad=backward)
        w_up = numbers(experts, part, hidden, scale=0.05, grad=backward)
        w_gate = numbers(experts, part, hidden, scale=0.05, grad=backward)
        w_down = numbers(experts, hidden, part, scale=0.05, grad=backward)
        outer = [numbers(d, d, scale=0.05, grad=backward) for _ in range(2 if split > 1 else 0)]

        def forward(i):
            rows = (F.linear(x[i], outer[0]) if outer else x[i]).view(n * split, part)
            gate, index = F.linear(rows, w_g).float().softmax(-1).topk(k)
            perm, ends, place = sorted_slots(index, experts)
            mine = rows[perm // k]
            h = grouped(mine, w_up, ends) * F.silu(grouped(mine, w_gate, ends))
            z = grouped(h, w_down, ends)[place].view(n * split, k, part)
            y = torch.bmm(gate.to(z.dtype).unsqueeze(1), z).view(n, d)
            return F.linear(y, outer[1]) if outer else y

        return with_backward(forward, x, w_g, w_up, w_gate, w_down, *outer) if backward else forward

    return make


def main():
    print(f"# torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}")
    giga = 1e-9
    core = 4 * N * K * T * H * giga
    dense = 2 * N * D * 4 * K * H * giga
    moa = 2 * N * D * (E + 2 * H + 2 * K * H) * giga
    backends = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
    for causal in (False, True):
        mask, part = ("causal", 0.5) if causal else ("all keys", 1.0)
        for name, backend in backends.items():
            for what, products, make in (
                ("attention alone", 0, attention_alone),
                ("dense 8 x 128", dense, dense_attention),
                ("MoA, rows sorted and expanded", moa, expanded_moa),
            ):
                row(f"{what}, {mask}, {name}, forward", products + part * core, make(backend, causal, False))
                gflop = 3 * products + 3.5 * part * core
                row(f"{what}, {mask}, {name}, forward and backward", gflop, make(backend, causal, True), 20)
    n = 4096
    layers = {"MH-MoE 3 of 96 x 512": (768, 3, 96, 3, 512)}
    layers |= {f"MoE 2 of {e} x 1024": (512, 1, e, 2, 1024) for e in (8, 16, 32, 128)}
    for name, (d, split, experts, k, hidden) in layers.items():
        gflop = 2 * n * d * (experts + 3 * k * hidden + (2 * d if split > 1 else 0)) * giga
        name += ", rows sorted and expanded"
        row(f"{name}, forward", gflop, expanded_moe(n, d, split, experts, k, hidden, False))
        row(f"{name}, forward and backward", 3 * gflop, expanded_moe(n, d, split, experts, k, hidden, True), 20)


if __name__ == "__main__":
    main()
