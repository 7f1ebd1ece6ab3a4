#!/usr/bin/env bash
# The libFuzzer targets; needs clang and libclang-rt-14-dev.
#   scripts/fuzz.sh [SECONDS [TARGET...]]   runs each for so long (60), from its seeds, the committed corpus
#                                           (tests/fuzz/corpus) and what earlier runs found
#   scripts/fuzz.sh merge [TARGET...]       makes the committed corpora anew: the few small inputs of the three that
#                                           reach most beyond the seeds
# The others go on after one has failed. What runs find stays in $OCM_FUZZ_CORPUS (.cache/fuzz, which git ignores and
# `make clean` leaves there).
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-60}
shift || true
scripts/need.sh clang libclang-rt-14-dev
if [ $# -eq 0 ]; then set -- frame control values units catalogue config connection program node; fi
scripts/build.sh fuzz "${@/%/_fuzz}"
folder=build/fuzz/tests/fuzz
found=${OCM_FUZZ_CORPUS:-.cache/fuzz}

# The inputs in the folders $3... that reach what the seeds of $1 do not, the most first, into the empty folder $2.
choose() {
  local target=$1 into=$2 scratch
  shift 2
  scratch=$(mktemp -d)
  mkdir "$scratch/seeds" "$scratch/all"
  "$target" --write-seeds "$scratch/seeds"
  cp -r "$scratch/seeds" "$scratch/chosen"
  for each in "$@"; do
    if [ -d "$each" ]; then find "$each" -type f -size -3k -exec cp -t "$scratch/all" {} +; fi
  done
  "$target" -set_cover_merge=1 "$scratch/chosen" "$scratch/all" >"$scratch/log" 2>&1 || { tail -40 "$scratch/log"; exit 1; }
  local bytes=0 count=0 size
  while read -r file; do
    if [ -e "$scratch/seeds/$file" ]; then continue; fi
    size=$(stat -c %s "$scratch/chosen/$file")
    if [ $((bytes + size)) -gt 12288 ] || [ "$count" -ge 30 ]; then continue; fi
    bytes=$((bytes + size)) count=$((count + 1))
    cp "$scratch/chosen/$file" "$into/${file:0:12}"
  done < <(ls -tr "$scratch/chosen")
  echo "$into: $count files, $bytes bytes"
  rm -rf "$scratch"
}

failed=
for name in "$@"; do
  target=$folder/${name}_fuzz
  committed=tests/fuzz/corpus/$name
  mkdir -p "$found/$name"
  if [ "$what" = merge ]; then
    fresh=$(mktemp -d)
    choose "$target" "$fresh" "$committed" "$found/$name"
    rm -rf "$committed"
    mkdir -p "$(dirname "$committed")"
    cp -r "$fresh" "$committed"
    chmod 755 "$committed"
    rm -rf "$fresh"
  else
    mkdir -p "$committed"
    "$target" --write-seeds "$found/$name"
    echo "== $name"
    "$target" -max_total_time="$what" -timeout=10 -print_final_stats=1 -artifact_prefix="$found/$name-" \
      "$found/$name" "$committed" 2>&1 | tail -12 || failed+=" $name"
  fi
done
if [ -n "$failed" ]; then
  echo "failed:$failed; the inputs are in $found" >&2
  exit 1
fi
