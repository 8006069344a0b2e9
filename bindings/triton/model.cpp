#include "bindings/triton/model.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/cli/json_tree.h"
#include "base/text/json.h"
#include "bindings/triton/pipeline.h"
#include "bindings/triton/triton_api.h"

namespace mlc::triton {
namespace {

constexpr JsonLimits kConfigLimits = {4u << 20, 32, 200'000};
constexpr const char* kFileName = "model.mlc";

struct TypePair { int32_t dtype; int triton; const char* name; };
constexpr TypePair kTypes[] = {{MLC_BOOL, kTritonBool, "TYPE_BOOL"}, {MLC_U8, kTritonU8, "TYPE_UINT8"},   {MLC_U16, kTritonU16, "TYPE_UINT16"}, {MLC_U32, kTritonU32, "TYPE_UINT32"},
                               {MLC_U64, kTritonU64, "TYPE_UINT64"}, {MLC_I8, kTritonI8, "TYPE_INT8"},    {MLC_I16, kTritonI16, "TYPE_INT16"},  {MLC_I32, kTritonI32, "TYPE_INT32"},
                               {MLC_I64, kTritonI64, "TYPE_INT64"},  {MLC_F16, kTritonF16, "TYPE_FP16"},  {MLC_F32, kTritonF32, "TYPE_FP32"},   {MLC_F64, kTritonF64, "TYPE_FP64"},
                               {MLC_STR, kTritonBytes, "TYPE_STRING"}, {MLC_BF16, kTritonBf16, "TYPE_BF16"}};

const TypePair* pair_of(int32_t dtype) {
  const auto found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypePair& one) { return one.dtype == dtype; });
  return found == std::end(kTypes) ? nullptr : found;
}

Status check_trust(std::string_view value, const char* what) {
  if (value == "strict" || value == "portable" || value == "any") return ok();
  return Status(Code::Usage, "{}: '{}' found, strict, portable or any expected", what, value);
}

Status read_number(std::string_view text, const char* key, uint32_t least, uint32_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc() && end == text.data() + text.size() && out >= least && out <= 65536) return ok();
  return Status(Code::Usage, "parameter {}: '{}' found, a number of {} to 65536 expected", key, text, least);
}

// {"parameters":{"threads":{"string_value":"4"}}}
Result<Parameters> read_parameters(const JsonValue& config) {
  Parameters out;
  const JsonValue* list = config.find("parameters");
  if (list == nullptr) return out;
  for (const JsonMember& member : list->members()) {
    const JsonValue* value = member.value.find("string_value");
    const std::string text(value == nullptr ? std::string_view() : value->text());
    const std::string_view key = member.key.text();
    if (key == "trust") out.trust = text;
    else if (key == "variant") out.variant = text;
    else if (key == "devices") out.devices = text;
    else if (key == "program") out.program = text;
    else if (key == "pipeline") out.pipeline = text;
    else if (key == "threads") MLC_RETURN_IF_ERROR(read_number(text, "threads", 0, out.threads));
    else if (key == "sequences") MLC_RETURN_IF_ERROR(read_number(text, "sequences", 1, out.sequences));
    else return Status(Code::Usage, "parameter '{}' is not known; trust, variant, devices, threads, sequences, program and pipeline are", key);
  }
  if (!out.program.empty() && !out.pipeline.empty())
    return Status(Code::Usage, "parameters program '{}' and pipeline '{}' found, one of the two expected: a pipeline says which program it runs", out.program, out.pipeline);
  MLC_RETURN_IF_ERROR(check_trust(out.trust, "parameter trust"));
  return out;
}

std::string user_folder() {
  const char* base = std::getenv("XDG_CONFIG_HOME");
  if (base != nullptr && base[0] == '/') return std::string(base) + "/mlc";
  const char* home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.config/mlc" : std::string();
}

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

struct FileDeleter { void operator()(MlcFile* file) const { api().file_release(file); } };

// Nothing of a file is looked into whose signer is not trusted, if that is what is wanted.
Result<MlcModel*> open_file(const Host& host, const Parameters& wishes, const std::string& path) {
  const bool is_strict = wishes.trust == "strict";
  MlcOpenOptions options = {};
  options.size = sizeof options;
  options.path = path.c_str();
  options.allow_unsigned = wishes.trust == "any";
  options.policy = or_null(host.policy);
  const std::string folder = host.config_folder.empty() ? user_folder() : host.config_folder;
  options.config_folder = or_null(folder);
  options.state_folder = or_null(host.state_folder);
  options.devices = wishes.devices.empty() ? "cpu" : wishes.devices.c_str();
  options.probe_program = or_null(host.probe);
  options.services = mlio().services(&options.num_services);
  MlcFile* opened = nullptr;
  MlcError* error = nullptr;
  MLC_RETURN_IF_ERROR(status_of(api().authenticate(&options, &opened, &error), error));
  const std::unique_ptr<MlcFile, FileDeleter> file(opened);
  MlcFileInfo about = {sizeof(MlcFileInfo), nullptr, 0, 0};
  api().file_info(opened, &about);
  const char* const help = "mlrun trust KEY.pem as the user of the server, or config.pbtxt: parameters { key: \"trust\" value { string_value: \"portable\" } }";
  if (is_strict && about.native_code == MLC_NATIVE_NEVER)
    return std::move(Status(about.is_signed ? Code::Untrusted : Code::Unsigned, "{} {}, a signer whom this host trusts expected", path, about.is_signed ? "is signed by nobody it trusts" : "is not signed")).hint(help);
  MlcModel* model = nullptr;
  error = nullptr;
  MLC_RETURN_IF_ERROR(status_of(api().open_file(opened, &model, &error), error));
  MlcModelInfo info = {};
  info.size = sizeof info;
  api().model_info(model, &info);
  if (is_strict && !info.native_allowed) {
    const Status refused = std::move(Status(Code::Untrusted, "{}: {}", path, info.trust)).hint(help);
    api().model_release(model);
    return refused;
  }
  return model;
}

constexpr uint32_t kSequencesInTurn = 1024;  // of a strategy that lets sequences alternate
constexpr const char* kSchedulers[] = {"sequence_batching", "dynamic_batching", "ensemble_scheduling"};  // a configuration has at most one

int64_t rows_of(const JsonValue& config) {
  const JsonValue* const rows = config.find("max_batch_size");
  return rows == nullptr ? 0 : rows->as_i64().value_or(0);
}

Result<JsonDocument> parse_config(const std::string& text) { return parse_json(text, "the configuration", kConfigLimits); }

}  // namespace

const MlcApi& api() {
  static const MlcApi* const table = mlc_get_api(MLC_API_VERSION);
  return *table;
}

Status status_of(int code, MlcError* const& error) {
  if (code == MLC_OK) return ok();
  std::string text = api().error_message(error);
  for (uint32_t i = 0; const char* fact = api().error_fact(error, i); ++i) text += std::string("; ") + fact;
  if (const char* help = api().error_help(error); help != nullptr && help[0] != '\0') text += std::string("; help: ") + help;
  api().error_release(error);
  return Status(static_cast<Code>(code), "{}", text);
}

void ModelDeleter::operator()(MlcModel* model) const { api().model_release(model); }
void PipelineDeleter::operator()(MlioPipeline* pipeline) const { mlio().release(pipeline); }
void SessionDeleter::operator()(MlcSession* session) const { api().session_release(session); }

int triton_type(int32_t dtype) {
  const TypePair* const found = pair_of(dtype);
  return found == nullptr ? kTritonInvalid : found->triton;
}

int32_t dtype_of(int type) {
  for (const TypePair& one : kTypes)
    if (one.triton == type) return one.dtype;
  return MLC_NONE;
}

Result<Host> Host::read(std::string_view json) {
  Host out;
  MLC_ASSIGN(const JsonDocument document, parse_json(json, "the backend's configuration", kConfigLimits));
  const JsonValue* const line = document.root().find("cmdline");
  if (line == nullptr) return out;
  for (const JsonMember& member : line->members()) {
    const std::string_view key = member.key.text();
    const std::string value(member.value.text());
    if (key == "config") out.config_folder = value;
    else if (key == "policy") out.policy = value;
    else if (key == "state") out.state_folder = value;
    else if (key == "trust") out.trust = value;
    else if (key == "probe") out.probe = value;
    // Triton itself adds keys for all backends, such as auto-complete-config and min-compute-capability.
  }
  if (!out.trust.empty()) MLC_RETURN_IF_ERROR(check_trust(out.trust, "--backend-config=mlc,trust"));
  return out;
}

Result<std::unique_ptr<Model>> Model::open(const Host& host, const std::string& config, const std::string& folder) {
  MLC_ASSIGN(const JsonDocument document, parse_config(config));
  auto out = std::make_unique<Model>();
  MLC_ASSIGN(out->parameters_, read_parameters(document.root()));
  if (!host.trust.empty()) out->parameters_.trust = host.trust;
  const JsonValue* const named = document.root().find("default_model_filename");
  const std::string name(named == nullptr || named->text().empty() ? kFileName : named->text());
  if (name.find('/') != std::string::npos) return Status(Code::Usage, "default_model_filename: '{}' found, the name of a file expected", name);
  MLC_ASSIGN(MlcModel * model, open_file(host, out->parameters_, folder + "/" + name));
  out->model_.reset(model);
  MLC_RETURN_IF_ERROR(out->read_ports());
  MLC_RETURN_IF_ERROR(out->check_config(config));
  out->read_sequences(document.root());
  return out;
}

// A strategy `direct`, which is also what `complete` writes, has a slot for each row, and a slot one sequence until it ends or Triton gives it up: what
// else has a state is of no use any more.
void Model::read_sequences(const JsonValue& config) {
  const JsonValue* const batcher = config.find("sequence_batching");
  has_sequences_ = batcher != nullptr;
  const bool is_direct = batcher == nullptr || batcher->find("oldest") == nullptr;
  most_sequences_ = is_direct ? static_cast<uint32_t>(std::clamp<int64_t>(rows_of(config), 1, 65536)) : kSequencesInTurn;
  if (parameters_.sequences > 0) most_sequences_ = parameters_.sequences;
  const JsonValue* const controls = batcher == nullptr ? nullptr : batcher->find("control_input");
  if (controls == nullptr) return;
  for (const JsonValue& one : controls->items())
    if (const JsonValue* const input = one.find("name")) controls_.emplace_back(input->text());
}

Status Model::choose_program() {
  MlcModelInfo info = {};
  info.size = sizeof info;
  api().model_info(model_.get(), &info);
  about_ = std::string(info.id) + " version " + std::to_string(info.version) + ", " + info.trust;
  MlcProgram program = {};
  if (!parameters_.pipeline.empty()) {
    MLC_ASSIGN(pipeline_, open_pipeline(model_.get(), parameters_.pipeline));
    program_index_ = program_of(pipeline_.get());
    program.size = sizeof program;
    api().program(model_.get(), program_index_, &program);
    program_ = program.name;
    return ok();
  }
  const std::string wanted = parameters_.program.empty() ? "main" : parameters_.program;
  bool is_found = false;
  for (uint32_t i = 0; i < info.num_programs; ++i) {
    program.size = sizeof program;
    api().program(model_.get(), i, &program);
    if (program.name != wanted && !(parameters_.program.empty() && program.is_default && !is_found)) continue;
    is_found = true;
    program_ = program.name;
    program_index_ = i;
    if (program.name == wanted) break;
  }
  return is_found ? ok() : Status(Code::Usage, "the file has no program '{}'", wanted);
}

Status Model::read_ports() {
  MLC_RETURN_IF_ERROR(choose_program());
  MlcProgram program = {};
  program.size = sizeof program;
  api().program(model_.get(), program_index_, &program);
  num_states_ = program.num_states;
  for (const bool is_output : {false, true}) {
    std::vector<Port>& ports = is_output ? outputs_ : inputs_;
    for (uint32_t i = 0; i < (is_output ? program.num_outputs : program.num_inputs); ++i) {
      MlcPort port = {};
      port.size = sizeof port;
      api().port(model_.get(), program_index_, is_output, i, &port);
      if (port.list_depth == 0 && pair_of(port.dtype) != nullptr) {
        ports.push_back({port.name, port.dtype, std::vector<int64_t>(port.extents, port.extents + port.rank)});
      } else if (pipeline_ == nullptr) {
        return Status(Code::Unsupported, "program '{}': {} '{}' is {}; arrays of Triton's types expected", program_, is_output ? "output" : "input", port.name,
                      port.list_depth > 0 ? "a list of arrays" : "of a type that Triton lacks");
      }
    }
  }
  return pipeline_ == nullptr ? ok() : ports_of_pipeline(pipeline_.get(), inputs_, outputs_);
}

// What a config.pbtxt says of ports must be ports of the program: said when it loads rather than at the first request.
Status Model::check_config(const std::string& config) const {
  MLC_ASSIGN(const JsonDocument document, parse_config(config));
  for (const bool is_output : {false, true}) {
    const std::vector<Port>& ports = is_output ? outputs_ : inputs_;
    const JsonValue* const list = document.root().find(is_output ? "output" : "input");
    if (list == nullptr) continue;
    for (const JsonValue& one : list->items()) {
      const JsonValue *name = one.find("name"), *type = one.find("data_type");
      if (name == nullptr || type == nullptr) continue;
      const auto port = std::find_if(ports.begin(), ports.end(), [&](const Port& p) { return p.name == name->text(); });
      if (port == ports.end()) return Status(Code::InputMismatch, "config.pbtxt: {} '{}' has no {} '{}'", pipeline_ == nullptr ? "program" : "pipeline", pipeline_ == nullptr ? program_ : parameters_.pipeline, is_output ? "output" : "input", name->text());
      if (type->text() != pair_of(port->dtype)->name)
        return Status(Code::InputMismatch, "config.pbtxt: '{}' is {}, the file has {}", port->name, type->text(), pair_of(port->dtype)->name);
    }
  }
  return ok();
}

std::string Model::ports_text(bool is_output, bool has_rows) const {
  cli::Json ports = cli::Json::array();
  for (const Port& port : is_output ? outputs_ : inputs_) {
    cli::Json one = {{"name", port.name}, {"data_type", pair_of(port.dtype)->name}};
    cli::Json dims = cli::Json::array();
    // Triton's rows are the first axis, and not among dims; it knows no axis of 0, and no array without axes (requests.cpp).
    for (size_t axis = has_rows ? 1 : 0; axis < port.extents.size(); ++axis) dims.push_back(port.extents[axis] > 0 ? port.extents[axis] : int64_t{-1});
    if (dims.empty() && has_rows) one["reshape"] = cli::Json{{"shape", cli::Json::array()}};
    if (dims.empty()) dims.push_back(1);
    one["dims"] = std::move(dims);
    ports.push_back(std::move(one));
  }
  return ports.print();
}

std::string Model::sequences_text() {
  struct Control { const char *name, *kind; };
  constexpr Control kControls[] = {{"START", "CONTROL_SEQUENCE_START"}, {"END", "CONTROL_SEQUENCE_END"}, {"READY", "CONTROL_SEQUENCE_READY"}, {"CORRID", "CONTROL_SEQUENCE_CORRID"}};
  cli::Json controls = cli::Json::array();
  for (const Control& control : kControls) {
    std::string name = control.name;
    while (std::any_of(inputs_.begin(), inputs_.end(), [&](const Port& port) { return port.name == name; })) name += '_';
    cli::Json one = {{"kind", control.kind}};
    if (std::string_view(control.kind) == "CONTROL_SEQUENCE_CORRID") one["data_type"] = "TYPE_UINT64";
    else one["int32_false_true"] = cli::Json::array({0, 1});
    controls.push_back(cli::Json{{"name", name}, {"control", cli::Json::array({std::move(one)})}});
    controls_.push_back(std::move(name));
  }
  // Triton's own patience is a second, which the pauses of a speaker are longer than.
  const cli::Json text = {{"direct", cli::Json::object()}, {"max_sequence_idle_microseconds", 10'000'000}, {"control_input", std::move(controls)}};
  return text.print();
}

Result<std::string> Model::complete(const std::string& config) {
  MLC_ASSIGN(const JsonDocument document, parse_config(config));
  std::string out = config;
  const bool has_rows = rows_of(document.root()) > 0;
  for (const bool is_output : {false, true}) {
    const std::string key = is_output ? "output" : "input";
    const JsonValue* const list = document.root().find(key);
    const std::string empty = "\"" + key + "\":[]";
    const size_t at = out.find(empty);
    if ((list != nullptr && list->size() > 0) || at == std::string::npos) continue;
    out.replace(at, empty.size(), "\"" + key + "\":" + ports_text(is_output, has_rows));
  }
  const bool is_scheduled = std::any_of(std::begin(kSchedulers), std::end(kSchedulers), [&](const char* key) { return document.root().find(key) != nullptr; });
  if (num_states_ > 0 && !is_scheduled) {
    out.insert(out.rfind('}'), ",\"sequence_batching\":" + sequences_text());
    has_sequences_ = true;
  }
  return out == config ? std::string() : out;
}

Result<SessionHandle> Model::session() const {
  MlcSessionOptions options = {};
  options.size = sizeof options;
  options.variant = or_null(parameters_.variant);
  options.threads = parameters_.threads;
  MlcSession* session = nullptr;
  MlcError* error = nullptr;
  MLC_RETURN_IF_ERROR(status_of(api().session_create(model_.get(), &options, &session, &error), error));
  return SessionHandle(session);
}

}  // namespace mlc::triton
