"""Holds spec/limits.md against the tests and the code: each row is tested with the number that it states, each test of a
limit has a row, and each constant kMax... of what reads a stranger's bytes belongs to a row or says why not.

    limits_test.py    fails with one line per finding
"""
import re
import sys

from sources import ROOT

UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# Rows that no test reaches, each with the reason that its last column gives.
UNREACHED = ("container.manifest-depth", "plan.items")

READERS = ("schema", "signing", "runtime/container", "runtime/plan", "loaders")
# By constant: its row, or in words why it has none.
CONSTANTS = {
    "kMaxParts": "file.parts", "kMaxSegments": "container.segments", "kMaxManifestLen": "container.manifest", "kMaxTables": "manifest.tables",
    "kMaxTableDepth": "container.manifest-depth", "kMaxTensors": "manifest.tensors", "kMaxCopies": "manifest.copies",
    "kMaxRank": "manifest.rank", "kMaxListDepth": "manifest.list-depth", "kMaxVariants": "manifest.variants", "kMaxLayouts": "manifest.layouts", "kMaxTuning": "manifest.tuning",
    "kMaxExtensions": "manifest.extensions", "kMaxObjects": "manifest.objects", "kMaxExpansion": "manifest.objects",
    "kMaxFeatures": "manifest.features", "kMaxClauses": "manifest.clauses", "kMaxMethods": "manifest.methods",
    "kMaxPorts": "manifest.ports", "kMaxDims": "manifest.dims", "kMaxNameLen": "manifest.name", "kMaxIdLen": "model.id",
    "kMaxStringLen": "manifest.text", "kMaxPlanLen": "segment.plan", "kMaxModuleLen": "segment.module", "kMaxUntrustedModule": "segment.untrusted-module",
    "kMaxUntrustedPart": "segment.untrusted-asset",
    "kMaxAssets": "manifest.assets", "kMaxAssetLen": "segment.asset", "kMaxGoldenLen": "segment.golden",
    "kMaxOperatorLen": "segment.operator", "kMaxOperatorsLen": "segment.operators", "kMaxBlockLen": "signature.block",
    "kMaxSegmentLen": "segment.bytes", "kMaxZstdRatio": "segment.ratio", "kMaxFrameLen": "segment.frame",
    "kMaxWeightsLen": "where the writer begins another segment; a reader takes any",
    "kMaxExtensionLen": "a data segment nobody reads; segment.bytes bounds it",
    "kMaxExpr": "manifest.expression", "kMaxExprDepth": "manifest.expression-depth", "kMaxOneOf": "manifest.one-of",
    "kMaxStages": "manifest.stages", "kMaxForms": "pipeline.forms", "kMaxAttributes": "manifest.attributes", "kMaxGolden": "manifest.golden",
    "kMaxOperators": "manifest.operators", "kMaxFlags": "manifest.flags", "kMaxText": "manifest.layout",
    "kMaxNumber": "a number of a layout's text, no size",
    "kMaxBlock": "signature.block", "kMaxRecords": "signature.records", "kMaxSignatures": "signature.count",
    "kMaxStatement": "statement.bytes", "kMaxBundle": "bundle.bytes", "kMaxSubjects": "bundle.subjects", "kMaxFieldLen": "signature.field", "kMaxName": "policy.name",
    "kMaxThreshold": "a number of the policy, as large as signature.count", "kMaxPolicy": "policy.bytes",
    "kMaxAdministrators": "policy.administrators", "kMaxPolicyFile": "policy.bundle-bytes", "kMaxPolicyChain": "policy.bundle-chain", "kMaxInstalled": "policy.bytes",
    "kMaxTrustFiles": "files of the user's own folder", "kMaxPassphrase": "a file or descriptor that the user names", "kMaxKeyFile": "files of the user's own folder",
    "kMaxLinks": "symbolic links on the way to a file of the user's own", "kMaxLine": "files of the user's own folder",
    "kMaxMarks": "files of the user's own folder",
    "kMaxPrograms": "pipeline.programs", "kMaxStarts": "pipeline.starts", "kMaxCarried": "pipeline.carried",
    "kMaxConstant": "pipeline.constant", "kMaxChunk": "a number of the stream, which is checked", "kMaxCarriedRank": "a list in a text of bounded size, compared with the rank of the program",
    "kMaxFileBytes": "pipeline.file-bytes", "kMaxByteParts": "pipeline.byte-parts", "kMaxUnsure": "pipeline.unsure",
    "kMaxGenerated": "a number of a step: what it is checked for", "kMaxBatch": "a number of a step: what it is checked for",
    "kMaxTextBoxes": "pipeline.text-boxes", "kMaxUnclipRatio": "a number of a step, which is checked",
    "kMaxSteps": "pipeline.steps", "kMaxInputs": "pipeline.inputs", "kMaxListBytes": "list.bytes",
    "kMaxLines": "list.lines", "kMaxGuesses": "of messages", "kMaxSide": "a number of a step: what it is checked for",
    "kMaxFunctions": "plan.functions", "kMaxSymbols": "plan.symbols", "kMaxItems": "plan.items",
    "kMaxOperands": "plan.operands", "kMaxCuts": "plan.cuts", "kMaxUnits": "what a double holds; refused when shapes are bound", "kMaxStates": "plan.states", "kMaxTextLen": "plan.message",
    "kMaxDerivedBytes": "what a session may hold at all, which is asked before anything is derived",
    "kMaxCallDepth": "plan.calls", "kMaxBindings": "a cache",
    "kMaxListedItems": "plan.listed-items",
    "kMaxKernels": "portable.kernels", "kMaxLanes": "portable.lanes", "kMaxLocalBytes": "portable.local-bytes",
    "kMaxRegisterBytes": "portable.register-bytes", "kMaxDepth": "portable.depth",
    "kMaxEntries": "gpu-module.entries", "kMaxImages": "gpu-module.images", "kMaxImageFeatures": "gpu-module.features",
    "kMaxBlockLanes": "gpu-module.lanes", "kMaxBuffers": "gpu-module.buffers", "kMaxScalars": "gpu-module.scalars",
    "kMaxIds": "a number of an image's header: the words that are there are what takes memory",
    "kMaxPushScalars": "where scalars lie, no limit of a file",
    "kMaxScratch": "a number of a module's table, compared with the session's memory as well",
    "kMaxCompiledLen": "tokenizer.bytes", "kMaxTokenIds": "tokenizer.tokens", "kMaxTokenLen": "tokenizer.token-bytes",
    "kMaxTextSteps": "tokenizer.steps", "kMaxTemplatePieces": "tokenizer.pieces",
    "kMaxPatterns": "tokenizer.patterns", "kMaxPatternClasses": "tokenizer.pattern-classes", "kMaxPatternStates": "tokenizer.pattern-states",
    "kMaxFile": "module.bytes", "kMaxSpan": "module.addresses", "kMaxRelocations": "module.relocations",
    "kMaxDynamicLen": "module.dynamic-bytes", "kMaxProgramHeaders": "module.program-headers",
}

findings = []


def number(text):
    """What '16 MiB' or '1,024' of the page is; None if it is no number."""
    match = re.fullmatch(r"([\d,]+)(?: (KiB|MiB|GiB))?", text)
    return match and int(match.group(1).replace(",", "")) * UNITS[match.group(2) or ""]


def constant(text):
    """What 1'024 or 16ull << 20 of a test is."""
    base, _, shift = re.sub(r"[ul']", "", text).partition(" << ")
    return int(base) << int(shift or 0)


def rows():
    found = {}
    for line in (ROOT / "spec/limits.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and re.fullmatch(r"[a-z]+\.[a-z-]+", cells[0]):
            if cells[0] in found:
                findings.append(f"spec/limits.md: two rows {cells[0]}")
            found[cells[0]] = cells
    return found


def tested():
    found = {}
    for path in sorted((ROOT / "tests/hostile").glob("limits_*_test.cpp")):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r'\{"([a-z]+\.[a-z-]+)",\s*(\d[\d\'ul]*(?: << \d+)?),', text):
            found[match.group(1)] = constant(match.group(2))
    return found


def check_row(name, cells, tests):
    stated = number(cells[2])
    if stated is None:
        findings.append(f"spec/limits.md: {name}: '{cells[2]}' is no number")
    if name in tests:
        if tests[name] != stated:
            findings.append(f"spec/limits.md: {name} is {stated}, its test says {tests[name]}")
        return
    other = re.match(r'`([^`]+)`, "([^"]+)"', cells[3])
    if other:
        path = ROOT / other.group(1)
        if not path.is_file() or f'TEST_CASE("{other.group(2)}")' not in path.read_text(encoding="utf-8"):
            findings.append(f"spec/limits.md: {name}: {cells[3]} is no test")
    elif name not in UNREACHED or not cells[3]:
        findings.append(f"spec/limits.md: {name} has no test")


def check_constants(table):
    seen = set()
    for folder in READERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp") or "generated" in path.parts:
                continue
            for name in re.findall(r"\b(kMax\w+) *=(?!=)", path.read_text(encoding="utf-8")):
                seen.add(name)
                row = CONSTANTS.get(name)
                if row is None:
                    findings.append(f"{path.relative_to(ROOT)}: {name} has no row in spec/limits.md")
                elif re.fullmatch(r"[a-z]+\.[a-z-]+", row) and row not in table:
                    findings.append(f"{name}: spec/limits.md has no row {row}")
    for name in CONSTANTS.keys() - seen:
        findings.append(f"limits_test.py: {name} is no constant any more")


table, tests = rows(), tested()
for name, cells in table.items():
    check_row(name, cells, tests)
for name in tests.keys() - table.keys():
    findings.append(f"tests/hostile: {name} has no row in spec/limits.md")
check_constants(table)
print("\n".join(findings) or f"{len(table)} limits, {len(tests)} of them tested on both sides")
sys.exit(1 if findings else 0)
