"""docs/security.md names a test for what it states: each of them must exist."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(tests/[\w/.-]+\.(?:py|cpp))(?:::([\w.]+))?`")


def is_there(file: str, test: str) -> bool:
    path = ROOT / file
    if not path.is_file():
        return False
    text = path.read_text()
    if not test:
        return True
    if path.suffix == ".py":
        return re.search(rf"^def {re.escape(test)}\(", text, re.M) is not None
    suite, _, case = test.partition(".")
    return re.search(rf"^TEST(?:_[FP])?\({re.escape(suite)}, {re.escape(case)}\)", text, re.M) is not None


def main() -> int:
    named = NAMED.findall((ROOT / "docs/security.md").read_text())
    missing = sorted({f"{file}::{test}" for file, test in named if not is_there(file, test)})
    print("\n".join(f"docs/security.md names {name}, which is not there" for name in missing) or
          f"docs/security.md: {len(named)} tests are there")
    return 1 if missing or len(named) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
