"""Which font files the digits are drawn with, and which families the net never sees before it is tested.

A family is held out with all its files, and so is nothing that copies its design under another name (Carlito, for one,
is Lato redrawn, so both are held out; Hack is DejaVu's Mono, so both are trained on).
"""
import pathlib

ROOT = pathlib.Path("/usr/share/fonts")

TRAIN = [
    "truetype/dejavu/*.ttf", "truetype/liberation/*.ttf", "truetype/freefont/*.ttf",
    "truetype/noto/NotoSans-*.ttf", "truetype/noto/NotoSerif-*.ttf", "truetype/noto/NotoSansMono-*.ttf",
    "truetype/roboto/**/*.ttf", "truetype/open-sans/*.ttf", "truetype/hack/*.ttf", "truetype/firacode/*.ttf",
    "truetype/inconsolata/*.otf", "truetype/inconsolata/*.ttf", "truetype/quicksand/*.ttf", "truetype/comfortaa/*.ttf",
    "opentype/linux-libertine/*.otf", "opentype/cabin/*.otf", "opentype/jura/*.otf", "truetype/jura/*.ttf",
    "opentype/urw-base35/*.otf",
]
HELD_OUT = [
    "truetype/lato/*.ttf", "truetype/crosextra/*.ttf", "opentype/cantarell/*.otf", "truetype/mononoki/*.ttf",
    "opentype/ebgaramond/*.otf", "opentype/junicode/*.ttf", "truetype/junicode/*.ttf", "opentype/junicode/*.otf",
    "truetype/play/*.ttf", "opentype/play/*.otf",
]
NOT_DIGITS = ("D050000L", "Symbol", "Initials", "Keyboard")  # dingbats, or no digits at all


def files(patterns):
    found = {p for pattern in patterns for p in ROOT.glob(pattern)}
    return sorted(p for p in found if not any(word in p.name for word in NOT_DIGITS))
