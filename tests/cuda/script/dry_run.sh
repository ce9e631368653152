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
case "$name" in
  ceilings) printf -- '--copy=3000\n--product=700\n'; printf 'ceiling\tcopy\t10\t-\t-\t-\n' ;;
  device)
    echo "[doctest] test cases: 3 | 2 passed | 1 failed"
    case "$*" in *source-file* | *layouts*) exit 0 ;; esac
    exit "${DEVICE_STATUS:-0}" ;;
  moa_64) [ "${1:-}" = --check ] || printf 'layer\tMoA 8 of 32 x 64, causal, T=8192, forward%s\t%s\t1\t10\t0.5\n' '' 400 ', graph' 300 ;;
  moh_llama) [ "${1:-}" = --check ] || printf 'layer\tMoH 24 of 32/8 x 128, 8192 tokens, forward\t90\t1\t10\t0.5\n' ;;
  moa@warpgroups) printf 'row\tmoa@warpgroups\t20\t1\t10\t0.5\nlayer\tMoA, forward, graph, warpgroups\t400\t1\t10\t0.5\n' ;;
  moa) [ "${1:-}" = --check ] || printf 'layer\tMoA, forward\t900\t1\t10\t0.5\nlayer\tMoA, forward, graph\t880\t1\t10\t0.5\n' ;;
  gpu_model) # of the GPU that nvidia-smi names
    of=""
    case "$*" in "--gpu=h100 --rows "*/moa) ;; "--gpu=h100 --rows "*/moa@warpgroups) of=", warpgroups" ;; *) echo "unexpected: $*"; exit 2 ;; esac
    printf "model\tMoA, forward$of\t800\t-\t500\t-\nmodel\tMH-MoE, forward$of\t300\t-\t200\t-\n" ;;
  *) [ "${1:-}" = --check ] || printf 'row\t%s\t20\t1\t10\t0.5\n' "$name" ;;
esac
PROGRAM
chmod +x "$target"
TOOL
tool python3 <<'TOOL'
#!/bin/sh
case "$1" in
  *baselines.py)
    printf 'torch\tattention alone\t30\t1\t10\t0.3\n# PyTorch 2.11\n'
    printf 'torch\tdense 8 x 64, causal, T=8192, cuDNN, forward%s\t%s\t1\t10\t0.3\n' '' 200 ', graph' 200
    printf 'torch\tgrouped-query 32/8 x 128, 8192 tokens, cuDNN, forward\t100\t1\t10\t0.3\n' ;;
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
for row in ceilings: '| ceiling | copy | 10' 'layouts against the device: passed' 'tests on the device: passed' \
  'bit by bit: passed' '| row | kernels | 20' '| row | heads | 20' '| layer | MoA, forward | 900' \
  '| row | moh | 20' '| row | mh_moe | 20' 'model of moa, h100: passed' '| MoA, forward | 500 | 800 | 880 | 1.10 |' \
  '| MH-MoE, forward | 200 | 300 | - | - |' '| MoA, forward, warpgroups | 500 | 800 | 400 | 0.50 |' \
  '| MoA over dense 8 x 64, causal, T=8192, cuDNN, forward | 2.00 | 1.50 |' \
  '| MoH 24 of 32/8 x 128, 8192 tokens, forward, over grouped-query, cuDNN | 0.90 | - |' \
  '| torch | attention alone | 30' 'PyTorch 2.11' 'ncu, queries' 'memcheck: passed' 'racecheck: passed' \
  '| row | kernels@warpgroups | 20' '| row | moa@warpgroups | 20' 'kernels for warpgroups on the device: passed'; do
  has "$row"
done
lacks '| model |' # in a table of its own

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
has 'attention alone: passed'

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
has '| ceiling | copy | 10'
has 'tests on the device: passed'
lacks '| row | kernels'
echo "bench/gpu.sh: every step runs and is in the table"
