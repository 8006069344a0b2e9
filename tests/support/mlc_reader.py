#!/usr/bin/env python3
"""A second reader of .mlc files, written from spec/container.md and spec/signing.md with the standard library only.

Slow and obvious. Checks the header page, placement, padding, hash tree, signature block and statement, ECDSA P-256
signatures (other key types: the signature counts as not checked), and the rules of the manifest that concern bytes:
order, ranges, tiling. It does not decompress (the standard library has no zstd): leaves of compressed segments are
hashed, their contents are not looked at.

    mlc_reader.py FILE...      one line of JSON per file
"""
import hashlib
import json
import struct
import sys

MAGIC = b"\x89MLC\r\n\x1a\n"
BLOCK = b"MLCSIGB1"
LEAF = 1 << 20
NATIVE = (1, 3, 4)  # module formats: elf, ptx, spirv
WEIGHTS, MODULE, PLAN, ASSET, GOLDEN, OPERATOR, TUNING, PORTABLE_IR, PARENT, SOURCE_MAP = range(1, 11)
BITS = {1: 64, 2: 32, 3: 16, 4: 16, 5: 8, 6: 8, 7: 64, 8: 32, 9: 16, 10: 8, 11: 4, 12: 64, 13: 32, 14: 16, 15: 8,
        16: 4, 17: 8, 19: 8, 20: 8, 21: 4, 22: 8, 23: 2, 24: 2}


class Refused(Exception):
    pass


def need(condition, why):
    if not condition:
        raise Refused(why)


def sha256(*parts):
    h = hashlib.sha256()
    for part in parts:
        h.update(part)
    return h.digest()


def align(n, to):
    return (n + to - 1) // to * to


# ---- FlatBuffers: tables as {field id: position}, every access inside the buffer ----
class Table:
    def __init__(self, buf, pos):
        self.buf, self.pos = buf, pos
        vtable = pos - self._read("<i", pos)
        need(0 <= vtable <= len(buf) - 4, "flatbuffer: vtable outside")
        size = self._read("<H", vtable)
        self.fields = [self._read("<H", vtable + 4 + i) for i in range(0, size - 4, 2)]

    def _read(self, form, pos):
        need(0 <= pos <= len(self.buf) - struct.calcsize(form), "flatbuffer: read outside")
        return struct.unpack_from(form, self.buf, pos)[0]

    def at(self, field):
        offset = self.fields[field] if field < len(self.fields) else 0
        return self.pos + offset if offset else None

    def num(self, field, form, default=0):
        at = self.at(field)
        return default if at is None else self._read("<" + form, at)

    def target(self, field):
        at = self.at(field)
        return None if at is None else at + self._read("<I", at)

    def string(self, field):
        at = self.target(field)
        if at is None:
            return ""
        n = self._read("<I", at)
        need(at + 4 + n <= len(self.buf), "flatbuffer: string outside")
        return self.buf[at + 4:at + 4 + n].decode("utf-8", "strict")

    def table(self, field):
        at = self.target(field)
        return None if at is None else Table(self.buf, at)

    def _vector(self, field, width):
        at = self.target(field)
        if at is None:
            return 0, 0
        n = self._read("<I", at)
        need(at + 4 + n * width <= len(self.buf), "flatbuffer: vector outside")
        return at + 4, n

    def tables(self, field):
        start, n = self._vector(field, 4)
        return [Table(self.buf, p + self._read("<I", p)) for p in range(start, start + 4 * n, 4)]

    def numbers(self, field, form):
        width = struct.calcsize(form)
        start, n = self._vector(field, width)
        return [self._read("<" + form, p) for p in range(start, start + width * n, width)]

    def bytes(self, field, n):
        at = self.at(field)
        need(at is None or at + n <= len(self.buf), "flatbuffer: struct outside")
        return None if at is None else self.buf[at:at + n]

    def ref(self, field):
        raw = self.bytes(field, 24)
        if raw is None:
            return None
        segment, _, offset, length = struct.unpack("<IIQQ", raw)
        return segment, offset, length


# ---- ECDSA on P-256 (FIPS 186-4), for checking only ----
P = 0xffffffff00000001000000000000000000000000ffffffffffffffffffffffff
N = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551
B = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b
G = (0x6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296,
     0x4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5)
SPKI_P256 = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")


def add(a, b):
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and (a[1] + b[1]) % P == 0:
        return None
    slope = ((3 * a[0] * a[0] - 3) * pow(2 * a[1], -1, P) if a == b else (b[1] - a[1]) * pow(b[0] - a[0], -1, P)) % P
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def multiply(k, point):
    out = None
    while k:
        if k & 1:
            out = add(out, point)
        point, k = add(point, point), k >> 1
    return out


def der_integers(sig):
    def integer(at):
        need(sig[at] == 2 and sig[at + 1] < 128, "signature: not DER")
        raw = sig[at + 2:at + 2 + sig[at + 1]]
        need(len(raw) == sig[at + 1] and raw and raw[0] < 128 and not (len(raw) > 1 and raw[0] == 0 and raw[1] < 128),
             "signature: not DER")
        return int.from_bytes(raw, "big"), at + 2 + len(raw)
    need(len(sig) >= 8 and sig[0] == 0x30 and sig[1] == len(sig) - 2, "signature: not DER")
    r, at = integer(2)
    s, at = integer(at)
    need(at == len(sig), "signature: not DER")
    return r, s


def p256_verifies(spki, message, sig):
    if not (len(spki) == 91 and spki.startswith(SPKI_P256)):
        return False
    x, y = int.from_bytes(spki[27:59], "big"), int.from_bytes(spki[59:], "big")
    if x >= P or y >= P or (y * y - x * x * x + 3 * x - B) % P:
        return False
    try:
        r, s = der_integers(sig)
    except (Refused, IndexError):
        return False
    if not (0 < r < N and 0 < s < N):
        return False
    e, w = int.from_bytes(sha256(message), "big"), pow(s, -1, N)
    point = add(multiply(e * w % N, G), multiply(r * w % N, (x, y)))
    return point is not None and point[0] % N == r


# ---- signature block (spec/signing.md, sections 3 to 5) ----
class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        need(n <= len(self.data) - self.at, "signature block: too short")
        self.at += n
        return self.data[self.at - n:self.at]

    def num(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def zeros_to_8(self):
        need(not any(self.take(-self.at % 8)), "signature block: padding")


def check_block(block, root, manifest_digest):
    """The ids of the keys that signed."""
    c = Cursor(block)
    need(c.take(8) == BLOCK and c.num("Q") == len(block), "signature block: beginning")
    need(block[-8:] == BLOCK and struct.unpack("<Q", block[-16:-8])[0] == len(block), "signature block: end")
    count, zero = c.num("I"), c.num("I")
    need(zero == 0 and 1 <= count <= 32, "signature block: records")
    envelope = None
    for _ in range(count):
        kind, zero, n = c.num("I"), c.num("I"), c.num("Q")
        need(zero == 0, "signature block: reserved")
        data = c.take(n)
        c.zeros_to_8()
        if kind == 1:
            need(envelope is None, "signature block: two signatures records")
            envelope = data
        else:
            need(kind == 2 or kind >= 1 << 31, "signature block: unknown record")
    need(c.at == len(block) - 16 and envelope is not None, "signature block: slack")
    e = Cursor(envelope)
    payload_len, sig_count, zero = e.num("Q"), e.num("I"), e.num("I")
    need(zero == 0 and 1 <= sig_count <= 16 and 1 <= payload_len <= 1 << 20, "signature record")
    payload = e.take(payload_len)
    e.zeros_to_8()
    message = b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload
    keys = []
    for _ in range(sig_count):
        key_len, sig_len = e.num("I"), e.num("I")
        need(1 <= key_len <= 512 and 1 <= sig_len <= 512, "signature record: lengths")
        key = e.take(key_len)
        e.zeros_to_8()
        sig = e.take(sig_len)
        e.zeros_to_8()
        if p256_verifies(key, message, sig):
            keys.append(sha256(key).hex())
    need(e.at == len(envelope), "signature record: slack")
    need(keys, "no signature matches")
    s = json.loads(payload)
    need(s["subject"][0]["digest"]["sha256"] == root.hex(), "the signature belongs to another root")
    need(s["predicate"]["manifestSha256"] == manifest_digest.hex(), "the signature belongs to another manifest")
    return keys


# ---- the container (spec/container.md) ----
def stored_bytes(text, dtype, shape):
    need(dtype in BITS, "element type")
    n = 1
    if text == "dense":
        for extent in shape:
            n *= extent
    else:
        names, factors = text.split("->")
        names = names.split(",")
        need(len(names) == len(shape), "rank")
        for factor in factors[1:-1].split("]["):
            name, _, divisor = factor.partition("/")
            n *= -(-shape[names.index(name)] // int(divisor or 1)) if name in names else int(name)
    need(n < 1 << 64, "too many elements")
    return (n * BITS[dtype] + 7) // 8


def place(manifest_len, segments, present):
    """[(offset, table offset, table length)], leaves_off, body_size, gaps"""
    gaps, at = [], 4096 + 8 * len(segments)

    def take(length, alignment):
        nonlocal at
        start = align(at, alignment)
        if start > at:
            gaps.append((at, start))
        at = start + length
        return start
    manifest_off = take(manifest_len, 4096)
    offsets = [0] * len(segments)
    for packed in (True, False):
        for i, s in enumerate(segments):
            if present[i] and (s["stored"] < 65536) == packed:
                offsets[i] = take(s["stored"], 256 if packed else 65536)
    leaves_off = take(0, 4096)
    tables = []
    for i, s in enumerate(segments):
        n = -(-s["decoded"] // LEAF)
        length = n * 32 + (align(n * 4, 32) if s["codec"] == 2 else 0)
        tables.append((take(length, 1), length, n) if present[i] else (0, 0, n))
    return manifest_off, offsets, tables, leaves_off, at, gaps


def check_segment(f, s, offset, table):
    table_off, table_len, n = table
    raw = f[table_off:table_off + table_len]
    leaves = [raw[32 * i:32 * i + 32] for i in range(n)]
    digest = sha256(b"\x5a", bytes([s["codec"], 20, 0, 0]), struct.pack("<QQ", s["stored"], s["decoded"]), *leaves)
    need(digest == s["digest"], "segment %s: leaf table" % s["name"])
    if s["codec"] == 2:
        lens = list(struct.unpack_from("<%dI" % n, raw, 32 * n))
        used = 36 * n
    else:
        lens = [min(LEAF, s["stored"] - LEAF * i) for i in range(n)]
        used = 32 * n
    need(sum(lens) == s["stored"] and all(lens) and not any(raw[used:]), "segment %s: leaf table" % s["name"])
    for i, n_bytes in enumerate(lens):
        leaf = f[offset:offset + n_bytes]
        need(sha256(b"\xa5", struct.pack("<I", n_bytes), leaf) == leaves[i], "segment %s: leaf %d" % (s["name"], i))
        offset += n_bytes


def check_tiling(segments, refs, whole, f, offsets):
    for i, s in enumerate(segments):
        mine = sorted((o, n) for segment, o, n in refs if segment == i and n)
        if s["kind"] in (MODULE, PLAN, TUNING, PORTABLE_IR):
            need(i in whole and not mine, "segment %s: owner" % s["name"])
            continue
        if not mine:
            need(s["kind"] in (PARENT, SOURCE_MAP) or s["kind"] > 10, "segment %s: belongs to nothing" % s["name"])
            continue
        end = 0
        for o, n in mine:
            need(end <= o < end + 256 and (o == end or end), "segment %s: hole or overlap at %d" % (s["name"], end))
            if s["codec"] == 1 and offsets[i]:
                need(not any(f[offsets[i] + end:offsets[i] + o]), "segment %s: gap" % s["name"])
            end = o + n
        need(end == s["decoded"], "segment %s: slack" % s["name"])


def sorted_names(items, what):
    names = [item["name"].encode() for item in items]
    need(all(a < b for a, b in zip(names, names[1:])), what + " not sorted")


def read_manifest(data):
    need(data[4:8] == b"MLCM", "manifest: identifier")
    m = Table(data, struct.unpack_from("<I", data)[0])
    out = {"required": m.numbers(0, "I"), "model": m.table(1).string(0), "version": m.table(1).num(1, "Q")}
    out["segments"] = [{"name": t.string(0), "kind": t.num(1, "B"), "codec": t.num(2, "B"),
                        "droppable": t.num(3, "B") != 0, "stored": t.num(5, "Q"), "decoded": t.num(6, "Q"),
                        "digest": t.bytes(7, 32)} for t in m.tables(3)]
    out["tensors"] = [{"name": t.string(0), "dtype": t.num(1, "B"), "shape": t.numbers(2, "Q"),
                       "content": t.bytes(3, 32).hex(),
                       "copies": [(c.num(0, "I"), c.ref(1)) for c in t.tables(4)]} for t in m.tables(4)]
    out["layouts"] = {t.num(0, "I"): t.string(1) for t in m.tables(5)}
    out["variants"] = [{"name": t.string(0), "family": t.string(1), "target": t.string(3), "plan": t.num(6, "I", None),
                        "module": t.num(7, "I", None), "format": t.num(2, "B"),
                        "stated": bool(t.numbers(4, "I") and t.tables(5) and t.table(13))} for t in m.tables(6)]
    out["methods"] = [{"name": t.string(0), "inputs": [p.string(0) for p in t.tables(1)],
                       "outputs": [p.string(0) for p in t.tables(2)]} for t in m.tables(2)]
    out["assets"] = [{"name": t.string(0), "ref": t.ref(2), "digest": t.bytes(3, 32)} for t in m.tables(8)]
    arrays = [a for g in m.tables(9) for field in (2, 3) for a in g.tables(field)]
    texts = [t.ref(3) for t in m.tables(10)]
    extras = [t.ref(2) for t in m.tables(14) if t.ref(2)]
    out["refs"] = ([(WEIGHTS, c[1]) for t in out["tensors"] for c in t["copies"]] +
                   [(ASSET, a["ref"]) for a in out["assets"]] +
                   [(GOLDEN, a.ref(3)) for a in arrays] + [(OPERATOR, r) for r in texts] + [(ASSET, r) for r in extras])
    out["whole"] = ({v["plan"] for v in out["variants"]} | {v["module"] for v in out["variants"]} |
                    {t.num(0, "I") for t in m.tables(11)} | ({m.table(13).num(2, "I")} if m.table(13) else set()))
    return out


def read(f):
    need(f[:8] == MAGIC and len(f) >= 4096, "not a container")
    major, _, header_len, critical = struct.unpack_from("<HHII", f, 8)
    count, = struct.unpack_from("<I", f, 28)
    manifest_len, = struct.unpack_from("<Q", f, 32)
    body_size, placement_off, manifest_off, leaves_off, leaves_len = struct.unpack_from("<5Q", f, 64)
    need(major == 1 and header_len == 4096 and critical == 0 and f[24:28] == bytes([16, 20, 1, 0]), "header page")
    need(1 <= count <= 65535 and 1 <= manifest_len < 64 << 20, "header page: counts")
    need(not any(f[40:64]) and not any(f[104:4096]), "header page: zeros")
    need(placement_off == 4096 and manifest_off == align(4096 + 8 * count, 4096), "header page: offsets")
    need(manifest_off + manifest_len <= body_size <= len(f), "header page: body_size, or truncated")
    manifest = f[manifest_off:manifest_off + manifest_len]
    manifest_digest = sha256(manifest)
    root = sha256(b"MLCROOT1", f[:64], manifest_digest)
    keys = check_block(f[body_size:], root, manifest_digest) if len(f) > body_size else []

    m = read_manifest(manifest)
    segments = m["segments"]
    need(len(segments) == count and not m["required"], "manifest: segments or required features")
    sorted_names(segments, "segments")
    sorted_names(m["tensors"], "tensors")
    sorted_names(m["methods"], "methods")
    sorted_names(m["variants"], "variants")
    sorted_names(m["assets"], "assets")
    for s in segments:
        need(s["codec"] in (1, 2) and s["kind"], "segment %s: kind or codec" % s["name"])
        need(1 <= s["stored"] <= 16 << 30 and 1 <= s["decoded"] <= 16 << 30, "segment %s: lengths" % s["name"])
        need(s["codec"] == 2 or s["stored"] == s["decoded"], "segment %s: lengths" % s["name"])
        need(s["codec"] == 1 or s["decoded"] // 1024 <= s["stored"], "segment %s: ratio" % s["name"])
    table = struct.unpack_from("<%dQ" % count, f, 4096)
    present = [offset != 0 for offset in table]
    need(all(p or s["droppable"] for p, s in zip(present, segments)), "a segment is absent and not droppable")
    want = place(manifest_len, segments, present)
    need(want[0] == manifest_off and list(table) == want[1], "placement table")
    need((leaves_off, body_size, leaves_len) == (want[3], want[4], want[4] - want[3]), "header page: placement")
    for start, end in want[5]:
        need(not any(f[start:end]), "padding at %d" % start)
    for kind, (segment, offset, length) in m["refs"]:
        need(segment < count and segments[segment]["kind"] == kind, "a reference to no segment")
        need(offset + length <= segments[segment]["decoded"], "a reference outside its segment")
    need(all(i is not None and i < count for i in m["whole"]), "a variant without plan or module")
    need([v["family"] for v in m["variants"]].count("portable") == 1, "not one portable variant")
    need(all(v["stated"] for v in m["variants"] if v["format"] in NATIVE), "native code without features, clauses or audit")
    check_tiling(segments, [r for _, r in m["refs"]], m["whole"], f, want[1])
    for i, s in enumerate(segments):
        if present[i]:
            check_segment(f, s, want[1][i], want[2][i])
    tensors = []
    for t in m["tensors"]:
        need((0 in t["shape"]) == (not t["copies"]), "tensor %s: copies" % t["name"])
        stored = b""
        for layout, (segment, offset, length) in reversed(t["copies"]):
            expected = stored_bytes(m["layouts"][layout], t["dtype"], t["shape"])
            need(offset % 256 == 0 and length == expected, "tensor " + t["name"])
            start = want[1][segment] + offset
            stored = f[start:start + length]
        tensors.append({"name": t["name"], "shape": t["shape"], "content": t["content"],
                        "sha256": sha256(stored).hex()})
    for a in m["assets"]:
        segment, offset, length = a["ref"]
        if segments[segment]["codec"] == 1:
            start = want[1][segment] + offset
            need(sha256(f[start:start + length]) == a["digest"], "asset " + a["name"])
    return {"ok": True, "root": root.hex(), "model": m["model"], "keys": keys, "offsets": list(table),
            "body_size": body_size, "segments": [s["name"] for s in segments], "tensors": tensors,
            "variants": [v["name"] for v in m["variants"]],
            "methods": [[x["name"], x["inputs"], x["outputs"]] for x in m["methods"]]}


def main(paths):
    for path in paths:
        try:
            with open(path, "rb") as handle:
                answer = read(handle.read())
        except (Refused, struct.error, ValueError, KeyError, IndexError, AttributeError, TypeError) as why:
            answer = {"ok": False, "why": str(why)}
        print(json.dumps(answer, sort_keys=True, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
