// Cases whose expected data contradicts the operator's definition, and how much they may differ: a larger difference fails,
// and so does an entry whose case passes without it. Short enough to read aloud.
#pragma once

#include <cstdint>
#include <string_view>

namespace mlc::conformance {

// Of all outputs of a case together. Types, shapes and strings never differ.
struct Bound {
  int64_t elements = 0;      // that differ by more than the tolerance
  double largest = 0;        // absolute difference of two finite numbers
  int64_t not_finite = 0;    // elements where one is NaN or infinite and the other is not the same
  bool one_is_zero = false;  // of two elements that differ one is zero: what is drawn is which, not what
};

struct KnownDifference {
  std::string_view set, test;  // set empty: in every one
  std::string_view reason;
  Bound bound;
};

inline constexpr std::string_view kFftNoise = "expected values near zero carry the noise of the FFT that made them, 1.9e-7, above the tolerance";
inline constexpr std::string_view kWraps = "the data wraps around where the definition saturates";
inline constexpr std::string_view kDrawn = "the data was drawn by NumPy's generator; ONNX leaves the generator open (which elements are drawn differs, nothing else)";
inline constexpr std::string_view kCorrected = "ONNX corrected the order of softcap and mask after 1.20, and the numbering of modes with it";
inline constexpr std::string_view kDefined = "ONNX said after 1.20 that zeros over their norm are zero";
inline constexpr std::string_view kHalfSteps = "the data rounds to half precision inside of a softmax; the exact value, 0.46919, lies nearer to ours";
inline constexpr KnownDifference kKnownDifferences[] = {
    {"1.20", "test_dft_inverse", kFftNoise, {10, 1.92e-7}},
    {"1.20", "test_dft_inverse_opset19", kFftNoise, {10, 1.92e-7}},
    {"1.23", "test_dft_inverse", kFftNoise, {10, 1.92e-7}},
    {"1.23", "test_dft_inverse_opset19", kFftNoise, {10, 1.92e-7}},
    {"1.23", "test_attention_4d_causal_fp16_expanded", kHalfSteps, {2, 4.89e-4}},
    {"1.20", "test_l2normalization_axis_0", kDefined, {2, 0, 2}},
    {"1.20", "test_qlinearmatmul_2D_int8_float16", kWraps, {1, 148}},
    {"1.20", "test_qlinearmatmul_2D_int8_float32", kWraps, {1, 148}},
    {"1.20", "test_qlinearmatmul_3D_int8_float16", kWraps, {4, 247}},
    {"1.20", "test_qlinearmatmul_3D_int8_float32", kWraps, {4, 248}},
    {"", "test_bernoulli", kDrawn, {1, 1, 0, true}},
    {"", "test_bernoulli_double", kDrawn, {1, 1, 0, true}},
    {"", "test_bernoulli_seed", kDrawn, {3, 1, 0, true}},
    {"", "test_bernoulli_expanded", kDrawn, {6, 1, 0, true}},
    {"", "test_bernoulli_double_expanded", kDrawn, {7, 1, 0, true}},
    {"", "test_bernoulli_seed_expanded", kDrawn, {7, 1, 0, true}},
    {"", "test_training_dropout", kDrawn, {20, 10.3, 0, true}},
    {"", "test_training_dropout_default", kDrawn, {32, 5.11, 0, true}},
    {"", "test_training_dropout_mask", kDrawn, {40, 10.3, 0, true}},
    {"", "test_training_dropout_default_mask", kDrawn, {64, 5.11, 0, true}},
    {"1.20", "test_attention_3d_with_past_and_present_qk_matmul_bias", kCorrected, {429, 0.98}},
    {"1.20", "test_attention_3d_with_past_and_present_qk_matmul_softcap", kCorrected, {609, 0.47}},
    {"1.20", "test_attention_4d_with_past_and_present_qk_matmul_bias", kCorrected, {428, 0.98}},
    {"1.20", "test_attention_4d_with_qk_matmul_bias", kCorrected, {144, 0.97}},
    {"1.20", "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask", kCorrected, {431, 0.98}},
    {"1.20", "test_attention_4d_with_qk_matmul_softcap", kCorrected, {329, 0.38}},
    {"1.20", "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal", kCorrected, {432, 0.98, 84}},
    {"1.20", "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask", kCorrected, {431, 1.00}},
    {"1.20", "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal", kCorrected, {432, 1.00, 84}},
};

}  // namespace mlc::conformance
