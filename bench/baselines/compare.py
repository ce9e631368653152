# SPDX-License-Identifier: MIT
"""Times PyTorch beside headmix on the CPU and prints a table in Markdown. Rounds alternate: ours, theirs, ours, theirs.
Run it with the Python that has PyTorch (requirements.txt); headmix-bench and headmix-lm as the presets build them:

  VENV/bin/python bench/baselines/compare.py --headmix build/bench/bench/headmix-bench
      --lm build/demo/examples/language_model/headmix-lm --text tinyshakespeare.txt

Layers: the mean of some passes a round, forward without gradients, or forward with all gradients; one thread by CPU
time, two by the wall clock. Each layer is timed over float and over bfloat16; headmix's share is of the peak of what
its products are made of, measured beside each row. PyTorch may use its scaled_dot_product_attention or a matrix of
scores: each case has the faster one. Its layers and their gradients are compared with plain loops, in double, before
anything is timed. figure.py draws the table. Training: tokens per second of both on the same text; headmix-lm is a new
process in every round, whose first step is not timed, PyTorch's model stays. PyTorch also trains compiled
(torch.compile), for which it needs a C++ compiler and the headers of Python.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

here = os.path.dirname(os.path.abspath(__file__))
cpus = len(os.sched_getaffinity(0))
ticks = os.sysconf("SC_CLK_TCK")
temporary = tempfile.TemporaryDirectory()

# goals: least time of PyTorch / time of headmix, by the number of threads
Case = namedtuple("Case", "title scalar layer row sizes backward goals")


# Goals over bfloat16 on a CPU with tiles (AMX), one thread: forward, forward and backward.
tile_goals = {"moa": (2.0, 1.7), "multi_head": (1.4, 1.4), "moh": (2.5, 2.0), "experts": (1.3, 1.3)}


def cases(has_tiles):
    """Those of a layer and size follow each other."""
    for case in float_cases():
        yield case
        if "probabilities stored" not in case.title:  # headmix stores none of bfloat16
            has_goal = has_tiles and not case.title.startswith("S1") and case.sizes.get("H") != 64
            goals = {1: tile_goals[case.layer][case.backward]} if has_goal else {}
            yield case._replace(scalar="bfloat16", row=case.row.replace("/float", "/bfloat16"), goals=goals)


def float_cases():
    def both(title, layer, rows, sizes, forward={}, backward={}):
        for passes, row, goals in (("forward", rows[0], forward), ("forward and backward", rows[1], backward)):
            yield Case(f"{title}, {passes}", "float", layer, row, sizes, passes != "forward", goals)

    goals = {  # of MoA at S2
        64: ({1: 2.3, 2: 2.9}, {1: 1.95, 2: 2.7}),
        128: ({1: 1.65, 2: 2.0}, {1: 1.4, 2: 1.85}),
    }
    moa = ("moa_forward/cpu/float", "moa_backward/cpu/float")
    shapes = {"S1": (8, 128, 512), "S2": (1, 1024, 512), "S3": (1, 2048, 1024)}
    for shape, (b, t, d) in shapes.items():
        for h in (128, 64):
            sizes = {"B": b, "T": t, "D": d, "E": 32, "K": 8, "H": h}
            title = f"{shape} MoA 8 of 32 x {h}"
            yield from both(title, "moa", moa, sizes, *(goals[h] if shape == "S2" else ()))
            stored = "moa_stored_backward/cpu/float"
            title += ", probabilities stored, forward and backward"
            yield Case(title, "float", "moa", stored, sizes, True, {})
    moh = tuple(f"moh/{direction}/two_stage/full/cpu/float" for direction in ("forward", "backward"))
    for shape, n, to_reach in (("S2", 8, ({2: 2.5}, {2: 2.1})), ("S3", 8, ({2: 2.0}, {2: 1.65})), ("S3", 16, ())):
        sizes = {"T": shapes[shape][1], "D": shapes[shape][2], "N": n, "active": 50}
        yield from both(f"{shape} MoH {n // 2} of {n} heads", "moh", moh, sizes, *to_reach)
    dense = ("multi_head_forward/cpu/float", "multi_head_backward/cpu/float")
    for shape, n in (("S1", 8), ("S2", 8), ("S3", 16)):
        b, t, d = shapes[shape]
        yield from both(f"{shape} dense, {n} heads", "multi_head", dense, {"B": b, "T": t, "D": d, "N": n})
    experts = ("smoe_experts_forward/swiglu/cpu/float", "smoe_experts_backward/swiglu/cpu/float")
    sizes = {"T": 1024, "D": 512, "F": 2048, "E": 8, "K": 2}
    yield from both("S2 experts 2 of 8 x 2048", "experts", experts, sizes, {1: 1.15, 2: 1.2}, {1: 1.15, 2: 1.2})


# title, sizes, steps of a round, goal for the share of the peak
Training = namedtuple("Training", "title sizes steps goal")
trainings = (
    Training("4 x 128, context 64", {"layers": 4, "heads": 4, "width": 128, "context": 64, "batch": 12}, 30, 0.33),
    Training("6 x 384, context 256", {"layers": 6, "heads": 6, "width": 384, "context": 256, "batch": 12}, 5, 0.55),
)


class Process:
    def __init__(self, command, environment):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=os.environ | environment)

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"compare.py: {self.process.args[0]} ended ({self.process.wait()})")
        return line.rstrip("\n")

    def send(self, text):
        print(text, file=self.process.stdin, flush=True)

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / ticks


class Headmix(Process):
    def __init__(self, program, budget):
        # The kernels of this CPU: for an unknown CPU, OpenBLAS would use those of another.
        blas = {"OPENBLAS_CORETYPE": "SKYLAKEX"} if best_capability() == "AVX512" else {}
        options = ["--on_request", "--benchmark_repetitions=1", f"--benchmark_min_time={budget}"]
        super().__init__([program, *options], blas)
        self.about = self.answer()

    def answer(self):
        lines = []
        while line := self.line():
            lines.append(line)
        return lines

    def peak(self, threads):
        """Multiply-adds on so many threads, GFLOP/s."""
        name = f"fma_peak_gflops_{threads}_threads"
        return float(next(line.split()[-1] for line in self.about if line.startswith(name)))

    def time(self, row):
        self.send(row)
        lines = self.answer()
        if not lines:
            sys.exit(f"compare.py: {self.process.args[0]} has no row {row}")
        numbers = lines[0].split()
        return {"seconds": float(numbers[0]), "flop/s": float(numbers[2]), "peak": float(numbers[4])}


class Torch(Process):
    """A worker in the best configuration that is known: memory is kept, not given back after every operation, threads
    are tied to CPUs, MKL uses AVX-512 on CPUs of other makers too, and oneDNN whatever the CPU has."""

    def __init__(self, threads, peak):
        environment = {
            "ONEDNN_MAX_CPU_ISA": "DEFAULT",
            "DNNL_MAX_CPU_ISA": "DEFAULT",
            "ATEN_CPU_CAPABILITY": best_capability().lower(),
            "OMP_NUM_THREADS": str(threads),
            "OMP_PROC_BIND": "true",
            "MALLOC_MMAP_MAX_": "0",
            "MALLOC_TRIM_THRESHOLD_": "1000000000000",
            "MALLOC_TOP_PAD_": "268435456",
        }
        if library := for_any_maker():
            environment["LD_PRELOAD"] = " ".join(filter(None, (library, os.environ.get("LD_PRELOAD"))))
        super().__init__([sys.executable, os.path.join(here, "worker.py"), str(threads)], environment)
        self.threads, self.about = threads, json.loads(self.line())
        if self.about["capability"] != best_capability():
            sys.exit(f"compare.py: no ratio: PyTorch uses {self.about['capability']}, the CPU has {best_capability()}")
        if self.about["threads"] != threads:
            sys.exit(f"compare.py: no ratio: PyTorch has {self.about['threads']} threads and not {threads}")
        if not self.about["onednn"]:
            sys.exit("compare.py: no ratio: PyTorch is without oneDNN")
        if (product := self.about["product"]["float"]) < peak / 2:
            sys.exit(f"compare.py: no ratio: PyTorch's large product has {product:.0f} GFLOP/s, the peak is {peak:.0f}")

    def ask(self, request):
        self.send(json.dumps(request))
        answer = json.loads(self.line())
        if answer.get("busy", 0) > self.threads + 0.1:
            sys.exit(f"compare.py: no ratio: PyTorch kept {answer['busy']:.1f} CPUs busy with {self.threads} threads")
        return answer


def best_capability():
    """As PyTorch names it."""
    with open("/proc/cpuinfo") as f:
        flags = re.search(r"^flags\s*:(.*)", f.read(), re.M).group(1).split()
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= set(flags):
        return "AVX512"
    return "AVX2" if {"avx2", "fma"} <= set(flags) else "DEFAULT"


def for_any_maker():
    """A library for LD_PRELOAD in which MKL's question whether Intel made the CPU is answered with yes: on others it
    keeps to AVX2, at half the speed. None where that changes nothing, or without a C compiler."""
    with open("/proc/cpuinfo") as f:
        made_by_intel = "GenuineIntel" in f.read()
    if made_by_intel or best_capability() != "AVX512" or not (compiler := shutil.which("cc")):
        return None
    library = os.path.join(temporary.name, "for_any_maker.so")
    source = "int mkl_serv_intel_cpu_true(void) { return 1; }"
    subprocess.run([compiler, "-shared", "-fPIC", "-xc", "-o", library, "-"], input=source, text=True, check=True)
    return library


def onednn():
    """Version and instruction set of PyTorch's oneDNN, as it says them itself."""
    product = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); torch.mm(a, a)"
    environment = os.environ | {"ONEDNN_VERBOSE": "1", "ONEDNN_MAX_CPU_ISA": "DEFAULT", "DNNL_MAX_CPU_ISA": "DEFAULT"}
    said = subprocess.check_output([sys.executable, "-c", product], env=environment, text=True)
    found = re.findall(r"^onednn_verbose.*,info,(oneDNN v[\d.]+|cpu,isa:.*)", said, re.M)
    return ", ".join(line.removeprefix("cpu,isa:") for line in found) or "oneDNN"


def children_seconds():
    """CPU time of programs that have ended."""
    t = os.times()
    return t.children_user + t.children_system


def others(mine, f):
    """The result of f, and how many CPUs were busy with what is none of `mine`."""

    def busy():
        with open("/proc/stat") as file:
            n = [int(x) for x in file.readline().split()[1:9]]  # user nice system idle iowait irq softirq steal
        own = time.process_time() + children_seconds() + sum(p.cpu_seconds() for p in mine)
        return (sum(n) - n[3] - n[4]) / ticks - own

    wall, before = time.monotonic(), busy()
    result = f()
    return result, (busy() - before) / (time.monotonic() - wall)


def rounds(count, mine, ours, theirs, allowed):
    """Pairs of measurements; the pair before them, during which memory is found and threads start; and how many were
    undisturbed. Those beside which others used more than `allowed` CPUs are replaced, as far as half as many rounds
    more go."""
    first, pairs = (ours(), theirs()), []
    for _ in range(count + count // 2):
        pair, disturbance = others(mine, lambda: (ours(), theirs()))
        pairs.append((disturbance, pair))
        if sum(d <= allowed for d, _ in pairs) == count:
            break
    quiet = sum(d <= allowed for d, _ in pairs)
    return [pair for _, pair in sorted(pairs, key=lambda p: p[0])[:count]], first, quiet


def summary(values):
    middle = statistics.median(values)
    return middle, f"{middle:.2f} ({min(values):.2f} to {max(values):.2f})"


def print_row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def print_header(*cells):
    print_row(*cells)
    print("|---" * len(cells) + "|")


def goal_text(middle, goal):
    return "" if goal is None else f"{goal:g}" + (", missed" if middle < goal else "")


def layer_row(case, threads, headmix, torch, arguments):
    row = case.row + "".join(f"/{name}:{size}" for name, size in case.sizes.items()) + f"/threads:{threads}"
    request = {"layer": case.layer, "s": case.sizes, "backward": case.backward, "scalar": case.scalar}
    request["budget"] = arguments.budget
    pairs, _, quiet = rounds(
        arguments.rounds, [headmix, torch], lambda: headmix.time(row), lambda: torch.ask(request), cpus - threads + 0.2
    )
    ours, theirs = (statistics.median(p[i]["seconds"] for p in pairs) for i in (0, 1))
    flops = pairs[0][0]["seconds"] * pairs[0][0]["flop/s"]
    ratio, text = summary([b["seconds"] / a["seconds"] for a, b in pairs])
    share = statistics.median(a["peak"] for a, _ in pairs)
    peak = statistics.median(a["flop/s"] / a["peak"] for a, _ in pairs)
    mine = (f"{1e3 * ours:.1f}", f"{flops / ours / 1e9:.0f}", f"{peak / 1e9:.0f}", f"{share:.2f}")
    other = (f"{1e3 * theirs:.1f}", f"{flops / theirs / 1e9:.0f}", pairs[0][1]["name"])
    print_row(case.title, case.scalar, threads, *mine, *other, text, goal_text(ratio, case.goals.get(threads)), quiet)


def training_row(training, threads, headmix, torch, arguments, text):
    s = training.sizes
    command = [arguments.lm, "--text", text, "--attention", "dense", "--sample", "0", "--progress", "off"]
    for name, value in {**s, "steps": training.steps, "warmup": 0, "threads": threads}.items():
        command += [f"--{name}", str(value)]
    yardstick = f"multi_head_forward/cpu/float/B:12/T:64/D:128/N:4/threads:{threads}"

    def ours():
        wall, cpu = time.monotonic(), children_seconds()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        wall, cpu = time.monotonic() - wall, children_seconds() - cpu
        answer = json.loads(done.stdout.splitlines()[-1])
        if threads == 1:  # relative to the CPU time of the whole program, as parts are unknown
            answer["tokens_per_s"] *= wall / cpu
        beside = headmix.time(yardstick)
        return answer | {"peak": beside["flop/s"] / beside["peak"]}

    def theirs():
        request = {"text": text, **s, "steps": training.steps}
        eager, compiled = (torch.ask(request | {"compiled": c}) for c in (False, True))
        return eager | {"compiled": compiled["tokens_per_s"]}

    pairs, first, quiet = rounds(arguments.rounds, [headmix, torch], ours, theirs, cpus - threads + 0.2)
    n = first[0]["parameters"]
    if n != first[1]["parameters"]:
        sys.exit(f"compare.py: the models differ: {n} and {first[1]['parameters']} parameters")
    flops = 6 * (n - s["context"] * s["width"]) + 12 * s["layers"] * s["context"] * s["width"]
    peak = statistics.median(a["tokens_per_s"] * flops / a["peak"] for a, _ in pairs)
    middle = lambda i, key: statistics.median(p[i][key] for p in pairs)
    ratio, eager = summary([a["tokens_per_s"] / b["tokens_per_s"] for a, b in pairs])
    _, compiled = summary([a["tokens_per_s"] / b["compiled"] for a, b in pairs])
    mine = (f"{middle(0, 'tokens_per_s'):.0f}", f"{peak:.2f}", goal_text(peak, training.goal))
    other = (f"{middle(1, 'tokens_per_s'):.0f}", f"{middle(1, 'compiled'):.0f}", eager, compiled)
    losses = f"{first[0]['train_loss']:.3f}, {first[1]['loss']:.3f}"
    print_row("headmix-lm " + training.title, threads, *mine, *other, losses, quiet)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--headmix", required=True, metavar="PROGRAM", help="headmix-bench")
    parser.add_argument("--lm", metavar="PROGRAM", help="headmix-lm; without it nothing is trained")
    parser.add_argument("--text", metavar="FILE", help="to train on")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--scalars", nargs="+", default=["float", "bfloat16"], choices=["float", "bfloat16"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=0.03, help="seconds that a measurement takes at least")
    parser.add_argument("--filter", default="", help="a regular expression for titles")
    arguments = parser.parse_args()
    if arguments.lm and not arguments.text:
        parser.error("--lm needs --text")

    headmix = Headmix(arguments.headmix, arguments.budget)
    torches = {threads: Torch(threads, headmix.peak(threads)) for threads in arguments.threads}
    for line in headmix.about:
        print("- " + line.replace("\t", " "))
    print(f"- {onednn()}")
    for threads, torch in torches.items():
        about = torch.about
        print(
            f"- PyTorch {about['torch']}, {about['capability']}, {threads} threads; {'; '.join(about['libraries'])}; "
            f"a large product {about['product']['float']:.0f} GFLOP/s, in bfloat16 {about['product']['bfloat16']:.0f}"
        )
    print(f"\nSpeedup: time of PyTorch divided by that of headmix. n: rounds of {arguments.rounds} that nobody else disturbed.\n")
    ours, theirs = ("headmix ms", "GFLOP/s", "peak", "of peak"), ("PyTorch ms", "useful GFLOP/s", "attention")
    print_header("", "scalar", "threads", *ours, *theirs, "ratio", "goal", "n")
    for case in cases(any(re.match(r"bfloat16_products\s+tile products", line) for line in headmix.about)):
        for threads, torch in torches.items():
            if case.scalar in arguments.scalars and re.search(arguments.filter, case.title):
                layer_row(case, threads, headmix, torch, arguments)
    if not arguments.lm:
        return
    print("\nTraining, tokens/s; ratio: relative to PyTorch. The peak is measured after every run.\n")
    theirs = ("PyTorch", "compiled", "ratio", "ratio to compiled")
    print_header("", "threads", "headmix", "of peak", "goal", *theirs, "mean losses at first", "n")
    with tempfile.NamedTemporaryFile() as beginning, open(arguments.text, "rb") as text:
        beginning.write(text.read(50_000))  # validation is not timed, and need not take long
        beginning.flush()
        for training in trainings:
            for threads, torch in torches.items():
                if re.search(arguments.filter, "headmix-lm " + training.title):
                    training_row(training, threads, headmix, torch, arguments, beginning.name)


main()
