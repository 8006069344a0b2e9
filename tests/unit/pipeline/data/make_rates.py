#!/usr/bin/python3
"""Writes rates.npz: a small sound at other rates. Needs SciPy (PyPI).

Keys: "sound" the samples; "LIKE/FROM/TO" the same at another rate; "length/FROM/TO" pairs of numbers of samples, before and after.
`scipy` is scipy.signal.resample_poly 1.17.1. `torchaudio` is stated in NumPy here, as torchaudio.transforms.Resample 2.11.0 has it:
places of phases and the quotient that the length is are rounded to f32, all else is double.
"""
import math
import pathlib

import numpy as np
import scipy.signal


def taps(rate, new):
    lower = min(rate, new)*0.99
    width = math.ceil(6*rate/lower)
    phases = (np.arange(0, -new, -1).astype(np.float32) / np.float32(new)).astype(np.float64)
    t = np.clip((phases[:, None] + np.arange(-width, width + rate)/rate)*lower, -6, 6)
    return np.sinc(t)*np.cos(t*math.pi/12)**2*(lower/rate), width


def length(rate, new, samples):
    return int(np.ceil(np.float32(new*samples/rate)))


def torchaudio(x, rate, new):
    if rate == new:
        return x
    weights, width = taps(rate, new)
    wide = np.pad(x, (width, width + rate))
    frames = [wide[i*rate:i*rate + weights.shape[1]] for i in range(len(x)//rate + 1)]
    return (np.stack(frames) @ weights.T).reshape(-1)[:length(rate, new, len(x))]


out = {}
rng = np.random.default_rng(2028)
t = np.arange(1500)/16000
sound = (0.3*np.sin(2*np.pi*(300 + 9000*t)*t) + 0.2*rng.standard_normal(t.size)).astype(np.float32)
out["sound"] = sound
x = sound.astype(np.float64)
for rate, new in ((44100, 16000), (16000, 44100), (48000, 16000), (8000, 48000), (22050, 16000), (16000, 8000), (7, 5), (32000, 1000), (3, 3)):
    common = math.gcd(rate, new)
    out[f"torchaudio/{rate}/{new}"] = torchaudio(x, rate//common, new//common)
    out[f"scipy/{rate}/{new}"] = scipy.signal.resample_poly(x, new, rate)
arrays = {key: np.asarray(value, dtype=np.float32) for key, value in out.items()}
for rate, new in ((441, 160), (160, 441), (3, 1), (1, 6), (147, 160), (160, 147)):
    samples = np.unique(np.concatenate([np.arange(5), rng.integers(1, 1 << 24, 40), rng.integers(1, 1 << 18, 40)]))
    arrays[f"length/{rate}/{new}"] = np.array([(n, min(length(rate, new, int(n)), new*(int(n)//rate + 1))) for n in samples], dtype=np.int64)
np.savez_compressed(pathlib.Path(__file__).resolve().parent / "rates.npz", **arrays)
