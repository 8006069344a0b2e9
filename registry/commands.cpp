#include "registry/commands.h"

#include <algorithm>
#include <memory>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/counted.h"
#include "registry/store/artifact.h"
#include "registry/copy.h"
#include "registry/engines/export_engine.h"
#include "registry/policy.h"
#include "registry/pull.h"
#include "registry/push.h"

namespace mlc::registry {
namespace {

using cli::Json;
using cli::Report;

// What each command is given that talks to a registry.
struct Flags {
  std::string reference, file, output, policy, shape = "modelpack", as, tag = "latest";
  std::vector<std::string> from;
  StatementOptions statements;
  engines::EngineOptions engine;
  uint32_t timeout = 60, parallel = kParallel, request_mib = kRequestBytes >> 20;
  bool plain_http = false, keep_host = false, force = false, as_json = false;

  ClientOptions client() const { return {plain_http, timeout, parallel}; }
};

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

std::string pinned(const Reference& reference, const Digest& digest) { return reference.repository_text() + "@" + digest_text(digest); }

std::string in_layers(size_t number) { return number == 1 ? "" : " in " + counted(number, "layer"); }

std::string sent_layers(const PushResult& result) {
  return result.layers_sent == result.layers ? in_layers(result.layers) : in_layers(result.layers) + ", of which " + std::to_string(result.layers_sent) + " were sent";
}

// The digest of the layer; parts have one each, which the manifest lists.
void add_blob(const Artifact& artifact, Json& json) {
  if (artifact.blobs.size() == 1) json["blob"] = digest_text(artifact.blobs.front().digest);
}

const std::vector<std::string> kShapes = {"modelpack", "image", "both", "parts"};  // in the order of ShapeKind

ShapeKind shape_named(const std::string& name) { return static_cast<ShapeKind>(std::find(kShapes.begin(), kShapes.end(), name) - kShapes.begin()); }

Result<Report> run_export_engine(const Flags& flags) {
  engines::EngineOptions options = flags.engine;
  options.engine = flags.as == "k8s" ? engines::Engine::Kubernetes : flags.as == "kserve" ? engines::Engine::Kserve : engines::Engine::Triton;
  options.file = flags.file;
  options.folder = flags.output;
  MLC_ASSIGN(const engines::EngineResult result, engines::export_engine(options));
  Report report;
  report.text = "exported " + cli::printable(flags.output) + "   " + cli::printable(result.id) + " version " + std::to_string(result.version) + " as " + result.name + ", " +
                (result.pipeline.empty() ? "program " + cli::printable(result.program) : "pipeline " + cli::printable(result.pipeline)) + "\n";
  for (const std::string& file : result.files) report.text += "file     " + file + "\n";
  if (!result.image.empty()) report.text += "image    " + cli::printable(result.image) + "\n";
  report.text += "root     " + result.root + "\n";
  for (const std::string& note : result.notes) report.text += "note     " + note + "\n";
  report.json = {{"folder", flags.output}, {"name", result.name}, {result.pipeline.empty() ? "program" : "pipeline", result.pipeline.empty() ? result.program : result.pipeline}, {"files", result.files}, {"max_batch_size", result.max_batch_size},
                 {"root", result.root}, {"id", result.id}, {"version", std::to_string(result.version)}, {"notes", result.notes}};
  if (!result.image.empty()) report.json["image"] = result.image;
  return report;
}

Result<Report> run_export(const Flags& flags) {
  if (flags.as != "oci-layout" && flags.as != "modelcar") return run_export_engine(flags);
  const ExportOptions options{flags.file, flags.output, flags.tag, flags.as == "modelcar" ? ShapeKind::Image : shape_named(flags.shape)};
  MLC_ASSIGN(const PushResult result, export_layout(options));
  Report report;
  report.text = "exported " + flags.output + "   " + cli::printable(result.id) + " version " + std::to_string(result.version) +
                "\ndigest   " + digest_text(result.manifest) + "\nblob     " + digest_text(result.blob) + "   " + megabytes(result.bytes) + in_layers(result.layers) +
                "\nroot     " + digest_text(result.root) + "\n";
  report.json = {{"folder", flags.output}, {"tag", flags.tag}, {"digest", digest_text(result.manifest)}, {"blob", digest_text(result.blob)},
                 {"root", digest_text(result.root)}, {"id", result.id}, {"version", std::to_string(result.version)}, {"bytes", result.bytes}, {"layers", result.layers}};
  return report;
}

Result<Report> push_policy_bundle(const PushOptions& options) {
  MLC_ASSIGN(const PushResult result, push_policy(options));
  Report report;
  report.text = "pushed   " + options.reference.text() + "   policy version " + std::to_string(result.version) + "\ndigest   " + pinned(options.reference, result.manifest) + "\n";
  report.json = {{"kind", "policy"}, {"reference", options.reference.text()}, {"digest", digest_text(result.manifest)}, {"blob", digest_text(result.blob)}, {"version", std::to_string(result.version)},
                 {"bytes", result.bytes}, {"bytes_sent", result.bytes_sent}, {"was_there", result.was_there()}, {"layers", result.layers}, {"layers_sent", result.layers_sent}};
  return report;
}

Result<Report> run_push(const Flags& flags) {
  PushOptions options{flags.file, {}, shape_named(flags.shape), uint64_t{flags.request_mib} << 20, flags.client(), flags.statements};
  if (!flags.statements.sign && !(flags.statements.key_file + flags.statements.passphrase).empty()) return Status(Code::Usage, "--key and --key-passphrase belong to --sign");
  MLC_ASSIGN(options.reference, parse_reference(flags.reference));
  if (is_policy_file(options.file)) return push_policy_bundle(options);
  MLC_ASSIGN(const PushResult result, push(options));
  Report report;
  report.text = "pushed   " + options.reference.text() + "   " + cli::printable(result.id) + " version " + std::to_string(result.version) + "\ndigest   " +
                pinned(options.reference, result.manifest) + "\nblob     " + digest_text(result.blob) + "   " + megabytes(result.bytes) +
                (result.was_there() ? ", which was there" : sent_layers(result)) + "\nroot     " + digest_text(result.root) + "\n";
  for (const std::string& type : result.statements) report.text += "stated   " + cli::printable(type) + "\n";
  report.json = {{"kind", "container"}, {"reference", options.reference.text()}, {"digest", digest_text(result.manifest)}, {"blob", digest_text(result.blob)},
                 {"root", digest_text(result.root)}, {"id", result.id}, {"version", std::to_string(result.version)}, {"bytes", result.bytes},
                 {"bytes_sent", result.bytes_sent}, {"was_there", result.was_there()}, {"layers", result.layers}, {"layers_sent", result.layers_sent}, {"statements", result.statements}};
  return report;
}

Report pulled_policy(const Flags& flags, const PullOptions& options, const PullResult& result) {
  const PulledPolicy& policy = *result.policy;
  Report report;
  report.text = "pulled   " + flags.output + "   policy version " + std::to_string(policy.version) + " until " + policy.expires + ", " + counted(policy.signatures, "signature") +
                "\ndigest   " + pinned(options.reference, result.artifact.named) + "\nnote     mlrun trust --install decides whether its administrators may be believed\n";
  report.json = {{"kind", "policy"}, {"reference", options.reference.text()}, {"file", flags.output}, {"digest", digest_text(result.artifact.named)}, {"layers", result.artifact.blobs.size()},
                 {"version", std::to_string(policy.version)}, {"expires", policy.expires}, {"bundles", policy.bundles}, {"signatures", policy.signatures},
                 {"bytes", result.bytes}, {"bytes_fetched", result.bytes_fetched}, {"bytes_written", result.bytes_written}};
  add_blob(result.artifact, report.json);
  return report;
}

Result<Report> run_pull(const Flags& flags) {
  PullOptions options{{}, flags.output, flags.from, flags.policy, flags.keep_host, flags.force, flags.client()};
  MLC_ASSIGN(options.reference, parse_reference(flags.reference));
  MLC_ASSIGN(const PullResult result, pull(options));
  if (result.policy) return pulled_policy(flags, options, result);
  if (result.is_whole && !options.from.empty()) cli::note("note: " + options.reference.host + " gives no parts of files: all of it was fetched");
  Report report;
  report.text = "pulled   " + flags.output + "   " + cli::printable(result.id) + " version " + std::to_string(result.version) + "   " +
                cli::printable(result.reason) +
                "\ndigest   " + pinned(options.reference, result.artifact.named) + "\nroot     " + digest_text(result.root) + "\nfetched  " +
                megabytes(result.bytes_fetched) + " of " + megabytes(result.bytes) + " in " + counted(result.requests, "request") +
                (result.is_whole ? ", no parts to be had" : "") +
                (result.bytes_reused > 0 ? ", " + megabytes(result.bytes_reused) + " from files that were here" : "") + "\n";
  if (!result.absent.empty()) {
    report.text += "absent  ";
    for (const std::string& name : result.absent) report.text += " " + cli::printable(name);
    report.text += ", which this machine does not run: " + megabytes(result.bytes_written) + " were written\n";
  }
  for (const std::string& warning : result.warnings) report.text += "warning  " + cli::printable(warning) + "\n";
  report.json = {{"kind", "container"}, {"reference", options.reference.text()}, {"file", flags.output}, {"digest", digest_text(result.artifact.named)},
                 {"layers", result.artifact.blobs.size()}, {"root", digest_text(result.root)}, {"id", result.id},
                 {"version", std::to_string(result.version)}, {"trust", result.trust}, {"reason", result.reason}, {"bytes", result.bytes},
                 {"bytes_fetched", result.bytes_fetched}, {"bytes_reused", result.bytes_reused}, {"requests", result.requests},
                 {"ranges", !result.is_whole}, {"absent", result.absent}, {"bytes_written", result.bytes_written}, {"warnings", result.warnings}};
  add_blob(result.artifact, report.json);
  return report;
}

Result<Report> run_copy(const Flags& flags) {
  MLC_ASSIGN(const CopyResult result, copy({flags.reference, flags.output, flags.client()}));
  Report report;
  report.text = "copied   " + cli::printable(result.to) + "\ndigest   " + digest_text(result.digest) + "\nmoved    " + megabytes(result.bytes) + ", " +
                counted(result.manifests, "manifest") + ", " + std::to_string(result.referrers) + " of them referrers\n";
  report.json = {{"from", flags.reference}, {"to", result.to}, {"digest", digest_text(result.digest)}, {"manifests", result.manifests},
                 {"referrers", result.referrers}, {"bytes", result.bytes}};
  return report;
}

Result<Report> run_resolve(const Flags& flags) {
  MLC_ASSIGN(const Reference reference, parse_reference(flags.reference));
  Client client(reference.host, flags.client());
  MLC_ASSIGN(const Artifact artifact, find_artifact(client, reference));
  Report report;
  const size_t layers = artifact.blobs.size();
  report.text = "digest   " + pinned(reference, artifact.named) + "\nblob     " +
                (layers == 1 ? digest_text(artifact.blobs.front().digest) + "   " : "") + megabytes(artifact.bytes) + in_layers(layers) + "\n";
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) report.text += std::string(name) + cli::printable(value) + "\n";
  };
  if (artifact.is_policy) report.text += "kind     policy\n";
  add("root     ", artifact.root ? digest_text(*artifact.root) : "");
  add("id       ", artifact.id);
  add("version  ", artifact.version);
  add("variants ", artifact.variants);
  report.json = {{"kind", artifact.is_policy ? "policy" : "container"}, {"reference", reference.text()}, {"digest", digest_text(artifact.named)}, {"manifest", digest_text(artifact.fetched.digest)},
                 {"bytes", artifact.bytes}, {"layers", layers}};
  add_blob(artifact, report.json);
  if (artifact.root) report.json["root"] = digest_text(*artifact.root);
  if (!artifact.id.empty()) report.json["id"] = artifact.id;
  if (!artifact.version.empty()) report.json["version"] = artifact.version;
  Json variants = Json::array();
  for (size_t begin = 0; begin < artifact.variants.size();) {
    const size_t end = std::min(artifact.variants.find(',', begin), artifact.variants.size());
    variants.push_back(artifact.variants.substr(begin, end - begin));
    begin = end + 1;
  }
  report.json["variants"] = std::move(variants);
  return report;
}

void add_client_options(const cli::Command& command, Flags& flags) {
  command.add_flag("--plain-http", flags.plain_http, "without TLS; this machine's own registries are always asked so");
  command.add_option("--timeout", flags.timeout, "seconds to wait for a connection, and for the next byte").within(1, 3600).shows_default();
}

void set_run(const cli::Command& command, const std::shared_ptr<Flags>& flags, Result<Report> (*run)(const Flags&)) {
  command.on_run([command, flags, run] { return cli::finish(command.name(), flags->as_json, run(*flags)); });
}

// An option, and what it belongs to, of the values of --as.
struct ExportOption {
  cli::Option option;
  const char* name;
  std::vector<std::string> of;
};

Status check_export_options(const Flags& flags, const std::vector<ExportOption>& options) {
  for (const ExportOption& one : options) {
    if (!one.option.is_given() || std::find(one.of.begin(), one.of.end(), flags.as) != one.of.end()) continue;
    std::string names;
    for (const std::string& name : one.of) names += (names.empty() ? "" : ", ") + name;
    return Status(Code::Usage, "{} belongs to --as {}, not to {}", one.name, names, flags.as);
  }
  return ok();
}

void add_export_command(cli::Program& program, const std::string& tool) {
  auto flags = std::make_shared<Flags>();
  const cli::Command command = program.add_command("export", "write a container for those who serve it",
                                                   tool + "export cat.mlc --as modelcar -o cat-image\n" +
                                                    tool + "export cat.mlc --as triton -o models\n", flags->as_json);
  command.add_option("file", flags->file, "container").required();
  command.add_option("--as", flags->as, "oci-layout: the file as it is, a ModelPack artifact; modelcar: an image with it; k8s: a Deployment that mounts that image; kserve: an "
                                        "InferenceService and its runtime; triton: a model in a repository of Triton Inference Server")
      .one_of({"oci-layout", "modelcar", "k8s", "kserve", "triton"})
      .required();
  command.add_option("-o,--output", flags->output, "folder, new or empty; of triton: a repository, which may have other models").required();
  const std::vector<std::string> layouts = {"oci-layout", "modelcar"}, served = {"k8s", "kserve", "triton"}, objects = {"k8s", "kserve"};
  engines::EngineOptions& engine = flags->engine;
  std::vector<ExportOption> options = {
      {command.add_option("--tag", flags->tag, "its name in the layout").shows_default(), "--tag", layouts},
      {command.add_option("--shape", flags->shape, "parts: the file cut into layers").one_of({"modelpack", "parts"}).shows_default(), "--shape", {"oci-layout"}},
      {command.add_option("--name", engine.name, "of the model where it is served").shows_default("the last part of its id"), "--name", served},
      {command.add_option("--program", engine.program, "that is served").shows_default("main, else the default one"), "--program", served},
      {command.add_option("--pipeline", engine.pipeline, "that is served, files and texts as BYTES; default: that of the default program"), "--pipeline", served},
      {command.add_option("--max-batch", engine.max_batch, "rows of a request, where the model computes each by itself; 0: no rows").within(0, 65536).shows_default(), "--max-batch", served},
      {command.add_option("--image", engine.image, "HOST/REPOSITORY to which mlpack push --shape image puts the file"), "--image", objects},
      {command.add_option("--storage", engine.storage, "what KServe fetches: s3://, pvc://, ...").shows_default("oci:// and the image"), "--storage", {"kserve"}},
      {command.add_option("--server", engine.server, "image of Triton with the backend mlc"), "--server", objects},
      {command.add_option("--cpu", engine.cpu, "CPUs of a server").shows_default(), "--cpu", objects},
      {command.add_option("--memory", engine.memory, "of a server, such as 2Gi").shows_default("512Mi and more, by the file's size"), "--memory", objects},
      {command.add_option("--replicas", engine.replicas, "servers").within(0, 10000).shows_default(), "--replicas", objects},
      {command.add_option("--trust", engine.trust, "a public key that the servers trust (repeatable)").shows_default("those here that signed the file"), "--trust", objects}};
  command.on_run([command, flags, options] {
    const Status checked = check_export_options(*flags, options);
    return cli::finish(command.name(), flags->as_json, checked.ok() ? run_export(*flags) : Result<Report>(checked));
  });
}

}  // namespace

void add_registry_commands(cli::Program& program) {
  const std::string tool = "  " + program.name() + " ";
  {
    auto flags = std::make_shared<Flags>();
    const cli::Command push = program.add_command("push", "put a container or policy into a registry",
                                                  tool + "push cat.mlc registry.example.org/acme/cat:2\n" +
                                                   tool + "push cat.mlc localhost:5000/acme/cat --sign --attach cat.mlc.sig\n", flags->as_json);
    push.add_option("file", flags->file, "container, or a bundle of mlpack policy sign").required();
    push.add_option("reference", flags->reference, "HOST[:PORT]/REPOSITORY[:TAG]; the tag latest, if none is named").required();
    push.add_option("--shape", flags->shape, "modelpack: the file as it is; parts: cut, so that what versions share is there once; image: in a layer that container engines mount; both")
        .one_of(kShapes).shows_default();
    push.add_option("--request-mib", flags->request_mib, "MiB that one request may carry; a larger file goes in pieces").within(1, 4096).shows_default();
    push.add_option("--attach", flags->statements.files, "a statement about the file, of mlpack sign --oms or attest, that goes with it (repeatable)");
    push.add_flag("--sign", flags->statements.sign, "sign the manifest as cosign does, beside it in the registry");
    push.add_option("--key", flags->statements.key_file, "with --sign: private key in PEM; default: your own key");
    push.add_option("--key-passphrase", flags->statements.passphrase, "of an encrypted key: file:PATH, or fd:N for a descriptor");
    add_client_options(push, *flags);
    set_run(push, flags, run_push);
  }
  {
    auto flags = std::make_shared<Flags>();
    const cli::Command pull = program.add_command("pull", "get a container or policy from a registry, checked",
                                                  tool + "pull registry.example.org/acme/cat:2 -o cat.mlc\n" +
                                                   tool + "pull registry.example.org/acme/cat:3 --from cat.mlc -o cat.mlc\n",
                                                  flags->as_json);
    pull.add_option("reference", flags->reference, "HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]").required();
    pull.add_option("-o,--output", flags->output, "where to write").required();
    pull.add_option("--from", flags->from, "a container that is here: what it has of the new one is not fetched");
    pull.add_flag("--keep-host", flags->keep_host, "leave out what this machine cannot run; root and signatures stay, mlpack fill puts it back");
    pull.add_option("--policy", flags->policy, "trust policy; default: your own");
    pull.add_flag("-f,--force", flags->force, "replace an output that is no container");
    pull.add_option("--parallel", flags->parallel, "requests for parts of the file that are on their way at once").within(1, 8).shows_default();
    add_client_options(pull, *flags);
    set_run(pull, flags, run_pull);
  }
  add_export_command(program, tool);
  {
    auto flags = std::make_shared<Flags>();
    const cli::Command between = program.add_command("copy", "copy an artifact with all that refers to it",
                                                     tool + "copy registry.example.org/acme/cat:2 mirror.example.org/acme/cat:2\n" +
                                                      tool + "copy registry.example.org/acme/cat:2 oci:cat-layout:2\n",
                                                     flags->as_json);
    between.add_option("from", flags->reference, "a reference, or oci:FOLDER[:TAG] for an OCI image layout").required();
    between.add_option("to", flags->output, "likewise; a layout is a new folder").required();
    add_client_options(between, *flags);
    set_run(between, flags, run_copy);
  }
  {
    auto flags = std::make_shared<Flags>();
    const cli::Command resolve = program.add_command("resolve", "what a reference leads to, without fetching it",
                                                     tool + "resolve registry.example.org/acme/cat:2\n" +
                                                      tool + "resolve localhost:5000/acme/cat --json\n", flags->as_json);
    resolve.add_option("reference", flags->reference, "HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]").required();
    add_client_options(resolve, *flags);
    set_run(resolve, flags, run_resolve);
  }
}

}  // namespace mlc::registry
