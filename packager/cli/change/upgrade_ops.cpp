#include "packager/cli/change/upgrade_ops.h"

#include "base/text/shell_word.h"
#include "packager/container/manifest_encode.h"

namespace mlc::cli {
namespace {

bool is_in_current_form(const ContainerFile& file) {
  const format::Manifest& m = file.opened->manifest();
  return container::encode_manifest(m) == file.manifest && container::make_core(file.manifest.size(), static_cast<uint32_t>(m.segments.size())) == file.core;
}

// Every vector in every variant that runs here.
Result<SelfTestReport> run_golden_vectors(const OpenContainer& file, const std::string& of, CodeOf code_of) {
  compile::FinishedFile finished;
  finished.path = file.path;
  const format::Manifest& manifest = file.opened->manifest();
  for (const format::Golden& g : manifest.golden) finished.vectors.push_back({g.name, manifest.methods[g.method].name, 0});
  auto report = self_test(finished, [](const compile::Stage&) {}, code_of);
  if (report.ok()) return report;
  Status status = std::move(report).status();
  status.help = "nothing was written; mlrun selftest " + shell_path(of) + " tells whether the file gives right answers as it is";
  return status;
}

}  // namespace

Result<Upgraded> upgrade_container(const UpgradeOptions& options) {
  MLC_ASSIGN(Rewrite rewrite, Rewrite::of(options.file));
  const ContainerFile& file = rewrite.file();
  const std::string& output = options.output.empty() ? options.file : options.output;
  const CodeOf code_of = is_signed_by_trusted(file) ? CodeOf::Us : CodeOf::Stranger;
  Upgraded out;
  out.is_current = is_in_current_form(file);
  const auto accept = [&](const OpenContainer& written) -> Status {
    MLC_ASSIGN(out.tested, run_golden_vectors(written, options.file, code_of));
    return ok();
  };
  if (!out.is_current) {
    MLC_ASSIGN(static_cast<Rewritten&>(out), rewrite.write(options.output, options.resign, options.force, accept));
    return out;
  }
  if (!options.resign.key_file.empty() || options.resign.no_sign)
    return Status(Code::Usage, options.file + " is in the form of this mlpack already, so its root and signatures stay").hint("without --key and --no-sign; mlpack sign adds a signature");
  MLC_RETURN_IF_ERROR(container::may_write(output, options.force));
  MLC_RETURN_IF_ERROR(write_checked(output, file.opened->root(), file.path, [&](container::OutputFile& emit) -> Status {
    return copy_range(file.path, 0, file.opened->file_size(), [&](Bytes bytes) { return emit.write(bytes); });
  }, [&](const OpenContainer& written) -> Status {
    MLC_RETURN_IF_ERROR(written.opened->verify_all());
    return accept(written);
  }));
  out.root = out.parent = file.opened->root();
  out.output = output;
  out.bytes = file.opened->file_size();
  out.signatures_before = file.authentication.signatures().size();
  return out;
}

}  // namespace mlc::cli
