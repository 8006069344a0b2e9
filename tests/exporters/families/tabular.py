"""Models of tables: estimators and pipelines of scikit-learn, LightGBM, XGBoost, as their converters write them.

`tests/golden/sklearn_models.py` has many more estimators; here stand the usual ones, timed against ONNX Runtime too."""
from registry import Direct, add


def data(rows=300):
    import numpy as np
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 10)).astype(np.float32)
    kind = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(np.int64) + (x[:, 3] > 1)
    return x, kind, x @ rng.normal(size=10).astype(np.float32) + np.sin(x[:, 4])


def sklearn(estimator, regression=False):
    def make():
        import numpy as np
        from skl2onnx import to_onnx
        x, kind, value = data()
        model = estimator().fit(x, value if regression else kind)
        options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else None
        return Direct(to_onnx(model, x[:1], options=options, target_opset={"": 17, "ai.onnx.ml": 3}), [{"X": x[:5]}, {"X": np.ascontiguousarray(x[20:37])}])
    return make


def boosted(library, regression):
    def make():
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType
        x, kind, value = data()
        types = [("X", FloatTensorType([None, 10]))]
        if library == "lightgbm":
            import lightgbm
            model = (lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier)(n_estimators=20, verbose=-1, n_jobs=1, random_state=0).fit(x, value if regression else kind)
            made = onnxmltools.convert_lightgbm(model, initial_types=types, target_opset=15, **({} if regression else {"zipmap": False}))
        else:
            import xgboost
            model = (xgboost.XGBRegressor if regression else xgboost.XGBClassifier)(n_estimators=20, n_jobs=1, random_state=0).fit(x, value if regression else kind)
            made = onnxmltools.convert_xgboost(model, initial_types=types, target_opset=15)
        return Direct(made, [{"X": x[:5]}, {"X": x[20:37]}])
    return make


def categories():
    import numpy as np
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import StringTensorType
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    rng = np.random.default_rng(0)
    x = np.array(["red", "green", "blue", "a colour"], dtype=object)[rng.integers(0, 4, (60, 2))]
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression()).fit(x, (x[:, 0] == "red").astype(int) + (x[:, 1] == "blue"))
    made = to_onnx(model, initial_types=[("colours", StringTensorType([None, 2]))], options={id(model): {"zipmap": False}}, target_opset={"": 17, "ai.onnx.ml": 3})
    return Direct(made, [{"colours": x[:2].astype(str)}, {"colours": np.array([["red", "blue"], ["unheard of", "green"], ["blue", "a colour"]])}])


def lazy(module, name, *scaler, **options):
    """Builds the estimator when asked: `sklearn` is imported no earlier."""
    def make():
        import importlib
        estimator = getattr(importlib.import_module(f"sklearn.{module}"), name)(**options)
        if not scaler:
            return estimator
        from sklearn import pipeline, preprocessing
        return pipeline.make_pipeline(*[getattr(preprocessing, s)() for s in scaler], estimator)
    return make


ESTIMATORS = [
    ("logistic regression", "logistic", lazy("linear_model", "LogisticRegression", "StandardScaler"), False),
    ("ridge", "ridge", lazy("linear_model", "Ridge", "PolynomialFeatures", "MinMaxScaler"), True),
    ("decision tree", "tree", lazy("tree", "DecisionTreeClassifier", random_state=0), False),
    ("random forest", "forest", lazy("ensemble", "RandomForestClassifier", n_estimators=20, random_state=0), False),
    ("random forest", "forest_regressor", lazy("ensemble", "RandomForestRegressor", n_estimators=20, random_state=0), True),
    ("gradient boosting", "boosting", lazy("ensemble", "GradientBoostingClassifier", n_estimators=10, random_state=0), False),
    ("svm", "svc", lazy("svm", "SVC", "StandardScaler", probability=True, random_state=0), False),
    ("svm", "svr", lazy("svm", "SVR", "RobustScaler"), True),
    ("nearest neighbours", "knn", lazy("neighbors", "KNeighborsClassifier"), False),
    ("perceptron", "mlp", lazy("neural_network", "MLPClassifier", "StandardScaler", hidden_layer_sizes=(16,), max_iter=50, random_state=0), False),
    ("naive bayes", "naive_bayes", lazy("naive_bayes", "GaussianNB"), False),
    ("k-means", "kmeans", lazy("cluster", "KMeans", n_clusters=4, random_state=0), False),
    ("pca", "pca", lazy("decomposition", "PCA", "StandardScaler", n_components=4), False),
    ("isolation forest", "isolation_forest", lazy("ensemble", "IsolationForest", n_estimators=20, random_state=0), False),
    ("gaussian process", "gaussian_process", lazy("gaussian_process", "GaussianProcessRegressor"), True),
]
for architecture, name, estimator, regression in ESTIMATORS:
    add("tabular", architecture, name, sklearn(estimator, regression), "direct")
for library in ("lightgbm", "xgboost"):
    for regression in (False, True):
        add("tabular", library, f"{library}_{'regressor' if regression else 'classifier'}", boosted(library, regression), "direct")
add("tabular", "categories", "onehot_logistic", categories, "direct")
