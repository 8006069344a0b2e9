"""Completion as shells do it: the scripts that the tools print run in bash, and in zsh and fish where these are installed."""
import os
import pathlib
import re
import shutil
import subprocess

from mlrun_test import EXAMPLE, container
from onnx_file import model, node, port
from tool_test import Skipped, main

# A line is given to the function as readline does it: COMP_WORDS is broken at blanks and at each of the break characters.
BASH = r"""
source <({tool} completion bash)
complete_line() {{
  COMP_LINE=$1 COMP_POINT=${{#1}} COMP_WORDS=("${{@:2}}") COMP_CWORD=$(($# - 2))
  COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
  _{name}
  printf '%s\n' "${{COMPREPLY[@]}}"
}}
complete_line {line} {words}
"""

ZSH = r"""
autoload -Uz compinit; compdef() {{ :; }}
source <({tool} completion zsh)
_describe() {{ local -a found; found=("${{(@P)3}}"); print -rl -- "${{(@)found%%:*}}"; }}
compset() {{ :; }}
_files() {{ print -r -- FILES; }}
words=({words}) CURRENT=${{#words}}
_{name}
"""

FISH = r"""
set -x PATH {bin} $PATH
{name} completion fish | source
complete -C {line}
"""


def quoted(word):
    return "'" + word.replace("'", "'\\''") + "'"


def broken(line):
    """The words of a line as bash has them: '=' and ':' are words of their own."""
    words = []
    for part in line.split(" "):
        words += [w for w in re.split(r"([=:]+)", part) if w] or [""]
    return words


def in_bash(t, tool, line):
    """The answers of bash for a line that begins with the tool's name; the cursor stands at its end."""
    words = broken(line)
    words[0] = str(t.bin / tool)
    if line.endswith(("=", ":")) and not words[-1]:
        words.pop()
    script = BASH.format(tool=t.bin / tool, name=tool, line=quoted(line), words=" ".join(map(quoted, words)))
    done = subprocess.run(["bash", "--norc", "-c", script], cwd=t.dir, env=t.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def has(found, *wanted, no=()):
    assert set(wanted) <= set(found), (wanted, found)
    assert not set(no) & set(found), (no, found)


def bash_completes_commands_options_and_their_words(t):
    container(t)
    has(in_bash(t, "mlrun", "mlrun "), "run", "explain", "bench", "trust", "completion", "help", "digits.mlc", no=["__complete"])
    assert in_bash(t, "mlrun", "mlrun expl") == ["explain"]
    has(in_bash(t, "mlrun", "mlrun bench digits.mlc --se"), "--sessions", no=["--json"])
    # A flag is not offered twice, an option is.
    has(in_bash(t, "mlrun", "mlrun run digits.mlc --json --"), "--variant", "--trust", no=["--json"])
    assert in_bash(t, "mlrun", "mlrun digits.mlc --verify ") == ["auto", "lazy", "full", "copy"]
    assert in_bash(t, "mlrun", "mlrun digits.mlc --verify=l") == ["lazy"]
    assert in_bash(t, "mlrun", "mlrun completion ") == ["bash", "fish", "zsh"]
    has(in_bash(t, "mlrun", "mlrun help "), "explain", "exit-codes")
    assert in_bash(t, "mlrun", "mlrun bench digits.mlc --duration ") == []
    has(in_bash(t, "mlpack", "mlpack "), "build", "inspect", "completion", no=["digits.mlc"])
    has(in_bash(t, "mlpack", "mlpack build m.onnx --target x86-64-v3,arm"), "x86-64-v3,armv8-a")
    has(in_bash(t, "mlpack", "mlpack size digits.mlc --by "), "kind", "tensor")


def bash_completes_what_the_file_says(t):
    path = container(t)
    built = [v["name"] for v in t.json("mlpack", "inspect", path)["variants"]]
    assert sorted(in_bash(t, "mlrun", "mlrun digits.mlc --variant ")) == sorted(built)
    assert sorted(in_bash(t, "mlrun", "mlrun explain digits.mlc --require=")) == sorted([*built, "native"])
    assert sorted(in_bash(t, "mlpack", "mlpack inspect digits.mlc --variant ")) == sorted(built)
    has(in_bash(t, "mlrun", "mlrun digits.mlc -i "), "picture=", "random", "digits.mlc")
    has(in_bash(t, "mlrun", "mlrun digits.mlc --raw -i "), "image=", no=["picture="])
    has(in_bash(t, "mlrun", "mlrun digits.mlc --raw -i image="), "random", "zeros", "digits.mlc")
    assert in_bash(t, "mlrun", "mlrun digits.mlc --raw -i image=digi") == ["digits.mlc"]
    has(in_bash(t, "mlrun", "mlrun digits.mlc --raw --program "), "main")
    has(in_bash(t, "mlrun", "mlrun digits.mlc --pipeline "), "default")
    # A file of a stranger says as much, by way of a process without privileges; no file, or no container: nothing.
    t.new_home()
    assert sorted(in_bash(t, "mlrun", "mlrun digits.mlc --variant ")) == sorted(built)
    (t.dir / "text.mlc").write_text("no container")
    assert in_bash(t, "mlrun", "mlrun text.mlc --variant ") == []
    assert in_bash(t, "mlrun", "mlrun --variant ") == []


def bash_takes_no_command_from_a_file(t):
    """An input may have any name of clean text; what comes back stands in the user's line as one word."""
    name = "image$(touch${IFS}made)"
    (t.dir / "named.onnx").write_bytes(model([node("Relu", [name], ["y"])], [port(name, "f32", [1])], [port("y", "f32", [1])]))
    t.run("mlpack", "build", "named.onnx", "-o", "named.mlc", "--target", "portable")
    found = in_bash(t, "mlrun", "mlrun named.mlc -i im")
    assert len(found) == 1 and found[0].endswith("="), found
    word = subprocess.run(["bash", "--norc", "-c", f"printf %s {found[0]}"], cwd=t.dir, capture_output=True, text=True).stdout
    assert word == name + "=" and not (t.dir / "made").exists(), (found, word)


def bash_names_files_that_need_quotes(t):
    container(t)
    (t.dir / "in put.npy").write_bytes(b"")
    (t.dir / "folder").mkdir()
    has(in_bash(t, "mlrun", "mlrun digits.mlc -i picture=in"), "in\\ put.npy")
    has(in_bash(t, "mlrun", "mlrun digits.mlc -o fol"), "folder/")


def completing_remembers_nothing(t):
    path = container(t)
    in_bash(t, "mlrun", f"mlrun {path} --variant ")
    assert not t.state.exists(), list(t.state.rglob("*"))


def the_hidden_command_is_hidden(t):
    assert "__complete" not in t.run("mlrun", "--help").stdout
    assert "did you mean" not in t.run("mlrun", "help", "__complet", code=2).stderr
    assert t.run("mlrun", "__complete").stdout == ""
    has(t.run("mlrun", "__complete", "run", "--iso").stdout.split("\t")[0].split(), "--isolated")


def zsh_completes(t):
    if not shutil.which("zsh"):
        raise Skipped("zsh is not installed")
    path = container(t)
    built = [v["name"] for v in t.json("mlpack", "inspect", path)["variants"]]

    def ask(*words):
        script = ZSH.format(tool=t.bin / "mlrun", name="mlrun", words=" ".join(map(quoted, [str(t.bin / "mlrun"), *words])))
        done = subprocess.run(["zsh", "-f", "-c", script], cwd=t.dir, env=t.env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout.splitlines()
    has(ask("expl"), "explain")
    assert sorted(ask("digits.mlc", "--variant", "")) == sorted(built)
    has(ask("digits.mlc", "-i", ""), "picture=", "random", "FILES")


def fish_completes(t):
    if not shutil.which("fish"):
        raise Skipped("fish is not installed")
    path = container(t)
    built = [v["name"] for v in t.json("mlpack", "inspect", path)["variants"]]

    def ask(line):
        script = FISH.format(bin=t.bin, name="mlrun", line=quoted(line))
        done = subprocess.run(["fish", "--no-config", "-c", script], cwd=t.dir, env=dict(t.env, HOME=str(t.dir)), capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return [found.split("\t")[0] for found in done.stdout.splitlines()]
    has(ask("mlrun expl"), "explain")
    assert sorted(ask("mlrun digits.mlc --variant ")) == sorted(built)
    has(ask("mlrun digits.mlc -i "), "picture=", "random")
    has(ask("mlrun digits.mlc -i picture=dig"), "picture=digits.mlc")
    has(ask("mlrun digits.mlc --vari"), "--variant")


def scripts_are_right_for_their_shell(t):
    for tool in ("mlrun", "mlpack"):
        for shell in ("bash", "zsh", "fish"):
            answer = t.json(tool, "completion", shell)
            assert answer["shell"] == shell and f"{tool} completion {shell}" in answer["script"], answer
            assert "TOOL" not in answer["script"], answer
            if shutil.which(shell):
                (t.dir / "script").write_text(answer["script"])
                subprocess.run([shell, "-n", "script"], cwd=t.dir, env=dict(os.environ, HOME=str(t.dir)), check=True)
        t.run(tool, "completion", "csh", code=2)


if __name__ == "__main__":
    main([bash_completes_commands_options_and_their_words, bash_completes_what_the_file_says, bash_takes_no_command_from_a_file,
          bash_names_files_that_need_quotes,
          completing_remembers_nothing, the_hidden_command_is_hidden, zsh_completes, fish_completes,
          scripts_are_right_for_their_shell])
