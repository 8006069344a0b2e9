// libs: mlc_loader_portable mlc_loader_elf mlc_plan mlc_schema
// Limits of what runs: portable code, native modules, modules of devices, plans.
#include <doctest/doctest.h>

#include <sys/mman.h>

#include <cstring>
#include <memory>

#include "base/byte_cursor.h"
#include "loaders/elf/elf_format.h"
#include "loaders/elf/elf_image.h"
#include "loaders/portable/program.h"
#include "schema/gpu_module.h"
#include "schema/plan/plan.h"
#include "schema/portable_code.h"
#include "tests/support/containers/plan_maker.h"
#include "tests/support/limits.h"
#include "tests/support/test_modules.h"

using namespace mlc;
using namespace mlc::test;

namespace {

using Reader = std::function<Status()>;
using portable::Instruction;

constexpr uint16_t kNo = portable::kNoRegister;

struct Kernel {
  std::vector<uint64_t> locals;
  std::vector<std::pair<portable::Kind, uint8_t>> registers;
  std::vector<Instruction> code;
};
Reader portable_module(uint64_t kernels, const Kernel& kernel) {
  ByteBuilder out;
  out.put_uint(portable::kMagic, 4).put_uint(portable::kVersion, 2).put_uint(0, 2).put_uint(kernels, 4).put_uint(0, 4);
  for (uint64_t k = 0; k < kernels; ++k) {
    out.put_uint(0, 2).put_uint(kernel.locals.size(), 2).put_uint(0, 2).put_uint(kernel.registers.size(), 2);
    out.put_uint(kernel.code.size(), 4).put_uint(0, 4);
    for (const uint64_t bytes : kernel.locals) out.put_uint(bytes, 8);
    for (const auto& [kind, lanes] : kernel.registers) out.put_uint(static_cast<uint8_t>(kind), 1).put_uint(lanes, 1);
    out.pad(8);
    for (const Instruction& i : kernel.code) {
      out.put_uint(i.op, 1).put_uint(i.type, 1).put_uint(i.dst, 2).put_uint(i.a, 2).put_uint(i.b, 2).put_uint(i.c, 2);
      out.put_uint(i.array, 2).put_uint(i.zero, 4).put_uint(static_cast<uint64_t>(i.imm), 8);
    }
  }
  return [bytes = out.take()] {
    const auto programs = portable::decode_module(bytes);
    return programs.ok() ? ok() : programs.status();
  };
}
Reader nested_loops(uint64_t depth) {
  Kernel kernel;
  kernel.registers.assign(1, {portable::Kind::I64, 1});
  const auto op = [](portable::Op op) { return static_cast<uint8_t>(op); };
  for (uint64_t i = 0; i < depth; ++i) kernel.code.push_back({op(portable::Op::LoopBegin), 0, 0, 0, 0, kNo, 0, 0, 1});
  for (uint64_t i = 0; i < depth; ++i) kernel.code.push_back({op(portable::Op::LoopEnd), 0, kNo, kNo, kNo, kNo, 0, 0, 0});
  return portable_module(1, kernel);
}
Reader registers_of(uint64_t bytes) {  // 8 bytes each, so that one byte more is one register more
  Kernel kernel;
  // Vectors of 64 doubles have 512 bytes, a scalar 8.
  kernel.registers.assign(bytes / 512, {portable::Kind::F64, 64});
  if (bytes % 512 != 0) kernel.registers.push_back({portable::Kind::F64, 1});
  return portable_module(1, kernel);
}

using Image = std::vector<std::byte>;
const Image& native() {
  static const Image image = compile_module(Machine::X86_64, "tests/support/module_source.c", "--no-undefined");
  return image;
}
elf::ProgramHeader& program(Image& image, uint32_t type) {
  const auto& header = *reinterpret_cast<elf::FileHeader*>(image.data());
  auto* p = reinterpret_cast<elf::ProgramHeader*>(image.data() + header.phoff);
  while (p->type != type) ++p;
  return *p;
}
elf::Dynamic& dynamic(Image& image, int64_t tag) {
  auto* d = reinterpret_cast<elf::Dynamic*>(image.data() + program(image, elf::kPtDynamic).offset);
  while (d->tag != tag) ++d;
  return *d;
}
Reader changed(const std::function<void(Image&)>& change) {
  Image image = native();
  change(image);
  return [image] {
    const auto parsed = elf::parse_image(image, Machine::X86_64, 4096);
    return parsed.ok() ? ok() : parsed.status();
  };
}
// Address space that nobody touches behind the module takes no memory.
Reader native_file_of(uint64_t bytes) {
  void* place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return [] { return Status(Code::Internal, "no address space for the test"); };
  std::memcpy(place, native().data(), native().size());
  const std::shared_ptr<void> mapped(place, [bytes](void* p) { ::munmap(p, bytes); });
  return [mapped, bytes] {
    const auto parsed = elf::parse_image({static_cast<const std::byte*>(mapped.get()), bytes}, Machine::X86_64, 4096);
    return parsed.ok() ? ok() : parsed.status();
  };
}

Status read_plan(Bytes bytes) {
  exec::PlanContext context;
  context.num_kernels = 2;
  const auto decoded = exec::decode_plan(bytes, context);
  return decoded.ok() ? ok() : decoded.status();
}
Reader plan(const PlanMaker& maker) {
  return [bytes = maker.bytes()] {
    return read_plan(bytes);
  };
}
PlanMaker changed_plan(const std::function<void(PlanMaker&)>& change) {
  PlanMaker maker = PlanMaker::two_steps();
  change(maker);
  return maker;
}

// Entries in an image of their own each, up to the most of images; names differ.
gpu::Module device_module(uint64_t entries, uint64_t images) {
  gpu::Module m;
  m.format = 4;
  for (uint64_t i = 0; i < images; ++i) m.images.push_back({gpu::ImageKind::SpirV, 0, {}, std::vector<std::byte>(4)});
  for (uint64_t k = 0; k < entries; ++k) {
    gpu::Entry& e = m.entries.emplace_back();
    e.name = std::to_string(k);
    e.image = static_cast<uint32_t>(k % images);
    e.lanes = {1, 1, 1};
  }
  return m;
}
Reader read_device_module(const gpu::Module& m) {
  return [bytes = gpu::encode(m)] {
    const auto decoded = gpu::decode(bytes);
    return decoded.ok() ? ok() : decoded.status();
  };
}
Reader entry_with(const std::function<void(gpu::Module&)>& change) {
  gpu::Module m = device_module(1, 1);
  change(m);
  return read_device_module(m);
}

}  // namespace

TEST_CASE("limits of modules of devices") {
  const auto features = [](uint64_t n) {
    return entry_with([n](gpu::Module& m) {
      for (uint64_t f = 0; f < n; ++f) m.images[0].features.push_back(static_cast<uint32_t>(f));
    });
  };
  const Limit limits[] = {
      {"gpu-module.entries", 65'536, [](uint64_t n) { return read_device_module(device_module(n, 1)); }, "65537 entries, at most 65536"},
      {"gpu-module.images", 65'536, [](uint64_t n) { return read_device_module(device_module(65'536, n)); }, "65537 images, at most 65536"},
      {"gpu-module.features", 65'536, features, "65537 features, at most 65536"},
      {"gpu-module.lanes", 1'024, [](uint64_t n) { return entry_with([n](gpu::Module& m) { m.entries[0].lanes[1] = static_cast<uint16_t>(n); }); },
       "1025 lanes, expected 1 to 1024"},
      {"gpu-module.buffers", 4'096, [](uint64_t n) { return entry_with([n](gpu::Module& m) { m.entries[0].num_buffers = static_cast<uint16_t>(n); }); },
       "4097 buffers, at most 4096"},
      {"gpu-module.scalars", 4'096, [](uint64_t n) { return entry_with([n](gpu::Module& m) { m.entries[0].num_scalars = static_cast<uint16_t>(n); }); },
       "4097 scalars, at most 4096"},
  };
  check_limits(limits);
}

TEST_CASE("limits of portable code") {
  const Kernel empty;
  const Limit limits[] = {
      {"portable.kernels", 65'536, [&](uint64_t n) { return portable_module(n, empty); }, "65537 kernels, at most 65536"},
      {"portable.local-bytes", 256 << 20, [](uint64_t n) { return portable_module(1, {{n}, {}, {}}); },
       "more than 268435456 bytes of local arrays"},
      {"portable.register-bytes", 4 << 20, registers_of, "more than 4194304 bytes of registers"},
      {"portable.lanes", 64,
       [](uint64_t n) {
         return portable_module(1, {{}, {{portable::Kind::F32, static_cast<uint8_t>(n)}}, {}});
       },
       "register 0"},
      {"portable.depth", 64, nested_loops, "nested deeper than 64"},
  };
  check_limits(limits);
}

TEST_CASE("limits of native modules") {
  if (native().empty()) {
    MESSAGE("skipped: clang-19 or ld.lld-19 is missing");
    return;
  }
  using namespace mlc::elf;
  const auto program_headers = [](uint64_t n) {
    return changed([n](Image& i) { reinterpret_cast<FileHeader*>(i.data())->phnum = static_cast<uint16_t>(n); });
  };
  const auto dynamic_entries = [](uint64_t n) {
    return changed([n](Image& i) { program(i, kPtDynamic).filesz = (n + 15) / 16 * 16; });
  };
  const auto relocations = [](uint64_t n) { return changed([n](Image& i) { dynamic(i, kDtRelasz).value = n * 24; }); };
  const auto symbols = [](uint64_t n) {
    return changed([n](Image& i) {
      reinterpret_cast<uint32_t*>(i.data() + dynamic(i, kDtHash).value)[1] = static_cast<uint32_t>(n);
    });
  };
  const Limit limits[] = {
      {"module.bytes", 1 << 30, native_file_of, "at most 1073741824"},
      {"module.program-headers", 16, program_headers, "is 17, 1 to 16 expected", true},
      {"module.dynamic-bytes", 4096, dynamic_entries, "up to 4096 expected", true},
      {"module.relocations", 1 << 20, relocations, "too many relocations: 1048577, at most 1048576", true},
      {"module.symbols", 64, symbols, "too many symbols: 65, at most 64", true},
  };
  check_limits(limits);
}

TEST_CASE("limits of plans") {
  const auto bytes = [](uint64_t n) -> Reader {
    std::vector<std::byte> plan = PlanMaker::two_steps().bytes();
    plan.resize(n);
    return [plan] { return read_plan(plan); };
  };
  const auto symbols = [](uint64_t n) {
    return plan(changed_plan([n](PlanMaker& m) { m.extra_symbols = static_cast<int>(n - m.symbols.size()); }));
  };
  const auto ports = [](uint64_t n) {
    return plan(changed_plan([n](PlanMaker& m) {
      for (uint64_t i = m.inputs.size(); i < n; ++i) {
        const uint32_t x = m.buffer(fbp::BufferKind_Input, DType::F32, static_cast<uint32_t>(i), m.buffers[0].bytes);
        m.inputs.push_back({"x" + std::to_string(i), DType::F32, x, m.inputs[0].shape});
      }
    }));
  };
  const auto axes = [](uint64_t n) {
    return plan(changed_plan([n](PlanMaker& m) { m.outputs[0].shape.resize(n, m.outputs[0].shape[1]); }));
  };
  const auto operands = [](uint64_t n) {
    return plan(changed_plan([n](PlanMaker& m) { m.body[0].scalars.resize(n, m.body[0].scalars[0]); }));
  };
  const auto cuts = [](uint64_t n) {
    return plan(changed_plan([n](PlanMaker& m) {
      m.body[0].scalars.resize(n, m.body[0].scalars[0]);
      for (uint32_t k = 0; k < n; ++k) m.body[0].cuts.push_back({m.body[0].tiles, k, m.body[0].tiles});
    }));
  };
  const auto states = [](uint64_t n) {
    return plan(changed_plan([n](PlanMaker& m) {
      m.buffer(fbp::BufferKind_State, DType::F32, static_cast<uint32_t>(n - 1), m.buffers[0].bytes);
    }));
  };
  const auto message = [](uint64_t n) {
    return plan(changed_plan([n](PlanMaker& m) { m.checks[0].message = std::string(n, 'm'); }));
  };
  const auto name = [](uint64_t n) {
    return plan(changed_plan([n](PlanMaker& m) { m.name = std::string(n, 'n'); }));
  };
  const auto functions = [](uint64_t n) -> Reader {
    flatbuffers::FlatBufferBuilder b;
    std::vector<flatbuffers::Offset<fbp::Function>> all;
    for (uint64_t i = 0; i < n; ++i) {
      const std::vector symbols = {fbp::SymbolInstr(fbp::SymbolOp_Const, 0, 0, 0, 0, 0)};  // the length of the arena
      const auto name = b.CreateString("f" + std::to_string(10'000 + i));
      const auto shape = b.CreateVectorOfStructs(symbols);
      fbp::FunctionBuilder function(b);
      function.add_name(name);
      function.add_num_symbols(1);
      function.add_shape(shape);
      all.push_back(function.Finish());
    }
    fbp::FinishPlanBuffer(b, fbp::CreatePlan(b, 1, MLRUN_MODULE_ABI, b.CreateVector(all)));
    const auto* p = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
    return [bytes = std::vector<std::byte>(p, p + b.GetSize())] { return read_plan(bytes); };
  };
  const Limit limits[] = {
      {"plan.functions", 4096, functions, "is 4097, 1 to 4096 expected"},
      {"plan.bytes", 16 << 20, bytes, "16 to 16777216 expected"},
      {"plan.symbols", 1 << 20, symbols, "too many symbols, at most 1048576", true},
      {"plan.ports", 1024, ports, "too many ports, at most 1024"},
      {"plan.axes", 8, axes, "too many axes, at most 8"},
      {"plan.operands", 4096, operands, "too many operands, at most 4096"},
      {"plan.cuts", 3, cuts, "too many cuts, at most 3"},
      {"plan.states", 4096, states, "the last is 4095"},
      {"plan.message", 4096, message, "longer than 4096 bytes"},
      {"plan.name", 1023, name, "name of a function"},
  };
  check_limits(limits);
}
