# SPDX-License-Identifier: MIT
"""What PyTorch makes of the same work on the same GPU, eagerly and as a CUDA graph: dense attention, attention alone,
FlexAttention over the rows that MoH chooses, and MoA, MH-MoE and MoE with "rows sorted and expanded": they gather a copy
of the rows for every expert, multiply them by grouped products and put the results back in order. Prints rows, lines
of JSON that table.cpp reads, with the rows of headmix that do the same work in "of"; one that cannot run says why.

usage: baselines.py [--tflops=T] [--tbytes=T] | --list
--list: instead, what every row is compared with, without PyTorch."""

import json
import statistics
import sys
import time

only_list = "--list" in sys.argv
if not only_list:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

N, D, K, E = 16384, 1024, 8, 32  # MoA: 8 of 32 experts for 16384 tokens
ceilings = dict(a[2:].split("=") for a in sys.argv[1:] if "=" in a)
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


def in_batches(f, times, batch):
    events = [(torch.cuda.Event(True), torch.cuda.Event(True)) for _ in range(times)]
    torch.cuda._sleep(4_000_000)  # until all timed work is in the stream
    for i, (begin, end) in enumerate(events):
        begin.record()
        for j in range(batch):
            f((i * batch + j) % 3)
        end.record()
    torch.cuda.synchronize()
    return 1000 * statistics.median(b.elapsed_time(e) for b, e in events) / batch


def median_us(f, times):
    raise_clocks(f)
    for i in range(3):
        f(i)
    us = in_batches(f, times, 1)
    return in_batches(f, 21, 10) if us < 30 else us  # as common.cuh does it


def as_graph(f):
    """f(0) as a CUDA graph, launched at once as ours are."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # one-time work of the first call is not part of the graph
        for _ in range(3):
            f(0)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        f(0)
    return lambda i: graph.replay()


def timed(what, gflop, f, times, graph):
    us = median_us(f, times)
    floor = {"floor_us": round(gflop / peak * 1e3, 2)} if peak else {}
    measured = {"us": round(us, 2), "tflops": round(gflop / us * 1e3, 1)}
    print(json.dumps(what | {"graph": graph} | measured | floor), flush=True)


def row(name, backward, of, gflop, make, times=None):
    """make() prepares and gives the f(i) that is timed. `of`: names of rows of headmix."""
    what = {"group": "torch", "name": name, "pass": "forward and backward" if backward else "forward", "of": of}
    if only_list:
        print(json.dumps(what))
        return
    times = times or (20 if backward else 50)
    try:
        f = make()
        timed(what, gflop, f, times, False)
        timed(what, gflop, as_graph(f), times, True)
    except Exception as error:  # a kernel that this version or GPU lacks, or that cannot be captured
        reason = str(error).strip().splitlines() or [type(error).__name__]
        print(json.dumps({"group": "torch", "name": f"{name}, {what['pass']}: not run ({reason[0][:90]})"}), flush=True)
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


def attention_alone(backend, causal, backward, t, h, b=None, heads=K, kv_heads=1):
    """As many queries as MoA has: K rows a token over one key/value head; or of so many heads."""
    b = b or N // t

    def make():
        q = [numbers(b, heads, t, h, grad=backward) for _ in range(3)]
        k = [numbers(b, kv_heads, t, h, grad=backward) for _ in range(3)]
        v = [numbers(b, kv_heads, t, h, grad=backward) for _ in range(3)]

        def forward(i):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q[i], k[i], v[i], is_causal=causal, enable_gqa=True)

        return with_backward(forward, q, k, v) if backward else forward

    return make


def flex_over_rows(t, h, groups, rows, backward):
    """Causal FlexAttention where every key/value head has so many rows, of ascending positions: the queries that tokens
    choose, one behind another."""

    def make():
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        position = torch.arange(rows, device="cuda") * t // rows
        mask = torch.compile(create_block_mask)(
            lambda b, head, row, key: position[row] >= key, None, None, rows, t, device="cuda"
        )
        flex = torch.compile(flex_attention)
        q = [numbers(1, groups, rows, h, grad=backward) for _ in range(3)]
        k = [numbers(1, groups, t, h, grad=backward) for _ in range(3)]
        v = [numbers(1, groups, t, h, grad=backward) for _ in range(3)]

        def forward(i):
            return flex(q[i], k[i], v[i], block_mask=mask)

        return with_backward(forward, q, k, v) if backward else forward

    return make


def dense_attention(backend, causal, backward, t, h, b=None, d=D, heads=K, kv_heads=K):
    """Multi-head attention with K heads of h columns, the activated width of MoA; or grouped-query attention."""
    b = b or N // t
    widths = [heads * h, kv_heads * h, kv_heads * h]

    def make():
        x = [numbers(b, t, d, grad=backward) for _ in range(3)]
        w_qkv = numbers(sum(widths), d, scale=0.05, grad=backward)
        w_o = numbers(d, heads * h, scale=0.05, grad=backward)

        def forward(i):
            parts = F.linear(x[i], w_qkv).split(widths, -1)
            q, k, v = (part.unflatten(-1, (-1, h)).transpose(1, 2) for part in parts)
            with sdpa_kernel(backend):
                o = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)
            return F.linear(o.transpose(1, 2).reshape(b, t, heads * h), w_o)

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


def expanded_moa(backend, causal, backward, t, h):
    b = N // t

    def make():
        x = [numbers(N, D, grad=backward) for _ in range(3)]
        w_g = numbers(E, D, scale=0.05, grad=backward)
        w_q = numbers(E, D, h, scale=0.05, grad=backward)
        w_o = numbers(E, h, D, scale=0.05, grad=backward)
        w_kv = numbers(2 * h, D, scale=0.05, grad=backward)

        def forward(i):
            p = F.linear(x[i], w_g).float().softmax(-1)
            gate, index = p.topk(K)
            gate = gate / gate.sum(-1, keepdim=True)
            perm, ends, place = sorted_slots(index, E)
            q = grouped(x[i][perm // K], w_q, ends)[place].view(b, t, K, h).transpose(1, 2)
            k, v = F.linear(x[i], w_kv).view(b, 1, t, 2 * h).split(h, dim=-1)
            with sdpa_kernel(backend):
                o = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
            o = o.transpose(1, 2).reshape(N * K, h)
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
    backends = {"cuDNN": None, "flash": None}
    if not only_list:
        print(f"# torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}")
        backends = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
    cudnn = backends["cuDNN"]
    giga = 1e-9
    for h, t in ((128, 2048), (128, 8192), (64, 2048), (64, 8192)):
        core = 4 * N * K * t * h * giga
        dense = 2 * N * D * 4 * K * h * giga
        moa = 2 * N * D * (E + 2 * h + 2 * K * h) * giga
        first = (h, t) == (128, 2048)
        for causal in (False, True):
            mask, part = ("causal", 0.5) if causal else ("all keys", 1.0)
            at = mask if t == 2048 else f"{mask}, T={t}"
            ours = [f"MoA 8 of 32 x {h}, {at}"]
            layers = [
                (f"dense 8 x {h}", ours + [f"dense 8 x {h}, {at}"], dense, dense_attention),
                (f"MoA of {h}, rows sorted and expanded", ours, moa, expanded_moa),
            ]
            if first:
                layers.insert(0, ("attention alone", [f"attention, {mask}"], 0, attention_alone))
            for name, backend in backends.items() if first else (("cuDNN", cudnn),):
                for what, of, products, make in layers:
                    for backward in (False, True):
                        gflop = (3 if backward else 1) * products + (3.5 if backward else 1) * part * core
                        same = [] if backward and what == "attention alone" else of
                        row(f"{what}, {at}, {name}", backward, same, gflop, make(backend, causal, backward, t, h))
    n = 4096
    layers = {"MH-MoE 3 of 96 x 512": (768, 3, 96, 3, 512)}
    layers |= {f"MoE 2 of {e} x 1024": (512, 1, e, 2, 1024) for e in (8, 16, 32, 128)}
    for name, (d, split, experts, k, hidden) in layers.items():
        gflop = 2 * n * d * (experts + 3 * k * hidden + (2 * d if split > 1 else 0)) * giga
        for backward in (False, True):
            make = expanded_moe(n, d, split, experts, k, hidden, backward)
            row(f"{name}, rows sorted and expanded", backward, [name], (3 if backward else 1) * gflop, make)
    # The attention of an 8B LLaMA 3: one sequence.
    d, h, heads, groups = 4096, 128, 32, 8
    for t in (2048, 8192):
        core = 2 * t * t * heads * h * giga
        products = 2 * t * d * h * (2 * heads + 2 * groups) * giga
        at = f"32/8 x 128, {t} tokens"
        mixtures = [f"MoH {active} of {at}{how}" for how in ("", ", dense projections") for active in (24, 16)]
        layers = [f"grouped-query {at}", *mixtures]
        for backward in (False, True):
            attention = (3.5 if backward else 1) * core
            alone = attention_alone(cudnn, True, backward, t, h, 1, heads, groups)
            row(f"attention alone, {at}, cuDNN", backward, [], attention, alone)
            block = dense_attention(cudnn, True, backward, t, h, 1, d, heads, groups)
            row(f"grouped-query {at}, cuDNN", backward, layers, (3 if backward else 1) * products + attention, block)
    for t in (2048, 8192):  # last: they are compiled first
        at, core = f"32/8 x 128, {t} tokens", 2 * t * t * heads * h * giga
        for backward in (False, True):
            for active in (24, 16):
                attention = (3.5 if backward else 1) * core * active / heads
                flex = flex_over_rows(t, h, groups, t * active // groups, backward)
                row(f"attention alone, {active} of {at}, FlexAttention", backward, [], attention, flex)


if __name__ == "__main__":
    main()
