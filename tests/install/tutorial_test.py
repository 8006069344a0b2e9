"""Runs each command of docs/tutorial.md as it stands there. The info string of a block says on which machine: the builder,
which has all components, or the edge, which has the runtime alone. `needs=M`: only where Python has the module M;
`exit=N`: what the last command ends with; `file=F` writes the block. The lines of the ```text block behind it are in the
output; an ellipsis stands for anything."""
import re
import subprocess
import sys

from installed import ROOT, SCRATCH, Machine, install, main

PAGE = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```$", PAGE, re.M | re.S)
MACHINES = {"builder": Machine("builder", install(SCRATCH / "everything")),
            "edge": Machine("edge", install(SCRATCH / "runtime", "runtime"))}
# Two machines that are one: what is copied to the other one goes into its home folder.
SCP = f'''#!/bin/sh
for last; do :; done
[ "$last" = edge: ] || exit 1
while [ $# -gt 1 ]; do cp "$1" "{MACHINES["edge"].home}/" || exit 1; shift; done
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


def follow():
    """The blocks in their order. The number of those that were left out is printed."""
    done = 0
    output = ""
    for language, info, text in BLOCKS:
        words = info.split()
        needs = setting(words, "needs")
        if needs and not has_module(needs):
            if language == "sh":
                print(f"skipped: docs/tutorial.md: the commands that need the Python module {needs}")
        elif language == "text":
            check_output(text, output)
        elif setting(words, "file"):
            (MACHINES["builder"].home / setting(words, "file")).write_text(text, encoding="utf-8")
        else:
            assert language == "sh" and words and words[0] in MACHINES, (language, info)
            output = run_block(MACHINES[words[0]], words, text)
            done += 1
    print(f"{done} blocks of commands")
    assert done >= 8


def the_tutorial_can_be_followed():
    tools = SCRATCH / "stand-ins"
    tools.mkdir()
    (tools / "scp").write_text(SCP)
    (tools / "scp").chmod(0o755)
    for machine in MACHINES.values():
        known = machine.environment
        machine.environment = lambda known=known: {**known(), "PATH": f"{tools}:" + known()["PATH"]}
    assert not (MACHINES["edge"].prefix / "bin/mlpack").exists()
    follow()


def it_has_two_pages():
    words = len(PAGE.split())
    assert words < 1300, f"{words} words"


main([the_tutorial_can_be_followed, it_has_two_pages])
