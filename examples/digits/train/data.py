"""Digits drawn from fonts, 28 x 28 grey, with what happens to pictures of digits in the world.

Each picture is drawn four times too large, then turned, sheared, scaled and moved in one affine step, brought down to
28 x 28, given a random contrast (half of them dark on light, half light on dark), blur and noise. Everything follows
from the seed.
"""
import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

SIZE = 28
SCALE = 4  # drawn at SIZE * SCALE
GLYPH = 20  # height of a digit, in pixels of the result, before scaling


def glyph(path, digit):
    """The digit as a mask with values 0..255, centred in a canvas of SIZE * SCALE, about GLYPH * SCALE high."""
    side = SIZE * SCALE
    font = ImageFont.truetype(str(path), GLYPH * SCALE)
    left, top, right, bottom = font.getbbox(str(digit))
    # Fonts disagree about how much of the em a digit fills: ask for the size that makes this one GLYPH high.
    size = max(8, min(200, round(GLYPH * SCALE * GLYPH * SCALE / max(1, bottom - top))))
    font = ImageFont.truetype(str(path), size)
    left, top, right, bottom = font.getbbox(str(digit))
    mask = Image.new("L", (side, side))
    ImageDraw.Draw(mask).text(((side - left - right) / 2, (side - top - bottom) / 2), str(digit), fill=255, font=font)
    return mask


def usable(path):
    """Fonts that draw ten different digits."""
    try:
        return len({glyph(path, d).tobytes() for d in range(10)}) == 10
    except OSError:
        return False


def disturb(mask, rng, strength):
    """One 28 x 28 picture of the mask. strength 0 is a clean dark digit on white, 1 is what the net is trained on."""
    side = SIZE * SCALE
    angle = np.deg2rad(rng.uniform(-14, 14) * strength)
    shear = rng.uniform(-0.15, 0.15) * strength
    scale_x, scale_y = 1 / (1 + rng.uniform(-0.3, 0.25, 2) * strength)
    shift = rng.uniform(-3, 3, 2) * SCALE * strength
    c, s = np.cos(angle), np.sin(angle)
    matrix = np.array([[c, -s], [s, c]]) @ np.array([[1, shear], [0, 1]]) @ np.diag([scale_x, scale_y])
    middle = np.array([side / 2, side / 2])
    offset = middle - matrix @ (middle + shift)
    turned = mask.transform((side, side), Image.AFFINE, (*matrix[0], offset[0], *matrix[1], offset[1]), Image.BILINEAR)
    if strength and rng.random() < 0.4:
        turned = turned.filter(ImageFilter.GaussianBlur(rng.uniform(0.5, 1.2) * SCALE / 2))
    small = np.asarray(turned.resize((SIZE, SIZE), Image.BILINEAR), np.float32) / 255
    ink, paper = 0.0, 1.0
    if strength:
        paper = rng.uniform(0.55, 1.0)
        ink = paper - rng.uniform(0.35, paper)
        if rng.random() < 0.5:
            ink, paper = 1 - ink, 1 - paper
    picture = paper + (ink - paper) * small
    if strength:
        picture += rng.uniform(-0.15, 0.15) * np.linspace(-1, 1, SIZE)[:, None]  # uneven light
        picture += rng.normal(0, rng.uniform(0, 0.08), picture.shape)
    return (np.clip(picture, 0, 1) * 255).round().astype(np.uint8)


def make(paths, per_glyph, strength, seed):
    """All digits of all fonts, `per_glyph` pictures each: u8 [n, 28, 28] and labels."""
    rng = np.random.default_rng(seed)
    pictures, labels = [], []
    for path in paths:
        for digit in range(10):
            mask = glyph(path, digit)
            for _ in range(per_glyph):
                pictures.append(disturb(mask, rng, strength))
                labels.append(digit)
    return np.stack(pictures), np.array(labels, np.int64)
