"""The fields that mlrun prints with --json are those of spec/json.md, in both directions: json_test.py does it for mlpack."""
import json
import re
import shutil

import boxes_test
import programs_test
import search_test
import sounds_test
import stream_test
import text_pipeline_test
from errors_test import EXAMPLE, PIPELINE
from json_test import Fields, tables
from mlrun_test import IMAGES, container
from onnx_file import list_of_maps, model, node, port
from pipeline_test import png
from tool_test import main

SECTIONS = ("run", "chunk", "embed", "explain", "tune", "bench", "profile", "selftest", "probe", "completion")
# Not on every machine, or not of any file that the tools make here.
UNSEEN = {
    "embed": {"failed[].code", "failed[].facts[]", "failed[].help"},  # of any error
    "run": {"fell_back"}, "selftest": {"variants[].device"},  # with a device: gpu_test.py
    "tune": {"file", "target", "threads", "nests", "better", "before_ns", "after_ns", "records", "warnings[]",  # of mlpack: json_test.py
             "variants[].device", "variants[].reason", "programs[].reason"},  # gpu_test.py, tune_run_test.py
    "explain": {"programs[].measured_ns", "programs[].remembered",  # tune_run_test.py
                "variants[].estimate_ns", "variants[].device", "devices[].name", "devices[].api", "devices[].title", "devices[].driver",
                "devices[].software", "devices[].memory_bytes",  # with a device: gpu_test.py
                "stages[].segments", "stages[].mode", "stages[].device", "stages[].variant", "stages[].estimate_ns", "stages[].copies_ns", "stages[].reason"},  # together_test.py
    "probe": {"errors[]", "topology.caches[].level", "topology.caches[].type", "topology.caches[].size_bytes",
              "topology.caches[].shared_by", "cpu.raw[]", "features.*.number", "devices[].api", "devices[].identity", "devices[].title",
              "devices[].driver", "devices[].software", "devices[].memory_bytes", "devices[].facts.*"},
}
SHORT = ("--duration", "20ms", "--warmup", "0s")


def build(t, name, nodes, inputs, outputs, **more):
    (t.dir / "m.onnx").write_bytes(model(nodes, inputs, outputs, **more))
    t.run("mlpack", "build", "m.onnx", "-o", name, "--target", "portable", "--no-selftest")


def a_reader_of_text(t):
    """The digits as if their scores were those of letters: nine and the blank."""
    (t.dir / "letters.txt").write_text("\n".join("abcdefghi") + "\n")
    steps = PIPELINE.splitlines()
    steps[6] = '  {"op": "ctc_greedy", "in": "logits", "blank": 0, "charset": "letters.txt", "final_space": false, "out": "digits"}],'
    (t.dir / "p.json").write_text("\n".join(steps))
    t.run("mlpack", "build", EXAMPLE / "digits.onnx", "-o", "text.mlc", "--target", "portable", "--no-selftest", "--pipeline", "p.json")


def boxes(t):
    boxes_test.detector(t, boxes_test.ROWS)
    boxes_test.pipeline(t, {"score": 0.25, "iou": 0.5, "per": "class"}, boxes_test.DRAW, ["found", "drawn"])
    t.run("mlpack", "build", "d.onnx", "-o", "boxes.mlc", "--target", "portable", "--no-selftest", "--pipeline", "p.json")


def sounds(t):
    sounds_test.pipeline(t, [{"op": "fit", "samples": 5, "out": "x"}, sounds_test.RUN, {"op": "wav_out", "rate": 8000, "out": "file"}], ["file"])
    (t.dir / "s.wav").write_bytes(sounds_test.wav([1, 2, 3], 8000))
    t.run("mlpack", "build", "same.onnx", "-o", "sounds.mlc", "--target", "portable", "--no-selftest", "--pipeline", "p.json")


def maps(t):
    nodes = [node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["cat", "dog"])]
    build(t, "map.mlc", nodes, [port("x", "f32", ["n", 2])], [list_of_maps("y", "str", "f32")], domains=["ai.onnx.ml"])


def several_programs(t):
    (t.dir / "photo.png").write_bytes(png([[(x, y, 9) for x in range(8)] for y in range(6)]))
    (t.dir / "mean.onnx").write_bytes(programs_test.mean_of("N"))
    (t.dir / "find.onnx").write_bytes(programs_test.finder([(0, 0, 2, 2), (4, 1, 6, 3)]))
    t.run("mlpack", "build", programs_test.write(t, "each.json", programs_test.described(2)), "-o", "each.mlc", "--target", "native")


def answers(t, fields):
    def ask(*args, code=0):
        command = args[0] if args[0] in ("embed", "explain", "tune", "bench", "profile", "selftest", "probe", "completion", "trust", "help") else "run"
        done = t.run("mlrun", *args, "--json", code=code)
        answer = fields.look(json.loads(done.stdout))
        assert answer["schema"] == f"mlc.{command}/1" and answer["ok"] == (code == 0), answer
        return answer

    container(t)
    ask("digits.mlc", "-i", IMAGES[0])
    fields.look(json.loads(t.run("mlrun", "digits.mlc", "-i", IMAGES[0], "--json-lines").stdout))
    ask("digits.mlc", "--raw", "-i", "zeros")
    ask("digits.mlc", "--raw", "-i", "zeros", "-o", "a.npz")
    ask("digits.mlc", code=6)
    ask("nowhere.mlc", "-i", "x", code=3)
    ask("explain", "digits.mlc")
    ask("explain", "digits.mlc", "--require", "cuda", code=5)
    ask("tune", "digits.mlc", "--duration", "1ms")
    ask("explain", "digits.mlc")
    ask("tune", "digits.mlc", "--forget")
    ask("bench", "digits.mlc", *SHORT)
    several_programs(t)
    ask("bench", "each.mlc", "-i", "photo.png", *SHORT)
    ask("profile", "digits.mlc", *SHORT)
    ask("profile", "digits.mlc", "--variant", "nonesuch", code=2)
    ask("selftest", "digits.mlc")
    ask("selftest", "digits.mlc", "--time-limit", "1us", code=(8, 21))
    ask("probe")
    ask("completion", "zsh")
    ask("help", "explain")
    build(t, "large.mlc", [node("Identity", ["x"], ["y"])], [port("x", "u8", ["n"])], [port("y", "u8", ["n"])])
    ask("large.mlc", "-i", "zeros", "--dim", "n=2000000")
    a_reader_of_text(t)
    assert "text" in ask("text.mlc", "-i", IMAGES[0])["outputs"]["digits"]
    text_pipeline_test.build(t, text_pipeline_test.described([getattr(text_pipeline_test, step) for step in ("TOKENIZE", "RUN", "POOL", "UNIT")]))
    (t.dir / "lines.txt").write_text("Hello world\nxyz\n")
    ask("embed", "m.mlc", "lines.txt", "--query", "a", "-o", "vectors.npy")
    ask("embed", "m.mlc", "lines.txt", code=2)
    search_test.build(t)
    (t.dir / "pictures" / "0.png").write_bytes((t.dir / "pictures" / "1.png").read_bytes()[:200])
    ask("embed", "clip.mlc", "pictures", "--pipeline", "picture", "-q", "red")
    boxes(t)
    assert "media_type" in ask("boxes.mlc", "-i", "p.png")["outputs"]["drawn"]
    ask("boxes.mlc", "-i", "p.png", "-o", "a.png")
    sounds(t)
    assert ask("sounds.mlc", "-i", "s.wav")["outputs"]["file"]["samples"] == 5
    stream_test.sums(t)
    stream_test.build(t)
    *chunks, last = map(json.loads, t.run("mlrun", "s.mlc", "-i", "s.wav", "--stream", "--json").stdout.splitlines())
    assert fields.look(last)["chunks"] == len([fields.look(chunk) for chunk in chunks]) == 4
    maps(t)
    ask("map.mlc", "-i", "zeros", "--dim", "n=1")
    ask("trust", "--list")
    key = next(t.home.rglob("trust/*.pem"))
    shutil.copy(key, t.dir / "k.pem")
    ask("trust", "k.pem", "--models", "a/*")
    ids = ask("trust", "--list")["keys"]
    assert len({k["key_id"] for k in ids}) == 1, ids
    assert len(ask("trust", "--remove", ids[0]["key_id"][:16])["removed"]) == len(ids)
    ask("trust", "--remove", ids[0]["key_id"], code=3)
    ask("trust", "--remove", "12ab", code=2)
    ask("trust", code=2)


def every_field_of_an_answer_is_in_the_page_and_the_other_way_round(t):
    fields = Fields()
    answers(t, fields)
    missing = {name: fields.unseen(name) - UNSEEN.get(name, set()) for name in SECTIONS}
    assert not any(missing.values()), f"spec/json.md has what no answer has: {missing}"


def the_page_has_a_section_for_every_command(t):
    commands = re.findall(r"^  (\w+) ", t.run("mlrun", "--help").stdout.split("Subcommands:")[1], re.M)
    assert set(commands) <= set(tables()), set(commands) - set(tables())


if __name__ == "__main__":
    main([every_field_of_an_answer_is_in_the_page_and_the_other_way_round, the_page_has_a_section_for_every_command])
