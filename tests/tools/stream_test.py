"""Pipelines with a stream through the tools: chunks of a sound with what stands before them, values that are carried from one to the
next, the last chunk, raw samples in pieces of any size, and a real network."""
import json
import os
import pathlib
import stat
import struct
import subprocess
import time

import text_model
from npz_file import read
from onnx_file import model, node, port, tensor
from tool_test import Skipped, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT.parent / "shared" / "models"
HOP, CONTEXT, RATE = 4, 3, 100
SAMPLES = [(37 * k * k + 11 * k) % 401 - 200 for k in range(18)]  # four chunks and a half


def wav(samples, rate=RATE, channels=1):
    data = struct.pack(f"<{len(samples)}h", *samples)
    fmt = struct.pack("<HHIIHH", 1, channels, rate, rate * 2 * channels, 2 * channels, 16)
    return b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<I", 16) + fmt + b"data" + struct.pack("<I", len(data)) + data


def sums(t, width=HOP + CONTEXT, extent=b"N", both=b"M"):
    """both [1, width + 2]: the samples that a run sees, and its state; next: half the state, and the sum of the samples."""
    nodes = [node("Concat", ["x", "state"], ["both"], axis=1), node("MatMul", ["x", "ones"], ["sum"]), node("Mul", ["state", "half"], ["less"]),
             node("Add", ["less", "sum"], ["next"])]
    constants = [tensor("ones", "f32", [width, 1], struct.pack(f"<{width}f", *[1] * width)), tensor("half", "f32", [], struct.pack("<f", 0.5))]
    (t.dir / "sums.onnx").write_bytes(model(nodes, [port("x", "f32", [1, width]), port("state", "f32", [1, extent])],
                                            [port("both", "f32", [1, both]), port("next", "f32", [1, extent])], constants))
    (t.dir / "s.wav").write_bytes(wav(SAMPLES))
    (t.dir / "s.pcm").write_bytes(struct.pack(f"<{len(SAMPLES)}h", *SAMPLES))


def description(stream=(), last="drop", outputs=("both",), steps=(), **decode):
    stream = {"input": "speech", "hop": HOP, "context": CONTEXT, "last": last, "carry": {"state": {"from": "next", "shape": [1, 2]}}, **dict(stream)}
    return {"mlc_pipeline": 1, "inputs": {"speech": {"accept": ["audio/wav"]}}, "stream": stream, "steps": [
        {"op": "decode_audio", "in": "speech", "channels": "first", "rate": RATE, **decode}, {"op": "new_axis", "at": 0, "out": "x"},
        {"op": "run", "program": "main", "in": {"x": "x", "state": "state"}, "out": {"both": "both", "next": "next"}}, *steps], "outputs": list(outputs)}


def build(t, name="s.mlc", code=0, text=None, **options):
    (t.dir / "p.json").write_text(json.dumps(description(**options) if text is None else text))
    return t.run("mlpack", "build", "sums.onnx", "--pipeline", "p.json", "-o", name, "--target", "native", code=code)


def expected(samples, pads, context=CONTEXT):
    """The rows of all chunks: exact, for all values are small numbers over a power of two."""
    rows, state = [], 0.0
    for at in range(0, len(samples), HOP):
        if at + HOP > len(samples) and not pads:
            break
        around = [0] * context + samples + [0] * HOP
        window = [v / 32768 for v in around[at:at + context + HOP]]
        rows.append(window + [state] * 2)
        state = state / 2 + sum(window)
    return rows


def chunks(t, *args, stdin=None, code=0):
    done = subprocess.run([t.bin / "mlrun", "run", *args, "--stream", "--json"], cwd=t.dir, env=t.env, input=stdin, capture_output=True, timeout=120)
    assert done.returncode == code, done
    *lines, last = map(json.loads, done.stdout.splitlines())
    assert all(line["schema"] == "mlc.chunk/1" for line in lines) and last["schema"] == "mlc.run/1" and last["ok"] == (code == 0), done.stdout
    assert [line["chunk"] for line in lines] == list(range(len(lines))), lines
    assert code or last["chunks"] == len(lines), last
    return lines, last


def a_chunk_sees_what_was_before_it_and_what_is_carried(t):
    sums(t)
    for pads in (False, True):
        build(t, last="pad" if pads else "drop")
        want = expected(SAMPLES, pads)
        assert len(want) == 4 + pads
        variants = [v["name"] for v in t.json("mlrun", "explain", "s.mlc")["variants"] if v["answer"] == "fits"]
        assert len(variants) >= 2, variants
        for variant in variants:
            lines, _ = chunks(t, "s.mlc", "-i", "s.wav", "--variant", variant)
            assert [line["outputs"]["both"]["data"] for line in lines] == want, (variant, lines)
            assert [line["start_s"] for line in lines] == [k * HOP / RATE for k in range(len(want))], lines
        t.run("mlrun", "s.mlc", "-i", "s.wav", "-o", "s.npz")
        shape, values = read(t.dir / "s.npz")["both"]
        assert shape == (len(want), 1, HOP + CONTEXT + 2) and values == [v for row in want for v in row], (shape, values)
    # A sound of whole chunks has no other.
    (t.dir / "s.wav").write_bytes(wav(SAMPLES[:8]))
    assert len(chunks(t, "s.mlc", "-i", "s.wav")[0]) == 2


def a_context_may_be_longer_than_a_chunk_or_none(t):
    for context in (0, 9):
        sums(t, HOP + context)
        build(t, last="pad", stream={"context": context})
        lines, _ = chunks(t, "s.mlc", "-i", "s.wav")
        assert [line["outputs"]["both"]["data"] for line in lines] == expected(SAMPLES, True, context), (context, lines)


def raw_samples_come_in_pieces_of_any_size(t):
    sums(t)
    build(t, last="pad")
    want = [line["outputs"] for line in chunks(t, "s.mlc", "-i", "s.wav")[0]]
    raw = (t.dir / "s.pcm").read_bytes()
    for isolated in ([], ["--isolated"]):
        assert [line["outputs"] for line in chunks(t, "s.mlc", *isolated, "-i", "speech=s.pcm", "--pcm", f"s16le:{RATE}")[0]] == want
        assert [line["outputs"] for line in chunks(t, "s.mlc", *isolated, "-i", "-", "--pcm", f"s16le:{RATE}:1", stdin=raw)[0]] == want
    for size in (1, 3, 7):
        with subprocess.Popen([t.bin / "mlrun", "s.mlc", "--stream", "--input", "-", "--pcm", f"s16le:{RATE}"], cwd=t.dir, env=t.env, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=False) as child:
            child.stdin.write(raw[:2 * HOP])
            child.stdin.flush()
            first = child.stdout.readline().decode()  # which is there while the sound goes on
            assert first.split()[:3] == ["0.000", "both", "f32[1,9]"], first
            for at in range(2 * HOP, len(raw), size):
                child.stdin.write(raw[at:at + size])
                child.stdin.flush()
                time.sleep(0.001)
            child.stdin.close()
            rest = child.stdout.read().decode().splitlines()
        assert child.returncode == 0 and [line.split()[0] for line in rest] == ["0.040", "0.080", "0.120", "0.160"], rest
    # Other forms of samples, and several channels, of which the step takes one.
    floats = struct.pack(f"<{2 * len(SAMPLES)}f", *(v for s in SAMPLES for v in (s / 32768, 7)))
    assert [line["outputs"] for line in chunks(t, "s.mlc", "-i", "-", "--pcm", f"f32le:{RATE}:2", stdin=floats)[0]] == want
    wide = b"".join(struct.pack("<i", s << 16) for s in SAMPLES)
    assert [line["outputs"] for line in chunks(t, "s.mlc", "-i", "-", "--pcm", f"s32le:{RATE}", stdin=wide)[0]] == want
    build(t, last="pad", channels="mean")
    both = struct.pack(f"<{2 * len(SAMPLES)}h", *(v for s in SAMPLES for v in (s + 5, s - 5)))
    assert [line["outputs"] for line in chunks(t, "s.mlc", "-i", "-", "--pcm", f"s16le:{RATE}:2", stdin=both)[0]] == want


def classes_of_all_chunks_are_rows(t):
    sums(t)
    build(t, outputs=["best"], steps=[{"op": "top_k", "in": "both", "k": 1, "out": "best"}])
    want = [max(range(9), key=lambda k: (row[k], -k)) for row in expected(SAMPLES, False)]
    rows = t.json("mlrun", "run", "s.mlc", "-i", "s.wav", stderr=None)["outputs"]["best"]
    assert [row[0]["index"] for row in rows] == want, rows
    lines = t.run("mlrun", "s.mlc", "-i", "s.wav", "--stream").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [[f"{k * HOP / RATE:.3f}", str(best)] for k, best in enumerate(want)], lines


def texts_of_all_chunks_are_lines(t):
    sums(t)
    (t.dir / "letters.txt").write_text("\n".join("abcdefgh") + "\n")
    build(t, outputs=["text"], steps=[{"op": "new_axis", "in": "both", "at": 0}, {"op": "ctc_greedy", "blank": 8, "charset": "letters.txt", "final_space": False, "out": "text"}])
    want = ["abcdefgh "[max(range(9), key=lambda k: (row[k], -k))].strip() for row in expected(SAMPLES, False)]
    assert [line["text"] for line in t.json("mlrun", "run", "s.mlc", "-i", "s.wav", stderr=None)["outputs"]["text"]] == want, want
    assert [line["outputs"]["text"]["text"] for line in chunks(t, "s.mlc", "-i", "s.wav")[0]] == want


def what_does_not_fit_a_stream_is_told(t):
    sums(t)
    build(t)
    def refused(code, *args):
        return t.run("mlrun", "s.mlc", *args, code=code).stderr
    assert "audio has 200 samples per second, the pipeline takes 100" in refused(6, "--stream", "-i", "s.pcm", "--pcm", "s16le:200")
    (t.dir / "fast.wav").write_bytes(wav(SAMPLES, 200))
    assert "audio has 200 samples per second, the pipeline takes 100" in refused(6, "--stream", "-i", "fast.wav")
    (t.dir / "none.wav").write_bytes(wav([]))
    (t.dir / "short.wav").write_bytes(wav(SAMPLES[:3]))
    (t.dir / "none.pcm").write_bytes(b"")
    for stream in ([], ["--stream"]):
        assert "the sound has no samples" in refused(6, *stream, "-i", "none.wav")
        assert "the sound has 3 samples, and a chunk of the stream takes 4: what is no whole chunk is dropped" in refused(6, *stream, "-i", "short.wav")
    assert "the sound has no samples" in refused(6, "--stream", "-i", "none.pcm", "--pcm", "s16le:100")
    (t.dir / "cut.pcm").write_bytes((t.dir / "s.pcm").read_bytes()[:-1])
    done = t.run("mlrun", "s.mlc", "--stream", "-i", "cut.pcm", "--pcm", "s16le:100", code=4)
    assert len(done.stdout.splitlines()) == 4 and "the sound ends within a sample: 1 byte behind the last whole one, which has 2 bytes" in done.stderr, done
    for form in ("s16le", "s16le:", "s16be:100", "s16le:0", "s16le:100:", "s16le:100:0", "s16le:100:2:3", "s16le:1e3", ""):
        assert form == "" or f"'{form}' is no form of samples, expected FORM:RATE" in refused(2, "--stream", "-i", "s.pcm", "--pcm", form), form
    assert "add --stream" in refused(2, "-i", "s.pcm", "--pcm", "s16le:100")
    assert "without --stream, -o writes the answers of all chunks" in refused(2, "--stream", "-i", "s.wav", "-o", "s.npz")
    assert "cannot open 'gone.pcm'" in refused(3, "--stream", "-i", "gone.pcm", "--pcm", "s16le:100")
    for command in ("bench", "profile"):
        told = t.run("mlrun", command, "s.mlc", "-i", "s.wav", "--duration", "20ms", "--warmup", "0s", code=2).stderr
        assert "one run of this pipeline is a chunk of a stream" in told, told
        t.run("mlrun", command, "s.mlc", "--duration", "20ms", "--warmup", "0s")
    assert "this run has no pipeline" in refused(2, "--stream", "--raw", "-i", "random")
    text = description()
    del text["stream"]
    text["inputs"]["state"] = {"accept": ["application/x-npy"]}
    text["outputs"] = ["both", "next"]
    build(t, text=text)
    assert "pipeline 'default' has no 'stream', and runs once over its whole inputs" in refused(2, "--stream", "-i", "s.wav")


def mistakes_of_a_stream_have_a_place(t):
    sums(t)
    def says(*texts, code=2, **options):
        stderr = build(t, code=code, **options).stderr
        assert all(text in stderr for text in texts) and "p.json:1:" in stderr, stderr
    says("the stream lacks", "'hop' (a whole number)", "'last' (pad drop)", text=description() | {"stream": {"input": "speech"}})
    says("unknown key 'contxt' in the stream, did you mean 'context'?", stream={"contxt": 1})
    says("'hop' of the stream is 0, expected 1 to 67108864", stream={"hop": 0})
    says("'context' of the stream and 'hop' are 67108865 samples together", stream={"hop": 1 << 26, "context": 1})
    says("'last' of the stream is 'keep'", last="keep")
    says("the stream cuts 'sound', which is no input of the pipeline", stream={"input": "sound"})
    says("no value 'later' before this", stream={"carry": {"state": "later"}})
    says("'unused' is used by no step", stream={"carry": {"state": {"from": "next", "shape": [1, 2]}, "unused": "next"}})
    says("'carry' of 'state' lacks 'shape'", stream={"carry": {"state": {"from": "next"}}})
    says("the stream carries 'state', which is no array that a step computes", stream={"carry": {"state": "state"}})
    says("error[E5007]", "a stream of several channels", channels="keep")
    # What only the model shows.
    says("error[E5009]", "the stream carries 'state', whose extent 1 is free in the program", '"shape": [...]', stream={"carry": {"state": "next"}}, code=(2, 20))
    says("error[E5009]", "whose extent 0 is 2, and the program takes 1", stream={"carry": {"state": {"from": "next", "shape": [2, 2]}}}, code=(2, 20))
    says("error[E5009]", "whose 'shape' has 1 extent, and the program takes 2", stream={"carry": {"state": {"from": "next", "shape": [2]}}}, code=(2, 20))
    # What only the run tells is compared there.
    build(t, stream={"carry": {"state": {"from": "both", "shape": [1, 2]}}}, outputs=["both", "next"])
    assert "the stream carries 'state', which is f32[1,2], and 'both' has become f32[1,9]" in t.run("mlrun", "s.mlc", "--stream", "-i", "s.wav", code=6).stderr
    sums(t, extent=2, both=9)
    says("error[E5009]", "the stream carries 'state', which is f32[1,2], and 'both' is f32[1,9]", stream={"carry": {"state": {"from": "both", "shape": [1, 2]}}}, code=(2, 20),
         outputs=["both", "next"])
    t.run("mlpack", "check", "sums.onnx", "--pipeline", "p.json", code=(2, 20))
    # Fixed extents need no shape.
    sums(t, extent=2)
    build(t, stream={"carry": {"state": "next"}})
    assert [line["outputs"]["both"]["data"] for line in chunks(t, "s.mlc", "-i", "s.wav")[0]] == expected(SAMPLES, False)


def what_is_given_beside_the_sound_is_that_of_all_chunks(t):
    """A number and a text: each chunk sees both."""
    nodes = [node("Cast", ["language"], ["l"], to=1), node("Cast", ["ids"], ["i"], to=1), node("Concat", ["x", "state", "l", "i"], ["all"], axis=1),
             node("Add", ["state", "one"], ["next"])]
    (t.dir / "sums.onnx").write_bytes(model(nodes, [port("x", "f32", [1, HOP]), port("state", "f32", [1, 1]), port("language", "i64", [1, 1]), port("ids", "i64", [1, "T"])],
                                            [port("all", "f32", [1, "M"]), port("next", "f32", [1, 1])], [tensor("one", "f32", [], struct.pack("<f", 1))]))
    (t.dir / "tokenizer.json").write_text(text_model.tokenizer())
    (t.dir / "s.wav").write_bytes(wav(SAMPLES))
    (t.dir / "s.pcm").write_bytes(struct.pack(f"<{len(SAMPLES)}h", *SAMPLES))
    inputs = {"speech": {"accept": ["audio/wav"]}, "language": {"accept": ["application/x-npy"]}, "word": {"accept": ["text/plain"]}}
    steps = [{"op": "decode_audio", "in": "speech", "channels": "first", "rate": RATE}, {"op": "new_axis", "at": 0, "out": "x"},
             {"op": "tokenize", "in": "word", "tokenizer": "tokenizer.json", "special_tokens": True, "truncate": "none", "pad": {"to": "longest", "side": "right", "id": 0}, "out": {"ids": "ids"}},
             {"op": "run", "program": "main", "in": {"x": "x", "state": "state", "language": "language", "ids": "ids"}, "out": {"all": "all", "next": "next"}}]
    text = {"mlc_pipeline": 1, "inputs": inputs, "stream": {"input": "speech", "hop": HOP, "last": "pad", "carry": {"state": "next"}}, "steps": steps, "outputs": ["all"]}
    build(t, text=text)
    want = [[v/32768 for v in (SAMPLES + [0]*HOP)[at:at + HOP]] + [at//HOP, 7, 2, 4, 5, 3] for at in range(0, len(SAMPLES), HOP)]
    beside = ["-i", "language=7", "-i", "word=Hello world"]
    whole = t.json("mlrun", "run", "s.mlc", "-i", "speech=s.wav", *beside, stderr=None)["outputs"]["all"]
    assert whole["shape"] == [5, 1, 10] and whole["data"] == [v for row in want for v in row], whole
    for args, given in ((["-i", "s.wav"], None), (["-i", "speech=s.wav"], None), (["-i", "-"], (t.dir / "s.wav").read_bytes()),
                        (["--pcm", f"s16le:{RATE}", "-i", "s.pcm"], None), (["--pcm", f"s16le:{RATE}", "-i", "speech=-"], (t.dir / "s.pcm").read_bytes())):
        lines, _ = chunks(t, "s.mlc", *args, *beside, stdin=given)
        assert [line["outputs"]["all"]["data"] for line in lines] == want, (args, lines)
    for args in (["-i", "speech=s.wav"], ["--pcm", f"s16le:{RATE}", "-i", "s.pcm"]):
        refused = t.run("mlrun", "s.mlc", "--stream", *args, "-i", "language=7", code=6).stderr
        assert "word   missing, expected text/plain" in refused and "language   missing" not in refused, refused
    assert "'language' is i64[1,1], and 2 numbers are given" in t.run("mlrun", "s.mlc", "--stream", "-i", "speech=s.wav", "-i", "language=7,8", "-i", "word=a", code=6).stderr
    other = {**text, "inputs": {**inputs, "word": {"accept": ["audio/flac"]}}}
    other["steps"] = [steps[0], steps[1], {"op": "decode_audio", "in": "word", "channels": "first", "rate": RATE}, {"op": "new_axis", "at": 0}, {"op": "dtype", "to": "i64", "out": "ids"}, steps[3]]
    stderr = build(t, text=other, code=2).stderr
    assert "error[E5007]" in stderr and "has a file beside 'speech' is not in this version, arrays and texts may be" in stderr, stderr


def inspect_tells_of_the_stream(t):
    sums(t)
    build(t)
    stream = t.json("mlpack", "inspect", "s.mlc")["pipelines"]["default"]["stream"]
    assert stream == {"input": "speech", "rate": RATE, "hop": HOP, "context": CONTEXT, "last": "drop", "carry": {"state": "next"}}, stream
    assert "stream  speech at 100 Hz, hop 4, context 3, last drop, carry state" in t.run("mlpack", "inspect", "s.mlc").stdout


def golden_vectors_are_chunks_that_follow_each_other(t):
    sums(t)
    build(t)
    found = t.json("mlpack", "inspect", "s.mlc")["golden"]
    assert [g["name"] for g in found if g["program"] == "default"] == ["default/first chunk", "default/second chunk", "default/silence behind"], found
    assert "4 vectors" in t.run("mlrun", "selftest", "s.mlc").stdout
    t.run("mlpack", "build", "sums.onnx", "--pipeline", "p.json", "-o", "again.mlc", "--target", "native")
    assert t.json("mlpack", "inspect", "again.mlc")["root"] == t.json("mlpack", "inspect", "s.mlc")["root"]


def constants_are_what_the_file_says(t):
    """Each type, alone and as a list; one of them is what a model takes."""
    sums(t)
    text = description()
    del text["stream"]
    made = {"f32": 0.1, "f64": [0.1, -3], "i32": [-(1 << 31), (1 << 31) - 1], "i64": 9007199254740991, "none": []}
    constants = [{"op": "constant", "type": name.replace("none", "i64"), "value": value, "out": name} for name, value in made.items()]
    text["steps"][1:1] = [{"op": "constant", "type": "f32", "value": [0.25, -2], "out": "flat"}, {"op": "new_axis", "in": "flat", "at": 0, "out": "state"}, *constants]
    text["steps"][-2]["in"] = "steps[0]"
    text["steps"].insert(-1, {"op": "fit", "in": "x", "samples": HOP + CONTEXT, "out": "seven"})
    text["steps"][-1]["in"] = {"x": "seven", "state": "state"}
    text["outputs"] = ["both", "next", *made]
    build(t, text=text)
    for variant in [v["name"] for v in t.json("mlrun", "explain", "s.mlc")["variants"] if v["answer"] == "fits"]:
        found = t.json("mlrun", "run", "s.mlc", "-i", "s.wav", "--variant", variant, stderr=None)["outputs"]
        assert found["both"]["data"][-2:] == [0.25, -2], found["both"]
        assert {name: (found[name]["dtype"], found[name]["shape"], found[name]["data"]) for name in made} == {
            "f32": ("f32", [], [struct.unpack("<f", struct.pack("<f", 0.1))[0]]), "f64": ("f64", [2], [0.1, -3]), "i32": ("i32", [2], made["i32"]),
            "i64": ("i64", [], [made["i64"]]), "none": ("i64", [0], [])}, found
    for constant, why in (({"type": "i32", "value": 1 << 31}, "'value' of step 'constant' is 2147483648, expected -2147483648 to 2147483647"),
                          ({"type": "i64", "value": 0.5}, "expected a whole number"), ({"type": "u8", "value": 1}, "'type' of step 'constant' is 'u8'"),
                          ({"type": "f32"}, "lacks 'value'")):
        text["steps"][1] = {"op": "constant", "out": "flat", **constant}
        stderr = build(t, text=text, code=2).stderr
        assert why in stderr and "p.json:1:" in stderr, stderr


def speech_is_where_it_was_recorded(t):
    source, speech, recorded = (MODELS / name for name in ("silero_vad_v5.onnx", "speech_goforward.wav", "expected/silero_vad_v5.speech_goforward.npz"))
    if not (source.is_file() and speech.is_file() and recorded.is_file()):
        raise Skipped("silero_vad_v5.onnx is not here")
    script = ROOT / "examples/voice_activity/run.sh"
    assert os.stat(script).st_mode & stat.S_IXUSR
    done = subprocess.run([script, source, speech, t.dir], capture_output=True, text=True, env=t.env | {"PATH": f"{t.bin}:{os.environ['PATH']}"})
    assert done.returncode == 0 and done.stdout.splitlines()[-2:] == ["0.512 speech", "2.176 silence"], done
    want = read(recorded, ["seq_out:output"])["seq_out:output"][1]
    lines, _ = chunks(t, "vad.mlc", "-i", speech)
    found = [line["outputs"]["speech_probability"]["data"][0] for line in lines]
    assert len(found) == len(want) == 87 and max(abs(a - b) for a, b in zip(found, want)) < 1e-5, found
    assert [k for k, p in enumerate(found) if p > 0.5] == list(range(16, 68)), found
    t.run("mlrun", "vad.mlc", "-i", speech, "-o", "vad.npz")
    shape, values = read(t.dir / "vad.npz")["speech_probability"]
    assert shape == (87, 1) and values == [struct.unpack("<f", struct.pack("<f", p))[0] for p in found], shape


if __name__ == "__main__":
    main([what_is_given_beside_the_sound_is_that_of_all_chunks, a_chunk_sees_what_was_before_it_and_what_is_carried, a_context_may_be_longer_than_a_chunk_or_none, raw_samples_come_in_pieces_of_any_size,
          classes_of_all_chunks_are_rows, texts_of_all_chunks_are_lines, what_does_not_fit_a_stream_is_told, mistakes_of_a_stream_have_a_place, inspect_tells_of_the_stream,
          golden_vectors_are_chunks_that_follow_each_other,
          constants_are_what_the_file_says, speech_is_where_it_was_recorded])
