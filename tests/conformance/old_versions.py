#!/usr/bin/env python3
"""Node tests for the operator versions, attributes and element types that ONNX's own data leaves out.

    pip install onnx onnxruntime ml_dtypes
    tests/conformance/old_versions.py DIR [--op NAME] [--type string] [--since OPSET]
    build/release/bin/onnx_node_tests --set versions=DIR --ops ops [--path interpreter]

For every operator version that a model of opset 7 to 28 can resolve to and for every element type that its schema allows, one
model of one node per sample in `samples.py`, in the folder layout of ONNX's node tests. Expected outputs come from ONNX
Runtime or, where it does not run the model, from onnx.reference (the sample may ask for one of them, or carry a function);
cases that neither computes are counted and listed, not made up. Results of narrow floating types are those of the same
node in float, rounded once, under a tolerance of their own (data.json). The data is made anew each time, not committed.
"""
import argparse
import collections
import json
import pathlib
import shutil
import sys
import warnings

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import coverage
import samples

DTYPES = {"double": np.float64, "float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
          "float8e4m3fn": ml_dtypes.float8_e4m3fn, "float8e5m2": ml_dtypes.float8_e5m2, "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
          "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4,
          "float8e8m0": ml_dtypes.float8_e8m0fnu, "float6e2m3": ml_dtypes.float6_e2m3fn, "float6e3m2": ml_dtypes.float6_e3m2fn, "float4e2m1": ml_dtypes.float4_e2m1fn,
          "int2": ml_dtypes.int2, "uint2": ml_dtypes.uint2, "bool": np.bool_, "string": np.object_,
          **{f"{u}int{n}": getattr(np, f"{u}int{n}") for u in ("", "u") for n in (8, 16, 32, 64)}}
NARROW = {TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E4M3FNUZ,
          TensorProto.FLOAT8E5M2FNUZ, TensorProto.FLOAT8E8M0, TensorProto.FLOAT6E2M3, TensorProto.FLOAT6E3M2, TensorProto.FLOAT4E2M1}
NARROW_TOLERANCE = {"rtol": 0.02, "atol": 0.01}
WIDE_TOLERANCE = {"rtol": 1e-3, "atol": 1e-6}   # sums that cancel leave the noise of their order
onnxruntime.set_default_logger_severity(4)


def cast(values, name):
    """Sample values, written as reals, as elements of a type: small numbers that most types hold."""
    dtype = DTYPES[name]
    if name == "string":
        return strings(np.rint(values * 4).astype(np.int64))
    if name == "bool":
        return values > 0
    if name.startswith("uint"):
        values = np.rint(np.abs(values) * 2)
    elif name.startswith("int"):
        values = np.rint(values * 2)
    if name == "float8e8m0":
        values = 2.0 ** np.rint(np.abs(values))
    if name in ("int4", "uint4", "int2", "uint2"):
        least, largest = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}[name]
        values = np.clip(values, least, largest).astype(np.int8)
    return values.astype(dtype)


def strings(numbers):
    """A text for each number, the empty one for 0."""
    return np.array([f"<{n}>" if n else "" for n in np.asarray(numbers).reshape(-1).tolist()], dtype=object).reshape(np.shape(numbers))


def moved(op, version, schema, sample, choice, arrays, attributes):
    """The results of the node on numbers in place of strings, if they are the same strings whatever the numbers are (for Unique,
    whatever numbers of their order): what only moves elements and compares them. (ONNX Runtime's own Gather of strings loses some.)"""
    if attributes.get("reduction", "none") != "none":
        return None
    texts = sorted({t for a in arrays if a is not None and a.dtype == object for t in a.reshape(-1).tolist()} | {""})
    formals = [schema.outputs[min(k, len(schema.outputs) - 1)].type_str for k, wanted in enumerate(sample.outputs) if wanted]
    answers = []
    mixed = (lambda k: 7 * k * k + 3 * k) if op == "Unique" else (lambda k: int(f"{k:016b}"[::-1], 2))
    for number in (lambda k: k, mixed):
        numbers = {t: number(k) for k, t in enumerate(texts)}
        back = {k: t for t, k in numbers.items()}
        wide = [np.array([numbers[t] for t in a.reshape(-1).tolist()], np.int64).reshape(a.shape) if a is not None and a.dtype == object else a for a in arrays]
        try:
            model = model_of(op, version, wide, sample.outputs, attributes, sample.constants)
            results = expected(sample, model, {f"i{k}": a for k, a in enumerate(wide) if a is not None and k not in sample.constants}, wide, attributes)
            answers.append([np.array([back[int(v)] for v in r.reshape(-1)], dtype=object).reshape(r.shape) if choice.get(f) == "string" else r for r, f in zip(results, formals)])
        except Exception:  # the reason is that of the node as it stands
            return None
    return answers[0] if all(np.array_equal(a, b) for a, b in zip(*answers)) else None


def type_number(array):
    if array.dtype == object:
        return TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def model_of(op, version, inputs, outputs, attributes, constants, symbolic=False):
    names = [f"i{k}" if a is not None else "" for k, a in enumerate(inputs)]
    node = helper.make_node(op, names, [f"o{k}" if wanted else "" for k, wanted in enumerate(outputs)], **attributes)
    ports = [helper.make_tensor_value_info(n, type_number(a), [f"{n}_{j}" for j in range(a.ndim)] if symbolic else a.shape) for k, (n, a) in enumerate(zip(names, inputs))
             if a is not None and k not in constants]
    results = [helper.make_empty_tensor_value_info(f"o{k}") for k, wanted in enumerate(outputs) if wanted]
    weights = [numpy_helper.from_array(inputs[k], f"i{k}") for k in constants if inputs[k] is not None]
    graph = helper.make_graph([node], op, ports, results, weights)
    opset = helper.make_opsetid("", max(version, 7))
    return helper.make_model(graph, opset_imports=[opset], ir_version=max(4, helper.find_min_ir_version_for([opset], ignore_unknown=True)))


def by_runtime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for port in session.get_inputs():
        if any(t in port.type for t in ("bfloat16", "float8", "float6", "float4", "int4", "int2")):
            raise TypeError("no NumPy form of " + port.type)
    for port in session.get_outputs():
        if any(t in port.type for t in ("bfloat16", "float8", "float6", "float4", "int4", "int2")):
            raise TypeError("no NumPy form of " + port.type)
    return session.run(None, feeds)


def by_reference(model, feeds):
    return ReferenceEvaluator(model).run(None, feeds)


def widened(op, version, schema, sample, choice, arrays, attributes):
    """The results of the same node in float, rounded once: what narrow floats should come near to."""
    wide = [a.astype(np.float32) if a is not None and type_number(a) in NARROW else a for a in arrays]
    model = model_of(op, version, wide, sample.outputs, attributes, sample.constants)
    results = expected(sample, model, {f"i{k}": a for k, a in enumerate(wide) if a is not None and k not in sample.constants}, wide, attributes)
    formals = [schema.outputs[min(k, len(schema.outputs) - 1)].type_str for k, wanted in enumerate(sample.outputs) if wanted]
    return [r.astype(DTYPES[choice.get(f, f[7:-1])]) for r, f in zip(results, formals)]


def in_float(op, version, schema, sample, choice, arrays, attributes):
    """For element types that no oracle takes: the results of the node in float, if they are whole or the type is a float."""
    wide = [None if a is None else a if a is value else a.astype(np.float32) for a, value in zip(arrays, sample.inputs)]
    try:
        model = model_of(op, version, wide, sample.outputs, attributes, sample.constants)
        results = expected(sample, model, {f"i{k}": a for k, a in enumerate(wide) if a is not None and k not in sample.constants}, wide, attributes)
    except Exception:  # the reason is that of the node as it stands
        return None
    typed = []
    for k, r in zip([k for k, wanted in enumerate(sample.outputs) if wanted], results):
        formal = schema.outputs[min(k, len(schema.outputs) - 1)].type_str
        name = choice.get(formal, formal[7:-1])
        if "float" not in name and name != "double" and not np.array_equal(r, np.rint(r)):
            return None
        typed.append(r.astype(DTYPES[name]))
    return typed


def expected(sample, model, feeds, arrays, attributes):
    if callable(sample.oracle):
        r = sample.oracle(*arrays, **attributes)
        return r if isinstance(r, (tuple, list)) else [r]
    order = {"": (by_runtime, by_reference), "runtime": (by_runtime,), "reference": (by_reference,)}[sample.oracle]
    failure = None
    for oracle in order:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                r = [np.asarray(v) for v in oracle(model, feeds)]
            if oracle == by_reference and model.graph.node[0].op_type.startswith("Reduce"):
                r = [v.astype(arrays[0].dtype) for v in r]  # NumPy widens sums of integers
            r = [v.astype(object) if v.dtype.kind in "UT" else v for v in r]
            if any(v.dtype == object and not all(isinstance(t, str) for t in v.reshape(-1)) for v in r):
                raise TypeError("no tensors")
            return r
        except Exception as e:  # an oracle that does not know a version or a type is no failure of ours
            failure = e
    raise failure


def write(folder, model, inputs, outputs, tolerance, symbolic):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    for port, value in zip(model.graph.output, outputs):
        shape = [f"{port.name}_{j}" for j in range(value.ndim)] if symbolic else value.shape
        port.CopyFrom(helper.make_tensor_value_info(port.name, type_number(value), shape))
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    if tolerance:
        (folder / "data.json").write_text(json.dumps(tolerance))
    for kind, arrays in (("input", inputs), ("output", outputs)):
        for k, a in enumerate(arrays):
            (data / f"{kind}_{k}.pb").write_bytes(numpy_helper.from_array(a).SerializeToString())


def type_choices(schema, sample):
    """Assignments of element types to the schema's type variables: each variable through all its types, the others at
    their first choice."""
    allowed = {}
    for c in schema.type_constraints:
        types = [t[7:-1] for t in c.allowed_type_strs if t.startswith("tensor(") and t[7:-1] in DTYPES]
        wanted = sample.types.get(c.type_param_str)
        allowed[c.type_param_str] = [t for t in types if wanted is None or t in wanted] or types
    def first(v):
        return next((t for t in ("float", "int64", "bool", "uint8") if t in allowed[v]), (allowed[v] or [None])[0])
    base = {v: first(v) for v in allowed}
    seen = set()
    for v in allowed:
        for t in allowed[v]:
            choice = {**base, v: t}
            for other, follow in sample.same.items():
                if other in choice and follow in choice and choice[follow] in allowed[other]:
                    choice[other] = choice[follow]
            key = tuple(sorted(choice.items()))
            if key not in seen:
                seen.add(key)
                yield choice
    if not allowed:
        yield {}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--op", default="")
    parser.add_argument("--since", type=int, default=0, help="only versions from this opset on")
    parser.add_argument("--type", default="", help="only cases with this element type: float, string, ...")
    parser.add_argument("--symbolic", action="store_true", help="no extent of an input is known while building, each has a name of its own")
    options = parser.parse_args()
    made, without, no_sample = 0, collections.defaultdict(list), []
    shutil.rmtree(options.folder / "node", ignore_errors=True)
    for op, version, schema in coverage.schemas():
        if op in coverage.ELSEWHERE or (options.op and op != options.op) or version < options.since:
            continue
        chosen = [s for s in samples.of(op) if s.first <= max(version, 7) <= s.last]
        if not chosen:
            no_sample.append(f"{op}-{version}")
        for number, sample in enumerate(chosen):
            for choice in type_choices(schema, sample):
                if options.type and options.type not in choice.values():
                    continue
                arrays = []
                for k, value in enumerate(sample.inputs):
                    formal = schema.inputs[min(k, len(schema.inputs) - 1)]
                    name = choice.get(formal.type_str, formal.type_str[7:-1])
                    arrays.append(None if value is None else value if value.dtype != np.float64 else cast(value, name))
                attributes = sample.attributes(choice) if callable(sample.attributes) else sample.attributes
                model = model_of(op, version, arrays, sample.outputs, attributes, sample.constants)
                name = f"test_{op.lower()}_v{version}_{number}" + "".join(f"_{v}_{t}" for v, t in sorted(choice.items()))
                feeds = {f"i{k}": a for k, a in enumerate(arrays) if a is not None and k not in sample.constants}
                if op == "Pad" and "float8e8m0" in choice.values():
                    continue  # it has no zero, and nothing says what stands around an array of it
                texts = "string" in choice.values()
                if texts and op in ("Cast", "CastLike", "Constant", "Col2Im"):
                    continue  # the former are in string_cases.py, the last one adds elements
                try:
                    free = model_of(op, version, arrays, sample.outputs, attributes, sample.constants, options.symbolic)
                    fewer = [t for t in choice.values() if t and getattr(TensorProto, t.upper()) in NARROW]
                    results = moved(op, version, schema, sample, choice, arrays, attributes) if texts else None
                    if texts:
                        if results is None:
                            raise TypeError("computes with strings, which no definition says how")
                    elif fewer and not sample.exact and not callable(sample.attributes) and not callable(sample.oracle):
                        results = widened(op, version, schema, sample, choice, arrays, attributes)
                    else:
                        results = expected(sample, model, feeds, arrays, attributes)
                except Exception as e:
                    results = None
                    if not texts and not callable(sample.oracle) and not callable(sample.attributes):
                        results = in_float(op, version, schema, sample, choice, arrays, attributes)
                    failure = e
                if results is None:
                    e = failure
                    without[f"{op}-{version}"].append(f"{' '.join(choice.values())}: {str(e).splitlines()[0][:100] if str(e) else type(e).__name__}")
                    continue
                narrow = any(type_number(r) in NARROW for r in results) or any(type_number(a) in NARROW for a in arrays if a is not None)
                tolerance = NARROW_TOLERANCE if narrow and not sample.exact else WIDE_TOLERANCE
                write(options.folder / "node" / name, free, list(feeds.values()), results, tolerance, options.symbolic)
                made += 1
    for name, reasons in without.items():
        print(f"no oracle: {name}: {len(reasons)} ({reasons[0]})")
    if no_sample:
        print("no sample:", *no_sample)
    print(f"{made} cases, {sum(map(len, without.values()))} without an oracle")
    return 0


if __name__ == "__main__":
    sys.exit(main())
