#!/usr/bin/env bash
# Runs the test suites: all | style | tidy | unit | cluster | python | sanitizers | long. Builds what they need first, prints
# each runner's own summary, and at the end how long each part took.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
jobs=${JOBS:-$(nproc)}
source scripts/parts.sh

# Namespaces and small file systems need root.
as_root=()
if [ "$(id -u)" -ne 0 ] && sudo -n true 2>/dev/null; then as_root=(sudo -E env "PATH=$PATH"); fi

# Who runs this in the background ignores Ctrl-C, and so would all programs of the tests, which send it.
pytest=(env --default-signal=INT build/venv/bin/python -B -m pytest -p no:cacheprovider -q)
# Tests with daemons wait more than they compute: for failure deadlines, for connections. Those of a Release build leave
# half of the processors idle at two a core.
together=(-n $((2 * jobs)))
many=(-n $((3 * jobs)))

scratch=$(mktemp -d /tmp/ocm-test-XXXXXX)
export PYTHONPYCACHEPREFIX=$scratch/pycache  # programs that tests start as root leave nothing in the tree
finish() {
  "${as_root[@]}" rm -rf "$scratch"
  case "$what" in
    all) print_parts "make test" ;;
    *) print_parts "make test-$what" ;;
  esac
}
trap finish EXIT

run_ctest() {  # preset
  ctest --preset "$1" -j "$jobs" --timeout 900
}

run_cluster() {  # pytest's arguments
  # A short path (Unix sockets), removed whole at the end.
  OCM_BIN_DIR=${OCM_BIN_DIR:-$PWD/build/release} "${as_root[@]}" "${pytest[@]}" --dist worksteal --basetemp="$scratch/t" "$@"
}

run_python() {  # a folder or a file of tests: each has fixtures of its own; pytest's arguments
  local folder=$1
  shift
  # As root, too: some of them are of several users. sudo drops PYTHONPATH, so it is given behind it.
  "${as_root[@]}" env OCM_BIN_DIR="${OCM_BIN_DIR:-$PWD/build/release}" PYTHONPATH="$PWD/build/release/python" \
    "${pytest[@]}" --durations=5 --basetemp="$scratch/${folder//\//-}" "tests/$folder" "$@"
}

# What programs do, with all of their memory coherent and with caches of so few pages that each is thrown out all the time.
run_cached() {  # pages, pytest's arguments
  OCM_TEST_CACHE_PAGES=$1 run_cluster "${@:2}"
}

all_of_python() {
  suite "pytest: python" run_python python "${together[@]}" --dist loadfile  # one wheel is enough
  suite "pytest: apps" run_python apps "${together[@]}" --dist loadfile
  suite "pytest: demo" run_python demo "${together[@]}" --dist loadfile
}

run_sanitizer() {  # preset
  part "build: $1" scripts/build.sh "$1"
  suite "ctest: $1" run_ctest "$1"
  # The same cluster tests against this build's daemons.
  export OCM_DAEMON_DIR=$PWD/build/$1
  suite "pytest: cluster, $1" run_cluster "${together[@]}" \
    tests/cluster/test_memory.py tests/cluster/test_failures.py tests/cluster/test_hostile.py tests/cluster/test_soak.py \
    tests/cluster/test_sequence.py
  unset OCM_DAEMON_DIR
}

export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1
export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 suppressions=$PWD/tests/tsan.supp"

part "setup" scripts/setup.sh
if [ "$what" = sanitizers ]; then
  part "build: what their daemons serve" scripts/build.sh release oncillad oncilla ocm
elif [ "$what" = style ]; then
  part "build: what mypy reads" scripts/build.sh release ocm_python_stub
else
  part "build: release" scripts/build.sh release
fi
case "$what" in
  style) suite "style" scripts/lint.sh style ;;
  tidy) suite "tidy" scripts/lint.sh tidy ;;
  unit) suite "ctest: release" run_ctest release ;;
  cluster) suite "pytest: cluster" run_cluster "${many[@]}" tests/cluster ;;
  python) all_of_python ;;
  all)
    suite "style" scripts/lint.sh style
    suite "tidy" scripts/lint.sh tidy
    suite "ctest: release" run_ctest release
    suite "pytest: cluster" run_cluster "${many[@]}" tests/cluster
    suite "pytest: cluster, cached" run_cached 4 "${many[@]}" tests/cluster/test_{memory,sequence,publish}.py
    all_of_python
    ;;
  sanitizers) run_sanitizer asan-ubsan; run_sanitizer tsan ;;
  long) source scripts/test-long.sh ;;
  *) echo "usage: scripts/test.sh all|style|tidy|unit|cluster|python|sanitizers|long" >&2; exit 2 ;;
esac
all_passed
