"""docs/security.md names a test for what it states: each of them must exist, and each statement must have one.

A statement is a bullet, or a paragraph, under any heading but the first. It names a test, or says "No test: " and why;
one that ends with a colon introduces the others. "At worst" begins a statement, so that it cannot hide behind another's
test. Tables and commands are not looked at. Figures are those of the code.
"""
import pathlib
import re
import sys

# Figures of the document, and the code that they are told of.
FIGURES = (
    ("end after 5 s", "src/node/doors.h", "kProveNs = 5'000'000'000;"),
    ("end after 5 s", "src/fabric/tcp/server.h", "authenticate_ns = 5'000'000'000;"),
    ("its holds on published memory take at most 256 MiB", "src/control/allowance.h",
     "kUserBytesMax = size_t{256} << 20;"),
    ("takes at most 256 MiB of a home, a million", "src/fabric/tcp/attachments.h",
     "kUserAttachmentsMax = (uint32_t{256} << 20) / kAttachmentBytes;"),
    ("1024 copies in progress at its daemon, half of all", "src/node/copier.h",
     "kUserAskedMax = 1024, kAskedMax = 2048;"),
    ("4096 that wait at a home, a quarter of all", "src/node/copy_queue.h", "kUserMax = 4096, kAllMax = 16384;"),
    ("on devices takes at most 256 MiB of a home", "src/fabric/tcp/buffers.h",
     "kUserBytesMax = uint64_t{256} << 20;"),
    ("2048 of its requests are answered at once", "src/control/allowance.h", "kUserAnsweringMax = 2048;"),
    ("allocations of more than 64 extents two", "src/node/service.h", "kManyExtents = 64, kManyExtentsAtOnce = 2;"),
    ("two of its requests for nodes' figures", "src/node/service.h", "kStatsAtOnce = 2;"),
    ("serves four of them with 16 messages each", "src/control/allowance.h", "kUserTakingMax = 4;"),
    ("serves four of them with 16 messages each", "src/control/rpc.cpp", "kAtOnceMax = 16;"),
    ("at most 256 requests about them in progress", "src/node/service.h", "kLossesAtOnce = 256;"),
    ("512 replicas on living nodes given up at once", "src/control/user_rate.h", "kBurst = 512;"),
    ("then 4 in each failure deadline", "src/node/service.h", "kLossesEachDeadline = 4;"),
    ("4 requests that read names and 16 that change them", "src/node/service.h",
     "kNameReadsAtOnce = 4, kNameChangesAtOnce = 16;"),
)
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


def statements(text: str) -> list:
    """Those under "## " headings, each as one line."""
    under = text[text.index("\n## "):]
    blocks = re.split(r"\n\s*\n|\n(?=- )", re.sub(r"^##.*$", "\n", under, flags=re.M))
    return [" ".join(block.split()) for block in blocks
            if block.strip() and not block.lstrip("\n").startswith(("|", "    "))]


def unproved(text: str) -> list:
    """What is wrong with the statements of a document."""
    out = []
    for said in statements(text):
        words = f"docs/security.md: \"{said[:60]}...\""
        if "At worst" in said.removeprefix("- ")[1:]:
            out.append(f"{words}: begin a paragraph with \"At worst\"")
        if not said.endswith(":") and not NAMED.search(said) and "No test: " not in said:
            out.append(f"{words}: name the test that shows it, or say \"No test: \" and why")
    return out


def figures_wrong(text: str) -> list:
    said = " ".join(text.split())
    return [f"docs/security.md and {file} have not the same figure: \"{words}\", \"{code}\""
            for words, file, code in FIGURES
            if words.lower() not in said.lower() or code not in (ROOT / file).read_text()]


def check_itself():
    good = ("x\n## A\nBoth hold:\n\n- one: `tests/a.py::test_b`;\n  more\n- two. No test: why.\n\n| a |\n\n"
            "    command\n\nAt worst: all. No test: why.\n")
    assert statements(good)[1] == "- one: `tests/a.py::test_b`; more" and len(statements(good)) == 4
    assert unproved(good) == []
    for bad in ("No claim.", "- a bullet\n- two: `tests/a.py`", "`tests/a.py` shows it. At worst: all.",
                "So. No test."):
        assert len(unproved("x\n## A\n" + bad)) == 1, bad


def main() -> int:
    check_itself()
    text = (ROOT / "docs/security.md").read_text()
    named = NAMED.findall(text)
    wrong = sorted({f"docs/security.md names {file}::{test}, which is not there" for file, test in named
                    if not is_there(file, test)}) + unproved(text) + figures_wrong(text)
    print("\n".join(wrong) or f"docs/security.md: {len(named)} tests are there, {len(statements(text))} statements")
    return 1 if wrong or len(named) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
