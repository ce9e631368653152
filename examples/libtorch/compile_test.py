# SPDX-License-Identifier: MIT
"""compile_test.py CXX HEADMIX EIGEN FOLDER [FLAGS...]: the operator of the page of hosts, in Python: the same results by
torch.compile, for other shapes too, gradients by differences, checkpoints and an optimiser. Needs PyTorch 2."""
import os
import pathlib
import re
import subprocess
import sys

import torch
from torch.utils.checkpoint import checkpoint

compiler, headmix, eigen, folder, *flags = sys.argv[1:]
page = pathlib.Path(headmix, "interop", "README.md").read_text()
blocks = [block.split("```")[0] for block in page.split("```cpp\n")[1:] if "TORCH_LIBRARY" in block.split("```")[0]]
source, library = pathlib.Path(folder, "mine.cpp"), pathlib.Path(folder, "libmine.so")
source.write_text(blocks[0])
build = next(block.split("```")[0] for block in page.split("```sh\n")[1:] if "cpp_extension" in block)
for line, here in {
    "python3": sys.executable,
    "g++ ": f"{compiler} -Wall -Wextra -Werror ",
    "-O3 -march=native -fopenmp": " ".join(["-O1", *flags]),  # compiles sooner
}.items():
    assert line in build, line
    build = build.replace(line, here)
root = str(pathlib.Path(headmix).parent.parent)
subprocess.run(["sh", "-ec", build], cwd=folder, env={**os.environ, "HEADMIX": root, "EIGEN": eigen}, check=True)
# Beside the library, where Python looks for modules, too.
load = re.search(r"`(torch\.ops\.load_library\(.*?\))`", page)[1]
subprocess.run([sys.executable, "-c", f"import torch; {load}"], cwd=folder, check=True)
torch.ops.load_library(library)
exec(next(block.split("```")[0] for block in page.split("```python\n")[1:] if "nn.Module" in block))

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
print(f"PyTorch {torch.__version__}: all as expected")
