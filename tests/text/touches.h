// Who touched an element last: finds lanes that meet at one without a barrier between them, one of them writing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mlc::loop {

// Who is at work: a lane of a block, between two barriers. Phases count upward and are never used twice.
struct LaneAt {
  int64_t block = 0, phase = 0, lane = 0;
};

// The elements of one buffer.
class Touches {
 public:
  explicit Touches(size_t elements) : elements_(elements) {}

  // False: another lane was here with no barrier between. Lanes of different blocks have none between them, ever.
  bool read(size_t element, const LaneAt& who);
  bool write(size_t element, const LaneAt& who);
  void forget();  // a new block has the memory

 private:
  // `several`: not one alone. Nobody: block -1.
  struct Touch {
    static constexpr int64_t kNobody = -1, kSeveral = -2;
    LaneAt by{kNobody, 0, 0};
    bool meets(const LaneAt& who) const;
    void add(const LaneAt& who);
  };
  struct Element {
    Touch wrote, read;
  };
  std::vector<Element> elements_;
};

}  // namespace mlc::loop
