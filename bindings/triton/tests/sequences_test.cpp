// Sequences of requests without a server: each has a state of its own, few are kept, and a configuration is completed for them.
#include "bindings/triton/sequences.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/containers/plan_container.h"

using namespace mlc;
using namespace mlc::triton;

namespace {

// y = what x was in the run before. Its input has the name of a control of Triton's.
std::vector<std::byte> delay_line(bool has_state = true) {
  test::PlanContainer parts{R"(plan function "main" { $0 = const 4 $1 = const 0 $2 = const 1
    buffer #0 i32 bytes $0 input 0 buffer #1 i32 bytes $0 output 0 buffer #2 i32 bytes $0 state 0
    input "START" i32 [$2] #0 output "y" i32 [$2] #1 arena $1 copy (#1, #2) copy (#2, #0) })", {}, {}, {}, {}};
  parts.said = [has_state](format::Method& m) {
    format::Port state;
    state.name = "h";
    state.dtype = DType::I32;
    state.dims = {format::DimRef::constant(1)};
    if (has_state) m.state.push_back(state);
  };
  auto bytes = test::container_of(std::move(parts));
  REQUIRE_MESSAGE(bytes.ok(), (bytes.ok() ? std::string() : bytes.status().text()));
  return *bytes;
}

struct Folder {
  std::filesystem::path path;
  explicit Folder(const std::vector<std::byte>& file) {
    char name[] = "/tmp/mlc-sequences-XXXXXX";
    path = mkdtemp(name);
    std::ofstream(path / "model.mlc", std::ios::binary).write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

std::unique_ptr<triton::Model> opened(const Folder& folder, const std::string& config) {
  Host host;
  host.trust = "portable";
  host.config_folder = folder.path;
  auto model = triton::Model::open(host, config, folder.path);
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? std::string() : model.status().text()));
  return std::move(*model);
}

struct Rig {
  Folder folder{delay_line()};
  std::unique_ptr<triton::Model> model = opened(folder, R"({"max_batch_size":0,"input":[],"output":[]})");
  SessionHandle session = model->session().value();
  Sequences sequences;

  explicit Rig(uint32_t most) : sequences(session.get(), most) {}

  // The answer, or -1 where there is none.
  int32_t ask(const std::string& id, int32_t x, const char* where = "", const Status& ran = ok()) {
    const SequenceTurn turn{id, std::string_view(where) == "begins", std::string_view(where) == "ends"};
    if (const Status entered = sequences.enter(turn); !entered.ok()) {
      CHECK(entered.code == Code::InputMismatch);
      CHECK_MESSAGE(entered.message.find("sequence " + id + " has no state here") != std::string::npos, entered.message);
      return -1;
    }
    const int64_t one = 1;
    const MlcTensor in = mlc_tensor(&x, MLC_I32, 1, &one);
    MlcTensor out = {};
    MlcRunOptions options = {};
    options.size = sizeof options;
    MlcError* error = nullptr;
    const Status done = status_of(api().run(session.get(), &options, &in, 1, &out, 1, &error), error);
    REQUIRE_MESSAGE(done.ok(), done.text());
    const int32_t y = *static_cast<const int32_t*>(out.data);
    REQUIRE(sequences.leave(turn, ran).ok());
    return y;
  }
};

}  // namespace

TEST_CASE("each sequence has a state of its own, from its first request to its last") {
  Rig rig(8);
  CHECK(rig.ask("1", 10, "begins") == 0);
  CHECK(rig.ask("2", 20, "begins") == 0);
  CHECK(rig.ask("1", 11) == 10);
  CHECK(rig.ask("2", 21) == 20);
  CHECK(rig.ask("2", 22) == 21);
  CHECK(rig.sequences.count() == 2);
  CHECK(rig.ask("1", 12, "ends") == 11);
  CHECK(rig.sequences.count() == 1);
  CHECK(rig.ask("1", 13) == -1);
  CHECK(rig.ask("1", 14, "begins") == 0);
  CHECK(rig.ask("2", 23) == 22);
  CHECK(rig.ask("2", 24, "begins") == 0);  // anew, without an end before
  CHECK(rig.ask("1", 15) == 14);
}

TEST_CASE("an id of text has at most 128 bytes, and is none of the numbers") {
  CHECK(*id_of_text("") == "");
  CHECK(*id_of_text("7") == "'7'");
  const std::string longest(kMaxSequenceIdBytes, 'x');
  REQUIRE(id_of_text(longest).ok());
  Rig rig(8);
  CHECK(rig.ask(*id_of_text(longest), 10, "begins") == 0);
  CHECK(rig.ask("7", 20, "begins") == 0);
  CHECK(rig.ask(*id_of_text("7"), 30, "begins") == 0);
  CHECK(rig.ask(*id_of_text(longest), 11) == 10);
  CHECK(rig.ask("7", 21) == 20);
  for (const size_t length : {size_t{129}, size_t{1} << 20}) {
    const auto refused = id_of_text(std::string(length, 'x'));
    REQUIRE(!refused.ok());
    CHECK(refused.status().code == Code::InputMismatch);
    CHECK(refused.status().message == "sequence_id has " + std::to_string(length) + " bytes, at most 128 expected");
    CHECK(!refused.status().help.empty());
  }
}

TEST_CASE("of more sequences than are kept the one that was idle longest is dropped") {
  Rig rig(2);
  CHECK(rig.ask("1", 10, "begins") == 0);
  CHECK(rig.ask("2", 20, "begins") == 0);
  CHECK(rig.ask("1", 11) == 10);
  CHECK(rig.ask("3", 30, "begins") == 0);
  CHECK(rig.sequences.count() == 2);
  CHECK(rig.ask("2", 21) == -1);
  CHECK(rig.ask("1", 12) == 11);
  CHECK(rig.ask("3", 31) == 30);
  for (int k = 0; k < 1000; ++k) CHECK(rig.ask("of many " + std::to_string(k), k, "begins") == 0);
  CHECK(rig.sequences.count() == 2);
  CHECK(rig.ask("of many 998", 1) == 998);

  Rig one(1);
  CHECK(one.ask("1", 10, "begins") == 0);
  CHECK(one.ask("1", 11) == 10);
  CHECK(one.ask("2", 20, "begins") == 0);
  CHECK(one.ask("1", 12) == -1);
  CHECK(one.ask("2", 21) == 20);
  CHECK(one.sequences.count() == 1);
}

TEST_CASE("a run that failed ends its sequence, one that was refused does not") {
  Rig rig(8);
  CHECK(rig.ask("1", 10, "begins") == 0);
  CHECK(rig.ask("1", 11, "", Status(Code::InputMismatch, "another shape")) == 10);
  CHECK(rig.ask("1", 12) == 11);
  CHECK(rig.ask("1", 13, "", Status(Code::Cancelled, "cancelled")) == 12);
  CHECK(rig.ask("1", 14) == -1);
  CHECK(rig.sequences.count() == 0);
}

TEST_CASE("requests of no sequence begin anew, and leave those of sequences as they are") {
  Rig rig(8);
  CHECK(rig.ask("1", 10, "begins") == 0);
  CHECK(rig.ask("", 70) == 0);
  CHECK(rig.ask("", 71) == 0);
  CHECK(rig.ask("1", 11) == 10);
}

TEST_CASE("configurations of models that keep state are completed with the batcher of sequences") {
  const std::string bare = R"({"max_batch_size":0,"input":[],"output":[]})";
  const Folder folder(delay_line()), none(delay_line(false));
  auto model = opened(folder, bare);
  CHECK(!model->has_sequences());
  const std::string text = model->complete(bare).value();
  CHECK_MESSAGE(text.find(R"("sequence_batching":{"direct":{},)") != std::string::npos, text);
  for (const char* words : {R"({"name":"START_","control":[{"kind":"CONTROL_SEQUENCE_START","int32_false_true":[0,1]}]})", R"("name":"END",)", R"("name":"READY",)",
                            R"({"name":"CORRID","control":[{"kind":"CONTROL_SEQUENCE_CORRID","data_type":"TYPE_UINT64"}]})"})
    CHECK_MESSAGE(text.find(words) != std::string::npos, text, " should have ", std::string(words));
  CHECK(model->has_sequences());
  CHECK(model->is_control("START_"));
  CHECK(!model->is_control("START"));
  CHECK(model->most_sequences() == 1);

  // One that says itself how it is scheduled stays as it is.
  const std::string own = R"({"max_batch_size":0,"input":[{"name":"START"}],"output":[{"name":"y"}],"parameters":{"sequences":{"string_value":"3"}},)"
                          R"("sequence_batching":{"oldest":{},"control_input":[{"name":"C","control":[]}]}})";
  model = opened(folder, own);
  CHECK(model->complete(own).value().empty());
  CHECK(model->is_control("C"));
  CHECK(model->most_sequences() == 3);
  CHECK(opened(folder, R"({"sequence_batching":{"oldest":{}}})")->most_sequences() == 1024);
  const auto rows = opened(folder, R"({"max_batch_size":16,"sequence_batching":{"direct":{}}})");
  CHECK(rows->has_sequences());
  CHECK(rows->most_sequences() == 16);
  for (const char* wrong : {"0", "65537", "many"}) {
    const auto refused = triton::Model::open({}, R"({"parameters":{"sequences":{"string_value":")" + std::string(wrong) + R"("}}})", folder.path);
    CHECK(refused.status().message.find("a number of 1 to 65536 expected") != std::string::npos);
  }

  model = opened(none, bare);
  CHECK(model->complete(bare).value().find("sequence_batching") == std::string::npos);
  CHECK(!model->has_sequences());
}
