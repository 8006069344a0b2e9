"""Cases of ai.onnx.ml and com.microsoft with strings and maps."""
import numpy as np
from onnx import TensorProto, helper

ML = "ai.onnx.ml"
WORDS = ["cat", "dog", "", "bird", "Ünïcode", "a longer one"]


def text(values):
    return np.array(values, dtype=object)


def ml(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, domain=ML, **attributes)


def labels(cases):
    x = {"strings": text([["dog", "cat"], ["?", "bird"]]), "int64s": np.array([[7, -3], [0, 12]]), "floats": np.array([[1.5, np.nan], [0.25, 9]], np.float32)}
    keys = {"strings": ["cat", "dog", "bird"], "int64s": [-3, 7, 12], "floats": [0.25, 1.5, float("nan")]}
    values = {"strings": ["one", "zwei", "trois"], "int64s": [10, -20, 30], "floats": [0.5, -1.5, 2.25]}
    default = {"strings": ("default_string", "none"), "int64s": ("default_int64", 99), "floats": ("default_float", 9.5)}
    for key in keys:
        for value in values:
            if "strings" not in (key, value):
                continue
            for opset in (2, 4):
                attributes = {f"keys_{key}": keys[key], f"values_{value}": values[value]}
                # A NaN finds a NaN in both versions' definitions, in ONNX Runtime's kernel of the older one it does not.
                nan = (None, None)
                if key == "floats":
                    nan = [[text([["zwei", v], ["one", v]])] for v in ("_Unused", "none")]
                    for y in nan:
                        y[0][0, 1] = "trois"
                cases.add(f"labels_{key}_{value}_v{opset}", ml("LabelEncoder", ["x0"], ["y0"], **attributes), [x[key]], ml=opset if opset == 4 else 3, expected=nan[0])
                cases.add(f"labels_{key}_{value}_v{opset}_default", ml("LabelEncoder", ["x0"], ["y0"], **attributes, **dict([default[value]])), [x[key]], ml=opset if opset == 4 else 3, expected=nan[1])
    kinds = {"string": (TensorProto.STRING, ["cat", "dog", "bird"], x["strings"]), "int64": (TensorProto.INT64, [-3, 7, 12], x["int64s"]),
             "float": (TensorProto.FLOAT, [0.25, 1.5, 4.0], x["floats"]), "double": (TensorProto.DOUBLE, [0.25, 1.5, 4.0], x["floats"].astype(np.float64)),
             "int32": (TensorProto.INT32, [-3, 7, 12], x["int64s"].astype(np.int32)), "int16": (TensorProto.INT16, [-3, 7, 12], x["int64s"].astype(np.int16))}
    for key, (kt, kv, given) in kinds.items():
        for value, (vt, vv, _) in kinds.items():
            if "string" not in (key, value):
                continue
            tensors = {"keys_tensor": helper.make_tensor("k", kt, [3], kv if key != "string" else [s.encode() for s in kv]),
                       "values_tensor": helper.make_tensor("v", vt, [3], vv if value != "string" else [s.encode() for s in vv]),
                       "default_tensor": helper.make_tensor("d", vt, [1], [b"other"] if value == "string" else [5])}
            table = dict(zip(kv, vv))
            other = "other" if value == "string" else 5
            y = np.array([table.get(v, other) for v in given.reshape(-1).tolist()],
                         dtype=object if value == "string" else helper.tensor_dtype_to_np_dtype(vt)).reshape(given.shape)
            cases.add(f"labels_tensor_{key}_{value}", ml("LabelEncoder", ["x0"], ["y0"], **tensors), [given], expected=[y])
    cases.add("labels_v1_strings", ml("LabelEncoder", ["x0"], ["y0"], classes_strings=WORDS), [text(["dog", "?", "", "Ünïcode"])], ml=1)
    cases.add("labels_v1_strings_default", ml("LabelEncoder", ["x0"], ["y0"], classes_strings=WORDS, default_int64=77), [text([["dog", "?"]])], ml=1)
    cases.add("labels_v1_int64s", ml("LabelEncoder", ["x0"], ["y0"], classes_strings=WORDS), [np.array([[0, 5, 6], [-1, 2, 4]])], ml=1)
    cases.add("labels_v1_int64s_default", ml("LabelEncoder", ["x0"], ["y0"], classes_strings=WORDS, default_string="what"), [np.array([3, 17])], ml=1)


def categories(cases):
    x, n = text([["dog", "cat"], ["?", ""]]), np.array([[7, -3], [0, 12]])
    pairs = {"cats_strings": ["cat", "dog", ""], "cats_int64s": [-3, 7, 0]}
    for more in ({}, {"default_string": "other", "default_int64": 55}):
        label = "_default" if more else ""
        cases.add("categories_strings" + label, ml("CategoryMapper", ["x0"], ["y0"], **pairs, **more), [x], ml=1)
        cases.add("categories_numbers" + label, ml("CategoryMapper", ["x0"], ["y0"], **pairs, **more), [n], ml=1)
        cases.add("categories_free" + label, ml("CategoryMapper", ["x0"], ["y0"], **pairs, **more), [x], ml=1, free=True)
    for zeros in (0, 1):
        known, open_ = text([["dog", "cat"], ["", "dog"]]), text([["dog", "?"], ["", "dog"]])
        cases.add(f"one_hot_strings_zeros{zeros}", ml("OneHotEncoder", ["x0"], ["y0"], cats_strings=["cat", "dog", ""], zeros=zeros), [known])
        cases.add(f"one_hot_numbers_zeros{zeros}", ml("OneHotEncoder", ["x0"], ["y0"], cats_int64s=[4, 2, 9], zeros=zeros), [np.array([[2, 9, 4]])])
        if zeros:
            cases.add("one_hot_strings_unknown", ml("OneHotEncoder", ["x0"], ["y0"], cats_strings=["cat", "dog", ""], zeros=1), [open_])
    cases.add("one_hot_strings_free", ml("OneHotEncoder", ["x0"], ["y0"], cats_strings=["cat", "dog"]), [text(["dog", "emu"])], free=True)
    cases.add("extractor_strings", ml("ArrayFeatureExtractor", ["x0", "x1"], ["y0"]), [text([["a", "b", "c"], ["d", "e", "f"]]), np.array([2, 0])])
    cases.add("extractor_strings_flat", ml("ArrayFeatureExtractor", ["x0", "x1"], ["y0"]), [text(["a", "b", "c"]), np.array([1])])


def counting(cases):
    words = text([["the", "cat", "sat", "on", "the", "mat"], ["a", "cat", "on", "the", "cat", ""]])
    pool = ["the", "cat", "on", "the", "cat", "cat", "sat", "on", "the", "the", "cat", "sat"]
    shapes = {"pool_strings": pool, "ngram_counts": [0, 3, 9], "ngram_indexes": [2, 0, 1, 3, 5, 4, 6]}
    for mode in ("TF", "IDF", "TFIDF"):
        for low, high, skip in ((1, 1, 0), (1, 2, 0), (2, 3, 1), (1, 3, 2)):
            weights = {"weights": [0.5, 1.0, 2.0, 3.0, 0.25, 1.5, 4.0]} if mode != "TF" else {}
            node = helper.make_node("TfIdfVectorizer", ["x0"], ["y0"], mode=mode, min_gram_length=low, max_gram_length=high, max_skip_count=skip, **shapes, **weights)
            cases.add(f"counts_{mode}_{low}{high}{skip}", node, [words], opset=9)
            cases.add(f"counts_{mode}_{low}{high}{skip}_vector", node, [words[0]], opset=9)
    cases.add("counts_free", helper.make_node("TfIdfVectorizer", ["x0"], ["y0"], mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0, **shapes), [words], opset=9, free=True)


def tokens(cases):
    def add(name, values, free=False, **attributes):
        node = helper.make_node("Tokenizer", ["x0"], ["y0"], domain="com.microsoft", **{"mark": 0, "mincharnum": 1, "pad_value": "#", **attributes})
        cases.add("tokens_" + name, node, [values], free=free, types={"y0": helper.make_tensor_type_proto(TensorProto.STRING, [None] * (values.ndim + 1))})
    lines = text(["The cat, the dog.", "one", "  a-b  c;d ", "Grüße aus Köln"])
    for mark in (0, 1):
        add(f"words_{mark}", lines, tokenexp="[a-zA-Z0-9_]+", mark=mark)
        add(f"letters_{mark}", text(["abc", "ü", "x y"]), separators=[""], mark=mark)
        add(f"separators_{mark}", lines, separators=[" ", "[,.;]"], mark=mark)
        add(f"rows_{mark}", lines.reshape(2, 2), tokenexp="[a-z]+", mark=mark)
    add("long_words", lines, tokenexp="[a-zA-Z]+", mincharnum=3)
    add("long_pieces", lines, separators=[" "], mincharnum=4, pad_value="pad")
    add("alternatives", text(["abcabd", "ab"]), tokenexp="ab|abc|d")
    add("free", lines, tokenexp="\\w+", free=True)
    add("any_letter", text(["ab", "c"]), tokenexp=".")


def classifiers(cases):
    rng = np.random.default_rng(5)
    def f(*shape):
        return rng.standard_normal(shape).astype(np.float32)
    def some(count):
        return [float(v) for v in f(count)]
    x = f(6, 4)
    names = {2: ["no", "yes"], 3: ["red", "green", "blue"]}
    out = ["y0", "y1"]
    for count, classes in names.items():
        for post in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
            cases.add(f"linear_{count}_{post}", ml("LinearClassifier", ["x0"], out, coefficients=some(4 * count), intercepts=some(count), classlabels_strings=classes, post_transform=post), [x], out)
    cases.add("linear_one_row", ml("LinearClassifier", ["x0"], out, coefficients=some(4), intercepts=some(1), classlabels_strings=names[2], post_transform="LOGISTIC"), [x], out)
    cases.add("linear_free", ml("LinearClassifier", ["x0"], out, coefficients=some(12), intercepts=some(3), classlabels_strings=names[3], post_transform="SOFTMAX"), [x], out, free=True)
    cases.add("linear_label_alone", ml("LinearClassifier", ["x0"], ["y0", "y1"], coefficients=some(12), intercepts=some(3), classlabels_strings=names[3]), [x], ["y0"])
    for count, classes in names.items():
        pairs, vectors = count * (count - 1) // 2, [2, 1, 2][:count]
        base = dict(kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0], support_vectors=some(4 * sum(vectors)), coefficients=some((count - 1) * sum(vectors)),
                    vectors_per_class=vectors, rho=some(pairs), classlabels_strings=classes)
        cases.add(f"svm_{count}", ml("SVMClassifier", ["x0"], out, **base), [x], out)
        cases.add(f"svm_{count}_sure", ml("SVMClassifier", ["x0"], out, **base, prob_a=[-1.5] * pairs, prob_b=[0.25] * pairs), [x], out, tolerance=(1e-3, 1e-5))
    for count, classes in names.items():
        trees = dict(nodes_treeids=[0] * 5, nodes_nodeids=[0, 1, 2, 3, 4], nodes_featureids=[0, 1, 0, 0, 0], nodes_values=[0.1, -0.2, 0.0, 0.0, 0.0],
                     nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"], nodes_truenodeids=[1, 3, 0, 0, 0], nodes_falsenodeids=[2, 4, 0, 0, 0],
                     nodes_hitrates=[1.0] * 5, nodes_missing_value_tracks_true=[0] * 5)
        leaves = [(2, 0, 0.7), (2, 1, 0.3), (3, 0, 0.1), (3, 1, 0.9), (4, 0, 0.2), (4, 1, 0.2)] + ([(2, 2, 0.2), (3, 2, 0.4), (4, 2, 0.6)] if count == 3 else [])
        leaves.sort()
        scores = dict(class_treeids=[0] * len(leaves), class_nodeids=[n for n, _, _ in leaves], class_ids=[c for _, c, _ in leaves], class_weights=[w for _, _, w in leaves])
        for post in ("NONE", "SOFTMAX"):
            # Of two classes that both have votes ONNX Runtime gives the second wherever its score is positive, not where it is larger.
            votes = np.array([[w for n, c, w in leaves if n == leaf] for leaf in np.where(x[:, 0] > np.float32(0.1), 2, np.where(x[:, 1] > np.float32(-0.2), 4, 3))], np.float32)
            label = text([classes[k] for k in votes.argmax(1)])
            raised = np.exp(votes - votes.max(1, keepdims=True))
            cases.add(f"trees_{count}_{post}", ml("TreeEnsembleClassifier", ["x0"], out, **trees, **scores, classlabels_strings=classes, post_transform=post), [x], out, ml=3,
                      expected=[label, votes if post == "NONE" else raised / raised.sum(1, keepdims=True)] if count == 2 else None)
        if count == 2:
            one = dict(class_treeids=[0] * 3, class_nodeids=[2, 3, 4], class_ids=[0, 0, 0], class_weights=[0.7, 0.1, 0.6])
            cases.add("trees_one_score", ml("TreeEnsembleClassifier", ["x0"], out, **trees, **one, classlabels_strings=classes), [x], out, ml=3)


def maps(cases, Map):
    rng = np.random.default_rng(6)
    def f(*shape):
        return rng.standard_normal(shape).astype(np.float32)
    def scores(kind):
        return helper.make_sequence_type_proto(helper.make_map_type_proto(kind, helper.make_tensor_type_proto(TensorProto.FLOAT, []))) if hasattr(helper, "make_map_type_proto") else map_list(kind)
    def map_list(kind):
        import onnx
        proto = onnx.TypeProto()
        proto.map_type.key_type = kind
        proto.map_type.value_type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        return helper.make_sequence_type_proto(proto)
    zips = {"strings": (TensorProto.STRING, {"classlabels_strings": ["red", "green", "blue"]}), "int64s": (TensorProto.INT64, {"classlabels_int64s": [7, -2, 5]})}
    for name, (kind, attributes) in zips.items():
        for free in (False, True):
            cases.add(f"zip_{name}{'_free' * free}", ml("ZipMap", ["x0"], ["y0"], **attributes), [f(4, 3)], types={"y0": map_list(kind)}, free=free)
        cases.add(f"zip_{name}_vector", ml("ZipMap", ["x0"], ["y0"], **attributes), [f(3)], types={"y0": map_list(kind)})
    chain = [ml("Scaler", ["x0"], ["scaled"], offset=[0.5], scale=[2.0]),
             ml("LinearClassifier", ["scaled"], ["y0", "scores"], coefficients=[float(v) for v in f(12)], intercepts=[0.5, -0.25, 0.0], classlabels_strings=["a", "b", "c"], post_transform="SOFTMAX"),
             ml("Normalizer", ["scores"], ["sure"], norm="L1"), ml("ZipMap", ["sure"], ["y1"], classlabels_strings=["a", "b", "c"])]
    cases.add("zip_of_classifier", chain, [f(5, 4)], ["y0", "y1"], types={"y1": map_list(TensorProto.STRING)})
    cases.add("zip_of_classifier_free", chain, [f(5, 4)], ["y0", "y1"], types={"y1": map_list(TensorProto.STRING), "x0": helper.make_tensor_type_proto(TensorProto.FLOAT, [None, 4])})

    numbers = {"int64": np.array([3, -4, 5]), "float": np.array([0.5, 1.5, -2], np.float32), "double": np.array([0.25, 8, -1]), "string": text(["x", "", "zz"])}
    for value, items in numbers.items():
        words = Map(text(["dog", "cat", "emu"]), items)
        codes = Map(np.array([30, 10, -20]), items)
        # ONNX Runtime is asked where its Python interface takes such a map.
        def collected(m, vocabulary):
            nothing = "" if value == "string" else 0
            return None if value == "float" else [np.array([[m.as_dict().get(k, nothing) for k in vocabulary]], dtype=m.values.dtype)]
        if value != "string":
            vocabulary = ["cat", "yak", "dog", ""]
            cases.add(f"dictionary_string_{value}", ml("DictVectorizer", ["x0"], ["y0"], string_vocabulary=vocabulary), [words], expected=collected(words, vocabulary))
        if value != "int64":
            vocabulary = [10, 11, 30]
            cases.add(f"dictionary_int64_{value}", ml("DictVectorizer", ["x0"], ["y0"], int64_vocabulary=vocabulary), [codes], expected=collected(codes, vocabulary))
    floats, texts = Map(np.array([4, 0, 2]), np.array([1.5, -2, 7], np.float32)), Map(np.array([3, 1, 0]), text(["12", "-3", "7"]))
    for to, result in (("TO_FLOAT", np.float32), ("TO_INT64", np.int64), ("TO_STRING", object)):
        for form, extent in (("DENSE", 1), ("SPARSE", 6)):
            # ONNX Runtime writes floats with six decimals where Cast writes as many as are needed: the definition says neither.
            def written(v):
                return v if isinstance(v, str) else (np.format_float_positional(np.float32(v), trim="0") if result == object else v)
            def row(m):
                values = {int(k): written(v) for k, v in m.as_dict().items()}
                if form == "DENSE":
                    return [values[k] for k in sorted(values)]
                return [values.get(k, "" if result == object else 0) for k in range(extent)]
            for name, m in (("float", floats), ("string", texts)):
                y = np.array([[v if result == object else result(float(v)) for v in row(m)]], dtype=result)
                cases.add(f"cast_map_{name}_{to}_{form}", ml("CastMap", ["x0"], ["y0"], cast_to=to, map_form=form, max_map=extent), [m], expected=[y])


def collect(cases, Map):
    labels(cases)
    categories(cases)
    counting(cases)
    tokens(cases)
    classifiers(cases)
    maps(cases, Map)
