# Shared by `.ci/run` and `.ci/nightly`: steps that print their time, and checks that go on beside them.

names=()
seconds=()

# Begin a step, and print what the one before it took.
step() {
  finish_step
  begun=$SECONDS
  names+=("$1")
  printf '\n== %s\n' "$1"
}

finish_step() {
  if [ ${#names[@]} -gt ${#seconds[@]} ]; then
    seconds+=($((SECONDS - begun)))
    printf '   took %s\n' "$(minutes $((SECONDS - begun)))"
  fi
}

minutes() { printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); }

# The times of all steps, as the last lines of a log.
print_times() {
  finish_step
  printf '\n== times\n'
  local index
  for index in "${!names[@]}"; do
    printf '%10s  %s\n' "$(minutes "${seconds[index]}")" "${names[index]}"
  done
  printf '%10s  in all\n' "$(minutes "$SECONDS")"
}

# Run a check in the background: its log and whether it passed are files, which `report` reads.
aside() { # niceness, a check, its arguments
  local niceness=$1 name=$2
  renice -n "$niceness" "$BASHPID" >/dev/null
  "${@:2}" >"$work/$name.log" 2>&1
  touch "$work/$name.ok"
}

# Print the log of a check that went on aside. One that failed ends in its error.
report() {
  wait "$2" || true
  cat "$work/$1.log"
  [ -e "$work/$1.ok" ]
}

# Pages are tested in a real browser; where none is there and none can be installed, those tests skip and say so.
install_browser() {
  if [ ! -x /usr/bin/chromium ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium) >/dev/null 2>&1 || echo "chromium can't be installed here"
  fi
}

# A copy of the checkout, so that no test sees what is built there.
copy_checkout() {
  mkdir "$work/copy"
  git ls-files -z --cached --others --exclude-standard |
    tar --create --null --files-from=- --ignore-failed-read 2>/dev/null |
    tar --extract --directory="$work/copy"
}

site_packages() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# Install the wheel into an environment of its own: install_wheel CONSTRAINTS, a file that may be empty.
install_wheel() {
  (cd "$work/copy" && "$root/.venv/bin/python" -m build --no-isolation --outdir "$work/dist" .) >"$work/build.log" 2>&1 || {
    cat "$work/build.log"
    return 1
  }
  "$root/.venv/bin/python" -m venv "$work/venv"
  wheel_pip "$1" "$work"/dist/ktdeval-*.whl
}

wheel_pip() { "$work/venv/bin/python" -m pip --disable-pip-version-check --quiet install -c "$@"; }

# What a user does first with the wheel, away from the checkout.
try_wheel() {
  cd "$work"
  "$work/venv/bin/ktdeval" --version
  "$work/venv/bin/ktdeval" tasks
  "$work/venv/bin/ktdeval" --model builtin/momentum --tasks blinded_open_research --windows W1 --out "$work/run" --quiet
  "$work/venv/bin/ktdeval" card verify "$work/run/cards/blinded_open_research.json"
  "$work/venv/bin/ktdeval" --model builtin/chaos --tasks qfinzero_planning_live --limit 3 --out "$work/tools" --quiet
  "$work/venv/bin/ktdeval" card verify "$work/tools/cards/qfinzero_planning_live.json"
  cd "$root"
}
