#!/usr/bin/python3
"""Writes the files of this folder: small images, sounds and arrays, and in expected.npz what other programs make of them.

    /usr/bin/python3 make.py          needs Debian 12's python3-pil (9.4.0, libjpeg-turbo 2.1.5), python3-numpy, and
                                      opencv-python-headless 4.6.0.66 (PyPI) for the keys with gray=opencv
The versions that were used are in versions.json. A key of expected.npz is a file and the options of decode_image:
"rgb.png:color=rgb,alpha=drop,orient=ignore".
"""
import io
import json
import pathlib
import struct
import sys
import zlib

import cv2
import numpy as np
import PIL
from PIL import Image, ImageOps, features

HERE = pathlib.Path(__file__).resolve().parent
expected = {}


def picture(height, width, channels, seed):
    """Smooth colours with some noise: compressible, and every channel different."""
    rng = np.random.default_rng(seed)
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    wave = 127 + 80 * np.sin(x / 5 + c) + 40 * np.cos(y / 3 - 2 * c) + rng.normal(0, 6, (height, width, channels))
    return np.clip(wave, 0, 255).astype(np.uint8)


def expect(name, image=None, orient="ignore"):
    """Pillow's answers for the file `name`, and OpenCV's grey of Pillow's colours."""
    image = image or Image.open(HERE / name)
    if orient == "exif":
        image = ImageOps.exif_transpose(image)
    has_alpha = "A" in image.mode or "transparency" in image.info
    rgba = image.convert("RGBA")
    rgb = image.convert("RGB") if image.mode not in ("P", "LA", "RGBA") else Image.fromarray(np.asarray(rgba)[..., :3])
    rgb_array = np.asarray(rgb)
    key = f"{name}:orient={orient},color="
    expected[key + "rgb,alpha=drop"] = rgb_array
    expected[key + "bgr,alpha=drop"] = rgb_array[..., ::-1].copy()
    expected[key + "gray,alpha=drop,gray=pillow"] = np.asarray(rgb.convert("L"))[..., None]
    expected[key + "gray,alpha=drop,gray=opencv"] = cv2.cvtColor(rgb_array, cv2.COLOR_RGB2GRAY)[..., None]
    if has_alpha:
        expected[key + "rgb,alpha=keep"] = np.asarray(rgba)
        ground = Image.new("RGB", image.size, (10, 200, 77))
        ground.paste(rgb, mask=rgba.getchannel("A"))
        expected[key + "rgb,alpha=over"] = np.asarray(ground)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_bytes(array, depth, colour_type, interlaced=False, extra=b""):
    """PNG forms that Pillow does not write: 16 bits, Adam7, low depths of grey."""
    height, width = array.shape[:2]
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    raw = b""
    for y0, x0, dy, dx in passes if interlaced else [(0, 0, 1, 1)]:
        part = array[y0::dy, x0::dx]
        if part.shape[1] == 0:
            continue
        for row in part:
            if depth == 16:
                data = row.astype(">u2").tobytes()
            elif depth == 8:
                data = row.astype(np.uint8).tobytes()
            else:
                bits = np.unpackbits(row.astype(np.uint8).reshape(-1, 1), axis=1)[:, 8 - depth:]
                data = np.packbits(bits.reshape(-1)).tobytes()
            raw += b"\0" + data
    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")


def exif(orientation):
    e = Image.Exif()
    e[0x0112] = orientation
    return e


def pngs():
    rgb = picture(17, 23, 3, 1)
    rgba = np.dstack([rgb, picture(17, 23, 1, 2)])
    grey = rgb[..., 0]
    Image.fromarray(rgb).save(HERE / "rgb.png", optimize=True)
    Image.fromarray(rgba).save(HERE / "rgba.png", optimize=True)
    Image.fromarray(grey).save(HERE / "grey.png", optimize=True)
    Image.fromarray(np.dstack([grey, rgba[..., 3]]), "LA").save(HERE / "grey_alpha.png", optimize=True)
    Image.fromarray(rgb).quantize(13).save(HERE / "palette.png")
    Image.fromarray(rgb).quantize(13).save(HERE / "palette_alpha.png", transparency=bytes(range(0, 256, 20)))
    for depth in (1, 2, 4):
        (HERE / f"grey{depth}.png").write_bytes(png_bytes(grey >> (8 - depth), depth, 0))
    (HERE / "interlaced.png").write_bytes(png_bytes(rgb, 8, 2, interlaced=True))
    (HERE / "gamma.png").write_bytes(png_bytes(rgb, 8, 2, extra=chunk(b"gAMA", struct.pack(">I", 100000))))
    # An ICC profile that libpng finds broken: a warning, never an error.
    (HERE / "bad_profile.png").write_bytes(png_bytes(rgb, 8, 2, extra=chunk(b"iCCP", b"x\0\0" + zlib.compress(b"\0" * 200))))
    for name in ("rgb", "rgba", "grey", "grey_alpha", "palette", "palette_alpha", "grey1", "grey2", "grey4", "interlaced",
                 "gamma", "bad_profile"):
        expect(name + ".png")
    deep = np.random.default_rng(3).integers(0, 65536, (5, 7, 3))
    (HERE / "rgb16.png").write_bytes(png_bytes(deep, 16, 2))
    (HERE / "grey16.png").write_bytes(png_bytes(deep[..., 0], 16, 0))
    # Pillow saturates 16-bit grey; the high byte is what OpenCV takes.
    expected["rgb16.png:orient=ignore,color=rgb,alpha=drop"] = (deep >> 8).astype(np.uint8)
    assert (cv2.imread(str(HERE / "rgb16.png"))[..., ::-1] == deep >> 8).all()
    expected["grey16.png:orient=ignore,color=gray,alpha=drop,gray=pillow"] = (deep[..., :1] >> 8).astype(np.uint8)
    for orientation in (1, 3, 6, 8):
        name = f"exif{orientation}.png"
        Image.fromarray(rgb[:5, :8]).save(HERE / name, exif=exif(orientation))
        expect(name, orient="exif")


def jpegs():
    image = Image.fromarray(picture(29, 37, 3, 4))
    image.save(HERE / "q75_420.jpg", quality=75, subsampling=2)
    image.save(HERE / "q95_444.jpg", quality=95, subsampling=0)
    image.save(HERE / "q50_422_progressive.jpg", quality=50, subsampling=1, progressive=True)
    image.convert("L").save(HERE / "grey.jpg", quality=80)
    image.convert("CMYK").save(HERE / "cmyk.jpg", quality=80)
    for name in ("q75_420.jpg", "q95_444.jpg", "q50_422_progressive.jpg", "grey.jpg"):
        expect(name)
    for orientation in range(1, 9):
        name = f"exif{orientation}.jpg"
        image.crop((0, 0, 8, 5)).save(HERE / name, quality=90, exif=exif(orientation))
        expect(name, orient="exif")
    expect("exif6.jpg", orient="ignore")


def wav_bytes(kind, bits, channels, rate, data, extensible=False):
    block = channels * bits // 8
    fmt = struct.pack("<HHIIHH", 0xFFFE if extensible else kind, channels, rate, rate * block, block, bits)
    if extensible:
        fmt += struct.pack("<HHIH", 22, bits, 0, kind) + bytes.fromhex("000000001000800000aa00389b71")
    chunks = b"fmt " + struct.pack("<I", len(fmt)) + fmt
    chunks += b"LIST" + struct.pack("<I", 3) + b"abc\0"  # an odd chunk and its padding
    chunks += b"data" + struct.pack("<I", len(data)) + data + b"\0" * (len(data) & 1)
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def sounds():
    rng = np.random.default_rng(5)
    for bits in (8, 16, 24, 32):
        full = rng.integers(-2 ** (bits - 1), 2 ** (bits - 1), (9, 2))
        full[0] = [-2 ** (bits - 1), 2 ** (bits - 1) - 1]
        stored = full + 128 if bits == 8 else full
        data = b"".join(int(v).to_bytes(bits // 8, "little", signed=bits != 8) for v in stored.reshape(-1))
        name = f"pcm{bits}.wav"
        (HERE / name).write_bytes(wav_bytes(1, bits, 2, 16000, data, extensible=bits == 24))
        exact = full / 2.0 ** (bits - 1)
        expected[name + ":keep"] = exact.astype(np.float32)
        expected[name + ":first"] = exact[:, 0].astype(np.float32)
        expected[name + ":mean"] = ((exact[:, 0] + exact[:, 1]) / 2).astype(np.float32)
    for bits, kind in ((32, np.float32), (64, np.float64)):
        values = rng.normal(0, 1, 7).astype(kind)
        (HERE / f"float{bits}.wav").write_bytes(wav_bytes(3, bits, 1, 22050, values.tobytes()))
        expected[f"float{bits}.wav:first"] = values.astype(np.float32)


def arrays():
    rng = np.random.default_rng(6)
    numbers = rng.normal(0, 100, (2, 3, 4))
    kinds = {"f8": np.float64, "f4": np.float32, "f2": np.float16, "i8": np.int64, "i4": np.int32, "i2": np.int16,
             "i1": np.int8, "u8": np.uint64, "u4": np.uint32, "u2": np.uint16, "u1": np.uint8}
    save = lambda name, a: np.save(HERE / f"npy_{name}.npy", a, allow_pickle=False)
    for name, kind in kinds.items():
        a = np.abs(numbers).astype(kind)
        if name in ("f8", "f4", "i4", "u2", "u1"):
            save(name + "_big_fortran", np.asfortranarray(a.astype(a.dtype.newbyteorder(">"))))
            expected[f"npy_{name}_big_fortran.npy"] = a
        expected["plain_" + name] = a
    save("bool", numbers > 0)
    expected["npy_bool.npy"] = numbers > 0
    save("scalar", np.float32(2.5))
    save("empty", np.zeros((0, 5), np.float32))
    for version in (2, 3):
        with open(HERE / f"npy_version{version}.npy", "wb") as f:
            np.lib.format.write_array(f, numbers.astype(np.float32), version=(version, 0))
        expected[f"npy_version{version}.npy"] = numbers.astype(np.float32)
    np.save(HERE / "npy_object.npy", np.array([{"a": 1}], object), allow_pickle=True)
    save("structured", np.zeros(2, [("a", "<f4"), ("b", "<i4")]))
    save("unicode", np.array(["text"]))
    np.savez(HERE / "stored.npz", x=numbers.astype(np.float32), **{"input:0": np.arange(5)})
    np.savez_compressed(HERE / "deflated.npz", x=numbers.astype(np.float32), zeros=np.zeros((64, 64), np.float32))


pngs()
jpegs()
sounds()
arrays()
np.savez_compressed(HERE / "expected.npz", **expected)
versions = {"pillow": PIL.__version__, "libjpeg_turbo": features.version("libjpeg_turbo"), "zlib": features.version("zlib"),
            "numpy": np.__version__, "opencv": cv2.__version__, "python": sys.version.split()[0]}
(HERE / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")
