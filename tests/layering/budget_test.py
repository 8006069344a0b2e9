"""Holds the lines of each library of the product, and the length of its functions.

    budget_test.py            fails with one line per finding
    budget_test.py --write    writes budget.txt anew, with what there is

A line of more than 120 columns counts as several. `budget.txt` has the lines that a library may have: it shrinks freely, and grows
with its reason in the commit that raises it. No function has more than 100 lines; LONG_FUNCTIONS are those that still have.
"""
import math
import pathlib
import re
import sys

from sources import ROOT, all_sources, unit_of

FOLDERS = ("base", "schema", "signing", "runtime", "loaders", "targets", "packager", "registry")
BUDGET = ROOT / "tests/layering/budget.txt"
COLUMNS, MOST_LINES = 120, 100
# Function (its file and the beginning of its line): lines, at most. Better none.
LONG_FUNCTIONS = {}
OPENS = re.compile(r"^( *)(?!.*\b(?:namespace|struct|class|enum|union)\b)(?!(?:if|for|while|switch|else|do|case|default)\b)\S.*\)[^;]*\{$")


def lines_of(source):
    return sum(max(1, math.ceil(len(line) / COLUMNS)) for line in source.text.splitlines())


def functions_of(source):
    """The first line of each function of more than one line, its number, and how many lines it has: it ends where a brace stands in its column."""
    lines = source.code.split("\n")
    for number, line in enumerate(lines, 1):
        begin = OPENS.match(line)
        if not begin or len(begin.group(1)) > 4:
            continue
        closing = begin.group(1) + "}"
        end = next((k for k in range(number, len(lines)) if lines[k].startswith(closing)), None)
        if end is not None:
            yield line.strip(), number, end + 2 - number


def report(sources, budget):
    findings, spent = [], {}
    for source in sources:
        library = unit_of(source.path)
        spent[library] = spent.get(library, 0) + lines_of(source)
        for name, number, length in functions_of(source):
            allowed = next((most for (path, text), most in LONG_FUNCTIONS.items() if path == source.path and name.startswith(text)), MOST_LINES)
            if length > allowed:
                findings.append(f"{source.path}:{number}: {length} lines, at most {allowed} are a function: {name}")
    for library, lines in sorted(spent.items()):
        if library not in budget:
            findings.append(f"{library}: budget.txt has no line for it")
        elif lines > budget[library]:
            findings.append(f"{library}: {lines} lines of {COLUMNS} columns, {budget[library]} in budget.txt: remove some, or raise it with the reason in the commit")
    findings += [f"budget.txt: there is no {library}" for library in sorted(set(budget) - set(spent))]
    return findings, spent


def read_budget(text):
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {library: int(lines) for library, lines in rows}


def main():
    sources = [s for s in all_sources(FOLDERS) if "_generated" not in s.path]
    if sys.argv[1:] == ["--write"]:
        spent = report(sources, {})[1]
        head = "# Lines of 120 columns that each library may have (budget_test.py). A line that grows has its reason in the commit.\n"
        BUDGET.write_text(head + "".join(f"{library} {lines}\n" for library, lines in sorted(spent.items())), encoding="utf-8")
        return 0
    findings, spent = report(sources, read_budget(BUDGET.read_text(encoding="utf-8")))
    for text in findings:
        print(text)
    total = {top: sum(lines for library, lines in spent.items() if library.split("/")[0] == top) for top in FOLDERS}
    print(", ".join(f"{top} {lines}" for top, lines in total.items()) + f" lines, {len(findings)} findings")
    return min(len(findings), 1)


if __name__ == "__main__":
    sys.exit(main())
