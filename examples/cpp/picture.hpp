// What both programs need: a picture as the model wants it, and the name of the class that it gives the highest score.
#pragma once

#include <mlrt/mlc.hpp>

#include <algorithm>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>

constexpr int64_t kSide = 28;

// A PGM of 28 x 28 as text (P2), values 0..1. Aligned, so that runs use it without a copy.
inline std::optional<mlrt::Vector<float>> read_picture(const char* path) {
  std::ifstream file(path);
  std::string kind;
  int64_t width = 0, height = 0;
  float largest = 0;
  if (!(file >> kind >> width >> height >> largest) || kind != "P2" || width != kSide || height != kSide) return std::nullopt;
  mlrt::Vector<float> pixels(kSide * kSide);
  for (float& p : pixels) {
    if (!(file >> p)) return std::nullopt;
    p /= largest;
  }
  return pixels;
}

// `pixels` stay where they are until the run has ended.
inline mlrt::Input image_of(const mlrt::Vector<float>& pixels) { return mlrt::Input("image", pixels, {1, 1, kSide, kSide}); }

// The names of the classes travel in the container.
inline std::string label_of(const mlrt::Model& model, std::span<const float> logits) {
  auto index = std::max_element(logits.begin(), logits.end()) - logits.begin();
  const auto text = model.asset_text("labels.txt");
  if (!text) return std::to_string(index);
  std::string_view rest = *text;
  for (; index > 0; --index) rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1));
  return std::string(rest.substr(0, rest.find('\n')));
}
