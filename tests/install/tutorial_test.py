"""Runs each command of the pages in docs/ as it stands there. The info string of a block says on which machine: the builder,
which has all components, or the edge, which has the runtime alone. `needs=M`: only where Python has the module M;
`exit=N`: what the last command ends with; `file=F` writes the block. The lines of the ```text block behind it are in the
output; an ellipsis stands for anything."""
import re
import subprocess
import sys

from installed import ROOT, SCRATCH, Machine, install, main

PREFIXES = {"builder": install(SCRATCH / "everything"), "edge": install(SCRATCH / "runtime", "runtime")}
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
    # Standard error behind standard output of each command, as on a terminal.
    return machine.run("sh", "-euc", "exec 2>&1\n" + text, code=exit_code).stdout


def check_output(expected, output):
    rest = output
    for line in expected.splitlines():
        pattern = ".*".join(re.escape(part) for part in line.split("…"))
        found = re.search(f"^{pattern}$", rest, re.M)
        assert found, f"no line '{line}' in\n{output}"


def text_of(page):
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def machines_for(page):
    """Each page begins with empty home folders."""
    tools = SCRATCH / f"stand-ins {page}"
    tools.mkdir()
    (tools / "scp").write_text(SCP)
    (tools / "scp").chmod(0o755)
    machines = {name: Machine(f"{name} {page}", prefix) for name, prefix in PREFIXES.items()}
    for machine in machines.values():
        known = machine.environment
        machine.environment = lambda known=known: {**known(), "PATH": f"{tools}:" + known()["PATH"], "EDGE": str(machines["edge"].home)}
    return machines


def follow(page, least):
    """The blocks in their order. The number of those that were left out is printed."""
    machines = machines_for(page)
    done = 0
    output = ""
    for language, info, text in re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```$", text_of(page), re.M | re.S):
        words = info.split()
        needs = setting(words, "needs")
        if needs and not has_module(needs):
            if language == "sh":
                print(f"skipped: docs/{page}: the commands that need the Python module {needs}")
        elif language == "text":
            check_output(text, output)
        elif setting(words, "file"):
            (machines["builder"].home / setting(words, "file")).write_text(text, encoding="utf-8")
        else:
            assert language == "sh" and words and words[0] in machines, (language, info)
            output = run_block(machines[words[0]], words, text)
            done += 1
    print(f"{done} blocks of commands")
    assert done >= least


def the_tutorial_can_be_followed():
    assert not (PREFIXES["edge"] / "bin/mlpack").exists()
    follow("tutorial.md", 8)


def keys_in_production_do_what_their_page_says():
    follow("production.md", 5)


def files_change_as_their_page_says():
    follow("updates.md", 5)


def the_tutorial_has_two_pages():
    words = len(text_of("tutorial.md").split())
    assert words < 1300, f"{words} words"


main([the_tutorial_can_be_followed, keys_in_production_do_what_their_page_says, files_change_as_their_page_says, the_tutorial_has_two_pages])
