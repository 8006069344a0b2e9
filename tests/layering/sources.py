"""Reads the tree for the checks: files, their includes, their code without comments and texts, the README's table."""
import os
import pathlib
import re

# The tree to look at: this one, or the one that a test of the checks has made.
ROOT = pathlib.Path(os.environ.get("MLC_LAYERING_ROOT") or pathlib.Path(__file__).resolve().parents[2])
FOLDERS = ("base", "schema", "signing", "runtime", "loaders", "targets", "packager", "registry", "tests", "bench")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.M)
# Comments, raw strings, strings and character constants; digit separators (1'000) are no constants.
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.S)


def _blank(match):
    text = match.group(0)
    return ('""' if text[0] in '"R' else " ") + "\n" * text.count("\n")


class Source:
    """One file of C or C++. `own` are the includes of this project, `foreign` all others, each with its line."""

    def __init__(self, path):
        self.path = path.relative_to(ROOT).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.code = NOT_CODE.sub(_blank, self.text)
        self.own, self.foreign = [], []
        for match in INCLUDE.finditer(self.text):
            line = self.text.count("\n", 0, match.start()) + 1
            name = match.group(1) or match.group(2)
            (self.own if name.split("/")[0] in FOLDERS and "/" in name else self.foreign).append((name, line))
        self.includes = [match.group(1) or match.group(2) for match in INCLUDE.finditer(self.text)]

    def comments(self):
        """The text of each line of each comment, with its number; texts in code are none."""
        for match in NOT_CODE.finditer(self.text):
            if match.group(0).startswith(("//", "/*")):
                first = self.text.count("\n", 0, match.start()) + 1
                for number, line in enumerate(match.group(0).split("\n"), first):
                    yield number, line

    def within(self, *prefixes):
        return self.path.startswith(prefixes)

    def lines_with(self, pattern):
        for number, line in enumerate(self.code.split("\n"), 1):
            if re.search(pattern, line):
                yield number, line.strip()


def all_sources(folders=FOLDERS):
    found = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".hpp", ".cpp", ".c") and path.is_file():
                found.append(Source(path))
    return found


def unit_of(path):
    """The library that a file belongs to: a folder, or a folder's folder where every subfolder is a library."""
    parts = path.split("/")
    if parts[0] in ("packager", "runtime", "loaders") and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0]


def allowed_arrows():
    """{folder: words of its column "may include"} from the table of the root README."""
    table = {}
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        folder = re.fullmatch(r"`(\w+)/`", cells[0])
        if line.startswith("|") and folder and len(cells) == 3:
            words = re.findall(r"`([^`]+)`", cells[2])
            table[folder.group(1)] = {word for group in words for word in group.split()} | (
                {"everything"} if "everything" in cells[2] else set())
    return table
