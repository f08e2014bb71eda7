# Makes the practice board anew: sh leaderboards/make_practice.sh NEW_DIR [small|large]
#
# small (the default): the board of this repository, which shows each kind of entrant and baseline once.
# large: five doses of memory, registered rules with market impact too, and every trained baseline. It takes about half an hour.
#
# NEW_DIR must not be there. No key and no network is needed. DAY sets the day.
#
# Trained baselines come from the folder ktdeval-models of the working folder: `ktdeval train qlib qlib/linear --data synthetic` makes the one
# of the small board, and 'qlib/*' instead those of the large one, which need the extra `qlib`. Each that the board has is registered, run
# and submitted; without the folder there are none. Checking them needs no extra, as their predictions are recorded. PYTHON is a Python with
# the extra, where it is another one.
#
# Baselines are run again by the check, so that the board stores no records of them. Entrants are executed again from their records: two
# rules that were registered and ran under drawn keys, one under a key of its own, and the trained ones in the division with costs. One
# rule is registered by somebody who never uses its key.
set -eu

help() {
  sed -n '/^#/!q; s/^# \{0,1\}//p' "$0"
}

case "${1:-}" in
-h | --help)
  help
  exit 0
  ;;
'' | -*)
  help >&2
  exit 2
  ;;
esac

case "${2:-small}" in
small)
  doses="0.2 0.9"
  trained=linear
  costly_rules=
  ;;
large)
  doses="0.01 0.05 0.2 0.5 0.9"
  trained='*'
  costly_rules="momentum low_volatility"
  ;;
*)
  help >&2
  exit 2
  ;;
esac

board=$1
day=${DAY:-$(date -u +%F)}
python=${PYTHON:-}
windows=W1,W2,W3,W4,W5,W6,W7,W8,W9,W10
free=blinded-open-research
costly=blinded-open-research-sqrt
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT

cat >"$runs/wishes.yaml" <<'YAML'
name: practice
title: Practice board
tasks: [blinded_open_research, blinded_open_research_sqrt]
contact: practice@example.org
summary: For trying out how a submission is made. Its market is generated, so a rank here says nothing of any real market.
most_registrations: 40
baselines:
  - builtin/equal_weight
  - builtin/random
  - builtin/linear_factor
YAML
for dose in $doses; do
  echo "  - builtin/memory(recall=$dose)" >>"$runs/wishes.yaml"
done
ktdeval leaderboard --on "$day" init "$board" --config "$runs/wishes.yaml" --windows "$windows"

# Two seeds over ten windows are twenty episodes of a random trader; ten seeds would be a third of the board.
sed 's/seeds: \[0, 1, 2, 3, 4, 5, 6, 7, 8, 9\]/seeds: [0, 1]/' "$board/board.yaml" >"$runs/board.yaml"
mv "$runs/board.yaml" "$board/board.yaml"

# register DIVISION MODEL NAME CONTACT: prints the id of the registration
register() {
  ${python:+"$python" -m} ktdeval leaderboard --on "$day" register --board "$board" --division "$1" --model "$2" --submitter "$3" --contact "$4" --json |
    sed -n 's/^ "id": "\([0-9a-f]*\)",$/\1/p'
}

# submit RUN ATTEMPTS CUTOFF SOURCE
submit() {
  ktdeval leaderboard --on "$day" submit "$runs/$1" --board "$board" --submitter "The ktdeval authors" --contact authors@example.org \
    --cutoff "$3" --cutoff-source "$4" --attempts "$2"
}

momentum=$(register $free builtin/momentum "The ktdeval authors" authors@example.org)
low_volatility=$(register $free builtin/low_volatility "The ktdeval authors" authors@example.org)
register $free builtin/chaos "A visitor" visitor@example.org

: >"$runs/costly_rules"
for name in $costly_rules; do
  echo "$name $(register $costly "builtin/$name" "The ktdeval authors" authors@example.org)" >>"$runs/costly_rules"
done

: >"$runs/trained"
for folder in ktdeval-models/$trained/; do
  if [ -d "$folder" ]; then
    name=$(basename "$folder")
    echo "$name $(register $costly "qlib/$name" "The ktdeval authors" authors@example.org)" >>"$runs/trained"
  fi
done
ktdeval leaderboard --on "$day" draw "$board"

rule="a fixed rule: nothing was trained"
ktdeval run --registration "$board/keys/$momentum.json" --out "$runs/momentum" --concurrency 2 --quiet
ktdeval run --registration "$board/keys/$low_volatility.json" --out "$runs/low_volatility" --concurrency 2 --quiet
ktdeval run --model builtin/reversal --tasks blinded_open_research --windows "$windows" --out "$runs/reversal" --concurrency 2 --quiet
attempts=$(ls "$board/registrations" | wc -l)
for run in momentum low_volatility reversal; do
  submit "$run" "$attempts" none "$rule"
done

while read -r name id; do
  ktdeval run --registration "$board/keys/$id.json" --out "$runs/costly_$name" --concurrency 2 --quiet
  submit "costly_$name" "$attempts" none "$rule"
done <"$runs/costly_rules"

while read -r name id; do
  ${python:+"$python" -m} ktdeval run --registration "$board/keys/$id.json" --out "$runs/$name" --concurrency 2 --quiet
  submit "$name" "$attempts" 2023-12-29 "trained on the market's days before 2024, by ktdeval train qlib"
done <"$runs/trained"

ktdeval leaderboard --on "$day" baselines "$board" --concurrency 2
ktdeval leaderboard --on "$day" check "$board"
