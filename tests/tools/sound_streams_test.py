"""Streams whose answer is a sound: rows that overlap from chunk to chunk, one file of all chunks, and a real network that removes noise."""
import cmath
import json
import math
import shutil
import struct
import subprocess

from npz_file import read
from onnx_file import model, node, port
from stream_test import MODELS, ROOT, wav
from tool_test import Skipped, main

RATE, HOP, LENGTH = 8000, 4, 16
SAMPLES = [(37 * k * k + 11 * k) % 40001 - 20000 for k in range(50)]  # of whole chunks and half a one
WINDOW = {"shape": "hann", "ends": "periodic"}


def samples_of(path):
    data = path.read_bytes()
    count, = struct.unpack("<I", data[40:44])
    assert data[:4] == b"RIFF" and struct.unpack("<I", data[4:8])[0] == len(data) - 8 and count == len(data) - 44, data[:44]
    return list(struct.unpack(f"<{count // 2}h", data[44:]))


def build(t, code=0, hop=HOP, last="pad", window=WINDOW, before=(), stream=(), more=(), outputs=("clean",), name="s.mlc"):
    """Rows of LENGTH samples, HOP apart, through a model that changes nothing, and back. `hop`: of a chunk."""
    (t.dir / "same.onnx").write_bytes(model([node("Identity", ["x"], ["y"])], [port("x", "f32", ["n", LENGTH])], [port("y", "f32", ["n", LENGTH])]))
    frame = {"op": "frame", "length": LENGTH, "hop": HOP, "center": "none", "last": "drop"}
    rows = [{**frame, "out": "x"}] if window == "none" else [frame, {"op": "window", **window, "out": "x"}]
    add = {"op": "overlap_add", "hop": HOP, "center": "none", "window": window, "before": "before", "out": {"sound": "sound", "rest": "rest"}, **dict(before)}
    text = {"mlc_pipeline": 1, "inputs": {"speech": {"accept": ["audio/wav"]}},
            "stream": {"input": "speech", "hop": hop, "context": LENGTH - HOP, "last": last,
                       "carry": {"before": {"from": "rest", "shape": [LENGTH - HOP]}}, **dict(stream)},
            "steps": [{"op": "decode_audio", "in": "speech", "channels": "first", "rate": RATE}, *rows,
                      {"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "y"}},
                      {"in": "y", **add}, {"op": "wav_out", "in": "sound", "rate": RATE, "out": "clean"}, *more], "outputs": list(outputs)}
    (t.dir / "p.json").write_text(json.dumps(text))
    (t.dir / "s.wav").write_bytes(wav(SAMPLES, RATE))
    return t.run("mlpack", "build", "same.onnx", "--pipeline", "p.json", "-o", name, "--target", "native,portable", code=code)


def rows_overlap_from_chunk_to_chunk(t):
    """Under windows that add up to one the sound comes back, as late as rows overlap, however many rows a chunk has."""
    late = LENGTH - HOP
    for hop in (HOP, 3 * HOP):
        build(t, hop=hop)
        want = ([0] * late + SAMPLES + [0] * hop)[:math.ceil(len(SAMPLES) / hop) * hop]
        for variant in [v["name"] for v in t.json("mlrun", "explain", "s.mlc")["variants"] if v["answer"] == "fits"]:
            for ways in ([], ["--isolated"], ["--stream"], ["--stream", "--isolated"]):
                t.run("mlrun", "s.mlc", "-i", "s.wav", "-o", "out.wav", "--variant", variant, *ways)
                found = samples_of(t.dir / "out.wav")
                assert len(found) == len(want) and max(abs(a - b) for a, b in zip(found, want)) <= 1, (hop, variant, ways, found, want)
    # Without windows a sample is the sum of the rows that cover it.
    build(t, window="none", last="drop")
    want = [0] * late + [4 * s for s in SAMPLES]
    (t.dir / "s.wav").write_bytes(wav([s // 5 for s in SAMPLES], RATE))
    t.run("mlrun", "s.mlc", "-i", "s.wav", "-o", "out.wav")
    assert samples_of(t.dir / "out.wav") == [4 * (s // 5) for s in [0] * late + SAMPLES][:48], samples_of(t.dir / "out.wav")
    golden = [g["name"] for g in t.json("mlpack", "inspect", "s.mlc")["golden"]]
    assert "default/second chunk" in golden, golden


def what_a_stream_says_of_its_sound(t):
    build(t, outputs=["clean", "sound"])
    answers = t.json("mlrun", "run", "s.mlc", "-i", "s.wav", stderr=None)["outputs"]
    assert answers["clean"] == {"media_type": "audio/wav", "rate": RATE, "channels": 1, "samples": 52, "bytes": 148}, answers
    assert answers["sound"]["shape"] == [13, 4], answers
    shown = t.run("mlrun", "s.mlc", "-i", "s.wav", "--stream").stdout.splitlines()
    assert len(shown) == 13 and "clean   audio/wav, 4 samples" in shown[0], shown
    done = t.run("mlrun", "run", "s.mlc", "-i", "s.wav", "--stream", "-o", "out.wav", "--json").stdout.splitlines()
    lines = [json.loads(line) for line in done]
    assert [list(line["outputs"]) for line in lines[:-1]] == [["sound"]] * 13 and lines[-1]["output_file"] == "out.wav", lines
    assert len(samples_of(t.dir / "out.wav")) == 52
    # Nothing but a sound: nothing is printed.
    build(t)
    assert t.run("mlrun", "s.mlc", "-i", "s.wav", "--stream", "-o", "out.wav").stdout == ""
    # Raw samples that come and end within one leave no file.
    (t.dir / "out.wav").unlink()
    (t.dir / "cut.pcm").write_bytes(b"\0" * 17)
    t.run("mlrun", "s.mlc", "-i", "cut.pcm", "--stream", "--pcm", f"s16le:{RATE}", "-o", "out.wav", code=4)
    assert not list(t.dir.glob("out.wav*"))

    def refused(*args, code=2):
        return t.run("mlrun", "s.mlc", "-i", "s.wav", *args, code=code).stderr
    assert "-o out.npz with --stream: each chunk is printed when it is there, but for a sound" in refused("--stream", "-o", "out.npz")
    two = [{"op": "wav_out", "in": "sound", "rate": RATE, "out": "again"}]
    build(t, more=two, outputs=["clean", "again"])
    assert ".wav holds one sound, there are 2 among the answers" in refused("--stream", "-o", "out.wav")


def a_sound_on_standard_input_is_answered_as_it_comes(t):
    build(t)
    whole = wav(SAMPLES, RATE)
    t.run("mlrun", "s.mlc", "-i", "s.wav", "-o", "want.wav")
    want = (t.dir / "want.wav").read_bytes()
    data = whole[44:]
    listed = whole[:12] + b"LIST" + struct.pack("<I", 5) + b"abcde\0" + whole[12:]  # of odd length, filled up
    endless = [whole[:40] + struct.pack("<I", size) + data for size in (0, 0x7FFFF000, 0xFFFFFFFF)]
    longer = whole + b"LIST\x04\0\0\0abcd"
    def run(sound, *args, code=0):
        (t.dir / "out.wav").unlink(missing_ok=True)
        return subprocess.run([t.bin / "mlrun", "s.mlc", "--stream", "-i", "-", *args], cwd=t.dir, env=t.env, input=sound, capture_output=True, timeout=120)
    pictured = whole[:12] + b"LIST" + struct.pack("<I", 200000) + bytes(200000) + whole[12:]  # so much that all of it is read first
    for sound in (whole, listed, *endless, longer, pictured):
        for ways in ([], ["--isolated"]):
            done = run(sound, "-o", "out.wav", *ways)
            assert done.returncode == 0 and (t.dir / "out.wav").read_bytes() == want, (sound[:48], done)
    # The first chunk is answered while the others are still to come.
    with subprocess.Popen([t.bin / "mlrun", "s.mlc", "--stream", "-i", "speech=-"], cwd=t.dir, env=t.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as child:
        for at in range(0, 44 + 2 * HOP, 5):
            child.stdin.write(whole[at:min(at + 5, 44 + 2 * HOP)])
            child.stdin.flush()
        assert child.stdout.readline().split()[0] == b"0.000"
        child.stdin.write(whole[44 + 2 * HOP:])
        child.stdin.close()
        assert len(child.stdout.read().splitlines()) == 12
    assert child.returncode == 0
    # What is cut, of another rate, or no WAV is told.
    done = run(whole[:-3])
    assert done.returncode == 4 and b"the sound ends within a sample" in done.stderr and len(done.stdout.splitlines()) == 12, done
    done = run(whole[:-6])
    assert done.returncode == 4 and b"truncated in chunk 'data': 6 bytes are missing" in done.stderr and len(done.stdout.splitlines()) == 11, done
    for sound, code, text in ((whole[:30], 4, b"the file ends before its samples"), (wav(SAMPLES, 2 * RATE), 6, b"the pipeline takes 8000"),
                              (b"no sound", 6, b"audio/wav"), (b"", 6, b"found an empty file")):
        done = run(sound)
        assert done.returncode == code and text in done.stderr, (sound, done)


def a_folder_of_sounds_is_answered_by_sounds(t):
    build(t)
    (t.dir / "in" / "deep").mkdir(parents=True)
    for name, count in (("a.wav", 50), ("deep/a.wav", 9), ("c", 21)):
        (t.dir / "in" / name).write_bytes(wav(SAMPLES[:count], RATE))
    (t.dir / "in" / "bad.wav").write_bytes(wav(SAMPLES, RATE)[:60])
    for out, more in (("out", ()), ("in/out", ("--isolated",))):
        done = t.run("mlrun", "s.mlc", "-i", "in", "-o", out + "/", "--json-lines", *more, code=4)
        assert {str(p.relative_to(t.dir / out)) for p in (t.dir / out).rglob("*") if p.is_file()} == {"a.wav", "deep/a.wav", "c.wav"}, done
        for answer in (a for a in map(json.loads, done.stdout.splitlines()) if a["ok"]):
            t.run("mlrun", "s.mlc", "-i", answer["file"], "-o", "alone.wav")
            assert (t.dir / answer["output_file"]).read_bytes() == (t.dir / "alone.wav").read_bytes() and answer["outputs"] == {}, answer


def mistakes_have_a_place(t):
    def says(*texts, **options):
        stderr = build(t, code=(2, 20), **options).stderr
        assert all(text in stderr for text in texts) and "p.json:1:" in stderr, stderr
    says("'out' of step 'overlap_add' names no 'rest'", before={"out": {"sound": "sound"}})
    says("'center' of step 'overlap_add' is \"cut\" beside 'before'", before={"center": "cut"})
    says("'length_of' of step 'overlap_add' stands beside 'before'", before={"length_of": "x"})
    says("takes a 'before' of 12 samples, by which its rows overlap, 'before' has 11", stream={"carry": {"before": {"from": "rest", "shape": [11]}}})
    says("the file does not say its shape", '"shape": [..., samples by which rows overlap]', stream={"carry": {"before": "rest"}})
    says("rows of 16 samples that begin 16 apart do not overlap", before={"hop": 16})
    says("takes f32 with 1 axes beside 'y', 'before' is f32 with 2", stream={"carry": {"before": {"from": "rest", "shape": [1, 12]}}})


def spectrum(row):
    """Of as many samples as a power of two."""
    if len(row) == 1:
        return [complex(row[0])]
    even, odd = spectrum(row[::2]), spectrum(row[1::2])
    turned = [v * cmath.exp(-2j * cmath.pi * k / len(row)) for k, v in enumerate(odd)]
    return [a + b for a, b in zip(even, turned)] + [a - b for a, b in zip(even, turned)]


def recorded_second():
    """The noisy sound and the clean one. Recorded are the magnitudes of its blocks, and the blocks that the second network takes, which
    have its phases."""
    def steps(name, key, width):
        values = read(MODELS / "expected" / name, [key])[key][1]
        return [values[k:k + width] for k in range(0, len(values), width)]
    magnitudes = steps("dtln_1.speech_noisy.npz", "seq_in:input_2", 257)
    masked = steps("dtln_2.speech_noisy.npz", "seq_in:input_4", 512)
    noisy, clean = [], [0.0] * (len(masked) * 128 + 384)
    for magnitude, block in zip(magnitudes, masked):
        of_block = spectrum(block)[:257]
        half = [m * v / abs(v) if v else 0j for m, v in zip(magnitude, of_block)]
        half[0], half[256] = complex(half[0].real), complex(half[256].real)
        whole = half + [v.conjugate() for v in half[255:0:-1]]
        noisy += [v.real / 512 for v in spectrum([v.conjugate() for v in whole])][384:]
    for k, block in enumerate(steps("dtln_2.speech_noisy.npz", "seq_out:conv1d_3", 512)):
        for i, v in enumerate(block):
            clean[128 * k + i] += v
    return noisy, clean[:128 * len(masked)]


def noise_goes_from_a_recording(t):
    """DTLN: two networks with a state each, the phase of the noisy sound, rows that overlap."""
    needed = [MODELS / name for name in ("dtln_1.onnx", "dtln_2.onnx", "speech_goforward.wav", "expected/dtln_1.speech_noisy.npz",
                                         "expected/dtln_2.speech_noisy.npz")]
    if not all(path.is_file() for path in needed):
        raise Skipped("dtln_1.onnx is not here")
    for path in needed[:2]:
        shutil.copy(path, t.dir)
    text = json.loads((ROOT / "examples/denoise/pipeline.json").read_text())
    (t.dir / "p.json").write_text(json.dumps(text | {"outputs": ["clean", "sound"]}))
    t.run("mlpack", "build", "p.json", "-o", "denoise.mlc", "--target", "native")
    noisy, want = recorded_second()
    (t.dir / "noisy.pcm").write_bytes(struct.pack(f"<{len(noisy)}f", *noisy))
    done = t.run("mlrun", "run", "denoise.mlc", "-i", "noisy.pcm", "--pcm", "f32le:16000", "--stream", "-o", "clean.wav", "--json")
    chunks = [json.loads(line)["outputs"] for line in done.stdout.splitlines()[:-1]]
    found = [v for chunk in chunks for v in chunk["sound"]["data"]]
    largest = max(map(abs, want))
    assert len(found) == len(want) == 16000 and max(abs(a - b) for a, b in zip(found, want)) < 1e-4 * largest, largest
    assert max(abs(a - b / 32768) for a, b in zip(found, samples_of(t.dir / "clean.wav"))) <= 0.51 / 32768
    # A file, at once and chunk by chunk, by the example as it is.
    shutil.copy(ROOT / "examples/denoise/pipeline.json", t.dir)
    t.run("mlpack", "build", "pipeline.json", "-o", "denoise.mlc", "--target", "native")
    t.run("mlrun", "denoise.mlc", "-i", needed[2], "-o", "whole.wav")
    t.run("mlrun", "denoise.mlc", "-i", needed[2], "-o", "stream.wav", "--stream")
    assert (t.dir / "whole.wav").read_bytes() == (t.dir / "stream.wav").read_bytes()
    assert len(samples_of(t.dir / "whole.wav")) == math.ceil(len(samples_of(needed[2])) / 128) * 128


if __name__ == "__main__":
    main([rows_overlap_from_chunk_to_chunk, what_a_stream_says_of_its_sound, a_sound_on_standard_input_is_answered_as_it_comes,
          a_folder_of_sounds_is_answered_by_sounds, mistakes_have_a_place, noise_goes_from_a_recording])
