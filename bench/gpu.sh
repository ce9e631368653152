#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Everything that a GPU must answer, in one run of less than ten minutes: bench/gpu.sh <folder>. Logs go to the folder,
# and <date>-<gpu>.md, the table to commit under bench/results/. Without a GPU it says so and exits with 77.
# Needs nvcc; the tests need doctest (DOCTEST_INCLUDE, or where the CMake presets unpack it), the baselines PyTorch.
# JOBS: compilers at a time. LIMIT: seconds for everything. ONLY: steps to run, of "tests determinism sanitizer kernels
# layers torch ncu".
set -uo pipefail
[ $# -eq 1 ] || { echo "usage: bench/gpu.sh <folder>" >&2; exit 2; }
mkdir -p "$1" || exit 2
out="$(cd "$1" && pwd)"
cd "$(dirname "$0")/.." || exit 2
export PYTHONUNBUFFERED=1

gpu="$(timeout 20 nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
case "$gpu" in
  *,*,*) ;;
  *) echo "bench/gpu.sh: skipped, no GPU (nvidia-smi finds none)"; exit 77 ;;
esac
IFS=, read -r name capability driver <<<"$gpu"
name="${name# }" capability="${capability// /}" driver="${driver// /}"
nvcc="$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)"
[ -n "$nvcc" ] || { echo "bench/gpu.sh: skipped, no nvcc"; exit 77; }

steps="${ONLY:-tests determinism sanitizer kernels layers torch ncu}"
wanted() { case " $steps " in *" $1 "*) true ;; *) false ;; esac; }
say() { printf '=== %s (after %d s)\n' "$1" "$SECONDS"; }
rows="$out/rows.tsv" notes="$out/notes.md"
: >"$rows"
: >"$notes"
note() { echo "- $1" | tee -a "$notes"; }
# step <log> <seconds> command...: all output into the log; rows go to the table too.
step() {
  local log="$out/$1.log" limit="$2" left=$((${LIMIT:-570} - SECONDS)) status
  shift 2
  [ "$left" -lt "$limit" ] && limit="$left"
  [ "$limit" -ge 5 ] || { echo "no time left" >"$log"; return 124; }
  timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1
  status=$?
  grep -P '^[a-z]+\t' "$log" >>"$rows"
  return $status
}
# What a step's exit status means.
verdict() {
  case "$1" in
    0) echo "passed" ;;
    124 | 137) echo "not finished in time" ;;
    77) echo "skipped" ;;
    *) echo "FAILED ($1)" ;;
  esac
}

say "environment"
{
  nvidia-smi
  nvidia-smi -q -d CLOCK
  "$nvcc" --version
  lscpu | grep -E "Model name|^CPU\(s\)"
  git log -1 --format='%H %cd' 2>/dev/null
  git status --short 2>/dev/null
} >"$out/environment.log" 2>&1

# ---- build, all at once ----
say "build"
case "$capability" in
  9.0) architecture=90a ;;
  *) architecture="${capability/./}" ;;
esac
build="$out/build"
mkdir -p "$build"
flags=(-std=c++20 -O1 -gencode "arch=compute_$architecture,code=sm_$architecture" -Iinclude -Itests)
doctest="${DOCTEST_INCLUDE:-}"
for folder in /usr/include /usr/local/include build/_deps/doctest/include; do
  [ -z "$doctest" ] && [ -f "$folder/doctest/doctest.h" ] && doctest="$folder"
done
sources=(bench/gpu/*.cu)
if [ -n "$doctest" ]; then
  [ "$doctest" = /usr/include ] || flags+=(-isystem "$doctest")
  sources+=(tests/cuda/device/*.cu tests/cuda/device/*.cpp)
fi
object() { echo "$build/$(echo "${1%.*}" | tr / -).o"; }
compile() { # one source
  timeout 280 "$nvcc" "${flags[@]}" -c "$1" -o "$(object "$1")" >"$(object "$1").log" 2>&1 ||
    echo "$1" >>"$build/failed"
}
rm -f "$build"/*.o "$build/failed"
for source in "${sources[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-$(nproc)}" ]; do wait -n; done
  compile "$source" &
done
wait
cat "$build"/*.o.log >"$out/build.log"
for source in $(cat "$build/failed" 2>/dev/null); do note "does not compile: $source (see build.log)"; done
link() { # program objects...
  local program="$build/$1"
  rm -f "$program"
  shift
  "$nvcc" "$@" -o "$program" -lcublas >"$program.log" 2>&1
}
for program in ceilings kernels moa; do link "$program" "$(object "bench/gpu/$program.cu")"; done
[ -z "$doctest" ] || link device "$build"/tests-cuda-device-*.o
note "built for sm_$architecture in $SECONDS s"
[ -x "$build/ceilings" ] || { echo "bench/gpu.sh: the programs do not build; see $build"; exit 1; }

# ---- what is right comes before what is fast ----
say "ceilings"
step ceilings 60 "$build/ceilings"
note "ceilings: $(verdict $?)"
mapfile -t ceilings < <(grep '^--' "$out/ceilings.log")

if wanted tests; then
  say "tests"
  if [ -x "$build/device" ]; then
    step calibration 30 "$build/device" --test-case="*layouts*"
    note "the emulator's layouts against the device: $(verdict $?)"
    step tests 120 "$build/device" --duration=true
    note "tests on the device: $(verdict $?), $(grep -E '^\[doctest\] test cases' "$out/tests.log" | sed 's/.*cases: *//')"
  else
    note "tests: not run, ${doctest:+they do not build}${doctest:-no doctest (set DOCTEST_INCLUDE)}"
  fi
fi
if wanted determinism; then
  say "determinism"
  step determinism 60 "$build/moa" --check
  note "20 passes of two layers, bit by bit: $(verdict $?)"
fi

# ---- how fast it is ----
if wanted kernels; then
  say "kernels"
  step kernels 60 "$build/kernels" "${ceilings[@]}"
  note "kernels: $(verdict $?)"
fi
if wanted layers; then
  say "layers"
  step layers 60 "$build/moa" "${ceilings[@]}"
  note "layers: $(verdict $?)"
fi
if wanted torch; then
  say "PyTorch"
  if timeout 60 python3 -c 'import torch; assert torch.cuda.is_available()' >"$out/torch.log" 2>&1; then
    step torch 110 python3 bench/gpu/baselines.py "${ceilings[@]}"
    note "PyTorch baselines: $(verdict $?), $(grep '^# ' "$out/torch.log" | cut -c3-)"
  else
    note "PyTorch baselines: not run, $(tail -n 1 "$out/torch.log" | cut -c1-80)"
  fi
fi

# ---- slow checks last, so that the limit of a lease takes them first ----
if wanted sanitizer; then
  say "compute-sanitizer"
  if [ ! -x "$build/device" ]; then
    note "compute-sanitizer: not run, no tests"
  elif ! command -v compute-sanitizer >/dev/null; then
    note "compute-sanitizer: not run, not installed"
  else
    for tool in memcheck racecheck initcheck synccheck; do
      step "sanitizer-$tool" 30 compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/device" \
        --test-case="*tensor cores*,*layouts*,*slots by expert*"
      status=$?
      if grep -qiE "not supported|unable to|failed to initialize" "$out/sanitizer-$tool.log"; then
        note "compute-sanitizer $tool: not run, $(grep -iE "not supported|unable to|failed to initialize" \
          "$out/sanitizer-$tool.log" | head -n 1 | tr -d '=' | cut -c1-80)"
      else
        note "compute-sanitizer $tool: $(verdict $status), $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' \
          "$out/sanitizer-$tool.log" | tail -n 1 | tr -d '=')"
      fi
    done
  fi
fi
if wanted ncu; then
  say "ncu"
  if command -v ncu >/dev/null; then
    step ncu 45 ncu --clock-control none --section SpeedOfLight --section MemoryWorkloadAnalysis --section Occupancy \
      --kernel-name-base demangled --kernel-name 'regex:(attention|grouped)_.*tensor' --launch-count 6 \
      "$build/kernels" "${ceilings[@]}"
    note "ncu: $(verdict $?), see ncu.log"
  else
    note "ncu: not run, not installed"
  fi
fi

# ---- the table ----
table="$out/$(date +%F)-$(echo "$name" | tr ' /' '--').md"
{
  echo "# $name, $(date +%F)"
  echo
  echo "Driver $driver, $("$nvcc" --version | grep -o 'release [0-9.]*'), headmix $(git log -1 --format=%h 2>/dev/null || echo '?')" \
    "$(git status --short 2>/dev/null | grep -q . && echo '(changed)')"
  echo
  cat "$notes"
  echo
  echo "Medians by events over three sets of buffers. B=8, T=2048, d=1024, heads of 128, 8 of 32 experts, bfloat16."
  echo "Floor: FLOPs at the rate of the 8192^3 product or bytes at the rate of the copy, whichever is longer."
  echo
  echo "| | what | us | TFLOP/s | floor us | floor / time |"
  echo "|---|---|---|---|---|---|"
  awk -F '\t' '{ printf "| %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5, $6 }' "$rows"
  echo
  awk -F '\t' '
    { us[$2] = $3 }
    function ratio(what, a, b) {
      if (us[a] > 0 && us[b] > 0) printf "| %s | %.2f |\n", what, us[a] / us[b]
    }
    END {
      print "| time of headmix over time of | ratio |\n|---|---|"
      split("all keys,causal", masks, ","); split("forward,forward and backward", passes, ",")
      split("cuDNN,flash", backends, ",")
      for (m = 1; m <= 2; ++m) for (p = 1; p <= 2; ++p) {
        ours = "MoA 8 of 32 x 128, " masks[m] ", " passes[p] ", graph"
        for (b = 1; b <= 2; ++b) {
          tail = ", " masks[m] ", " backends[b] ", " passes[p]
          ratio("dense 8 x 128 of PyTorch" tail, ours, "dense 8 x 128" tail)
          ratio("MoA as ScatterMoE" tail, ours, "MoA as ScatterMoE" tail)
        }
      }
      for (m = 1; m <= 2; ++m) for (b = 1; b <= 2; ++b)
        ratio("attention alone of PyTorch, " masks[m] ", " backends[b] ", forward", "attention, " masks[m], \
              "attention alone, " masks[m] ", " backends[b] ", forward")
    }' "$rows"
} >"$table"
rm -f "$build"/*.o
say "done"
cat "$table"
! grep -qE 'FAILED|DIFFER|does not compile' "$table"
