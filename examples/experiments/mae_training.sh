#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The effect of MAE's training (Peng et al. 2020, sections 3.2 and 5): mae_training.sh <folder> <text>.
# Trains one small language model by block coordinate descent (bcd), jointly (joint) and without a gate (uniform), with
# three seeds each, and prints the validation loss, the entropy of the gates and the loss with one expert alone. The
# logs and the table, table.md, go to the folder. The text is a file such as tinyshakespeare.txt.
# PROGRAM: headmix-lm, built with optimisation (default: that of the preset `demo`). STEPS, SEEDS, THREADS: numbers.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: mae_training.sh <folder> <text>" >&2; exit 2; }
[ -r "$2" ] || { echo "mae_training.sh: cannot read $2" >&2; exit 2; }
mkdir -p "$1"
program="${PROGRAM:-$(dirname "$0")/../../build/demo/examples/language_model/headmix-lm}"
[ -x "$program" ] || { echo "mae_training.sh: no $program; build it, or set PROGRAM" >&2; exit 2; }
read -ra seeds <<<"${SEEDS:-1 2 3}"

# The gate sees a hundred bytes of a sequence of 256.
recipe=(--attention mae --heads 8 --dropped 1 --pool window:100 --context 256 --batch 12 --layers 4 --width 128
  --steps "${STEPS:-300}" --threads "${THREADS:-2}" --sample 0)
for seed in "${seeds[@]}"; do
  for training in bcd joint uniform; do
    start=$SECONDS
    "$program" --text "$2" "${recipe[@]}" --training "$training" --seed "$seed" --report "$1/$training-$seed" \
      >"$1/$training-$seed.log" 2>"$1/$training-$seed.err" || { cat "$1/$training-$seed.err" >&2; exit 1; }
    echo "$training, seed $seed: $((SECONDS - start)) s" >&2
  done
done

# row <training> <key of the JSON>: the mean and the number of each seed.
row() {
  for seed in "${seeds[@]}"; do
    tail -n 1 "$1/$2-$seed.log" | grep -o "\"$3\": [-+.0-9e]*" | cut -d ' ' -f 2
  done | awk '{ sum += $1; each = each sprintf(" %.4f", $1) } END { printf "%.4f (%s)", sum / NR, substr(each, 2) }'
}
mean() { row "$@" | cut -d ' ' -f 1; }
{
  echo "headmix-lm ${recipe[*]}"
  echo "mean (seeds ${seeds[*]}), in nats; one expert: the most probable one of each sequence and layer, of uniform a"
  echo "drawn one"
  echo
  echo "| training | validation loss | entropy of the gates | validation loss, one expert |"
  echo "|---|---|---|---|"
  for training in bcd joint uniform; do
    echo "| $training | $(row "$1" $training val_loss) | $(row "$1" $training gate_entropy) |" \
      "$(row "$1" $training one_expert_val_loss) |"
  done
  echo
  awk -v b="$(mean "$1" bcd gate_entropy)" -v j="$(mean "$1" joint gate_entropy)" \
    -v u="$(mean "$1" uniform gate_entropy)" 'BEGIN {
      print "Entropies, expected bcd < joint < uniform = ln 8 = 2.0794: " (b < j && j < u ? "found" : "not found")
    }'
} | tee "$1/table.md"
