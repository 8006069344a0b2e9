"""Runs each command of the pages in docs/ as it stands there. The info string of a block says on which machine: the builder,
which has all components, or the edge, which has the runtime alone; or a place that the caller checks in its own way. `needs=M`: only where Python has the module M;
`exit=N`: what the last command ends with; `file=F` writes the block. The lines of the ```text block behind it are in the
output; an ellipsis stands for anything."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Two machines that are one: what is copied to the other one goes into its home folder.
SCP = '''#!/bin/sh
for last; do :; done
[ "$last" = edge: ] || exit 1
while [ $# -gt 1 ]; do cp "$1" "$EDGE/" || exit 1; shift; done
'''


def setting(words, name):
    return next((word.removeprefix(name + "=") for word in words if word.startswith(name + "=")), None)


def has_module(name):
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True).returncode == 0


def run_block(machine, words, text):
    exit_code = int(setting(words, "exit") or 0)
    # Standard error behind standard output of each command, as on a terminal. What runs in the background ends with the block.
    return machine.run("sh", "-euc", "trap '[ -z \"${!-}\" ] || kill $! || :' EXIT\nexec 2>&1\n" + text, code=exit_code).stdout


def check_output(expected, output):
    rest = output
    for line in expected.splitlines():
        pattern = ".*".join(re.escape(part) for part in line.split("…"))
        found = re.search(f"^{pattern}$", rest, re.M)
        assert found, f"no line '{line}' in\n{output}"


def text_of(page):
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def with_scp(folder):
    """`folder`, made, with the scp of the machines: EDGE is the home folder of the other one."""
    folder.mkdir()
    (folder / "scp").write_text(SCP)
    (folder / "scp").chmod(0o755)
    return folder


def follow(page, machines, least, has_module=has_module, elsewhere={}, instead={}, section=None):
    """The blocks in their order, on `machines` (home, run) by their names. The number of those that were left out is printed.
    `elsewhere`: by the name of a place that is no machine, or of another language, what is called with the block.
    `instead`: words of the page, and what stands for them here. `section`: the heading of the section that is run alone."""
    done = 0
    output = ""
    page_text = text_of(page)
    if section:
        page_text = re.search(rf"^## {re.escape(section)}$.*?(?=^## |\Z)", page_text, re.M | re.S)[0]
    for word, other in instead.items():
        assert word in page_text, f"docs/{page} has no '{word}'"
        page_text = page_text.replace(word, other)
    for language, info, text in re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```$", page_text, re.M | re.S):
        words = info.split()
        needs = setting(words, "needs")
        if needs and not has_module(needs):
            if language == "sh":
                print(f"skipped: docs/{page}: the commands that need the Python module {needs}")
        elif language == "text":
            check_output(text, output)
        elif setting(words, "file"):
            (machines["builder"].home / setting(words, "file")).write_text(text, encoding="utf-8")
        elif (place := words[0] if language == "sh" and words else language) in elsewhere:
            elsewhere[place](text)
        else:
            assert language == "sh" and words and words[0] in machines, (language, info)
            output = run_block(machines[words[0]], words, text)
            done += 1
    print(f"{done} blocks of commands")
    assert done >= least
