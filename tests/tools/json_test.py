"""The fields that --json prints are those of spec/json.md: every field found in an answer is there, and every field there is
found in some answer. `mlpack` alone here; SECTIONS says which sections of the page that is."""
import collections
import json
import pathlib
import re
import struct

import onnx_file
import stream_test
from tool_test import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/digits"
SECTIONS = ("build", "tune", "cache", "check", "targets", "inspect", "diff", "executable", "extract", "size", "keygen", "sign", "attest", "thin", "fill", "apply", "relabel", "add", "upgrade", "verify", "policy", "trust", "help", "usage")
# Nothing that the tools can be brought to make here has these.
UNSEEN = {
    "build": {"selftest.variants[].device": "a device of this machine"},
    "tune": {"warnings[]": "schedules whose answers differ",
             **dict.fromkeys(("root", "chosen", "remembered", "forgotten", "isolated", *(f"variants[].{name}" for name in ("name", "device", "answer", "p25_ns", "p50_ns", "p75_ns", "rounds", "reason")),
                              *(f"programs[].{name}" for name in ("name", "chosen", "reason", "variants[]"))),
                             "of mlrun: mlrun_json_test.py")},
    "inspect": {"variants[].unusable": "files of a later version", "notes[]": "files of a later version"},
}
# "as `a[]`": the fields of such an item.
ALIKE = re.compile(r"^(?:as|alike)\b")


def tables():
    """{section: {path: meaning}} of the page; '' is the section on every answer."""
    found = collections.OrderedDict()
    section = None
    for line in (ROOT / "spec/json.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            name = re.fullmatch(r"## mlc\.(\w+)/1", line)
            section = name.group(1) if name else "" if line == "## Every answer" else None
            if section is not None:
                found[section] = collections.OrderedDict()
        row = re.fullmatch(r"\| `([^`]+)` \| (.*) \|", line)
        if row and section is not None:
            assert row.group(1) not in found[section], f"{section}: {row.group(1)} stands there twice"
            found[section][row.group(1)] = row.group(2)
    return found


def pattern(path):
    return re.compile(re.escape(path).replace(r"\.\*", r"\..+?"))


class Section:
    """The fields of one schema: what a path of an answer is called in the page."""

    def __init__(self, rows):
        self.rows = rows
        # Where items are like those of another list, their fields are called as that list's.
        self.alike = {}
        last = None
        for path, meaning in rows.items():
            if ALIKE.match(meaning) and path.endswith("[]"):
                named = re.search(r"as `([^`]+\[\])`", meaning)
                last = named.group(1) if named else last
                self.alike[path] = last
        self.exact = {path: pattern(path) for path in rows}

    def name_of(self, path):
        for _ in range(20):  # entries within entries
            for one, other in self.alike.items():
                if path.startswith(one + "."):
                    path = other + path[len(one):]
                    self.used.add(one)
                    break
            else:
                break
        for name, expression in self.exact.items():
            if expression.fullmatch(path):
                return name
        return None

    used = set()


def paths(value, at=""):
    """The paths of all that is no list or object with items. Empty ones have a path too: nothing is in them to be named."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for item in value:
            yield from paths(item, at + "[]")
    else:
        yield at


class Fields:
    def __init__(self):
        page = tables()
        common = page.pop("")
        self.sections = {name: Section({**common, **page.get(name, {})}) for name in (*page, "usage")}
        self.seen = collections.defaultdict(set)
        self.own = {name: set(page.get(name, {})) for name in self.sections}
        for section in self.sections.values():
            section.used = set()

    def look(self, answer):
        name = re.fullmatch(r"mlc\.(\w+)/1", answer["schema"]).group(1)
        assert name in self.sections, f"spec/json.md has no section mlc.{name}/1"
        for path in paths(answer):
            known = self.sections[name].name_of(path)
            assert known, f"spec/json.md, mlc.{name}/1: nothing about {path}"
            self.seen[name].add(known)
        return answer

    def unseen(self, name):
        section = self.sections[name]
        return {p for p in self.own[name] - self.seen[name] if p not in section.used and p not in UNSEEN.get(name, {})}


def saturated(t):
    """A softmax that is all of one class, whatever is rounded."""
    initializers = [onnx_file.tensor("w", "f32", [16, 32], struct.pack("<512f", *(k % 11 / 3 for k in range(512)))), onnx_file.tensor("b", "f32", [32], struct.pack("<32f", 1e6, *([0] * 31)))]
    nodes = [onnx_file.node("MatMul", ["x", "w"], ["h"]), onnx_file.node("Add", ["h", "b"], ["s"]), onnx_file.node("Softmax", ["s"], ["y"])]
    (t.dir / "saturated.onnx").write_bytes(onnx_file.model(nodes, [onnx_file.port("x", "f32", ["N", 16])], [onnx_file.port("y", "f32", ["N", 32])], initializers))


def wide(t):
    """A model whose weights a build in bf16 keeps in no form of theirs."""
    w = onnx_file.tensor("w", "f32", [600, 300], struct.pack("<f", 1.2345678) * (600 * 300))
    (t.dir / "wide.onnx").write_bytes(onnx_file.model([onnx_file.node("MatMul", ["x", "w"], ["y"])], [onnx_file.port("x", "f32", ["N", 600])], [onnx_file.port("y", "f32", ["N", 300])], [w]))


def linear(t):
    """y = x w."""
    nodes = [onnx_file.node("MatMul", ["x", "w"], ["y"])]
    ports = [onnx_file.port(name, "f32", [4, 4]) for name in ("x", "y")]
    (t.dir / "linear.onnx").write_bytes(onnx_file.model(nodes, ports[:1], ports[1:], [onnx_file.tensor("w", "f32", [4, 4], struct.pack("<16f", *range(16)))]))


def lost(t):
    """y = x + x * 1e-9, of which no answer shows what is added."""
    nodes = [onnx_file.node("Mul", ["x", "c"], ["a"]), onnx_file.node("Add", ["x", "a"], ["y"])]
    ports = [onnx_file.port(name, "f32", [4, 8]) for name in ("x", "y")]
    (t.dir / "lost.onnx").write_bytes(onnx_file.model(nodes, ports[:1], ports[1:], [onnx_file.tensor("c", "f32", [], struct.pack("<f", 1e-9))]))


def answers(t, fields):
    """Runs of every command, good ones and bad ones, whose answers have every field together."""
    def ask(*args, code=0):
        return fields.look(t.json("mlpack", *args, code=code))

    model, pipe = EXAMPLE / "digits.onnx", EXAMPLE / "pipeline.json"
    ask("build", model, "--pipeline", pipe, "-o", "d.mlc", "--target", "armv8-a,native")
    ask("build", model, "-o", "u.mlc", "--target", "portable", "--no-sign", "--no-selftest", "--no-cache", "--id", "a/b", "--model-version", "3", "--no-golden")
    ask("build", model, "-o", "g.mlc", "--target", "cuda", "--cubin", "none", "--no-sign", "--no-golden")  # warns: no processor among the targets
    lost(t)
    ask("build", "lost.onnx", "-o", "lost.mlc", "--target", "portable", "--no-sign")
    ask("build", model, "-o", "u.mlc", "--target", "x86-64-v9", code=2)
    ask("build", model, "-o", "u.mlc", "--target", "portable", "--no-sign", "--no-selftest", "--cache", model)  # which is no folder
    tuned(t, ask)
    ask("cache", "--clear")
    ask("check", model, "--pipeline", pipe)
    ask("init", model, "-o", "starter.json")
    ask("init", model, "-o", "starter.json", code=2)
    ask("check", ROOT / "tests/tools/json_test.py", code=4)
    ask("targets")
    ask("help")
    ask("help", "exit-codes")
    ask("help", "build")
    ask("size", "d.mlc")
    ask("thin", "d.mlc", "--keep", "portable", "-o", "thin.mlc")
    ask("thin", "d.mlc", "--keep", "armv8-a", "-o", "arm.mlc")
    ask("fill", "thin.mlc", "--from", "arm.mlc")
    ask("fill", "thin.mlc", "--from", "lost.mlc", code=12)
    ask("relabel", "thin.mlc", "--metadata", "title=Digits")
    ask("relabel", "thin.mlc", "--metadata", "title", code=2)
    linear(t)
    ask("build", "linear.onnx", "-o", "l.mlc", "--target", "armv8-a")
    ask("thin", "l.mlc", "--keep", "portable")
    ask("add", "l.mlc", "--target", "armv8-a,rv64gc", "--from", "linear.onnx")
    ask("add", "l.mlc", "--target", "armv8-a", "--from", "linear.onnx")
    ask("add", "l.mlc", "--target", "armv8-a", "--from", "lost.onnx", code=20)
    wide(t)
    ask("build", "wide.onnx", "-o", "w.mlc", "--target", "portable", "--precision", "bf16", "--no-selftest")
    ask("add", "w.mlc", "--target", "armv8-a", code=3)
    saturated(t)
    ask("build", "saturated.onnx", "-o", "saturated.mlc", "--target", "portable", "--precision", "bf16", "--no-selftest")
    ask("upgrade", "l.mlc", "-o", "upgraded.mlc")
    ask("upgrade", "l.mlc", "--no-sign", code=2)
    ask("diff", "d.mlc", "d.mlc")
    ask("diff", "d.mlc", "u.mlc", code=1)
    ask("diff", "d.mlc", "u.mlc", "--delta", "d.mld")
    ask("diff", "d.mlc", "d.mlc", "--behaviour")
    ask("extract", "d.mlc", "--what", "golden,assets", "-o", "parts")
    if (t.bin / "mlrun-alone").exists():
        ask("executable", "d.mlc", "-o", "d")
        ask("extract", "d", "-o", "d2.mlc")
        ask("build", model, "-o", "x.mlc", "--target", "portable", "--executable", "x")
    ask("diff", "d.mlc", "l.mlc", "--behaviour", code=1)
    ask("apply", "d.mlc", "d.mld", "-o", "again.mlc")
    ask("apply", "u.mlc", "d.mld", "-o", "again.mlc", code=12)
    ask("keygen", "-o", "k.pem")
    ask("sign", "u.mlc", "--key", "k.pem")
    ask("sign", "u.mlc", "--key", "k.pem", "-o", "ends.mlc", "--replace", "--not-after", "2999-01-01")
    ask("verify", "ends.mlc", code=11)
    ask("inspect", "ends.mlc")
    ask("verify", "u.mlc", code=11)
    ask("verify", "d.mlc", "--deep")
    ask("verify", "d.mlc", "--expect-root", "0" * 64, code=12)
    ask("attest", "d.mlc", "--sbom", "-o", "d.json")
    ask("verify", "d.mlc", "--bundle", "d.json")
    ask("attest", "u.mlc", "--sbom", "-o", "u.json")
    ask("verify", "d.mlc", "--bundle", "u.json", code=12)
    ask("attest", "d.mlc", "--sbom", "--key", "k.pem", "-o", "k.json")
    ask("verify", "d.mlc", "--bundle", "k.json", code=11)
    ask("trust", "u.mlc", code=2)
    key_id = ask("trust", "k.pub.pem", "--models", "a/*")["key_id"]
    ask("trust", "k.pub.pem", "--models", "b/*")
    (t.home / "mlc/trust/damaged.pem").write_text("no key")
    ask("trust", "--list")
    ask("trust", "--remove", key_id)
    bundles(t, ask)
    ask("inspect", "d.mlc", "--tensors", "--segments")
    ask("inspect", "d.mlc", "--plan")
    t.run("sample_container", "rich.mlc", "rich")
    ask("inspect", "rich.mlc")
    (t.dir / "bad.mlc").write_bytes((t.dir / "d.mlc").read_bytes()[:-200])
    ask("verify", "bad.mlc", code=4)
    control(t)
    ask("check", "slow.onnx", "--target", "cuda-sm80,native")
    ask("check", "c.onnx")
    damaged(t, "d.mlc", "hurt.mlc")
    (t.home / "mlc/trust/odd.pem").write_text("no key")  # grants nothing, and is told
    ask("verify", "hurt.mlc", "--deep", code=12)
    ask("size", "d.mlc", "--by", "tensor")


def bundles(t, ask):
    """Policies that travel; k.pem is the key of their administrator."""
    for version in (1, 2):
        (t.dir / f"p{version}.json").write_text(json.dumps({"version": version, "expires": "2999-01-01T00:00:00Z", "administrators": {
            "keys": [{"id": "k", "pem": (t.dir / "k.pub.pem").read_text()}]}}))
        ask("policy", "sign", f"p{version}.json", "--key", "k.pem", "-o", f"p{version}.bundle")
    ask("policy", "verify", "p2.bundle", "--after", "p1.bundle")
    ask("policy", "verify", "p1.bundle", "--after", "p2.bundle", code=13)
    ask("trust", "--install", "p1.bundle", "--trust-first", "k.pub.pem", "--policy", t.dir / "etc/trust.json")
    ask("trust", "--install", "p2.bundle", "--policy", t.dir / "etc/trust.json")


def control(t):
    """A model with a step that only the run decides."""
    nodes = [onnx_file.node("NonZero", ["x"], ["y"], "some")]
    (t.dir / "c.onnx").write_bytes(onnx_file.model(nodes, [onnx_file.port("x", "f32", ["n"])], [onnx_file.port("y", "i64", [1, "m"])]))
    nodes = [onnx_file.node("NonMaxSuppression", ["boxes", "scores", "most"], ["y"])]
    ports = [onnx_file.port("boxes", "f32", [1, 200, 4]), onnx_file.port("scores", "f32", [1, 3, 200])]
    (t.dir / "slow.onnx").write_bytes(onnx_file.model(nodes, ports, [onnx_file.port("y", "i64", ["m", 3])], [onnx_file.tensor("most", "i64", [1], (9).to_bytes(8, "little"))]))


def tuned(t, ask):
    """A file whose only product follows a record that says it should."""
    weights = onnx_file.tensor("w", "f32", [64, 48], bytes(4 * 64 * 48))
    nodes = [onnx_file.node("MatMul", ["x", "w"], ["y"], "times")]
    (t.dir / "p.onnx").write_bytes(onnx_file.model(nodes, [onnx_file.port("x", "f32", [9, 64])], [onnx_file.port("y", "f32", [9, 48])], [weights]))
    ask("tune", "p.onnx", "-o", "p.tuning", "--target", "x86-64-v2", "--time", 0)
    lines = [re.sub(r"^time \d+ \d+", "time 9 9", line) for line in (t.dir / "p.tuning").read_text().splitlines()]
    lines[4] = re.sub(r"^time \d+ \d+", "time 1 1", lines[4])
    (t.dir / "p.tuning").write_text("\n".join(lines) + "\n")
    ask("build", "p.onnx", "-o", "p.mlc", "--target", "x86-64-v2", "--tuned", "p.tuning")
    ask("inspect", "p.mlc")
    stream_test.sums(t)
    stream_test.build(t)
    ask("inspect", "s.mlc")


def damaged(t, source, target):
    segment = next(s for s in t.json("mlpack", "inspect", source)["segments"] if s["kind"] == "weights")
    bad = bytearray((t.dir / source).read_bytes())
    bad[segment["offset"] + segment["stored_bytes"] // 2] ^= 1
    (t.dir / target).write_bytes(bad)


def every_field_of_an_answer_is_in_the_page_and_the_other_way_round(t):
    fields = Fields()
    answers(t, fields)
    done = fields.look(json.loads(t.run("mlpack", "--json", code=2).stdout))
    assert done["schema"] == "mlc.usage/1", done
    missing = {name: fields.unseen(name) for name in SECTIONS if name in fields.sections and fields.unseen(name)}
    assert not missing, f"spec/json.md has what no answer has: {missing}"
    common = set(tables()[""])
    assert common == set().union(*fields.seen.values()) & common, common


def the_page_has_a_section_for_every_command(t):
    page = tables()
    for tool in ("mlpack",):
        commands = re.findall(r"^  (\w+) ", t.run(tool, "--help").stdout.split("Subcommands:")[1], re.M)
        assert set(commands) <= set(page), set(commands) - set(page)


if __name__ == "__main__":
    main([every_field_of_an_answer_is_in_the_page_and_the_other_way_round, the_page_has_a_section_for_every_command], own_cache=True)
