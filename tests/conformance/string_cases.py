#!/usr/bin/env python3
"""Writes conformance cases about strings, lists of strings and maps, in the layout of ONNX's node tests.

    string_cases.py OUT [--only TEXT] [--list]
    onnx_node_tests --set strings=OUT --ops ops

What moves strings as it moves any element is in old_versions.py, which knows strings as an element type. Here is what looks
into strings, keeps them in sequences, optionals and control flow, and ai.onnx.ml with strings and maps. Expected outputs are those
of ONNX Runtime; where it has no such kernel, of ONNX's reference implementation; or given with the case, where neither has one or
both depart from the definition. A map is two files here as it is two ports of a container: its keys, then its values.
Needs python3-numpy, onnx and onnxruntime; says so and exits 77 without them.
"""
import argparse
import os
import sys

try:
    import numpy as np
    import onnx
    import onnx.reference
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import string_ml_cases
import string_onnx_cases

onnxruntime.set_default_logger_severity(4)


def text(values):
    return np.array(values, dtype=object)


class Map:
    """A map, or for a list of maps of equal keys, values of one axis more."""

    def __init__(self, keys, values):
        self.keys, self.values = np.asarray(keys), np.asarray(values)

    def as_dict(self):
        return dict(zip(self.keys.tolist(), self.values.tolist()))


def element_type(value):
    if isinstance(value, list):
        return element_type(value[0])
    return TensorProto.STRING if value.dtype == object else helper.np_dtype_to_tensor_dtype(value.dtype)


def type_of(value, free=False, optional=False):
    """The type of a value as a TypeProto; with `free`, no extent is known."""
    if optional:
        return helper.make_optional_type_proto(type_of(value, free))
    if isinstance(value, list):
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element_type(value), None if free else [None] * np.ndim(value[0])))
    if isinstance(value, Map):
        proto = onnx.TypeProto()
        proto.map_type.key_type = element_type(value.keys)
        proto.map_type.value_type.CopyFrom(helper.make_tensor_type_proto(element_type(value.values), []))
        if value.values.ndim == 2:
            return helper.make_sequence_type_proto(proto)
        return proto
    return helper.make_tensor_type_proto(element_type(value), [None] * value.ndim if free else value.shape)


class Case:
    def __init__(self, name, model, inputs, expected, tolerance, reference):
        self.name, self.model, self.inputs, self.expected, self.tolerance, self.reference = name, model, inputs, expected, tolerance, reference

    def run(self):
        feeds = {port.name: value.as_dict() if isinstance(value, Map) else value for port, value in zip(self.model.graph.input, self.inputs)}
        if self.reference:
            return onnx.reference.ReferenceEvaluator(self.model).run(None, feeds)
        try:
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.intra_op_num_threads = 1
            session = onnxruntime.InferenceSession(self.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            return session.run(None, feeds)
        except Exception as error:
            if any(isinstance(v, Map) for v in self.inputs):
                raise
            try:
                return onnx.reference.ReferenceEvaluator(self.model).run(None, feeds)
            except Exception as other:
                raise RuntimeError(f"ONNX Runtime: {str(error)[:200]}; reference: {str(other)[:200]}") from None

    def results(self):
        given = self.expected if self.expected is not None else self.run()
        results = []
        for value in given:
            if isinstance(value, list) and value and isinstance(value[0], dict):
                keys = [k for node in self.model.graph.node if node.op_type == "ZipMap" for a in node.attribute for k in helper.get_attribute_value(a)]
                keys = [k.decode() if isinstance(k, bytes) else k for k in keys]
                value = Map(text(keys) if isinstance(keys[0], str) else np.array(keys, np.int64), np.array([[row[k] for k in keys] for row in value], np.float32))
            elif isinstance(value, list):
                value = [np.asarray(v) for v in value]
            results.append(value)
        return results

    def write(self, out):
        results = self.results()
        folder = os.path.join(out, "test_" + self.name)
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for port, value in zip(model.graph.output, results):
            if not port.type.WhichOneof("value"):
                port.type.CopyFrom(type_of(value, True))
        with open(os.path.join(folder, "model.onnx"), "wb") as f:
            f.write(model.SerializeToString())
        if self.tolerance:
            with open(os.path.join(folder, "data.json"), "w", encoding="utf-8") as f:
                f.write('{"rtol": %g, "atol": %g}' % self.tolerance)
        for kind, values in (("input", self.inputs), ("output", results)):
            parts = [p for v in values for p in ((v.keys, v.values) if isinstance(v, Map) else (v,))]
            for k, value in enumerate(parts):
                with open(os.path.join(data, f"{kind}_{k}.pb"), "wb") as f:
                    f.write(serialized(value))


def serialized(value):
    if value is None:
        return onnx.OptionalProto().SerializeToString()
    if isinstance(value, list):
        proto = onnx.SequenceProto()
        proto.elem_type = onnx.SequenceProto.TENSOR
        proto.tensor_values.extend(numpy_helper.from_array(np.asarray(v)) for v in value)
        return proto.SerializeToString()
    return numpy_helper.from_array(np.asarray(value)).SerializeToString()


class Cases:
    def __init__(self, only):
        self.only, self.all = only, []

    def add(self, name, nodes, inputs, outputs=None, opset=21, ml=4, expected=None, free=False, tolerance=None, types=None, constants=None, optional=(), reference=False):
        """`nodes`, one or several, read x0, x1, ... and write what `outputs` names: y0 unless it says otherwise."""
        if self.only and self.only not in name:
            return
        nodes = nodes if isinstance(nodes, list) else [nodes]
        ports = [helper.make_value_info(f"x{k}", (types or {}).get(f"x{k}") or type_of(v, free, k in optional)) for k, v in enumerate(inputs)]
        results = [helper.make_value_info(n, (types or {}).get(n)) if (types or {}).get(n) else onnx.ValueInfoProto(name=n) for n in outputs or ["y0"]]
        weights = [numpy_helper.from_array(v, n) for n, v in (constants or {}).items()]
        graph = helper.make_graph(nodes, name, ports, results, weights)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", ml), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        self.all.append(Case(name, model, inputs, expected, tolerance, reference))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    cases = Cases(args.only)
    string_onnx_cases.collect(cases, Map)
    string_ml_cases.collect(cases, Map)
    failed = 0
    for case in cases.all:
        if args.list:
            print(case.name)
            continue
        try:
            case.write(args.out)
        except Exception as error:  # a case that nobody computes is a mistake of the case
            failed += 1
            print(f"no case {case.name}: {str(error)[:500]}", flush=True)
    print(f"{len(cases.all) - failed} cases, {failed} refused")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
