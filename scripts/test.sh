#!/usr/bin/env bash
# Runs the test suites: all | unit | cluster | python | sanitizers. Each prints its runner's own summary.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
jobs=${JOBS:-$(nproc)}
export CCACHE_BASEDIR=$PWD  # what one build folder compiled another need not

run_ctest() {  # preset
  echo "== ctest ($1)"
  ctest --preset "$1" -j "$jobs" --timeout 300
}

# Namespaces and small file systems need root.
as_root=()
if [ "$(id -u)" -ne 0 ] && sudo -n true 2>/dev/null; then as_root=(sudo -E env "PATH=$PATH"); fi

# Who runs this in the background ignores Ctrl-C, and so would all programs of the tests, which send it.
pytest=(env --default-signal=INT build/venv/bin/python -B -m pytest -p no:cacheprovider -q)

scratch=$(mktemp -d /tmp/ocm-test-XXXXXX)
trap '"${as_root[@]}" rm -rf "$scratch"' EXIT

run_cluster() {  # what to call it, then pytest's arguments
  echo "== pytest ($1)"
  shift
  # A short path (Unix sockets), removed whole at the end.
  OCM_BIN_DIR=${OCM_BIN_DIR:-$PWD/build/release} \
    "${as_root[@]}" "${pytest[@]}" --basetemp="$scratch/t" "$@"
}

run_python() {  # the package, the applications, the main job: each folder has fixtures of its own
  local part
  for part in python apps demo; do
    echo "== pytest (tests/$part)"
    OCM_BIN_DIR=${OCM_BIN_DIR:-$PWD/build/release} PYTHONPATH=$PWD/build/release/python \
      "${pytest[@]}" --durations=5 --basetemp="$scratch/$part" "tests/$part"
  done
}

run_sanitizer() {  # preset
  echo "== build ($1)"
  cmake --preset "$1" >build/configure-"$1".log || { cat build/configure-"$1".log; exit 1; }
  cmake --build --preset "$1" -j "$jobs"
  run_ctest "$1"
  # The same cluster tests against this build's daemons.
  OCM_DAEMON_DIR=$PWD/build/$1 run_cluster "cluster, daemons of $1" \
    tests/cluster/test_memory.py tests/cluster/test_failures.py tests/cluster/test_hostile.py tests/cluster/test_soak.py \
    tests/cluster/test_sequence.py
}

export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1
export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 suppressions=$PWD/tests/tsan.supp"

case "$what" in
  unit) run_ctest release ;;
  cluster) run_cluster cluster tests/cluster ;;
  python) run_python ;;
  sanitizers) run_sanitizer asan-ubsan; run_sanitizer tsan ;;
  all)
    run_ctest release
    run_cluster cluster tests/cluster
    run_python
    run_sanitizer asan-ubsan
    run_sanitizer tsan
    ;;
  *) echo "usage: scripts/test.sh all|unit|cluster|python|sanitizers" >&2; exit 2 ;;
esac
