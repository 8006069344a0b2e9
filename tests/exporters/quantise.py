"""ONNX Runtime's quantisers on an exported model: QDQ, QOperator (both calibrated with the inputs at hand) and dynamic."""
import os

from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process


class Reader(CalibrationDataReader):
    def __init__(self, cases):
        self.cases = iter(cases)

    def get_next(self):
        return next(self.cases, None)


def quantised(path, kind, cases):
    """Replaces the model at `path`."""
    prepared = path + ".prepared"
    quant_pre_process(path, prepared, skip_symbolic_shape=True)
    if kind == "dynamic":
        quantize_dynamic(prepared, path)
    else:
        quantize_static(prepared, path, Reader(cases), quant_format=QuantFormat.QDQ if kind == "qdq" else QuantFormat.QOperator, per_channel=kind == "qdq")
    os.remove(prepared)
