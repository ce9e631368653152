# SPDX-License-Identifier: MIT
"""PyTorch's side of compare.py: a process for one number of threads, since that, how memory is kept and the level of
vector instructions are set by the environment before it starts. Answers each line of JSON with one."""

import json
import re
import statistics
import sys
import time

import torch

import cases
import language_model

threads = int(sys.argv[1])
torch.set_num_threads(threads)
clock = time.process_time if threads == 1 else time.perf_counter


def seconds_of(f, budget):
    """The mean over some runs, and how many CPUs they kept busy."""
    runs, begin, cpu, wall = 0, clock(), time.process_time(), time.perf_counter()
    while runs == 0 or clock() - begin < budget:
        f()
        runs += 1
    seconds = (clock() - begin) / runs
    return seconds, (time.process_time() - cpu) / (time.perf_counter() - wall)


def fastest(candidates):
    """Tried in turn, so that a change of the machine's speed meets all of them."""
    seconds = {name: [] for name in candidates}
    for _ in range(4):
        for name, f in candidates.items():
            seconds[name].append(seconds_of(f, 0)[0])
    return min(candidates, key=lambda name: statistics.median(seconds[name][1:]))


def product(kind):
    """The best of some trials of a large product, GFLOP/s."""
    m, n, k = 1024, 2048, 512
    a, b = torch.randn(m, k).to(kind), torch.randn(n, k).to(kind)
    f = lambda: torch.nn.functional.linear(a, b)
    return 2e-9 * m * n * k / min(seconds_of(f, 0.02)[0] for _ in range(10))


def find_memory():
    """Memory that the process then keeps: on a virtual machine the first use of a page can take microseconds."""
    torch.ones(1 << 29)


def main():
    find_memory()
    cases.check()
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "capability": torch.backends.cpu.get_cpu_capability(),
                "threads": torch.get_num_threads(),
                "product": {scalar: product(getattr(torch, scalar)) for scalar in ("float", "bfloat16")},
                "onednn": torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled,
                "libraries": re.findall(r"(?:oneAPI Math Kernel Library|MKL-DNN) \S+ ?[\d.]*", torch.__config__.show()),
            }
        ),
        flush=True,
    )
    prepared, timed, name, trainers = None, None, None, {}
    for line in sys.stdin:
        request = json.loads(line)
        if "text" in request:
            key = json.dumps(request)
            if key not in trainers:
                trainers[key] = language_model.Trainer(**request)
                if request["compiled"]:
                    trainers[key].step()
            trainer, begin = trainers[key], clock()
            loss = statistics.mean(trainer.step() for _ in range(trainer.steps))
            tokens = trainer.steps * trainer.batch * trainer.context
            parameters = sum(p.numel() for p in trainer.parameters)
            answer = {"tokens_per_s": tokens / (clock() - begin), "loss": loss, "parameters": parameters}
        else:
            budget = request.pop("budget")
            if request != prepared:
                candidates = timed = None  # frees memory for the next ones
                candidates = cases.variants(**request)
                name, prepared = fastest(candidates), request
                timed = candidates[name]
            timed()  # refills the caches after the other process
            seconds, busy = seconds_of(timed, budget)
            answer = {"seconds": seconds, "name": name, "busy": busy}
        print(json.dumps(answer), flush=True)


main()
