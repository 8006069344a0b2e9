#!/usr/bin/python3
"""Draws the pictures of ../images with fonts that the net has not seen. Every file name ends with its digit."""
import pathlib

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

import fonts

OUT = pathlib.Path(__file__).resolve().parent.parent / "images"


def draw(size, font, height, digit, paper, ink, mode="RGB"):
    image = Image.new(mode, size, paper)
    font = ImageFont.truetype(str(fonts.ROOT / font), height)
    left, top, right, bottom = font.getbbox(digit)
    at = ((size[0] - left - right) / 2, (size[1] - top - bottom) / 2)
    ImageDraw.Draw(image).text(at, digit, fill=ink, font=font)
    return image


def grainy(image, seed):
    """Uneven light and grain, as in a photograph."""
    pixels = np.asarray(image, np.float32)
    light = np.linspace(-30, 20, pixels.shape[1])[None, :, None]
    noise = np.random.default_rng(seed).normal(0, 8, pixels.shape)
    return Image.fromarray(np.clip(pixels + light + noise, 0, 255).astype(np.uint8))


OUT.mkdir(exist_ok=True)
# The size of the net's input, grey.
draw((28, 28), "truetype/lato/Lato-Regular.ttf", 26, "7", 255, 0, "L").save(OUT / "plain_7.png")
# A larger colour photograph as JPEG.
photo = draw((96, 96), "truetype/crosextra/Caladea-Bold.ttf", 88, "3", (214, 190, 150), (40, 50, 120))
grainy(photo.filter(ImageFilter.GaussianBlur(1)), 1).save(OUT / "photo_3.jpg", quality=85)
# A transparent drawing: the pipeline puts it on white.
draw((64, 64), "truetype/mononoki/mononoki-Bold.ttf", 62, "5", (0, 0, 0, 0), (180, 30, 30, 255), "RGBA").save(OUT / "transparent_5.png")
# Light on dark, turned by ten degrees.
dark = draw((120, 120), "truetype/play/Play-Regular.ttf", 110, "8", (20, 24, 30), (230, 230, 120))
dark.rotate(10, Image.BICUBIC, fillcolor=(20, 24, 30)).save(OUT / "dark_8.png", optimize=True)
# Stored lying on its side, with an EXIF orientation that says so.
lying = draw((90, 110), "opentype/junicode/JunicodeTwoBeta-Medium.otf", 120, "2", (235, 235, 225), (60, 30, 20))
exif = Image.Exif()
exif[0x0112] = 6
lying.transpose(Image.ROTATE_90).save(OUT / "turned_2.jpg", quality=85, exif=exif)
