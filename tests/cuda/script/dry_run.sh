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
    -E) preprocess=1 ;;
    -c) source="$2"; shift ;;
    -o) target="$2"; shift ;;
    *.cu | *.cpp) given="$1" ;;
  esac
  shift
done
[ -z "${preprocess:-}" ] || { echo "text of ${given:-}"; exit 0; }
if [ -n "${source:-}" ]; then
  case "$source" in *"${BROKEN:-nothing}"*) echo "$source: error: broken on purpose"; exit 1 ;; esac
  echo "$source" >>"${COMPILED:-/dev/null}"
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
    [ "${DEVICE_STATUS:-0}" = 0 ] || echo "a.cpp:1: ERROR: CHECK( broken ) is NOT correct!"
    exit "${DEVICE_STATUS:-0}" ;;
  kernels) row row kernels 20; row kernel "attention, causal" 50 ;;
  moa | moa_64 | moh | moh_llama | mh_moe | attention | decode)
    [ "${1:-}" != --times ] || { row layer "$name alone" 30 "$graph"; exit 0; } ;;
  *) row row "$name" 20 ;;
esac
PROGRAM
chmod +x "$target"
TOOL
tool python3 <<'TOOL'
#!/bin/sh
case "$*" in
  *"import torch"*) exit "${NO_TORCH:-0}" ;;
  *baselines.py*moh_llama.so*attention.so*moa.so*)
    echo "# PyTorch 2.11"
    echo '{"group": "pair", "name": "MoH 24", "pass": "forward", "graph": true, "us": 90, "tflops": 1, "beside": "dense", "beside_us": 100, "ratio": 0.9, "low": 0.89, "high": 0.91, "mhz": 1700}'
    echo '{"group": "torch", "name": "no counterpart", "pass": "forward", "graph": true, "us": 25}' ;;
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
for row in ceilings: '| ceiling | copy | 10.0 | 1 | 10.0 | 1.00 | - |' 'layouts against the device: passed' \
  'tests on the device: passed, 2 of 2' 'bit by bit: passed' '| row | kernels | 20' '| row | heads | 20' \
  '| MoH 24, forward | 90.0 | 1 | - | dense | 100.0 | \*\*0.900\*\* (0.890, 0.910) | 1700 |' \
  '| torch | no counterpart, forward, graph | 25.0' 'PyTorch 2.11' 'ncu, queries' 'memcheck: passed' 'racecheck: passed' \
  'all lanes arriving: passed' '| row | kernels@mma | 20'; do
  has "$row"
done
lacks alone
NO_TORCH=1 run no_torch 0
has 'PyTorch: not run'
has '| layer | moh_llama alone, forward, graph | 30.0'
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
has 'tests on the device: FAILED (1), 1 of 2'
has '| MoH 24, forward | 90.0'
has 'FAILED (1): unsound: a.cpp:1: ERROR: CHECK( broken )'

# Programs that another machine made, which has no GPU.
build() { # <name> <expected exit status>
  local status=0
  PATH="$folder/tools:$PATH" DOCTEST_INCLUDE="$folder/doctest" ONLY=build CAPABILITY=9.0 OBJECTS="$folder/objects" \
    COMPILED="$folder/$1.compiled" "$script" "$folder/$1" >"$folder/$1.out" 2>&1 || status=$?
  [ "$status" -eq "$2" ] || fail "ONLY=build, $1: expected exit status $2, found $status" "$folder/$1.out"
}
rm -rf "$folder/elsewhere" "$folder/objects"
build elsewhere 0
grep -q bench/gpu/moh_llama.cu "$folder/elsewhere.compiled" || fail "ONLY=build: moh_llama.cu is not compiled"
tar -tf "$folder/elsewhere/build.tar.zst" >"$folder/archive"
grep -q build/attention.so "$folder/archive" || fail "build.tar.zst has no attention.so"
build again 0 # from the objects of the first time
[ ! -s "$folder/again.compiled" ] || fail "a second build compiles again" "$folder/again.compiled"
CARRY_LIMIT=100 build large 1
grep -q 'the archive has .* bytes, expected at most 100' "$folder/large.out" || fail "large: no message" "$folder/large.out"
rm -r "$folder/objects"
BROKEN=bench/gpu/heads build missing 1
BROKEN=bench BUILT="$folder/elsewhere/build" run built 0
has '| row | kernels@mma | 20'
has '| MoH 24, forward | 90.0'
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
