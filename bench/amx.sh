#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# All measurements of a CPU with AMX, in one run of about an hour: bench/amx.sh <folder>. It writes logs to the folder,
# and <date>-amx-cpu.md, the page to commit under bench/results/. Exits with 77 and a message without AMX, and with 1
# after an error. PYTHON: a Python with PyTorch (bench/baselines/requirements.txt); without it, the comparison is
# skipped. TEXT: the training text of headmix-lm; without it, training is skipped. ONLY: steps to run, of "tests rows
# baselines training". ANY_CPU=1: runs on a CPU without AMX, to try the script; the page then has another name.
set -uo pipefail
[ $# -eq 1 ] || { echo "usage: bench/amx.sh <folder>" >&2; exit 2; }
mkdir -p "$1" || exit 2
out="$(cd "$1" && pwd)"
if [ -n "${TEXT:-}" ]; then
  [ -r "$TEXT" ] || { echo "bench/amx.sh: TEXT names no file that can be read: $TEXT" >&2; exit 2; }
  TEXT="$(realpath "$TEXT")"
fi
case "${PYTHON:=python3}" in */*) PYTHON="$(cd "$(dirname "$PYTHON")" && pwd)/$(basename "$PYTHON")" || exit 2 ;; esac
cd "$(dirname "$0")/.." || exit 2

cpu="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
extensions="$(grep -m 1 '^flags' /proc/cpuinfo | grep -o -w -E 'avx2|avx512f|avx512_bf16|avx512_vnni|amx_[a-z0-9]+' | sort -u | tr '\n' ' ')"
kind=amx
case " $extensions" in
  *" amx_bf16 "*) ;;
  *)
    [ "${ANY_CPU:-}" = 1 ] || { echo "bench/amx.sh: skipped, $cpu has no amx_bf16 (it has: $extensions)"; exit 77; }
    kind=other
    ;;
esac
page="$out/$(date +%F)-$kind-cpu.md" wrong=0
commit="$(git log -1 --format=%h)"
[ -z "$(git status --short)" ] || commit+=" (changed)"
wanted() { case " ${ONLY:-tests rows baselines training} " in *" $1 "*) true ;; *) false ;; esac; }

notes="$out/notes.md" tables="$out/tables.md"
: >"$notes"
: >"$tables"
# Writes the page after every step, so that an interrupted run keeps its results.
publish() {
  echo "# $cpu, $(date +%F)"
  echo
  echo "$(nproc) CPUs; $extensions; $(c++ --version | head -n 1); headmix $commit"
  echo
  cat "$notes" "$tables"
} >"$page"
note() { echo "- $1" | tee -a "$notes"; publish; }
# conclude <what> <log> <exit status>: a line of the page.
conclude() {
  if [ "$3" -eq 0 ]; then
    note "$1: passed"
  else
    wrong=1
    note "$1: FAILED ($3): $({ grep -m 1 -i -E 'error|fail' "$out/$2.log" || tail -n 1 "$out/$2.log"; } | cut -c1-160)"
  fi
}
# step <name> <command>...: all output into <name>.log.
step() {
  local log="$out/$1.log"
  printf '=== %s (after %d s)\n' "$1" "$SECONDS"
  shift
  "$@" >"$log" 2>&1
}
# section <title> <command>: begins a part of the page.
section() { printf '\n## %s\n\n`%s`\n\n' "$1" "$2" >>"$tables"; }

if wanted tests; then
  # The kernels of all supported levels against the reference; tiles also in emulation.
  step tests cmake --workflow --preset platforms
  conclude "preset platforms, all levels" tests $?
fi

build="$out/build" bench="$out/build/bench/bench/headmix-bench"
if wanted rows || wanted baselines; then
  step build sh -c "cmake --preset bench -B '$build/bench' && cmake --build '$build/bench' --target headmix-bench -j$(nproc)"
  conclude "headmix-bench" build $?
  # The operating system may refuse the tiles of the CPU.
  products="$("$bench" --on_request </dev/null 2>/dev/null | sed -n 's/^bfloat16_products[[:space:]]*//p')"
  note "products of bfloat16 are made of: ${products:-unknown}"
  [ "$kind" = other ] || [ "$products" = "tile products" ] || wrong=1
fi
if wanted rows; then
  # Shares of the peak are relative to tile products, measured with each row.
  rows=(--benchmark_filter='bfloat16.*threads:1/')
  step rows "$bench" "${rows[@]}"
  status=$?
  section "Layers over bfloat16" "headmix-bench ${rows[*]}"
  { echo '```'; cat "$out/rows.log"; echo '```'; } >>"$tables"
  conclude "rows over bfloat16" rows $status
fi
if wanted baselines; then
  if "$PYTHON" -c 'import torch' 2>"$out/baselines.log"; then
    baselines=(--threads 1 --filter 'S2|S3')
    step baselines "$PYTHON" bench/baselines/compare.py --headmix "$bench" "${baselines[@]}"
    status=$?
    section "Beside PyTorch" "compare.py --headmix headmix-bench ${baselines[*]}"
    cat "$out/baselines.log" >>"$tables"
    conclude "beside PyTorch" baselines $status
  else
    note "beside PyTorch: skipped, $PYTHON has no PyTorch"
  fi
fi
if wanted training; then
  if [ -n "${TEXT:-}" ]; then
    step demo sh -c "cmake --preset demo -B '$build/demo' && cmake --build '$build/demo' --target headmix-lm -j$(nproc)"
    conclude "headmix-lm" demo $?
    model=(--attention dense --layers 6 --heads 6 --width 384 --context 256 --batch 12 --steps 20 --warmup 0
           --threads 1 --sample 0 --progress off)
    section "Training 6 x 384" "headmix-lm --text TEXT --scalar float|bfloat16 ${model[*]}"
    for scalar in float bfloat16; do
      step "training-$scalar" "$build/demo/examples/language_model/headmix-lm" --text "$TEXT" --scalar "$scalar" "${model[@]}"
      status=$?
      echo "- $scalar: $(tail -n 1 "$out/training-$scalar.log")" >>"$tables"
      conclude "training in $scalar" "training-$scalar" $status
    done
  else
    note "training: skipped, no TEXT"
  fi
fi
echo "the page is $page"
exit $wrong
