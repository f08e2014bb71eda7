# Makes the practice board anew: sh leaderboards/make_practice.sh NEW_DIR
#
# NEW_DIR must not be there. No key and no network is needed; it takes some minutes. Two systems are registered and run under the keys that
# the board draws, one is run under a key of its own, and one is registered by somebody who never uses its key. DAY sets the day.
set -eu

board=$1
day=${DAY:-$(date -u +%F)}
windows=W1,W3,W5,W7,W8,W9
division=blinded-open-research
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT

cat >"$runs/wishes.yaml" <<'YAML'
name: practice
title: Practice board
tasks: [blinded_open_research]
contact: practice@example.org
summary: For trying out how a submission is made. Its market is generated, so a rank here says nothing of any real market.
baselines: [builtin/equal_weight, builtin/random, builtin/linear_factor]
YAML
ktdeval leaderboard --on "$day" init "$board" --config "$runs/wishes.yaml" --windows "$windows"

# register MODEL NAME CONTACT: prints the id of the registration
register() {
  ktdeval leaderboard --on "$day" register --board "$board" --division "$division" --model "$1" --submitter "$2" --contact "$3" --json |
    sed -n 's/^ "id": "\([0-9a-f]*\)",$/\1/p'
}

# submit MODEL ATTEMPTS
submit() {
  ktdeval leaderboard --on "$day" submit "$runs/${1#builtin/}" --board "$board" --submitter "The ktdeval authors" --contact authors@example.org \
    --cutoff none --cutoff-source "a fixed rule: nothing was trained" --attempts "$2"
}

momentum=$(register builtin/momentum "The ktdeval authors" authors@example.org)
low_volatility=$(register builtin/low_volatility "The ktdeval authors" authors@example.org)
register builtin/chaos "A visitor" visitor@example.org
ktdeval leaderboard --on "$day" draw "$board"

ktdeval run --registration "$board/keys/$momentum.json" --out "$runs/momentum" --quiet
ktdeval run --registration "$board/keys/$low_volatility.json" --out "$runs/low_volatility" --quiet
ktdeval run --model builtin/reversal --tasks blinded_open_research --windows "$windows" --out "$runs/reversal" --quiet
submit builtin/momentum 2
submit builtin/low_volatility 2
submit builtin/reversal 1

ktdeval leaderboard --on "$day" baselines "$board"
ktdeval leaderboard --on "$day" check "$board"
