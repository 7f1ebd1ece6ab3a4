#!/usr/bin/env bash
# style: clang-format (check only), ruff and mypy. tidy: clang-tidy over what scripts/build.sh release compiles, tests too.
# Without an argument both. All run, whatever one finds.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
failed=0

clang_format() {
  git ls-files -z '*.h' '*.hpp' '*.cpp' '*.c' |
    xargs -0 -P "$(nproc)" -n 32 build/venv/bin/clang-format --dry-run -Werror
}

# The product, then the tests: several runs, because modules of the same name (conftest) cannot be in one. In a test an
# unexpected None is a failure as any other, so it need not be excluded first.
types() {
  local failed=0 folder run runs=()
  build/venv/bin/mypy --cache-dir=build/mypy/product & runs+=($!)
  for folder in cluster python demo; do
    local also=()
    if [ "$folder" = cluster ]; then also=(tests/apps tests/fuzz tests/unit); fi
    MYPYPATH=tests/$folder build/venv/bin/mypy --cache-dir="build/mypy/$folder" --no-strict-optional \
      "tests/$folder" "${also[@]}" & runs+=($!)
  done
  for run in "${runs[@]}"; do wait "$run" || failed=1; done
  return "$failed"
}

check() {  # COMMAND...: one run tells of all that fails
  "$@" || { failed=1; echo "failed: $*" >&2; }
}

case "$what" in
  style | tidy | all) ;;
  *) echo "usage: scripts/lint.sh [style|tidy]" >&2; exit 2 ;;
esac
if [ "$what" != tidy ]; then
  check clang_format
  check build/venv/bin/ruff check --no-cache .
  check types
fi
if [ "$what" != style ]; then check build/venv/bin/python scripts/tidy.py; fi
exit "$failed"
