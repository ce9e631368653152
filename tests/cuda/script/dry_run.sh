#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# dry_run.sh <bench/gpu.sh> <folder>: tries the script with tools that only pretend: an nvcc whose programs print rows,
# and a GPU that is none. What is tried is the script: that every step runs and ends in the table, that a unit that does
# not compile takes no other with it, and that a run that is cut off leaves its table.
set -euo pipefail
script="$1" folder="$2"
rm -rf "$folder"
mkdir -p "$folder/tools" "$folder/doctest/doctest"
touch "$folder/doctest/doctest/doctest.h"

tool() { cat >"$folder/tools/$1"; chmod +x "$folder/tools/$1"; }
tool nvidia-smi <<'TOOL'
#!/bin/sh
echo "NVIDIA H100 80GB HBM3, 9.0, 580.0"
TOOL
# Compiles everything but $BROKEN. Programs say who they are; $HANGING makes the file $HANGS and does not end.
tool nvcc <<'TOOL'
#!/usr/bin/env bash
while [ $# -gt 0 ]; do
  case "$1" in
    --version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0 ;;
    -E) exit 0 ;;
    -c) source="$2"; shift ;;
    -o) target="$2"; shift ;;
  esac
  shift
done
if [ -n "${source:-}" ]; then
  case "$source" in *"${BROKEN:-nothing}"*) echo "$source: error: broken on purpose"; exit 1 ;; esac
  echo object >"$target"
  exit 0
fi
cat >"$target" <<'PROGRAM'
#!/usr/bin/env bash
name="$(basename "$0")"
[ "$name" = "${HANGING:-nothing}" ] && touch "$HANGS" && sleep 60
# row <group> <name> <us> [more]
row() { printf '{"group": "%s", "name": "%s", "us": %s, "tflops": 1, "floor_us": 10%s}\n' "$1" "$2" "$3" "${4:+, $4}"; }
forward='"pass": "forward", "graph": false' graph='"pass": "forward", "graph": true'
case "$name" in
  ceilings) printf -- '--copy=3000\n--product=700\n'; row ceiling copy 10 ;;
  device)
    case "$*" in
      *--list-test-cases*) printf '[doctest] listing all test case names\n=====\nsound, and quick\nunsound\n=====\n'; exit 0 ;;
      *"--test-case=sound\\, and quick"* | *layouts*) exit 0 ;;
    esac
    echo "a.cpp:1: ERROR: CHECK( broken ) is NOT correct!"
    echo "[doctest] test cases: 3 | 2 passed | 1 failed"
    exit "${DEVICE_STATUS:-0}" ;;
  moa_64)
    [ "${1:-}" = --check ] || {
      row layer "MoA 8 of 32 x 64, causal, T=8192" 400 "$forward"
      row layer "MoA 8 of 32 x 64, causal, T=8192" 300 "$graph"
    } ;;
  moh_llama)
    [ "${1:-}" = --check ] || {
      row layer "grouped-query 32/8 x 128, 8192 tokens" 120 "$forward"
      row layer "MoH 24 of 32/8 x 128, 8192 tokens" 90 "$forward, \"over\": \"grouped-query 32/8 x 128, 8192 tokens\""
    } ;;
  moa@mma) row row moa@mma 20; row layer MoA 1200 "$graph, \"device\": \"mma.sync\"" ;;
  moa) [ "${1:-}" = --check ] || { row layer MoA 900 "$forward"; row layer MoA 880 "$graph"; } ;;
  kernels) [ "${1:-}" = --check ] || { row row kernels 20; row kernel "attention, causal" 50; } ;;
  *) [ "${1:-}" = --check ] || row row "$name" 20 ;;
esac
PROGRAM
chmod +x "$target"
TOOL
tool python3 <<'TOOL'
#!/bin/sh
row() { printf '{"group": "torch", "name": "%s", "pass": "forward", "graph": %s, "us": %s, "of": [%s]}\n' "$1" "$2" "$3" "$4"; }
case "$1" in
  *baselines.py)
    echo "# PyTorch 2.11"
    row "attention alone, causal, cuDNN" false 25 '"attention, causal"'
    row "dense 8 x 64, causal, T=8192, cuDNN" false 200 '"MoA 8 of 32 x 64, causal, T=8192", "nothing"'
    row "dense 8 x 64, causal, T=8192, cuDNN" true 200 '"MoA 8 of 32 x 64, causal, T=8192", "nothing"'
    row "grouped-query 32/8 x 128, 8192 tokens, cuDNN" false 100 '"MoH 24 of 32/8 x 128, 8192 tokens"' ;;
esac
TOOL
tool ncu <<'TOOL'
#!/bin/sh
echo "  Duration us 20"
TOOL
tool compute-sanitizer <<'TOOL'
#!/bin/sh
echo "========= ERROR SUMMARY: 0 errors"
TOOL

fail() { printf 'dry_run.sh: %s\n' "$1" >&2; [ $# -lt 2 ] || cat "$2" >&2; exit 1; }
run() { # <name> <expected exit status>
  local status=0
  PATH="$folder/tools:$PATH" DOCTEST_INCLUDE="$folder/doctest" JOBS=2 "$script" "$folder/$1" >"$folder/$1.out" 2>&1 || status=$?
  [ "$status" -eq "$2" ] || fail "$1: expected exit status $2, found $status" "$folder/$1.out"
  table="$(ls "$folder/$1"/*-NVIDIA-H100-80GB-HBM3.md)" || fail "$1: no table" "$folder/$1.out"
}
has() { grep -q -- "$1" "$table" || fail "the table lacks: $1" "$table"; }
lacks() { ! grep -q -- "$1" "$table" || fail "the table has: $1" "$table"; }

run all 0
for row in ceilings: '| ceiling | copy | 10.0 | 1 | 10.0 | 1.00 |' 'layouts against the device: passed' 'tests on the device: passed' \
  'bit by bit: passed' '| row | kernels | 20' '| row | heads | 20' '| layer | MoA, forward | 900' \
  '| row | moh | 20' '| row | mh_moe | 20' '| layer | MoA, forward, graph, mma.sync | 1200' \
  '| MoA 8 of 32 x 64, causal, T=8192, forward, over dense 8 x 64, causal, T=8192, cuDNN | 2.00 | 1.50 |' \
  '| MoH 24 of 32/8 x 128, 8192 tokens, forward, over grouped-query 32/8 x 128, 8192 tokens, cuDNN | 0.90 | - |' \
  '| MoH 24 of 32/8 x 128, 8192 tokens, forward, over grouped-query 32/8 x 128, 8192 tokens | 0.75 | - |' \
  '| attention, causal, forward, over attention alone, causal, cuDNN | 2.00 | - |' \
  '| torch | attention alone, causal, cuDNN, forward | 25.0' 'PyTorch 2.11' 'ncu, queries' 'memcheck: passed' 'racecheck: passed' \
  '| row | kernels@mma | 20' '| row | moa@mma | 20'; do
  has "$row"
done
echo '{"name": "of no group"}' >"$folder/bad.jsonl"
"$folder/all/build/table" "$folder/bad.jsonl" 2>"$folder/bad.err" && fail "bad.jsonl: a row without a group is taken"
grep -q 'bad.jsonl:1: expected a row with group and name' "$folder/bad.err" || fail "bad.jsonl" "$folder/bad.err"

BROKEN=bench/gpu/heads run broken_program 1
has 'does not compile: bench/gpu/heads.cu'
has '| row | kernels | 20'
lacks '| row | heads | 20'

BROKEN=tests/cuda/device/moh run broken_test 1
has 'does not compile: tests/cuda/device/moh.cu'
has 'tests on the device: passed'

DEVICE_STATUS=1 run failed_test 1
has 'tests on the device: FAILED'
has '| row | mh_moe | 20'
has 'tests on the device, each alone: 1 of 2 passed'
has 'FAILED (1): unsound: a.cpp:1: ERROR: CHECK( broken )'

# Programs that another machine made, which has no GPU.
rm -rf "$folder/elsewhere"
PATH="$folder/tools:$PATH" DOCTEST_INCLUDE="$folder/doctest" ONLY=build CAPABILITY=9.0 "$script" "$folder/elsewhere" \
  >"$folder/elsewhere.out" 2>&1 || fail "ONLY=build: exit status $?" "$folder/elsewhere.out"
BROKEN=bench BUILT="$folder/elsewhere/build" run built 0
has '| row | kernels@mma | 20'
has 'tests on the device: passed'
lacks 'built for'

# Cut off while the kernels are measured.
HANGING=kernels HANGS="$folder/hangs" PATH="$folder/tools:$PATH" DOCTEST_INCLUDE="$folder/doctest" \
  setsid "$script" "$folder/cut_off" >"$folder/cut_off.out" 2>&1 &
for ((i = 0; i < 300; ++i)); do
  [ ! -f "$folder/hangs" ] || break
  sleep 0.1
done
kill -KILL -- -$! && wait $! 2>/dev/null || true
[ -f "$folder/hangs" ] || fail "cut_off: the kernels did not run" "$folder/cut_off.out"
table="$(ls "$folder/cut_off"/*-NVIDIA-H100-80GB-HBM3.md)" || fail "cut_off: no table" "$folder/cut_off.out"
has '| ceiling | copy | 10.0 | 1 | 10.0 | 1.00 |'
has 'tests on the device: passed'
lacks '| row | kernels'
echo "bench/gpu.sh: every step runs and is in the table"
