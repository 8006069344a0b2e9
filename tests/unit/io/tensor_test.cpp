#include "runtime/io/tensor.h"

#include <doctest/doctest.h>

using namespace mlc;

TEST_CASE("a tensor is dense, zeroed and aligned") {
  auto t = HostTensor::zeros(DType::F32, {2, 3, 5});
  REQUIRE(t.ok());
  CHECK(t->data.size() == 120);
  CHECK(t->elements() == 30);
  CHECK(reinterpret_cast<uintptr_t>(t->data.data()) % kHostAlignment == 0);
  for (float v : t->as<float>()) CHECK(v == 0);
  CHECK(HostTensor::zeros(DType::I4, {3})->data.size() == 3);
  CHECK(HostTensor::zeros(DType::F64, {})->data.size() == 8);
  CHECK(HostTensor::zeros(DType::F64, {4, 0, 4})->data.size() == 0);
}

TEST_CASE("shapes that overflow or make no sense are refused") {
  CHECK(!HostTensor::zeros(DType::F32, {int64_t{1} << 62}).ok());
  CHECK(!HostTensor::zeros(DType::F32, {int64_t{1} << 31, int64_t{1} << 31, 2}).ok());
  CHECK(!HostTensor::zeros(DType::F32, {0, int64_t{1} << 40, int64_t{1} << 40}).ok());
  CHECK(!HostTensor::zeros(DType::F32, {-1}).ok());
  CHECK(!HostTensor::zeros(DType::Str, {1}).ok());
  CHECK(!HostTensor::zeros(DType::U8, std::vector<int64_t>(65, 1)).ok());
  auto huge = HostTensor::zeros(DType::U8, {INT64_MAX - 63});
  REQUIRE(!huge.ok());
  CHECK(huge.status().code == Code::Resource);
}

TEST_CASE("moving empties, cloning copies") {
  float values[] = {1, 2, 3};
  auto a = HostTensor::from(DType::F32, {3}, std::span<const float>(values));
  REQUIRE(a.ok());
  auto b = a->clone();
  REQUIRE(b.ok());
  b->as<float>()[0] = 9;
  CHECK(a->as<float>()[0] == 1);
  HostBuffer moved = std::move(a->data);
  CHECK(a->data.size() == 0);
  CHECK(moved.size() == 12);
  CHECK(!HostTensor::from(DType::F32, {4}, std::span<const float>(values)).ok());
}
