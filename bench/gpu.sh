#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# All measurements of a GPU, in one run of less than ten minutes: bench/gpu.sh <folder>. It writes logs to the folder,
# and <date>-<gpu>.md, the table to commit under bench/results/. Exits with 77 and a message without a GPU, and with 1
# after an error.
#
# Needs nvcc and cuBLAS; the tests need doctest (DOCTEST_INCLUDE, or the folder of the CMake presets), times of layers
# PyTorch: rows of headmix and of PyTorch run in turn in one process (bench/gpu/baselines.py).
#
# JOBS: concurrent compilers. COMPILE_LIMIT: seconds for one source (280; with ONLY=build none). LIMIT: seconds for
# everything. COMMIT: the version of the sources, if git does not know it. ONLY: steps to run, of "tests determinism pairs
# racecheck ncu kernels mma sanitizer". OBJECTS: the folder of compiled objects, by hash of their preprocessed text, so
# that a later build compiles what has changed (<folder>/objects).
# BUILT: a folder with compiled programs; nothing is compiled then. If GPU time is scarce, compile them on another machine
# with the same nvcc, without a GPU, into <folder>/build and <folder>/build.tar.zst:
#
#   ONLY=build CAPABILITY=9.0 bench/gpu.sh <folder>
#
# which exits with 1 where a source does not compile, or where the archive has more than CARRY_LIMIT bytes (40 MiB).
#
# The table is written again after every step, so that an interrupted run keeps its results. The steps are in the order
# of what they decide. tests/cuda/script runs this script with fake tools.
#
# The folder holds more than eight files, and large programs in build/. If only a few files may be copied from the
# machine, use a temporary folder, and copy the table and an archive of the logs:
#
#   bench/gpu.sh /tmp/gpu; status=$?
#   cp /tmp/gpu/*-*-*.md "$to"; tar -C /tmp/gpu --exclude=./build --exclude=./objects -czf "$to/logs.tar.gz" .; exit $status
set -uo pipefail
[ $# -eq 1 ] || { echo "usage: bench/gpu.sh <folder>" >&2; exit 2; }
mkdir -p "$1" || exit 2
out="$(cd "$1" && pwd)"
cd "$(dirname "$0")/.." || exit 2
export PYTHONUNBUFFERED=1

if [ "${ONLY:-}" = build ]; then
  gpu="no GPU, ${CAPABILITY:?the compute capability to build for, such as 9.0}, none"
else
  gpu="$(timeout 20 nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
fi
case "$gpu" in
  *,*,*) ;;
  *) echo "bench/gpu.sh: skipped, no GPU (nvidia-smi finds none)"; exit 77 ;;
esac
IFS=, read -r name capability driver <<<"$gpu"
name="${name# }" capability="${capability// /}" driver="${driver// /}"
nvcc="$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)"
[ -n "$nvcc" ] || [ -n "${BUILT:-}" ] || { echo "bench/gpu.sh: skipped, no nvcc"; exit 77; }
release="$("$nvcc" --version 2>/dev/null | grep -o 'release [0-9.]*')"
toolkit="$(dirname "$(dirname "$(readlink -f "$nvcc")")")"
for folder in "$(dirname "$nvcc")" "$toolkit/bin" "$toolkit/compute-sanitizer" /opt/nvidia/nsight-compute/*/; do
  [ -d "$folder" ] && PATH="$PATH:${folder%/}"
done
commit="${COMMIT:-$(git log -1 --format=%h 2>/dev/null || echo '?')}"
[ -z "$(git status --short 2>/dev/null)" ] || commit+=" (changed)"

steps="${ONLY:-tests determinism pairs racecheck ncu kernels mma sanitizer}"
wanted() { case " $steps " in *" $1 "*) true ;; *) false ;; esac; }
say() { printf '=== %s (after %d s)\n' "$1" "$SECONDS"; }
rows="$out/rows.jsonl" notes="$out/notes.md" wrong=0
: >"$rows"
: >"$notes"
note() { echo "- $1" | tee -a "$notes"; publish; }
# step <log> <seconds> command...: all output into the log.
step() {
  local log="$out/$1.log" limit="$2" left=$((${LIMIT:-570} - SECONDS))
  shift 2
  [ "$left" -lt "$limit" ] && limit="$left"
  [ "$limit" -ge 5 ] || { echo "no time left" >"$log"; return 124; }
  timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1
}
# measure: a step whose output has rows for the table.
measure() {
  local status
  step "$@"
  status=$?
  grep '^{' "$out/$1.log" >>"$rows"
  return $status
}
# reason <file>: the first line with an error, or else the last line.
reason() {
  local errors='ERROR:|[Ee]rror ?:|fatal|DIFFER|undefined reference|Invalid |Uninitialized|hazard'
  { grep -m 1 -E "$errors" "$1" || tail -n 1 "$1"; } 2>/dev/null | cut -c1-160
}
# conclude <what> <log> <exit status> [more]: records the result of a step.
conclude() {
  case "$3" in
    0) note "$1: passed${4:+, $4}" ;;
    77) note "$1: skipped, $(reason "$out/$2.log")" ;;
    124 | 137) note "$1: not finished in time${4:+, $4}" ;;
    *) note "$1: FAILED ($3)${4:+, $4}: $(reason "$out/$2.log")"; wrong=1 ;;
  esac
}
# must: concludes a step that must pass within its time limit.
must() {
  conclude "$@"
  [ "$3" -eq 0 ] || wrong=1
}

# The table, written again after every result, so that an interrupted run keeps its results.
table="$out/$(date +%F)-$(echo "$name" | tr ' /' '--').md"
publish() {
  echo "# $name, $(date +%F)"
  echo
  echo "Driver $driver, $release, headmix $commit"
  echo
  cat "$notes"
  echo
  echo "Pairs: 15 turns, A B, B A, A B, ..., in one process and on one stream; the ratio is the median of the turns' ratios,"
  echo "in brackets the quartiles; the clock of an SM is measured before every turn. Medians by events; what takes less than"
  echo "30 us is timed by ten at a time. 16,384 tokens, T=2048 where a row says nothing else, d=1024, 8 of 32 experts,"
  echo "bfloat16; MoH: 16 heads of 64, and B=4 for its kernels; 32/8 x 128: the attention of a LLaMA 3 of 8B parameters,"
  echo "causal sequences; MH-MoE: 4096 or 65,536 tokens, d=768, 3 sub-tokens; MoE: 4096 tokens, d=512. A graph always works"
  echo "on the first of three sets of buffers. Rows 'in L2': all three sets together fit in the second-level cache."
  echo "Floor: FLOPs at the rate of the 8192^3 product or bytes at the rate of the copy, whichever is longer. FLOPs of"
  echo "forward and backward: 3 times those of the products, 3.5 times those of attention. PyTorch's layers with 'rows sorted"
  echo "and expanded' gather a copy of the rows for every expert, multiply them by grouped products and put the results back"
  echo "in order."
  echo
  "$build/table" "$rows" || cat "$rows" # print the rows if the table fails
} >"$table"

say "environment"
{
  timeout 20 nvidia-smi
  timeout 20 nvidia-smi -q -d CLOCK
  "$nvcc" --version
  lscpu | grep -E "Model name|^CPU\(s\)"
  echo "$commit"
  git log -1 --format='%H %cd' 2>/dev/null
  git status --short 2>/dev/null
} >"$out/environment.log" 2>&1

# ---- build, all at once ----
case "$capability" in
  9.0) architecture=90a ;;
  *) architecture="${capability/./}" ;;
esac
# The cuBLAS of a Python package, such as PyTorch's: in_packages <name of a file>
in_packages() {
  local packages
  packages="$(timeout 20 python3 -c 'import nvidia; print(*nvidia.__path__, sep="\n")' 2>/dev/null)"
  find $packages -name "$1" 2>/dev/null | head -n 1
}
build_programs() {
  # On the host, and first: all rows go through this program.
  "${CXX:-c++}" -std=c++20 -O1 -Iinclude bench/gpu/table.cpp -o "$build/table" >"$out/table.log" 2>&1 ||
    { note "does not compile: bench/gpu/table.cpp: $(reason "$out/table.log")"; wrong=1; }
  # cuBLAS of the toolkit, or else of a Python package.
  blas=(-lcublas) blas_headers=()
  echo '#include <cublas_v2.h>' >"$build/cublas.cu"
  if ! "$nvcc" -E "$build/cublas.cu" >/dev/null 2>"$out/build.log"; then
    local header library
    header="$(in_packages cublas_v2.h)" library="$(in_packages 'libcublas.so*')"
    if [ -z "$header" ] || [ -z "$library" ]; then
      echo "bench/gpu.sh: skipped, neither $nvcc nor a Python package has cublas_v2.h: cuBLAS with its headers is needed"
      exit 77
    fi
    blas_headers=(-isystem "$(dirname "$header")")
    blas=("$library" -Xlinker "-rpath,$(dirname "$library")")
    note "cuBLAS: $library"
  fi
  flags=(-std=c++20 -O1 -gencode "arch=compute_$architecture,code=sm_$architecture" -Xfatbin -compress-all -Xcompiler -fPIC
    -Iinclude -Itests ${blas_headers[@]+"${blas_headers[@]}"})
  doctest="${DOCTEST_INCLUDE:-}"
  for folder in /usr/include /usr/local/include build/_deps/doctest/include build/_deps/doctest; do
    [ -z "$doctest" ] && [ -f "$folder/doctest/doctest.h" ] && doctest="$folder"
  done
  sources=(bench/gpu/*.cu)
  if [ -n "$doctest" ]; then
    [ "$doctest" = /usr/include ] || flags+=(-isystem "$doctest")
    sources+=(tests/cuda/device/*.cu tests/cuda/device/*.cpp "${racecheck[@]}")
  else
    note "tests: not built, no doctest (set DOCTEST_INCLUDE)"
  fi
  # On Hopper the kernels of other GPUs, too.
  [ "$architecture" != 90a ] || sources+=(bench/gpu/kernels.cu@mma)
  mkdir -p "$objects"
  rm -f "$build"/*.o "$build"/*.log "$build/failed"
  local source program
  for source in "${sources[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-$(nproc)}" ]; do wait -n; done
    compile "$source" &
  done
  wait
  for source in $(cat "$build/failed" 2>/dev/null); do
    note "does not compile: $source: $(reason "$(object "$source").log")"
    wrong=1
  done
  # If the toolkit is not in the folders of the dynamic linker.
  paths=()
  for folder in "$toolkit/lib64" "$toolkit/lib"; do
    [ -d "$folder" ] && paths+=(-Xlinker "-rpath,$folder")
  done
  for program in ceilings kernels heads; do
    link "$program" "$(object "bench/gpu/$program.cu")"
  done
  for program in "${units[@]}"; do
    link "$program" "$(object "bench/gpu/$program.cu")"
    link "$program.so" -shared "$(object "bench/gpu/$program.cu")"
  done
  [ "$architecture" != 90a ] || link kernels@mma "$(object bench/gpu/kernels.cu@mma)"
  if [ -n "$doctest" ]; then
    tests=()
    for source in tests/cuda/device/*.cu tests/cuda/device/*.cpp; do
      [ -f "$(object "$source")" ] && tests+=("$(object "$source")") # sources that do not compile are recorded above
    done
    link device "${tests[@]}"
    tests=("$(object tests/cuda/device/main.cpp)")
    for source in "${racecheck[@]}"; do tests+=("$(object "$source")"); done
    link device@racecheck "${tests[@]}"
  fi
  cat "$build"/*.log >>"$out/build.log"
  rm -f "$build"/*.o
  note "built for sm_$architecture in $SECONDS s"
}
object() { echo "$build/$(echo "${1/.cu/}" | tr / - | sed 's/\.cpp$//').o"; }
compile() { # one source
  local with=() kept
  case "$1" in
    *@mma) with=(-DHEADMIX_CUDA_WARPGROUPS=0 '-DHEADMIX_BENCH_DEVICE="mma.sync"') ;;
    *@racecheck) with=(-DHEADMIX_CUDA_RACECHECK=1) ;;
  esac
  with+=("${flags[@]}")
  kept="$objects/$({ echo "$release ${with[*]}"; "$nvcc" "${with[@]}" -E "${1%@*}" 2>/dev/null; } | sha256sum | cut -c1-32).o"
  if [ ! -s "$kept" ]; then
    timeout "${COMPILE_LIMIT:-$default_limit}" "$nvcc" "${with[@]}" -c "${1%@*}" -o "$kept.$$" \
      >"$(object "$1").log" 2>&1 || { rm -f "$kept.$$"; echo "$1" >>"$build/failed"; return; }
    mv "$kept.$$" "$kept"
  fi
  cp "$kept" "$(object "$1")"
}
link() { # program [-shared] objects...
  local program="$build/$1" object
  rm -f "$program"
  shift
  for object; do [ "$object" = -shared ] || [ -f "$object" ] || return; done # recorded above
  "$nvcc" "$@" -o "$program" ${paths[@]+"${paths[@]}"} "${blas[@]}" >"$program.log" 2>&1 ||
    { note "does not link: ${program##*/}: $(reason "$program.log")"; wrong=1; return; }
  strip "$program" 2>/dev/null || true
}
build="${BUILT:-$out/build}" objects="${OBJECTS:-$out/objects}" default_limit=280
[ "${ONLY:-}" != build ] || default_limit=0 # nobody waits for a machine without a GPU
# Rows of layers, in the order of what they decide.
units=(moh_llama attention moa mh_moe decode moh moa_64)
racecheck=(tests/cuda/device/warpgroups.cu@racecheck)
mkdir -p "$build"
if [ -z "${BUILT:-}" ]; then
  say "build"
  build_programs
elif ldd "$build/kernels" 2>/dev/null | grep -q 'libcublas.*not found'; then
  library="$(in_packages 'libcublas.so*')"
  export LD_LIBRARY_PATH="$(dirname "$library")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  note "cuBLAS: $library"
fi
if [ ! -x "$build/ceilings" ]; then
  echo "bench/gpu.sh: the programs do not build; see $out/build.log"
  exit 1
fi
if [ "${ONLY:-}" = build ]; then
  tar --zstd --exclude='*.log' --exclude='*.cu' -C "$out" -cf "$out/build.tar.zst" build
  bytes="$(stat -c %s "$out/build.tar.zst")"
  echo "$out/build.tar.zst: $bytes bytes"
  if [ "$bytes" -gt "${CARRY_LIMIT:-41943040}" ]; then
    echo "bench/gpu.sh: the archive has $bytes bytes, expected at most ${CARRY_LIMIT:-41943040}"
    wrong=1
  fi
  exit $wrong
fi

# ---- correctness before speed ----
say "ceilings"
measure ceilings 60 "$build/ceilings"
conclude "ceilings" ceilings $?
mapfile -t ceilings < <(grep '^--' "$out/ceilings.log")

# Each test runs in its own process, several at a time: a test that hangs or crashes does not stop the others.
# apart <log> <what>: "passed" for each, or the reason; 1 if one failed.
apart() {
  local log="$out/$1.log" what="$2" folder="$out/$1" n=0 name left=$((${LIMIT:-570} - SECONDS))
  mkdir -p "$folder"
  "$build/device" --list-test-cases | grep -vE '^(\[doctest\]|=+$)' >"$folder/names"
  while read -r name; do
    n=$((n + 1))
    while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-8}" ]; do wait -n; done
    {
      timeout --kill-after=5 "$((left < 60 ? left : 60))" "$build/device" "--test-case=${name//,/\\,}" \
        >"$folder/$n.log" 2>&1
      status=$?
      if [ $status -eq 0 ]; then echo "passed: $name"; else
        echo "FAILED ($status): $name: $(grep -m 1 -E 'ERROR:|headmix' "$folder/$n.log" | cut -c1-200) ($1/$n.log)"
      fi >>"$folder/results"
    } &
  done <"$folder/names"
  wait
  sort "$folder/results" >"$log"
  ! grep -q ^FAILED "$log" && return
  grep ^FAILED "$log" | while read -r name; do note "$name"; done
  return 1
}
if wanted tests; then
  say "tests"
  if [ -x "$build/device" ]; then
    step calibration 30 "$build/device" --test-case="*layouts*"
    must "the emulator's layouts against the device" calibration $?
    apart tests "tests on the device"
    must "tests on the device" tests $? "$(grep -c ^passed "$out/tests.log") of $(wc -l <"$out/tests.log")"
  else
    note "tests: not run, not built"
  fi
fi
if wanted determinism; then
  say "determinism" # concurrently: comparing on the host takes longest
  layers=(moa moa_64 moh moh_llama mh_moe)
  for layer in "${layers[@]}"; do
    [ -x "$build/$layer" ] || continue
    { step "determinism-$layer" 60 "$build/$layer" --check; echo $? >"$out/determinism-$layer.status"; } &
  done
  wait
  for layer in "${layers[@]}"; do
    if [ -x "$build/$layer" ]; then
      grep '^{' "$out/determinism-$layer.log" >>"$rows"
      must "20 passes of two layers, $layer, bit by bit" "determinism-$layer" "$(cat "$out/determinism-$layer.status")"
    else
      note "determinism, $layer: not run, its program does not build"
    fi
  done
fi

# ---- speed ----
if wanted pairs; then
  say "layers, in turn"
  libraries=()
  for program in "${units[@]}"; do
    [ -f "$build/$program.so" ] && libraries+=("$build/$program.so")
  done
  if [ ${#libraries[@]} -eq 0 ]; then
    note "layers: not run, not built"
  elif step torch-import 60 python3 -c 'import torch; assert torch.cuda.is_available()'; then
    measure pairs "${PAIRS_LIMIT:-200}" python3 bench/gpu/baselines.py "${ceilings[@]}" \
      --seconds="$((${PAIRS_LIMIT:-200} - 10))" "${libraries[@]}"
    conclude "layers, in turn with PyTorch's and each other" pairs $? "$(grep '^# ' "$out/pairs.log" | cut -c3-)"
  else
    note "PyTorch: not run, $(tail -n 1 "$out/torch-import.log" | cut -c1-160)"
    for program in "${units[@]}"; do
      [ -x "$build/$program" ] || continue
      measure "layers-$program" 60 "$build/$program" --times "${ceilings[@]}"
      conclude "layers, $program, alone" "layers-$program" $?
    done
  fi
fi
if wanted racecheck; then
  say "racecheck"
  if [ ! -x "$build/device@racecheck" ] || ! command -v compute-sanitizer >/dev/null; then
    note "racecheck of products for warpgroups: not run, not built or not installed"
  else
    step racecheck 60 compute-sanitizer --tool racecheck --error-exitcode 1 "$build/device@racecheck" \
      --test-case="*grouped_gemm*"
    conclude "racecheck of products for warpgroups, all lanes arriving" racecheck $? \
      "$(grep -E 'RACECHECK SUMMARY' "$out/racecheck.log" | tail -n 1 | tr -d '=')"
  fi
fi
# ---- profiles ----
if wanted ncu; then
  say "ncu"
  # profile <program> <log> <part of the row's name> <the kernel>: one launch, after three to warm up.
  profile() {
    [ -x "$build/$1" ] || return
    step "$2" 45 ncu --clock-control none --section SpeedOfLight --section MemoryWorkloadAnalysis --section Occupancy \
      --section WarpStateStats --section SchedulerStats --section ComputeWorkloadAnalysis --section LaunchStats \
      --kernel-name-base demangled --kernel-name "regex:$4" --launch-skip 3 --launch-count 1 --kill yes \
      "$build/$1" --only="$3"
    local status=$? log="$out/$2.log"
    if grep -q '^ *Duration' "$log"; then # killed on purpose, with any exit status
      note "ncu, $3, $1: see $2.log"
    else
      note "ncu, $3, $1: no profile ($status), $(reason "$log")"
    fi
  }
  if ! command -v ncu >/dev/null; then
    note "ncu: not run, not installed"
  else
    profile kernels ncu-queries "queries: gather-GEMM" 'grouped_gemm'
    profile kernels ncu-attention "attention, causal" 'run<.*attention_(warpgroups|tensor)'
    profile kernels ncu-router "router: logits, softmax and top-k" 'route_tensor'
    profile kernels ncu-key-gradient "backward: attention, causal" 'attention_key_gradient'
    profile kernels ncu-query-gradient "backward: attention, causal" 'attention_query_gradient'
    profile kernels ncu-sum "output: sum over the experts, in" 'grouped_(sum|gemm)'
  fi
fi

for program in kernels heads; do
  if wanted kernels && [ -x "$build/$program" ]; then
    say "$program"
    measure "$program" 60 "$build/$program" "${ceilings[@]}"
    conclude "$program" "$program" $?
  fi
done
# The kernels of other GPUs on Hopper show the gain of its own instructions.
if wanted mma && [ "$architecture" = 90a ] && [ -x "$build/kernels@mma" ]; then
  say "kernels, mma.sync"
  measure kernels-mma 60 "$build/kernels@mma" "${ceilings[@]}"
  conclude "kernels, mma.sync" kernels-mma $?
fi

# ---- slow checks last, so that a time limit drops them first ----
if wanted sanitizer; then
  say "compute-sanitizer"
  if [ ! -x "$build/device" ]; then
    note "compute-sanitizer: not run, no tests"
  elif ! command -v compute-sanitizer >/dev/null; then
    note "compute-sanitizer: not run, not installed"
  else
    for tool in memcheck racecheck initcheck synccheck; do
      step "sanitizer-$tool" 75 compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/device" \
        --test-case="*tensor cores*,*layouts*,*slots by*" --test-case-exclude="MoA*,MoH*,MH-MoE*"
      status=$?
      refusal="$(grep -m 1 -iE "not supported|unable to|failed to initialize" "$out/sanitizer-$tool.log")"
      if [ -n "$refusal" ]; then
        note "compute-sanitizer $tool: not run, $(echo "$refusal" | tr -d '=' | cut -c1-160)"
      else
        summary="$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/sanitizer-$tool.log" | tail -n 1 | tr -d '=')"
        conclude "compute-sanitizer $tool" "sanitizer-$tool" $status "${summary# }"
      fi
    done
  fi
fi

publish
say "done"
cat "$table"
exit $wrong
