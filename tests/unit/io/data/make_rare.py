#!/usr/bin/env python3
"""Writes the rarer kinds of pictures of this folder, and in expected_rare.npz what their pixels are: those that went into
files without loss, Pillow's answer for the others. Keys as in make.py.

    python3 make_rare.py        needs Pillow with libtiff, libwebp and OpenJPEG, and numpy; versions_rare.json has those used
"""
import io
import json
import pathlib
import struct

import numpy as np
import PIL
from PIL import Image, features

HERE = pathlib.Path(__file__).resolve().parent
expected = {}


def picture(height, width, channels, seed):
    rng = np.random.default_rng(seed)
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    wave = 127 + 80 * np.sin(x / 5 + c) + 40 * np.cos(y / 3 - 2 * c) + rng.normal(0, 6, (height, width, channels))
    return np.clip(wave, 0, 255).astype(np.uint8)


def expect(name, rgb, alpha=None, orient="ignore"):
    rgb = np.ascontiguousarray(rgb if rgb.ndim == 3 else np.repeat(rgb[..., None], 3, axis=2))
    key = f"{name}:orient={orient},color="
    expected[key + "rgb,alpha=drop"] = rgb
    expected[key + "bgr,alpha=drop"] = rgb[..., ::-1].copy()
    expected[key + "gray,alpha=drop,gray=pillow"] = np.asarray(Image.fromarray(rgb).convert("L"))[..., None]
    if alpha is not None:
        expected[key + "rgb,alpha=keep"] = np.dstack([rgb, alpha])


def write(name, data):
    (HERE / name).write_bytes(data)


def save(name, image, **options):
    image.save(HERE / name, **options)


def bmp(rows, bits, width, height, compression=0, header=40, palette=b"", masks=b"", palette_entries=0):
    """`rows` from the first that is stored; a negative height stores the top first."""
    body = b"".join(row + b"\0" * (-len(row) % 4) for row in rows)
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, width, height, 1, bits, compression, len(body), 2835, 2835, palette_entries, 0)
        info += masks if header == 40 else masks + b"\0" * (header - 40 - len(masks))
    offset = 14 + len(info) + len(palette)
    return b"BM" + struct.pack("<IHHI", offset + len(body), 0, 0, offset) + info + palette + body


def bmps(rgb):
    height, width = rgb.shape[:2]
    save("rgb.bmp", Image.fromarray(rgb))
    expect("rgb.bmp", rgb)
    bgrx = np.dstack([rgb[..., ::-1], np.full((height, width), 77, np.uint8)])
    write("rgbx_top_down.bmp", bmp([r.tobytes() for r in bgrx], 32, width, -height))
    expect("rgbx_top_down.bmp", rgb)
    alpha = picture(height, width, 1, 9)[..., 0]
    packed = rgb[..., 0].astype(np.uint32) | rgb[..., 1].astype(np.uint32) << 8 | rgb[..., 2].astype(np.uint32) << 16 | alpha.astype(np.uint32) << 24
    masks = struct.pack("<IIII", 0xFF, 0xFF00, 0xFF0000, 0xFF000000)
    write("rgba_v5.bmp", bmp([r.tobytes() for r in packed[::-1]], 32, width, height, 3, 124, masks=masks))
    expect("rgba_v5.bmp", rgb, alpha)
    five = (rgb >> 3).astype(np.uint16)
    write("rgb555.bmp", bmp([r.tobytes() for r in (five[..., 0] << 10 | five[..., 1] << 5 | five[..., 2])[::-1]], 16, width, height))
    expect("rgb555.bmp", (five.astype(int) * 255 // 31).astype(np.uint8))
    six = (rgb[..., 1] >> 2).astype(np.uint16)
    write("rgb565.bmp", bmp([r.tobytes() for r in (five[..., 0] << 11 | six << 5 | five[..., 2])[::-1]], 16, width, height, 3,
                            masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F)))
    expect("rgb565.bmp", np.dstack([five[..., 0].astype(int) * 255 // 31, six.astype(int) * 255 // 63, five[..., 2].astype(int) * 255 // 31]).astype(np.uint8))
    rng = np.random.default_rng(8)
    for bits, entries in ((1, 2), (4, 11), (8, 200)):
        colours = rng.integers(0, 256, (entries, 3)).astype(np.uint8)
        index = rng.integers(0, entries, (height, width)).astype(np.uint8)
        per_byte = 8 // bits
        padded = np.pad(index, ((0, 0), (0, -width % per_byte)))
        weights = 1 << (bits * np.arange(per_byte)[::-1])
        rows = (padded.reshape(height, -1, per_byte) * weights).sum(axis=2).astype(np.uint8)
        palette = b"".join(bytes(c[::-1]) + b"\0" for c in colours)
        write(f"palette{bits}.bmp", bmp([r.tobytes() for r in rows[::-1]], bits, width, height, palette=palette, palette_entries=entries))
        expect(f"palette{bits}.bmp", colours[index])
    core = b"".join(bytes(c[::-1]) for c in np.pad(colours, ((0, 56), (0, 0))))
    write("core.bmp", bmp([r.tobytes() for r in index[::-1]], 8, width, height, header=12, palette=core))
    expect("core.bmp", colours[index])


def pnms(rgb):
    height, width = rgb.shape[:2]
    bits = (rgb[..., 0] > 127).astype(np.uint8)  # 1 is black
    write("text.pbm", f"P1 # black\n{width} {height}\n".encode() + b"\n".join(bytes(r + 48) for r in bits))
    write("bytes.pbm", f"P4\n{width} {height}\n".encode() + np.packbits(bits, axis=1).tobytes())
    for name in ("text.pbm", "bytes.pbm"):
        expect(name, 255 * (1 - bits))
    write("text.pgm", f"P2\n# made\n# by hand\n{width}\t{height} 255\n".encode() + b" ".join(str(v).encode() for v in rgb[..., 0].ravel()))
    write("bytes.pgm", f"P5 {width} {height} 255\n".encode() + rgb[..., 0].tobytes())
    for name in ("text.pgm", "bytes.pgm"):
        expect(name, rgb[..., 0])
    write("text.ppm", f"P3\n{width} {height}\n255\n".encode() + b"\n".join(" ".join(map(str, r.ravel())).encode() for r in rgb))
    write("bytes.ppm", f"P6\n{width} {height}\n255\n".encode() + rgb.tobytes() + b"P6 1 1 255 abc")
    for name in ("text.ppm", "bytes.ppm"):
        expect(name, rgb)
    deep = np.random.default_rng(3).integers(0, 1001, rgb.shape)
    write("deep.ppm", f"P6 {width} {height} 1000\n".encode() + deep.astype(">u2").tobytes())
    expect("deep.ppm", ((deep * 255 + 500) // 1000).astype(np.uint8))


def of_pillow(name, orient="ignore"):
    expect(name, np.asarray(Image.open(HERE / name).convert("RGB")), orient=orient)


def tiffs(rgb):
    image, grey = Image.fromarray(rgb), Image.fromarray(rgb[..., 0])
    for name, compression in (("raw", None), ("lzw", "tiff_lzw"), ("deflate", "tiff_adobe_deflate"), ("packbits", "packbits")):
        save(f"{name}.tiff", image, compression=compression)
        expect(f"{name}.tiff", rgb)
    save("grey.tiff", grey, compression="tiff_lzw")
    expect("grey.tiff", rgb[..., 0])
    alpha = picture(rgb.shape[0], rgb.shape[1], 1, 9)[..., 0]
    save("rgba.tiff", Image.fromarray(np.dstack([rgb, alpha])))
    expect("rgba.tiff", rgb, alpha)
    palette = image.quantize(13)
    save("palette.tiff", palette)
    expect("palette.tiff", np.asarray(palette.convert("RGB")))
    bits = rgb[..., 0] > 127
    save("fax4.tiff", Image.fromarray(bits), compression="group4")
    expect("fax4.tiff", (bits * 255).astype(np.uint8))
    save("jpeg.tiff", image, compression="jpeg", quality=90)
    of_pillow("jpeg.tiff")
    deep = np.random.default_rng(4).integers(0, 65536, rgb.shape[:2]).astype(np.uint16)
    save("grey16.tiff", Image.fromarray(deep))
    expect("grey16.tiff", (deep >> 8).astype(np.uint8))
    small = rgb[:5, :8]
    save("turned.tiff", Image.fromarray(small), tiffinfo={274: 6})
    expect("turned.tiff", small)
    expect("turned.tiff", np.rot90(small, -1), orient="exif")


def webps(rgb):
    image = Image.fromarray(rgb)
    alpha = picture(rgb.shape[0], rgb.shape[1], 1, 9)[..., 0]
    save("lossy.webp", image, quality=80)
    of_pillow("lossy.webp")
    save("lossless.webp", image, lossless=True)
    expect("lossless.webp", rgb)
    save("alpha.webp", Image.fromarray(np.dstack([rgb, alpha])), lossless=True, exact=True)
    expect("alpha.webp", rgb, alpha)
    e = Image.Exif()
    e[0x0112] = 8
    small = rgb[:5, :8]
    save("turned.webp", Image.fromarray(small), lossless=True, exif=e)
    expect("turned.webp", np.rot90(small, 1), orient="exif")
    save("moving.webp", image, save_all=True, append_images=[image.rotate(90)], lossless=True)


def jpeg2000s(rgb):
    image = Image.fromarray(rgb)
    alpha = picture(rgb.shape[0], rgb.shape[1], 1, 9)[..., 0]
    save("rgb.jp2", image)
    expect("rgb.jp2", rgb)
    save("tiles.j2k", image, tile_size=(8, 8))
    expect("tiles.j2k", rgb)
    save("grey.jp2", Image.fromarray(rgb[..., 0]))
    expect("grey.jp2", rgb[..., 0])
    save("rgba.jp2", Image.fromarray(np.dstack([rgb, alpha])))
    expect("rgba.jp2", rgb, alpha)
    deep = np.random.default_rng(5).integers(0, 65536, rgb.shape[:2]).astype(np.uint16)
    save("grey16.jp2", Image.fromarray(deep))
    expect("grey16.jp2", (deep >> 8).astype(np.uint8))


def main():
    rgb = picture(13, 19, 3, 6)
    bmps(rgb)
    pnms(rgb)
    tiffs(rgb)
    webps(rgb)
    jpeg2000s(rgb)
    np.savez_compressed(HERE / "expected_rare.npz", **expected)
    versions = {"pillow": PIL.__version__, "numpy": np.__version__}
    versions.update({k: features.version(v) for k, v in (("libtiff", "libtiff"), ("libwebp", "webp"), ("openjpeg", "jpg_2000"), ("libjpeg", "jpg"))})
    write("versions_rare.json", (json.dumps(versions, indent=1) + "\n").encode())


main()
