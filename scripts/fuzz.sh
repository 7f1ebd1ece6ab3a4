#!/usr/bin/env bash
# Runs every libFuzzer target for the given number of seconds, from its seeds and what earlier runs found: the corpora
# are kept in $OCM_FUZZ_CORPUS (build/fuzz/corpus). Needs clang and libclang-rt-14-dev.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
scripts/need.sh clang libclang-rt-14-dev
scripts/build.sh fuzz fuzzers
for target in build/fuzz/tests/fuzz/*_fuzz; do
  name=$(basename "$target")
  corpus=${OCM_FUZZ_CORPUS:-build/fuzz/corpus}/$name
  mkdir -p "$corpus"
  "$target" --write-seeds "$corpus"
  echo "== $name"
  "$target" -max_total_time="$seconds" -timeout=10 -print_final_stats=1 "$corpus" 2>&1 | tail -12
done
