#include "loaders/vulkan/recorder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "loaders/vulkan/words.h"

namespace mlc::vulkan {
namespace {

const VulkanMemory& memory_of(const device::Range& r) { return static_cast<const VulkanMemory&>(*r.memory); }

template <class T>
void append(std::vector<std::byte>& out, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// What a kernel may reach of a buffer: to the end of its line of 64 bytes, and never nothing, which Vulkan has no word for.
uint64_t reach(const device::Range& r) {
  const uint64_t padded = std::max<uint64_t>((r.length + 63) / 64 * 64, 64);
  return std::min(padded, r.memory->size() - r.offset);
}

}  // namespace

VulkanRecording::~VulkanRecording() {
  if (context_.is_lost()) return;
  if (pool_) context_.call().DestroyCommandPool(context_.handle(), pool_, nullptr);
  if (descriptors_) context_.call().DestroyDescriptorPool(context_.handle(), descriptors_, nullptr);
}

device::Fault VulkanRecording::fault() const {
  return faults_ ? device::fault_in(faults_->data()) : device::Fault();
}

Status VulkanRecorder::check_range(const device::Range& r) const {
  const device::Limits& limits = context_.physical().limits;
  if (!r.memory || !range_within(r.offset, r.length, r.memory->size())) return Status(Code::Internal, "a buffer beyond its memory");
  if (r.offset == r.memory->size()) return Status(Code::Internal, "an empty buffer behind its memory");
  if (r.offset % limits.buffer_alignment != 0)
    return Status(Code::Unsupported, "a buffer that begins at {}, {} wants multiples of {}", r.offset, context_.physical().info.title, limits.buffer_alignment);
  if (r.length > limits.range_bytes) return Status(Code::Unsupported, "a buffer of {} bytes, {} takes at most {}", r.length, context_.physical().info.title, limits.range_bytes);
  return ok();
}

Status VulkanRecorder::launch(const device::Module& module, const device::Launch& l) {
  MLC_ASSIGN(Kernel kernel, static_cast<const VulkanModule&>(module).kernel(l.kernel));
  const gpu::Entry& e = *kernel.entry;
  MLC_RETURN_IF_ERROR(device::check_launch(e, l, context_.physical().work_group_rows, context_.physical().info));
  for (const device::Range& r : l.buffers)
    if (Status s = check_range(r); !s.ok()) return std::move(s).note("kernel '{}'", e.name);
  if (l.tiles == 0) return ok();
  Dispatch d;
  d.kernel = kernel;
  d.tiles = l.tiles;
  d.first_range = ranges_.size();
  ranges_.insert(ranges_.end(), l.buffers.begin(), l.buffers.end());
  append(d.push, l.tiles);
  append(d.push, l.number);
  append(d.push, uint64_t{0});
  const bool many = e.num_scalars > gpu::kMaxPushScalars;
  if (many) {
    scalars_.resize((scalars_.size() + 255) / 256 * 256);
    d.scalars_offset = scalars_.size();
  }
  for (int64_t s : l.scalars) append(many ? scalars_ : d.push, s);
  commands_.push_back(std::move(d));
  return ok();
}

void VulkanRecorder::copy(const device::Range& to, const device::Range& from) {
  if (!device::is_no_copy(to, from)) commands_.push_back(Copy{to, from});
}

void VulkanRecorder::clear(const device::Range& range) {
  if (range.length > 0) commands_.push_back(Clear{{range.memory, range.offset, (range.length + 3) / 4 * 4}});
}

Result<std::unique_ptr<device::Recording>> VulkanRecorder::finish() {
  MLC_RETURN_IF_ERROR(context_.alive());
  auto out = std::make_unique<VulkanRecording>(context_);
  MLC_RETURN_IF_ERROR(make_memory(*out));
  MLC_RETURN_IF_ERROR(make_sets(*out));
  fill_sets(*out);
  MLC_RETURN_IF_ERROR(make_commands(*out));
  return std::unique_ptr<device::Recording>(std::move(out));
}

Status VulkanRecorder::make_memory(VulkanRecording& out) {
  if (!scalars_.empty()) {
    MLC_ASSIGN(out.scalars_, VulkanMemory::allocate(context_, scalars_.size(), device::MemoryKind::Staging));
    std::memcpy(out.scalars_->data(), scalars_.data(), scalars_.size());
  }
  const auto faults = [](const auto& c) { return std::holds_alternative<Dispatch>(c) && std::get<Dispatch>(c).kernel.entry->may_fault; };
  if (std::any_of(commands_.begin(), commands_.end(), faults)) {
    MLC_ASSIGN(out.faults_, VulkanMemory::allocate(context_, 8, device::MemoryKind::Readback));
  }
  return ok();
}

Status VulkanRecorder::make_sets(VulkanRecording& out) {
  std::vector<DescriptorSetLayout> layouts;
  uint64_t descriptors = 0;
  for (const auto& c : commands_)
    if (const auto* d = std::get_if<Dispatch>(&c)) {
      layouts.push_back(d->kernel.layout.set);
      descriptors += gpu::num_bindings(*d->kernel.entry);
    }
  if (layouts.empty()) return ok();
  if (descriptors > UINT32_MAX) return Status(Code::Resource, "{} buffers of launches in one recording", descriptors);
  DescriptorPoolSize size;
  size.count = static_cast<uint32_t>(std::max<uint64_t>(descriptors, 1));
  DescriptorPoolCreateInfo pool;
  pool.num_sets = static_cast<uint32_t>(layouts.size());
  pool.num_sizes = 1;
  pool.sizes = &size;
  const DeviceFunctions& call = context_.call();
  MLC_RETURN_IF_ERROR(context_.check(call.CreateDescriptorPool(context_.handle(), &pool, nullptr, &out.descriptors_), "vkCreateDescriptorPool"));
  DescriptorSetAllocateInfo allocate;
  allocate.pool = out.descriptors_;
  allocate.count = static_cast<uint32_t>(layouts.size());
  allocate.layouts = layouts.data();
  std::vector<DescriptorSet> sets(layouts.size());
  MLC_RETURN_IF_ERROR(context_.check(call.AllocateDescriptorSets(context_.handle(), &allocate, sets.data()), "vkAllocateDescriptorSets"));
  size_t next = 0;
  for (auto& c : commands_)
    if (auto* d = std::get_if<Dispatch>(&c)) d->set = sets[next++];
  return ok();
}

void VulkanRecorder::fill_sets(const VulkanRecording& out) {
  std::vector<DescriptorBufferInfo> buffers;
  for (const auto& c : commands_) {
    const auto* d = std::get_if<Dispatch>(&c);
    if (!d) continue;
    const gpu::Entry& e = *d->kernel.entry;
    buffers.clear();
    for (size_t k = 0; k < e.num_buffers; ++k) {
      const device::Range& r = ranges_[d->first_range + k];
      buffers.push_back({memory_of(r).buffer(), r.offset, reach(r)});
    }
    if (e.num_scalars > gpu::kMaxPushScalars) buffers.push_back({out.scalars_->buffer(), d->scalars_offset, uint64_t{8} * e.num_scalars});
    if (e.may_fault) buffers.push_back({out.faults_->buffer(), 0, 8});
    if (buffers.empty()) continue;
    WriteDescriptorSet write;
    write.set = d->set;
    write.count = static_cast<uint32_t>(buffers.size());  // goes on to the following bindings
    write.buffers = buffers.data();
    context_.call().UpdateDescriptorSets(context_.handle(), 1, &write, 0, nullptr);
  }
}

void VulkanRecorder::record_barrier(CommandBuffer commands) const {
  MemoryBarrier b;
  b.before = kAccessShaderWrite | kAccessTransferWrite;
  b.behind = kAccessShaderRead | kAccessShaderWrite | kAccessTransferRead | kAccessTransferWrite;
  context_.call().CmdPipelineBarrier(commands, kStageCompute | kStageTransfer, kStageCompute | kStageTransfer, 0, 1, &b, 0, nullptr, 0, nullptr);
}

void VulkanRecorder::record(const Dispatch& d, CommandBuffer commands) const {
  const DeviceFunctions& call = context_.call();
  call.CmdBindPipeline(commands, kBindPointCompute, d.kernel.pipeline);
  call.CmdBindDescriptorSets(commands, kBindPointCompute, d.kernel.layout.pipeline, 0, 1, &d.set, 0, nullptr);
  call.CmdPushConstants(commands, d.kernel.layout.pipeline, kStageShaderCompute, 0, static_cast<uint32_t>(d.push.size()), d.push.data());
  call.CmdDispatch(commands, std::min(d.tiles, gpu::kGridColumns), (d.tiles - 1) / gpu::kGridColumns + 1, 1);
}

Status VulkanRecorder::make_commands(VulkanRecording& out) {
  const DeviceFunctions& call = context_.call();
  CommandPoolCreateInfo pool;
  pool.family = context_.physical().queue_family;
  MLC_RETURN_IF_ERROR(context_.check(call.CreateCommandPool(context_.handle(), &pool, nullptr, &out.pool_), "vkCreateCommandPool"));
  CommandBufferAllocateInfo allocate;
  allocate.pool = out.pool_;
  MLC_RETURN_IF_ERROR(context_.check(call.AllocateCommandBuffers(context_.handle(), &allocate, &out.commands_), "vkAllocateCommandBuffers"));
  const CommandBufferBeginInfo begin;
  MLC_RETURN_IF_ERROR(context_.check(call.BeginCommandBuffer(out.commands_, &begin), "vkBeginCommandBuffer"));
  record_barrier(out.commands_);  // what an earlier submission wrote
  if (out.faults_) {
    call.CmdFillBuffer(out.commands_, out.faults_->buffer(), 0, 8, 0);
    record_barrier(out.commands_);
  }
  for (const auto& c : commands_) {
    if (const auto* d = std::get_if<Dispatch>(&c)) {
      record(*d, out.commands_);
    } else if (const auto* copy = std::get_if<Copy>(&c)) {
      const BufferCopy region{copy->from.offset, copy->to.offset, copy->to.length};
      call.CmdCopyBuffer(out.commands_, memory_of(copy->from).buffer(), memory_of(copy->to).buffer(), 1, &region);
    } else if (const auto* clear = std::get_if<Clear>(&c)) {
      call.CmdFillBuffer(out.commands_, memory_of(clear->range).buffer(), clear->range.offset, clear->range.length, 0);
    } else {
      record_barrier(out.commands_);
    }
  }
  MemoryBarrier to_host;
  to_host.before = kAccessShaderWrite | kAccessTransferWrite;
  to_host.behind = kAccessHostRead;
  call.CmdPipelineBarrier(out.commands_, kStageCompute | kStageTransfer, kStageHost, 0, 1, &to_host, 0, nullptr, 0, nullptr);
  return context_.check(call.EndCommandBuffer(out.commands_), "vkEndCommandBuffer");
}

}  // namespace mlc::vulkan
