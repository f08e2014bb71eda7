#!/bin/bash
# A grid on machines that ssh reaches: ./ssh.sh HOSTS PLAN.yaml FOLDER
#
# HOSTS has a machine a line. PLAN.yaml and FOLDER have the same path on each, on a file system that
# they share. Run it again after a failure: it goes on.
set -uo pipefail

hosts=${1:?say: ./ssh.sh HOSTS PLAN.yaml FOLDER}
plan=${2:?say: ./ssh.sh HOSTS PLAN.yaml FOLDER}
folder=${3:?say: ./ssh.sh HOSTS PLAN.yaml FOLDER}

mapfile -t machines < <(grep -v -e '^#' -e '^[[:space:]]*$' "$hosts")
shards=${#machines[@]}
if [ "$shards" = 0 ]; then
  echo "$hosts: no machine in it; write one a line" >&2
  exit 2
fi

# With -tt the worker gets a hang-up when this script ends, and stops after the step under way.
workers=()
for index in "${!machines[@]}"; do
  command=$(printf '%q ' ktdeval grid worker "$plan" --out "$folder" --shard "$((index + 1))/$shards")
  ssh -tt -o BatchMode=yes "${machines[$index]}" "$command" </dev/null &
  workers+=($!)
done

failed=0
for index in "${!machines[@]}"; do
  if ! wait "${workers[$index]}"; then
    echo "${machines[$index]}: its worker failed; see above, then run the same command again" >&2
    failed=1
  fi
done

exit "$failed"
