#include "tests/text/loop_memory.h"

#include <algorithm>

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
    m.scratch_.emplace_back(*bytes, kPoison);
    m.places_.push_back({l.dtype, m.scratch_.back().data(), static_cast<uint64_t>(*count), kernel.lanes && l.space == Space::Shared});
  }
  for (const Place& p : m.places_) m.touches_.emplace_back(p.tracked ? p.elements : 0);
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
  if (p.tracked) touch(array, index, false, failure);
  value = ir::load_element(p.dtype, p.base, static_cast<uint64_t>(index));
  return true;
}

bool Memory::store(uint32_t array, int64_t index, ir::Scalar value, Failure& failure) {
  const Place& p = places_[array];
  if (index < 0 || static_cast<uint64_t>(index) >= p.elements) return out_of_range(array, index, failure);
  if (p.tracked) touch(array, index, true, failure);
  ir::store_element(p.dtype, p.base, static_cast<uint64_t>(index), value);
  return true;
}

bool Memory::touch(uint32_t array, int64_t index, bool stores, Failure& failure) {
  Touches& all = touches_[array];
  const auto at = static_cast<size_t>(index);
  if (stores ? all.write(at, at_) : all.read(at, at_)) return true;
  failure.fail("lane " + std::to_string(at_.lane) + " meets another at element " + std::to_string(index) + " of " + name(array) +
               ", no barrier lies between");
  return false;
}

void Memory::begin_block(size_t lanes) {
  ++at_.block, ++at_.phase;
  const size_t first = kernel_->params.size();
  for (size_t k = 0; k < scratch_.size(); ++k) {
    std::fill(scratch_[k].begin(), scratch_[k].end(), kPoison);
    touches_[first + k].forget();
  }
  private_.assign(lanes, {});
  for (auto& of_lane : private_)
    for (size_t k = 0; k < scratch_.size(); ++k)
      of_lane.push_back(kernel_->locals[k].space == Space::Private ? scratch_[k] : std::vector<std::byte>());
}

void Memory::set_lane(size_t lane) {
  at_.lane = static_cast<int64_t>(lane);
  for (size_t k = 0; k < scratch_.size(); ++k)
    if (kernel_->locals[k].space == Space::Private) places_[kernel_->params.size() + k].base = private_[lane][k].data();
}

}  // namespace mlc::loop
