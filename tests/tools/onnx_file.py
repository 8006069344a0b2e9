"""Writes small ONNX files byte by byte, so that tests need no onnx package. Field numbers are those of onnx.proto3."""
import struct

TYPES = {"f32": 1, "u8": 2, "i8": 3, "i32": 6, "i64": 7, "str": 8, "bool": 9, "f16": 10, "f64": 11, "bf16": 16}


def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    if isinstance(value, str):
        value = value.encode()
    return varint(field << 3 | 2) + varint(len(value)) + value


def attribute(name, value):
    out = data(1, name)
    if isinstance(value, int):
        return out + number(3, value) + number(20, 2)
    if isinstance(value, float):
        return out + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, str):
        return out + data(4, value) + number(20, 3)
    if value and isinstance(value[0], float):
        return out + b"".join(varint(7 << 3 | 5) + struct.pack("<f", v) for v in value) + number(20, 6)
    if value and isinstance(value[0], str):
        return out + b"".join(data(9, v) for v in value) + number(20, 8)
    return out + b"".join(number(8, v) for v in value) + number(20, 7)


def node(op, inputs, outputs, name="", domain="", **attributes):
    out = b"".join(data(1, i) for i in inputs) + b"".join(data(2, o) for o in outputs)
    out += data(3, name) + data(4, op) + b"".join(data(5, attribute(k, v)) for k, v in attributes.items())
    return out + (data(7, domain) if domain else b"")


def port(name, dtype, shape):
    """`shape`: extents, names of free ones, or None for a port that does not say its rank."""
    tensor = number(1, TYPES[dtype])
    if shape is not None:
        tensor += data(2, b"".join(data(1, number(1, d) if isinstance(d, int) else data(2, d)) for d in shape))
    return data(1, name) + data(2, data(1, tensor))


def list_of_maps(name, keys, values):
    value = data(1, number(1, TYPES[values]) + data(2, b""))
    kind = data(5, number(1, TYPES[keys]) + data(2, value))
    return data(1, name) + data(2, data(4, data(1, kind)))


def list_of(name, dtype, rank):
    tensor = number(1, TYPES[dtype]) + data(2, data(1, b"") * rank)
    return data(1, name) + data(2, data(4, data(1, data(1, tensor))))


def tensor(name, dtype, shape, values):
    """An initializer; `values` are its bytes."""
    return b"".join(number(1, d) for d in shape) + number(2, TYPES[dtype]) + data(8, name) + data(9, values)


def model(nodes, inputs, outputs, initializers=(), opset=13, domains=()):
    graph = b"".join(data(1, n) for n in nodes) + data(2, "graph") + b"".join(data(5, i) for i in initializers)
    graph += b"".join(data(11, i) for i in inputs) + b"".join(data(12, o) for o in outputs)
    out = number(1, 8) + data(7, graph) + data(8, data(1, "") + number(2, opset))
    return out + b"".join(data(8, data(1, d) + number(2, 1)) for d in domains)
