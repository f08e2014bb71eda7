#!/usr/bin/env bash
# Makes everything that docs/worked-example.md shows: six keyless models × W1…W10 × 5 seeds × 4 masks on the embedded market.
# Usage: tests/support/docs/worked-example.sh [FOLDER]; needs ktdeval[report] on the PATH; about a quarter of an hour on two cores.
set -euo pipefail
out=${1:-ktdeval-runs/worked-example}
tasks=bright_open_research,stock_blind_open_research,date_blind_open_research,blinded_open_research
mkdir -p "$out"

run() { ktdeval --model "builtin/$1" --tasks "$tasks" --windows 'W*' --seeds 5 --out "$out/$1" --quiet >"$out/$1.log"; }
export -f run
export out tasks
printf '%s\n' random equal_weight momentum reversal low_volatility chaos | xargs -P 2 -I{} bash -c 'run {}'

cards=()
for model in random equal_weight momentum reversal low_volatility chaos; do
    cards+=("$out/$model/cards/blinded_open_research.json")
done
ktdeval compare "${cards[@]}" >"$out/compare.txt"
ktdeval compare luck "${cards[@]}" --runs "$out" >"$out/luck.txt"
ktdeval compare masks "$out"/random/cards/*.json >"$out/effects-random.txt"
ktdeval compare masks "$out"/chaos/cards/*.json >"$out/effects-chaos.txt"
ktdeval compare power --windows 10 --seeds 5 --comparisons 15 >"$out/power.txt"
ktdeval view report "${cards[@]}" --out "$out/report.html"
