#!/usr/bin/env bash
# style: clang-format (check only), ruff and mypy. Without an argument clang-tidy too. All run, whatever one finds.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
failed=0

clang_format() {
  git ls-files -z '*.h' '*.hpp' '*.cpp' '*.c' |
    xargs -0 -P "$(nproc)" -n 32 build/venv/bin/clang-format --dry-run -Werror
}

clang_tidy() {
  git ls-files -z 'src/*.cpp' 'daemon/*.cpp' 'cli/*.cpp' 'tools/*.cpp' |
    xargs -0 -P "$(nproc)" -n 4 clang-tidy -quiet -p build/release
}

check() {  # COMMAND...: one run tells of all that fails
  "$@" || { failed=1; echo "failed: $*" >&2; }
}

case "$what" in
  style | all) ;;
  *) echo "usage: scripts/lint.sh [style]" >&2; exit 2 ;;
esac
check clang_format
check build/venv/bin/ruff check --no-cache .
check build/venv/bin/mypy --cache-dir=/dev/null
if [ "$what" = all ]; then
  scripts/need.sh clang-tidy
  check clang_tidy
fi
exit "$failed"
