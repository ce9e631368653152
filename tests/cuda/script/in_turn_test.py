# SPDX-License-Identifier: MIT
"""in_turn_test.py COMPILER FOLDER: bench/gpu/baselines.py with a torch and a library that compute nothing: every row is
tried, pairs have their fields, and what cannot run says why."""

import json
import pathlib
import subprocess
import sys

compiler, folder = sys.argv[1], pathlib.Path(sys.argv[2])
here = pathlib.Path(__file__).resolve().parent
folder.mkdir(parents=True, exist_ok=True)
library = folder / "fake_rows.so"
subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", "-o", library, here / "fake_rows.c"], check=True)


def rows_of(*options):
    script = here.parents[2] / "bench/gpu/baselines.py"
    command = [sys.executable, script, "--tflops=100", "--tbytes=4", *options, library]
    env = {"PYTHONPATH": str(here / "fake_torch"), "FAKE_ROWS": str(library), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def check(what, condition):
    if not condition:
        sys.exit(f"in_turn_test.py: {what}")


rows = rows_of()
mixture, dense = "MoH 24 of 32/8 x 128, 2048 tokens", "grouped-query 32/8 x 128, 2048 tokens"
pairs = {(r["name"], r["beside"]): r for r in rows if "beside" in r}
expected = {(mixture, dense), (mixture, f"{dense}, cuDNN"), (dense, f"{dense}, cuDNN")}
check(f"pairs: {sorted(pairs)}", set(pairs) == expected)
pair = pairs[mixture, dense]
check(f"a pair's clock: {pair}", pair["mhz"] == 1700)
check(f"a pair's ratio: {pair}", pair["ratio"] == pair["low"] == pair["high"] == 3)
check(f"a pair's times: {pair}", (pair["us"], pair["beside_us"], pair["floor_us"]) == (300, 100, 30))
alone = [(r["name"], r["graph"]) for r in rows if r["group"] in ("kernel", "layer")]
check(f"rows alone: {alone}", alone == [(dense, False), ("nobody's", False)])
theirs = [r for r in rows if r["group"] == "torch"]
check(f"only {len(theirs)} rows of PyTorch", len(theirs) > 40)
refused = [r["name"] for r in rows if "not run" in r["name"]]
check(f"refused: {refused}", any("broken, forward: not run (broken on purpose)" in name for name in refused))
check(f"refused: {refused}", any("flash" in n and n.endswith("not run (no such kernel here)") for n in refused))
check(f"refused rows of cuDNN: {refused}", not any("cuDNN" in name for name in refused))

some = rows_of("--only=MoH 24")
found = {(r["name"], r.get("beside")) for r in some}
check(f"--only: {some}", found == {(mixture, dense), (mixture, f"{dense}, cuDNN")})
check("--seconds", rows_of("--seconds=0") == [])
print(f"bench/gpu/baselines.py: {len(pairs)} pairs, {len(theirs)} rows of PyTorch alone")
