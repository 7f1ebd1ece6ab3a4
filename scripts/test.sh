#!/usr/bin/env bash
# Runs the test suites: all | unit | cluster | sanitizers. Each prints its runner's own summary.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
jobs=${JOBS:-$(nproc)}

run_ctest() {  # preset
  echo "== ctest ($1)"
  ctest --preset "$1" -j "$jobs" --timeout 300
}

run_cluster() {
  echo "== pytest (cluster)"
  OCM_BIN_DIR=${OCM_BIN_DIR:-$PWD/build/release} build/venv/bin/python -m pytest -p no:cacheprovider -q tests/cluster "$@"
}

run_sanitizer() {  # preset
  echo "== build ($1)"
  cmake --preset "$1" >build/configure-"$1".log || { cat build/configure-"$1".log; exit 1; }
  cmake --build --preset "$1" -j "$jobs"
  run_ctest "$1"
}

export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 suppressions=$PWD/tests/tsan.supp"

case "$what" in
  unit) run_ctest release ;;
  cluster) run_cluster ;;
  sanitizers) run_sanitizer asan-ubsan; run_sanitizer tsan ;;
  all)
    run_ctest release
    run_sanitizer asan-ubsan
    run_sanitizer tsan
    run_cluster
    ;;
  *) echo "usage: scripts/test.sh all|unit|cluster|sanitizers" >&2; exit 2 ;;
esac
