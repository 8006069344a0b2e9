#!/usr/bin/python3
"""Writes inverse.npz: spectra of a small sound with their phases, and sounds of changed spectra, by librosa 0.11.0. Needs librosa (PyPI).

Keys: "sound" the samples; "spectra/N_FFT/HOP" [frames, bins, 2], hann, centred, reflected; "mask/N_FFT/HOP" [frames, bins];
"changed/N_FFT/HOP/CENTER/LENGTH" the sound of the spectra times the mask, as long as LENGTH says, 0: as long as it is.
"""
import pathlib

import librosa
import numpy as np

out = {}
rng = np.random.default_rng(2029)
sound = rng.standard_normal(1000).astype(np.float32)
out["sound"] = sound
for n_fft, hop in ((64, 16), (64, 48), (75, 20), (61, 61), (128, 32)):
    spectra = librosa.stft(sound.astype(np.float64), n_fft=n_fft, hop_length=hop, window="hann", center=True, pad_mode="reflect", dtype=np.complex128).T
    spectra = spectra.astype(np.complex64)
    mask = rng.random(spectra.shape).astype(np.float32)
    out[f"spectra/{n_fft}/{hop}"] = np.stack([spectra.real, spectra.imag], axis=-1)
    out[f"mask/{n_fft}/{hop}"] = mask
    changed = (spectra.astype(np.complex128)*mask).T
    for center in (0, 1):
        for length in (0, 700, 1000) if center else (0,):
            out[f"changed/{n_fft}/{hop}/{center}/{length}"] = librosa.istft(changed, hop_length=hop, n_fft=n_fft, window="hann", center=bool(center),
                                                                            length=length or None, dtype=np.float64)
np.savez_compressed(pathlib.Path(__file__).resolve().parent / "inverse.npz", **{key: np.asarray(value, dtype=np.float32) for key, value in out.items()})
