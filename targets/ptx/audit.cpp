#include "targets/ptx/audit.h"

#include <algorithm>

#include "schema/cubin.h"
#include "schema/format.h"

namespace mlc::targets::ptx {

namespace {

std::string text_of(Level level) {
  return "PTX " + std::to_string(level.version / 10) + "." + std::to_string(level.version % 10) + " for sm_" + std::to_string(level.sm) + (level.is_specific ? "a" : "");
}

// The text of an image: one zero stands behind it, none in it.
Result<std::string_view> image_text(const mlc::gpu::Image& image) {
  const std::string_view text(reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size());
  if (text.empty() || text.find('\0') != text.size() - 1) return Status(Code::Malformed, "no text with one zero behind it");
  return text.substr(0, text.size() - 1);
}

}  // namespace

Level level_of(const Target& target) {
  if (target.name == "cuda-sm75") return {65, 75};
  if (target.name == "cuda-sm80") return {70, 80};
  return target.name == "cuda-sm90" ? Level{78, 90} : Level{84, 90, true};
}

Result<std::set<OpClass>> audit_image(const Target& target, const Image& image) {
  const Level level = level_of(target);
  if (const Level found{image.version, image.sm, image.is_specific}; found != level)
    return Status(Code::Internal, "the image is " + text_of(found) + ", the target is " + text_of(level));
  std::set<OpClass> classes;
  for (const Entry& entry : image.entries)
    for (const Instruction& i : entry.code) {
      const bool is_specific = i.op->op_class == OpClass::GroupProduct;
      if (i.op->sm > level.sm || i.op->version > level.version || (is_specific && !level.is_specific))
        return Status(Code::Internal, "entry " + entry.name + ": '" + i.op->name + "' wants " + text_of({i.op->version, i.op->sm, is_specific}));
      classes.insert(i.op->op_class);
    }
  return classes;
}

Status audit_entry(const mlc::gpu::Entry& entry, const Entry& code) {
  const auto bad = [&](const std::string& what) { return Status(Code::Internal, "entry " + entry.name + ": " + what); };
  const size_t num_params = size_t{entry.num_buffers} + 2 + entry.num_scalars + (entry.may_fault ? 1 : 0);
  if (code.params.size() != num_params) return bad("the code has " + std::to_string(code.params.size()) + " parameters, " + std::to_string(num_params) + " are expected");
  for (size_t k = 0; k < num_params; ++k) {
    const bool is_count = k == entry.num_buffers || k == size_t{entry.num_buffers} + 1;
    if (code.params[k].bytes != (is_count ? 4 : 8)) return bad("parameter " + std::to_string(k) + " has another size");
  }
  for (size_t k = 0; k < 3; ++k)
    if (code.max_lanes[k] != entry.lanes[k]) return bad("the code has blocks of other lanes");
  if (code.shared_bytes != entry.shared_bytes || code.uses_dynamic_shared != (entry.dynamic_shared_bytes > 0)) return bad("the code has other shared memory");
  if (code.has_barriers && !entry.has_barriers) return bad("the code has barriers");
  return ok();
}

Status audit_module_bytes(const Target& target, std::span<const std::byte> module) {
  MLC_ASSIGN(const mlc::gpu::Module m, mlc::gpu::decode(module));
  if (m.format != static_cast<uint8_t>(format::ModuleFormat::Ptx)) return Status(Code::Internal, "a module of another format");
  std::vector<Image> images;
  size_t text = 0;  // that the cubins behind it were made of
  for (const mlc::gpu::Image& image : m.images) {
    images.emplace_back();
    if (image.kind != mlc::gpu::ImageKind::Ptx) {
      std::vector<const mlc::gpu::Entry*> entries;
      for (const mlc::gpu::Entry& e : m.entries)
        if (e.image == text) entries.push_back(&e);
      MLC_RETURN_IF_ERROR(mlc::gpu::check_cubin(image.bytes, image.architecture, entries));
      continue;
    }
    text = images.size() - 1;
    MLC_ASSIGN(const std::string_view words, image_text(image));
    MLC_ASSIGN(images.back(), parse(words));
    MLC_ASSIGN(const std::set<OpClass> classes, audit_image(target, images.back()));
    const bool listed = std::equal(classes.begin(), classes.end(), image.features.begin(), image.features.end(),
                                   [](OpClass c, uint32_t feature) { return static_cast<uint32_t>(c) == feature; });
    if (!listed) return Status(Code::Internal, "an image uses other classes of instructions than the module says");
  }
  for (const mlc::gpu::Entry& entry : m.entries) {
    const std::vector<Entry>& entries = images[entry.image].entries;
    const auto code = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == entry.name; });
    if (code == entries.end()) return Status(Code::Internal, "entry " + entry.name + " is not in its image");
    MLC_RETURN_IF_ERROR(audit_entry(entry, *code));
  }
  return ok();
}

}  // namespace mlc::targets::ptx
