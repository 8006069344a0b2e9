#!/usr/bin/env python3
"""Which operators, versions, attributes and element types of ONNX's schemas do the texts of ops/ cover?

    tests/conformance/coverage.py [--ops DIR] [--all]          needs: pip install onnx
    tests/conformance/coverage.py --runtime                    the operators of com.microsoft, needs: pip install onnxruntime

For every operator of ai.onnx that a model of opset 7 to 28 can resolve to (so also older versions that opset 7 still
uses), it reads the headers of the definitions in force at that version and compares them with the schema of the installed
onnx package: the operator exists, every attribute is declared, every element type of every type constraint is accepted at
the position of each input. It reads texts only, runs nothing: what a definition computes is what node tests and
`old_versions.py` check. Left out: training, control flow, sequences, optionals, strings and images, which are no texts.
Prints what is missing, one line each; exit code 1 if something is.

With --runtime the schemas are those of com.microsoft in the installed ONNX Runtime; operators that are left out on purpose
are listed with the reason.
"""
import argparse
import collections
import pathlib
import re
import sys

import onnx

FLOATS = "double float float16 bfloat16 float8e4m3fn float8e5m2 float8e4m3fnuz float8e5m2fnuz float8e8m0 float6e2m3 float6e3m2 float4e2m1".split()
SIGNED = "int64 int32 int16 int8 int4 int2".split()
UNSIGNED = "uint64 uint32 uint16 uint8 uint4 uint2".split()
CLASSES = {"float": FLOATS, "int": SIGNED + UNSIGNED, "signed": SIGNED, "unsigned": UNSIGNED,
           "num": FLOATS + SIGNED + UNSIGNED, "any": FLOATS + SIGNED + UNSIGNED + ["bool", "string"]}
NAMES = {"f64": "double", "f32": "float", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8e4m3fn", "f8e5m2": "float8e5m2",
         "f8e4m3fnuz": "float8e4m3fnuz", "f8e5m2fnuz": "float8e5m2fnuz",
         "f8e8m0": "float8e8m0", "f6e2m3": "float6e2m3", "f6e3m2": "float6e3m2", "f4e2m1": "float4e2m1", "bool": "bool", "str": "string",
         **{f"{s}{n}": f"{'u' if s == 'u' else ''}int{n}" for s in "iu" for n in (64, 32, 16, 8, 4, 2)}}
UNKNOWN = {"complex64", "complex128"}  # element types that the language lacks
ELSEWHERE = set("""If Loop Scan SequenceMap SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength
    SplitToSequence ConcatFromSequence Optional OptionalGetElement OptionalHasElement ImageDecoder StringNormalizer StringConcat
    StringSplit RegexFullMatch Einsum""".split())  # Einsum's text is made from its equation (packager/lang/einsum.h)
# Of com.microsoft, and why.
LEFT_OUT = {
    "they decode: a whole search around a graph, which a program around the model does": "BeamSearch GreedySearch Sampling WhisperBeamSearch",
    "they hold what another backend compiled": "EPContext Snpe",
    "training": "BiasDropout BitmaskBiasDropout BitmaskDropout GemmaRotaryEmbedding",
    "strings, sparse tensors": "Tokenizer SparseToDenseMatMul",
    "weights packed for one machine": "MatMulFpQ4 QOrderedAttention QOrderedGelu QOrderedLayerNormalization QOrderedLongformerAttention QOrderedMatMul "
                                      "DequantizeWithOrder QuantizeWithOrder DequantizeBFP QuantizeBFP",
    "made while a session for a graphics processor starts, in no file": "PackedAttention PackedMultiHeadAttention RemovePadding RestorePadding MatMulNBitsMlp "
        "MatMulNBitsQkv FusedMatMulActivation MatMulBlockQuantizedFp4Weight MatMulBlockQuantizedFp8Weight GemmFloat8",
    "of servers of language models on graphics processors": "PagedAttention SparsePagedAttention SparseAttentionIndexer PackedSparseAttentionIndexer DynamicSparseAttention "
        "GatedDeltaNet VarlenCausalConvWithState NGramHashMapping VarlenNGramHashMapping",
    "no exporter in use writes them": "AttnLSTM BifurcationDetector MaxpoolWithMask WordConvEmbedding DecoderAttention DecoderMaskedSelfAttention LongformerAttention",
}
# Attributes that change no result, or that only an opset before 7 means.
HARMLESS = {"consumed_inputs"}


def types_of(text, variables):
    """The set of ONNX element types that a type of a header accepts."""
    r = set()
    for part in text.split("|"):
        part = part.strip()
        r |= variables.get(part) or set(CLASSES.get(part, [])) or ({NAMES[part]} if part in NAMES else set())
    return r


def split_outside(text, separator=","):
    depth, start, parts = 0, 0, []
    for i, c in enumerate(text):
        depth += c in "([{<"
        depth -= c in ")]}>"
        if c == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in parts + [text[start:]] if p.strip()]


class Definition:
    def __init__(self, name, since, text, where, clauses):
        self.name, self.since, self.where = name, since, where
        header, body = re.match(r"(.*?->.*?)(?=\n  \S|\n?\Z)(.*)", text, re.S).groups()
        m = re.match(r"op \w+@\d+(<(.*?)>)?\((.*)\)\s*->", header, re.S)
        self.variables = {}
        for v in split_outside(m.group(2) or ""):
            names, kind = re.sub(r"=.*", "", v).split(":")
            for n in names.split(","):
                self.variables[n.strip()] = types_of(kind, {})
        self.inputs = []
        for p in split_outside(m.group(3)):
            kind = re.sub(r"^(sym|const)\s+", "", p.split(":", 1)[1].strip())
            self.inputs.append((types_of(re.match(r"[\w]+", kind).group(0), self.variables), p.endswith("many")))
        body = re.sub(r"#.*", "", body)
        while used := re.search(r"\buse (\w+)", body):
            body = body.replace(used.group(0), clauses[used.group(1)])
        self.attributes = set()
        for m in re.finditer(r"\battr ([\w, ]+):", body):
            self.attributes |= {a.strip() for a in m.group(1).split(",")}


def definitions(folder, wanted="ai.onnx"):
    table = collections.defaultdict(list)
    for path in sorted(pathlib.Path(folder).glob("*.mlop")):
        text = path.read_text()
        domain = "ai.onnx"
        clauses = {}
        for block in re.split(r"\n(?=\S)", text):
            if block.startswith("domain"):
                domain = block.split()[1]
            if block.startswith("clauses"):
                clauses[block.split()[1]] = block
            m = re.match(r"op (\w+)@(\d+)", block)
            if m and domain == wanted:
                table[m.group(1)].append(Definition(m.group(1), int(m.group(2)), re.sub(r"(?m)^#.*\n?", "", block), path.name, clauses))
    return table


def in_force(candidates, version):
    since = max((d.since for d in candidates if d.since <= version), default=None)
    return [d for d in candidates if d.since == since]


def schemas():
    """(name, version, schema) of all that a model of opset 7 to 28 can mean."""
    by_name = collections.defaultdict(dict)
    for s in onnx.defs.get_all_schemas_with_history():
        if s.domain == "":
            by_name[s.name][s.since_version] = s
    for name in sorted(by_name):
        versions = by_name[name]
        oldest = max((v for v in versions if v <= 7), default=0)
        for v in sorted(versions):
            if oldest <= v <= 28 and not (versions[v].deprecated):
                yield name, v, versions[v]


class RuntimeSchema:
    """Looks like one of the onnx package."""

    def __init__(self, schema):
        self.attributes, self.type_constraints = schema.attributes, schema.type_constraints
        self.inputs = [type("Input", (), {"name": i.name, "type_str": i.typeStr}) for i in schema.inputs]


def runtime_schemas():
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
    for s in sorted(get_all_operator_schema(), key=lambda s: (s.name, s.since_version)):
        if s.domain == "com.microsoft" and not s.deprecated:
            yield s.name, s.since_version, RuntimeSchema(s)


def missing(table, name, version, schema):
    candidates = table.get(name)
    if not candidates:
        return ["no text"]
    # A text of an old opset is used from opset 7 on: version 1 of a schema is seen by models of opset 7 and later.
    defs = in_force(candidates, max(version, 7 if version < 7 else version))
    if not defs:
        return ["no text for this opset"]
    r = []
    attributes = set.union(*(d.attributes for d in defs))
    for a in schema.attributes:
        if a not in attributes and a not in HARMLESS:
            r.append(f"attribute {a}")
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    for k, i in enumerate(schema.inputs):
        wanted = {t[7:-1] for t in constraints.get(i.type_str, [i.type_str]) if t.startswith("tensor(")} - UNKNOWN
        accepted = set()
        for d in defs:
            at = min(k, len(d.inputs) - 1)
            if at >= 0 and (at == k or d.inputs[at][1]):
                accepted |= d.inputs[at][0]
        if not accepted and wanted:
            r.append(f"input {i.name}")
        elif wanted - accepted:
            r.append(f"input {i.name} of {' '.join(sorted(wanted - accepted))}")
    return r


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", default=pathlib.Path(__file__).resolve().parents[2] / "ops")
    parser.add_argument("--all", action="store_true", help="also list what is covered")
    parser.add_argument("--runtime", action="store_true", help="com.microsoft")
    options = parser.parse_args()
    table = definitions(options.ops, "com.microsoft" if options.runtime else "ai.onnx")
    covered = total = 0
    reasons = {name: why for why, names in LEFT_OUT.items() for name in names.split()}
    for name, version, schema in runtime_schemas() if options.runtime else schemas():
        if options.runtime and name in reasons:
            print(f"{name}-{version}: left out, {reasons[name]}")
            continue
        if not options.runtime and name in ELSEWHERE:
            continue
        total += 1
        lacks = missing(table, name, version, schema)
        covered += not lacks
        if lacks or options.all:
            print(f"{name}-{version}: {'; '.join(lacks) or 'covered'}")
    print(f"{covered} of {total} operator versions covered")
    return 0 if covered == total else 1


if __name__ == "__main__":
    sys.exit(main())
