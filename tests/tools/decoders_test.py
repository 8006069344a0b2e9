"""Files that are small and want much of a decoder. Each is decoded within 512 MiB of addresses, and is refused or answered
within the default bound of memory (runtime/io/limits.h) and a few seconds: the sentence says which bound, so that no test
measures time alone."""
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import zlib

MIB = 1 << 20
ADDRESSES = 512 * MIB
BOUND = 256 * MIB
SLACK = 8 * MIB      # code and tables of the libraries that the first decode touches
SECONDS = 30         # for what takes at most 2 on an idle machine
RESOURCE, MALFORMED, UNSUPPORTED = 7, 4, 20


class Decoder:
    def __init__(self, program):
        self.program = program
        self.dir = tempfile.TemporaryDirectory(prefix="mlc-decoders-")
        self.failed = []

    def check(self, name, data, code, text):
        """Decodes `data` and expects an exit code and a part of the answer."""
        path = pathlib.Path(self.dir.name) / "file"
        path.write_bytes(data)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        try:
            done = subprocess.run([self.program, path], capture_output=True, text=True, timeout=SECONDS,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES)))
            lines = done.stdout.splitlines() or [""]
            peak = int(lines[-1] or 0) * 1024
            wrong = done.returncode != code or text not in lines[0] or peak > BOUND + SLACK
            took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            said = f"{took:.1f} s, exit {done.returncode}, {peak // MIB} MiB: {lines[0]}{done.stderr}"
        except subprocess.TimeoutExpired:
            wrong, said = True, f"not done after {SECONDS} s"
        print(f"{'FAIL ' if wrong else 'ok   '} {name}, {len(data)} bytes: {said}")
        if wrong:
            self.failed.append(name)


# PNG

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, bits, colour, before=b"", after=b"", trailing=b"", interlace=0):
    row = bytes(1 + (width * bits * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour] + 7) // 8)
    packer = zlib.compressobj(9)
    if interlace:  # grey: the seven passes begin at x, y and go in steps of dx, dy
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
        sizes = [((width - x + dx - 1) // dx, (height - y + dy - 1) // dy) for x, y, dx, dy in passes]
        data = packer.compress(bytes(sum((1 + (w * bits + 7) // 8) * h for w, h in sizes)))
    else:
        data = b"".join(packer.compress(row) for _ in range(height))
    data += trailing and packer.compress(trailing)
    data += packer.flush()
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlace))
            + before + chunk(b"IDAT", data) + after + chunk(b"IEND", b""))


def pngs(decoder):
    def packed(mib):
        return zlib.compress(bytes(mib * MIB), 9)
    texts = b"".join(chunk(b"zTXt", b"k%d\0\0" % k + packed(15)) for k in range(100))
    decoder.check("PNG with 100 zTXt of 15 MiB", png(8, 8, 8, 0, texts), 0, "ok u8[8,8,3]")
    texts = b"".join(chunk(b"iTXt", b"k%d\0\1\0\0\0" % k + packed(15)) for k in range(100))
    decoder.check("PNG with 100 iTXt of 15 MiB behind its pixels", png(8, 8, 8, 0, b"", texts), 0, "ok u8[8,8,3]")
    decoder.check("PNG with a profile of 400 MiB", png(8, 8, 8, 2, chunk(b"iCCP", b"p\0\0" + packed(400))), 0, "ok")
    suggested = b"".join(chunk(b"sPLT", b"p%d\0\x08" % k + bytes(600000)) for k in range(20))
    decoder.check("PNG with 20 palettes of 100000 colours", png(8, 8, 8, 2, suggested), 0, "ok u8[8,8,3]")
    unknown = chunk(b"abCd", b"") * 1000000
    decoder.check("PNG with a million unknown chunks", png(8, 8, 8, 2, unknown), 0, "ok u8[8,8,3]")
    exif = chunk(b"eXIf", b"II*\0" + bytes(200 * MIB))
    decoder.check("PNG with EXIF of 200 MiB", png(8, 8, 8, 2, exif), 0, "ok u8[8,8,3]")
    palette = chunk(b"PLTE", b"\0\0\0\xff\xff\xff") + chunk(b"tRNS", b"\x80\x80")
    decoder.check("PNG of 1 bit that becomes RGBA", png(16384, 16384, 1, 3, palette), RESOURCE,
                  "png: 16384 x 16384 pixels, 4 channels may take 1025 MiB, at most 256 MiB are allowed for decoding")
    decoder.check("PNG of 1 bit, interlaced", png(8000, 8000, 1, 0, interlace=1), 0, "ok u8[8000,8000,3]")
    decoder.check("PNG of a row of 2^28 pixels", png(1 << 28, 1, 1, 0), RESOURCE, "png: its rows and chunks take more memory")
    decoder.check("PNG with 2 GiB behind its last row", png(8, 8, 8, 0, trailing=bytes(2048 * MIB)), MALFORMED,
                  "png: more compressed data than the pixels take")


# JPEG: codes of one symbol, so that every bit of the data is 0.

def segment(marker, data):
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def table(kind, symbol):
    return segment(0xC4, bytes([kind, 1] + [0] * 15 + [symbol]))


def jpeg(width, height, frame, scans, before=b"", components=1):
    out = b"\xff\xd8" + before + segment(0xDB, b"\0" + b"\1" * 64) + table(0, 0) + table(0x10, 0xE0)
    parts = b"".join(bytes([c + 1, 0x11, 0]) for c in range(components))
    out += segment(frame, struct.pack(">BHHB", 8, height, width, components) + parts)
    for first, last, refined, data in scans:
        which = components if first == 0 else 1
        out += segment(0xDA, bytes([which]) + b"".join(bytes([c + 1, 0]) for c in range(which)) +
                       bytes([first, last, refined])) + data
    return out + b"\xff\xd9"


def jpegs(decoder):
    def scans(side, count, components=1):
        blocks = (side // 8) ** 2
        dc = bytes(blocks * components // 8 + 1)              # a bit for each block: the difference is 0
        ac = bytes((blocks // 16384 + 1) * 15 // 8 + 2)       # 15 bits for 2^14 blocks without coefficients
        return [(0, 0, 0, dc)] + [(1 + k % 63, 1 + k % 63, 0, ac) for k in range(count - 1)]
    decoder.check("JPEG of 8192 x 8192 pixels, 60 scans", jpeg(8192, 8192, 0xC2, scans(8192, 60)), RESOURCE,
                  "jpeg: 33 scans of 8192 x 8192 pixels, at most 200 scans and 33554432 blocks")
    decoder.check("JPEG of 4096 x 4096 pixels, 60 scans", jpeg(4096, 4096, 0xC2, scans(4096, 60)), 0, "ok u8[4096,4096,3]")
    decoder.check("JPEG of 201 scans", jpeg(64, 64, 0xC2, scans(64, 201)), RESOURCE, "jpeg: 201 scans of 64 x 64 pixels")
    decoder.check("progressive JPEG of 16384 x 16384 pixels", jpeg(16384, 16384, 0xC2, scans(16384, 2, 3), b"", 3),
                  RESOURCE, "jpeg in several scans: 16384 x 16384 pixels, 3 channels may take 2305 MiB, at most 256 MiB")
    decoder.check("JPEG of 16384 x 16384 pixels without data", jpeg(16384, 16384, 0xC0, [(0, 63, 0, b"")], b"", 3),
                  RESOURCE, "jpeg: 16384 x 16384 pixels, 3 channels may take 769 MiB")
    decoder.check("JPEG with 4 million APP1 segments", jpeg(64, 64, 0xC2, scans(64, 1), b"\xff\xe1\0\2" * 4000000), 0,
                  "ok u8[64,64,3]")


# TIFF

def tiff(tags, data=b"", pad=0):
    """`tags`: {number: (type, [values]) or (type, count, offset)}; data lies at 8."""
    at = 8 + len(data) + pad
    entries, more = b"", b""
    behind = at + 2 + 12 * len(tags) + 4
    for number, (kind, *rest) in sorted(tags.items()):
        if isinstance(rest[0], list):
            values = struct.pack("<%d%s" % (len(rest[0]), "?BBHI"[kind]), *rest[0])
            if len(values) <= 4:
                entries += struct.pack("<HHI", number, kind, len(rest[0])) + values.ljust(4, b"\0")
                continue
            rest = [len(rest[0]), behind + len(more)]
            more += values
        entries += struct.pack("<HHII", number, kind, *rest)
    return b"II*\0" + struct.pack("<I", at) + data + bytes(pad) + struct.pack("<H", len(tags)) + entries + bytes(4) + more


def picture(width, height, bits, packing, strips, sizes, rows, photometric=1, samples=1):
    return {256: (4, [width]), 257: (4, [height]), 258: (3, [bits] * samples), 259: (3, [packing]), 262: (3, [photometric]),
            273: (4, strips), 277: (3, [samples]), 278: (4, [rows]), 279: (4, sizes), 284: (3, [1])}


def tiffs(decoder):
    white = b"\xff" * (16384 // 8)  # G4: one bit says that a row is like the one above
    decoder.check("TIFF, G4, 16384 x 16384 pixels", tiff(picture(16384, 16384, 1, 4, [8], [len(white)], 16384), white),
                  RESOURCE, "tiff: 16384 x 16384 pixels, 3 channels may take")
    small = b"\xff" * 4096
    decoder.check("TIFF, G4, 6000 x 6000 pixels", tiff(picture(6000, 6000, 1, 4, [8], [4096], 6000), small), 0,
                  "ok u8[6000,6000,3]")
    tags = picture(8, 8, 8, 1, [8], [64], 8)
    tags |= {number: (7, 60 * MIB, 8) for number in range(40000, 40200)}
    decoder.check("TIFF, 200 tags that share 60 MiB", tiff(tags, bytes(60 * MIB)), RESOURCE,
                  "tiff: the directory may take 36")
    decoder.check("TIFF, a strip for each of 2^28 rows", tiff(picture(1, 1 << 28, 8, 8, [8], [64], 1), bytes(64)), RESOURCE,
                  "tiff: the directory may take 8193 MiB")
    decoder.check("TIFF, a strip of 2^24 rows that libtiff cuts up",
                  tiff(picture(1, 1 << 24, 8, 1, [8], [1 << 24], 1 << 24), bytes(1 << 24)), RESOURCE,
                  "tiff: the directory may take 769 MiB")
    packed = zlib.compress(bytes(64), 0).ljust(4 * MIB, b"\0")
    decoder.check("TIFF, 65536 strips of the same 4 MiB",
                  tiff(picture(64, 65536, 8, 8, [8] * 65536, [len(packed)] * 65536, 1), packed), MALFORMED,
                  "tiff: 65536 strips of 274877906944 bytes together, in a file of")
    deflated = zlib.compress(bytes(1 << 28), 9)
    decoder.check("TIFF, a row of 2^28 pixels", tiff(picture(1 << 28, 1, 8, 8, [8], [len(deflated)], 1), deflated), RESOURCE,
                  "tiff: 268435456 x 1 pixels, 1 channel may take")
    inside = jpeg(8192, 8192, 0xC2, [(0, 0, 0, bytes(1 << 18)), (1, 63, 0, bytes(256))])
    decoder.check("TIFF, JPEG in several scans inside",
                  tiff(picture(8192, 8192, 8, 7, [8], [len(inside)], 8192), inside), UNSUPPORTED,
                  "tiff: JPEG that is not baseline, or in several scans")


# JPEG 2000

def j2k(width, height, components=1, tile=None, layers=1, levels=0, block=(4, 4), style=0, precincts=None, planes=8,
        body=b"\x80", extra=b"", tile_header=b"", tile_parts=1):
    out = b"\xff\x4f" + segment(0x51, struct.pack(">HIIIIIIIIH", 0, width, height, 0, 0, *(tile or (width, height)), 0, 0,
                                                  components) + b"\7\1\1" * components)
    coding = bytes([levels, block[0], block[1], style, 1]) + (precincts or b"")
    out += segment(0x52, bytes([1 if precincts else 0, 0]) + struct.pack(">H", layers) + b"\0" + coding)
    out += segment(0x5C, bytes([0x40]) + bytes([planes << 3]) * (3 * levels + 1)) + extra
    for k in range(tile_parts):
        data = tile_header + b"\xff\x93" + body
        out += struct.pack(">HHHIBB", 0xFF90, 10, k, 12 + len(data), 0, 1) + data
    return out + b"\xff\xd9"


def box(kind, data):
    return struct.pack(">I", 8 + len(data)) + kind + data


def jp2(codestream, width, height, more):
    header = box(b"ihdr", struct.pack(">IIHBBBB", height, width, 1, 7, 7, 0, 0)) + box(b"colr", struct.pack(">BBBI", 1, 0, 0, 16))
    return (box(b"jP  ", b"\r\n\x87\n") + box(b"ftyp", b"jp2 \0\0\0\0jp2 ") + box(b"jp2h", header + more) +
            box(b"jp2c", codestream))


def passes(side, planes):
    """A packet that states for each code block of 64 x 64 samples all the passes there can be, and four bytes of data."""
    bits, seen = ["1"], set()
    across = side // 64
    count = min(3 * planes - 2, 164)
    if count <= 5:
        number = "11" + format(count - 3, "02b")
    elif count <= 36:
        number = "1111" + format(count - 6, "05b")
    else:
        number = "111111111" + format(count - 37, "07b")
    length = "0" + format(4, "0%db" % (3 + count.bit_length() - 1))
    depth = (across - 1).bit_length()
    for y in range(across):
        for x in range(across):
            path = [(d, x >> d, y >> d) for d in range(depth, -1, -1)]
            new = sum(p not in seen for p in path)
            seen.update(path)
            bits += ["1" * new, "1" * new, number, length]  # included, no plane missing, passes, bytes
    text, out, at = "".join(bits), bytearray(), 0
    while at < len(text):
        take = 7 if out and out[-1] == 0xFF else 8
        out.append(int(text[at:at + take].ljust(take, "0"), 2))
        at += take
    return bytes(out) + (b"\0" if out[-1] == 0xFF else b"") + b"\x5A\x12\x34\x77" * across ** 2


def jpeg2000s(decoder):
    decoder.check("JPEG 2000, 8192 x 8192 pixels of 4 components, blocks of 4 x 4", j2k(8192, 8192, 4, block=(0, 0)),
                  RESOURCE, "jpeg2000: 8192 x 8192 pixels, 4 components, 9 bit planes: more than")
    decoder.check("JPEG 2000, blocks of 4 x 4", j2k(4096, 4096, 1, block=(0, 0)), RESOURCE,
                  "jpeg2000: 4096 x 4096 pixels, 1 channel may take")
    decoder.check("JPEG 2000, precincts of 2 x 2", j2k(2048, 2048, 1, levels=1, precincts=b"\x11\x11"), RESOURCE,
                  "jpeg2000: 2048 x 2048 pixels, 1 channel may take")
    decoder.check("JPEG 2000, 65535 layers", j2k(512, 512, 1, layers=65535, levels=5, precincts=b"\x55" * 6), RESOURCE,
                  "jpeg2000: more than 4194304 packets: 1 tiles, 65535 layers")
    decoder.check("JPEG 2000, 65536 tiles", j2k(256, 256, 1, tile=(1, 1)), MALFORMED, "jpeg2000: more than 16384 tiles")
    decoder.check("JPEG 2000, one of 16384 tiles", j2k(512, 512, 4, tile=(4, 4)), MALFORMED,
                  "jpeg2000: 16383 of 16384 tiles are missing")
    decoder.check("JPEG 2000, 8192 tiles", j2k(512, 256, 1, tile=(4, 4), tile_parts=8192, body=b"\0"), 0,
                  "ok u8[256,512,3]")
    small = struct.pack(">HHBBHBBBBBB", 0xFF52, 12, 0, 0, 1, 0, 0, 0, 0, 0, 1)
    decoder.check("JPEG 2000, a tile with blocks of its own", j2k(4096, 4096, 1, tile_header=small), RESOURCE,
                  "jpeg2000: 4096 x 4096 pixels, 1 channel may take")
    decoder.check("JPEG 2000, a matrix of part 2", j2k(64, 64, 1, extra=segment(0x74, bytes(60000))), UNSUPPORTED,
                  "jpeg2000: marker 65396, which is not of part 1")
    palette = box(b"pclr", struct.pack(">HB", 1, 255) + b"\7" * 255 + bytes(255)) + box(
        b"cmap", b"".join(struct.pack(">HBB", 0, 1, k) for k in range(255)))
    decoder.check("JPEG 2000, a palette of 255 channels", jp2(j2k(2048, 2048), 2048, 2048, palette), UNSUPPORTED,
                  "jpeg2000: a palette of 255 channels")
    decoder.check("JPEG 2000, all passes of 30 planes", j2k(2880, 2880, 1, planes=29, body=passes(2880, 30)), 0,
                  "ok u8[2880,2880,3]")


# WebP

class Bits:
    def __init__(self):
        self.value, self.length = 0, 0

    def put(self, value, count):
        self.value |= value << self.length
        self.length += count
        return self

    def bytes(self):
        return self.value.to_bytes((self.length + 7) // 8, "little")


def vp8l(width, height, bits):
    data = struct.pack("<BI", 0x2F, (width - 1) | (height - 1) << 14) + bits
    data += b"\0" * (len(data) % 2)
    return b"RIFF" + struct.pack("<I", 12 + len(data)) + b"WEBPVP8L" + struct.pack("<I", len(data)) + data


def webps(decoder):
    one = (0b0001, 4)  # a code of one symbol, 0
    grey = Bits().put(0, 3)
    for _ in range(5):
        grey.put(*one)
    decoder.check("WebP of 36 bytes, 16383 x 16383 pixels", vp8l(16383, 16383, grey.bytes()), RESOURCE,
                  "webp: 16383 x 16383 pixels, 3 channels may take 768 MiB, at most 256 MiB")
    decoder.check("WebP, 5000 x 5000 pixels", vp8l(5000, 5000, grey.bytes()), 0, "ok u8[5000,5000,3]")
    # The codes of 1024 x 1024 pixels differ in blocks of 4 x 4: 65536 groups. Their numbers are green and red bytes of 8
    # bits, so that the picture of groups is the bytes 0 to 65535.
    groups = Bits().put(0b100, 3).put(0, 3).put(0, 1)
    all_bytes = (256, [8] * 256)
    for alphabet, lengths in ((280, [8] * 256), all_bytes):
        groups.put(0, 1).put(19 - 4, 4)
        order = [17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
        for symbol in order:
            groups.put(1 if symbol in (8, 0) else 0, 3)
        groups.put(0, 1)
        for k in range(alphabet):
            groups.put(1 if k < 256 else 0, 1)
    for _ in range(3):
        groups.put(*one)
    def reverse(n):
        return int(format(n, "08b")[::-1], 2)
    body = b"".join(bytes([reverse(k & 255), reverse(k >> 8)]) for k in range(65536))
    groups.put(int.from_bytes(body, "little"), 8 * len(body))
    codes = Bits()
    for _ in range(5):
        codes.put(*one)
    groups.put(int("".join(["1000"] * 5 * 65536), 2), 20 * 65536)
    decoder.check("WebP, 65536 groups of codes", vp8l(1024, 1024, groups.bytes()), RESOURCE,
                  "webp: 1024 x 1024 pixels, 3 channels may take 7")


# BMP, PNM, sound, arrays

def simple(decoder):
    side = 16384
    header = b"BM" + struct.pack("<IHHI", 0, 0, 0, 62) + struct.pack("<IiiHHIIiiII", 40, side, side, 1, 1, 0, 0, 0, 0, 2, 0)
    decoder.check("BMP of 1 bit", header + bytes(8) + bytes(side * side // 8), RESOURCE,
                  "bmp: 16384 x 16384 pixels, 3 channels may take 768 MiB")
    decoder.check("PBM", b"P4 16384 16384\n" + bytes(side * side // 8), RESOURCE,
                  "converting: 16384 x 16384 pixels, 1 channel may take 1024 MiB")
    samples = 120 * MIB
    sound = b"RIFF" + struct.pack("<I", samples + 36) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    decoder.check("WAV of 8 bits, 120 MiB", sound + b"data" + struct.pack("<I", samples) + bytes(samples), RESOURCE,
                  "wav: 125829120 samples may take 480 MiB, at most 377 MiB")
    decoder.check("NPY of 10 million strings of a byte", npy("|S1", 10000000) + bytes(10000000), RESOURCE,
                  "npy: 10000000 strings may take")
    entry = npy("|u1", 1 << 30), 1 << 30
    decoder.check("NPZ of 1 GiB of zeros", npz([entry]), RESOURCE, "npz: entry 'a0' may take 2049 MiB, at most")
    decoder.check("NPZ of 20 arrays of 32 MiB", npz([(npy("|u1", 32 * MIB), 32 * MIB)] * 20), RESOURCE, "npz: entry 'a")


# FLAC and Vorbis: what their headers ask for

def ogg(packets):
    """Pages of one packet each, which have at most 64 KiB."""
    def page(number, packet):
        lacing = bytes([255]*(len(packet)//255) + [len(packet) % 255])
        head = b"OggS\0" + struct.pack("<BqIII", 2 if number == 0 else 0, 0, 7, number, 0)
        data = bytearray(head + bytes([len(lacing)]) + lacing + packet)
        sum = 0
        for b in data:
            sum ^= b << 24
            for _ in range(8):
                sum = (sum << 1 ^ (0x04C11DB7 if sum >> 31 else 0)) & 0xFFFFFFFF
        data[22:26] = struct.pack("<I", sum)
        return bytes(data)
    return b"".join(page(k, packet) for k, packet in enumerate(packets))


def vorbis(books):
    head = b"\1vorbis" + struct.pack("<IBIIIIBB", 0, 1, 8000, 0, 0, 0, 0xB8, 1)
    return ogg([head, b"\3vorbis" + struct.pack("<II", 0, 0) + b"\1", b"\5vorbis" + books])


def packed_sounds(decoder):
    books = Bits().put(255, 8)
    for _ in range(256):  # of 2^23 - 1 entries, all of which have one length
        books.put(0x564342, 24).put(1, 16).put((1 << 23) - 1, 24).put(1, 1).put(22, 5).put((1 << 23) - 1, 23).put(0, 4)
    decoder.check("Ogg, books of 2^31 entries", vorbis(books.bytes()), RESOURCE, "ogg: the headers may take 1")
    one = Bits().put(0, 8).put(0x564342, 24).put(4, 16).put(1 << 20, 24)
    decoder.check("Ogg, a book of 2^20 entries of 4", vorbis(one.put(1, 1).put(19, 5).put(1 << 20, 21).put(0, 4).bytes()), RESOURCE, "ogg: the headers may take")
    decoder.check("Ogg, a book that is too large", vorbis(Bits().put(0, 8).put(0x564342, 24).put(256, 16).put(1 << 20, 24).bytes()), MALFORMED,
                  "ogg: a book of codes has 1048576 entries of 256")
    decoder.check("Ogg, lengths that do not add up", vorbis(Bits().put(0, 8).put(0x564342, 24).put(1, 16).put(9, 24).put(1, 1).put(0, 5).put(0, 400).bytes()),
                  MALFORMED, "ogg: a book of codes has lengths that do not add up")
    information = struct.pack(">HHBHBH", 65535, 65535, 0, 0, 0, 0) + (8000 << 44 | 7 << 41 | 15 << 36 | (1 << 36) - 1).to_bytes(8, "big") + bytes(16)
    head = b"fLaC" + struct.pack(">I", 0x80000000 | len(information)) + information
    decoder.check("FLAC, 2^36 samples of 8 channels", head + bytes(100), MALFORMED, "flac: the file does not say how many samples it has")
    information = information[:10] + (8000 << 44 | 7 << 41 | 15 << 36 | 1 << 24).to_bytes(8, "big") + bytes(16)
    head = b"fLaC" + struct.pack(">I", 0x80000000 | len(information)) + information
    decoder.check("FLAC, 2^24 samples of 8 channels", head + bytes(100), RESOURCE, "flac: 134217728 samples may take 529 MiB")
    blocks = b"".join(struct.pack(">I", 2 << 24 | 0xFFFFFF) + bytes(0xFFFFFF) for _ in range(2))
    head = b"fLaC" + struct.pack(">I", len(information)) + information + blocks + struct.pack(">I", 0x81000000)
    decoder.check("FLAC, 32 MiB before the first frame", head + bytes(100), RESOURCE, "flac: the headers may take 401 MiB")


def npy(kind, count):
    text = ("{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }" % (kind, count)).ljust(117) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode()


def npz(arrays):
    out, directory = b"", b""
    for k, (header, zeros) in enumerate(arrays):
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        crc, data, left = zlib.crc32(header), packer.compress(header), zeros
        while left:
            piece = bytes(min(left, 16 * MIB))
            crc, left = zlib.crc32(piece, crc), left - len(piece)
            data += packer.compress(piece)
        data += packer.flush()
        name = b"a%d.npy" % k
        fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, crc, len(data), len(header) + zeros, len(name), 0)
        directory += b"PK\1\2" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, len(out)) + name
        out += b"PK\3\4" + fields + name + data
    return out + directory + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, len(arrays), len(arrays), len(directory), len(out), 0)


if __name__ == "__main__":
    decoder = Decoder(os.path.join(sys.argv[1], "decode_file"))
    for kind in (pngs, jpegs, tiffs, jpeg2000s, webps, packed_sounds, simple):
        if len(sys.argv) < 3 or kind.__name__ in sys.argv[2:]:
            kind(decoder)
    sys.exit(1 if decoder.failed else 0)
