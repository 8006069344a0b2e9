"""Several models in one container: sections, bounds, weights that are there once, steps for each item, tokens one after the other."""
import json
import pathlib
import shutil
import struct

import npz_file
from onnx_file import model, node, port, tensor
from pipeline_test import png
from tool_test import Skipped, main

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "speech"
SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared" / "models"


def f32(*values):
    return struct.pack(f"<{len(values)}f", *values)


def i64(*values):
    return struct.pack(f"<{len(values)}q", *values)


def write(t, name, description):
    (t.dir / name).write_text(json.dumps(description))
    return name


def run(t, *args):
    return json.loads(t.run("mlrun", *args, "--json").stdout)["outputs"]


WEIGHT = f32(*[k * 0.25 - 3 for k in range(64 * 64)])


def dense(name_of_rows):
    """[rows, 64] by one weight that all models here share; all have names for their values in common."""
    return model([node("MatMul", ["x", "w"], ["y"])], [port("x", "f32", [name_of_rows, 64])], [port("y", "f32", [name_of_rows, 64])], [tensor("w", "f32", [64, 64], WEIGHT)])


def models_of_one_file_share_what_is_equal(t):
    for name in ("a", "b"):
        (t.dir / f"{name}.onnx").write_bytes(dense("N"))
    pipeline = {"mlc_pipeline": 1, "programs": {"first": "a.onnx", "second": {"model": "b.onnx", "dims": {"N": [1, 4]}}},
                "inputs": {"rows": {"accept": ["application/x-npy"]}},
                "steps": [{"op": "run", "program": "first", "in": {"x": "rows"}, "out": {"y": "once"}},
                          {"op": "run", "program": "second", "in": {"x": "once"}, "out": {"y": "twice"}},
                          {"op": "run", "program": "second", "in": {"x": "twice"}, "out": {"y": "thrice"}}],
                "outputs": ["thrice"]}
    t.run("mlpack", "build", write(t, "p.json", pipeline), "-o", "p.mlc", "--target", "native")
    shown = t.json("mlpack", "inspect", "p.mlc")
    assert sorted(p["name"] for p in shown["programs"]) == ["default", "first", "second"], shown["programs"]
    (t.dir / "one.onnx").write_bytes(dense("N"))
    t.run("mlpack", "build", "one.onnx", "-o", "one.mlc", "--target", "native")
    assert (t.dir / "p.mlc").stat().st_size < (t.dir / "one.mlc").stat().st_size + 3 * 16384, "the weight is there more than once"

    weight = struct.unpack("<4096f", WEIGHT)
    row = [float(k % 5) - 2 for k in range(64)]
    want = row
    for _ in range(3):
        want = [sum(want[i] * weight[i * 64 + j] for i in range(64)) for j in range(64)]
    npz_file.write(t.dir / "x.npz", {"rows": ("f32", (1, 64), row)})
    for variant in ("native", "portable"):
        args = () if variant == "native" else ("--variant", "portable")
        found = run(t, "p.mlc", "-i", "x.npz", *args)["thrice"]["data"]
        assert all(abs(a - b) <= 1e-4 * max(map(abs, want)) for a, b in zip(found, want)), (variant, found[:4], want[:4])
    # The bounds are those of one model; the bare one has none.
    five = {"rows": ("f32", (5, 64), row * 5)}
    npz_file.write(t.dir / "five.npz", five)
    npz_file.write(t.dir / "five_x.npz", {"x": five["rows"]})
    assert "outside of what the model takes" in t.run("mlrun", "p.mlc", "-i", "five.npz", code=6).stderr
    t.run("mlrun", "p.mlc", "--raw", "--program", "first", "-i", "five_x.npz")
    t.run("mlrun", "p.mlc", "--raw", "--program", "second", "-i", "five_x.npz", code=6)
    t.run("mlpack", "build", "p.json", "-o", "again.mlc", "--target", "native", "--no-cache")
    assert shown["root"] == t.json("mlpack", "inspect", "again.mlc")["root"], "two builds differ"


def finder(boxes):
    """Boxes of any picture: as written, and 0 times what is in it."""
    nodes = [node("Cast", ["x"], ["f"], to=1), node("ReduceMax", ["f"], ["most"], axes=[0, 1, 2, 3], keepdims=0), node("Mul", ["most", "zero"], ["none"]), node("Add", ["fixed", "none"], ["boxes"])]
    flat = [v for box in boxes for v in box]
    return model(nodes, [port("x", "u8", [1, 3, "H", "W"])], [port("boxes", "f32", [len(boxes), 4])],
                 [tensor("fixed", "f32", [len(boxes), 4], f32(*flat)), tensor("zero", "f32", [], f32(0))])


def mean_of(rows):
    nodes = [node("ReduceMean", ["x"], ["mean"], axes=[2, 3], keepdims=0)]
    return model(nodes, [port("x", "f32", [rows, 3, "H", "W"])], [port("mean", "f32", [rows, 3])])


def described(batch):
    steps = [{"op": "resize", "in": "part", "size": [2, 2], "kernel": "nearest", "like": "pillow"}, {"op": "normalize", "div": 1}, {"op": "layout", "to": "NCHW", "out": "one"}]
    if batch:
        steps.append({"op": "batch", "max": batch, "out": "x"})
    steps += [{"op": "run", "program": "mean", "in": {"x": "x" if batch else "one"}, "out": {"mean": "mean"}}, {"op": "top_k", "k": 1, "out": "most"}]
    return {"mlc_pipeline": 1, "programs": {"find": "find.onnx", "mean": "mean.onnx"}, "inputs": {"photo": {"accept": ["image/png"]}},
            "steps": [{"op": "decode_image", "in": "photo", "color": "rgb", "orient": "ignore", "alpha": "drop", "out": "rgb"}, {"op": "layout", "to": "NCHW", "out": "planes"},
                      {"op": "run", "program": "find", "in": {"x": "planes"}, "out": {"boxes": "boxes"}}, {"op": "cut", "in": "rgb", "boxes": "boxes", "out": "parts"},
                      {"op": "for_each", "in": {"part": "parts"}, "steps": steps, "out": {"mean": "means", "most": "colours"}}],
            "outputs": ["means", "colours"]}


def steps_are_done_for_each_part_of_a_picture(t):
    pixels = [[(x, y, 40 * (x > 3)) for x in range(8)] for y in range(6)]
    (t.dir / "photo.png").write_bytes(png(pixels))
    (t.dir / "mean.onnx").write_bytes(mean_of("N"))
    boxes = [(0, 0, 2, 2), (4, 1, 6, 3), (7, 5, 99, 99), (6.5, 0.5, 7.5, 1.5), (-3, 2, 2, 4)]
    (t.dir / "find.onnx").write_bytes(finder(boxes))
    wanted = []
    for left, top, right, bottom in [(0, 0, 2, 2), (4, 1, 6, 3), (7, 5, 8, 6), (6, 0, 8, 2), (0, 2, 2, 4)]:
        part = [pixels[y][x] for y in range(top, bottom) for x in range(left, right)]
        wanted += [sum(p[c] for p in part) / len(part) for c in range(3)]
    for batch in (0, 2, 8):
        file = f"each{batch}.mlc"
        t.run("mlpack", "build", write(t, "each.json", described(batch)), "-o", file, "--target", "native")
        names = sorted(p["name"] for p in t.json("mlpack", "inspect", file)["programs"])
        assert names == sorted(["find", "mean", "default", "default.each"] + (["default.each.2"] if batch else [])), names
        for args in ((), ("--variant", "portable")):
            found = run(t, file, "-i", "photo.png", *args)
            assert found["means"]["shape"] == [5, 3] and all(abs(a - b) < 1e-4 for a, b in zip(found["means"]["data"], wanted)), (batch, found["means"], wanted)
            assert [row[0]["index"] for row in found["colours"]] == [max(range(3), key=lambda c: (wanted[3 * k + c], -c)) for k in range(5)], found["colours"]
    bench = t.json("mlrun", "bench", "each2.mlc", "-i", "photo.png", "--duration", "20ms", "--warmup", "0ms", "--sessions", "2")
    assert "pipeline" in bench and "program" not in bench and bench["samples"] >= 2 and bench["input"]["from"] == "given", bench
    assert "pipeline " in t.run("mlrun", "bench", "each2.mlc", "-i", "photo.png", "--duration", "20ms", "--warmup", "0ms").stderr
    refused = t.run("mlrun", "bench", "each2.mlc", code=2).stderr
    assert "runs 3 programs" in refused and "-i FILE" in refused, refused
    assert "runs 3 programs" in t.run("mlrun", "profile", "each2.mlc", "-i", "photo.png", code=2).stderr
    t.run("mlrun", "selftest", "each2.mlc")


VOCABULARY = 23


def speller(tokens="i64", has_mask=False, past="P"):
    """A model that spells: the next token is (3 times the last + the sum of all of them + how many there are) mod 23. `past` carries the tokens."""
    nodes = [node("Cast", ["ids"], ["new"], to=1), node("Concat", ["past", "new"], ["present"], axis=1), node("ReduceSum", ["present", "one_i"], ["sum"], keepdims=1),
             node("Shape", ["present"], ["extents"]), node("Gather", ["extents", "one_i"], ["count"], axis=0), node("Cast", ["count"], ["counted"], to=1),
             node("Mul", ["new", "three"], ["thrice"]), node("Add", ["thrice", "sum"], ["part"]), node("Add", ["part", "counted"], ["all"])]
    inputs = [port("ids", tokens, ["B", "S"]), port("past", "f32", ["B", past])]
    total = "all"
    if has_mask:  # what they add is 0 where they are right
        nodes += [node("Cast", ["mask"], ["m"], to=1), node("ReduceSum", ["m", "one_i"], ["masked"], keepdims=1), node("Sub", ["masked", "counted"], ["m0"]),
                  node("Cast", ["positions"], ["p"], to=1), node("ReduceMax", ["p"], ["last"], axes=[1], keepdims=1), node("Add", ["last", "one_f"], ["p1"]), node("Sub", ["p1", "counted"], ["p0"]),
                  node("Add", ["m0", "p0"], ["both"]), node("Add", ["all", "both"], ["checked"])]
        inputs += [port("mask", "i64", ["B", "T"]), port("positions", "i32", ["B", "S"])]
        total = "checked"
    nodes += [node("Mod", [total, "modulus"], ["next"], fmod=1), node("Unsqueeze", ["next", "two_i"], ["target"]), node("Sub", ["target", "numbers"], ["off"]), node("Abs", ["off"], ["far"]),
              node("Neg", ["far"], ["logits"])]
    constants = [tensor("one_i", "i64", [1], i64(1)), tensor("two_i", "i64", [1], i64(2)), tensor("three", "f32", [], f32(3)), tensor("one_f", "f32", [], f32(1)), tensor("modulus", "f32", [], f32(VOCABULARY)),
                 tensor("numbers", "f32", [VOCABULARY], f32(*range(VOCABULARY)))]
    return model(nodes, inputs, [port("logits", "f32", ["B", "S", VOCABULARY]), port("present", "f32", ["B", "Q"])], constants)


def spelled(first, ends, most):
    tokens, made = list(first), []
    while len(made) < most:
        made.append((3 * tokens[-1] + sum(tokens) + len(tokens)) % VOCABULARY)
        tokens.append(made[-1])
        if made[-1] in ends:
            break
    return made


def tokens_are_made_one_after_the_other(t):
    step = {"op": "generate", "program": "spell", "tokens": "ids", "logits": "logits", "carry": {"past": "present"}, "max": 12, "out": "tokens"}
    cases = [("i64", False, [4], [7, 11]), ("i64", True, [4, 9, 1], [2]), ("i32", True, [5], [1])]
    for number, (kind, has_mask, start, ends) in enumerate(cases):
        (t.dir / "spell.onnx").write_bytes(speller(kind, has_mask))
        extra = {"mask": "mask", "positions": "positions"} if has_mask else {}
        pipeline = {"mlc_pipeline": 1, "programs": {"spell": "spell.onnx"}, "inputs": {"prompt": {"accept": ["application/x-npy"]}},
                    "steps": [{**step, **extra, "in": {"ids": "prompt"}, "end": ends}], "outputs": ["tokens"]}
        if number != 1:  # an input that is not the prompt: 0 times it
            pipeline["steps"] = [{"op": "run", "program": "spell", "in": {"ids": "prompt", "past": "before", **({"mask": "m", "positions": "p"} if has_mask else {})}, "out": {"logits": "seen"}},
                                 {**step, **extra, "in": {}, "start": start, "end": ends}]
            pipeline["inputs"] |= {"before": {"accept": ["application/x-npy"]}} | ({n: {"accept": ["application/x-npy"]} for n in ("m", "p")} if has_mask else {})
            pipeline["outputs"] = ["seen", "tokens"]
        t.run("mlpack", "build", write(t, "spell.json", pipeline), "-o", "spell.mlc", "--target", "native")
        if number != 1:
            wide = {"i32": "<i", "i64": "<q"}[kind]
            arrays = {"prompt": (kind, [1, 1], struct.pack(wide, 3)), "before": ("f32", [1, 2], f32(5, 6))}
            arrays |= {"m": ("i64", [1, 3], i64(1, 1, 1)), "p": ("i32", [1, 1], struct.pack("<i", 2))} if has_mask else {}
            inputs = []
            for name, (dtype, shape, raw) in arrays.items():
                (t.dir / name).write_bytes(raw)
                inputs += ["-i", f"{name}=@{name}:{dtype}[{','.join(map(str, shape))}]"]
            for args in ((), ("--variant", "portable")):
                found = run(t, "spell.mlc", *inputs, *args)
                assert found["tokens"]["data"] == spelled(start, ends, 12), (number, found["tokens"], spelled(start, ends, 12))
                seen = found["seen"]["data"]
                assert seen.index(max(seen)) == spelled([5, 6, 3], [], 1)[0], (number, seen)
            continue
        for prompt in (start, [1], [22, 0]):
            npz_file.write(t.dir / "in.npz", {"prompt": ("i64", (1, len(prompt)), prompt)})
            for args in ((), ("--variant", "portable")):
                found = run(t, "spell.mlc", "-i", "in.npz", *args)["tokens"]
                assert found["data"] == spelled(prompt, ends, 12) and found["shape"] == [1, len(found["data"])], (prompt, found, spelled(prompt, ends, 12))


def several_prompts_end_by_themselves(t):
    """Prompts of different lengths are filled up on the left, and the mask says where; a row that has ended goes on with its end."""
    prompts, ends = [[4, 9, 1], [22], [7, 7], [3, 1, 4, 1, 5]], [2, 11]
    width = max(map(len, prompts))
    step = {"op": "generate", "program": "spell", "tokens": "ids", "logits": "logits", "carry": {"past": "present"}, "max": 12, "end": ends, "out": "tokens"}

    def rows(found, count):
        wanted = [spelled(prompt, ends, 12) for prompt in prompts[:count]]
        longest = max(map(len, wanted))
        data = [v for row in wanted for v in row + [ends[0]]*(longest - len(row))]
        assert found["shape"] == [count, longest] and found["data"] == data, (found, wanted)
        return [len(row) for row in wanted]
    for masked in (False, True):
        (t.dir / "spell.onnx").write_bytes(masked_speller() if masked else speller())
        inputs = {"ids": "prompt", **({"mask": "kept"} if masked else {})}
        pipeline = {"mlc_pipeline": 1, "programs": {"spell": "spell.onnx"}, "inputs": {name: {"accept": ["application/x-npy"]} for name in inputs.values()},
                    "steps": [{**step, **({"mask": "mask"} if masked else {}), "in": inputs}], "outputs": ["tokens"]}
        t.run("mlpack", "build", write(t, "spell.json", pipeline), "-o", "spell.mlc", "--target", "native")
        for variant in ((), ("--variant", "portable")):
            for count in (1, 2, 4):
                given = prompts[:count] if masked else [prompt for prompt in prompts if len(prompt) == 1][:1]*count
                ids = [v for prompt in given for v in [0]*((width if masked else 1) - len(prompt)) + prompt]
                kept = [v for prompt in given for v in [0]*(width - len(prompt)) + [1]*len(prompt)]
                shape = (count, len(ids)//count)
                npz_file.write(t.dir / "in.npz", {"prompt": ("i64", shape, ids)} | ({"kept": ("i64", shape, kept)} if masked else {}))
                found = run(t, "spell.mlc", "-i", "in.npz", *variant)["tokens"]
                if masked:
                    lengths = rows(found, count)
                    assert count < 4 or len(set(lengths)) > 1, lengths
                else:
                    want = spelled(given[0], ends, 12)
                    assert found["shape"] == [count, len(want)] and found["data"] == want*count, (found, want)


def masked_speller():
    """As `speller`, of the tokens that the mask keeps."""
    nodes = [node("Cast", ["ids"], ["new"], to=1), node("Concat", ["past", "new"], ["present"], axis=1), node("Cast", ["mask"], ["m"], to=1), node("Mul", ["present", "m"], ["kept"]),
             node("ReduceSum", ["kept", "one_i"], ["sum"], keepdims=1), node("ReduceSum", ["m", "one_i"], ["counted"], keepdims=1),
             node("Mul", ["new", "three"], ["thrice"]), node("Add", ["thrice", "sum"], ["part"]), node("Add", ["part", "counted"], ["all"]),
             node("Mod", ["all", "modulus"], ["next"], fmod=1), node("Unsqueeze", ["next", "two_i"], ["target"]), node("Sub", ["target", "numbers"], ["off"]),
             node("Abs", ["off"], ["far"]), node("Neg", ["far"], ["logits"])]
    constants = [tensor("one_i", "i64", [1], i64(1)), tensor("two_i", "i64", [1], i64(2)), tensor("three", "f32", [], f32(3)), tensor("modulus", "f32", [], f32(VOCABULARY)),
                 tensor("numbers", "f32", [VOCABULARY], f32(*range(VOCABULARY)))]
    return model(nodes, [port("ids", "i64", ["B", "S"]), port("past", "f32", ["B", "P"]), port("mask", "i64", ["B", "T"])],
                 [port("logits", "f32", ["B", "S", VOCABULARY]), port("present", "f32", ["B", "Q"])], constants)


def what_does_not_fit_is_said(t):
    (t.dir / "a.onnx").write_bytes(dense("N"))
    inputs = {"rows": {"accept": ["application/x-npy"]}}
    steps = [{"op": "run", "program": "a", "in": {"x": "rows"}, "out": {"y": "y"}}]

    def refused(description, *args, code=2):
        return t.run("mlpack", "check", write(t, "w.json", description), *args, code=code).stderr
    whole = {"mlc_pipeline": 1, "programs": {"a": "a.onnx"}, "inputs": inputs, "steps": steps, "outputs": ["y"]}
    assert refused(whole, code=0) == ""
    assert "is a pipeline that names no models" in refused({k: v for k, v in whole.items() if k != "programs"})
    assert "leads out of the folder" in refused(whole | {"programs": {"a": "../a.onnx"}})
    assert "b.onnx: No such file" in refused(whole | {"programs": {"a": "b.onnx"}}, code=3)
    assert "the model has no free extent 'M'" in refused(whole | {"programs": {"a": {"model": "a.onnx", "dims": {"M": 1}}}})
    assert "known here: a" in refused(whole | {"steps": [steps[0] | {"program": "b"}]})
    assert "--dim, --shape and --feed are of one model" in refused(whole, "--dim", "N=1")
    assert "names its models" in t.run("mlpack", "check", "a.onnx", "--pipeline", write(t, "w.json", whole), code=2).stderr
    (t.dir / "s.onnx").write_bytes(speller())
    generate = {"op": "generate", "program": "s", "in": {}, "tokens": "ids", "logits": "logits", "start": [1], "end": [2], "max": 9, "carry": {"past": "present"}, "out": "t"}
    spell = {"mlc_pipeline": 1, "programs": {"a": "a.onnx", "s": "s.onnx"}, "inputs": inputs, "outputs": ["y", "t"]}
    assert refused(spell | {"steps": steps + [generate]}, code=0) == ""
    text = refused(spell | {"steps": steps + [generate | {"carry": {"pst": "present"}, "logits": "scores"}]})
    for line in ("has no input 'pst'", "has no output 'scores'", "needs input 'past'"):
        assert line in text, text
    prompt = {"op": "generate", "program": "s", "in": {"ids": "y"}, "tokens": "ids", "logits": "logits", "end": [2], "max": 9, "carry": {"past": "present"}, "out": "t"}
    text = refused(spell | {"steps": steps + [prompt], "outputs": ["t"]})
    assert "the model wants 'ids' as i64[B, S], the pipeline gives f32[" in text, text
    text = refused(spell | {"steps": steps + [generate | {"carry": {"past": "present", "pas*": "presen*"}}]})
    assert "is given 'past' twice" in text, text
    (t.dir / "s.onnx").write_bytes(speller(past=1 << 40))
    assert "the cache 'past' of f32 with fixed extents takes more than 64 MiB" in refused(spell | {"steps": steps + [generate]}, code=20)
    (t.dir / "s.onnx").write_bytes(speller())
    assert "has neither a 'start'" in refused(spell | {"steps": steps + [{k: v for k, v in generate.items() if k != "start"}]})
    assert "equally many '*'" in refused(spell | {"steps": steps + [generate | {"carry": {"past.*": "present"}}]})


def speech_becomes_text(t):
    """Moonshine: sound to the tokens of what was said, in one file."""
    if not SHARED.is_dir():
        raise Skipped("needs ../shared/models")
    for name in ("encoder", "decoder"):
        shutil.copy(SHARED / f"moonshine_tiny_{name}_int8.onnx", t.dir / f"{name}.onnx")
    for name in ("pipeline.json", "tokenizer.json"):
        shutil.copy(EXAMPLE / name, t.dir)
    t.run("mlpack", "build", "pipeline.json", "-o", "speech.mlc", "--target", "native")
    for file, text in (("speech_goforward.wav", "Go forward ten meters."), ("speech_espeak.wav", "One file runs on every machine, and it is signed.")):
        for args in ((), ("--variant", "portable")):
            found = run(t, "speech.mlc", "-i", SHARED / file, *args)["text"]
            assert found["text"] == text, (file, args, found)


def a_number_is_read_digit_by_digit(t):
    digits = EXAMPLE.parent / "digits"
    t.run("mlpack", "build", digits / "number.json", "-o", "n.mlc", "--target", "native", "--no-selftest")
    for picture, number in (("numbers/meter.png", "047196"), ("numbers/receipt.png", "2850"), ("images/plain_7.png", "7")):
        lines = t.run("mlrun", "n.mlc", "-i", digits / picture).stdout.split("\n\n")
        assert [line.split()[0] for line in lines] == list(number), (picture, lines)
        assert all(float(line.split()[1]) > 0.9 for line in lines), lines


if __name__ == "__main__":
    main([models_of_one_file_share_what_is_equal, steps_are_done_for_each_part_of_a_picture, tokens_are_made_one_after_the_other, several_prompts_end_by_themselves, what_does_not_fit_is_said, speech_becomes_text,
          a_number_is_read_digit_by_digit])
