#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Dense attention and MoH (Jin et al. 2024, 75 % of the heads) in a diffusion transformer on drawn shapes:
# diffusion.sh <folder>. Three seeds each; the loss on images that no training saw, the Fréchet distance of samples to
# drawn shapes in pixels, the share of samples nearest to a drawn shape of their class, and images per second. The logs
# and the table, table.md, go to the folder.
# PROGRAM: headmix-diffusion, built with optimisation (default: that of the preset `demo`). STEPS, SEEDS, THREADS.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: diffusion.sh <folder>" >&2; exit 2; }
mkdir -p "$1"
program="${PROGRAM:-$(dirname "$0")/../../build/demo/examples/diffusion/headmix-diffusion}"
[ -x "$program" ] || { echo "diffusion.sh: no $program; build it, or set PROGRAM" >&2; exit 2; }
read -ra seeds <<<"${SEEDS:-1 2 3}"

recipe=(--blocks 6 --batch 64 --steps "${STEPS:-3000}" --samples 512 --threads "${THREADS:-2}")
for seed in "${seeds[@]}"; do
  for kind in dense moh; do
    start=$SECONDS
    "$program" --attention "$kind" "${recipe[@]}" --seed "$seed" --pictures "$1/$kind-$seed.pgm" \
      >"$1/$kind-$seed.log" 2>"$1/$kind-$seed.err" || { cat "$1/$kind-$seed.err" >&2; exit 1; }
    echo "$kind, seed $seed: $((SECONDS - start)) s" >&2
  done
done

# row <kind> <key of the JSON>: the mean and the number of each seed.
row() {
  for seed in "${seeds[@]}"; do
    tail -n 1 "$folder/$1-$seed.log" | grep -o "\"$2\": [-+.0-9e]*" | cut -d ' ' -f 2
  done | awk '{ sum += $1; each = each " " $1 } END { printf "%.4g (%s)", sum / NR, substr(each, 2) }'
}
folder="$1"
{
  echo "headmix-diffusion ${recipe[*]}"
  echo "mean (seeds ${seeds[*]})"
  echo
  echo "| attention | loss | Fréchet distance | nearest of its class | images/s, training | parameters |"
  echo "|---|---|---|---|---|---|"
  for kind in dense moh; do
    echo "| $kind | $(row $kind loss) | $(row $kind frechet) | $(row $kind nearest_of_class) |" \
      "$(row $kind images_per_s) | $(row $kind parameters | cut -d ' ' -f 1) |"
  done
  echo
  awk '/^Fr|^nearest/ { print "drawn shapes, " $0 }' "$folder/dense-${seeds[0]}.log"
} | tee "$folder/table.md"
