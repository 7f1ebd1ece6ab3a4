#!/usr/bin/env bash
# Installs the Debian packages and the Python environment that the build and the tests need.
# Does nothing, in a fraction of a second, when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build

sudo=""
if [ "$(id -u)" -ne 0 ]; then sudo="sudo"; fi

mapfile -t wanted < <(grep -vE '^\s*(#|$)' packaging/apt-packages.txt)
missing=()
for package in "${wanted[@]}"; do
  if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
    missing+=("$package")
  fi
done
if [ "${#missing[@]}" -gt 0 ]; then
  echo "installing: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  $sudo apt-get update -qq
  $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >build/apt.log 2>&1 || {
    tail -20 build/apt.log
    echo "apt-get could not install the packages above; see build/apt.log" >&2
    exit 1
  }
fi

if [ ! -e build/venv/.ready ] || [ tests/requirements.txt -nt build/venv/.ready ]; then
  echo "preparing build/venv"
  python3 -m venv build/venv
  build/venv/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt
  touch build/venv/.ready
fi
