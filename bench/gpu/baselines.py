"""Rows of headmix and of PyTorch on the same GPU, in turn in one process and on one stream: A B, B A, A B, ... Dense
attention, attention alone, FlexAttention over the rows that MoH chooses, and MoA, MH-MoE and MoE with "rows sorted and
expanded": they gather a copy of the rows for every expert, multiply them by grouped products and put the results back
in order. All as CUDA graphs. Prints rows, lines of JSON that table.cpp reads: pairs, with the quotient of times and the
rate of an SM's clock, then rows without a counterpart. A row that cannot run says why.

usage: baselines.py [--tflops=T] [--tbytes=T] [--seconds=S] [--only=TEXT] LIBRARY...
       baselines.py --list
LIBRARY: rows of headmix, linked from bench/gpu/*.cu. --seconds: no row begins later. --only: rows with this text.
--list: instead, what every row is compared with, without PyTorch and without a GPU."""

import contextlib
import ctypes
import json
import os
import statistics
import sys
import time

only_list = "--list" in sys.argv
if not only_list:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic products ask for it; PyTorch's default
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

N, D, K, E = 16384, 1024, 8, 32  # MoA: 8 of 32 experts for 16384 tokens
options = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--") and "=" in a)
tflops, tbytes = float(options.get("tflops", 0)), float(options.get("tbytes", 0))
last_second = time.monotonic() + float(options.get("seconds", 1e9))
only = options.get("only", "")


def say(row):
    print(json.dumps(row), flush=True)


class Library:
    """The rows of one unit of bench/gpu."""

    def __init__(self, path):
        self.lib = lib = ctypes.CDLL(path)
        lib.headmix_bench_row.restype = lib.headmix_bench_error.restype = ctypes.c_char_p
        lib.headmix_bench_prepare.restype = ctypes.c_void_p
        lib.headmix_bench_prepare.argtypes = [ctypes.c_int, ctypes.c_void_p]
        lib.headmix_bench_run.argtypes = [ctypes.c_void_p, ctypes.c_int]
        lib.headmix_bench_release.argtypes = [ctypes.c_void_p]
        lib.headmix_bench_clock.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.rows = [json.loads(lib.headmix_bench_row(n)) | {"n": n} for n in range(lib.headmix_bench_rows())]

    @contextlib.contextmanager
    def prepared(self, n):
        """The f(i) of row n."""
        work = self.lib.headmix_bench_prepare(n, torch.cuda.current_stream().cuda_stream)
        if not work:
            raise RuntimeError(self.lib.headmix_bench_error().decode())
        try:

            def f(i):
                if self.lib.headmix_bench_run(work, i) != 0:
                    raise RuntimeError(self.lib.headmix_bench_error().decode())

            yield f
            torch.cuda.synchronize()
        finally:
            self.lib.headmix_bench_release(work)

    def clock(self, to):
        if self.lib.headmix_bench_clock(torch.cuda.current_stream().cuda_stream, to) != 0:
            raise RuntimeError("the kernel of the clock does not start")


libraries = [Library(path) for path in sys.argv[1:] if not path.startswith("--")]


def ours(name, of_pass):
    """The row of headmix, as a graph where there is one."""
    found = [(lib, r) for lib in libraries for r in lib.rows if r["name"] == name and r["pass"] == of_pass]
    found.sort(key=lambda at: not at[1]["graph"])
    return found[0] if found else None


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


def in_turn(works, times):
    """The times of each work in microseconds, by turn, and the rates of an SM's clock before each turn in MHz. What
    takes less than 30 us is timed by ten at a time, so that events are no part of it."""
    for f in works:
        raise_clocks(f)
        for i in range(3):
            f(i)

    def turns(batches, times):
        clocks = torch.zeros(times, 2, dtype=torch.int64, device="cuda")
        events = [[(torch.cuda.Event(True), torch.cuda.Event(True)) for _ in works] for _ in range(times)]
        calls = [0] * len(works)
        torch.cuda._sleep(4_000_000)  # until much of the timed work is in the stream
        for turn in range(times):
            if libraries:
                libraries[0].clock(clocks.data_ptr() + 16 * turn)
            order = range(len(works)) if turn % 2 == 0 else reversed(range(len(works)))
            for w in order:
                begin, end = events[turn][w]
                begin.record()
                for _ in range(batches[w]):
                    works[w](calls[w] % 3)
                    calls[w] += 1
                end.record()
        torch.cuda.synchronize()
        us = [[1000 * e[w][0].elapsed_time(e[w][1]) / batches[w] for e in events] for w in range(len(works))]
        return us, [1000 * cycles / ns for cycles, ns in clocks.tolist() if ns > 0]

    rough, _ = turns([1] * len(works), 5)
    return turns([10 if statistics.median(us) < 30 else 1 for us in rough], times)


def as_graph(f):
    """f(0) as a CUDA graph."""
    for _ in range(3):  # one-time work of the first calls is not part of the graph
        f(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
        f(0)
    return lambda i: graph.replay()


def figures(gflop, megabytes, us):
    floors = [gflop / tflops * 1e3 if tflops else 0, megabytes / tbytes if tbytes else 0]
    return {"us": round(us, 2), "tflops": round(gflop / us * 1e3, 1), "floor_us": round(max(floors), 2)}


measured = set()  # rows of headmix, by library and number


def may_begin(name):
    return only in name and time.monotonic() < last_second


def refused(what, error):
    reason = str(error).strip().splitlines() or [type(error).__name__]
    say({"group": "pair", "name": f"{what}: not run ({reason[0][:120]})"})


def pair(lib, r, beside, times=15):
    """Row r of headmix in turn with others: names, and what gives their f(i) within a context."""
    with lib.prepared(r["n"]) as mine, contextlib.ExitStack() as stack:
        mine = mine if r["graph"] or not r["capturable"] else as_graph(mine)
        for name, make in beside:
            try:
                theirs = stack.enter_context(make())
                (us, their_us), mhz = in_turn([mine, theirs], times)
            except Exception as error:  # a kernel that this version or GPU lacks, or that cannot be captured
                refused(f"{r['name']}, {r['pass']}, beside {name}", error)
                continue
            quotients = sorted(a / b for a, b in zip(us, their_us))
            quarter = len(quotients) // 4
            what = {key: r[key] for key in ("name", "pass", "device")}
            say(
                what
                | {"group": "pair", "graph": r["graph"] or r["capturable"]}
                | figures(r["gflop"], r["megabytes"], statistics.median(us))
                | {"beside": name, "beside_us": round(statistics.median(their_us), 2)}
                | {"ratio": round(statistics.median(quotients), 4)}
                | {"low": round(quotients[quarter], 4), "high": round(quotients[-1 - quarter], 4)}
                | ({"mhz": round(statistics.median(mhz))} if mhz else {})
            )
            measured.add((id(lib), r["n"]))


def row(name, backward, of, gflop, make):
    """Rows of headmix of these names in turn with PyTorch's, whose make() prepares and gives the f(i) that is timed;
    without such rows PyTorch's alone."""
    which = "forward and backward" if backward else "forward"
    if only_list:
        say({"name": name, "pass": which, "of": of})
        return
    found = [at for at in (ours(n, which) for n in of) if at]
    wanted = [at for at in found if may_begin(name) or may_begin(at[1]["name"])]
    if not wanted and (found or not may_begin(name)):
        return

    @contextlib.contextmanager
    def graph():
        yield as_graph(make())

    try:
        if wanted:
            with graph() as theirs:
                for lib, r in wanted:
                    pair(lib, r, [(name, lambda: contextlib.nullcontext(theirs))])
        else:
            with graph() as theirs:
                (us,), _ = in_turn([theirs], 15)
                what = {"group": "torch", "name": name, "pass": which, "graph": True}
                say(what | figures(gflop, 0, statistics.median(us)))
    except Exception as error:
        refused(f"{name}, {which}", error)
    torch.cuda.empty_cache()


beside = set()  # rows of headmix, by library and number, that had their turns with another


def beside_ours(text):
    """Rows of headmix with this text in their names in turn with the rows of headmix that they name."""
    for lib in libraries:
        for r in lib.rows:
            other = ours(r["over"], r["pass"]) if r["over"] else None
            if other is None or ours(r["name"], r["pass"])[1] is not r or (id(lib), r["n"]) in beside:
                continue
            if text not in r["name"] or not may_begin(r["name"]):
                continue
            beside.add((id(lib), r["n"]))
            their_lib, theirs = other

            @contextlib.contextmanager
            def prepared():
                with their_lib.prepared(theirs["n"]) as f:
                    yield f if theirs["graph"] or not theirs["capturable"] else as_graph(f)

            try:
                pair(lib, r, [(theirs["name"], prepared)])
            except Exception as error:
                refused(f"{r['name']}, {r['pass']}", error)
            measured.add((id(their_lib), theirs["n"]))


def alone():
    """Rows of headmix that nothing was compared with."""
    for lib in libraries:
        for r in lib.rows:
            if (id(lib), r["n"]) in measured or not may_begin(r["name"]):
                continue
            what = {key: r[key] for key in ("group", "name", "pass", "device", "graph")}
            try:
                with lib.prepared(r["n"]) as f:
                    (us,), mhz = in_turn([f], 15)
                rate = {"mhz": round(statistics.median(mhz))} if mhz else {}
                say(what | figures(r["gflop"], r["megabytes"], statistics.median(us)) | rate)
            except Exception as error:
                refused(f"{r['name']}, {r['pass']}", error)


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


def flex_over_rows(t, h, groups, rows, backward, backend):
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
            return flex(q[i], k[i], v[i], block_mask=mask, kernel_options={"BACKEND": backend} if backend else None)

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


def deterministic(make):
    """make() with PyTorch's deterministic algorithms."""

    def made():
        f = make()

        def chosen(i):
            torch.use_deterministic_algorithms(True)
            try:
                f(i)
            finally:
                torch.use_deterministic_algorithms(False)

        return chosen

    return made


def grouped_query_layers(backend):
    """The attention of an 8B LLaMA 3."""
    d, h, heads, groups = 4096, 128, 32, 8
    for b, t in ((1, 2048), (1, 8192), (8, 2048), (1, 32768)):
        core = 2e-9 * b * t * t * heads * h
        products = 2e-9 * b * t * d * h * (2 * heads + 2 * groups)
        at = f"32/8 x 128, {f'{b} x ' if b > 1 else ''}{t} tokens"
        mixtures = [f"MoH {active} of {at}{how}" for how in (", dense projections", "") for active in (24, 16)]
        for backward in (False, True):
            gflop = (3 if backward else 1) * products + (3.5 if backward else 1) * core
            block = dense_attention(backend, True, backward, t, h, b, d, heads, groups)
            row(f"grouped-query {at}, cuDNN", backward, [f"grouped-query {at}", *mixtures], gflop, block)


def moa_layers(backends, h, t):
    core, dense = 4e-9 * N * K * t * h, 2e-9 * N * D * 4 * K * h
    moa = 2e-9 * N * D * (E + 2 * h + 2 * K * h)
    for causal in (False, True):
        mask, part = ("causal", 0.5) if causal else ("all keys", 1.0)
        at = mask if t == 2048 else f"{mask}, T={t}"
        mixture = f"MoA 8 of 32 x {h}, {at}"
        for name, backend in backends.items():
            for backward in (False, True):
                gflop = (3.5 if backward else 1) * part * core
                block = dense_attention(backend, causal, backward, t, h)
                of_block = gflop + (3 if backward else 1) * dense
                row(f"dense 8 x {h}, {at}, {name}", backward, [f"dense 8 x {h}, {at}", mixture], of_block, block)
                if backward and name == "cuDNN" and h == 128:
                    row(
                        f"dense 8 x {h}, {at}, cuDNN, deterministic",
                        backward,
                        [f"dense 8 x {h}, {at}"],
                        of_block,
                        deterministic(block),
                    )
                row(
                    f"MoA of {h}, rows sorted and expanded, {at}, {name}",
                    backward,
                    [mixture],
                    gflop + (3 if backward else 1) * moa,
                    expanded_moa(backend, causal, backward, t, h),
                )


def attention_layouts(backend):
    """Attention without its products: grouped queries, all heads with keys of their own, and eight rows on one head."""
    for t in (2048, 8192):
        for backward in (False, True):
            core = (3.5 if backward else 1) * 2e-9 * t * t * 32 * 128
            alone = attention_alone(backend, True, backward, t, 128, 1, 32, 8)
            at = f"32/8 x 128, {t} tokens"
            of = [f"attention of {at}", f"attention, 24 of {at}", f"attention, 16 of {at}"]
            row(f"attention alone, {at}, cuDNN", backward, of, core, alone)
    for t in (2048, 8192):
        for causal in (False, True):
            at = ("causal" if causal else "all keys") + ("" if t == 2048 else f", T={t}")
            for kv_heads, layout in ((8, "8 x 128"), (1, "8 rows of 128")):
                for backward in (False, True):
                    core = (3.5 if backward else 1) * 4e-9 * N * K * t * 128 * (0.5 if causal else 1)
                    alone = attention_alone(backend, causal, backward, t, 128, None, K, kv_heads)
                    of = [f"attention, {layout}, {at}"]
                    row(f"attention alone, {layout}, {at}, cuDNN", backward, of, core, alone)


def decoding_steps(backend):
    """A token of each sequence after many, in the attention of an 8B LLaMA 3; keys and values in one piece."""
    d, h, heads, groups = 4096, 128, 32, 8

    def block(b, t):
        def make():
            x = [numbers(b, 1, d) for _ in range(3)]
            k, v = (numbers(b, groups, t, h) for _ in range(2))
            w_qkv, w_o = numbers((heads + 2 * groups) * h, d, scale=0.05), numbers(d, heads * h, scale=0.05)

            def forward(i):
                parts = F.linear(x[i], w_qkv).split([heads * h, groups * h, groups * h], -1)
                q = parts[0].unflatten(-1, (-1, h)).transpose(1, 2)
                with sdpa_kernel(backend):
                    o = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
                return F.linear(o.transpose(1, 2).reshape(b, 1, heads * h), w_o)

            return forward

        return make

    for b, t in ((1, 4096), (32, 4096), (1, 32768)):
        at = f"32/8 x 128, step of {b} x {t} tokens"
        gflop = 4e-9 * b * (d * h * (heads + groups) + heads * t * h)
        row(f"grouped-query {at}, flash", False, [f"grouped-query {at}", f"MoH 16 of {at}"], gflop, block(b, t))


def feed_forward_mixtures():
    layers = {"MH-MoE 3 of 96 x 512, 65536 tokens": (65536, 768, 3, 96, 3, 512)}
    layers |= {"MH-MoE 3 of 96 x 512": (4096, 768, 3, 96, 3, 512)}
    layers |= {f"MoE 2 of {e} x 1024": (4096, 512, 1, e, 2, 1024) for e in (8, 16, 32, 128)}
    for name, (n, d, split, experts, k, hidden) in layers.items():
        gflop = 2e-9 * n * d * (experts + 3 * k * hidden + (2 * d if split > 1 else 0))
        for backward in (False, True):
            make = expanded_moe(n, d, split, experts, k, hidden, backward)
            row(f"{name}, rows sorted and expanded", backward, [name], (3 if backward else 1) * gflop, make)


def flex_layouts():
    for t in (2048, 8192):
        for backward in (False, True):
            for active in (24, 16):
                at = f"{active} of 32/8 x 128, {t} tokens"
                gflop = (3.5 if backward else 1) * 2e-9 * t * t * active * 128
                for backend in ("", "FLASH"):
                    flex = flex_over_rows(t, 128, 8, t * active // 8, backward, backend)
                    name = f"attention alone, {at}, FlexAttention" + (f", {backend}" if backend else "")
                    row(name, backward, [f"attention, {at}"], gflop, flex)


def main():
    backends = {"cuDNN": None, "flash": None}
    if not only_list:
        print(f"# torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}")
        torch.cuda.set_stream(torch.cuda.Stream())  # the default stream cannot be captured
        backends = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
    cudnn = backends["cuDNN"]
    # What decides most comes first, so that a time limit drops the rest. FlexAttention compiles for long.
    beside_ours("32/8 x 128")
    grouped_query_layers(cudnn)
    moa_layers({"cuDNN": cudnn}, 128, 2048)
    attention_layouts(cudnn)
    beside_ours("")
    feed_forward_mixtures()
    decoding_steps(backends["flash"])
    moa_layers({"cuDNN": cudnn}, 128, 8192)
    alone()
    moa_layers({"cuDNN": cudnn}, 64, 2048)
    moa_layers({"cuDNN": cudnn}, 64, 8192)
    flex_layouts()
    moa_layers({"flash": backends["flash"]}, 128, 2048)


if __name__ == "__main__":
    main()
