#!/usr/bin/env bash
# Installs the Debian packages and the Python environment that the build and the tests need.
# Does nothing, in a fraction of a second, when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build

mapfile -t wanted < <(grep -vE '^\s*(#|$)' packaging/apt-packages.txt)
scripts/need.sh "${wanted[@]}"

if [ ! -e build/venv/.ready ] || [ tests/requirements.txt -nt build/venv/.ready ]; then
  echo "preparing build/venv"
  python3 -m venv build/venv
  build/venv/bin/pip install -q --disable-pip-version-check --no-compile -r tests/requirements.txt
  # What pip would compile on one core.
  build/venv/bin/python -m compileall -q -j 0 build/venv/lib >build/compileall.log 2>&1 || true
  touch build/venv/.ready
fi
