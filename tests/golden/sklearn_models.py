#!/usr/bin/env python3
"""Models of scikit-learn, exported by skl2onnx, against ONNX Runtime: labels equal, probabilities near, in every variant asked for.

    sklearn_models.py --bin build/release/bin [--only TEXT] [--variant portable --variant native] [--keep DIR]

Classifiers, regressors, clusters and pipelines as users write them: numbers with gaps, categories in text, sentences, maps from
labels to probabilities at the end (ZipMap). Columns of a table are inputs of their own, as skl2onnx has it.
Needs numpy, scikit-learn, skl2onnx and onnxruntime from PyPI; says so and exits 0 without them.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from test_cache import test_cache

try:
    import numpy as np
    import onnx
    import onnxruntime
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType
    from sklearn import (cluster, compose, datasets, decomposition, discriminant_analysis, ensemble, feature_extraction, feature_selection, gaussian_process,
                         impute, linear_model, mixture, multiclass, naive_bayes, neighbors, neural_network, pipeline,
                         preprocessing, random_projection, svm, tree)
except ImportError as error:
    print(f"skipped: models of scikit-learn ({error})")
    sys.exit(0)

warnings.filterwarnings("ignore")
onnxruntime.set_default_logger_severity(4)
FLOATS = [("x", FloatTensorType([None, 4]))]
IRIS = datasets.load_iris()
X = IRIS.data.astype(np.float32)
CODE, NAME = IRIS.target, IRIS.target_names[IRIS.target]
TWO = CODE > 0
LENGTH = X[:, 3] * 2 + X[:, 0]
SENTENCES = ["the cat sat on the mat", "a dog barked at the cat, loudly", "birds sing; the bird sang", "Dogs bark and cats purr!", "the mat was red", "one bird, two dogs",
             "nothing here", "cats and dogs and birds"] * 3
TOPICS = ["cat", "dog", "bird", "dog", "cat", "bird", "cat", "dog"] * 3


def with_gaps():
    x = X + np.random.default_rng(2).normal(0, 0.01, X.shape).astype(np.float32)  # no two flowers are equally far
    x[np.random.default_rng(0).random(x.shape) < 0.2] = np.nan
    return x


def table():
    rng = np.random.default_rng(1)
    return {"age": X[:, :1], "width": X[:, 1:2], "colour": np.array(["red", "green", "blue"], dtype=object)[rng.integers(0, 3, len(X))].reshape(-1, 1),
            "town": np.array(["Köln", "Paris", "Rome", "Oslo"], dtype=object)[CODE + rng.integers(0, 2, len(X))].reshape(-1, 1)}


TABLE_TYPES = [("age", FloatTensorType([None, 1])), ("width", FloatTensorType([None, 1])), ("colour", StringTensorType([None, 1])), ("town", StringTensorType([None, 1]))]


class Columns:
    """A table as scikit-learn takes it without pandas: one array of objects; each column is an input of the exported model."""

    def __init__(self, values):
        self.values = values

    def matrix(self):
        return np.concatenate([v.astype(object) for v in self.values.values()], axis=1)


def models():
    """name: (fitted estimator, types of inputs, inputs)"""
    p = pipeline.make_pipeline
    scaled = preprocessing.StandardScaler
    classifiers = {
        "logistic": linear_model.LogisticRegression(max_iter=500), "logistic_scaled": p(scaled(), linear_model.LogisticRegression(max_iter=500)),
        "svc": svm.SVC(probability=True, random_state=0), "svc_poly": svm.SVC(kernel="poly", degree=2, probability=True, random_state=0), "linear_svc": svm.LinearSVC(),
        "nu_svc": svm.NuSVC(probability=True, random_state=0), "tree": tree.DecisionTreeClassifier(random_state=0), "forest": ensemble.RandomForestClassifier(12, random_state=0),
        "extra_trees": ensemble.ExtraTreesClassifier(12, random_state=0), "boosting": ensemble.GradientBoostingClassifier(n_estimators=8, random_state=0),
        "ada": ensemble.AdaBoostClassifier(n_estimators=6, random_state=0),
        "bagging": ensemble.BaggingClassifier(n_estimators=4, random_state=0), "knn": neighbors.KNeighborsClassifier(4), "knn_weighted": neighbors.KNeighborsClassifier(4, weights="distance"),
        "mlp": p(scaled(), neural_network.MLPClassifier((8,), max_iter=300, random_state=0)),
        "gauss_bayes": naive_bayes.GaussianNB(), "bernoulli_bayes": naive_bayes.BernoulliNB(), "multinomial_bayes": naive_bayes.MultinomialNB(),
        "complement_bayes": naive_bayes.ComplementNB(), "lda": discriminant_analysis.LinearDiscriminantAnalysis(), "qda": discriminant_analysis.QuadraticDiscriminantAnalysis(),
        "sgd": p(scaled(), linear_model.SGDClassifier(loss="log_loss", random_state=0)), "perceptron": linear_model.Perceptron(), "ridge_classifier": linear_model.RidgeClassifier(),
        "one_vs_rest": multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), "one_vs_one": multiclass.OneVsOneClassifier(linear_model.LogisticRegression()),
        "voting": ensemble.VotingClassifier([("l", linear_model.LogisticRegression(max_iter=500)), ("t", tree.DecisionTreeClassifier(max_depth=2))], voting="soft", flatten_transform=False),
        "stacking": ensemble.StackingClassifier([("l", linear_model.LogisticRegression(max_iter=500)), ("t", tree.DecisionTreeClassifier(max_depth=2))]),
        "calibrated": __import__("sklearn.calibration").calibration.CalibratedClassifierCV(svm.LinearSVC(), cv=2),
        "passive": linear_model.PassiveAggressiveClassifier(random_state=0), "pca": p(decomposition.PCA(2), linear_model.LogisticRegression()),
        "polynomial": p(preprocessing.PolynomialFeatures(2), scaled(), linear_model.LogisticRegression(max_iter=500)),
        "selected": p(feature_selection.SelectKBest(k=2), linear_model.LogisticRegression()), "normalized": p(preprocessing.Normalizer(), tree.DecisionTreeClassifier()),
        "min_max": p(preprocessing.MinMaxScaler(), neighbors.KNeighborsClassifier(3)), "bins": p(preprocessing.KBinsDiscretizer(4, encode="onehot-dense"), linear_model.LogisticRegression()),
    }
    for name, estimator in classifiers.items():
        for kind, target in (("words", NAME), ("numbers", CODE), ("two_words", np.where(TWO, "other", "setosa"))):
            yield f"{name}_{kind}", estimator, target, FLOATS, {"x": X}
    regressors = {
        "linear": linear_model.LinearRegression(), "ridge": linear_model.Ridge(), "lasso": linear_model.Lasso(0.01), "svr": svm.SVR(), "tree": tree.DecisionTreeRegressor(max_depth=4),
        "forest": ensemble.RandomForestRegressor(8, random_state=0), "boosting": ensemble.GradientBoostingRegressor(n_estimators=8),
        "ada": ensemble.AdaBoostRegressor(n_estimators=4, random_state=0), "knn": neighbors.KNeighborsRegressor(3), "mlp": p(scaled(), neural_network.MLPRegressor(hidden_layer_sizes=(6,), max_iter=200, random_state=0)),
        "gaussian_process": gaussian_process.GaussianProcessRegressor(), "bayesian": linear_model.BayesianRidge(), "huber": linear_model.HuberRegressor(), "poisson": linear_model.PoissonRegressor(),
    }
    for name, estimator in regressors.items():
        yield f"regress_{name}", estimator, LENGTH, FLOATS, {"x": X}
    for name, estimator in {"kmeans": cluster.KMeans(3, n_init=2, random_state=0), "mixture": mixture.GaussianMixture(2, random_state=0), "isolation": ensemble.IsolationForest(n_estimators=6, random_state=0),
                            "one_class": svm.OneClassSVM(), "pca": decomposition.PCA(2), "svd": decomposition.TruncatedSVD(2),
                            "power": preprocessing.PowerTransformer(), "robust": preprocessing.RobustScaler(), "max_abs": preprocessing.MaxAbsScaler(), "binarizer": preprocessing.Binarizer(threshold=2.0),
                            "projection": random_projection.GaussianRandomProjection(3, random_state=0), "quantiles": preprocessing.QuantileTransformer(n_quantiles=20)}.items():
        yield f"other_{name}", estimator, None, FLOATS, {"x": X}
    yield "imputed_mean", p(impute.SimpleImputer(), linear_model.LogisticRegression(max_iter=500)), NAME, FLOATS, {"x": with_gaps()}
    yield "imputed_median", p(impute.SimpleImputer(strategy="median", add_indicator=False), ensemble.RandomForestClassifier(5, random_state=0)), CODE, FLOATS, {"x": with_gaps()}
    yield "imputed_knn", p(impute.KNNImputer(n_neighbors=2), linear_model.LogisticRegression(max_iter=500)), CODE, FLOATS, {"x": with_gaps()}
    words = Columns(table())
    two = {k: v for k, v in words.values.items() if k in ("colour", "town")}
    yield "one_hot_words", p(preprocessing.OneHotEncoder(handle_unknown="ignore"), linear_model.LogisticRegression()), NAME, TABLE_TYPES[2:], Columns(two)
    yield "one_hot_words_dense", p(preprocessing.OneHotEncoder(sparse_output=False, handle_unknown="ignore"), tree.DecisionTreeClassifier(max_depth=3)), CODE, TABLE_TYPES[2:], Columns(two)
    yield "ordinal_words", p(preprocessing.OrdinalEncoder(), tree.DecisionTreeClassifier(max_depth=3)), NAME, TABLE_TYPES[2:], Columns(two)
    mixed = compose.ColumnTransformer([("n", p(impute.SimpleImputer(), scaled()), [0, 1]), ("c", preprocessing.OneHotEncoder(handle_unknown="ignore"), [2, 3])])
    yield "table_logistic", p(mixed, linear_model.LogisticRegression(max_iter=500)), NAME, TABLE_TYPES, words
    yield "table_forest", p(mixed, ensemble.RandomForestClassifier(6, random_state=0)), CODE, TABLE_TYPES, words
    yield "table_boosting", p(mixed, ensemble.GradientBoostingClassifier(n_estimators=5)), NAME, TABLE_TYPES, words
    line = [("x", StringTensorType([None, 1]))]
    texts = np.array(SENTENCES, dtype=object)
    for name, features in {"counts": feature_extraction.text.CountVectorizer(), "pairs": feature_extraction.text.CountVectorizer(ngram_range=(1, 2)),
                           "tfidf": feature_extraction.text.TfidfVectorizer(), "tfidf_words": feature_extraction.text.TfidfVectorizer(token_pattern="[a-zA-Z]+", ngram_range=(1, 2)),
                           "tfidf_sublinear": feature_extraction.text.TfidfVectorizer(sublinear_tf=True, stop_words=["the", "a"]), "case": feature_extraction.text.CountVectorizer(lowercase=False),
                           "letters": feature_extraction.text.TfidfVectorizer(analyzer="char"), "binary": feature_extraction.text.CountVectorizer(binary=True)}.items():
        yield f"text_{name}", p(features, linear_model.LogisticRegression(max_iter=500)), TOPICS, line, {"x": texts}
    yield "text_bayes", p(feature_extraction.text.CountVectorizer(), naive_bayes.MultinomialNB()), TOPICS, line, {"x": texts}


def fitted(estimator, target, inputs):
    values = inputs.matrix() if isinstance(inputs, Columns) else next(iter(inputs.values()))
    return estimator.fit(values) if target is None else estimator.fit(values, target)


def by_runtime(given, feeds):
    model = type(given)()
    model.CopyFrom(given)
    for node in model.graph.node:  # its default locale is not installed everywhere
        if node.op_type == "StringNormalizer" and not any(a.name == "locale" for a in node.attribute):
            node.attribute.append(onnx.helper.make_attribute("locale", "C"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = {}
    for port, value in zip(session.get_outputs(), session.run(None, feeds)):
        if isinstance(value, list):  # a list of maps
            results[port.name] = value
        else:
            results[port.name] = np.asarray(value)
    return results


def differences(found, expected):
    for name, want in expected.items():
        if isinstance(want, list):
            keys, values = found[name + ".keys"], found[name + ".values"]
            if set(keys.tolist()) != set(want[0]):
                return f"{name}: keys {keys.tolist()}, expected {list(want[0])}"
            want = np.array([[row[k] for k in keys.tolist()] for row in want], np.float32)
            have = values
        else:
            have = found[name]
        if have.shape != want.shape:
            return f"{name}: found {have.shape}, expected {want.shape}"
        if want.dtype.kind in "OU":
            if (have.astype(str) != want.astype(str)).any():
                return f"{name}: other strings"
        elif want.dtype.kind in "biu":
            if (have != want).any():
                return f"{name}: {int((have != want).sum())} of {want.size} integers differ"
        elif not np.allclose(have, want, rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"{name}: differs by {np.nanmax(np.abs(have - want)):.2e}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--variant", action="append")
    parser.add_argument("--keep", help="a folder for the models")
    args = parser.parse_args()
    passed, failed, not_exported = 0, [], []
    with tempfile.TemporaryDirectory() as work:
        folder = args.keep or work
        os.makedirs(folder, exist_ok=True)
        os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = os.path.join(work, "home")
        os.environ["XDG_CACHE_HOME"] = str(test_cache())
        for name, estimator, target, types, inputs in models():
            if args.only and args.only not in name:
                continue
            feeds = inputs.values if isinstance(inputs, Columns) else {k: v.reshape(-1, 1) if v.dtype == object else v for k, v in inputs.items()}
            feeds = {k: v[::7] for k, v in feeds.items()}
            try:
                onnx_model = to_onnx(fitted(estimator, target, inputs), initial_types=types, target_opset={"": 18, "ai.onnx.ml": 3})
                want = by_runtime(onnx_model, feeds)
            except Exception as error:  # no exporter, or the runtime refuses what it made
                not_exported.append(f"{name}: {type(error).__name__} {str(error).splitlines()[0][:100] if str(error) else ''}")
                continue
            source, container = os.path.join(folder, name + ".onnx"), os.path.join(work, name + ".mlc")
            with open(source, "wb") as f:
                f.write(onnx_model.SerializeToString())
            built = subprocess.run([os.path.join(args.bin, "mlpack"), "build", source, "-o", container, "--target", "native"], capture_output=True, text=True)
            if built.returncode:
                failed.append(f"{name}: build: {built.stderr.strip()[:400]}")
                print("FAILED", failed[-1], flush=True)
                continue
            np.savez(os.path.join(work, "in.npz"), **{k: v.astype(str) if v.dtype == object else v for k, v in feeds.items()})
            explained = json.loads(subprocess.run([os.path.join(args.bin, "mlrun"), "explain", container, "--json"], capture_output=True, text=True).stdout)
            for variant in [v["name"] for v in explained["variants"] if v["answer"] == "fits"]:
                if args.variant and variant not in args.variant and not ("native" in args.variant and variant != "portable"):
                    continue
                ran = subprocess.run([os.path.join(args.bin, "mlrun"), "run", container, "--raw", "-i", os.path.join(work, "in.npz"), "-o", os.path.join(work, "out.npz"), "--variant", variant],
                                     capture_output=True, text=True)
                if ran.returncode:
                    failed.append(f"{name} on {variant}: {ran.stderr.strip()[:400]}")
                else:
                    with np.load(os.path.join(work, "out.npz")) as arrays:
                        what = differences({k: arrays[k] for k in arrays.files}, want)
                    if not what:
                        passed += 1
                        continue
                    failed.append(f"{name} on {variant}: {what}")
                print("FAILED", failed[-1], flush=True)
    for line in not_exported:
        print("not exported:", line)
    print(f"[doctest] test cases: {passed + len(failed)} | {passed} passed | {len(failed)} failed | {len(not_exported)} skipped")
    return 1 if failed else 0


sys.exit(main())
