#!/usr/bin/env python3
"""Writes the tables that schema/verify_tables.h reads, from a header of flatc: what its Verify() functions check, as rows.

    verify_tables.py manifest_generated.h manifest_fields_generated.h

The functions are 16 KB of code in libmlrt, the rows 1 KB. Fails at any check that it does not know.
"""
import pathlib
import re
import sys

SIZES = {"uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4, "float": 4, "uint64_t": 8, "int64_t": 8, "double": 8}
TABLE = re.compile(r"^struct (\w+) FLATBUFFERS_FINAL_CLASS : private flatbuffers::Table \{(.*?)^\};", re.M | re.S)
CHECK = re.compile(r"VerifyField(Required)?<([\w:]+)>\(verifier, VT_(\w+), (\d)\)|VerifyOffset(Required)?\(verifier, VT_(\w+)\)|verifier\.Verify(\w+)\((\w+)\(\)\)")


def last(name):
    return re.search(r"(\w+)\W*$", name).group(1)


def row(name, body, check, numbers, sizes):
    """The row of the field `name` from what Verify() does with it."""
    scalar, align, required, calls = check
    if scalar:
        kind, of = "Inline", sizes[last(scalar)]
    elif calls == ["String"]:
        kind, of = "String", 1
    elif calls == ["Table"]:
        kind, of = "Table", numbers[last(re.search(rf"const ([\w:]*) \*{name}\(\) const", body).group(1))]
    else:
        item = last(re.search(rf"const flatbuffers::Vector<(.*)> \*{name}\(\) const", body).group(1))
        kind, of = {"Vector": ("Vector", sizes.get(item)), "Vector VectorOfStrings": ("Strings", 4),
                    "Vector VectorOfTables": ("Tables", numbers.get(item))}[" ".join(calls)]
    return f"{{FieldKind::{kind}, {'true' if required else 'false'}, {int(of)}, {align}}}"


def fields_of(table, body, numbers, sizes):
    verify = re.search(r"bool Verify\(flatbuffers::Verifier &verifier\) const \{(.*?)\}", body, re.S).group(1)
    if re.sub(r"return|VerifyTableStart\(verifier\)|verifier\.EndTable\(\)|&&|;|\s", "", CHECK.sub("", verify)):
        raise SystemExit(f"{table}: unknown checks in {verify}")
    found = {}
    for needs, scalar, inline, align, required, offset, call, name in CHECK.findall(verify):
        if call:
            found[name][3].append(call)
        else:
            found[(inline or offset).lower()] = (scalar, align or 4, needs or required, [])
    places = {int(at): name.lower() for name, at in re.findall(r"VT_(\w+) = (\d+)", body)}
    if list(places.values()) != list(found):
        raise SystemExit(f"{table}: not all fields are checked")
    rows = {at: f"{row(name, body, found[name], numbers, sizes)},  // {table}.{name}" for at, name in places.items()}
    return [rows.get(at, "{},  // deprecated") for at in range(4, max(places) + 2, 2)]


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    text = source.read_text(encoding="utf-8")
    tables = TABLE.findall(text)
    numbers = {name: k for k, (name, _) in enumerate(tables)}
    sizes = SIZES | {name: int(size) for name, size in re.findall(r"^FLATBUFFERS_STRUCT_END\((\w+), (\d+)\);", text, re.M)}
    namespace, root = re.search(r"verifier\.VerifyBuffer<([\w:]+)::(\w+)>", text).groups()
    identifier = re.search(r'return "(\w{4})";', text).group(1)
    rows, first = [], [0]
    for name, body in tables:
        rows += fields_of(name, body, numbers, sizes)
        first.append(len(rows))
    target.write_text(f"""// Written by schema/verify_tables.py from {source.name}; do not edit.
#pragma once

#include "schema/verify_tables.h"

namespace {namespace} {{

using mlc::format::FieldKind;
inline constexpr mlc::format::TableField kFields[] = {{
""" + "".join(f"  {{{line[1:]}\n" for line in rows) + f"""}};
inline constexpr uint8_t kFirstFields[] = {{{", ".join(map(str, first))}}};
inline constexpr mlc::format::TableSet kTables{{"{identifier}", kFields, kFirstFields, {numbers[root]}}};

}}  // namespace {namespace}
""", encoding="utf-8")


if __name__ == "__main__":
    main()
