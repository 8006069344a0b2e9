#include "tests/text/loop_memory.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "packager/ir/evaluate.h"

namespace mlc::loop {

namespace {

constexpr uint64_t kMaxScratch = 1u << 30;  // bytes of one local array
constexpr std::byte kPoison{0xA5};

}  // namespace

Result<Memory> Memory::make(const Kernel& kernel, const Run& run) {
  if (run.buffers.size() != kernel.params.size()) return Status(Code::Internal, "wrong number of buffers");
  Memory m(kernel);
  for (size_t k = 0; k < kernel.params.size(); ++k) {
    const Param& p = kernel.params[k];
    m.places_.push_back({p.dtype, run.buffers[k].data(), run.buffers[k].size() / bytes_of(p.dtype), kernel.lanes && p.written});
  }
  for (const LocalArray& l : kernel.locals) {
    const auto count = ir::evaluate_extent(l.count, run.value);
    const auto bytes = count && *count >= 0 ? checked_mul(static_cast<uint64_t>(*count), bytes_of(l.dtype)) : std::nullopt;
    if (!bytes || *bytes > kMaxScratch) return Status(Code::Internal, "local array " + l.name + " has no size");
    const bool in_block = kernel.lanes && l.space == Space::Shared;
    m.scratch_.emplace_back(*bytes * (in_block ? kernel.cluster : 1), kPoison);
    m.places_.push_back({l.dtype, m.scratch_.back().data(), static_cast<uint64_t>(*count), in_block, in_block});
  }
  for (const Place& p : m.places_) {
    const uint64_t in_cluster = p.in_block ? p.elements * kernel.cluster : 0;
    m.touches_.emplace_back(p.in_block ? in_cluster : p.tracked ? p.elements : 0);
    m.crossings_.emplace_back(kernel.cluster > 1 ? in_cluster : 0);
  }
  return m;
}

std::string Memory::name(uint32_t array) const {
  return array < kernel_->params.size() ? kernel_->params[array].name : kernel_->locals[array - kernel_->params.size()].name;
}

bool Memory::out_of_range(uint32_t array, int64_t index, Failure& failure) const {
  failure.fail("element " + std::to_string(index) + " of buffer " + std::to_string(array) + " is out of range");
  return false;
}

bool Memory::load(uint32_t array, int64_t index, ir::Scalar& value, Failure& failure) {
  const Place& p = places_[array];
  if (index < 0 || static_cast<uint64_t>(index) >= p.elements) return out_of_range(array, index, failure);
  if (p.tracked) touch(array, block(), index, false, failure);
  value = ir::load_element(p.dtype, p.base, static_cast<uint64_t>(index));
  return true;
}

bool Memory::load_of_peer(uint32_t array, int64_t peer, int64_t index, ir::Scalar& value, Failure& failure) {
  const Place& p = places_[array];
  if (index < 0 || static_cast<uint64_t>(index) >= p.elements) return out_of_range(array, index, failure);
  touch(array, peer, index, false, failure);
  value = ir::load_element(p.dtype, scratch_[array - kernel_->params.size()].data(), static_cast<uint64_t>(peer) * p.elements + static_cast<uint64_t>(index));
  return true;
}

bool Memory::store(uint32_t array, int64_t index, ir::Scalar value, Failure& failure) {
  const Place& p = places_[array];
  if (index < 0 || static_cast<uint64_t>(index) >= p.elements) return out_of_range(array, index, failure);
  if (p.tracked) touch(array, block(), index, true, failure);
  ir::store_element(p.dtype, p.base, static_cast<uint64_t>(index), value);
  return true;
}

bool Memory::touch(uint32_t array, int64_t block, int64_t index, bool stores, Failure& failure) {
  const Place& p = places_[array];
  const auto at = static_cast<size_t>(p.in_block ? block * static_cast<int64_t>(p.elements) + index : index);
  const auto fits = [&](Touches& all, const LaneAt& who) { return stores ? all.write(at, who) : all.read(at, who); };
  // Blocks that run at once are several where no barrier is for them, and one where each has its part.
  const LaneAt mine{p.in_block ? at_.block : at_.block + this->block(), at_.phase, at_.lane}, of_block{at_.block, turn_, this->block()};
  const bool in_order = fits(touches_[array], mine);
  if (in_order && (!p.in_block || kernel_->cluster == 1 || fits(crossings_[array], of_block))) return true;
  failure.fail("lane " + std::to_string(at_.lane) + " meets another at element " + std::to_string(index) + " of " + name(array) +
               ", no barrier lies between");
  return false;
}

std::byte* Memory::touch_bytes(uint32_t array, int64_t first, size_t bytes, bool stores, Failure& failure) {
  const Place& p = places_[array];
  const auto size = static_cast<int64_t>(bytes_of(p.dtype)), count = static_cast<int64_t>(bytes) / size;
  if (first < 0 || first + count > static_cast<int64_t>(p.elements)) return out_of_range(array, first, failure), nullptr;
  if (first * size % static_cast<int64_t>(bytes) != 0) return failure.fail("a copy of element " + std::to_string(first) + " of " + name(array) + ", which is at no multiple of its bytes"), nullptr;
  for (int64_t k = 0; p.tracked && k < count; ++k) touch(array, block(), first + k, stores, failure);
  return p.base + first * size;
}

void Memory::begin_copy(const Stmt& s, int64_t to, int64_t from, bool counts, Failure& failure) {
  const auto size = static_cast<size_t>(s.step);
  Copy copy{s.array, to, std::vector<std::byte>(size)};
  const std::byte* source = counts ? touch_bytes(s.value->array, from, size, false, failure) : nullptr;
  std::byte* place = touch_bytes(s.array, to, size, true, failure);
  if (!place || (counts && !source)) return;
  if (source) std::copy_n(source, size, copy.bytes.begin());
  std::fill_n(place, size, kPoison);
  copies_[static_cast<size_t>(at_.lane)].open.push_back(std::move(copy));
}

void Memory::close_copies() {
  CopiesOfLane& mine = copies_[static_cast<size_t>(at_.lane)];
  mine.closed.push_back(std::exchange(mine.open, {}));
}

void Memory::wait_copies(int64_t groups, Failure& failure) {
  std::deque<Group>& closed = copies_[static_cast<size_t>(at_.lane)].closed;
  for (; static_cast<int64_t>(closed.size()) > groups; closed.pop_front())
    for (const Copy& copy : closed.front())
      if (std::byte* place = touch_bytes(copy.array, copy.first, copy.bytes.size(), true, failure)) std::copy(copy.bytes.begin(), copy.bytes.end(), place);
}

void Memory::end_block(Failure& failure) {
  for (const CopiesOfLane& of_lane : copies_) {
    bool any = !of_lane.open.empty();
    for (const Group& group : of_lane.closed) any = any || !group.empty();
    if (any) failure.fail("a lane ends before its copies");
  }
  // To end is to have stored everywhere.
  for (size_t k = 0; kernel_->cluster > 1 && k < places_.size(); ++k)
    for (uint64_t at = 0; places_[k].in_block && at < places_[k].elements * kernel_->cluster; ++at)
      if (!crossings_[k].write(at, {at_.block, turn_, static_cast<int64_t>(at / places_[k].elements)})) failure.fail("a block ends while others may read what it has in " + name(static_cast<uint32_t>(k)));
}

void Memory::begin_block(size_t lanes) {
  copies_.assign(lanes, {});
  at_.block += kernel_->cluster, ++at_.phase, ++turn_;
  const size_t first = kernel_->params.size();
  for (size_t k = 0; k < scratch_.size(); ++k) {
    std::fill(scratch_[k].begin(), scratch_[k].end(), kPoison);
    touches_[first + k].forget(), crossings_[first + k].forget();
  }
  private_.assign(lanes, {});
  for (auto& of_lane : private_)
    for (size_t k = 0; k < scratch_.size(); ++k)
      of_lane.push_back(kernel_->locals[k].space == Space::Private ? scratch_[k] : std::vector<std::byte>());
}

void Memory::set_lane(size_t lane) {
  at_.lane = static_cast<int64_t>(lane);
  for (size_t k = 0; k < scratch_.size(); ++k) {
    Place& p = places_[kernel_->params.size() + k];
    if (kernel_->locals[k].space == Space::Private) p.base = private_[lane][k].data();
    else if (p.in_block) p.base = scratch_[k].data() + static_cast<uint64_t>(block()) * p.elements * bytes_of(p.dtype);
  }
}

}  // namespace mlc::loop
