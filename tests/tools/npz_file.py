"""Arrays as .npz files, so that tests need no numpy. An array is (kind, shape, values), kind "f32" or "i64"."""
import array
import io
import struct
import zipfile

KINDS = {"f32": ("<f4", "f"), "i64": ("<i8", "q")}


def npy(kind, shape, values):
    descr, code = KINDS[kind]
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (descr, "".join(f"{n}, " for n in shape))
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode() + array.array(code, values).tobytes()


def write(path, arrays):
    with zipfile.ZipFile(path, "w") as z:
        for name, (kind, shape, values) in arrays.items():
            z.writestr(name + ".npy", npy(kind, shape, values))


def read(path, names=None):
    """Name to (shape, values); `names`: of these alone."""
    result = {}
    with zipfile.ZipFile(path) as z:
        for entry in z.namelist():
            if names and entry.removesuffix(".npy") not in names:
                continue
            data = io.BytesIO(z.read(entry))
            data.seek(8)
            head = eval(data.read(struct.unpack("<H", data.read(2))[0]).decode(), {})  # noqa: what mlrun wrote
            code = next(c for d, c in KINDS.values() if d == head["descr"])
            result[entry.removesuffix(".npy")] = (head["shape"], list(array.array(code, data.read())))
    return result
