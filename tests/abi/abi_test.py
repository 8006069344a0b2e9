"""Compares a kept header of the C API with the one of today: abi_test.py KEPT NOW.

What a program was compiled with must still be there: each struct begins with the fields that it had, in their order and with
their types; the table begins with its functions; enumerators have their numbers. Checks itself first, on changes that it must
find and on those that it must allow.
"""
import re
import sys

# Arrays of these are handed over, so they may not even grow.
FIXED = ("MlcTensor", "MlcString", "MlcBytes", "MlcService")


def parse(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"[ \t]*\\\n", " ", text)
    defines = dict(re.findall(r"^#define\s+(MLC_\w+)\s+(\S+)\s*$", text, flags=re.M))
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    structs = {}
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\}\s*(\w+);", text, flags=re.S):
        structs[name] = fields(body)
    enumerators = {}
    for body in re.findall(r"enum \w*\s*\{(.*?)\}", text, flags=re.S):
        for name, value in re.findall(r"(\w+)\s*=\s*(\d+)", body):
            enumerators[name] = int(value)
    callbacks = {name: squeezed(line) for line, name in re.findall(r"(typedef [^;{}]*\(\*(\w+)\)[^;{}]*;)", text)}
    exports = {name: squeezed(line) for line, name in re.findall(r"(MLC_EXPORT[^;{}]*?(\w+)\([^;{}]*\);)", text)}
    return {"structs": structs, "enumerators": enumerators, "callbacks": callbacks, "exports": exports,
            "defines": {k: v for k, v in defines.items() if k in ("MLC_MAX_RANK", "MLC_NO_LIMIT")}}


def squeezed(text):
    return re.sub(r"\s*([*,()\[\];])\s*", r"\1", re.sub(r"\s+", " ", text.strip()))


def fields(body):
    """Declarations one by one: `uint32_t a, b[2];` are two."""
    out = []
    for declaration in body.split(";"):
        declaration = squeezed(declaration)
        if not declaration:
            continue
        if "(" in declaration:
            out.append(declaration)
            continue
        first, *others = declaration.split(",")
        kind = re.match(r"(.*?[\s*])\w+(\[\w+\])*$", first).group(1)
        out += [first] + [kind + other for other in others]
    return out


def differences(kept, now):
    found = []
    for name, old in kept["structs"].items():
        new = now["structs"].get(name)
        if new is None:
            found.append(f"struct {name} is gone")
        elif new[: len(old)] != old:
            at = next(i for i, field in enumerate(old) if i >= len(new) or new[i] != field)
            found.append(f"{name}: '{old[at]}' expected, '{new[at] if at < len(new) else 'nothing'}' found")
        elif name in FIXED and new != old:
            found.append(f"{name} may not grow")
    for what in ("enumerators", "callbacks", "exports", "defines"):
        for name, old in kept[what].items():
            if now[what].get(name) != old:
                found.append(f"{name} was '{old}', is '{now[what].get(name, 'gone')}'")
    return found


def check_itself(text):
    kept = parse(text)
    assert len(kept["structs"]) > 20 and len(kept["enumerators"]) > 40 and len(kept["exports"]) == 2, "the header is not understood"
    assert len(kept["structs"]["MlcApi"]) > 40 and kept["callbacks"], "the table is not understood"
    assert not differences(kept, parse(text))

    def changed(old, new):
        assert old in text, old
        return differences(kept, parse(text.replace(old, new, 1)))

    for old, new in (("int32_t verify;", "int64_t verify;"), ("int32_t verify;", "int32_t check;"),
                     ("uint64_t bytes; /* of the container */\n", ""), ("MLC_USAGE = 2", "MLC_USAGE = 9"),
                     ("uint32_t num_inputs, num_outputs;", "uint32_t num_outputs, num_inputs;"),
                     ("  void (*model_release)(MlcModel* model);\n", ""),
                     ("  void (*model_release)(MlcModel* model);\n", "  int (*model_release)(MlcModel* model);\n"),
                     ("  void (*pool_release)", "  void (*news)(void);\n  void (*pool_release)"),
                     ("#define MLC_MAX_RANK 8", "#define MLC_MAX_RANK 9"),
                     ("} MlcString;", "  uint64_t more;\n} MlcString;"),
                     ("typedef void (*MlcDone)(void* user, int code,", "typedef void (*MlcDone)(int code, void* user,"),
                     ("mlc_get_api(uint32_t version)", "mlc_get_api(uint64_t version)")):
        assert changed(old, new), f"not found: {old!r} -> {new!r}"
    for old, new in (("} MlcApi;", "  void (*news)(void);\n} MlcApi;"), ("} MlcModelInfo;", "  uint64_t more;\n} MlcModelInfo;"),
                     ("MLC_I2 = 24", "MLC_I2 = 24, MLC_NEWS = 25"), ("int32_t verify;", "int32_t  verify ; /* other words */")):
        assert not changed(old, new), f"not allowed: {old!r} -> {new!r}: {changed(old, new)}"


def main():
    kept, now = (open(path, encoding="utf-8").read() for path in sys.argv[1:3])
    check_itself(kept)
    found = differences(parse(kept), parse(now))
    for line in found:
        print(line)
    return 1 if found else 0


sys.exit(main())
