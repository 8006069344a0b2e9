#include "packager/cli/change/add_ops.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/files/unfinished.h"
#include "packager/cli/change/stored.h"
#include "packager/cli/change/thin_ops.h"
#include "packager/container/manifest_encode.h"
#include "schema/validate/validate.h"
#include "signing/envelope.h"
#include "targets/target.h"

namespace mlc::cli {
namespace {

using format::Manifest;

// The container of the new targets alone, which goes when this does.
class NewCode {
 public:
  explicit NewCode(std::string path) : path_(std::move(path)), unfinished_(path_) {}
  ~NewCode() { ::unlink(path_.c_str()); }
  NewCode(const NewCode&) = delete;
  NewCode& operator=(const NewCode&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const Unfinished unfinished_;
};

// What a plan counts on besides its code, as bytes: programs and constants, without what golden vectors add.
std::vector<std::byte> shared_parts(const Manifest& m) {
  Manifest parts;
  parts.methods = m.methods;
  parts.tensors = m.tensors;
  parts.layouts = m.layouts;
  for (format::Method& method : parts.methods)
    for (auto* ports : {&method.inputs, &method.outputs, &method.core_inputs, &method.core_outputs, &method.state})
      for (format::Port& port : *ports) port.range.clear(), port.labels.reset(), port.tokenizer.reset();
  for (format::Tensor& tensor : parts.tensors)
    for (format::Copy& copy : tensor.copies) copy.ref.segment = 0;
  return container::encode_manifest(parts);
}

const format::Variant& portable_of(const Manifest& m) {
  return *std::find_if(m.variants.begin(), m.variants.end(), [](const format::Variant& v) { return v.module_format == format::ModuleFormat::Portable; });
}

bool same_code(const Manifest& a, const format::Variant& v, const Manifest& b, const format::Variant& w) {
  return a.segments[*v.module].digest == b.segments[*w.module].digest && a.segments[*v.plan].digest == b.segments[*w.plan].digest;
}

// The portable forms of one program are the same bytes, so this is the question whether model, pipeline and options are those of the file.
Status check_same_program(const ContainerFile& file, const ContainerFile& fresh, const std::string& model) {
  const Manifest &old = file.opened->manifest(), &now = fresh.opened->manifest();
  const auto other = [&](const std::string& what) {
    Status status(Code::Unsupported, model + " compiles to another program than that of " + file.path + ": " + what);
    if (old.provenance.tool_version != now.provenance.tool_version)
      status = std::move(status).fact("mlpack " + old.provenance.tool_version + " made the file, this is " + now.provenance.tool_version);
    return std::move(status).hint("give model, pipeline and options of the build, or build again with all targets");
  };
  if (shared_parts(old) != shared_parts(now)) {
    for (size_t k = 0; k < std::min(old.tensors.size(), now.tensors.size()); ++k)
      if (old.tensors[k].name != now.tensors[k].name || old.tensors[k].content != now.tensors[k].content) return other("constant " + format::quoted(old.tensors[k].name) + " differs");
    return other("its inputs, outputs or constants differ");
  }
  if (!same_code(old, portable_of(old), now, portable_of(now))) return other("the portable forms differ");
  return ok();
}

const format::Variant* variant_named(const Manifest& m, std::string_view name) {
  const auto found = std::find_if(m.variants.begin(), m.variants.end(), [&](const format::Variant& v) { return v.name == name; });
  return found == m.variants.end() ? nullptr : &*found;
}

// A simpler target of which the file has the same code: a build leaves such variants out.
bool has_simpler(const Manifest& m, const Manifest& now, const format::Variant& fresh) {
  const targets::Target* target = targets::find_target(fresh.target);
  for (const targets::Target* base = target ? targets::find_target(target->base) : nullptr; base != nullptr; base = targets::find_target(base->base))
    if (const format::Variant* known = variant_named(m, base->name); known != nullptr && same_code(m, *known, now, fresh)) return true;
  return false;
}

// Sorts what was compiled: new, lacking here, there already.
struct Sorted {
  std::vector<const format::Variant*> added;  // of the new code
  std::vector<std::string> restored, equal;
};
Result<Sorted> sort(const ContainerFile& file, const ContainerFile& fresh) {
  const Manifest &old = file.opened->manifest(), &now = fresh.opened->manifest();
  Sorted out;
  for (const format::Variant& variant : now.variants) {
    if (variant.module_format == format::ModuleFormat::Portable) continue;
    const format::Variant* known = variant_named(old, variant.name);
    if (known == nullptr) {
      if (has_simpler(old, now, variant)) out.equal.push_back(variant.name);
      else out.added.push_back(&variant);
    } else if (!same_code(old, *known, now, variant)) {
      return Status(Code::Unsupported, "this mlpack compiles other code for " + variant.name + " than " + file.path + " has").hint("mlpack fill with the original, or build again");
    } else {
      const bool is_there = file.opened->present(*known->plan) && file.opened->present(*known->module);
      (is_there ? out.equal : out.restored).push_back(variant.name);
    }
  }
  return out;
}

// Segments that this copy lacks and the new code has, and those of new variants.
Status put_in(Rewrite& rewrite, const ContainerFile& fresh, const Sorted& sorted) {
  const Manifest& now = fresh.opened->manifest();
  container::ContainerBuilder& builder = rewrite.builder();
  MLC_ASSIGN(std::vector<container::StoredSegment> stored, stored_segments(fresh));
  for (const std::string& name : sorted.restored) {
    const format::Variant &known = *variant_named(builder.manifest, name), &variant = *variant_named(now, name);
    builder.bring_back(*known.plan, stored[*variant.plan]);
    builder.bring_back(*known.module, stored[*variant.module]);
  }
  for (const format::Variant* variant : sorted.added) {
    format::Variant copy = *variant;
    copy.unusable.clear();
    copy.module = builder.keep_segment(now.segments[*variant->module], stored[*variant->module]);
    copy.plan = builder.keep_segment(now.segments[*variant->plan], stored[*variant->plan]);
    builder.add_variant(std::move(copy));
  }
  return ok();
}

// Nothing is new to the manifest: as `fill` does it.
Result<Added> restored_only(const AddOptions& options, const ContainerFile& file, const std::string& from) {
  MLC_ASSIGN(const CopyResult copied, fill_container({options.file, from, options.output, options.force, /*may_find_nothing=*/true}));
  Added out;
  out.root = out.parent = file.opened->root();
  out.output = copied.output;
  out.bytes = copied.bytes_after;
  out.signatures_before = copied.num_signatures;
  return out;
}

bool has_devices(const Manifest& m) {
  return std::any_of(m.variants.begin(), m.variants.end(), [](const format::Variant& v) {
    const targets::Target* target = targets::find_target(v.target);
    return target != nullptr && target->is_device();
  });
}

}  // namespace

Result<Added> add_targets(const AddOptions& options) {
  MLC_ASSIGN(Rewrite rewrite, Rewrite::of(options.file));
  const std::string& output = options.output.empty() ? options.file : options.output;
  MLC_RETURN_IF_ERROR(container::may_write(output, options.force));
  const NewCode code(output + ".add" + std::to_string(::getpid()));
  compile::BuildOptions build = options.build;
  build.output_path = code.path();
  build.sign = false;
  build.golden_seconds = 0;
  build.for_devices = has_devices(rewrite.manifest());
  if (auto built = compile::build(build); !built.ok()) return std::move(built).status();
  MLC_ASSIGN(const ContainerFile fresh, open_container_file(code.path()));
  MLC_RETURN_IF_ERROR(check_same_program(rewrite.file(), fresh, build.model_path));
  MLC_ASSIGN(const Sorted sorted, sort(rewrite.file(), fresh));
  Added out;
  if (sorted.added.empty()) {
    MLC_ASSIGN(out, restored_only(options, rewrite.file(), code.path()));
  } else {
    MLC_RETURN_IF_ERROR(put_in(rewrite, fresh, sorted));
    MLC_ASSIGN(Rewritten written, rewrite.write(options.output, options.resign, options.force));
    out = Added{std::move(written), {}, {}, {}};
  }
  for (const format::Variant* variant : sorted.added) out.added.push_back(variant->name);
  out.restored = sorted.restored;
  out.equal = sorted.equal;
  return out;
}

}  // namespace mlc::cli
