"""Cases of ai.onnx with strings: what looks into them, and sequences, optionals and control flow that hold them."""
import numpy as np
import onnx
from onnx import TensorProto, helper

STRING = TensorProto.STRING


def text(values):
    return np.array(values, dtype=object)


def node(op, inputs, outputs=("y0",), **attributes):
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def tensor(rank, kind=STRING):
    return helper.make_tensor_type_proto(kind, [None] * rank)


def sequence(rank, kind=STRING):
    return helper.make_sequence_type_proto(tensor(rank, kind))


def graph(nodes, inputs, outputs, name="body"):
    port = lambda n, t: helper.make_value_info(n, t)
    return helper.make_graph(nodes, name, [port(n, t) for n, t in inputs], [port(n, t) for n, t in outputs])


def unique(cases):
    grid = text([["b", "a", "b"], ["", "ü", "b"], ["b", "a", "b"], ["B", "aa", "z"]])
    for keep in (0, 1):
        for axis in (None, 0, 1, -1):
            more = {} if axis is None else {"axis": axis}
            label = f"{'sorted' if keep else 'as_found'}_{'flat' if axis is None else axis}"
            outputs = ["y0", "y1", "y2", "y3"]
            cases.add(f"unique_{label}", node("Unique", ["x0"], outputs, sorted=keep, **more), [grid], outputs)
        cases.add(f"unique_{keep}_first_result", node("Unique", ["x0"], ["y0"], sorted=keep), [grid])
        cases.add(f"unique_{keep}_counts", node("Unique", ["x0"], ["", "", "", "y0"], sorted=keep), [grid], expected=[
            np.unique(grid.reshape(-1).astype(str), return_counts=True)[1] if keep else np.array([5, 2, 1, 1, 1, 1, 1])])
        cases.add(f"unique_{keep}_free", node("Unique", ["x0"], ["y0", "y1", "y2", "y3"], sorted=keep), [grid], ["y0", "y1", "y2", "y3"], free=True)
    many = text([f"{(k * 7919) % 61:x}" for k in range(200)])
    cases.add("unique_many", node("Unique", ["x0"], ["y0", "y1", "y2", "y3"]), [many], ["y0", "y1", "y2", "y3"])
    cases.add("unique_one", node("Unique", ["x0"], ["y0", "y1", "y2", "y3"]), [text(["only"])], ["y0", "y1", "y2", "y3"])
    cases.add("unique_none", node("Unique", ["x0"], ["y0"]), [text([])], expected=[text([])])


def casts(cases):
    numbers = {"float": np.array([1, -0.5, 1e10, 1.5e-7, np.inf], np.float32), "double": np.array([0.1, 1e300]), "int32": np.array([5, -6], np.int32),
               "int64": np.array([2**62, -1]), "uint8": np.array([0, 255], np.uint8), "bool": np.array([True, False])}
    for name, values in numbers.items():
        want = text([str(v) if not np.issubdtype(values.dtype, np.floating) else repr(v.item()) if values.dtype == np.float64 else
                     np.format_float_positional(v, trim="0") if 1e-4 <= abs(v) < 1e16 else str(v) for v in values])
        cases.add(f"cast_to_string_{name}", node("Cast", ["x0"], to=STRING), [values], expected=[want])
        cases.add(f"cast_like_string_{name}", node("CastLike", ["x0", "x1"]), [values, text(["a"])], expected=[want])
    for name, kind in (("float", np.float32), ("double", np.float64), ("int32", np.int32), ("int64", np.int64), ("float16", np.float16), ("int8", np.int8)):
        given = ["1", "-12", "7"] if "int" in name else ["1.5", "-2e3", "inf", " 4 "]
        cases.add(f"cast_from_string_{name}", node("Cast", ["x0"], to=helper.np_dtype_to_tensor_dtype(np.dtype(kind))), [text(given)], expected=[np.array([float(v) for v in given]).astype(kind)])
        cases.add(f"cast_like_{name}", node("CastLike", ["x0", "x1"]), [text(given), np.zeros(1, kind)], expected=[np.array([float(v) for v in given]).astype(kind)])


def sequences(cases):
    a, b, c = text(["a", "b"]), text(["c"]), text(["d", "", "f"])
    cases.add("list_through", node("Identity", ["x0"]), [[a, b, c]], expected=[[a, b, c]], opset=16, types={"y0": sequence(1)})
    cases.add("list_made", node("SequenceConstruct", ["x0", "x1"]), [a, b], expected=[[a, b]], types={"y0": sequence(1)})
    cases.add("list_made_free", node("SequenceConstruct", ["x0", "x1"]), [a, b], expected=[[a, b]], types={"y0": sequence(1)}, free=True)
    cases.add("list_at", node("SequenceAt", ["x0", "x1"]), [[a, b, c], np.array(2)], expected=[c])
    cases.add("list_at_end", node("SequenceAt", ["x0", "x1"]), [[a, b, c], np.array(-2)], expected=[b])
    cases.add("list_length", node("SequenceLength", ["x0"]), [[a, b, c]], expected=[np.array(3)])
    cases.add("list_insert", node("SequenceInsert", ["x0", "x1", "x2"]), [[a, b], c, np.array(1)], expected=[[a, c, b]], types={"y0": sequence(1)})
    cases.add("list_append", node("SequenceInsert", ["x0", "x1"]), [[a, b], c], expected=[[a, b, c]], types={"y0": sequence(1)})
    cases.add("list_erase", node("SequenceErase", ["x0", "x1"]), [[a, b, c], np.array(0)], expected=[[b, c]], types={"y0": sequence(1)})
    cases.add("list_from_nothing", [node("SequenceEmpty", [], ["none"], dtype=STRING), node("SequenceInsert", ["none", "x0"])], [a], expected=[[a]], types={"y0": sequence(1)})
    cases.add("list_joined", node("ConcatFromSequence", ["x0"], axis=0), [[a, b, c]], expected=[np.concatenate([a, b, c])])
    cases.add("list_stacked", node("ConcatFromSequence", ["x0"], axis=1, new_axis=1), [[a, text(["x", "y"])]], expected=[text([["a", "x"], ["b", "y"]])])
    grid = text([["a", "b", "c"], ["d", "e", "f"], ["g", "h", ""], ["j", "k", "l"]])
    cases.add("list_split", node("SplitToSequence", ["x0"], axis=0), [grid], expected=[[row[None] for row in grid]], types={"y0": sequence(2)})
    cases.add("list_split_dropping", node("SplitToSequence", ["x0"], axis=1, keepdims=0), [grid], expected=[[grid[:, k] for k in range(3)]], types={"y0": sequence(1)})
    cases.add("list_split_lengths", node("SplitToSequence", ["x0", "x1"], axis=0), [grid, np.array([1, 3])], expected=[[grid[:1], grid[1:]]], types={"y0": sequence(2)})
    cases.add("list_split_free", [node("SplitToSequence", ["x0", "x1"], ["pieces"], axis=0), node("SequenceErase", ["pieces", "x2"])], [grid, np.array(3), np.array(0)],
              expected=[[grid[3:]]], types={"y0": sequence(2)}, free=True)
    cases.add("list_upper", [node("SequenceAt", ["x0", "x1"], ["one"]), node("StringNormalizer", ["one"], case_change_action="UPPER")], [[a, c], np.array(0)], expected=[text(["A", "B"])],
              types={"x0": sequence(1)})


def optionals(cases):
    a = text(["a", "b"])
    maybe, maybe_list = helper.make_optional_type_proto(tensor(1)), helper.make_optional_type_proto(sequence(1))
    truth = lambda v: np.array(v)
    cases.add("optional_get", node("OptionalGetElement", ["x0"]), [[a]], types={"x0": maybe}, expected=[a], opset=18)
    cases.add("optional_has", node("OptionalHasElement", ["x0"]), [[a]], types={"x0": maybe}, expected=[truth(True)], opset=18)
    cases.add("optional_has_not", node("OptionalHasElement", ["x0"]), [None], types={"x0": maybe}, expected=[truth(False)], opset=18)
    cases.add("optional_made", node("Optional", ["x0"]), [a], types={"y0": maybe}, expected=[[a]], opset=15)
    cases.add("optional_through", node("Identity", ["x0"]), [[a]], types={"x0": maybe, "y0": maybe}, expected=[[a]], opset=16)
    kind = helper.make_node("Optional", [], ["y0"])
    kind.attribute.append(helper.make_attribute("type", tensor(1)))
    cases.add("optional_empty", [kind], [], types={"y0": maybe}, expected=[None], opset=15)
    has = [node("OptionalHasElement", ["x0"], ["has"]),
           node("If", ["has"], ["y0"], then_branch=graph([node("OptionalGetElement", ["x0"], ["t"])], [], [("t", tensor(1))]),
                else_branch=graph([node("Constant", [], ["e"], value_strings=["none"])], [], [("e", tensor(1))]))]
    cases.add("optional_or", has, [[a]], types={"x0": maybe}, expected=[a], opset=18)
    cases.add("optional_or_not", has, [None], types={"x0": maybe}, expected=[text(["none"])], opset=18)
    del maybe_list


def control(cases):
    a, b = text(["a", "b"]), text(["x", "y", "z"])
    branch = lambda name: graph([node("Identity", [name], [name + "_out"])], [], [(name + "_out", tensor(1))], name)
    choice = node("If", ["x2"], then_branch=branch("x0"), else_branch=branch("x1"))
    for truth in (True, False):
        cases.add(f"if_{truth}", choice, [a, b, np.array(truth)], expected=[a if truth else b])
        made = node("If", ["x0"], then_branch=graph([node("Constant", [], ["t"], value_strings=["yes"])], [], [("t", tensor(1))]),
                    else_branch=graph([node("Constant", [], ["e"], value_strings=["no", "no"])], [], [("e", tensor(1))]))
        cases.add(f"if_constants_{truth}", made, [np.array(truth)], expected=[text(["yes"] if truth else ["no", "no"])])
        lists = node("If", ["x2"], then_branch=graph([node("SequenceConstruct", ["x0"], ["t"])], [], [("t", sequence(1))]),
                     else_branch=graph([node("SequenceConstruct", ["x1", "x0"], ["e"])], [], [("e", sequence(1))]))
        cases.add(f"if_lists_{truth}", lists, [a, b, np.array(truth)], expected=[[a] if truth else [b, a]], types={"y0": sequence(1)})
    number, flag = tensor(0, TensorProto.INT64), tensor(0, TensorProto.BOOL)
    loop = ("n", number), ("go", flag)
    body = graph([node("Identity", ["go"], ["on"]), node("StringConcat", ["s", "x2"], ["longer"]), node("Identity", ["longer"], ["seen"])],
                 [*loop, ("s", tensor(1))], [("on", flag), ("longer", tensor(1)), ("seen", tensor(1))])
    nodes = node("Loop", ["x0", "", "x1"], ["y0", "y1"], body=body)
    want = [text(["a!!!", "b!!!"]), text([["a!", "b!"], ["a!!", "b!!"], ["a!!!", "b!!!"]])]
    cases.add("loop", nodes, [np.array(3), a, text(["!"])], ["y0", "y1"], expected=want)
    cases.add("loop_free", nodes, [np.array(3), a, text(["!"])], ["y0", "y1"], expected=want, types={"x1": tensor(1)})
    cases.add("loop_no_runs", node("Loop", ["x0", "", "x1"], ["y0"], body=body), [np.array(0), a, text(["!"])], ["y0"], expected=[a])
    grows = graph([node("Identity", ["go"], ["on"]), node("Concat", ["s", "x2"], ["longer"], axis=0)], [*loop, ("s", tensor(1))], [("on", flag), ("longer", tensor(1))])
    cases.add("loop_grows", node("Loop", ["x0", "", "x1"], ["y0"], body=grows), [np.array(2), a, b], expected=[np.concatenate([a, b, b])])
    keeps = graph([node("Identity", ["go"], ["on"]), node("SequenceInsert", ["l", "x2"], ["longer"])], [*loop, ("l", sequence(1))], [("on", flag), ("longer", sequence(1))])
    cases.add("loop_lists", node("Loop", ["x0", "", "x1"], ["y0"], body=keeps), [np.array(2), [a], b], expected=[[a, b, b]], types={"x1": sequence(1), "y0": sequence(1)})
    stops = graph([node("Gather", ["x1", "n"], ["word"], axis=0), node("Equal", ["word", "x2"], ["found"]), node("Not", ["found"], ["on"]), node("Identity", ["word"], ["last"])],
                  [*loop, ("s", tensor(0))], [("on", flag), ("last", tensor(0))])
    cases.add("loop_until", node("Loop", ["", "x3", "x0"], ["y0"], body=stops), [text(""), text(["a", "b", "stop", "c"]), text("stop"), np.array(True)], expected=[text("stop")])
    state = graph([node("StringConcat", ["s", "row"], ["next"]), node("Identity", ["next"], ["out"])], [("s", tensor(1)), ("row", tensor(1))], [("next", tensor(1)), ("out", tensor(1))])
    rows = text([["1", "2"], ["3", "4"], ["5", ""]])
    cases.add("scan", node("Scan", ["x0", "x1"], ["y0", "y1"], body=state, num_scan_inputs=1), [a, rows], ["y0", "y1"],
              expected=[text(["a135", "b24"]), text([["a1", "b2"], ["a13", "b24"], ["a135", "b24"]])])
    cases.add("scan_backwards", node("Scan", ["x0", "x1"], ["y0", "y1"], body=state, num_scan_inputs=1, scan_input_directions=[1], scan_output_axes=[1]), [a, rows], ["y0", "y1"],
              expected=[text(["a531", "b42"]), text([["a5", "a53", "a531"], ["b", "b4", "b42"]])])
    upper = graph([node("StringNormalizer", ["s"], ["big"], case_change_action="UPPER")], [("s", tensor(1))], [("big", tensor(1))])
    cases.add("map_list", node("SequenceMap", ["x0"], ["y0"], body=upper), [[a, b]], expected=[[text(["A", "B"]), text(["X", "Y", "Z"])]], types={"y0": sequence(1)}, opset=17)
    both = graph([node("StringConcat", ["s", "t"], ["st"])], [("s", tensor(1)), ("t", tensor(1))], [("st", tensor(1))])
    cases.add("map_list_with", node("SequenceMap", ["x0", "x1"], ["y0"], body=both), [[a, b], text(["-"])], expected=[[text(["a-", "b-"]), text(["x-", "y-", "z-"])]],
              types={"y0": sequence(1)}, opset=20)


def looking(cases):
    x = text([["a,b", "c"], ["", "d,e,,f"]])
    # ONNX Runtime makes no piece of an empty text, whatever separates; the reference does as Python.
    for separator in (None, ",", ""):
        for most in (None, 1):
            more = {**({} if separator is None else {"delimiter": separator}), **({} if most is None else {"maxsplit": most})}
            cases.add(f"split_{separator}_{most}", node("StringSplit", ["x0"], ["y0", "y1"], **more), [text([["a,b c", " c "], ["", "d, e,,f"]])], ["y0", "y1"], reference=True)
    cases.add("split_free", node("StringSplit", ["x0"], ["y0", "y1"], delimiter=","), [x], ["y0", "y1"], free=True, reference=True)
    cases.add("concat_broadcast", node("StringConcat", ["x0", "x1"]), [x, text(["!", "?"])], opset=20)
    cases.add("concat_free", node("StringConcat", ["x0", "x1"]), [x, x], opset=20, free=True)
    cases.add("match", node("RegexFullMatch", ["x0"], pattern="[a-z](,[a-z])*"), [x], opset=20)
    for change in ("NONE", "LOWER", "UPPER"):
        for case in (0, 1):
            words = text(["Über", "the", "THE", "cat"])
            cases.add(f"normalize_{change}_{case}", node("StringNormalizer", ["x0"], case_change_action=change, is_case_sensitive=case, stopwords=["the"]), [words], expected=[
                text([w if change == "NONE" else w.lower() if change == "LOWER" else w.upper() for w in words if (w if case else w.lower()) != "the"])])
    cases.add("constants", [node("Constant", [], ["c"], value_strings=["p", "q"]), node("Concat", ["x0", "c", "w"], axis=0)], [text(["a"])], constants={"w": text(["weight"])},
              expected=[text(["a", "p", "q", "weight"])])
    cases.add("order_refused_nowhere", node("Equal", ["x0", "x1"]), [x, text(["c", "c"])], opset=19, expected=[x == "c"])


def collect(cases, Map):
    del Map
    unique(cases)
    casts(cases)
    sequences(cases)
    optionals(cases)
    control(cases)
    looking(cases)
