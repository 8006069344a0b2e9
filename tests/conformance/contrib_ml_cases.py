"""Cases for the operators of ai.onnx.ml."""
import numpy as np

ML = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def f32(rng, *shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def floats(rng, count, scale=1.0):
    return [float(v) for v in f32(rng, count, scale=scale)]


def of_type(rng, kind, *shape):
    if np.issubdtype(kind, np.integer):
        return rng.integers(-5, 6, shape).astype(kind)
    return rng.standard_normal(shape).astype(kind)


def features(cases):
    def add(name, *args, **more):
        cases.add("ml_" + name, *args, domain=ML, **more)
    for kind in (np.float32, np.float64, np.int64, np.int32):
        label = np.dtype(kind).name
        add(f"binarizer_{label}", "Binarizer", lambda r: [of_type(r, kind, 3, 4)], {"threshold": 0.5},
            expected=lambda x: [(x > 0.5).astype(x.dtype)])
        add(f"scaler_{label}", "Scaler", lambda r: [of_type(r, kind, 3, 4)], {"offset": [0.5, -1.0, 2.0, 0.0], "scale": [2.0, 0.25, 1.0, -3.0]})
        add(f"scaler_{label}_one", "Scaler", lambda r: [of_type(r, kind, 3, 4)], {"offset": [0.5], "scale": [2.0]})
        for norm in ("MAX", "L1", "L2"):
            add(f"normalizer_{label}_{norm}", "Normalizer", lambda r: [of_type(r, kind, 3, 4)], {"norm": norm})
        add(f"extractor_{label}", "ArrayFeatureExtractor", lambda r: [of_type(r, kind, 3, 5), np.array([[4, 0, 2]])])
        add(f"extractor_{label}_flat", "ArrayFeatureExtractor", lambda r: [of_type(r, kind, 5), np.array([3, 3])])
        add(f"extractor_{label}_cube", "ArrayFeatureExtractor", lambda r: [of_type(r, kind, 2, 3, 5), np.array([1])])
        add(f"one_hot_{label}", "OneHotEncoder", lambda r: [of_type(r, kind, 3, 4)], {"cats_int64s": [-1, 0, 2, 4]},
            expected=lambda x: [(x.astype(np.int64)[..., None] == [-1, 0, 2, 4]).astype(np.float32)])
        add(f"features_{label}", "FeatureVectorizer", lambda r: [of_type(r, kind, 3, 2), of_type(r, kind, 3, 1), of_type(r, kind, 3, 4)],
            {"inputdimensions": [2, 1, 4]})
        integers = np.issubdtype(kind, np.integer)
        given, gone = ("imputed_value_int64s", "replaced_value_int64") if integers else ("imputed_value_floats", "replaced_value_float")
        if kind in (np.float32, np.int64):
            values = [7, 8, 9, 10] if integers else [0.5, 1.5, 2.5, 3.5]
            def holes(r):
                x = of_type(r, kind, 3, 4)
                x[r.random((3, 4)) > 0.6] = 1
                return [x]
            add(f"imputer_{label}", "Imputer", holes, {given: values, gone: values[0] * 0 + 1})
            add(f"imputer_{label}_one", "Imputer", holes, {given: values[:1], gone: values[0] * 0 + 1})
    add("normalizer_zero", "Normalizer", lambda r: [np.array([[0, 0, 0], [1, 2, 2]], np.float32)], {"norm": "L2"})
    def nans(r):
        x = f32(r, 3, 4)
        x[r.random((3, 4)) > 0.6] = np.nan
        return [x]
    add("imputer_nan", "Imputer", nans, {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": float("nan")})
    add("imputer_not_nan", "Imputer", nans, {"imputed_value_floats": [5.0], "replaced_value_float": 0.0})
    add("one_hot_vector", "OneHotEncoder", lambda r: [np.array([3, 1, 9])], {"cats_int64s": [1, 2, 3]})


def labels(cases):
    keys = {"ints": ("keys_int64s", [3, 1, 7], lambda r: np.array([[1, 3], [9, 7]])),
            "floats": ("keys_floats", [0.5, float("nan"), -2.0], lambda r: np.array([[0.5, np.nan], [-2, 4]], np.float32))}
    values = {"ints": ("values_int64s", [10, 20, 30], {"default_int64": -5}), "floats": ("values_floats", [0.1, 0.2, 0.3], {"default_float": 9.5})}
    for key, (name, items, x) in keys.items():
        for value, (to, mapped, default) in values.items():
            for opset in (2, 4):
                if opset == 2 and key == "floats":  # ONNX Runtime finds a NaN from version 4 on
                    x, items = (lambda r: np.array([[0.5, 3.5], [-2, 4]], np.float32)), [0.5, 3.5, -2.0]
                elif key == "floats":
                    x, items = (lambda r: np.array([[0.5, np.nan], [-2, 4]], np.float32)), [0.5, float("nan"), -2.0]
                cases.add(f"ml_labels_{key}_{value}_{opset}", "LabelEncoder", lambda r: [x(r)], {name: items, to: mapped, **default}, domain=ML, opset=opset)
                cases.add(f"ml_labels_{key}_{value}_{opset}_default", "LabelEncoder", lambda r: [x(r)], {name: items, to: mapped}, domain=ML, opset=opset)


    from onnx import numpy_helper
    tensor = lambda v, t: numpy_helper.from_array(np.array(v, t))
    for from_, to in ((np.int64, np.float32), (np.float32, np.int64), (np.float64, np.float64), (np.int16, np.int16), (np.int64, np.int64)):
        for default in (False, True):
            cases.add(f"ml_labels_tensor_{np.dtype(from_).name}_{np.dtype(to).name}_{int(default)}", "LabelEncoder", lambda r: [np.array([[5, 2], [7, 5]]).astype(from_)],
                      {"keys_tensor": tensor([5, 7, 9], from_), "values_tensor": tensor([1, -3, 4], to), **({"default_tensor": tensor([42], to)} if default else {})},
                      domain=ML, opset=4, expected=None if from_ is not np.int16 else  # no kernel there
                      lambda x: [np.select([x == 5, x == 7, x == 9], [1, -3, 4], 42 if default else -1).astype(np.int16)])


def probit(p):
    """As all implementations approximate it."""
    x = 2 * p.astype(np.float64) - 1
    l = np.log((1 - x) * (1 + x))
    v = 2 / (3.14159 * 0.147) + 0.5 * l
    return (1.41421356 * np.sign(x) * np.sqrt(np.sqrt(v * v - l / 0.147) - v)).astype(np.float32)


def linear(cases):
    def add(name, *args, **more):
        cases.add("ml_" + name, *args, domain=ML, **more)
    rng = np.random.default_rng(5)
    for post in TRANSFORMS:
        small = 0.1 if post == "PROBIT" else 1.0  # probabilities in
        for targets in (1, 3):
            middle = [0.7] * targets if post == "PROBIT" else floats(rng, targets)
            add(f"regressor_{post}_{targets}", "LinearRegressor", lambda r: [f32(r, 4, 3, scale=small)],
                {"coefficients": floats(rng, 3 * targets, small), "intercepts": middle, "targets": targets, "post_transform": post})
            if targets == 1 and post == "PROBIT":  # ONNX Runtime leaves half of the scores unwritten
                weights = floats(rng, 3, small)

                def both(x):
                    p = x @ np.array(weights, np.float32) + np.float32(0.7)
                    return [np.where(p > 0, 7, 4), np.stack([-probit(p), probit(p)], 1)]
                add("classifier_PROBIT_both", "LinearClassifier", lambda r: [f32(r, 4, 3, scale=small)],
                    {"coefficients": weights, "intercepts": [0.7], "post_transform": post, "classlabels_ints": [4, 7]}, outputs=(True, True), expected=both)
                continue
            add(f"classifier_{post}_{targets}", "LinearClassifier", lambda r: [f32(r, 4, 3, scale=small)],
                {"coefficients": floats(rng, 3 * targets, small), "intercepts": middle, "post_transform": post,
                 "classlabels_ints": [5, 2, 9] if targets == 3 else [4, 7]}, outputs=(True, True))
    for kind in (np.float64, np.int64, np.int32):
        add(f"classifier_{np.dtype(kind).name}", "LinearClassifier", lambda r: [of_type(r, kind, 4, 3)],
            {"coefficients": floats(rng, 6), "intercepts": floats(rng, 2), "classlabels_ints": [0, 1]}, outputs=(True, True))
    add("regressor_open", "LinearRegressor", lambda r: [f32(r, 4, 3)], {"coefficients": floats(rng, 3)})


def machines(cases):
    rng = np.random.default_rng(6)
    features_, vectors = 4, 5
    for kind, params in (("LINEAR", [0.0, 0.0, 0.0]), ("POLY", [0.5, 1.0, 3.0]), ("RBF", [0.4, 0.0, 0.0]), ("SIGMOID", [0.3, 0.2, 0.0])):
        base = {"kernel_type": kind, "kernel_params": params}
        for one in (0, 1):
            cases.add(f"ml_svm_regressor_{kind}_{one}", "SVMRegressor", lambda r: [f32(r, 6, features_)],
                      {**base, "coefficients": floats(rng, vectors), "support_vectors": floats(rng, vectors * features_), "n_supports": vectors,
                       "rho": [0.2], "one_class": one}, domain=ML)
        for classes in (2, 3):
            pairs = classes * (classes - 1) // 2
            for probabilities in (False, True):
                for post in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
                    attrs = {**base, "coefficients": floats(rng, vectors * (classes - 1)), "support_vectors": floats(rng, vectors * features_),
                             "vectors_per_class": [2, 3] if classes == 2 else [2, 1, 2], "rho": floats(rng, pairs), "classlabels_ints": [3, 1, 8][:classes],
                             "post_transform": post}
                    if probabilities:
                        attrs.update(prob_a=floats(rng, pairs), prob_b=floats(rng, pairs))
                    cases.add(f"ml_svm_classifier_{kind}_{classes}_{post}{'_prob' if probabilities else ''}", "SVMClassifier",
                              lambda r: [f32(r, 6, features_)], attrs, outputs=(True, True), domain=ML)
    zeros = {"kernel_params": [0.0, 0.0, 0.0]}
    cases.add("ml_svm_regressor_linear", "SVMRegressor", lambda r: [f32(r, 6, 4)], {"coefficients": floats(rng, 4), "rho": [0.3], "n_supports": 0, **zeros}, domain=ML)
    for classes in (2, 3):
        cases.add(f"ml_svm_classifier_linear_{classes}", "SVMClassifier", lambda r: [f32(r, 6, 4)],
                  {"coefficients": floats(rng, 4 * classes), "rho": [0.3], "classlabels_ints": [2, 4, 6][:classes], **zeros}, outputs=(True, True), domain=ML)


class Forest:
    """Random trees as the tables of TreeEnsembleRegressor and TreeEnsembleClassifier."""

    MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")

    def __init__(self, rng, trees, depth, features, classes, modes=MODES, votes=1, positive=False, shuffle=False, every=False):
        self.every = every  # a leaf votes for each class: ONNX Runtime drops the base values of classes without votes
        self.rng, self.features, self.classes, self.modes, self.votes, self.positive = rng, features, classes, modes, votes, positive
        self.nodes, self.leaves = [], []
        for tree in range(trees):
            self.count = 0
            self.grow(tree, depth)
        if shuffle:
            rng.shuffle(self.leaves)

    def grow(self, tree, depth):
        me, self.count = self.count, self.count + 1
        if depth == 0 or (self.rng.random() < 0.2 and me):
            self.nodes.append((tree, me, 0, "LEAF", 0.0, 0, 0, 0))
            for vote in range(len(self.classes) if self.every else self.votes):
                weight = float(np.float32(self.rng.random() if self.positive else self.rng.standard_normal()))
                self.leaves.append((tree, me, self.classes[vote] if self.every else int(self.rng.choice(self.classes)), weight))
            return me
        at = len(self.nodes)
        self.nodes.append(None)
        yes, no = self.grow(tree, depth - 1), self.grow(tree, depth - 1)
        self.nodes[at] = (tree, me, int(self.rng.integers(self.features)), str(self.rng.choice(self.modes)),
                          float(np.float32(self.rng.integers(-2, 3))), yes, no, int(self.rng.random() < 0.5))
        return me

    def sums(self, x):
        """For each row the sum of each class; LEQ alone."""
        nodes = {(n[0], n[1]): n for n in self.nodes}
        result = np.zeros((len(x), len(self.classes)), np.float32)
        for row, values in enumerate(x):
            for tree in {n[0] for n in self.nodes}:
                at = nodes[tree, 0]
                while at[3] != "LEAF":
                    at = nodes[tree, at[5] if values[at[2]] <= at[4] else at[6]]
                for leaf in self.leaves:
                    if leaf[:2] == at[:2]:
                        result[row, leaf[2]] += leaf[3]
        return result

    def tables(self, prefix, missing=False, tensors=False):
        from onnx import numpy_helper
        trees, ids, features_, modes, values, yes, no, tracks = map(list, zip(*self.nodes))
        leaf_trees, leaf_nodes, classes, weights = map(list, zip(*self.leaves))
        t = {"nodes_treeids": trees, "nodes_nodeids": ids, "nodes_featureids": features_, "nodes_modes": modes,
             "nodes_truenodeids": yes, "nodes_falsenodeids": no, f"{prefix}_treeids": leaf_trees, f"{prefix}_nodeids": leaf_nodes, f"{prefix}_ids": classes}
        if missing:
            t["nodes_missing_value_tracks_true"] = tracks
        for name, list_ in (("nodes_values", values), (f"{prefix}_weights", weights)):
            if tensors:
                t[name + "_as_tensor"] = numpy_helper.from_array(np.array(list_, np.float64), name)
            else:
                t[name] = list_
        return t


def trees(cases):
    def rows(kind, missing=False):
        def make(r):
            x = (r.integers(-3, 4, (9, 4)) * (1 if np.issubdtype(kind, np.integer) else 0.5)).astype(kind)
            if missing:
                x[r.random((9, 4)) > 0.7] = np.nan
            return [x]
        return make
    rng = np.random.default_rng(7)
    for how in ("SUM", "AVERAGE", "MIN", "MAX"):
        for targets in (1, 3):
            for base in (False, True):
                forest = Forest(rng, 3, 3, 4, list(range(targets)), every=base)
                cases.add(f"ml_trees_{how}_{targets}{'_base' if base else ''}", "TreeEnsembleRegressor", rows(np.float32),
                          {**forest.tables("target"), "n_targets": targets, "aggregate_function": how,
                           **({"base_values": floats(rng, targets)} if base else {})}, domain=ML)
    for post in TRANSFORMS:
        for targets in (1, 3):
            forest = Forest(rng, 2 if post == "PROBIT" else 4, 2, 4, list(range(targets)), positive=post == "PROBIT", every=post == "PROBIT")
            tables = forest.tables("target")
            if post == "PROBIT":
                tables["target_weights"] = [w * 0.3 + 0.1 for w in tables["target_weights"]]
            cases.add(f"ml_trees_{post}_{targets}", "TreeEnsembleRegressor", rows(np.float32),
                      {**tables, "n_targets": targets, "post_transform": post, **({"base_values": [0.05] * targets} if post == "PROBIT" else {})}, domain=ML)
    cases.add("ml_trees_float64", "TreeEnsembleRegressor", rows(np.float64), {**Forest(rng, 3, 3, 4, [0, 1]).tables("target"), "n_targets": 2}, domain=ML)
    for kind in (np.int64, np.int32):  # no kernel there: the same rows as numbers of f32
        cases.add(f"ml_trees_{np.dtype(kind).name}", "TreeEnsembleRegressor", rows(kind),
                  {**Forest(rng, 3, 3, 4, [0, 1]).tables("target"), "n_targets": 2}, domain=ML, oracle=lambda x: [x.astype(np.float32)])
    for mode in Forest.MODES:
        cases.add(f"ml_trees_{mode}", "TreeEnsembleRegressor", rows(np.float32), {**Forest(rng, 3, 4, 4, [0], modes=[mode]).tables("target"), "n_targets": 1}, domain=ML)
        cases.add(f"ml_trees_{mode}_missing", "TreeEnsembleRegressor", rows(np.float32, True),
                  {**Forest(rng, 3, 4, 4, [0], modes=[mode]).tables("target", missing=True), "n_targets": 1}, domain=ML)
        cases.add(f"ml_trees_{mode}_nan", "TreeEnsembleRegressor", rows(np.float32, True),
                  {**Forest(rng, 3, 4, 4, [0], modes=[mode]).tables("target"), "n_targets": 1}, domain=ML)
    cases.add("ml_trees_votes", "TreeEnsembleRegressor", rows(np.float32),
              {**Forest(rng, 4, 3, 4, [0, 1, 2], votes=3, shuffle=True).tables("target"), "n_targets": 3}, domain=ML)
    cases.add("ml_trees_tensors", "TreeEnsembleRegressor", rows(np.float64),
              {**Forest(rng, 4, 3, 4, [0, 1]).tables("target", tensors=True), "n_targets": 2}, domain=ML)
    cases.add("ml_trees_leaf", "TreeEnsembleRegressor", rows(np.float32), {**Forest(rng, 1, 0, 4, [0]).tables("target"), "n_targets": 1}, domain=ML)
    cases.add("ml_trees_many", "TreeEnsembleRegressor", rows(np.float32), {**Forest(rng, 100, 5, 4, [0]).tables("target"), "n_targets": 1}, domain=ML)
    for post in TRANSFORMS:
        for label, classes, attrs in (("three", 3, {}), ("three_base", 3, {"base_values": [0.1, 0.2, 0.05]}), ("one_of_two", [0], {}),
                                      ("second_of_two", [1], {}), ("one_of_two_base", [0], {"base_values": [0.3]}),
                                      ("one_of_two_bases", [0], {"base_values": [0.1, 0.2]})):
            for positive in (False, True):
                if post == "PROBIT" and not (positive and classes == 3):  # of two scores ONNX Runtime writes one
                    continue
                count = classes if isinstance(classes, int) else 2
                forest = Forest(rng, 2 if post == "PROBIT" else 3, 3, 4, list(range(count)) if isinstance(classes, int) else classes, positive=positive)
                tables = forest.tables("class")
                if post == "PROBIT":
                    tables["class_weights"] = [w * 0.3 + 0.1 for w in tables["class_weights"]]
                cases.add(f"ml_forest_{post}_{label}_{'positive' if positive else 'mixed'}", "TreeEnsembleClassifier", rows(np.float32),
                          {**tables, "classlabels_int64s": [7, 3, 5][:count], "post_transform": post, **attrs}, outputs=(True, True), domain=ML)
    # Both of two classes have votes: the label is that of the larger sum, as in ONNX's reference. ONNX Runtime compares the
    # second sum with zero and answers 0 or 1 whatever the labels are.
    both = Forest(rng, 3, 3, 4, [0, 1], modes=["BRANCH_LEQ"], votes=2, every=True, positive=True)
    cases.add("ml_forest_two", "TreeEnsembleClassifier", rows(np.float32), {**both.tables("class"), "classlabels_int64s": [7, 3]}, outputs=(True, True),
              domain=ML, expected=lambda x: [np.array([7, 3])[both.sums(x).argmax(1)], both.sums(x)])
    for kind in (np.float64, np.int64, np.int32):
        cases.add(f"ml_forest_{np.dtype(kind).name}", "TreeEnsembleClassifier", rows(kind),
                  {**Forest(rng, 3, 3, 4, [0, 1, 2]).tables("class"), "classlabels_int64s": [0, 1, 2]}, outputs=(True, True), domain=ML)
    cases.add("ml_forest_votes", "TreeEnsembleClassifier", rows(np.float32),
              {**Forest(rng, 4, 3, 4, [0, 1, 2, 3], votes=4, shuffle=True).tables("class"), "classlabels_int64s": [4, 3, 2, 1]}, outputs=(True, True), domain=ML)


def ensembles(cases):
    """TreeEnsemble of version 5: nodes and leaves apart, modes as numbers, members of sets."""
    from onnx import numpy_helper
    rng = np.random.default_rng(8)

    def tables(kind, trees_, depth, targets, members=False, missing=False):
        nodes, leaves, roots, sets = [], [], [], []

        def grow(level):
            if level == 0 or (rng.random() < 0.2 and level < depth):
                leaves.append((int(rng.integers(targets)), float(rng.standard_normal())))
                return len(leaves) - 1, 1
            at = len(nodes)
            nodes.append(None)
            mode = int(rng.integers(7 if members else 6))
            if mode == 6:
                sets.append((at, [float(v) for v in rng.choice([-3, -2, -1, 1, 2, 3], 2, replace=False)]))  # at 0 the reference ends a set
            yes, no = grow(level - 1), grow(level - 1)
            nodes[at] = (int(rng.integers(4)), mode, float(rng.integers(-2, 3)), *yes, *no, int(rng.random() < 0.5))
            return at, 0
        for _ in range(trees_):
            roots.append(len(nodes))
            grow(depth)
        feature, mode, split, yes, yes_leaf, no, no_leaf, track = map(list, zip(*nodes))
        array = lambda v, t, name: numpy_helper.from_array(np.array(v, t), name)
        attrs = {"nodes_featureids": feature, "nodes_modes": array(mode, np.uint8, "nodes_modes"), "nodes_splits": array(split, kind, "nodes_splits"),
                 "nodes_truenodeids": yes, "nodes_trueleafs": yes_leaf, "nodes_falsenodeids": no, "nodes_falseleafs": no_leaf, "tree_roots": roots,
                 "leaf_targetids": [leaf[0] for leaf in leaves], "leaf_weights": array([leaf[1] for leaf in leaves], kind, "leaf_weights"), "n_targets": targets}
        if sets:
            attrs["membership_values"] = array([v for _, s in sorted(sets) for v in (*s, np.nan)], kind, "membership_values")
        if missing:
            attrs["nodes_missing_value_tracks_true"] = track
        return attrs

    def rows(kind):
        return lambda r: [(r.integers(-6, 7, (9, 4)) * 0.5).astype(kind)]
    for kind in (np.float32, np.float64):
        for targets in (1, 3):
            for how in range(4):
                cases.add(f"ml_ensemble_{np.dtype(kind).name}_{targets}_{how}", "TreeEnsemble", rows(kind), {**tables(kind, 3, 3, targets), "aggregate_function": how},
                          domain=ML, opset=5)
            for post in range(1, 4):
                attrs = tables(kind, 3, 3, targets)  # ONNX Runtime takes 1 for LOGISTIC and 2 for SOFTMAX, the definition has them the other way
                cases.add(f"ml_ensemble_{np.dtype(kind).name}_{targets}_post{post}", "TreeEnsemble", rows(kind), {**attrs, "post_transform": post},
                          domain=ML, opset=5, oracle_attrs={**attrs, "post_transform": (0, 2, 1, 3)[post]})
        def holes(r):
            x = rows(kind)(r)[0]
            x[r.random(x.shape) > 0.7] = np.nan
            return [x]
        for targets in (1, 2):
            cases.add(f"ml_ensemble_{np.dtype(kind).name}_{targets}_missing", "TreeEnsemble", holes, tables(kind, 3, 4, targets, missing=True), domain=ML, opset=5)
            cases.add(f"ml_ensemble_{np.dtype(kind).name}_{targets}_nan", "TreeEnsemble", holes, tables(kind, 3, 4, targets), domain=ML, opset=5)
            attrs = tables(kind, 2, 2, targets)
            small = [0.15 + 0.05 * (k % 5) for k in range(len(attrs["leaf_targetids"]))]  # probabilities out, for every target
            attrs["leaf_weights"] = numpy_helper.from_array(np.array(small, kind), "leaf_weights")
            if targets == 1:
                cases.add(f"ml_ensemble_{np.dtype(kind).name}_{targets}_post4", "TreeEnsemble", rows(kind), {**attrs, "post_transform": 4}, domain=ML, opset=5)
        cases.add(f"ml_ensemble_{np.dtype(kind).name}_many", "TreeEnsemble", rows(kind), tables(kind, 60, 6, 3), domain=ML, opset=5)
        cases.add(f"ml_ensemble_{np.dtype(kind).name}_members", "TreeEnsemble", rows(kind), tables(kind, 4, 4, 2, members=True), domain=ML, opset=5, reference=True)


def collect(cases):
    features(cases)
    labels(cases)
    linear(cases)
    machines(cases)
    trees(cases)
    ensembles(cases)
