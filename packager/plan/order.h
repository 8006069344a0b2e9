// Which of the instructions before it each instruction of a segment must wait for: the last one that writes what it reads or
// overwrites, or reads what it overwrites. Buffers that lie over each other in the arena are one and the same for that,
// whether they live at the same time or not.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "packager/ir/context.h"

namespace mlc::plan {

class Order {
 public:
  struct Use {
    uint32_t buffer = 0;
    bool written = false;
  };

  explicit Order(ir::Context& ctx) : ctx_(ctx) {}
  // A buffer of the arena, or of other memory that several have; what is not said of any lies by itself.
  static constexpr uint32_t kArena = UINT32_MAX;
  void place(uint32_t buffer, const ir::Expr* offset, const ir::Expr* bytes, uint32_t memory = kArena);
  // The next instruction, which uses these: how many, from the first, must be done before any part of it begins.
  uint32_t after(std::vector<Use> uses);

 private:
  struct Place {
    const ir::Expr *begin = nullptr, *end = nullptr;
    uint32_t memory = 0;
  };
  bool may_overlap(uint32_t a, uint32_t b);
  bool is_surely_below(const ir::Expr* x, const ir::Expr* y, int& steps);

  ir::Context& ctx_;
  std::map<uint32_t, Place> places_;
  std::map<std::pair<uint32_t, uint32_t>, bool> overlaps_;  // what is known; the smaller buffer first
  std::vector<std::vector<Use>> before_;                    // of each instruction so far
};

}  // namespace mlc::plan
