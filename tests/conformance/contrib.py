#!/usr/bin/env python3
"""Writes conformance cases for the operators of com.microsoft and ai.onnx.ml, in the layout of ONNX's node tests.

    contrib.py OUT [--only TEXT] [--list]
    contrib.py --models tests/conformance/contrib_models.txt    # some of them, one per line, for hostile_nodes
    onnx_node_tests --data OUT --ops ops

Every case is one node with random inputs (the seed is the case's name). The expected outputs are those of ONNX Runtime
with graph optimisation off; or, where it has no such kernel on the CPU or departs from the definition, of ONNX's reference
implementation or a formula given with the case. Needs python3-numpy, onnx and onnxruntime; says so and exits 77 without them.
"""
import argparse
import json
import os
import sys
import zlib

try:
    import numpy as np
    import onnx
    import onnx.reference
    import onnxruntime
    from google.protobuf import text_format
    from onnx import helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import contrib_half_cases  # noqa: E402

OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("ai.onnx.ml", 3)]


class Case:
    """One node. `inputs` is a list of arrays, None for one that is absent; `outputs` says which results are asked for:
    True, or the element type where ONNX Runtime does not infer it."""

    def __init__(self, name, domain, op, inputs, attrs=None, outputs=(True,), expected=None, opset=None, oracle=None,
                 oracle_attrs=None, reference=False, atol=None):
        self.name, self.domain, self.op, self.inputs = name, domain, op, inputs
        self.attrs, self.outputs, self.expected, self.opset = attrs or {}, outputs, expected, opset
        self.oracle_attrs, self.reference = oracle_attrs, reference  # ONNX's reference implementation is asked instead
        self.atol = atol  # of results that cancel
        self.oracle = oracle  # what ONNX Runtime is given instead, where its kernel lacks a form

    def model(self, inputs, attrs):
        ins = ["" if x is None else f"x{k}" for k, x in enumerate(inputs)]
        outs = [f"y{k}" if asked else "" for k, asked in enumerate(self.outputs)]
        node = helper.make_node(self.op, ins, outs, domain=self.domain, **attrs)
        given = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                 for n, x in zip(ins, inputs) if n]
        wanted = [onnx.ValueInfoProto(name=n) if asked is True else helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(asked)), None)
                  for n, asked in zip(outs, self.outputs) if n]  # their types follow from the node, mostly
        opsets = [o for o in OPSETS if not (self.opset and o.domain == self.domain)]
        if self.opset:
            opsets.append(helper.make_opsetid(self.domain, self.opset))
        graph = helper.make_graph([node], self.name, given, wanted)
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def run(self, inputs):
        model = self.model(inputs, self.oracle_attrs or self.attrs)
        feeds = {f"x{k}": x for k, x in enumerate(inputs) if x is not None}
        if self.reference:
            return onnx.reference.ReferenceEvaluator(model).run(None, feeds)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)

    def write(self, out):
        model = self.model(self.inputs, self.attrs)
        results = self.expected if self.expected is not None else self.run(self.oracle or self.inputs)
        for value, result in zip(model.graph.output, results):
            value.CopyFrom(helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(result.dtype), result.shape))
        folder = os.path.join(out, "test_" + self.name)
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        with open(os.path.join(folder, "model.onnx"), "wb") as f:
            f.write(model.SerializeToString())
        if self.atol:
            with open(os.path.join(folder, "data.json"), "w") as f:
                json.dump({"atol": self.atol, "rtol": max(1e-3, self.atol if self.atol > 1e-3 else 0)}, f)
        present = [x for x in self.inputs if x is not None]
        for kind, arrays in (("input", present), ("output", results)):
            for k, array in enumerate(arrays):
                with open(os.path.join(data, f"{kind}_{k}.pb"), "wb") as f:
                    f.write(numpy_helper.from_array(np.asarray(array), f"{kind}_{k}").SerializeToString())


class Cases:
    """Collects cases; `rng` is seeded by the name of the case that is made next."""

    def __init__(self, only):
        self.only, self.all, self.halves = only, [], contrib_half_cases.Halves()

    def wants(self, name):
        return not self.only or self.only in name

    def add(self, name, op, inputs, attrs=None, outputs=(True,), domain="com.microsoft", expected=None, opset=None, oracle=None,
            oracle_attrs=None, reference=False, atol=None):
        if not self.wants(name):
            return
        if callable(inputs):
            inputs = inputs(np.random.default_rng(zlib.crc32(name.encode())))
        inputs = [x if x is None else np.asarray(x) for x in inputs]
        recompute, oracle_of = expected if callable(expected) else None, oracle if callable(oracle) else None
        if recompute:
            expected = recompute(*inputs)
        if oracle_of:
            oracle = [x if x is None else np.asarray(x) for x in oracle_of(*inputs)]
        case = Case(name, domain, op, inputs, attrs, outputs, expected, opset, oracle, oracle_attrs, reference, atol)
        self.all.append(case)
        for name, inputs, expected, atol in self.halves.of(case, recompute, oracle_of):
            self.all.append(Case(name, domain, op, inputs, attrs, outputs, expected, opset, atol=atol))


def seed_of(case):
    """The model alone, small integers among its inputs as constants; None if that is long."""
    model = case.model(case.inputs, case.attrs)
    values = {f"x{k}": x for k, x in enumerate(case.inputs) if x is not None and np.issubdtype(x.dtype, np.integer) and x.size <= 16}
    kept = [port for port in model.graph.input if port.name not in values]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for name, value in values.items():
        model.graph.initializer.append(helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape, value.ravel().tolist()))
    text = text_format.MessageToString(model, as_one_line=True)
    return text if len(text) < 6000 else None


def write_seeds(cases, path):
    """Up to four models of each operator, those with the most attributes and inputs first."""
    chosen = {}
    for case in cases:
        chosen.setdefault((case.domain, case.op), []).append(case)
    with open(path, "w") as out:
        out.write("# Small models of com.microsoft and ai.onnx.ml as protobuf's text, one per line; made by contrib.py --models.\n")
        for key in sorted(chosen):
            seen, texts = set(), []
            for case in sorted(chosen[key], key=lambda c: (-len(c.attrs) - sum(x is not None for x in c.inputs), c.name)):
                form = (tuple(sorted(case.attrs)), tuple(x is not None for x in case.inputs), len(case.outputs))
                text = None if form in seen else seed_of(case)
                if text:
                    seen.add(form)
                    texts.append(text)
            out.write("".join(text + "\n" for text in texts[:4]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?")
    parser.add_argument("--models")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    import contrib_cases
    import contrib_attention_cases
    import contrib_misc_cases
    import contrib_moe_cases
    import contrib_ml_cases
    cases = Cases(args.only)
    contrib_cases.collect(cases)
    contrib_attention_cases.collect(cases)
    contrib_misc_cases.collect(cases)
    contrib_moe_cases.collect(cases)
    contrib_ml_cases.collect(cases)
    if args.models:
        write_seeds(cases.all, args.models)
        return 0
    failed = 0
    for case in cases.all:
        if args.list:
            print(case.name)
            continue
        try:
            case.write(args.out)
        except Exception as error:  # a case that ONNX Runtime refuses is a mistake of the case
            failed += 1
            print(f"no case {case.name}: {str(error)[:300]}", flush=True)
    print(f"{len(cases.all) - failed} cases, {failed} refused")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
