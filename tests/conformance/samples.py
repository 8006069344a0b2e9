"""Inputs and attributes from which old_versions.py makes node tests: one sample per way to call an operator.

Inputs of float64 are written as reals and take the element type that is being tested; others stand as they are.
"""
import dataclasses
import typing

import numpy as np

rng = np.random.default_rng(20)
_table: dict = {}


@dataclasses.dataclass
class Sample:
    inputs: list
    attributes: typing.Any = dataclasses.field(default_factory=dict)   # or a function of the types chosen
    outputs: tuple = (1,)                # is each output wanted
    first: int = 7                       # opsets that the sample fits
    last: int = 99
    types: dict = dataclasses.field(default_factory=dict)    # type variable: the types to try
    same: dict = dataclasses.field(default_factory=dict)     # type variable: the one whose type it follows
    oracle: typing.Any = ""              # runtime, reference, or a function of inputs and attributes
    constants: tuple = ()                # inputs that are weights
    exact: bool = False                  # compare narrow types exactly


def of(op):
    return _table.get(op, [])


def add(ops, *inputs, outputs=(1,), first=7, last=99, types=None, same=None, oracle="", constants=(), exact=False, **attributes):
    for op in ops.split():
        _table.setdefault(op, []).append(Sample([a if a is None or callable(a) else np.asarray(a) for a in inputs], attributes, outputs, first, last,
                                                types or {}, same or {}, oracle, constants, exact))


def real(*shape, low=-2.0, high=2.0):
    """Multiples of 1/4, which every floating type holds."""
    return np.rint(rng.uniform(low, high, shape) * 4) / 4


later = np.random.default_rng(21)  # of samples that came later: the values of the older ones stay


def more(*shape):
    return np.rint(later.uniform(-2.0, 2.0, shape) * 4) / 4


def i64(*values):
    return np.array(values, np.int64)


# --- one operand
X = np.array([[-1.75, -1, -0.5, 0], [0.25, 0.75, 1, 1.5]])
add("Abs Neg Ceil Floor Round Sign Relu Exp Erf Sin Cos Tan Atan Sinh Cosh Tanh Asinh Sigmoid Softplus Softsign Mish Gelu HardSwish "
    "LeakyRelu Elu Celu Selu HardSigmoid ThresholdedRelu Shrink Identity IsNaN IsInf Swish", X)
add("Sqrt Log Reciprocal", np.abs(X) + 0.25)
add("Acos Asin Atanh", X / 2)
add("Acosh", np.abs(X) + 1)
add("Not", np.array([True, False]))
add("BitwiseNot", X)
add("LeakyRelu Elu Celu ThresholdedRelu", X, alpha=0.75)
add("Selu", X, alpha=1.5, gamma=0.5)
add("HardSigmoid", X, alpha=0.5, beta=0.25)
add("Swish", X, alpha=0.5)
add("Shrink", X * 2, lambd=1.0, bias=0.5)
add("Gelu", X, approximate="tanh")
add("IsInf", np.array([np.inf, -np.inf, 1, 0]), detect_negative=0, types={"T1": ["float", "double", "float16", "bfloat16"]})
add("IsNaN", np.array([np.nan, np.inf, 1, 0]), types={"T1": ["float", "double", "float16", "bfloat16"]})
add("Clip", X, last=10, min=-0.5, max=0.75)
add("Clip", X, last=10, max=0.75)
add("Clip", X, np.float64(-0.5), np.float64(0.75), first=11)
add("Clip", X, None, np.float64(1), first=11)
for o in "Not BitwiseNot Identity".split():
    add(o, np.zeros((0, 2)) if o != "Not" else np.zeros((0, 2), bool))

# --- two operands
A, B = np.array([[1.0, -2, 1.5], [0.5, 1, -1]]), np.array([1.0, 2, -0.5])
add("Add Sub Mul", A, B)
add("Add Sub Mul Div", A, np.float64(2))
add("Max Min Sum Mean", A, np.float64(2), first=8)
add("Div", A, np.array([[1.0], [2]]))
add("Max Min Sum Mean", A, B, np.array([[0.5], [1.0]]), first=8)
add("Max Min Sum Mean", A, A[::-1].copy(), last=7)
add("Max Min Sum Mean", A)
add("Pow", np.abs(A) + 0.5, np.array([1.0, 2, 0.5]), last=11)
add("Pow", np.array([1.0, 2, 1.5]), np.array([1.0, 2, 1]), first=12)
add("Mod", np.array([4, -4, 5, -5], np.float64), np.array([2, 3, -3, 2], np.float64), fmod=1)
add("Mod", np.array([4, -4, 5, -5], np.float64), np.array([2, 3, -3, 2], np.float64),
    types={"T": [f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)]})
add("Equal Less Greater LessOrEqual GreaterOrEqual", A, np.array([1.0, 1, -1]))
add("And Or Xor", np.array([[True], [False]]), np.array([True, False, True]))
add("BitwiseAnd BitwiseOr BitwiseXor", A * 3, B * 2)
add("BitShift", np.abs(A) * 2, np.array([1.0, 0.5, 0]), direction="LEFT")
add("BitShift", np.abs(A) * 4, np.array([1.0, 0.5, 0]), direction="RIGHT")
add("Mod", np.array([4, -4, 5, -5, 0.5, 3e4, 0, 0, 3, -3, np.inf, 1]), np.array([2, 3, -3, 2, -1.5, 0.75, -2, 2, -np.inf, np.inf, 2, 0]), first=28,
    types={"T": ["float", "double", "float16"]}, oracle="reference", exact=True)
add("BitShift", A * 8, np.array([1.0, 0.5, 2]), first=28, direction="RIGHT", types={"T": [f"int{n}" for n in (8, 16, 32, 64)]}, oracle="reference")
add("BitShift", A * 8, np.array([-1.0, 40, 4]), first=28, direction="RIGHT", types={"T": [f"int{n}" for n in (8, 16, 32, 64)]}, oracle="reference")
add("BitShift", A * 40, np.array([1.0, 3, -1]), first=28, direction="LEFT", types={"T": [f"int{n}" for n in (8, 16, 32, 64)]}, oracle="reference")
add("SwiGLU", A, A[::-1].copy())
add("SwiGLU", A, A[::-1].copy(), alpha=1.5)
add("Where", np.array([[True], [False]]), A, B)
add("PRelu", A, B)

# --- conversions
CASTS = "float double float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool float8e4m3fn float8e5m2 float8e4m3fnuz float8e5m2fnuz int4 uint4".split()


def numbered(t):
    from onnx import TensorProto
    return getattr(TensorProto, t.upper())


_table["Cast"] = [Sample([np.array([0.0, 1, 2, 3])], lambda c: {"to": numbered(c["T2"])}, exact=True),
                  Sample([np.array([-1.5, 1.25, 2.75, -3])], lambda c: {"to": numbered(c["T2"])}, exact=True,
                         types={"T1": ["float", "double", "float16"], "T2": [t for t in CASTS if not t.startswith("u")]})]
# Of the same width; the second one first to a float, where there is one.
WIDTHS = ["double int64 uint64", "float int32 uint32", "float16 bfloat16 int16 uint16",
          "float8e4m3fn float8e5m2 float8e4m3fnuz float8e5m2fnuz float8e8m0 int8 uint8", "float6e2m3 float6e3m2", "float4e2m1 int4 uint4", "int2 uint2"]


def of_same_width(t, step):
    if t == "bool":
        return "uint8"
    types = next(w.split() for w in WIDTHS if t in w.split())
    return types[(types.index(t) + step) % len(types)]


def bits_as(x, to):
    from onnx import helper
    return x.view(helper.tensor_dtype_to_np_dtype(to))


for step in (1, 2, 5):
    add("BitCast", np.array([-1.5, 1.25, 2.75, 0, -3]), types={"T2": ["float"]}, oracle=bits_as, exact=True)
    _table["BitCast"][-1].attributes = lambda c, step=step: {"to": numbered(of_same_width(c["T1"], step))}
add("CastLike", np.array([0.0, 1, 2, 3]), np.array([1.0]), exact=True)

# --- movement
M = real(2, 3, 4)
add("Shape Size", M)
add("Shape", M, first=15, start=1, end=-1)
add("Shape", M, first=15, start=-2)
add("Reshape", M, i64(4, -1), exact=True)
add("Reshape", M, i64(0, 2, -1, 1), exact=True)
add("Reshape", np.zeros((0, 3)), i64(3, 0), first=14, allowzero=1)
add("Concat", M, M[:, :1].copy(), axis=1, exact=True)
add("Concat", M, M[:, :, :2].copy(), M, axis=-1, first=11, exact=True)
add("Transpose", M, exact=True)
add("Transpose", M, perm=[1, 0, 2], exact=True)
add("Flatten", M, exact=True)
add("Flatten", M, axis=2, exact=True)
add("Flatten", M, axis=-1, first=11, exact=True)
add("Flatten", M, axis=0, exact=True)
add("Squeeze", real(1, 3, 1, 2), exact=True)
add("Squeeze", real(1, 3, 1, 2), last=12, axes=[2], exact=True)
add("Squeeze", real(1, 3, 1, 2), first=11, last=12, axes=[-2, 0], exact=True)
add("Squeeze", real(1, 3, 1, 2), i64(-2), first=13, exact=True)
add("Squeeze", more(1, 3, 1, 2), i64(2, 0), first=13, exact=True)
add("Squeeze", more(1, 0, 1, 2), i64(-4), first=13, exact=True)
add("Unsqueeze", M, last=12, axes=[0, 3], exact=True)
add("Unsqueeze", M, first=11, last=12, axes=[-1], exact=True)
add("Unsqueeze", M, i64(-1, 1), first=13, exact=True)
add("Unsqueeze", M, i64(3, 0, -2), first=13, exact=True)
add("Unsqueeze", np.float64(2), i64(0), first=13, exact=True)
add("Expand", real(3, 1), i64(2, 1, 4), exact=True)
add("Expand", more(3, 1), i64(3, 1), exact=True)
add("Tile", M, i64(2, 1, 2), exact=True)
add("Split", real(6, 2), outputs=(1, 1, 1), last=17, exact=True)
add("Split", real(6, 2), outputs=(1, 1), last=12, split=[2, 4], exact=True)
add("Split", real(2, 6), outputs=(1, 1), last=12, first=11, split=[2, 4], axis=-1, exact=True)
add("Split", real(6, 2), i64(2, 4), outputs=(1, 1), first=13, exact=True)
add("Split", real(7, 2), outputs=(1, 1, 1), first=18, num_outputs=3, exact=True)
add("Slice", real(4, 5), last=9, starts=[1, -3], ends=[1000, -1], exact=True)
add("Slice", real(4, 5), last=9, starts=[1], ends=[4], axes=[1], exact=True)
add("Slice", real(4, 5), i64(1, -3), i64(1000, -1), first=10, exact=True)
add("Slice", real(4, 5), i64(-1), i64(-1000), i64(1), i64(-2), first=11, exact=True)
add("Slice", real(4, 5), i64(3), i64(0), i64(1), i64(2), first=10, exact=True)
add("Slice", more(4, 5, 3), i64(2, -1), i64(-5, 0), i64(-1, 0), i64(-1, -2), first=11, exact=True)
add("Slice", more(4, 5), i64(7, 1), i64(9, -1), i64(1, 0), first=10, exact=True)
for mode in ("constant", "reflect", "edge"):
    add("Pad", real(3, 4), last=10, mode=mode, pads=[1, 0, 1, 2], exact=True)
    add("Pad", real(3, 4), i64(1, 0, 1, 2), first=11, mode=mode, exact=True)
add("Pad", real(3, 4), last=10, pads=[1, 0, -1, 2], value=1.5, exact=True)
add("Pad", real(3, 4), i64(1, 0, 1, 2), np.float64(1.5), first=11, exact=True)
add("Pad", real(3, 4), i64(2, 1), None, i64(-1), first=18, mode="reflect", exact=True)
add("Pad", more(3, 4, 2), i64(1, -1, 0, 2), None, i64(-1, 0), first=18, exact=True)
add("Pad", more(3, 4, 2), i64(1, 2, 0, 1), np.float64(0.5), i64(2, 1), first=18, mode="edge", exact=True)
add("Pad", real(3, 4), i64(2, 5), None, i64(1), first=19, mode="wrap", exact=True)
add("DepthToSpace", real(1, 8, 2, 3), blocksize=2, exact=True)
add("DepthToSpace", real(1, 8, 2, 3), blocksize=2, mode="CRD", first=11, exact=True)
add("SpaceToDepth", real(1, 2, 4, 6), blocksize=2, exact=True)
add("SpaceToDepth", more(1, 2, 4, 6), blocksize=2, mode="CRD", first=28, exact=True)
add("EyeLike", real(3, 4), exact=True)
_table["EyeLike"].append(Sample([real(3, 4)], lambda c: {"k": 1, "dtype": numbered(c["T2"])}, exact=True, types={"T1": ["float"]}))
add("Range", np.float64(1), np.float64(6), np.float64(2))
add("Range", np.float64(6), np.float64(1), np.float64(-2), types={"T": ["float", "double", "int16", "int32", "int64"]})
add("Range", np.float64(2), np.float64(1), np.float64(2))
add("Range", np.float64(2040), np.float64(2060), np.float64(1), first=27, types={"T": ["float16"]}, oracle="reference", exact=True)
add("Range", np.float64(248), np.float64(264), np.float64(1), first=27, types={"T": ["bfloat16"]}, oracle="reference", exact=True)
add("Range", np.float64(0), np.float64(8), np.float64(0.75), first=27, stash_type=11, types={"T": ["float16", "bfloat16"]}, oracle="reference", exact=True)
add("Trilu", more(3, 4), i64(-2).reshape(()), exact=True)
add("Trilu", more(3, 4), i64(7).reshape(()), exact=True)
add("Trilu", real(3, 4), exact=True)
add("Trilu", real(2, 3, 3), i64(1).reshape(()), upper=0, exact=True)
add("OneHot", np.array([0.0, 1.0, 1.0]), np.float64(2), np.array([0.5, 1.0]), types={"T2": ["int64", "int32", "float"]}, exact=True)
add("OneHot", np.array([[0, 1], [-1, 2]], np.float64) / 2, np.float64(2.5), np.array([0.5, 1.0]), first=11, axis=0,
    types={"T1": ["int64", "int32"], "T2": ["int64"]}, exact=True)
add("ReverseSequence", real(4, 3, 2), i64(1, 4, 2), exact=True)
add("ReverseSequence", real(3, 4, 2), i64(1, 4, 2), batch_axis=0, time_axis=1, exact=True)
add("CenterCropPad", real(5, 3, 2), i64(3, 6), axes=[0, 1], exact=True)
add("CenterCropPad", more(5, 3, 2), i64(4), axes=[-2], exact=True)
add("Constant", outputs=(1,), value_float=1.5, first=12, types={"T": ["float"]})
add("Constant", outputs=(1,), value_ints=[1, 2, 3], first=12, types={"T": ["int64"]})
_table["Constant"].append(Sample([], lambda c: {"value": __import__("onnx").numpy_helper.from_array(__import__("old_versions").cast(real(2, 3), c["T"]))}, exact=True))
add("ConstantOfShape", i64(2, 3), types={"T2": ["float"]})
_table["ConstantOfShape"].append(Sample([i64(2, 3)], lambda c: {"value": __import__("onnx").numpy_helper.from_array(__import__("old_versions").cast(np.array([1.5]), c["T2"]))}, exact=True))
add("HannWindow HammingWindow BlackmanWindow", np.float64(5), types={"T2": ["float"]})
for o in ("HannWindow", "HammingWindow", "BlackmanWindow"):
    _table[o].append(Sample([np.float64(5)], lambda c: {"periodic": 0, "output_datatype": numbered(c["T2"])}))
add("Col2Im", real(1, 8, 4), i64(4, 4), i64(2, 2), strides=[2, 2])
add("Col2Im", real(1, 8, 9), i64(4, 4), i64(2, 2))

# --- places that are data
add("Gather", M, i64(1, 0), axis=1, exact=True)
add("Gather", M, i64(-1), axis=-1, first=11, exact=True)
add("GatherElements", real(3, 3), i64(1, 2, 0, 2, 0, -1).reshape(2, 3), exact=True)
add("GatherND", M, i64(0, 1, 1, -1).reshape(2, 2), exact=True)
add("GatherND", M, i64(0, 2).reshape(2, 1), batch_dims=1, first=12, exact=True)
for last_of, o in ((10, "Scatter"), (99, "ScatterElements")):
    add(o, real(3, 3), i64(1, 0, 2, 0, 2, 1).reshape(2, 3), real(2, 3), last=last_of, exact=True)
    add(o, real(1, 5), i64(1, 3).reshape(1, 2), real(1, 2), axis=1, last=last_of, exact=True)
for r, since in (("add", 16), ("mul", 16), ("max", 18), ("min", 18)):
    add("ScatterElements", real(1, 5), i64(1, 1).reshape(1, 2), real(1, 2), axis=1, reduction=r, first=since)
    add("ScatterND", real(4, 2), i64(1, 1, 3).reshape(3, 1), real(3, 2), reduction=r, first=since)
add("ScatterND", real(4, 2), i64(1, 3).reshape(2, 1), real(2, 2), exact=True)
add("CumSum", real(2, 4), np.array(1, np.int32))
add("CumSum", real(2, 4), np.array(-2, np.int64), exclusive=1, reverse=1)
add("CumSum", more(2, 3, 2), np.array(0, np.int64), reverse=1)
add("CumSum", more(2, 3, 2), np.array([-1], np.int32), exclusive=1)
add("CumSum", np.zeros((2, 0, 3)), np.array(1, np.int32))
add("CumProd", more(2, 4), np.array(1, np.int32))
add("CumProd", more(2, 4), np.array(-2, np.int64), exclusive=1, reverse=1)
add("CumProd", more(2, 3, 2), np.array(0, np.int64), reverse=1)
add("CumProd", np.zeros((2, 0, 3)), np.array(1, np.int32))
T = np.array([[3, 1, 2, -1, 0], [0.5, 2.5, -0.5, 1, 3]]) / 2
add("TopK", T, outputs=(1, 1), last=9, k=2)
add("TopK", T, i64(2), outputs=(1, 1), first=10)
add("TopK", T, i64(2), outputs=(1, 1), first=11, largest=0, axis=-1)
add("TopK", T, i64(1), outputs=(1, 1), first=11, axis=0)
add("NonZero", np.array([[0, 1, 0], [1, 0, 2]], np.float64))
add("Compress", real(3, 2), np.array([False, True, True]), axis=0, exact=True)
add("Compress", real(3, 2), np.array([False, True, True, False]), exact=True)
add("Compress", real(3, 2), np.array([True, False]), axis=-1, first=11, exact=True)
add("Unique", np.array([2, 1, 1, 3, 4, 3, -1]) / 2, outputs=(1, 1, 1, 1))
add("Unique", np.array([2, 1, 1, 3, 4, 3, -1]) / 2, outputs=(1, 1, 1, 1), sorted=0, oracle="runtime")
add("Unique", np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]]) / 2, outputs=(1, 1, 1, 1), axis=0)
add("Unique", np.array([[1, 0, 0, 1], [1, 0, 0, 1], [2, 3, 3, 2]]) / 2, outputs=(1, 0, 1), axis=1, oracle="runtime", sorted=0)
BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]], np.float32)
SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.3, 0.75, 0.6, 0.95, 0.5, 0.9]]], np.float32)
add("NonMaxSuppression", BOXES, SCORES, i64(3), np.array([0.5], np.float32), np.array([0.4], np.float32))
add("NonMaxSuppression", BOXES, SCORES, i64(2), np.array([0.5], np.float32), center_point_box=1)
add("NonMaxSuppression", BOXES, SCORES)
NUMBERS = {"T": ["int32", "int64"]}  # with a pool of numbers
add("TfIdfVectorizer", np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.float64) / 2, mode="TFIDF", min_gram_length=1, max_gram_length=2, max_skip_count=1,
    ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 4, 5, 6], pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7], weights=[1.0, 2, 3, 4, 5, 6, 7], types=NUMBERS)
add("TfIdfVectorizer", np.array([1, 1, 3, 3, 3, 7], np.float64) / 2, mode="IDF", min_gram_length=1, max_gram_length=2, max_skip_count=3,
    ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 4, 5, 6], pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7], weights=[1.0, 2, 3, 4, 5, 6, 7], types=NUMBERS)
add("TensorScatter", real(2, 3, 4), real(2, 2, 4), i64(1, 0), exact=True)
add("TensorScatter", real(2, 3, 4), real(2, 2, 4), i64(2, 1), mode="circular", exact=True)

# --- folds
R = np.array([[[1, 2], [3, 1]], [[0.5, 1], [1.5, 2]], [[1, 1], [2, 0.5]]])
FOLDS = "ReduceMax ReduceMean ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare"
add(FOLDS + " ReduceSum", R)
add(FOLDS, R, last=17, axes=[1], keepdims=0)
add(FOLDS, R, first=11, last=17, axes=[-1, 0])
add(FOLDS, R, i64(1), first=18, keepdims=0)
add(FOLDS, R, i64(-1, 0), first=18, keepdims=1)
add(FOLDS, R, first=18, noop_with_empty_axes=1, types={"T": ["float", "double", "float16", "bfloat16"]})
for since, ops in ((18, FOLDS), (13, "ReduceSum")):
    add(ops, R, i64(2, 0), first=since, keepdims=0)
    add(ops, R, i64(1, -1, 0), first=since, keepdims=0)
    add(ops, R, i64(-3), first=since)
    add(ops, R, i64(2), first=since, keepdims=0, noop_with_empty_axes=1)
add("ReduceSum ReduceProd ReduceSumSquare ReduceL1", np.zeros((2, 0, 3)), i64(1), first=18, keepdims=0)
add("ReduceSum ReduceProd ReduceSumSquare ReduceL1", np.zeros((2, 0, 3)), i64(-1), first=18, oracle="reference")  # ONNX Runtime keeps the shape
add("ReduceSum", R, last=12, axes=[1], keepdims=0)
add("ReduceSum", R, i64(1), first=13, keepdims=0)
add("ReduceSum", R, first=13, noop_with_empty_axes=1)
G = np.array([[2, 1, 2], [0, 3, 3]]) / 2
add("ArgMax ArgMin", G)
add("ArgMax ArgMin", G, axis=1, keepdims=0)
add("ArgMax ArgMin", G, axis=-1, first=11)
add("ArgMax ArgMin", G, axis=1, select_last_index=1, first=12)

# --- sums of products
add("MatMul", real(2, 3, 4), real(4, 2))
add("MatMul", real(4), real(4, 2))
add("MatMul", real(2, 4), real(4))
add("MatMul", real(4), real(4))
add("Gemm", real(2, 3), real(3, 4), real(4))
add("Gemm", real(3, 2), real(4, 3), real(2, 1), transA=1, transB=1, alpha=0.5, beta=2.0, types={"T": ["float", "double", "float16", "bfloat16"]})
add("Gemm", real(2, 3), real(3, 4), first=11)
add("Conv", real(1, 2, 5, 6), real(3, 2, 3, 3), real(3))
add("Conv", real(1, 4, 7), real(4, 2, 3), group=2, strides=[2], pads=[1, 2], dilations=[2])
add("Conv", real(1, 2, 5, 6), real(3, 2, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2])
add("Conv", real(1, 2, 5, 6), real(3, 2, 2, 2), auto_pad="SAME_LOWER")
add("Conv", real(1, 1, 3, 4, 4), real(1, 1, 2, 2, 2), auto_pad="VALID")
add("ConvTranspose", real(1, 2, 3, 4), real(2, 3, 3, 3), real(3))
add("ConvTranspose", real(1, 2, 3, 4), real(2, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 0])
add("ConvTranspose", real(1, 4, 5), real(4, 2, 3), group=2, strides=[2], dilations=[2])
add("ConvTranspose", real(1, 1, 3, 3), real(1, 2, 3, 3), strides=[3, 2], output_shape=[10, 8])
add("ConvTranspose", real(1, 1, 3, 3), real(1, 2, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER", oracle="reference")
add("ConvTranspose", real(1, 1, 3, 3), real(1, 2, 3, 3), strides=[2, 2], auto_pad="SAME_LOWER", first=11, oracle="reference")
add("DeformConv", real(1, 2, 4, 4), real(2, 2, 2, 2), real(1, 8, 3, 3) / 4, real(2), real(1, 4, 3, 3), types={"T": ["float", "double", "float16"]})
add("Det", np.array([[[1.0, 2], [3, 4]], [[0, 1], [1, 0.5]]]))

# --- windows
P = real(1, 2, 5, 6)
for o in ("MaxPool", "AveragePool"):
    add(o, P, kernel_shape=[2, 3])
    add(o, P, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 1, 2])
    add(o, P, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    add(o, P, kernel_shape=[2, 2], auto_pad="SAME_LOWER")
    add(o, P, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, first=10)
    add(o, P, kernel_shape=[2, 2], dilations=[2, 2], first=10 if o == "MaxPool" else 19)
    add(o, real(1, 1, 7), kernel_shape=[3], strides=[2], pads=[1, 1])
add("MaxPool", P, kernel_shape=[2, 2], strides=[2, 2], outputs=(1, 1), first=8)
add("MaxPool", P, kernel_shape=[2, 2], strides=[2, 2], outputs=(1, 1), first=8, storage_order=1)
add("AveragePool", P, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
add("AveragePool", P, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[3, 3], count_include_pad=1, ceil_mode=1, first=11)
add("LpPool", P, kernel_shape=[2, 2])
add("LpPool", np.abs(P), kernel_shape=[2, 2], strides=[2, 2], p=3, pads=[1, 0, 1, 0])
add("LpPool", P, kernel_shape=[2, 2], first=18, ceil_mode=1, dilations=[2, 2], strides=[2, 2], types={"T": ["float"]}, oracle="runtime")
add("GlobalAveragePool GlobalMaxPool GlobalLpPool", P)
add("GlobalLpPool", P, p=1)
add("MaxUnpool", np.array([[[[1.0, 2], [3, 4]]]]) / 2, i64(5, 7, 13, 15).reshape(1, 1, 2, 2), kernel_shape=[2, 2], strides=[2, 2])
add("MaxUnpool", np.array([[[[1.0, 2], [3, 4]]]]) / 2, i64(5, 7, 13, 15).reshape(1, 1, 2, 2), i64(1, 1, 5, 5), kernel_shape=[2, 2], strides=[2, 2], oracle="reference")
ROIS = np.array([[0, 0, 9, 9], [1.25, 2.25, 7.75, 5.5], [-3, 4, 4, 14], [5, 5, 2, 2]], np.float64)
for kw in ({}, {"mode": "max"}, {"sampling_ratio": 2}):
    add("RoiAlign", real(2, 2, 10, 12), ROIS, i64(0, 1, 1, 0), output_height=3, output_width=4, spatial_scale=0.75, **kw)
    add("RoiAlign", real(2, 2, 10, 12), ROIS, i64(0, 1, 1, 0), output_height=3, output_width=4, first=16,
        coordinate_transformation_mode="output_half_pixel", **kw)
add("MaxRoiPool", real(2, 2, 10, 12), np.concatenate([np.array([[0], [1], [1], [0.0]]), ROIS], 1), pooled_shape=[3, 4], spatial_scale=0.75)

# --- normalisation
N = real(2, 3, 4)
C = (np.array([1, 0.5, 2]), np.array([0, 1, -0.5]), np.array([0.25, 0, -0.25]), np.array([1, 2, 0.5]))
add("BatchNormalization", N, *C)
add("BatchNormalization", N, *C, last=8, spatial=1, epsilon=0.01)
add("BatchNormalization", N, *C, first=14, outputs=(1, 1, 1), training_mode=1, momentum=0.75, types={"T": ["float"], "T1": ["float"], "T2": ["float"], "U": ["float"]}, oracle="reference")
add("InstanceNormalization", N, C[0], C[1])
add("LayerNormalization", N, real(4), real(4), outputs=(1, 1, 1), types={"T": ["float"], "U": ["float"]}, oracle="reference")
add("LayerNormalization", N, real(3, 4), axis=1)
add("RMSNormalization", N, real(4), same={"V": "T"})
add("GroupNormalization", real(2, 4, 3), real(4), real(4), num_groups=2, first=21)
for o in ("Softmax", "LogSoftmax", "Hardmax"):
    for kw in ({}, {"axis": 1}):
        add(o, N, last=12, oracle="runtime", **kw)       # the reference knows the meaning of opset 13 only
        add(o, N, first=13, **kw)
    add(o, N, axis=-2, first=11, last=12, oracle="runtime")
    add(o, N, axis=-2, first=13)
add("Softmax LogSoftmax", N, axis=0)
add("LpNormalization", N)
add("LpNormalization", N, axis=1, p=1)
add("LpNormalization", np.array([[0.0, 0], [3, 4]]), axis=1, oracle="reference")
add("LpNormalization", np.array([[0.0, 1], [0, 3]]), axis=0, p=1, oracle="reference")
add("LRN", real(1, 6, 3, 1), size=3, alpha=0.5, beta=0.75, bias=1.5, oracle="runtime")  # the reference takes one channel more
add("MeanVarianceNormalization", real(2, 3, 2, 2))
add("MeanVarianceNormalization", real(2, 3, 2, 2), axes=[0, 2])
add("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", real(3, 4), np.array([1, 3, 0]))
add("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", real(3, 4), np.array([1, 3, 0]), np.array([1, 0.5, 2, 1]), reduction="sum", ignore_index=3)
add("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", real(2, 4, 2), np.array([[1, 3], [0, 2]]), reduction="none")
add("SoftmaxCrossEntropyLoss", real(3, 4), np.array([1, 3, 0]), outputs=(1, 1))

# --- resampling
Q = real(1, 1, 3, 4)
S = np.array([1, 1, 2, 1.5], np.float32)
for mode in ("nearest", "linear"):
    add("Upsample", Q, last=8, mode=mode, scales=[1.0, 1.0, 2.0, 1.5])
    add("Upsample", Q, S, first=9, last=9, mode=mode)
    add("Resize", Q, S, first=10, last=10, mode=mode)
    add("Resize", Q, np.array([1, 1, 0.6, 0.5], np.float32), first=10, last=10, mode=mode)
NONE = np.zeros(0, np.float32)
F = {"T1": ["float", "double", "float16", "int8", "uint8", "int32"], "T2": ["float"]}
for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
    for mode in ("nearest", "linear", "cubic"):
        add("Resize", Q, NONE, S, first=11, mode=mode, coordinate_transformation_mode=coordinates, types=F if mode == "nearest" else {"T1": ["float"], "T2": ["float"]})
        add("Resize", Q, NONE, NONE, i64(1, 1, 5, 3), first=11, mode=mode, coordinate_transformation_mode=coordinates, types={"T1": ["float"], "T2": ["float"]})
for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
    add("Resize", Q, NONE, S, first=11, nearest_mode=nearest, coordinate_transformation_mode="asymmetric", types={"T1": ["float"], "T2": ["float"]})
add("Resize", Q, np.array([0, 0, 0.25, 0.25, 1, 1, 0.75, 1.25]), NONE, i64(1, 1, 4, 4), first=11, mode="linear", extrapolation_value=7.0,
    coordinate_transformation_mode="tf_crop_and_resize", types={"T1": ["float"]}, oracle="reference")
add("Resize", Q, NONE, S, first=11, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1, types={"T1": ["float"], "T2": ["float"]})
add("Resize", Q, NONE, NONE, i64(6, 5), first=18, mode="linear", axes=[2, 3], keep_aspect_ratio_policy="not_larger", types={"T1": ["float"], "T2": ["float"]})
add("Resize", Q, NONE, np.array([0.6, 0.5], np.float32), first=18, mode="linear", axes=[2, 3], antialias=1, types={"T1": ["float"], "T2": ["float"]})
add("Resize", Q, NONE, NONE, i64(6, 5), first=18, mode="cubic", axes=[2, 3], keep_aspect_ratio_policy="not_smaller", types={"T1": ["float"], "T2": ["float"]})
add("Resize", Q, NONE, NONE, i64(7), first=18, axes=[-1], types={"T1": ["float"], "T2": ["float"]})
add("Resize", Q, NONE, NONE, i64(2, 3), first=18, mode="linear", axes=[2, 3], antialias=1, types={"T1": ["float"], "T2": ["float"]})
GRID = real(1, 2, 3, 2, low=-1.2, high=1.2)
GRID[0, 1, 0] = 1.0625, -1.0625  # so near behind the border that taps of a cubic lie on both sides of it
for modes, since, until in ((("bilinear", "nearest", "bicubic"), 16, 19), (("linear", "nearest", "cubic"), 20, 99)):
    for mode in modes:
        for padding in ("zeros", "border", "reflection"):
            add("GridSample", real(1, 2, 4, 5), GRID, first=since, last=until, mode=mode, padding_mode=padding,
                types=None if padding == "zeros" and mode == "nearest" else {"T1": ["float"], "T2": ["float"]})
add("GridSample", real(1, 1, 3, 3, 3), real(1, 2, 2, 2, 3, low=-1, high=1), first=20, mode="linear", align_corners=1, types={"T1": ["float", "double", "float16"]})
add("AffineGrid", real(1, 2, 3), i64(1, 1, 3, 4))
add("AffineGrid", real(1, 3, 4), i64(1, 1, 2, 3, 4), align_corners=1)

# --- quantisation
SC, XQ = np.float64(0.5), np.array([[-1.75, -1, -0.5, 0], [0.25, 0.75, 1, 1.5]])
add("QuantizeLinear", XQ, np.float32(0.25), np.float64(1.5), types={"T1": ["float"], "T2": ["float"]}, exact=True, last=22)
add("QuantizeLinear", XQ, np.float32(0.25), exact=True, last=22)
add("QuantizeLinear", XQ, np.array([0.25, 0.5], np.float32), np.array([1.5, 1]), first=13, axis=0, types={"T1": ["float"]}, exact=True, last=22)
add("QuantizeLinear", XQ, np.array([[0.25, 0.5], [0.5, 1]], np.float32), np.array([[1.5, 1], [0.5, 0]]), first=21, axis=1, block_size=2, types={"T1": ["float"]}, exact=True, last=22)
add("QuantizeLinear", XQ, SC, np.float64(0), first=23, types={"T1": ["float", "float16"]}, same={"T2": "T1"}, exact=True)
add("QuantizeLinear", XQ, np.array([[0.25, 0.5], [0.5, 1]]), np.array([[0, 0], [0, 0]], np.float64), first=21, axis=1, block_size=2, types={"T1": ["float"], "T2": ["float"]}, exact=True)
add("QuantizeLinear", XQ, SC, first=21, output_dtype=3, types={"T1": ["float", "float16"]}, same={"T2": "T1"}, exact=True)
for kw in ({"last": 22}, {"first": 23, "same": {"T3": "T2"}}):
    at = max(kw.get("first", 0), 10)
    for since, inputs, attributes in (
            (10, (np.array([0.0, 1, 2, 3]), np.float64(0.5), np.float64(1)), {}), (10, (np.array([0.0, 1, 2, 3]), np.float64(0.5)), {}),
            (13, (np.array([[0.0, 1], [2, 3]]), np.array([0.5, 2]), np.array([0.5, 1])), {"axis": 0}),
            (21, (np.array([[0.0, 1, 2, 3]]), np.array([[0.5, 2]]), np.array([[0.5, 1]])), {"axis": 1, "block_size": 2})):
        add("DequantizeLinear", *inputs, **{**kw, "first": max(at, since)}, **attributes)
_table["DequantizeLinear"].append(Sample([np.array([0.0, 1, 2, 3]), np.float64(0.5)], lambda c: {"output_dtype": numbered(c["T3"])}, first=23, exact=True,
                                         types={"T1": ["uint8"], "T2": ["float", "float16"]}))
add("DynamicQuantizeLinear", np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32), outputs=(1, 1, 1))
add("MatMulInteger", real(2, 3), real(3, 4), np.float64(1), np.float64(2))
add("MatMulInteger", real(2, 3), real(3, 4))
_QMM = (real(2, 3), np.array([0.25]), np.array([1.0]), real(3, 4), np.array([0.5]), np.array([0.5]), np.array([0.125]), np.array([1.0]))
add("QLinearMatMul", *_QMM, exact=True, types={f"T{k}": ["int8", "uint8"] for k in (1, 2, 3)})
# the reference makes integers of 8-bit floats before it multiplies
add("QLinearMatMul", *_QMM, exact=True, first=21, types={f"T{k}": [t for t in CASTS if t.startswith("float8")] for k in (1, 2, 3)}, same={"T2": "T1", "T3": "T1"},
    oracle=lambda a, sa, za, b, sb, zb, sy, zy: (np.matmul(a.astype(np.float32) - za.astype(np.float32), b.astype(np.float32) - zb.astype(np.float32))
                                                 * (sa.astype(np.float32)*sb.astype(np.float32)/sy.astype(np.float32)) + zy.astype(np.float32)).astype(zy.dtype))
add("ConvInteger", real(1, 2, 4, 4), real(2, 2, 2, 2), np.float64(1))
add("QLinearConv", real(1, 2, 4, 4), np.float32(0.25), np.float64(1), real(2, 2, 2, 2), np.array([0.5, 0.25], np.float32), np.array([0.0, 0]), np.float32(0.5), np.float64(1),
    np.array([3, -2], np.int32), types={"T2": ["int8", "uint8"]})

# --- attention
add("Attention", real(1, 4, 3, 4), real(1, 2, 5, 4), real(1, 2, 5, 6), same={"T2": "T1"}, types={"U": ["bool"]})
add("Attention", real(1, 3, 16), real(1, 5, 8), real(1, 5, 12), q_num_heads=4, kv_num_heads=2, is_causal=1, softcap=2.0, same={"T2": "T1"}, types={"U": ["bool"]})
add("Attention", real(2, 2, 3, 4), real(2, 2, 5, 4), real(2, 2, 5, 4), real(2, 1, 3, 5), types={"T1": ["float"], "T2": ["float"], "U": ["float", "bool"]}, qk_matmul_output_mode=3, outputs=(1, 0, 0, 1))
for mode in range(4):
    add("Attention", real(2, 2, 3, 4), real(2, 2, 5, 4), real(2, 2, 5, 4), real(3, 5), types={"T1": ["float"], "T2": ["float"], "U": ["float"]},
        qk_matmul_output_mode=mode, softcap=1.5, outputs=(1, 0, 0, 1), oracle="runtime")
add("Attention", real(2, 2, 2, 4), real(2, 2, 5, 4), real(2, 2, 5, 4), None, None, None, i64(4, 1), first=24, is_causal=1, types={"T1": ["float"], "T2": ["float"], "U": ["bool"]}, oracle="reference")
add("Attention", real(1, 2, 4, 4), real(1, 2, 6, 4), real(1, 2, 6, 4), first=25, left_window_size=1, right_window_size=1, types={"T1": ["float"], "T2": ["float"], "U": ["bool"]}, oracle="reference")
add("Attention", real(1, 2, 2, 4), real(1, 2, 2, 4), real(1, 2, 2, 4), None, real(1, 2, 3, 4), real(1, 2, 3, 4), is_causal=1, outputs=(1, 1, 1), softmax_precision=11,
    types={"T1": ["float"], "T2": ["float"], "U": ["bool"]}, oracle="reference")
CS = real(6, 2, low=-1, high=1)
add("RotaryEmbedding", real(2, 2, 3, 4), CS, CS[::-1].copy(), i64(0, 1, 2, 3, 4, 5).reshape(2, 3))
add("RotaryEmbedding", real(2, 3, 12), CS, CS[::-1].copy(), i64(0, 1, 2, 3, 4, 5).reshape(2, 3), num_heads=2, rotary_embedding_dim=4, interleaved=1)

# --- signals
SIGNAL = rng.uniform(0.1, 1, (1, 8, 2))  # no sums that cancel
add("DFT", SIGNAL, axis=1, last=19)
add("DFT", SIGNAL, inverse=1, axis=1, last=19)
add("DFT", SIGNAL, axis=1, first=17, last=19, inverse=1, onesided=1, oracle="reference")
add("DFT", later.uniform(0.1, 1, (2, 5, 3, 2)), None, i64(1).reshape(()), first=20, inverse=1, onesided=1, oracle="reference")
add("DFT", later.uniform(0.1, 1, (2, 5, 2)), i64(7).reshape(()), i64(-2).reshape(()), first=20, inverse=1, onesided=1, types={"T2": ["int64"]}, oracle="reference")
add("DFT", SIGNAL[:, :, :1].copy(), None, i64(1).reshape(()), first=20, onesided=1)
for axis in (-2, -3, 0, 2):
    add("DFT", later.uniform(0.1, 1, (2, 3, 4, 1)), None, i64(axis).reshape(()), first=20)
add("DFT", later.uniform(0.1, 1, (2, 3, 4, 2)), i64(5).reshape(()), i64(1).reshape(()), first=20, types={"T2": ["int64"]})
add("DFT", later.uniform(0.1, 1, (2, 6, 2)), i64(4).reshape(()), i64(-2).reshape(()), first=20, inverse=1, types={"T2": ["int64"]})
add("STFT", real(1, 16, 1), np.float64(2), np.array([0.5, 1, 1, 1, 1, 1, 1, 0.25]), np.float64(4), types={"T2": ["int32", "int64"]})
_MEL = tuple(np.array(v, t) for v, t in ((8, np.int64), (64, np.int64), (8192, np.int64), (0, np.float32), (4096, np.float32)))
add("MelWeightMatrix", *_MEL, types={"T1": ["int64"], "T2": ["float"], "T3": ["float"]})

# --- recurrent networks: sequence 3, batch 2, input 3, hidden 2
KINDS = ["Sigmoid", "Tanh", "Relu", "Softsign", "Softplus", "LeakyRelu", "Elu", "HardSigmoid", "ThresholdedRelu", "Affine", "ScaledTanh"]
for o, gates, per in (("RNN", 1, 1), ("GRU", 3, 2), ("LSTM", 4, 3)):
    def parts(d, layout=0, lengths=False, peepholes=False):
        start = real(d, 2, 2) if layout == 0 else real(2, d, 2)
        r = [real(3, 2, 3) if layout == 0 else real(2, 3, 3), real(d, gates*2, 3) / 2, real(d, gates*2, 2) / 2, real(d, gates*4) / 2,
             np.array([3, 2], np.int32) if lengths else None, start]
        return r + ([start / 2] if o == "LSTM" else []) + ([real(d, 6) / 2] if peepholes and o == "LSTM" else [])
    all_outputs = (1,)*(3 if o == "LSTM" else 2)
    add(o, *parts(1), hidden_size=2, outputs=all_outputs)
    for direction, d in (("reverse", 1), ("bidirectional", 2)):
        add(o, *parts(d, lengths=True, peepholes=True), hidden_size=2, direction=direction, outputs=all_outputs, types={"T": ["float"]})
    add(o, *parts(1)[:3], hidden_size=2, outputs=(0,) + all_outputs[1:], types={"T": ["float"]})
    add(o, *parts(1), hidden_size=2, clip=0.25, outputs=all_outputs, types={"T": ["float"]})
    add(o, *parts(1, layout=1), hidden_size=2, layout=1, first=14, outputs=all_outputs, types={"T": ["float"]}, oracle="reference")
    for k, kind in enumerate(KINDS):
        others = [KINDS[(k + j) % len(KINDS)] for j in range(per)]
        # the defaults of these three are 1 (those of the operators, as ONNX says); ONNX Runtime takes 0
        if not {"ThresholdedRelu", "Affine", "ScaledTanh"} & set(others):
            add(o, *parts(1), hidden_size=2, activations=others, outputs=all_outputs, types={"T": ["float"]}, oracle="runtime")
        taking = [n for n in others if n in KINDS[5:]]
        twice = [n for n in others if n in ("HardSigmoid", "Affine", "ScaledTanh")]
        if taking:
            add(o, *parts(1), hidden_size=2, activations=others, activation_alpha=[0.3 + 0.2*j for j in range(len(taking))],
                **({"activation_beta": [0.4 + 0.1*j for j in range(len(twice))]} if twice else {}), outputs=all_outputs, types={"T": ["float"]}, oracle="runtime")
    two = (["HardSigmoid", "Affine", "Tanh"] if o == "LSTM" else ["LeakyRelu", "HardSigmoid"])[:per]
    add(o, *parts(2), hidden_size=2, direction="bidirectional", activations=two + two[::-1], activation_alpha=[0.3, 0.6, 0.2, 0.5][:2*sum(n != "Tanh" for n in two)],
        **({"activation_beta": [0.3, 0.5, 0.25, 0.75]} if o == "LSTM" else {"activation_beta": [0.3, 0.5]} if o == "GRU" else {}),
        outputs=all_outputs, types={"T": ["float"]}, oracle="runtime")
add("GRU", *[real(3, 2, 3), real(1, 6, 3) / 2, real(1, 6, 2) / 2, real(1, 12)], hidden_size=2, linear_before_reset=1, outputs=(1, 1))
add("LSTM", *[real(3, 2, 3), real(1, 8, 3) / 2, real(1, 8, 2) / 2, real(1, 16)], hidden_size=2, input_forget=1, outputs=(1, 1, 1), oracle="runtime")


# --- random numbers: the generator once more, in NumPy (Philox4x32-10; see ops/random.mlop)
def philox(n, k, l):
    lanes = [np.arange(n, dtype=np.uint64), np.zeros(n, np.uint64), np.zeros(n, np.uint64), np.zeros(n, np.uint64)]
    low = np.uint64(0xffffffff)
    for _ in range(10):
        p, q = np.uint64(0xD2511F53) * lanes[0], np.uint64(0xCD9E8D57) * lanes[2]
        lanes = [(q >> np.uint64(32)) ^ lanes[1] ^ np.uint64(k), q & low, (p >> np.uint64(32)) ^ lanes[3] ^ np.uint64(l), p & low]
        k, l = (k + 0x9E3779B9) & 0xffffffff, (l + 0xBB67AE85) & 0xffffffff
    return [v.astype(np.float64) for v in lanes]


def uniform(n, seed):
    return np.floor(philox(n, int(seed), int((seed - int(seed)) * 2**24))[0] / 256) / 2**24


def normal(n, seed):
    w = philox(n, int(seed), int((seed - int(seed)) * 2**24))
    return np.sqrt(-2*np.log((np.floor(w[0] / 256) + 1) / 2**24)) * np.cos(2*np.pi*np.floor(w[1] / 256) / 2**24)


ONLY = {"T": ["float"], "T1": ["float"], "T2": ["float"]}
add("RandomUniform", shape=[2, 3], seed=7.0, low=-1.0, high=3.0, types=ONLY, oracle=lambda shape, seed, low, high: (uniform(6, seed)*(high - low) + low).astype(np.float32).reshape(shape))
add("RandomNormal", shape=[2, 3], seed=7.5, mean=1.0, scale=2.0, types=ONLY, oracle=lambda shape, seed, mean, scale: (normal(6, seed)*scale + mean).astype(np.float32).reshape(shape))
add("RandomUniformLike", real(3, 2), seed=7.0, types=ONLY, oracle=lambda x, seed: uniform(6, seed).astype(np.float32).reshape(x.shape))
add("RandomNormalLike", real(3, 2), seed=7.0, types=ONLY, oracle=lambda x, seed: normal(6, seed).astype(np.float32).reshape(x.shape))
add("Bernoulli", np.linspace(0, 1, 6), seed=7.0, types=ONLY, oracle=lambda x, seed: (uniform(6, seed) < x).astype(np.float32))
add("Multinomial", np.array([[0, 1, 2, 0.5], [1, 0, 0, 1]]), seed=7.0, sample_size=5, types={"T1": ["float"], "T2": ["int32"]},
    oracle=lambda x, seed, sample_size: np.array([np.searchsorted(np.cumsum(np.exp(r)), uniform(10, seed)[5*k:5*k + 5]*np.exp(r).sum(), side="right")
                                                  for k, r in enumerate(x.astype(np.float64))], np.int32))
add("Dropout", X, last=9)
add("Dropout", X, last=11, ratio=0.25)   # before opset 12 ONNX does not say what the mask holds without training
add("Dropout", X, np.float64(0.25), np.array(False), first=12, outputs=(1, 1))
add("Dropout", X, np.array(0.25, np.float32), np.array(True), first=12, outputs=(1, 1), seed=9, types=ONLY, oracle=lambda x, ratio, training, seed: [
    np.where(uniform(x.size, seed).reshape(x.shape) >= ratio, x / (1 - ratio), 0).astype(np.float32), uniform(x.size, seed).reshape(x.shape) >= ratio])

# --- linear attention and the convolution before it
for rule in ("linear", "gated", "delta", "gated_delta"):
    fades, differs = "gated" in rule, "delta" in rule
    add("LinearAttention", more(2, 3, 8) / 2, more(2, 3, 4) / 2, more(2, 3, 6), more(2, 2, 2, 3), -np.abs(more(2, 3, 4)) if fades else None,
        np.abs(more(2, 3, 2)) / 2 if differs else None, outputs=(1, 1), update_rule=rule, q_num_heads=4, kv_num_heads=2, oracle="reference")
add("LinearAttention", more(1, 2, 4), more(1, 2, 4), more(1, 2, 4), None, -np.abs(more(1, 2, 2)), np.abs(more(1, 2, 1)) / 2, outputs=(1, 1), q_num_heads=2,
    kv_num_heads=2, scale=0.5, same={"S": "T"}, oracle="reference")
add("CausalConvWithState", more(2, 3, 5), more(3, 1, 4), more(3), more(2, 3, 3), outputs=(1, 1), activation="silu", oracle="reference")
add("CausalConvWithState", more(2, 3, 2), more(3, 1, 4), outputs=(1, 1), oracle="reference")

# --- channels side by side: more of an offset group than vectors have lanes, whole vectors of them, and neither
for channels, groups, offset_groups in ((16, 2, 2), (20, 1, 1), (6, 2, 2)):
    add("DeformConv", more(2, channels, 5, 4), more(4, channels // groups, 2, 3) / 4, more(2, 12 * offset_groups, 4, 2), more(4), more(2, 6 * offset_groups, 4, 2),
        group=groups, offset_group=offset_groups, types={"T": ["float", "double"]})
