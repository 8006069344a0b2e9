"""Sounds through the tools: at another rate, through spectra and back, and as a file."""
import json
import pathlib
import struct

from npz_file import npy, read
from onnx_file import model, node, port
from tool_test import Skipped, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA, MODELS = ROOT / "tests/unit/io/data", ROOT.parent / "shared/models"


def wav(samples, rate):
    data = struct.pack(f"<{len(samples)}h", *samples)
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, 2*rate, 2, 16) +
            b"data" + struct.pack("<I", len(data)) + data)


def pipeline(t, steps, outputs, rate=8000):
    """The model gives back the samples that it is given."""
    (t.dir / "same.onnx").write_bytes(model([node("Identity", ["x"], ["y"])], [port("x", "f32", ["n"])], [port("y", "f32", ["n"])]))
    steps = [{"op": "decode_audio", "in": "speech", "channels": "first", "rate": rate, "out": "sound"}, *steps]
    (t.dir / "p.json").write_text(json.dumps({"mlc_pipeline": 1, "inputs": {"speech": {"accept": ["audio/wav"]}}, "steps": steps, "outputs": outputs}))


RUN = {"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "y"}}


def a_sound_comes_out_as_a_file(t):
    samples = [(i*i*37) % 65536 - 32768 for i in range(777)]
    pipeline(t, [{"op": "resample", "from": 8000, "to": 8000, "like": "torchaudio", "out": "x"}, RUN, {"op": "wav_out", "rate": 8000, "out": "file"}], ["file"])
    (t.dir / "in.wav").write_bytes(wav(samples, 8000))
    t.run("mlpack", "build", "same.onnx", "--pipeline", "p.json", "-o", "s.mlc", "--target", "native")
    shown = t.run("mlrun", "s.mlc", "-i", "in.wav").stdout
    assert shown == "file   audio/wav, 777 samples, 1 channel, 8000 Hz, 1598 bytes; -o FILE.wav writes it\n", shown
    answer = t.json("mlrun", "run", "s.mlc", "-i", "in.wav")["outputs"]["file"]
    assert answer == {"media_type": "audio/wav", "rate": 8000, "channels": 1, "samples": 777, "bytes": 1598}, answer
    t.run("mlrun", "s.mlc", "-i", "in.wav", "-o", "out.wav")
    assert (t.dir / "out.wav").read_bytes() == (t.dir / "in.wav").read_bytes()
    # Samples in place of the file: raw ones of 16 bits, and floats as an array.
    (t.dir / "in.bin").write_bytes(struct.pack("<777h", *samples))
    (t.dir / "in.npy").write_bytes(npy("f32", [777, 1], [value / 32768 for value in samples]))
    for given in ("@in.bin:i16[777]", "speech=@in.bin:i16[777,1]", "in.npy"):
        t.run("mlrun", "s.mlc", "-i", given, "-o", "of_array.wav")
        assert (t.dir / "of_array.wav").read_bytes() == (t.dir / "in.wav").read_bytes(), given
    refused = t.run("mlrun", "s.mlc", "-i", "@in.bin:i16[1,777]", code=6).stderr
    assert "speech   found i16[1,777], expected audio/wav, or samples, f32, f64 or i16: [samples] or [samples,channels] with at most 64 channels" in refused, refused
    refused = t.run("mlrun", "s.mlc", "-i", "in.wav", "-o", "out.png", code=2).stderr
    assert ".png holds one picture, there are 0 among the answers" in refused, refused
    refused = t.run("mlrun", "s.mlc", "-i", "in.wav", "-o", "out.npz", code=2).stderr
    assert "pictures and sounds are no arrays" in refused, refused


def a_sound_goes_through_spectra_at_another_rate(t):
    """Twice as many samples per second: each second sample is near to one that was there."""
    samples = [int(12000*((i*3 % 50)/25 - 1)) for i in range(1000)]
    pipeline(t, [{"op": "frame", "length": 64, "hop": 16, "center": "reflect", "last": "pad"}, {"op": "window", "shape": "hann", "ends": "periodic"},
                 {"op": "stft", "n_fft": 64, "power": "complex"}, {"op": "istft", "n_fft": 64},
                 {"op": "overlap_add", "hop": 16, "center": "cut", "window": {"shape": "hann", "ends": "periodic"}, "length_of": "sound", "out": "x"},
                 RUN, {"op": "wav_out", "in": "y", "rate": 8000, "out": "same"},
                 {"op": "resample", "in": "y", "from": 8000, "to": 16000, "like": "scipy"}, {"op": "wav_out", "rate": 16000, "out": "twice"}], ["same"])
    (t.dir / "in.wav").write_bytes(wav(samples, 8000))
    text = json.loads((t.dir / "p.json").read_text())
    for outputs, steps in ((["same"], 7), (["same", "twice"], 9)):
        (t.dir / "p.json").write_text(json.dumps({**text, "outputs": outputs, "steps": text["steps"][:steps + 1]}))
        t.run("mlpack", "build", "same.onnx", "--pipeline", "p.json", "-o", "s.mlc", "--target", "native,portable")
        answers = t.json("mlrun", "run", "s.mlc", "-i", "in.wav")["outputs"]
        assert {name: (a["rate"], a["samples"]) for name, a in answers.items()} == dict(zip(outputs, ((8000, 1000), (16000, 2000)))), answers
        if len(outputs) > 1:
            refused = t.run("mlrun", "s.mlc", "-i", "in.wav", "-o", "out.wav", code=2).stderr
            assert ".wav holds one sound, there are 2 among the answers" in refused, refused
            continue
        for variant in ("portable", None):
            t.run("mlrun", "s.mlc", "-i", "in.wav", "-o", "out.wav", *(["--variant", variant] if variant else []))
            back = struct.unpack("<1000h", (t.dir / "out.wav").read_bytes()[44:])
            assert max(abs(a - b) for a, b in zip(back, samples)) <= 1, max(abs(a - b) for a, b in zip(back, samples))


def packed_sounds_come_in(t):
    """Also where the file is a stranger's, so that sounds are decoded in a process that can open no library."""
    pipeline(t, [{"op": "fit", "samples": 4, "out": "x"}, RUN], ["y"], rate=16000)
    text = json.loads((t.dir / "p.json").read_text())
    text["inputs"]["speech"]["accept"] += ["audio/flac", "audio/ogg"]
    (t.dir / "p.json").write_text(json.dumps(text))
    t.run("mlpack", "build", "same.onnx", "--pipeline", "p.json", "-o", "own.mlc", "--target", "portable", "--no-selftest")
    t.run("mlpack", "build", "same.onnx", "--pipeline", "p.json", "-o", "stranger.mlc", "--target", "portable", "--no-selftest", "--no-sign")
    for container in ("own.mlc", "stranger.mlc"):
        for name in ("mono16.flac", "mono.ogg"):
            done = t.run("mlrun", "run", container, "-i", DATA / name, "--json", code=(0, 20))
            if done.returncode == 20:
                assert "libsndfile.so.1; WAV works without" in done.stdout, done
                raise Skipped("no libsndfile.so.1 here")
            answer = json.loads(done.stdout)["outputs"]["y"]
            assert answer["shape"] == [4] and 0 < max(map(abs, answer["data"])) < 1, answer
        refused = t.run("mlrun", container, "-i", DATA / "stereo16.flac", code=6).stderr
        assert "audio has 44100 samples per second, the pipeline takes 16000" in refused, refused


def what_does_not_fit_is_an_error(t):
    pipeline(t, [{"op": "frame", "length": 10, "hop": 5, "center": "none", "last": "drop"}, {"op": "stft", "n_fft": 12, "power": 1},
                 {"op": "istft", "n_fft": 12, "out": "x"}, RUN], ["y"])
    refused = t.run("mlpack", "build", "same.onnx", "--pipeline", "p.json", "-o", "s.mlc", code=2).stderr
    assert "step 'istft' with an 'n_fft' of 12 takes spectra [.., 7, 2]" in refused, refused
    pipeline(t, [{"op": "overlap_add", "in": "sound", "hop": 5, "center": "none", "window": "none", "out": "x"}, RUN], ["y"])
    refused = t.run("mlpack", "build", "same.onnx", "--pipeline", "p.json", "-o", "s.mlc", code=2).stderr
    assert "step 'overlap_add' takes f32 with 2 axes or more" in refused, refused
    pipeline(t, [{"op": "new_axis", "in": "sound", "at": 0, "out": "x"}, {"op": "new_axis", "at": 1}, {"op": "new_axis", "at": 1},
                 {"op": "wav_out", "rate": 8000, "out": "file"}, {"op": "column", "in": "x", "index": 0, "out": "x0"},
                 {"op": "run", "program": "main", "in": {"x": "x0"}, "out": {"y": "y"}}], ["file", "y"])
    (t.dir / "in.wav").write_bytes(wav([1, 2, 3], 8000))
    t.run("mlpack", "build", "same.onnx", "--pipeline", "p.json", "-o", "s.mlc", "--target", "native")
    refused = t.run("mlrun", "s.mlc", "-i", "in.wav", code=6).stderr
    assert "step 'wav_out' takes f32 [samples], [channels, samples] or [1, channels, samples], found f32[1,1,1,3]" in refused, refused


def floats_wav(samples, rate):
    data = struct.pack(f"<{len(samples)}f", *samples)
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 3, 1, rate, 4*rate, 4, 32) +
            b"data" + struct.pack("<I", len(data)) + data)


def notes_are_those_that_sound(t):
    """Basic Pitch: the recorded two seconds at the network's rate, and at twice that by the example as it is, in two parts."""
    source, recorded = MODELS / "basic_pitch.onnx", MODELS / "expected/basic_pitch.n1_notes.npz"
    if not (source.is_file() and recorded.is_file()):
        raise Skipped("basic_pitch.onnx is not here")
    sound = read(recorded, ["in:serving_default_input_2:0"])["in:serving_default_input_2:0"][1]
    text = (ROOT / "examples/notes/pipeline.json").read_text()
    (t.dir / "slow.json").write_text(text.replace("44100", "22050"))
    (t.dir / "p.json").write_text(text)
    for name in ("slow", "p"):
        t.run("mlpack", "build", source, "--pipeline", f"{name}.json", "-o", f"{name}.mlc", "--target", "native")
    (t.dir / "slow.wav").write_bytes(floats_wav(sound, 22050))
    t.run("mlrun", "slow.mlc", "-i", "slow.wav", "-o", "slow.npz")
    found = read(t.dir / "slow.npz")
    for name, number in (("notes", 1), ("onsets", 2), ("pitches", 0)):
        key = f"out:StatefulPartitionedCall:{number}"
        want = read(recorded, [key])[key]
        assert found[name][0] == want[0] and max(abs(a - b) for a, b in zip(found[name][1], want[1])) < 1e-3, name
    between = [v for a, b in zip(sound, [*sound[1:], 0]) for v in (a, (a + b) / 2)]
    (t.dir / "fast.wav").write_bytes(floats_wav(between + [0.0] * 1000, 44100))
    t.run("mlrun", "p.mlc", "-i", "fast.wav", "-o", "fast.npz")
    shape, notes = read(t.dir / "fast.npz")["notes"]
    assert shape == (2, 172, 88), shape
    assert {21 + k % 88 for k, v in enumerate(notes[:172 * 88]) if v > 0.5} == {69, 72, 76, 88}, notes


if __name__ == "__main__":
    main([a_sound_comes_out_as_a_file, a_sound_goes_through_spectra_at_another_rate, packed_sounds_come_in, what_does_not_fit_is_an_error,
          notes_are_those_that_sound])
