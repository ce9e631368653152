#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Translation with dense attention, mixtures of attention heads (Zhang et al. 2022, table 1) and mixtures of attentive
# experts (Peng et al. 2020, table 1), on a small scale: translation.sh <folder> <corpus>.
# Trains one small encoder-decoder with each kind of attention and three seeds, and prints BLEU of the test part,
# perplexity of the validation part and tokens per second of CPU time. The products of queries and of outputs are as
# many for all kinds: 8 heads of an eighth of the width, 4 of 8 experts of a quarter of it. The logs and the table,
# table.md, go to the folder. The corpus is a folder of gettext catalogues, such as that of libreoffice-l10n-de.
# PROGRAM: headmix-translate, built with optimisation (default: that of the preset `demo`). STEPS, SEEDS: numbers.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: translation.sh <folder> <corpus>" >&2; exit 2; }
[ -r "$2" ] || { echo "translation.sh: cannot read $2" >&2; exit 2; }
mkdir -p "$1"
program="${PROGRAM:-$(dirname "$0")/../../build/demo/examples/translation/headmix-translate}"
[ -x "$program" ] || { echo "translation.sh: no $program; build it, or set PROGRAM" >&2; exit 2; }
read -ra seeds <<<"${SEEDS:-1 2 3}"

recipe=(--layers 2 --width 96 --hidden 192 --vocabulary 1500 --longest 32 --batch 500 --steps "${STEPS:-1600}"
  --warmup 200 --lr 4e-3)
kinds=(dense moa mae)
declare -A name=([dense]="dense" [moa]="MoA, 4 of 8 experts" [mae]="MAE-7, block coordinate descent")
declare -A options=([dense]="--heads 8" [moa]="--experts 8 --top-k 4" [mae]="")
for seed in "${seeds[@]}"; do
  for kind in "${kinds[@]}"; do
    start=$SECONDS
    run="$1/$kind-$seed"
    # shellcheck disable=SC2086 # the options are words
    "$program" --corpus "$2" "${recipe[@]}" --attention "$kind" ${options[$kind]} --seed "$seed" --save "$run" \
      >"$run.log" 2>"$run.err" || { cat "$run.err" >&2; exit 1; }
    echo "$kind, seed $seed: $((SECONDS - start)) s" >&2
  done
done

# row <kind> <key of the JSON>: the mean and the number of each seed.
row() {
  for seed in "${seeds[@]}"; do
    tail -n 1 "$1/$2-$seed.log" | grep -o "\"$3\": [-+.0-9e]*" | cut -d ' ' -f 2
  done | awk -v form="$4" '{ sum += $1; each = each sprintf(" " form, $1) }
    END { printf form " (%s)", sum / NR, substr(each, 2) }'
}
mean() { row "$@" | cut -d ' ' -f 1; }
{
  echo "headmix-translate ${recipe[*]}"
  echo "mean (seeds ${seeds[*]})"
  echo
  echo "| attention | BLEU, test | perplexity, validation | tokens/s of CPU time | parameters |"
  echo "|---|---|---|---|---|"
  for kind in "${kinds[@]}"; do
    echo "| ${name[$kind]} | $(row "$1" "$kind" bleu %.2f) | $(row "$1" "$kind" valid_perplexity %.2f) |" \
      "$(mean "$1" "$kind" tokens_per_s %.0f) | $(mean "$1" "$kind" parameters %.0f) |"
  done
} | tee "$1/table.md"
