#include "runtime/pipeline/drawing.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace mlc::pipeline {
namespace {

constexpr int64_t kCellWidth = 6, kCellHeight = 9;  // points: a letter, a gap, and a row of ground above and below
constexpr size_t kMostLetters = 64;

// Colours that are told apart, by class.
constexpr std::array<uint8_t, 3> kColors[] = {{230, 57, 70},  {29, 130, 220}, {46, 160, 67},  {245, 158, 11}, {142, 68, 173}, {0, 170, 170},
                                              {214, 51, 132}, {125, 160, 20}, {121, 85, 72},  {63, 81, 181},  {255, 112, 67}, {96, 110, 120}};

int64_t rounded(float v) { return static_cast<int64_t>(std::floor(std::clamp(double{v}, -1e9, 1e9) + 0.5)); }

// ASCII as it is, any other character as one '?'. The score has two digits behind the point.
std::string caption(const FoundBox& box) {
  std::string text;
  for (const char c : box.label.empty() ? std::to_string(box.index) : box.label) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) continue;  // the rest of a character
    text += byte >= 32 && byte <= 126 ? c : '?';
    if (text.size() == kMostLetters) break;
  }
  if (!std::isfinite(box.score) || std::abs(box.score) >= 1e6) return text;
  const auto hundredths = static_cast<int64_t>(std::floor(std::abs(box.score) * 100 + 0.5));
  const std::string digits = std::to_string(hundredths % 100);
  return text + (box.score < 0 && hundredths > 0 ? " -" : " ") + std::to_string(hundredths / 100) + (digits.size() < 2 ? ".0" : ".") + digits;
}

}  // namespace

Drawing::Drawing(std::span<std::byte> pixels, int64_t height, int64_t width)
    : pixels_(pixels), height_(height), width_(width), line_(std::max<int64_t>(1, (height + width) / 512)) {}

bool Drawing::place(const FoundBox& box, Area& area) const {
  if (std::isnan(box.x1) || std::isnan(box.y1) || std::isnan(box.x2) || std::isnan(box.y2)) return false;
  const auto [left, right] = std::minmax({rounded(box.x1), rounded(box.x2)});
  const auto [top, bottom] = std::minmax({rounded(box.y1), rounded(box.y2)});
  area = {top, left, std::max(bottom, top + 1), std::max(right, left + 1)};
  return area.left < width_ && area.right > 0 && area.top < height_ && area.bottom > 0;
}

void Drawing::fill(Area area, const Rgb& color) {
  area.top = std::max<int64_t>(area.top, 0), area.left = std::max<int64_t>(area.left, 0);
  area.bottom = std::min(area.bottom, height_), area.right = std::min(area.right, width_);
  for (int64_t y = area.top; y < area.bottom; ++y)
    for (int64_t x = area.left; x < area.right; ++x)
      for (size_t c = 0; c < 3; ++c) pixels_[static_cast<size_t>(y * width_ + x) * 3 + c] = std::byte{color[c]};
}

void Drawing::add(const FoundBox& box) {
  Area area;
  if (!place(box, area)) return;
  const Rgb& color = kColors[static_cast<uint64_t>(box.index) % std::size(kColors)];
  const int64_t high = std::min(line_, area.bottom - area.top), wide = std::min(line_, area.right - area.left);
  fill({area.top, area.left, area.top + high, area.right}, color);
  fill({area.bottom - high, area.left, area.bottom, area.right}, color);
  fill({area.top, area.left, area.bottom, area.left + wide}, color);
  fill({area.top, area.right - wide, area.bottom, area.right}, color);
  add_label(box, area, color);
}

// Above the box where there is room, else inside of it; moved so that its beginning is in the picture.
void Drawing::add_label(const FoundBox& box, const Area& area, const Rgb& color) {
  const std::string text = caption(box);
  const int64_t width = (static_cast<int64_t>(text.size()) * kCellWidth + 1) * line_, height = kCellHeight * line_;
  const int64_t top = area.top >= height ? area.top - height : std::max<int64_t>(area.top, 0);
  const int64_t left = std::max<int64_t>(0, std::min(area.left, width_ - width));
  fill({top, left, top + height, left + width}, color);
  const bool is_bright = 299 * color[0] + 587 * color[1] + 114 * color[2] > 140'000;
  const Rgb ink = is_bright ? Rgb{0, 0, 0} : Rgb{255, 255, 255};
  for (size_t i = 0; i < text.size(); ++i) {
    const std::array<uint8_t, 7>& rows = letter_rows(text[i]);
    for (int64_t y = 0; y < 7; ++y)
      for (int64_t x = 0; x < 5; ++x) {
        if (!(rows[static_cast<size_t>(y)] >> (4 - x) & 1)) continue;
        const int64_t at_y = top + (y + 1) * line_, at_x = left + (static_cast<int64_t>(i) * kCellWidth + x + 1) * line_;
        fill({at_y, at_x, at_y + line_, at_x + line_}, ink);
      }
  }
}

uint64_t Drawing::cost(const FoundBox& box) const {
  Area area;
  if (!place(box, area)) return 1;
  const int64_t high = std::min(area.bottom, height_) - std::max<int64_t>(area.top, 0), wide = std::min(area.right, width_) - std::max<int64_t>(area.left, 0);
  const int64_t letters = static_cast<int64_t>(kMostLetters + 16) * kCellWidth * line_ * kCellHeight * line_;
  return static_cast<uint64_t>(2 * (high + wide) * line_ + std::min(letters, height_ * width_));
}

}  // namespace mlc::pipeline
