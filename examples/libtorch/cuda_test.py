# SPDX-License-Identifier: MIT
"""cuda_test.py CXX HEADMIX EIGEN FOLDER [FLAGS...] [--time]: the operator of the page of hosts for tensors on a GPU,
built by the page's lines and loaded beside the one for the CPU. Where there is a GPU: the numbers of the CPU, the same
bits twice, a captured step, autocast; with --time, times beside the module of C++ and PyTorch's own layer. Needs nvcc
and PyTorch for CUDA."""
import ctypes
import pathlib
import re
import statistics
import sys

import torch
from page import block, build, page_of

compiler, headmix, eigen, folder, *flags = sys.argv[1:]
timed = "--time" in flags and not flags.remove("--time")
if torch.version.cuda is None:
    print("skipped: this PyTorch is not for CUDA")
    sys.exit(77)
page = page_of(headmix)
where = {"HEADMIX": str(pathlib.Path(headmix).parent.parent), "EIGEN": eigen}
folder = pathlib.Path(folder)
(folder / "mine.cpp").write_text(block(page, "cpp", "TORCH_LIBRARY(mine"))
(folder / "mine.cu").write_text(block(page, "cpp", "torch.cuh"))
build(block(page, "sh", "cpp_extension", "g++ "), folder,
      {"python3": sys.executable, "g++ ": f"{compiler} ", "-O3 -march=native -fopenmp": " ".join(["-O1", *flags])}, **where)
build(block(page, "sh", "cpp_extension", "nvcc "), folder, {"python3": sys.executable}, **where)
if timed:
    layer = re.search(r"using Heads =.*?;", block(page, "cpp", "torch.cuh"), re.S)[0]
    (folder / "module.cu").write_text("#include <headmix/headmix.cuh>\n" + layer + """
using Backend = headmix::Cuda<headmix::bfloat16, headmix::Sm90a>;
using Module = headmix::Module<Heads, Backend>;
using numbers = headmix::view<headmix::bfloat16 const>;
extern "C" Module* make(cudaStream_t stream) {
  auto* const m = new Module(3, Backend(Backend::queue_type(stream)));
  m->set_randomness(headmix::randomness::off());
  return m;
}
extern "C" void step(Module* m, headmix::bfloat16 const* x, headmix::bfloat16 const* dy, long sequences, long tokens) {
  m->forward(numbers(x, sequences * tokens, 64), headmix::uniform(sequences, tokens));
  m->backward(numbers(dy, sequences * tokens, 64), {0.1});
}
""")
    build(block(page, "sh", "cpp_extension", "nvcc "), folder,
          {"python3": sys.executable, "mine.cu": "module.cu", "libmine_cuda.so": "libmodule.so"}, **where)
for library in ("libmine.so", "libmine_cuda.so"):
    torch.ops.load_library(folder / library)
exec(block(page, "python", "nn.Module"))
for part, key in (("", "AutocastCUDA"), ("_forward", "CUDA"), ("_backward", "CUDA"), ("_forward", "CPU")):
    assert torch._C._dispatch_has_kernel_for_dispatch_key(f"mine::moh{part}", key), (part, key)

torch.manual_seed(0)
model = Moh(seed=3).eval()
x = torch.randn(3, 9, 64)


def objective(layer, x):
    y, balance = layer(x)
    return y.float().square().mean() + 0.1 * balance


def gradients(layer, x):
    return torch.autograd.grad(objective(layer, x), list(layer.parameters()))


with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
    shapes = torch.ops.mine.moh_forward(
        torch.empty(3, 9, 64, device="cuda"), [torch.empty(p.shape, device="cuda") for p in model.weights],
        None, None, None, None, [])
    assert [(t.shape, t.device.type) for t in shapes[:2]] == [((3, 9, 64), "cuda"), ((), "cuda")]
if not torch.cuda.is_available():
    print(f"PyTorch {torch.__version__}: the operator for a GPU was compiled and loaded; there is no GPU to run it")
    sys.exit()

expected = [objective(model, x), *gradients(model, x)]
model, x = model.cuda(), x.cuda()
found = [objective(model, x), *gradients(model, x)]
for f, e in zip(found, expected):
    assert (f.cpu() - e).abs().max() < 2e-5 * (1 + e.abs().max()), (f.cpu() - e).abs().max()
assert all(map(torch.equal, found, [objective(model, x), *gradients(model, x)])), "the same bits"
rows, offsets = x.reshape(27, 64), torch.tensor([0, 4, 4, 27], dtype=torch.int32)
by_offsets = [torch.ops.mine.moh(rows, list(model.weights), offsets=o, training=False)[0]
              for o in (offsets, offsets.cuda())]
assert torch.equal(*by_offsets)
with torch.autocast("cuda", torch.bfloat16):
    y, balance = model(x)
assert (y.dtype, balance.dtype) == (torch.bfloat16, torch.float32)
try:
    torch.ops.mine.moh(x, [p.cpu() for p in model.weights])
    raise AssertionError("expected an error")
except RuntimeError as error:
    assert "on cuda:0, found Float on cpu" in str(error), error

# A whole step in a graph, with dropout: other numbers at every replay, those of the seed.
model.train()
optimiser = torch.optim.SGD(model.parameters(), 1e-2)


def step():
    optimiser.zero_grad(set_to_none=False)
    loss = objective(model, x)
    loss.backward()
    optimiser.step()
    return loss


side = torch.cuda.Stream()


def captured(run):
    """A graph of run() on the stream `side`, after three runs, and its result."""
    graph = torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph, stream=side):
        result = run()
    return graph, result


graph, loss = captured(step)


def replays(n):
    start = [p.detach().clone() for p in model.weights]
    torch.manual_seed(5)
    losses = []
    for _ in range(n):
        graph.replay()
        losses.append(loss.item())
    ended = [p.detach().clone() for p in model.weights]
    with torch.no_grad():
        for p, s in zip(model.weights, start):
            p.copy_(s)
    return losses, ended


(first, weights), (second, again) = replays(5), replays(5)
assert first == second and all(map(torch.equal, weights, again)), (first, second)
assert len(set(first)) == 5
for backend in ("aot_eager", "inductor"):
    compiled = torch.compile(model.eval(), backend=backend, fullgraph=True)
    assert all(map(torch.equal, gradients(model, x), gradients(compiled, x))), backend
print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}: all as expected")

if timed:  # the module in C++, and attention of PyTorch with as many heads; forward and backward, captured, in turn
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.o = torch.nn.Linear(64, 3 * 64, bias=False), torch.nn.Linear(64, 64, bias=False)

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (4, 16)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.o(o.transpose(1, 2).flatten(2)), self.o.weight.new_zeros((), requires_grad=True)

    cpp = ctypes.CDLL(str(folder / "libmodule.so"))
    cpp.make.restype, cpp.make.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    cpp.step.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 2
    module = cpp.make(side.cuda_stream)

    for tokens in (512, 2048):
        x, dy = (torch.randn(8, tokens, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        operator, dense = (layer.cuda().bfloat16() for layer in (Moh(3).eval(), Attention()))

        def of_torch(layer):
            y, loss = layer(x)
            torch.autograd.backward([y, 0.1 * loss], [dy, None])

        runs = (lambda: of_torch(operator), lambda: cpp.step(module, x.data_ptr(), dy.data_ptr(), 8, tokens),
                lambda: of_torch(dense))
        graphs = [captured(run)[0] for run in runs]
        times = [[] for _ in graphs]
        for _ in range(15):
            for graph, all_runs in zip(graphs, times):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                graph.replay()
                end.record()
                end.synchronize()
                all_runs.append(start.elapsed_time(end))
        mine, module_ms, other = (statistics.median(s) for s in times)
        print(f"8 x {tokens} tokens, forward and backward: MoH {mine:.3f} ms, its module in C++ {module_ms:.3f} ms, "
              f"dense attention of PyTorch {other:.3f} ms")
