"""A sound to its log-mel spectrogram, and what librosa takes for it, in turns, in one process, from Python.

    python3 bench/sounds.py --bin build/release/bin [--seconds N] [--rounds N] [--preset whisper|librosa]

Both begin with the bytes of a WAV of 16 bits and end with f32 [frames, bands]. librosa runs as its users write it: soundfile, `melspectrogram`, and the logarithm of the preset
in NumPy. The model behind the spectrogram hands it on. Needs numpy, onnx, librosa and the wheel `mlrt`. One thread. Prints minimum and median of each in ms, and how far the answers
are apart.
"""
import argparse
import io
import json
import math
import os
import pathlib
import subprocess
import tempfile

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"
import librosa  # noqa: E402
import mlrt  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import soundfile  # noqa: E402
from turns import in_turns  # noqa: E402

PRESETS = {"whisper": {"sr": 16000, "n_fft": 400, "hop_length": 160, "n_mels": 80}, "librosa": {"sr": 22050, "n_fft": 2048, "hop_length": 512, "n_mels": 128}}


def sound(rate, seconds):
    """Harmonics that glide, with noise between them."""
    t, draw = np.arange(rate * seconds) / rate, np.random.default_rng(3)
    phase = 2 * np.pi * np.cumsum(140 + 60 * np.sin(2 * np.pi * 0.7 * t)) / rate
    tones = sum(np.sin(k * phase) / k for k in range(1, 12)) * (0.5 + 0.5 * np.sin(2 * np.pi * 1.3 * t))
    samples = 0.15 * tones + 0.01 * draw.standard_normal(len(t))
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format="WAV", subtype="PCM_16")
    return out.getvalue()


def peer(preset, data):
    samples, _ = soundfile.read(io.BytesIO(data), dtype="float32")
    if preset == "librosa":
        return librosa.power_to_db(librosa.feature.melspectrogram(y=samples, pad_mode="constant", **PRESETS[preset])).T
    power = librosa.feature.melspectrogram(y=samples, pad_mode="reflect", **PRESETS[preset])[:, :-1]
    decades = np.log10(np.maximum(power, 1e-10))
    return ((np.maximum(decades, decades.max() - 8) + 4) / 4).T


def packed(args, folder):
    bands = PRESETS[args.preset]["n_mels"]
    value = lambda name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["frames", bands])  # noqa: E731
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "handed_on", [value("x")], [value("y")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    (folder / "pipeline.json").write_text(json.dumps({
        "mlc_pipeline": 1, "inputs": {"sound": {"accept": ["audio/wav"]}}, "outputs": ["spectrogram"], "steps": [
            {"op": "decode_audio", "in": "sound", "channels": "mean", "rate": PRESETS[args.preset]["sr"]},
            {"op": "log_mel", "preset": args.preset, "out": "mel"},
            {"op": "run", "program": "main", "in": {"x": "mel"}, "out": {"y": "spectrogram"}}]}))
    subprocess.run([args.bin / "mlpack", "build", folder / "m.onnx", "--pipeline", folder / "pipeline.json", "--target", "native", "--no-sign",
                    "--progress", "none", "-o", folder / "m.mlc"], check=True, stdout=subprocess.DEVNULL)
    return mlrt.open(folder / "m.mlc", threads=1, allow_unsigned=True, time_limit=math.inf, memory_limit=math.inf)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--preset", choices=sorted(PRESETS), default="whisper")
    args = parser.parse_args()
    data = sound(PRESETS[args.preset]["sr"], args.seconds)
    with tempfile.TemporaryDirectory() as folder:
        model = packed(args, pathlib.Path(folder))
    calls = (lambda: model.run(sound=data)["spectrogram"]), (lambda: peer(args.preset, data))
    mine, expected = (call() for call in calls)
    apart = np.abs(mine - expected).max() / np.abs(expected).max()
    ours, theirs = in_turns(calls, args.rounds)
    print("| sound | mlrt, ms: min (median) | librosa | ratio of minima | of medians | difference, of the largest |")
    print("|---|---|---|---|---|---|")
    print(f"| {args.seconds} s, `{args.preset}` | {ours[0]:.2f} ({ours[1]:.2f}) | {theirs[0]:.2f} ({theirs[1]:.2f}) | {theirs[0] / ours[0]:.2f} | "
          f"{theirs[1] / ours[1]:.2f} | {apart:.1e} |")


main()
