"""Fails unless the manual says what there is: every function of the header has a page of section 3, every
command and flag of `ocm` is in ocm(1), every flag of oncillad in oncillad(8), and neither tells of others.

Usage: check_man.py api HEADER MAN3_FOLDER | tool PROGRAM PAGE.scd
"""
import pathlib
import re
import subprocess
import sys

FLAG = re.compile(r"(?<![\w-])(--?[a-zA-Z0-9][\w-]*)")


def check_api(header: pathlib.Path, folder: pathlib.Path) -> list[str]:
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
    names = re.findall(r"^(?:OCM_API|static inline)\b[^;{]*?\b(ocm_\w+)\(", text, re.M)
    faults = [] if len(names) > 40 else [f"{header} has only {len(names)} functions; is it read wrongly?"]
    for name in names:
        page = folder / f"{name}.3"
        if not page.exists():
            faults.append(f"{name} has no page {page.name}")
            continue
        link = re.match(r"\.so man3/(\S+)", page.read_text())
        target = folder / link.group(1) if link else page
        if not target.exists() or not re.search(rf"^\.SS .*\b{name}\(\)", target.read_text(), re.M):
            faults.append(f"{page.name} does not describe {name}")
    return faults


def help_of(command: list[str]) -> str:
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


def flags_of(text: str) -> set[str]:
    """The flags that a help text lists: what stands before the description."""
    found = set()
    for line in text.splitlines():
        match = re.match(r"^ {2}(-\S+)", line)
        if match:
            found.update(FLAG.findall(match.group(1)))
    return found


def commands_of(text: str) -> list[str]:
    part = text.partition("Subcommands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^ {2}(\w[\w-]*)", part, re.M)


def all_commands(program: str, *group: str) -> list[tuple[str, ...]]:
    """Those of groups by two words, without the groups."""
    found = []
    for name in commands_of(help_of([program, *group])):
        found += all_commands(program, *group, name) or [(*group, name)]
    return found


def flags_told(page: str) -> set[str]:
    """Flags in bold: `*-n*, *--nodes* _N_`."""
    return {flag for bold in re.findall(r"\*([^*\n]+)\*", page) for flag in FLAG.findall(bold) if bold.startswith("-")}


def check_tool(program: str, page_path: pathlib.Path) -> list[str]:
    page = page_path.read_text()
    name = page_path.name.partition(".")[0]
    general = help_of([program])
    faults = []
    all_flags = flags_of(general)
    for command in all_commands(program):
        told = " ".join((name, *command))
        part = re.search(rf"^## {told}\b.*?(?=^#|\Z)", page, re.M | re.S)
        if not part:
            faults.append(f"{page_path.name} does not tell of `{told}`")
            continue
        flags = flags_of(help_of([program, *command]))
        all_flags |= flags
        for flag in sorted(flags - {"-h", "--help"}):
            if len(flag) == 2 and flag not in flags_told(page):
                faults.append(f"{page_path.name} does not tell of {flag} of `{told}`")
            if len(flag) > 2 and flag not in flags_told(part.group(0)):
                faults.append(f"{page_path.name} does not tell of {flag} under `{told}`")
    for flag in sorted(flags_of(general) - flags_told(page)):
        faults.append(f"{page_path.name} does not tell of {flag}")
    for flag in sorted(flags_told(page) - all_flags):
        faults.append(f"{page_path.name} tells of {flag}, which {name} does not have")
    return faults


def main() -> int:
    if sys.argv[1] == "api":
        faults = check_api(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    else:
        faults = check_tool(sys.argv[2], pathlib.Path(sys.argv[3]))
    print("\n".join(faults) or "the manual tells of everything")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
