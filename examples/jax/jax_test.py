# SPDX-License-Identifier: MIT
"""jax_test.py CXX HEADMIX EIGEN FOLDER [--time TOKENS...]: layers as functions of JAX. Builds the library of the page
of hosts by its own lines, and compares its layer with one written in JAX; then other types, inputs and errors, a layer
over the emulator of CUDA, and, with nvcc, the library for a GPU; or, with --time, the times of both layers."""
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

compiler, headmix, eigen, folder = sys.argv[1:5]
timed = "--time" in sys.argv
page = pathlib.Path(headmix, "include/headmix/interop/README.md").read_text()
section = page.split("\n## JAX\n")[1].split("\n## ")[0]


def block(language, number=1):
    return section.split(f"```{language}\n")[number].split("```")[0]


build = block("sh")
for line, here in {"python3": sys.executable, "g++ ": f"{compiler} -Wall -Wextra -Werror "}.items():
    assert line in build, line
    build = build.replace(line, here)
if not timed:
    build = build.replace("-O3 -march=native", "-O1 -march=native")  # compiles sooner
environment = {**os.environ, "HEADMIX": headmix, "EIGEN": eigen}
os.chdir(folder)
pathlib.Path("mine.cpp").write_text(block("cpp"))
subprocess.run(["sh", "-ec", build], env=environment, check=True)

sys.path.insert(0, str(pathlib.Path(headmix, re.search(r"PYTHONPATH=\$HEADMIX/(\S+)", build)[1])))

import jax
import jax.numpy as jnp
from jax.test_util import check_grads

jax.config.update("jax_enable_x64", True)  # for the second library
jax.config.update("jax_default_device", jax.devices("cpu")[0])
gpu = [device for device in jax.devices() if device.platform == "gpu"]
x = jax.random.normal(jax.random.key(0), (2, 9, 64), jnp.float32)
exec(block("python"))


def written_in_jax(p, x, top_k=2):
    """MoA, equations (6) to (16), with the causal mask; W_q and W_o are multiplied by all experts."""
    t, d = x.shape[-2:]
    z = x @ p["W_g"]
    probabilities = jax.nn.softmax(z)
    index = jax.lax.top_k(probabilities, top_k)[1]
    chosen = jnp.take_along_axis(probabilities, index, -1)
    gate = chosen / jax.lax.stop_gradient(chosen.sum(-1, keepdims=True))
    k, v = x @ p["W_k"], x @ p["W_v"]
    q = jnp.take_along_axis(jnp.einsum("btd,edh->bteh", x, p["W_q"]), index[..., None], 2)
    scores = jnp.einsum("btkh,bsh->btks", q, k) / jnp.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool))[:, None, :], scores, -jnp.inf)
    o = jnp.einsum("btks,bsh->btkh", jax.nn.softmax(scores), v)
    experts = z.shape[-1]
    chooses = jax.nn.one_hot(index, experts, dtype=x.dtype)
    y = jnp.einsum("btkh,btke,ehd->btd", gate[..., None] * o, chooses, p["W_o"])
    counts = chooses.sum((0, 1, 2))
    mass = probabilities.sum((0, 1))
    balance = experts * (mass / mass.sum() * counts / counts.sum()).sum()
    return y, {"load_balance": balance, "z": (jax.nn.logsumexp(z, -1) ** 2).mean()}


def objective_in_jax(parameters, x):
    y, losses = written_in_jax(parameters, x)
    return (y**2).mean() + 0.01 * losses["load_balance"] + 0.001 * losses["z"]


def difference(a, b):
    """The largest difference, relative to the largest number of each array."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b))
    return max(float(jnp.abs(p - q).max() / jnp.maximum(jnp.abs(q).max(), 1e-30)) for p, q in pairs)


# W_g is 0 at the start, where all experts are tied.
parameters["W_g"] = jax.random.normal(jax.random.key(1), parameters["W_g"].shape, jnp.float32)
of_both = [jax.jit(jax.value_and_grad(f, (0, 1))) for f in (objective, objective_in_jax)]
found, of_jax = 0.0, 0.0
for shape in ((2, 9, 64), (3, 4, 64), (1, 17, 64)):
    x = jax.random.normal(jax.random.key(2), shape, jnp.float32)
    mine, other = (f(parameters, x) for f in of_both)
    exact = of_both[1](*jax.tree.map(lambda a: a.astype(jnp.float64), (parameters, x)))
    found, of_jax = max(found, difference(mine, exact)), max(of_jax, difference(other, exact))
print(f"results and gradients beside a layer written in JAX, in double, relative to the largest number: "
      f"headmix {found:.1e}, JAX in float {of_jax:.1e}")
assert found < 2e-6, found

if timed:
    sizes = [int(n) for n in sys.argv[sys.argv.index("--time") + 1:]] or [512]
    for tokens in sizes:
        x = jax.random.normal(jax.random.key(2), (4, tokens, 64), jnp.float32)
        seconds = [[], []]
        for run in range(12):
            for f, all_runs in zip(of_both, seconds):
                start = time.perf_counter()
                jax.block_until_ready(f(parameters, x))
                if run >= 2:
                    all_runs.append(time.perf_counter() - start)
        ms = [1000 * statistics.median(s) for s in seconds]
        print(f"forward and backward, 4 x {tokens} tokens: headmix {ms[0]:.2f} ms, JAX {ms[1]:.2f} ms, "
              f"ratio {ms[1] / ms[0]:.2f}")
    sys.exit()

pathlib.Path("more.cpp").write_text("""
#include <headmix/headmix.hpp>
#include <headmix/interop/jax.hpp>
using namespace headmix;
using Heads = Moh<64, 16, TwoStage<1, 3, 1>, causal, rope<>, output_dropout<1, 10>>;
HEADMIX_JAX_LAYER(moh, jax_layer<Heads, type_list<float, double, bfloat16>>)
using Cross = Moa<64, 16, SoftmaxTopK<4, 2, gating::raw>, context_dim<32>, query_bias>;  // nothing detached
HEADMIX_JAX_LAYER(cross, jax_layer<Cross, type_list<double>>)
""")
subprocess.run(["sh", "-ec", build.replace("mine.cpp", "more.cpp").replace("libmine.so", "libmore.so")],
               env=environment, check=True)
moh, cross = (headmix_jax.Layer("./libmore.so", name) for name in ("moh", "cross"))


def equal(a, b):
    assert jax.tree.all(jax.tree.map(lambda p, q: bool((p == q).all()), a, b))


# By finite differences, in double.
p64 = moh.init(3, jnp.float64)
x64 = jax.random.normal(jax.random.key(0), (1, 3, 64), jnp.float64)
check_grads(lambda p, x: moh(p, x), (p64, x64), order=1, modes=["rev"])
pc = cross.init(3, jnp.float64)
pc["W_g"] = jax.random.normal(jax.random.key(1), pc["W_g"].shape, jnp.float64)
context = jax.random.normal(jax.random.key(4), (1, 5, 32), jnp.float64)
check_grads(lambda p, x, c: cross(p, x, context=c), (pc, x64, context), order=1, modes=["rev"])

# The same bits: under jit, by offsets, by vmap, and from a residual that is used twice.
p32 = moh.init(3)
x = jax.random.normal(jax.random.key(0), (3, 9, 64), jnp.float32)
y, losses = moh(p32, x)
equal((y, losses), jax.jit(moh)(p32, x))
rows = x.reshape(-1, 64)
by_offsets = jax.jit(lambda p, x, offsets: moh(p, x, offsets=offsets)[0])
equal(by_offsets(p32, rows, jnp.array([0, 9, 18, 27], jnp.int32)).reshape(x.shape), y)
ragged = by_offsets(p32, rows, jnp.array([0, 4, 4, 27], jnp.int32))
equal(ragged, jnp.concatenate([moh(p32, rows[:4])[0], moh(p32, rows[4:])[0]]))
equal(jax.vmap(lambda x: moh(p32, x)[0])(jnp.stack([x, 2 * x]))[0], y)
_, pull_back = jax.vjp(lambda x: moh(p32, x)[0], x)
first, second, third = pull_back(y), pull_back(2 * y), pull_back(y)
equal(first, third)
equal(jax.jit(lambda x, y: jax.vmap(jax.vjp(lambda x: moh(p32, x)[0], x)[1])(jnp.stack([y, 2 * y])))(x, y)[0],
      jnp.stack([first[0], second[0]]))

# Dropout by a key; bfloat16.
key = jax.random.key(5)
equal(moh(p32, x, key=key), jax.jit(lambda p, x, key: moh(p, x, key=key))(p32, x, key))
assert (moh(p32, x, key=key)[0] == 0).mean() > 0.05 and (y == 0).mean() == 0
y16, losses16 = moh(moh.init(3, jnp.bfloat16), x.astype(jnp.bfloat16))
assert y16.dtype == jnp.bfloat16 and losses16["head_balance"].dtype == jnp.float32
assert jnp.abs(y16.astype(jnp.float32) - y).max() < 0.02 * jnp.abs(y).max()


def fails(text, f):
    try:
        jax.block_until_ready(f())
    except Exception as error:
        assert text in str(error), f"expected '{text}', found '{error}'"
        return
    raise AssertionError(f"no error: expected '{text}'")


fails("x has 60 columns, expected 64", lambda: moh(p32, x[..., :60]))
fails("W_q has 60 columns, expected 64", lambda: moh({**p32, "W_q": p32["W_q"][:, :60]}, x))
fails("expected the parameters W_h, W_r, W_q, W_k, W_v, W_o, found W_h",
      lambda: moh({n: p for n, p in p32.items() if n != "W_q"}, x))
fails("W_h: expected float64 as x, found float32", lambda: moh(p32, x64))
fails("expected numbers of type float32, float64, bfloat16, found float16", lambda: moh.init(0, jnp.float16))
fails("that the layer was compiled for, found F32", lambda: cross({n: p.astype(jnp.float32) for n, p in pc.items()}, x, context=x))
fails("context: expected an array, found none", lambda: cross(pc, x64))
fails("context: expected none, found an array", lambda: moh(p32, x, context=x))
fails("offset 2 is 27 after 30", lambda: moh(p32, rows, offsets=jnp.array([0, 30, 27], jnp.int32)))
fails("expected 2 dimensions beside offsets, found 3", lambda: moh(p32, x, offsets=jnp.array([0, 27], jnp.int32)))
fails("cannot be differentiated", lambda: jax.hessian(lambda x: moh(p32, x)[0].sum())(x))

# The CUDA backend, emulated on JAX's arrays of the CPU.
pathlib.Path("emulated.cpp").write_text("""
#include <headmix/backend/cuda.hpp>
#include <headmix/headmix.hpp>
#include <headmix/interop/jax.hpp>
#include <headmix/testing/emulated.hpp>
using namespace headmix;
struct emulation {
  static constexpr char const* platform = "cpu";
  using call = xla::ffi::ThreadPool;
  template <class Scalar>
  struct place {
    Cuda<Scalar, Emulated> backend;
    place() = default;
    explicit place(call&) {}
  };
};
using Heads = Moh<64, 16, TwoStage<1, 3, 1>, causal, alibi, output_dropout<1, 10>>;
HEADMIX_JAX_LAYER(emulated, jax_layer<Heads, type_list<float>, emulation>)
HEADMIX_JAX_LAYER(expected, jax_layer<Heads>)
""")
subprocess.run(["sh", "-ec", build.replace("mine.cpp", "emulated.cpp").replace("libmine.so", "libemulated.so")],
               env=environment, check=True)
emulated, expected = (headmix_jax.Layer("./libemulated.so", name) for name in ("emulated", "expected"))
start = emulated.init(3)
equal(start, expected.init(3))
x = jax.random.normal(jax.random.key(0), (2, 7, 64), jnp.float32)


def objective_of(layer):
    def value(p, x):
        y, losses = layer(p, x, key=key)
        return (y**2).sum() + 0.3 * losses["head_balance"]

    return jax.jit(jax.value_and_grad(value, (0, 1)))(start, x)


assert difference(objective_of(emulated), objective_of(expected)) < 2e-6
print("all checks passed")

if shutil.which("nvcc"):
    pathlib.Path("mine.cu").write_text(block("cpp", 2))
    lines = block("sh", 2).replace("python3", sys.executable).replace("libmine.so", "libmine_cuda.so")
    subprocess.run(["sh", "-ec", lines], env=environment, check=True)
    on_gpu = headmix_jax.Layer("./libmine_cuda.so", "moa")
    assert on_gpu.platform == "CUDA" and on_gpu.parameters == moa.parameters
    if gpu:
        moa, inputs = on_gpu, (parameters, jax.random.normal(jax.random.key(2), (2, 9, 64), jnp.float32))
        exact = of_both[1](*jax.tree.map(lambda a: a.astype(jnp.float64), inputs))
        on_device = jax.jit(jax.value_and_grad(objective, (0, 1)))
        found = [on_device(*jax.device_put(inputs, gpu[0])) for _ in range(2)]
        assert difference(jax.device_put(found[0], jax.devices("cpu")[0]), exact) < 5e-6
        equal(*found)
        print("the layer on the GPU: all checks passed")
    else:
        print("the library for a GPU was compiled and loaded; JAX has no GPU to run it")
