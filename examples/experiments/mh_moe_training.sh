#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Feed-forward networks of equal cost in training (Huang et al. 2024, tables 1 and 3):
#   mh_moe_training.sh <folder> <text>
# Trains one small language model with a dense network, a sparse mixture of experts, a fine-grained mixture, and MH-MoE
# with two and three sub-tokens, real and ternary, with three seeds each, and prints the validation losses. Per token
# all have the products of a dense network of 4 times the width, and mixtures have the parameters of 8 such networks, up
# to rounding and without routers. The logs and the table, table.md, go to the folder. The text is a file such as
# tinyshakespeare.txt.
# PROGRAM: headmix-lm, built with optimisation (default: that of the preset `demo`). STEPS, SEEDS, WEIGHTS, THREADS.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: mh_moe_training.sh <folder> <text>" >&2; exit 2; }
[ -r "$2" ] || { echo "mh_moe_training.sh: cannot read $2" >&2; exit 2; }
mkdir -p "$1"
program="${PROGRAM:-$(dirname "$0")/../../build/demo/examples/language_model/headmix-lm}"
[ -x "$program" ] || { echo "mh_moe_training.sh: no $program; build it, or set PROGRAM" >&2; exit 2; }
read -ra seeds <<<"${SEEDS:-1 2 3}"
read -ra weights <<<"${WEIGHTS:-real ternary}"
steps="${STEPS:-2000}"

# Two and three sub-tokens divide the width. Inner widths, and the numbers of experts of MH-MoE, are set by parity.
recipe=(--attention dense --heads 4 --width 96 --layers 4 --context 64 --batch 12 --steps "$steps"
  --warmup $((steps < 1000 ? steps / 10 : 100)) --threads "${THREADS:-2}" --sample 0)
models=(dense smoe fine mh2 mh3)
declare -A name=([dense]="dense" [smoe]="sparse mixture" [fine]="fine-grained mixture" [mh2]="MH-MoE, 2 sub-tokens"
  [mh3]="MH-MoE, 3 sub-tokens")
declare -A options=([dense]="--ffn dense" [smoe]="--ffn smoe --experts 8 --top-k 1"
  [fine]="--ffn smoe --experts 16 --top-k 2" [mh2]="--ffn mh_moe --split 2 --top-k 2"
  [mh3]="--ffn mh_moe --split 3 --top-k 3")
for seed in "${seeds[@]}"; do
  for w in "${weights[@]}"; do
    for model in "${models[@]}"; do
      start=$SECONDS
      run="$1/$model-$w-$seed"
      # shellcheck disable=SC2086 # the options are words
      "$program" --text "$2" "${recipe[@]}" ${options[$model]} --weights "$w" --seed "$seed" --report "$run" \
        >"$run.log" 2>"$run.err" || { cat "$run.err" >&2; exit 1; }
      echo "$model, $w weights, seed $seed: $((SECONDS - start)) s" >&2
    done
  done
done

# value <run> <key of the JSON>
value() { tail -n 1 "$1.log" | grep -o "\"$2\": [-+.0-9e]*" | cut -d ' ' -f 2; }
# losses <model> <weights>: the mean and that of each seed.
losses() {
  for seed in "${seeds[@]}"; do value "$1-$2-$seed" val_loss; done |
    awk '{ sum += $1; each = each sprintf(" %.4f", $1) } END { printf "%.4f (%s)", sum / NR, substr(each, 2) }'
}
{
  echo "headmix-lm ${recipe[*]}"
  echo "validation loss in nats per byte, mean (seeds ${seeds[*]})"
  echo
  printf '| network | experts, top k, inner width | parameters |'
  printf ' %s |' "${weights[@]/%/ weights}"
  printf '\n|---|---|---|'
  printf '%s' "${weights[@]/*/---|}"
  printf '\n'
  for model in "${models[@]}"; do
    run="$1/$model-${weights[0]}-${seeds[0]}"
    sizes="-"
    [ "$model" = dense ] || sizes="$(value "$run" ffn_experts), $(value "$run" ffn_top_k), $(value "$run" hidden)"
    printf '| %s | %s | %s |' "${name[$model]}" "$sizes" "$(value "$run" parameters)"
    for w in "${weights[@]}"; do printf ' %s |' "$(losses "$1/$model" "$w")"; done
    printf '\n'
  done
} | tee "$1/table.md"
