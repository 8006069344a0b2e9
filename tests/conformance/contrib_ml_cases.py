"""Cases for the operators of ai.onnx.ml."""


def collect(cases):
    pass
