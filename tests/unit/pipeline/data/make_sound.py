#!/usr/bin/python3
"""Writes sound.npz: what librosa 0.11.0, SciPy and NumPy make of a small sound. Needs librosa (PyPI).

Keys: "sound" the samples; "window/SHAPE/ENDS/LENGTH"; "mel/SCALE/NORM/BANDS/N_FFT/RATE/LOW/HIGH" [bins, bands];
"preset/NAME/BANDS" [frames, bands]. `kaldi` is stated in NumPy here.
"""
import pathlib

import librosa
import numpy as np
import scipy.signal

out = {}
rng = np.random.default_rng(2027)
t = np.arange(6000) / 16000
sound = (0.3*np.sin(2*np.pi*(300 + 900*t)*t) + 0.2*rng.standard_normal(t.size)*(0.2 + t)).astype(np.float32)
out["sound"] = sound
x = sound.astype(np.float64)

for length in (1, 2, 25, 400):
    for ends in ("periodic", "symmetric"):
        for shape in ("hann", "hamming"):
            out[f"window/{shape}/{ends}/{length}"] = scipy.signal.get_window(shape, length, fftbins=ends == "periodic")
        out[f"window/povey/{ends}/{length}"] = scipy.signal.get_window("hann", length, fftbins=ends == "periodic")**0.85

for bands, n_fft, rate, low, high in ((80, 400, 16000, 0, 8000), (23, 512, 16000, 20, 7600), (40, 1025, 22050, 50, 11025)):
    for scale in ("slaney", "htk"):
        for norm in ("slaney", "none"):
            weights = librosa.filters.mel(sr=rate, n_fft=n_fft, n_mels=bands, fmin=low, fmax=high, htk=scale == "htk",
                                          norm=None if norm == "none" else norm, dtype=np.float64)
            out[f"mel/{scale}/{norm}/{bands}/{n_fft}/{rate}/{low}/{high}"] = weights.T.astype(np.float32)

power = np.abs(librosa.stft(x, n_fft=400, hop_length=160, window="hann", center=True, pad_mode="reflect", dtype=np.complex128))**2
for bands in (80, 128):
    mel = librosa.filters.mel(sr=16000, n_fft=400, n_mels=bands, dtype=np.float64) @ power[:, :-1]
    logs = np.log10(np.maximum(mel, 1e-10))
    out[f"preset/whisper/{bands}"] = ((np.maximum(logs, logs.max() - 8) + 4) / 4).T
out["preset/librosa/128"] = librosa.power_to_db(librosa.feature.melspectrogram(y=x, sr=22050)).T


def kaldi(x, bands):
    frames = np.stack([x[i*160:i*160 + 400] for i in range((len(x) - 400) // 160 + 1)])
    frames = frames - frames.mean(axis=1, keepdims=True)
    frames = frames - 0.97*np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    power = np.abs(np.fft.rfft(frames*out["window/povey/symmetric/400"], 512))**2
    mel = lambda hz: 1127*np.log(1 + hz/700)
    edges = np.linspace(mel(20), mel(8000), bands + 2)
    at = mel(16000/512*np.arange(257))[:, None]
    rise, fall = (at - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - at) / (edges[2:] - edges[1:-1])
    return np.log(np.maximum(power @ np.maximum(0, np.minimum(rise, fall)), 2.0**-23))


for bands in (23, 80):
    out[f"preset/kaldi/{bands}"] = kaldi(x, bands)

arrays = {key: np.asarray(value, dtype=np.float32) for key, value in out.items()}
np.savez_compressed(pathlib.Path(__file__).resolve().parent / "sound.npz", **arrays)
