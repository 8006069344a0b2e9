"""Cases for the small operators of com.microsoft (ops/contrib_misc.mlop). Names start with ms_x_."""
import numpy as np

NUMBERS = (np.float32, np.float64, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_)


def f32(rng, *shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def of_type(rng, kind, *shape):
    if kind is np.bool_:
        return rng.random(shape) > 0.5
    if np.issubdtype(kind, np.integer):
        return rng.integers(0 if np.iinfo(kind).min == 0 else -9, 10, shape).astype(kind)
    return rng.standard_normal(shape).astype(kind)


def movement(cases):
    def add(name, *args, **more):
        cases.add("ms_x_" + name, *args, **more)
    for axis in (0, 1, 2, -1, -3):
        add(f"expand_dims_{axis}", "ExpandDims", lambda r: [f32(r, 2, 3), np.array(axis, np.int32)], oracle_attrs={},
            expected=lambda x, at: [np.expand_dims(x, int(at))])
    for kind in NUMBERS:
        label = np.dtype(kind).name
        add(f"gather_nd_{label}", "GatherND", lambda r: [of_type(r, kind, 3, 4, 2), r.integers(0, 3, (2, 2, 2))])
        add(f"unfold_{label}", "UnfoldTensor", lambda r: [of_type(r, kind, 2, 9, 3)], {"dim": 1, "size": 4, "step": 2},
            expected=lambda x: [np.stack([x[:, k:k + 4] for k in (0, 2, 4)], 1).swapaxes(2, 3)])  # not all types have kernels there
        if kind in (np.float32, np.float64, np.int64):
            for upper in (0, 1):
                for k in (None, 0, 1, -1, 9):
                    add(f"trilu_{label}_{upper}_{k}", "Trilu", lambda r: [of_type(r, kind, 2, 4, 5)] + ([] if k is None else [np.array(k)]), {"upper": upper})
    add("gather_nd_i32", "GatherND", lambda r: [f32(r, 3, 4), r.integers(0, 3, (5, 1)).astype(np.int32)])
    add("gather_nd_negative", "GatherND", lambda r: [f32(r, 3, 4), np.array([[-1, 0], [2, -4]])])
    add("unfold_last", "UnfoldTensor", lambda r: [f32(r, 2, 7)], {"size": 7})
    add("unfold_default_step", "UnfoldTensor", lambda r: [f32(r, 2, 7)], {"size": 3, "dim": -2 + 1})
    for kind in (np.float32, np.float64, np.int64, np.int32, np.int16):
        number = lambda v: np.array(v, kind)
        label = np.dtype(kind).name
        add(f"range_{label}", "Range", [number(2), number(11), number(3)])
        add(f"range_{label}_down", "Range", [number(7), number(-2), number(-2)])
        add(f"range_{label}_default", "Range", [number(3), number(7)])
        add(f"range_{label}_none", "Range", [number(3), number(3), number(1)])
    add("range_one", "Range", [np.array([2], np.int64), np.array([11], np.int64), np.array([3], np.int64)])
    for mode in ("constant", "reflect", "edge"):
        for name, pads in (("plain", [0, 2, 1, 0]), ("flat", [[1, 1, 1, 2]])) + ((("cut", [1, -1, 0, 2]),) if mode == "constant" else ()):
            add(f"pad_{mode}_{name}", "Pad", lambda r: [f32(r, 3, 4), np.array(pads, np.int64)], {"mode": mode})
    add("pad_value", "Pad", lambda r: [f32(r, 3, 4), np.array([1, 0, 0, 1]), np.array([2.5], np.float32)])
    for name, x in (("few", [2, 1, 1, 3, 4, 3]), ("one", [5]), ("none", []), ("same", [1, 1, 1]), ("signs", [-1, 0.5, -1, 7, 0.5, -3])):
        add(f"unique_{name}", "Unique", [np.array(x, np.float32)], outputs=(True, True, True))
    add("unique_many", "Unique", lambda r: [r.integers(0, 40, 300).astype(np.float32)], outputs=(True, True, True))
    add("sample", "SampleOp", lambda r: [f32(r, 2, 3)])
    add("torch_embedding", "TorchEmbedding", lambda r: [f32(r, 5, 3), r.integers(0, 5, (2, 4))], expected=lambda w, at: [w[at]])


def numbers(cases):
    def add(name, *args, **more):
        cases.add("ms_x_" + name, *args, **more)
    for kind in (np.float32, np.float64):
        for metric in ("euclidean", "sqeuclidean"):
            add(f"cdist_{np.dtype(kind).name}_{metric}", "CDist", lambda r: [of_type(r, kind, 5, 7), of_type(r, kind, 3, 7)], {"metric": metric})
    add("cdist_default", "CDist", lambda r: [f32(r, 2, 3), f32(r, 4, 3)])
    for kind in (np.float32, np.float64):
        for shape in ((1, 1), (4, 4), (3, 5, 5), (0, 2, 2)):
            def make(r):
                x = r.standard_normal(shape) + 3 * np.eye(shape[-1])
                return [x.astype(kind)]
            add(f"inverse_{np.dtype(kind).name}_{'x'.join(map(str, shape))}", "Inverse", make)
    add("inverse_swap", "Inverse", [np.array([[0, 2], [1, 0]], np.float32)])
    for name, x, attrs in (("yes", [1, 2], {}), ("nan", [1, np.nan], {}), ("inf", [np.inf, 1], {}), ("only_nan", [np.inf, 1], {"isnan_only": 1}),
                           ("only_inf", [np.nan, 1], {"isinf_only": 1}), ("only_inf_is", [-np.inf, 1], {"isinf_only": 1})):
        x = np.array(x, np.float32)
        wrong = (np.isnan(x) & (attrs.get("isinf_only", 0) == 0)) | (np.isinf(x) & (attrs.get("isnan_only", 0) == 0))
        add(f"all_finite_{name}", "IsAllFinite", [x], attrs, expected=[np.array(not wrong.any())])
    for op, name in (("ComplexMul", "complex_mul"), ("ComplexMulConj", "complex_mul_conj")):
        def product(a, b):
            u, v = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
            w = u * (v.conj() if op == "ComplexMulConj" else v)
            return [np.stack([w.real, w.imag], -1).astype(np.float32)]
        add(name, op, lambda r: [f32(r, 3, 4, 2), f32(r, 3, 4, 2)], expected=product)
        add(name + "_wide", op, lambda r: [f32(r, 3, 4, 2), f32(r, 4, 2)], expected=product)
    for kind in (np.int8, np.uint8):
        add(f"mul_integer_{np.dtype(kind).name}", "MulInteger", lambda r: [of_type(r, kind, 3, 4), np.array(3, kind), of_type(r, kind, 4), np.array(2, kind)],
            expected=lambda a, za, b, zb: [(a.astype(np.int32) - int(za)) * (b.astype(np.int32) - int(zb))])
        for keep in (0, 1):
            add(f"sum_integer_{np.dtype(kind).name}_{keep}", "ReduceSumInteger", lambda r: [of_type(r, kind, 3, 4, 5)], {"axes": [0, -1], "keepdims": keep},
                expected=lambda x: [x.astype(np.int32).sum((0, 2), keepdims=bool(keep)).astype(np.int32)])
    for kind in (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64):
        for positive in (0, 1):
            add(f"murmur_{np.dtype(kind).name}_{positive}", "MurmurHash3", lambda r: [of_type(r, kind, 3, 4)], {"positive": positive, "seed": 7},
                outputs=(np.uint32 if positive else np.int32,))


def decoding(cases):
    def add(name, *args, **more):
        cases.add("ms_x_" + name, *args, **more)
    for size in (1, 2, 3, 9):
        add(f"ngram_repeat_{size}", "NGramRepeatBlock", lambda r: [r.integers(0, 3, (4, 7)), f32(r, 4, 5)], {"ngram_size": size})
    for shape in ((1, 1), (3, 5), (6, 2), (1, 4, 7), (9, 9)):
        add(f"time_warping_{'x'.join(map(str, shape))}", "DynamicTimeWarping", lambda r: [f32(r, *shape)])


def short_floats(cases):
    import ml_dtypes
    for kind in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
        for name, block, scale in (("blocks", 16, (6, 2)), ("row", 0, (6, 1)), ("all", 0, (1, 1)), ("shared", 16, (1, 2))):
            def inputs(r):
                return [f32(r, 6, 32).astype(getattr(ml_dtypes, kind)), np.array([[5, 0], [-2, 9]]), (r.random(scale) + 0.1).astype(np.float32)]

            def expected(data, at, scales):
                width = block or 32
                y = data.astype(np.float32) * np.repeat(np.broadcast_to(scales, (6, 32 // width if block else 1)), width, 1)
                at = np.where(at < 0, at + 6, at)
                return [np.where((at < 6)[..., None], y[np.minimum(at, 5)], 0).astype(np.float32)]
            cases.add(f"ms_x_gather_blocks_{kind}_{name}", "GatherBlockQuantized", inputs, {"block_size": block, "quantize_axis": 1}, expected=expected)


def empty(cases):
    """Arrays without elements."""
    for kind in (np.uint8, np.int8):
        label = np.dtype(kind).name
        one = [np.float32(0.1), np.array(3, kind)]
        none = np.zeros((0, 4), kind)
        for op in ("QLinearAdd", "QLinearMul"):
            cases.add(f"ms_x_none_{op.lower()}_{label}", op, [none, *one, none, *one, *one], expected=lambda *_: [none])
        cases.add(f"ms_x_none_sigmoid_{label}", "QLinearSigmoid", [none, *one, *one], expected=lambda *_: [none])
        cases.add(f"ms_x_none_leaky_{label}", "QLinearLeakyRelu", [none, *one, *one], expected=lambda *_: [none])
        cases.add(f"ms_x_none_concat_{label}", "QLinearConcat", [*one, none, *one, np.ones((2, 4), kind), *one], {"axis": 0})
        cases.add(f"ms_x_none_to_float_{label}", "MatMulIntegerToFloat", [np.zeros((0, 3), np.uint8), np.ones((3, 4), kind), np.float32(0.1), np.float32(0.2)],
                  expected=lambda *_: [np.zeros((0, 4), np.float32)])
    cases.add("ms_x_none_dynamic", "DynamicQuantizeMatMul", [np.zeros((0, 3), np.float32), np.ones((3, 4), np.int8), np.float32(0.1)], expected=lambda *_: [np.zeros((0, 4), np.float32)])
    cases.add("ms_x_none_skip_norm", "SkipLayerNormalization", [np.zeros((0, 3, 4), np.float32), np.zeros((0, 3, 4), np.float32), np.ones(4, np.float32)],
              expected=lambda *_: [np.zeros((0, 3, 4), np.float32)])
    cases.add("ms_x_none_bits", "MatMulNBits", [np.zeros((0, 32), np.float32), np.zeros((3, 2, 8), np.uint8), np.ones((3, 2), np.float32)], {"K": 32, "N": 3, "block_size": 16},
              expected=lambda *_: [np.zeros((0, 3), np.float32)])


def biases(cases):
    """ONNX Runtime's optimiser leaves a bias its leading axes of extent 1."""
    for bias in ((5,), (1, 5), (1, 1, 5)):
        rank = len(bias)
        cases.add(f"ms_x_bias_dynamic_{rank}", "DynamicQuantizeMatMul",
                  lambda r: [f32(r, 2, 3, 4), r.integers(-128, 128, (4, 5)).astype(np.int8), np.float32(0.02), np.array(0, np.int8), f32(r, *bias)])
        cases.add(f"ms_x_bias_to_float_{rank}", "MatMulIntegerToFloat",
                  lambda r: [r.integers(0, 256, (2, 3, 4)).astype(np.uint8), r.integers(-128, 128, (4, 5)).astype(np.int8), np.float32(0.02), np.float32(0.01), np.array(120, np.uint8),
                             np.array(0, np.int8), f32(r, *bias)])
    cases.add("ms_x_signed_to_float", "MatMulIntegerToFloat",
              lambda r: [r.integers(-128, 128, (2, 3, 4)).astype(np.int8), r.integers(-128, 128, (4, 5)).astype(np.int8), np.float32(0.02), np.float32(0.01), np.array(7, np.int8), np.array(-3, np.int8)])


def collect(cases):
    short_floats(cases)
    empty(cases)
    biases(cases)
    movement(cases)
    numbers(cases)
    decoding(cases)
