// Cases whose expected data contradicts the operator's definition. Short enough to read aloud.
#pragma once

#include <string_view>

namespace mlc::conformance {

struct KnownDifference {
  std::string_view test, reason;
};

inline constexpr std::string_view kFftNoise = "expected values near zero carry the noise of the FFT that made them, 1.9e-7, above the tolerance";
inline constexpr std::string_view kWraps = "the data wraps around where the definition saturates";
inline constexpr std::string_view kDrawn = "the data was drawn by NumPy's generator; ONNX leaves the generator open (element type and shape agree)";
inline constexpr std::string_view kCorrected = "ONNX corrected the order of softcap and mask after 1.20, and the numbering of modes with it";
inline constexpr KnownDifference kKnownDifferences[] = {
    {"test_dft_inverse", kFftNoise},
    {"test_dft_inverse_opset19", kFftNoise},
    {"test_qlinearmatmul_2D_int8_float16", kWraps},
    {"test_qlinearmatmul_2D_int8_float32", kWraps},
    {"test_qlinearmatmul_3D_int8_float16", kWraps},
    {"test_qlinearmatmul_3D_int8_float32", kWraps},
    {"test_bernoulli", kDrawn},
    {"test_bernoulli_double", kDrawn},
    {"test_bernoulli_seed", kDrawn},
    {"test_bernoulli_expanded", kDrawn},
    {"test_bernoulli_double_expanded", kDrawn},
    {"test_bernoulli_seed_expanded", kDrawn},
    {"test_training_dropout", kDrawn},
    {"test_training_dropout_default", kDrawn},
    {"test_training_dropout_mask", kDrawn},
    {"test_training_dropout_default_mask", kDrawn},
    {"test_attention_3d_with_past_and_present_qk_matmul_bias", kCorrected},
    {"test_attention_3d_with_past_and_present_qk_matmul_softcap", kCorrected},
    {"test_attention_4d_with_past_and_present_qk_matmul_bias", kCorrected},
    {"test_attention_4d_with_qk_matmul_bias", kCorrected},
    {"test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask", kCorrected},
    {"test_attention_4d_with_qk_matmul_softcap", kCorrected},
    {"test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal", kCorrected},
    {"test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask", kCorrected},
    {"test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal", kCorrected},
};

}  // namespace mlc::conformance
