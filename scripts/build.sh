#!/usr/bin/env bash
# Configures and builds a preset: scripts/build.sh PRESET [TARGET...]; without targets, all of it.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
mkdir -p build
export CCACHE_BASEDIR=$PWD  # what one build folder compiled another need not
cmake --preset "$preset" -DOCM_UNITY=ON -DPython_EXECUTABLE="$PWD/build/venv/bin/python" \
  >build/configure-"$preset".log 2>&1 || { cat build/configure-"$preset".log; exit 1; }
cmake --build --preset "$preset" -j "${JOBS:-$(nproc)}" ${1:+--target "$@"}
