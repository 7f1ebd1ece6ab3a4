"""Writes the section 3 manual pages from include/oncilla/oncilla.h, the one place where the API is told.

A page for each section of the header (its `---- title` comments), and for each function and type of it a
link page. Usage: api_man.py HEADER FOLDER VERSION
"""
import dataclasses
import pathlib
import re
import sys

SECTION = re.compile(r"^/\* -{8,} (.+?) \*/$")
FUNCTION = re.compile(r"\b(ocm_\w+)\s*\(")
FIRST_SECTION = "status"
SUMMARIES = {
    "status": "status codes, error texts and conventions of the C API",
    "session": "a program's connection to its local daemon",
    "allocation": "memory anywhere in the cluster",
    "put and get": "one-sided transfers that return when they are complete",
    "asynchronous forms": "transfers that are started, waited for and fenced",
    "atomics and notification": "64-bit atomics at the home, and puts that tell",
    "names": "allocations under a name, for other programs",
    "cluster": "the nodes and what they offer",
}


@dataclasses.dataclass
class Block:
    """Declarations that one comment is about."""
    comment: str = ""
    code: list[str] = dataclasses.field(default_factory=list)

    def functions(self) -> list[str]:
        return [name for text in self.code if is_function(text) for name in FUNCTION.findall(text)[:1]]

    def types(self) -> list[str]:
        found = []
        for text in self.code:
            found += re.findall(r"^typedef struct (\w+) \w+;", text, re.M)
            found += re.findall(r"^} (\w+);", text, re.M)
            found += re.findall(r"^typedef enum (\w+) \{.*\} \w+;$", text, re.M)
        return list(dict.fromkeys(found))


def is_function(code: str) -> bool:
    return code.startswith(("OCM_API", "static inline"))


def clean(comment: str) -> str:
    text = comment.removeprefix("/*").removesuffix("*/")
    return "\n".join(re.sub(r"^\s*\*? ?", "", line).rstrip() for line in text.strip().splitlines())


def parse(header: str) -> tuple[str, dict[str, list[Block]]]:
    """The opening comment, and the blocks of each section."""
    lines = header.splitlines()
    opening_end = next(i for i, line in enumerate(lines) if line.endswith("*/"))
    opening = clean("\n".join(lines[: opening_end + 1]))
    sections: dict[str, list[Block]] = {FIRST_SECTION: []}
    blocks = sections[FIRST_SECTION]
    block = Block()
    i = opening_end + 1
    while i < len(lines):
        line = lines[i]
        i += 1
        title = SECTION.match(line)
        if title:
            blocks = sections.setdefault(title.group(1), [])
            block = Block()
            continue
        if not line.strip():
            block = Block()
            continue
        if line.startswith("/*"):
            comment = [line]
            while not comment[-1].rstrip().endswith("*/"):
                comment.append(lines[i])
                i += 1
            block = Block(clean("\n".join(comment)))
            continue
        if line.startswith("#define") and "_INIT" in line:
            code = [line]
            while code[-1].endswith("\\"):
                code.append(lines[i])
                i += 1
        elif line.startswith("#"):
            while line.endswith("\\"):
                line = lines[i]
                i += 1
            continue
        elif line.startswith(('extern "C"', "}")):
            continue
        else:
            code = [line]
            while not ended("\n".join(code)):
                code.append(lines[i])
                i += 1
        if not block.code:
            blocks.append(block)
        block.code.append("\n".join(code))
    return opening, sections


def ended(code: str) -> bool:
    bare = re.sub(r"/\*.*?\*/", "", code, flags=re.S).rstrip()
    if "/*" in bare or bare.count("{") != bare.count("}") or bare.count("(") != bare.count(")"):
        return False
    return bare.endswith(";") or (bare.startswith("static inline") and bare.endswith("}"))


def escape(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")


def prose(text: str) -> list[str]:
    """Paragraphs and `- ` lists as man macros."""
    out = []
    for line in text.splitlines():
        item = re.match(r"^\s*- (.*)", line)
        if not line.strip():
            out.append(".PP")
            continue
        if item:
            out.append('.IP "\\(bu" 2')
            line = item.group(1)
        elif re.match(r"^(Cost|Source|Completion|Threads|Shapes):", line):
            out.append(".PP")
        line = escape(line.strip())
        line = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", line)
        line = re.sub(r"\b(ocm_\w+)\(\)", r"\\fB\1\\fR()", line)
        out.append("\\&" + line if line[:1] in ".'" else line)
    return out


def code_lines(code: str) -> list[str]:
    if code.startswith("OCM_API "):
        code = code.removeprefix("OCM_API ").replace("\n        ", "\n")  # keeps the lines under each other
    if code.startswith("static inline"):
        code = re.sub(r"\s*\{.*\}\s*$", ";", code.removeprefix("static inline "), flags=re.S)
    return [("\\&" if line[:1] in ".'" else "") + escape(line) for line in code.splitlines()]


def split_errors(comment: str) -> tuple[str, str]:
    """The comment without its `Errors:` and those errors."""
    match = re.search(r"Errors:\s*(.*?)(?=\s*(?:Source:|Cost:|\Z))", comment, re.S)
    if not match:
        return comment, ""
    rest = (comment[: match.start()].rstrip() + "\n" + comment[match.end():].strip()).strip()
    return rest, " ".join(match.group(1).split())


def with_list(header: str, what: str, lines: str) -> str:
    """The header with the constants that oncilla/fabrics.h, or kinds.h, gives it; `what`: FABRIC or KIND."""
    found = re.findall(r"^\s*X\((\w+),\s*\w+,\s*\w+,\s*(\d+),", lines, re.M)
    return header.replace(f"OCM_{what}S(OCM_{what}_CONSTANT)",
                          ", ".join(f"OCM_{what}_{name} = {number}" for name, number in found))


def status_texts(sections: dict[str, list[Block]]) -> dict[str, str]:
    code = "\n".join(text for block in sections[FIRST_SECTION] for text in block.code
                     if "typedef enum ocm_status" in text)
    return {name: " ".join(text.split())
            for name, text in re.findall(r"OCM_(\w+) = -?\d+,? +/\* (.*?) \*/", code, re.S)}


def page_name(section: str) -> str:
    return "oncilla_" + section.replace(" ", "_")


def write_page(section: str, blocks: list[Block], opening: str, sections: dict[str, list[Block]], version: str) -> str:
    functions = [name for block in blocks for name in block.functions()]
    out = [f'.TH {page_name(section)} 3 "" "Oncilla {version}" "Oncilla C API"', ".SH NAME",
           escape(", ".join([page_name(section), *functions])) + " \\- " + escape(SUMMARIES.get(section, section)),
           ".SH SYNOPSIS", ".nf", ".B #include <oncilla/oncilla.h>", ""]
    for block in blocks:
        for code in filter(is_function, block.code):
            out += [*code_lines(code), ""]
    out += [".fi", "Link with \\fI\\-loncilla\\fR, or what \\fBpkg\\-config \\-\\-cflags \\-\\-libs oncilla\\fR says.",
            ".SH DESCRIPTION"]
    if section == FIRST_SECTION:
        out += prose(opening)
    errors = []
    for block in blocks:
        names = block.functions()
        text, errs = split_errors(block.comment)
        types = [code for code in block.code if not is_function(code)]
        heading = names or block.types()
        out.append(".SS " + escape(", ".join(f"{name}()" if names else name for name in heading)) if heading else ".PP")
        out += prose(text)
        if types:
            out += [".PP", ".EX"] + [line for code in types for line in code_lines(code)] + [".EE"]
        if errs and names:
            errors.append((names, errs))
    out += [".SH RETURN VALUE",
            "What returns an int gives 0 or a negative \\fBocm_status\\fR (\\fBocm_op_test\\fR also 1); outputs are",
            "written on success only. \\fBocm_last_error\\fR(3) has the sentence that says what to do."]
    texts = status_texts(sections)
    out.append(".SH ERRORS")
    for names, errs in errors:
        out += [".TP", escape(", ".join(f"\\fB{name}\\fR()" for name in names)).replace("\\e", "\\"), *prose(errs)]
    mentioned = [code for code in texts if any(re.search(rf"\b{code}\b", errs) for _, errs in errors)]
    if mentioned:
        out += [".PP", "Where"]
        for code in mentioned:
            out += [".TP", f".B OCM_{code}", *prose(texts[code])]
    out += [".PP",
            "Any function gives OCM_INVALID_ARGUMENT for an argument that is invalid; every code is told in",
            "\\fBoncilla_status\\fR(3).", ".SH SEE ALSO"]
    out.append(", ".join(f"\\fB{escape(page_name(other))}\\fR(3)" for other in sections if other != section)
               + ", \\fBoncilla\\fR(7), \\fBocm\\fR(1)")
    return "\n".join(out) + "\n"


def main() -> int:
    header, folder, version = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    text = header.read_text()
    for what, file in (("FABRIC", "fabrics.h"), ("KIND", "kinds.h")):
        text = with_list(text, what, (header.parent / file).read_text())
    opening, sections = parse(text)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.3"):
        old.unlink()
    for section, blocks in sections.items():
        (folder / f"{page_name(section)}.3").write_text(write_page(section, blocks, opening, sections, version))
        for block in blocks:
            for name in block.functions() + block.types():
                (folder / f"{name}.3").write_text(f".so man3/{page_name(section)}.3\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
