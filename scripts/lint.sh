#!/usr/bin/env bash
# style: clang-format (check only), ruff and mypy. tidy: clang-tidy over what scripts/build.sh release compiles of the product.
# Without an argument both. All run, whatever one finds.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
failed=0

clang_format() {
  git ls-files -z '*.h' '*.hpp' '*.cpp' '*.c' |
    xargs -0 -P "$(nproc)" -n 32 build/venv/bin/clang-format --dry-run -Werror
}

# Files that are compiled together are read together: three times quicker than one by one.
product() {
  build/venv/bin/python - <<'END'
import json
import pathlib

here = pathlib.Path.cwd()
for one in json.loads((here / "build/release/compile_commands.json").read_text()):
    file = pathlib.Path(one["file"]).relative_to(here)
    place = file.relative_to("build/release") if file.is_relative_to("build/release") else file
    if place.parts[0] in ("src", "daemon", "cli", "tools", "apps") and file.suffix in (".cpp", ".cxx") \
            and "proto.dir" not in str(file):
        print(file, end="\0")
END
}

clang_tidy() {
  # GCC's own flags are none of clang's; what protoc wrote is none of ours.
  product | xargs -0 -P "$(nproc)" -n 1 build/venv/bin/clang-tidy -quiet -p build/release \
    --extra-arg=-Qunused-arguments --header-filter="^$PWD/(src|include|daemon|cli|tools|apps)/" 2>/dev/null
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
if [ "$what" != style ]; then check clang_tidy; fi
exit "$failed"
