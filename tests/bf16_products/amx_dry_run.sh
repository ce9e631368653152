#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# amx_dry_run.sh <bench/amx.sh> <folder>: runs the script on any CPU, with a fake cmake and a fake Python. Every step
# must appear on the page, and a failing step must be reported and must not stop the others.
set -euo pipefail
script="$1" folder="$2"
rm -rf "$folder"
mkdir -p "$folder/tools"
folder="$(cd "$folder" && pwd)" # the script changes its folder
echo "some text" >"$folder/text"

tool() { cat >"$folder/tools/$1"; chmod +x "$folder/tools/$1"; }
# Builds programs that print their arguments; --scalar bfloat16 fails if $BROKEN says so.
tool cmake <<'TOOL'
#!/usr/bin/env bash
[ "$1" = --build ] || exit 0
case "$*" in
  *headmix-bench*) program="$2/bench/headmix-bench" ;;
  *headmix-lm*) program="$2/examples/language_model/headmix-lm" ;;
esac
mkdir -p "$(dirname "$program")"
printf '#!/bin/sh\ncase "$*" in *${BROKEN:-nothing}*) echo "error: broken on purpose"; exit 3 ;; esac\n[ "$1" != --on_request ] || printf "bfloat16_products\\tpretended ones\\n"; echo "asked: $*"\n' >"$program"
chmod +x "$program"
TOOL
tool python3 <<'TOOL'
#!/bin/sh
[ "$1" = -c ] && exit "${NO_TORCH:-0}"
echo "| a table of $1 |"
TOOL
run() { (export PATH="$folder/tools:$PATH" ANY_CPU=1; "$@" "$script" "$folder/out" >"$folder/log" 2>&1) && echo 0 || echo $?; }
expect() { # <number of times> <text>
  found="$(cat "$folder"/out/*-cpu.md | grep -c -F -- "$2" || true)"
  [ "$found" = "$1" ] || { echo "expected $1 times, found $found times: $2"; cat "$folder"/out/*-cpu.md; exit 1; }
}

[ "$(run env TEXT="$folder/text")" = 0 ] || { cat "$folder/log"; exit 1; }
expect 7 ": passed"
expect 1 "asked: --benchmark_filter=bfloat16"
expect 1 "| a table of bench/baselines/compare.py |"
expect 2 "asked: --text $folder/text --scalar"
expect 1 "products of bfloat16 are made of: pretended ones"

[ "$(run env TEXT="$folder/text" BROKEN="scalar bfloat16")" = 1 ] || { echo "a step fails, and the script does not"; exit 1; }
expect 1 "training in bfloat16: FAILED (3): error: broken on purpose"
expect 6 ": passed"

[ "$(run env NO_TORCH=1 ONLY="baselines training")" = 0 ] || { cat "$folder/log"; exit 1; }
expect 1 "beside PyTorch: skipped"
expect 1 "training: skipped"

[ "$(run env TEXT="$folder/none")" = 2 ] && grep -q "TEXT names no file" "$folder/log" || { echo "a missing text is not refused"; exit 1; }
grep -q -w amx_bf16 /proc/cpuinfo || [ "$(run env ANY_CPU=0)" = 77 ] || { echo "a CPU without AMX is not refused"; exit 1; }
echo "bench/amx.sh does what it says"
