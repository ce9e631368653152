# SPDX-License-Identifier: MIT
"""products.py COMPILER EMULATOR HEADMIX EIGEN FOLDER: instructions of a product of floats on aarch64, of headmix and of
Eigen, counted in the emulator's log of executed blocks: a second product's, so that nothing else counts.

python3 bench/aarch64/products.py aarch64-linux-gnu-g++ qemu-aarch64 $HEADMIX/include $EIGEN /tmp
"""
import collections
import pathlib
import re
import subprocess
import sys

SHAPES = [(64, 64, 64), (192, 192, 192), (384, 256, 256), (512, 512, 512), (16, 512, 512)]
compiler, emulator, headmix, eigen, folder = sys.argv[1:]
program, log = pathlib.Path(folder, "products"), pathlib.Path(folder, "products.log")
source = pathlib.Path(__file__).with_suffix(".cpp")
subprocess.run([compiler, "-std=c++20", "-O3", "-DHEADMIX_NO_BUILD_NOTICE", "-static", "-pthread", "-I", headmix,
                "-isystem", eigen, source, "-o", program], check=True)


def instructions(*arguments):
    subprocess.run([emulator, "-d", "in_asm,exec,nochain", "-D", log, program, *map(str, arguments)], check=True)
    sizes, runs, block = {}, collections.Counter(), []
    for line in log.open():
        if line.startswith("0x"):  # an instruction of a new block
            block.append(int(line.split(":")[0], 16))
        elif line.startswith("Trace"):  # a block runs
            runs[int(re.search(r"\[[0-9a-f]+/([0-9a-f]+)", line)[1], 16)] += 1
        elif block:
            sizes[block[0]], block = len(block), []
    return sum(n * sizes[at] for at, n in runs.items() if at in sizes)


print("| y = a b, rows x depth x columns | headmix | Eigen | instructions per fmla, headmix | Eigen | ratio |\n"
      "|---|---|---|---|---|---|")
for m, k, n in SHAPES:
    mine, other = (instructions(who, m, k, n, 2) - instructions(who, m, k, n, 1) for who in ("headmix", "eigen"))
    vectors = m * k * n / 4
    print(f"| {m} x {k} x {n} | {mine:,} | {other:,} | {mine / vectors:.2f} | {other / vectors:.2f} | "
          f"{mine / other:.2f} |")
