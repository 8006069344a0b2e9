#!/usr/bin/env python3
"""Writes the manual pages that repeat what stands elsewhere: what people wrote (x.in), with the commands as `--help`
says them, the exit codes, the header page of the container.

    generate.py FOLDER-OF-THE-TOOLS           writes mlpack.1, mlrun.1 and mlc.5
    generate.py FOLDER-OF-THE-TOOLS --check   only compares; the test `tools_manual` does this
"""
import difflib
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = ("mlpack", "mlrun")


def roff(text):
    """Text as it is: no escape, no request, hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def output(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True,
                          stdin=subprocess.DEVNULL).stdout


class Help:
    """A help text taken apart: summary, examples, usage, and the entries of its sections."""

    def __init__(self, text):
        self.summary, self.examples, self.usage, self.sections = [], [], "", {}
        entries = None
        # Where descriptions begin: every help has this option, and names may leave one blank only.
        column = re.search(r"^  -h,\s*--help *(?=Print)", text, re.M).end() - re.search(r"^  -h,", text, re.M).start()
        for line in text.splitlines():
            title = re.fullmatch(r"(\w[\w ]*):", line)
            if line.startswith("Usage:"):
                self.usage, entries = line.removeprefix("Usage:").strip(), None
            elif title and title.group(1) == "Examples":
                entries = self.examples
            elif title:
                entries = self.sections.setdefault(title.group(1), [])
            elif not line.strip():
                continue
            elif entries is None:
                self.summary.append(line.strip())
            elif entries is self.examples:
                entries.append(line.strip())
            elif re.match(r"  \S", line):
                beside = line[:column].endswith(" ")
                entries.append([line[:column].strip(), line[column:].strip()] if beside else [line.strip(), ""])
            elif entries:
                entries[-1][1] = (entries[-1][1] + " " + line.strip()).strip()

    def entries(self, section):
        return self.sections.get(section, [])


def commands_of(tool):
    return [name.split()[0] for name, _ in Help(output(tool, "--help")).entries("Subcommands")]


def entry(name, text):
    return f".TP\n.B {roff(name)}\n{roff(text)}\n"


def command_section(tool, command):
    found = Help(output(tool, command, "--help"))
    text = f'.SS "{roff(found.usage.replace(" REQUIRED", ""))}"\n{roff(" ".join(found.summary))}\n'
    for section in ("Positionals", "Options"):
        for name, meaning in found.entries(section):
            if not name.startswith("-h,"):
                text += entry(name.replace(" REQUIRED", ""), meaning)
    if found.examples:
        text += ".PP\n.nf\n.RS\n" + "".join(roff(line) + "\n" for line in found.examples) + ".RE\n.fi\n"
    return text


def exit_codes(tool):
    codes = json.loads(output(tool, "help", "exit-codes", "--json"))["codes"]
    return "".join(entry(str(code["exit"]), code["meaning"]) for code in codes)


def header_table():
    """The rows of "Header page" in spec/container.md."""
    text = (HERE.parent / "spec/container.md").read_text(encoding="utf-8")
    section = text.split("### 1.1 Header page")[1].split("###")[0]
    rows = re.findall(r"^\| (\d+) \| (\S+) \| (\w+) \|", section, re.M)
    return "".join(f"{offset}\t{roff(kind)}\t{roff(field)}\n" for offset, kind, field in rows)


def made_from(page, source):
    template = (HERE / f"{page}.in").read_text(encoding="utf-8")
    return f'.\\" Made by man/generate.py from {page}.in and {source}: change those.\n' + template


def tool_page(tool):
    sections = "".join(command_section(tool, command) for command in commands_of(tool))
    text = made_from(f"{tool.name}.1", "the help of the tool")
    return text.replace("@COMMANDS@\n", sections).replace("@EXIT_CODES@\n", exit_codes(tool))


def pages(tools):
    """(file name, its text) of every page that can be made here."""
    yield "mlc.5", made_from("mlc.5", "spec/container.md").replace("@HEADER@\n", header_table())
    for name in TOOLS:
        if name == "mlpack" and not (tools / "mlpack-oci").is_file():
            print("mlpack.1 is left as it is: mlpack-oci was not built, which has some of its commands")
            continue
        yield f"{name}.1", tool_page(tools / name)


def main():
    tools = pathlib.Path(sys.argv[1]).resolve()
    check = sys.argv[2:] == ["--check"]
    different = 0
    for name, fresh in pages(tools):
        target = HERE / name
        old = target.read_text(encoding="utf-8") if target.is_file() else ""
        if fresh == old:
            continue
        if check:
            different += 1
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), fresh.splitlines(True), name, "as it should be"))
            print(f"{name} is not up to date: run man/generate.py {tools}")
        else:
            target.write_text(fresh, encoding="utf-8")
            print(f"wrote {target}")
    return min(different, 1)


if __name__ == "__main__":
    sys.exit(main())
