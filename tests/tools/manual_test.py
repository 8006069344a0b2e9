"""The manual pages say what the tools say: options, commands, exit codes, pipeline steps and their keys."""
import json
import pathlib
import re
import shutil
import subprocess

from tool_test import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAN = ROOT / "man"
PAGES = ("mlpack.1", "mlrun.1", "mlc.5", "mlc-pipeline.5", "mlc-trust.5")


def the_pages_are_what_help_says(t):
    done = subprocess.run([str(MAN / "generate.py"), str(t.bin), "--check"], capture_output=True, text=True)
    print(done.stdout, end="")
    assert done.returncode == 0, done.stderr


def every_command_has_a_help_and_a_section(t):
    wanted = {"mlpack": {"build", "tune", "cache", "inspect", "diff", "size", "verify", "sign", "keygen", "policy", "targets", "check", "trust", "completion", "help"},
              "mlrun": {"run", "embed", "probe", "explain", "bench", "selftest", "trust", "completion", "help"}}
    for tool, names in wanted.items():
        overview = t.run(tool, "--help").stdout
        assert max(map(len, overview.splitlines())) <= 80, overview
        assert len(re.findall(rf"^  {tool} .*$", overview.split("Usage:")[0], re.M)) == 2, "two examples come first"
        commands = re.findall(r"^  (\w+) ", overview.split("Subcommands:")[1], re.M)
        assert names <= set(commands), commands
        page = (MAN / f"{tool}.1").read_text()
        for command in commands:
            assert f'.SS "{tool} {command} ' in page, command
            check_help(t, tool, command)


def check_help(t, tool, command):
    text = t.run(tool, command, "--help").stdout
    assert max(map(len, text.splitlines())) <= 80, text
    assert t.run(tool, "help", command).stdout == text
    assert text.index("Examples:") < text.index("Options:") and "--json" in text, text
    # Examples are this command, and use options that exist. `run` may be left out.
    examples = re.findall(rf"^  ({tool} .*)$", text, re.M)
    assert len(examples) >= 2, text
    for line in examples:
        assert line.split()[1] == command or command == "run", line
        for option in re.findall(r"\s(--?[a-z][a-z-]*)", line):
            assert re.search(rf"(^|[ ,]){re.escape(option)}\b", text.split("Options:")[1], re.M), (command, option)


def exit_codes_are_listed_alike_everywhere(t):
    tools = ("mlpack", "mlrun")
    listed = {tool: t.json(tool, "help", "exit-codes")["codes"] for tool in tools}
    assert all(codes == listed["mlpack"] for codes in listed.values()), listed
    for tool in tools:
        text = t.run(tool, "help", "exit-codes").stdout
        page = (MAN / f"{tool}.1").read_text().split(".SH EXIT STATUS")[1].split(".SH")[0]
        for code in listed["mlpack"]:
            assert re.search(rf"^ *{code['exit']}  {re.escape(code['meaning'])}$", text, re.M), text
            assert f".B {code['exit']}\n" in page, code
    # The numbers are those of base/status.h.
    enum = re.search(r"enum class Code.*?\{(.*?)\};", (ROOT / "base/status.h").read_text(), re.S).group(1)
    numbers = {int(number) for number in re.findall(r"^\s*\w+ = (\d+),", enum, re.M)}
    assert numbers and numbers <= {code["exit"] for code in listed["mlpack"]}, numbers


def numbers_of_errors_are_those_of_the_sources_and_the_specification(t):
    listed = {}
    for number, exits in re.findall(r'^    \{(\d{4}), "([\d, ]+)", ', (ROOT / "base/cli/error_numbers.h").read_text(), re.M):
        listed[number] = exits.split(", ")
    assert list(listed) == sorted(listed), "in order"
    enum = dict(re.findall(r"^\s*(\w+) = (\d+),", (ROOT / "base/status.h").read_text(), re.M))
    for folder in ("base", "schema", "signing", "loaders", "runtime", "packager", "registry", "targets"):
        for path in (ROOT / folder).rglob("*.cpp"):
            for code, number in re.findall(r"\(Code::(\w+), (\d{4}),", path.read_text()):
                assert enum[code] in listed.get(number, ()), f"{path}: E{number} with exit code {enum[code]} is not in base/cli/error_numbers.h"
    tables = [(row, exits.split(", ")) for row, exits in re.findall(r"^\| ((?:\d{4}(?:, )?)+) \| ([\d, ]+) \|", (ROOT / "spec/signing.md").read_text(), re.M)]
    tables += [(number, None) for number in re.findall(r"^\| E(\d{4}) \|", (ROOT / "spec/pipeline.md").read_text(), re.M)]
    tables += re.findall(r"\| E(\d{4}(?:, E\d{4})*) \| ([\d, ]+) \|", (ROOT / "spec/isolation.md").read_text()) and []
    assert len(tables) > 20, tables
    for row, exits in tables:
        for number in row.split(", "):
            assert number in listed and exits in (None, listed[number]), f"E{number}: {exits}, listed: {listed.get(number)}"
    for number, exits in listed.items():
        text = t.run("mlrun", "help", f"E{number}").stdout
        assert text.startswith(f"E{number}  ") and f"\n  exit code  {', '.join(exits)}\n  see  " in text, text
        assert all((ROOT / page).exists() for page in re.findall(r"[\w/]+\.md", text)), text
    assert t.json("mlpack", "help", "4001")["topic"] == "E4001"
    t.run("mlrun", "help", "E9999", code=2)


def help_answers_unknown_topics(t):
    answer = t.json("mlpack", "help", "exit-code", code=2)
    assert "exit-codes" in answer["facts"][0] and "verify" in answer["facts"][0], answer
    assert "exit-codes" in t.run("mlpack", "help").stdout
    pages = re.findall(r"(\d) ([\w-]+)", answer["help"])
    assert len(pages) == 5 and all((ROOT / f"man/{page}.{section}").exists() for section, page in pages), answer["help"]
    assert "mlc-pipeline" in t.run("mlpack", "help", "pipeline", code=2).stderr


def commands_of_the_other_tool_are_known(t):
    tools = ("mlpack", "mlrun")
    own = {tool: set(re.findall(r"^  (\w+) ", t.run(tool, "--help").stdout.split("Subcommands:")[1], re.M)) for tool in tools}
    for tool, other in (tools, tools[::-1]):
        for command in own[other] - own[tool]:
            for words in ((command,), (command, "m.mlc")):
                refused = t.run(tool, *words, code=2).stderr
                assert refused == f"error: '{command}' is a command of {other}\n  help: {other} {command} --help\n", refused


def steps_of(page):
    """{step: keys} from the .TP entries of the sections about steps."""
    steps = {}
    for section in re.split(r"^\.SH ", page, flags=re.M):
        if section.startswith("STEPS"):
            for words in re.findall(r"^\.TP\n\.B (.*)$", section, re.M):
                step, *keys = words.split()
                steps[step] = set(keys)
    return steps


def the_pipeline_page_has_every_step_with_the_keys_that_the_parser_knows(t):
    steps = steps_of((MAN / "mlc-pipeline.5").read_text())
    spec = (ROOT / "spec/pipeline.md").read_text()
    assert set(steps) == set(re.findall(r"^### (\w+)$", spec, re.M)), set(steps)
    for step, keys in steps.items():
        (t.dir / "p.json").write_text(json.dumps({"mlc_pipeline": 1, "inputs": {"photo": {"accept": ["image/png"]}},
                                                  "steps": [{"op": step, "zzz": 1}], "outputs": ["x"]}))
        # Pipelines are parsed before the model is compiled.
        answer = t.json("mlpack", "build", ROOT / "examples/digits/digits.onnx", "--pipeline", "p.json", "-o", "x.mlc",
                        code=2)
        known = re.search(r"known here: ([\w ]+)", "\n".join([answer["message"], *answer["facts"]])).group(1)
        assert set(known.split()) - {"op", "in", "out"} == keys, (step, known)


def the_example_of_the_pipeline_page_is_the_one_of_the_specification(t):
    page = (MAN / "mlc-pipeline.5").read_text().split(".SH FORM")[1]
    example = json.loads(re.search(r"\.nf\n(.*?)\.fi", page, re.S).group(1))
    spec = (ROOT / "spec/pipeline.md").read_text()
    assert example == json.loads(re.search(r"```json\n(.*?)```", spec, re.S).group(1)), example


def the_trust_page_has_every_key_that_the_parser_knows(t):
    page = (MAN / "mlc-trust.5").read_text()

    def listed(*sections):
        texts = [re.search(rf"^\.SH {section}\n(.*?)(?=^\.SH )", page, re.M | re.S).group(1) for section in sections]
        return {key for text in texts for key in re.findall(r"^\.T[PQ]\n\.B (\w+)$", text, re.M)}
    for place, keys in (('{"keys": [{"zzz": 1}]}', listed("KEYS")), ('{"rules": [{"zzz": 1}]}', listed("RULES")),
                        ('{"version": 1, "administrators": {"zzz": 1}}', listed("ADMINISTRATORS")), ('{"zzz": 1}', listed("THE WHOLE") | {"keys", "rules"})):
        (t.dir / "p.json").write_text(place)
        answer = t.json("mlpack", "verify", "p.mlc", "--policy", "p.json", code=2)
        known = re.search(r"known here: ([\w ]+)", "\n".join(answer["facts"])).group(1)
        assert set(known.split()) == keys, (place, known)
    # The example is one, but for the key, the id and the root, which are cut.
    example = re.search(r"^\.SH FORM\n\.nf\n(.*?)\.fi", page, re.M | re.S).group(1).replace("\\-", "-").replace("\\e", "\\")
    example = example.replace("5f0c21d3a09be4c7...", "0" * 64).replace("sha256:0f5e...", "sha256:" + "0" * 64)
    t.run("mlpack", "keygen", "-o", "k.pem")
    example = json.loads(example)
    example["keys"][0]["pem"] = (t.dir / "k.pub.pem").read_text()
    (t.dir / "p.json").write_text(json.dumps(example))
    assert t.json("mlpack", "verify", "p.mlc", "--policy", "p.json", code=3)["message"]  # the policy is read, the file is not there


def the_pages_are_clean_for_groff(t):
    if not shutil.which("groff"):
        print("skipped: groff is not installed")
        return
    for page in PAGES:
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", str(MAN / page)], capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stderr


main([value for value in list(globals().values()) if getattr(value, "__module__", "") == "__main__"
      and callable(value) and value.__name__ not in ("steps_of", "check_help")])
