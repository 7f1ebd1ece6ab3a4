#!/usr/bin/env bash
# clang-format (check only) and clang-tidy over what git tracks.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh clang-format clang-tidy
git ls-files '*.h' '*.hpp' '*.cpp' '*.c' | xargs clang-format --dry-run -Werror
git ls-files 'src/*.cpp' 'daemon/*.cpp' 'cli/*.cpp' | xargs -P "$(nproc)" -n 4 clang-tidy -quiet -p build/release
