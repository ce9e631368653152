# SPDX-License-Identifier: MIT
"""compile_test.py CXX HEADMIX EIGEN FOLDER [FLAGS...]: the operator of the page of hosts, in Python: the same results by
torch.compile, for other shapes too, gradients by differences, checkpoints and an optimiser; bfloat16 and autocast.
Needs PyTorch 2."""
import pathlib
import re
import subprocess
import sys

import torch
from page import block, build, page_of
from torch.utils.checkpoint import checkpoint

compiler, headmix, eigen, folder, *flags = sys.argv[1:]
page = page_of(headmix)
program, lines = block(page, "cpp", "TORCH_LIBRARY(mine"), block(page, "sh", "cpp_extension", "g++ ")
source, library = pathlib.Path(folder, "mine.cpp"), pathlib.Path(folder, "libmine.so")
source.write_text(program)
root = str(pathlib.Path(headmix).parent.parent)
changes = {
    "python3": sys.executable,
    "g++ ": f"{compiler} -Wall -Wextra -Werror ",
    "-O3 -march=native -fopenmp": " ".join(["-O1", *flags]),  # compiles sooner
}
build(lines, folder, changes, HEADMIX=root, EIGEN=eigen)
# Beside the library, where Python looks for modules, too.
load = re.search(r"`(torch\.ops\.load_library\(.*?\))`", page)[1]
subprocess.run([sys.executable, "-c", f"import torch; {load}"], cwd=folder, check=True)
torch.ops.load_library(library)
exec(block(page, "python", "nn.Module"))

torch.manual_seed(0)
model = Moh(seed=3).eval()
x = torch.randn(3, 9, 64, requires_grad=True)
inputs = [x, *model.parameters()]


def objective(layer, x):
    y, balance = layer(x)
    return y.square().mean() + 0.1 * balance


def gradients(layer):
    return torch.autograd.grad(objective(layer, x), inputs)


for backend in ("eager", "aot_eager"):
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    assert all(map(torch.equal, gradients(model), gradients(compiled))), backend
    for shape in ((5, 7, 64), (6, 11, 64)):
        other = torch.randn(shape)
        assert torch.equal(model(other)[0], compiled(other)[0]), (backend, shape)
operator = torch.ops.mine.moh
weights = [p.detach() for p in model.parameters()]
torch.library.opcheck(
    torch.ops.mine.moh_forward.default,
    (x.detach(), weights, None, None, None, None, []),
    test_utils=("test_schema", "test_faketensor"),
)
doubles = [p.detach() for p in torch.ops.mine.moh_parameters(3, torch.float64)]
short = torch.randn(1, 3, 64, dtype=torch.float64, requires_grad=True)
matrix = doubles[3].clone().requires_grad_()
assert torch.autograd.gradcheck(
    lambda x, w: tuple(operator(x, [*doubles[:3], w, *doubles[4:]], training=False)), (short, matrix), fast_mode=True
)

model.train()  # dropout is drawn again by a checkpoint, with the same numbers


def drawn(run):
    torch.manual_seed(1)
    return torch.autograd.grad(run(lambda x: model(x)[0], x).sum(), x)[0]


assert torch.equal(drawn(lambda f, x: f(x)), drawn(lambda f, x: checkpoint(f, x, use_reentrant=False)))

model.eval()
optimiser = torch.optim.AdamW(model.parameters(), 1e-3)
seen = []
for step in range(4):
    optimiser.zero_grad()
    loss = objective(model, x.detach())
    loss.backward()
    optimiser.step()
    seen.append(loss.item())
assert seen == sorted(seen, reverse=True), seen
try:
    operator(x, weights[:2])
    raise AssertionError("expected an error")
except RuntimeError as error:
    assert "parameters: expected 6 (W_h, W_r, W_q, W_k, W_v, W_o), found 2" in str(error), error
with torch.autocast("cpu", torch.bfloat16):  # this library has no bfloat16: float
    mixed, balance = model(x.bfloat16())
assert mixed.dtype == torch.float32 and torch.equal(mixed, model(x.bfloat16().float())[0])

# A second library, with bfloat16.
source.with_name("mine16.cpp").write_text(
    program.replace("torch_layer<Heads>", "torch_layer<Heads, void, headmix::type_list<>, Scalars>")
    .replace("using MohOp", "using Scalars = headmix::type_list<float, headmix::bfloat16>;\nusing MohOp")
    .replace("TORCH_LIBRARY(mine,", "TORCH_LIBRARY(mine16,")
    .replace("mine::moh", "mine16::moh")
)
build(lines, folder, {**changes, "mine.cpp": "mine16.cpp", "libmine.so": "libmine16.so"}, HEADMIX=root, EIGEN=eigen)
torch.ops.load_library(library.with_name("libmine16.so"))


class Moh16(Moh):
    def forward(self, x):
        return torch.ops.mine16.moh(x, list(self.weights), training=self.training)


model16 = Moh16(seed=3).eval()
inputs = [x, *model16.parameters()]
y, balance = model16(x)
exact = gradients(model16)
half = [t.detach().bfloat16().requires_grad_() for t in inputs]
y16, balance16 = torch.ops.mine16.moh(half[0], half[1:], training=False)
assert (y16.dtype, balance16.dtype) == (torch.bfloat16, torch.float32)
assert (y16 - y).abs().max() < 0.02 * y.abs().max() and (balance16 - balance).abs() < 0.01
(y16.float().square().mean() + 0.1 * balance16).backward()
for tensor, gradient in zip(half, exact):
    assert tensor.grad.dtype == torch.bfloat16
    assert (tensor.grad - gradient).abs().max() < 0.05 * gradient.abs().max()


def autocast(layer):
    def call(x):
        with torch.autocast("cpu", torch.bfloat16):
            return layer(x)

    return call


mixed, balance = autocast(model16)(x)
assert torch.equal(mixed, y16) and balance.dtype == torch.float32
assert all(g.dtype == torch.float32 for g in gradients(autocast(model16)))
compiled = torch.compile(autocast(model16), backend="aot_eager", fullgraph=True)
assert all(map(torch.equal, gradients(autocast(model16)), gradients(compiled)))
exported = torch.export.export(model16, (x.detach(),)).module()
assert torch.equal(exported(x)[0], y)
try:
    torch.func.vmap(lambda x: model16(x)[0])(torch.randn(2, 3, 9, 64))
    raise AssertionError("expected an error")
except RuntimeError as error:
    assert "atching rule not implemented for mine16::moh" in str(error), error
print(f"PyTorch {torch.__version__}: all as expected")
