#!/usr/bin/python3
"""Writes sounds as FLAC and as Vorbis in Ogg, and in packed.npz what they hold. Needs soundfile 0.14.0 (PyPI, libsndfile 1.2.2).

A key of packed.npz is a file; its samples are [n, channels] as soundfile reads them.
"""
import pathlib

import numpy as np
import soundfile

HERE = pathlib.Path(__file__).resolve().parent
rng = np.random.default_rng(2030)
t = np.arange(6000)[:, None]
waves = 0.4*np.sin(t/[17.0, 23.0]) + 0.05*rng.standard_normal((6000, 2))
out = {}
for name, channels, rate, kind in (("mono16.flac", 1, 16000, "PCM_16"), ("stereo16.flac", 2, 44100, "PCM_16"), ("stereo24.flac", 2, 48000, "PCM_24"),
                                   ("mono.ogg", 1, 16000, "VORBIS"), ("stereo.ogg", 2, 44100, "VORBIS")):
    soundfile.write(HERE / name, waves[:, :channels], rate, subtype=kind)
    out[name] = soundfile.read(HERE / name, dtype="float32", always_2d=True)[0]
np.savez_compressed(HERE / "packed.npz", **out)
