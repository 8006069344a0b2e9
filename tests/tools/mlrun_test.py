"""mlrun as a user runs it: the digits example, bare arrays, wrong input, missing trust, damage, exit codes.

The container is built once, for this machine and for one it is not, and copied into each test's folder.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import onnx_file
from tool_test import Tools, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "digits"
IMAGES = sorted((EXAMPLE / "images").iterdir())
SHARED = tempfile.TemporaryDirectory(prefix="mlc-mlrun-")


def container(tools):
    """digits.mlc in the test's folder, signed by the user whose home it is."""
    built = pathlib.Path(SHARED.name)
    if not (built / "digits.mlc").exists():
        maker = Tools(tools.bin, own_cache=False)
        maker.home = built / "home"
        maker.env = dict(os.environ, XDG_CONFIG_HOME=str(maker.home), XDG_STATE_HOME=str(maker.dir / "state"), XDG_CACHE_HOME=str(maker.cache))
        foreign = "armv8-a" if os.uname().machine == "x86_64" else "x86-64-v2"
        maker.run("mlpack", "build", EXAMPLE / "digits.onnx", "--pipeline", EXAMPLE / "pipeline.json",
                  "-o", built / "digits.mlc", "--target", f"native,{foreign}")
        maker.run("mlpack", "build", EXAMPLE / "digits.onnx", "-o", built / "bare.mlc", "--target", "native", "--no-sign")
        shutil.rmtree(maker.dir, ignore_errors=True)
    for name in ("digits.mlc", "bare.mlc"):
        shutil.copy(built / name, tools.dir / name)
    if not tools.home.exists():
        shutil.copytree(built / "home", tools.home)
    return tools.dir / "digits.mlc"


def ask(tools, *args, code=0):
    """The JSON answer of mlrun; what runs stands on stderr."""
    done = tools.run("mlrun", *args, "--json", code=code)
    answer = json.loads(done.stdout)
    assert list(answer)[:2] == ["schema", "ok"] and answer["ok"] == (code == 0), answer
    assert answer.get("exit_code", 0) == code, answer
    return answer


def fails(tools, code, text, *args):
    done = tools.run("mlrun", *args, code=code)
    assert text in done.stderr, f"{text!r} is not in {done.stderr!r}"
    assert done.stdout == "" or args[0] in ("explain", "selftest"), done.stdout
    json_form = ask(tools, *args, code=code)
    assert json_form["message"], json_form


def images_give_their_digit(tools):
    container(tools)
    for image in IMAGES:
        wanted = image.stem[-1]
        answer = ask(tools, "digits.mlc", "--input", image, "--top", "2")
        best = answer["outputs"]["digits"]
        assert len(best) == 2 and best[0]["label"] == wanted and best[0]["score"] >= best[1]["score"], answer
    done = tools.run("mlrun", "digits.mlc", "--input", IMAGES[0], "--top", "1")
    assert done.stdout.split()[0] == IMAGES[0].stem[-1], done.stdout
    assert "threads" in done.stderr or "thread" in done.stderr, done.stderr


def inputs_may_stand_behind_the_file(tools):
    container(tools)
    wanted = IMAGES[0].stem[-1]
    for words in (["digits.mlc", IMAGES[0]], ["run", "digits.mlc", IMAGES[0]], ["digits.mlc", "--top", "1", IMAGES[0]], ["--top", "1", "digits.mlc", IMAGES[0]]):
        assert tools.run("mlrun", *words).stdout.split()[0] == wanted, words
    refused = ask(tools, "digits.mlc", IMAGES[0], IMAGES[1], code=6)
    assert "NAME=FILE" not in refused["help"] and "a run takes 1 file" in refused["help"], refused


def json_alone_stands_on_standard_output(tools):
    container(tools)
    for command in (["run", "digits.mlc", IMAGES[0]], ["bench", "digits.mlc", "--duration", "50ms", "--warmup", "0ms"], ["profile", "digits.mlc", "--duration", "50ms"]):
        done = tools.run("mlrun", *command, "--json")
        assert json.loads(done.stdout)["ok"] and done.stderr == "", done
    fails(tools, 2, "bare arrays", "digits.mlc", "--raw", "-i", "random", "--top", "3")


def pictures_are_made_up_as_large_as_cameras_give_them(tools):
    container(tools)
    text = tools.run("mlrun", "bench", "digits.mlc", "--duration", "50ms", "--warmup", "0ms").stdout
    assert "u8[480,640,1], random" in text, text
    text = tools.run("mlrun", "bench", "digits.mlc", "--duration", "50ms", "--warmup", "0ms", "--dim", "steps[0].height=33").stdout
    assert "u8[33,640,1], random" in text, text


def numbers_are_arrays(tools):
    inputs = [onnx_file.port("ids", "i64", ["batch", "n"]), onnx_file.port("k", "i64", [1])]
    (tools.dir / "m.onnx").write_bytes(onnx_file.model([onnx_file.node("Add", ["ids", "k"], ["y"])], inputs, [onnx_file.port("y", "i64", ["batch", "n"])]))
    tools.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "portable")
    answer = ask(tools, "m.mlc", "-i", "ids=101,7592,102", "-i", "k=1")
    assert answer["outputs"]["y"]["shape"] == [1, 3] and answer["outputs"]["y"]["data"] == [102, 7593, 103], answer
    fails(tools, 6, "does not hold 1.5", "m.mlc", "ids=1,1.5", "k=1")
    fails(tools, 6, "'k' is i64[1], and 2 numbers are given", "m.mlc", "ids=1", "k=1,2")


def every_variant_gives_the_same(tools):
    container(tools)
    fitting = [v["name"] for v in ask(tools, "explain", "digits.mlc")["variants"] if v["answer"] == "fits"]
    assert "portable" in fitting and len(fitting) == 2, fitting
    scores = []
    for variant in fitting:
        answer = ask(tools, "digits.mlc", "-i", IMAGES[0], "--variant", variant, "--threads", "1", "--verify", "full")
        assert answer["variant"] == variant and answer["threads"] == 1
        scores.append(answer["outputs"]["digits"][0]["score"])
    assert abs(scores[0] - scores[1]) < 1e-4, scores


def explain_names_the_failing_clause(tools):
    container(tools)
    answer = ask(tools, "explain", "digits.mlc")
    assert answer["chosen"] not in ("portable", None), answer
    foreign = [v for v in answer["variants"] if v["answer"] == "no"]
    assert len(foreign) == 1 and any(c["clause"].startswith("host.arch") for c in foreign[0]["missing"]), foreign
    text = tools.run("mlrun", "explain", "digits.mlc").stdout
    machine = "aarch64" if foreign[0]["target"].startswith("armv8") else "x86-64"
    assert text.startswith("host ") and "chosen" in text and f"built for {machine}" in text, text
    assert max(map(len, text.splitlines())) <= 100, text
    fails(tools, 5, foreign[0]["name"], "explain", "digits.mlc", "--variant", foreign[0]["name"])


def explain_tells_what_another_machine_would_take(tools):
    container(tools)
    native = ask(tools, "explain", "digits.mlc")["chosen"]
    here = json.loads(tools.run("mlrun", "probe", "--json").stdout)
    (tools.dir / "here.json").write_text(json.dumps(here))
    assert ask(tools, "explain", "digits.mlc", "--probe", "here.json")["chosen"] == native
    # The same machine without any feature beyond its base, and one of the other kind.
    bare = dict(here, features={name: answer for name, answer in here["features"].items() if not name.startswith(("x86.", "a64.", "rv."))})
    (tools.dir / "bare.json").write_text(json.dumps(bare))
    answer = ask(tools, "explain", "digits.mlc", "--probe", "bare.json")
    assert answer["chosen"] == "portable" or not native.startswith("x86-64-v"), answer
    other, machine, number = ("aarch64", "armv8-a", 183) if os.uname().machine == "x86_64" else ("x86-64", "x86-64-v2", 62)
    features = dict(bare["features"], **{"host.arch": {"answer": "yes", "number": number, "source": "there"}},
                    **{name: {"answer": "yes", "source": "there"} for name in ("a64.fp", "a64.asimd", "x86.base", "x86.sse3", "x86.ssse3", "x86.sse41", "x86.sse42", "x86.popcnt", "x86.cx16", "x86.lahf")})
    foreign = dict(bare, cpu={"arch": other}, features=features, topology={"workers": 7, "workers_reason": "7 cores"})
    (tools.dir / "foreign.json").write_text(json.dumps(foreign))
    answer = ask(tools, "explain", "digits.mlc", "--probe", "foreign.json")
    assert answer["chosen"] == machine and answer["workers"] == 7, answer
    # A hybrid with slow cores, which are left out unless asked for; one with a quota; one whose numbers lie.
    def workers(topology, *options):
        (tools.dir / "cores.json").write_text(json.dumps(dict(foreign, topology=topology)))
        return ask(tools, "explain", "digits.mlc", "--probe", "cores.json", *options)["workers"]
    hybrid = {"cores": 24, "slow_cores": 16, "far_cores": 0, "workers": 8, "workers_reason": "8 fast ones"}
    assert [workers(hybrid), workers(hybrid, "--threads", "3"), workers(hybrid, "--threads", "99")] == [8, 3, 24]
    assert "asked for: 3; by default 8: 8 fast ones" in " ".join(
        tools.run("mlrun", "explain", "digits.mlc", "--probe", "cores.json", "--threads", "3").stdout.split())
    limited = dict(hybrid, quota_cpus=1.5, workers=1)
    assert [workers(limited), workers(limited, "--threads", "5")] == [1, 1]
    assert workers({"cores": 10 ** 12, "slow_cores": 10 ** 12, "far_cores": 10 ** 12, "workers": 10 ** 12, "quota_cpus": "all"}) == 65536
    assert workers({"cores": 2, "slow_cores": 7, "far_cores": 7, "workers": 1, "quota_cpus": -3}) == 1
    fails(tools, 4, "no answer of mlrun probe", "explain", "digits.mlc", "--probe", EXAMPLE / "accuracy.json")
    fails(tools, 4, "expected a value", "explain", "digits.mlc", "--probe", IMAGES[0])
    fails(tools, 3, "", "explain", "digits.mlc", "--probe", "absent.json")
    fails(tools, 2, "devices that are here", "explain", "digits.mlc", "--probe", "here.json", "--objective", "latency")
    fails(tools, 2, "devices that are here", "explain", "digits.mlc", "--probe", "here.json", "--devices", "gpu0")
    for verify in ("full", "copy"):  # a record without lists of processors
        assert ask(tools, "explain", "digits.mlc", "--probe", "foreign.json", "--verify", verify)["chosen"] == machine


def self_test_passes_with_several_threads(tools):
    container(tools)
    done = tools.run("mlrun", "selftest", "digits.mlc", "--threads", "1,2,7")
    assert done.stdout.count("ok ") == 6 and "skip" in done.stdout and "fail" not in done.stdout, done.stdout
    answer = ask(tools, "selftest", "digits.mlc")
    assert {v["answer"] for v in answer["variants"]} == {"ok", "skip"}, answer


def bench_reports_percentiles(tools):
    container(tools)
    answer = ask(tools, "bench", "digits.mlc", "--duration", "50ms", "--warmup", "10ms", "--threads", "1")
    times = answer["latency_ns"]
    assert times["min"] <= times["p50"] <= times["p90"] <= times["p95"] <= times["p99"] <= times["max"], times
    assert answer["samples"] > 0 and answer["throughput_per_s"] > 0
    answer = ask(tools, "bench", "digits.mlc", "--raw", "-i", "random", "--duration", "20ms", "--warmup", "0s")
    assert answer["program"] == "main", answer
    fails(tools, 2, "no duration", "bench", "digits.mlc", "--duration", "5 parsecs")


def bare_arrays_in_and_out(tools):
    container(tools)
    tools.run("mlrun", "run", "digits.mlc", "--raw", "-i", "random", "-o", "a.npz")
    tools.run("mlrun", "digits.mlc", "--raw", "-i", "image=random", "-o", "b.npz", "--variant", "portable")
    tools.run("mlrun", "digits.mlc", "--raw", "-i", "zeros", "-o", "c.npy")
    tools.run("mlrun", "digits.mlc", "--raw", "-i", "zeros", "-o", "d.json")
    assert (tools.dir / "a.npz").stat().st_size == (tools.dir / "b.npz").stat().st_size
    answer = json.loads((tools.dir / "d.json").read_text())
    assert answer["logits"]["dtype"] == "f32" and len(answer["logits"]["data"]) == 10, answer
    (tools.dir / "x.bin").write_bytes(bytes(28 * 28 * 4))
    again = ask(tools, "digits.mlc", "--raw", "-i", "@x.bin:f32[1,1,28,28]")
    assert again["outputs"]["logits"]["data"] == answer["logits"]["data"]
    tools.run("mlrun", "digits.mlc", "--raw", "-i", "c.npy", code=6)  # the logits are no image


def wrong_input_is_a_sentence_and_exit_6(tools):
    container(tools)
    (tools.dir / "text.png").write_text("not a picture")
    fails(tools, 6, "", "digits.mlc", "-i", "text.png")
    fails(tools, 6, "missing", "digits.mlc", "--raw")
    fails(tools, 6, "no input 'imag'", "digits.mlc", "--raw", "-i", "imag=random")
    fails(tools, 6, "takes arrays", "digits.mlc", "--raw", "-i", IMAGES[0])
    fails(tools, 6, "leave out --raw", "digits.mlc", "--raw", "-i", IMAGES[0])
    for words in ((), ("--raw",)):  # nothing to leave out: the file has no pipeline
        refused = ask(tools, "bare.mlc", *words, "-i", IMAGES[0], code=6)
        assert "leave out" not in refused["help"] and "no pipeline" in refused["help"], refused
    (tools.dir / "x.bin").write_bytes(bytes(64))
    fails(tools, 6, "expected", "digits.mlc", "--raw", "-i", "@x.bin:f32[1,1,4,4]")
    fails(tools, 6, "expected f32", "digits.mlc", "--raw", "-i", "@x.bin:i32[1,1,4,4]")
    fails(tools, 6, "found 1 axis, expected 4", "digits.mlc", "--raw", "-i", "@x.bin:f32[16]")
    fails(tools, 3, "", "digits.mlc", "-i", "nowhere.png")


def wrong_usage_is_exit_2(tools):
    container(tools)
    for args in ([], ["--frobnicate"], ["digits.mlc", "--frobnicate"], ["digits.mlc", "--threads", "0"],
                 ["digits.mlc", "--verify", "maybe"], ["explain"], ["help", "frobnication"],
                 ["digits.mlc", "-i", IMAGES[0], "--variant", "x86-64-v9"],
                 ["digits.mlc", "-i", IMAGES[0], "--pipeline", "other"],
                 ["digits.mlc", "-i", IMAGES[0], "-o", "answer.xyz"],
                 ["digits.mlc", "-i", IMAGES[0], "-o", "answer.npz"],
                 ["digits.mlc", "-i", IMAGES[0], "--dim", "steps[0].height=20"], ["digits.mlc", "-i", "picture=12"],
                 ["completion"], ["completion", "csh"],
                 ["digits.mlc", "--raw", "-i", "random", "--program", "nobody"]):
        done = tools.run("mlrun", *args, code=2)
        assert done.stdout == "" and done.stderr != "", (args, done)
    for args in (["--help"], ["run", "--help"], ["explain", "--help"], ["help", "bench"], ["--version"]):
        done = tools.run("mlrun", *args)
        assert done.stdout and all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout


def who_signed_decides_what_runs(tools):
    container(tools)
    done = tools.run("mlrun", "bare.mlc", "--raw", "-i", "random", "-o", "a.npz")
    assert done.stderr.startswith("portable ") and "unsigned" in done.stderr, done.stderr
    done = tools.run("mlrun", "bare.mlc", "--raw", "-i", "random", "-o", "b.npz", "--allow-unsigned")
    assert not done.stderr.startswith("portable ") and "unsigned" in done.stderr, done.stderr
    fails(tools, 5, "'native' is required", "bare.mlc", "--raw", "-i", "random", "--require", "native")
    refused = ask(tools, "bare.mlc", "-i", "random", "--require", "native", code=5)
    assert "needs trust" in refused["message"] and "--allow-unsigned" in refused["help"], refused
    assert any("fits, and needs trust" in fact for fact in refused["facts"]), refused

    own = ask(tools, "digits.mlc", "-i", IMAGES[0])
    assert own["variant"] != "portable" and own["native_allowed"], own
    keys = list((tools.home).rglob("*.pub.pem")) + list((tools.home).rglob("trust/*.pem"))
    key = tools.dir / "key.pem"
    shutil.copy(keys[0], key)
    tools.new_home()
    stranger = ask(tools, "digits.mlc", "-i", IMAGES[0])
    assert stranger["variant"] == "portable" and not stranger["native_allowed"], stranger
    assert stranger["outputs"]["digits"][0]["label"] == own["outputs"]["digits"][0]["label"]
    trusted = ask(tools, "digits.mlc", "-i", IMAGES[0], "--trust", key)
    assert trusted["variant"] == own["variant"], trusted
    fails(tools, 3, "", "digits.mlc", "-i", IMAGES[0], "--trust", "nowhere.pem")


def damage_is_found_and_named(tools):
    good = container(tools).read_bytes()
    bad = tools.dir / "bad.mlc"
    seen = set()
    for at in range(100, len(good), max(1, len(good) // 60)):
        bad.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
        done = tools.run("mlrun", "bad.mlc", "-i", IMAGES[0], "--verify", "full", code=(4, 12))
        assert done.stdout == "" and done.stderr.startswith("error"), done
        seen.add(done.returncode)
    assert 12 in seen, seen
    for keep in (0, 1, 7, 4095, 4096, len(good) // 2, len(good) - 1):
        bad.write_bytes(good[:keep])
        tools.run("mlrun", "bad.mlc", "-i", IMAGES[0], code=(4, 12))
    bad.write_bytes(good + b"x")
    tools.run("mlrun", "bad.mlc", "-i", IMAGES[0], code=(4, 12))
    fails(tools, 3, "", "nowhere.mlc", "-i", IMAGES[0])
    fails(tools, 4, "", str(EXAMPLE / "digits.onnx"), "-i", IMAGES[0])


def probe_answers_with_sources(tools):
    answer = ask(tools, "probe")
    topology = answer["topology"]
    assert answer["cpu"]["level"] and answer["cpu"]["raw"] and topology["workers"] >= 1, answer
    assert len(topology["worker_cpus"]) == topology["cores"] - topology["slow_cores"] - topology["far_cores"] >= topology["workers"], topology
    for feature in answer["features"].values():
        assert feature["answer"] in ("yes", "no", "unknown") and feature["source"], feature
    assert "workers" in tools.run("mlrun", "probe").stdout


def a_full_disk_is_no_success(tools):
    container(tools)
    if not os.path.exists("/dev/full"):
        return
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(tools.bin / "mlrun"), "probe"], env=tools.env, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 3, done


def an_index_outside_of_its_array_names_the_input(t):
    table = onnx_file.tensor("table", "f32", [10, 4], bytes(160))
    (t.dir / "gather.onnx").write_bytes(onnx_file.model([onnx_file.node("Gather", ["table", "ids"], ["y"])], [onnx_file.port("ids", "i64", ["N"])],
                                                        [onnx_file.port("y", "f32", ["N", 4])], [table]))
    t.run("mlpack", "build", "gather.onnx", "-o", "gather.mlc", "--target", "native,portable")
    for require in ("native", "portable"):
        t.run("mlrun", "gather.mlc", "-i", "ids=3,9,-10", "--require", require)
        refused = t.run("mlrun", "gather.mlc", "-i", "ids=3,10", "--require", require, code=6).stderr
        assert "E4005" in refused and "Gather" in refused and "it reads input 'ids' (i64), whose numbers may be the indices" in refused, refused


if __name__ == "__main__":
    main([images_give_their_digit, inputs_may_stand_behind_the_file, numbers_are_arrays, json_alone_stands_on_standard_output,
          pictures_are_made_up_as_large_as_cameras_give_them, every_variant_gives_the_same, explain_names_the_failing_clause, explain_tells_what_another_machine_would_take,
          self_test_passes_with_several_threads, bench_reports_percentiles, bare_arrays_in_and_out,
          wrong_input_is_a_sentence_and_exit_6, wrong_usage_is_exit_2, who_signed_decides_what_runs,
          damage_is_found_and_named, probe_answers_with_sources, an_index_outside_of_its_array_names_the_input, a_full_disk_is_no_success])
