#include <doctest/doctest.h>

#include <random>

#include "schema/cubin.h"
#include "tests/support/tiny_cubin.h"

namespace mlc {
namespace {

using testing::TinyCubin;

std::string why(const TinyCubin& cubin) {
  const auto read = gpu::read_cubin(cubin.bytes());
  return read.ok() ? "" : read.status().text();
}

gpu::Entry cubin_entry(const char* name, uint32_t shared = 0) {
  gpu::Entry e;
  e.name = name;
  e.shared_bytes = shared;
  return e;
}

TEST_CASE("a cubin tells its architecture and its entries, in both forms of its flags") {
  for (const bool is_abi_8 : {false, true}) {
    TinyCubin cubin{.architecture = 120, .entries = {{"add", 0}, {"sum", 512}}};
    cubin.is_abi_8 = is_abi_8;
    const auto read = gpu::read_cubin(cubin.bytes());
    REQUIRE_MESSAGE(read.ok(), read.status().text());
    CHECK(read->architecture == 120);
    REQUIRE(read->entries.size() == 2);
    CHECK(read->entries[1].name == "sum");
    CHECK(read->entries[1].shared_bytes == 512);
  }
}

TEST_CASE("cubins that want more than we give, or have what we do not know, are refused") {
  const TinyCubin good{.entries = {{"add", 0}}};
  CHECK(why(good).empty());
  TinyCubin bad = good;
  bad.import = "vprintf";
  CHECK(why(bad).find("'vprintf' is not in it") != std::string::npos);
  bad.import = ".nv.reservedSmem.cap";
  CHECK(!why(bad).empty());  // a function by that name is none of the system's
  bad = good;
  bad.section = ".nv.global.init";
  CHECK(why(bad).find("memory of the module's own") != std::string::npos);
  bad = good;
  bad.entries.push_back(bad.entries[0]);
  CHECK(why(bad).find("twice") != std::string::npos);
  bad.entries.clear();
  CHECK(why(bad).find("no entry") != std::string::npos);
}

TEST_CASE("a cubin is compared with what its module says") {
  const TinyCubin cubin{.architecture = 90, .entries = {{"add", 0}, {"sum", 1536}}};
  const gpu::Entry add = cubin_entry("add"), sum = cubin_entry("sum", 512), other = cubin_entry("mul");
  const auto check = [&](uint32_t architecture, std::vector<const gpu::Entry*> entries) { return gpu::check_cubin(cubin.bytes(), architecture, entries); };
  CHECK(check(90, {&add, &sum}).ok());  // the system's KiB is not ours
  // Whole KiB, where the launch gives an entry of the image an array, which may lie at a multiple of that.
  const TinyCubin aligned{.architecture = 90, .entries = {{"add", 1024}, {"sum", 2048}, {"mul", 2048}}};
  const gpu::Entry few = cubin_entry("mul", 32), more = cubin_entry("mul", 1025);
  CHECK(!gpu::check_cubin(aligned.bytes(), 90, std::vector{&add, &sum, &few}).ok());
  gpu::Entry given = add;
  given.dynamic_shared_bytes = 65536;
  CHECK(gpu::check_cubin(aligned.bytes(), 90, std::vector<const gpu::Entry*>{&given, &sum, &few}).ok());
  CHECK(!gpu::check_cubin(aligned.bytes(), 90, std::vector<const gpu::Entry*>{&given, &sum, &more}).ok());
  // Older processors have no KiB of the system's.
  const TinyCubin older{.architecture = 86, .entries = {{"add", 1024}, {"sum", 512}}}, exact{.architecture = 86, .entries = {{"add", 0}, {"sum", 512}}};
  CHECK(!gpu::check_cubin(older.bytes(), 86, std::vector<const gpu::Entry*>{&given, &sum}).ok());
  CHECK(gpu::check_cubin(exact.bytes(), 86, std::vector<const gpu::Entry*>{&given, &sum}).ok());
  CHECK(!gpu::check_cubin(aligned.bytes(), 90, std::vector{&add, &sum, &more}).ok());
  CHECK(check(86, {&add, &sum}).text().find("sm_90") != std::string::npos);
  CHECK(!check(90, {&add}).ok());
  CHECK(!check(90, {&add, &other}).ok());
  const gpu::Entry larger = cubin_entry("sum", 1024);
  CHECK(!check(90, {&add, &larger}).ok());
}

TEST_CASE("a damaged cubin is refused or read, and nothing else") {
  const std::vector<std::byte> good = TinyCubin{.entries = {{"add", 0}, {"sum", 64}}}.bytes();
  for (size_t length = 0; length < good.size(); ++length) CHECK(!gpu::read_cubin(std::span(good).first(length)).ok());
  std::mt19937 random(7);
  for (int k = 0; k < 20'000; ++k) {
    std::vector<std::byte> bad = good;
    for (uint32_t n = 1 + random() % 4; n; --n) bad[random() % bad.size()] = static_cast<std::byte>(random() % 3 ? random() : 0xff);
    const auto read = gpu::read_cubin(bad);
    if (read.ok()) CHECK(!read->entries.empty());
    else CHECK(read.status().code == Code::Malformed);
  }
}

}  // namespace
}  // namespace mlc
