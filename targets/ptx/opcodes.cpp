#include "targets/ptx/opcodes.h"

#include <algorithm>
#include <unordered_map>

namespace mlc::targets::ptx {

namespace {

// "{a,b}" in a name stands for a row with each. No row of f32 or f64 arithmetic is without a rounding: the assembler would fuse
// mul and add without one.
struct Row {
  std::string_view names, shape;
  OpClass op_class = OpClass::Base;
  uint8_t sm = 75, version = 65;
};

constexpr OpClass kDouble = OpClass::Double, kShared = OpClass::Shared, kNan = OpClass::NanMinMax;

constexpr Row kRows[] = {
    // Integers.
    {"add.{s16,s32,s64}", "DSS"},
    {"sub.{s16,s32,s64}", "DSS"},
    {"mul.lo.{s16,s32,s64}", "DSS"},
    {"mul.hi.{s16,u16,s32,u32,s64,u64}", "DSS"},
    {"mul.wide.{s16,u16,s32,u32}", "WSS"},
    {"mad.lo.{s16,s32,s64}", "DSSS"},
    {"mad.wide.{s16,u16,s32,u32}", "WSSw"},
    {"div.{s16,u16,s32,u32,s64,u64}", "DSS"},
    {"rem.{s16,u16,s32,u32,s64,u64}", "DSS"},
    {"abs.{s16,s32,s64}", "DS"},
    {"neg.{s16,s32,s64}", "DS"},
    {"min.{s16,u16,s32,u32,s64,u64}", "DSS"},
    {"max.{s16,u16,s32,u32,s64,u64}", "DSS"},
    {"clz.{b32,b64}", "RS"},
    {"bfe.{u32,s32,u64,s64}", "DScc"},
    {"bfi.{b32,b64}", "DSScc"},
    {"prmt.b32", "DSSS"},
    {"dp4a.{s32,u32}.{s32,u32}", "DSSS"},
    {"shf.{l,r}.wrap.b32", "DSSc"},
    // Bits and predicates.
    {"and.{b16,b32,b64,pred}", "DSS"},
    {"or.{b16,b32,b64,pred}", "DSS"},
    {"xor.{b16,b32,b64,pred}", "DSS"},
    {"not.{b16,b32,b64,pred}", "DS"},
    {"shl.{b16,b32,b64}", "DSc"},
    {"shr.{s16,u16,s32,u32,s64,u64}", "DSc"},
    {"setp.{eq,ne}.{b16,b32,b64,s16,u16,s32,u32,s64,u64}", "pSS"},
    {"setp.{lt,le,gt,ge}.{s16,u16,s32,u32,s64,u64}", "pSS"},
    {"setp.{lo,ls,hi,hs}.{u16,u32,u64}", "pSS"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f32", "pSS"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f64", "pSS", kDouble},
    {"selp.{b16,s16,u16,b32,s32,u32,f32,b64,s64,u64}", "DSSp"},
    {"selp.f64", "DSSp", kDouble},
    {"mov.{b16,u16,s16,u32,s32,u64,s64,f32,pred}", "DM"},
    {"mov.{b32,b64}", "DM|{NN}D|D{NN}"},
    {"mov.f64", "DM", kDouble},
    // f32.
    {"add.rn.f32", "DSS"},
    {"sub.rn.f32", "DSS"},
    {"mul.rn.f32", "DSS"},
    {"div.rn.f32", "DSS"},
    {"fma.rn.f32", "DSSS"},
    {"rcp.rn.f32", "DS"},
    {"sqrt.rn.f32", "DS"},
    {"ex2.approx.ftz.f32", "DS"},
    {"abs.f32", "DS"},
    {"neg.f32", "DS"},
    {"min.f32", "DSS"},
    {"max.f32", "DSS"},
    {"min.NaN.f32", "DSS", kNan, 80, 70},
    {"max.NaN.f32", "DSS", kNan, 80, 70},
    // f64.
    {"add.rn.f64", "DSS", kDouble},
    {"sub.rn.f64", "DSS", kDouble},
    {"mul.rn.f64", "DSS", kDouble},
    {"div.rn.f64", "DSS", kDouble},
    {"fma.rn.f64", "DSSS", kDouble},
    {"rcp.rn.f64", "DS", kDouble},
    {"sqrt.rn.f64", "DS", kDouble},
    {"abs.f64", "DS", kDouble},
    {"neg.f64", "DS", kDouble},
    {"min.f64", "DSS", kDouble},
    {"max.f64", "DSS", kDouble},
    // Conversions.
    {"cvt.{u16,s16,u32,s32,u64,s64}.{u8,s8}", "TF"},
    {"cvt.{u8,s8,u32,s32,u64,s64}.{u16,s16}", "TF"},
    {"cvt.{u8,s8,u16,s16,u64,s64}.{u32,s32}", "TF"},
    {"cvt.{u8,s8,u16,s16,u32,s32}.{u64,s64}", "TF"},
    {"cvt.rn.f32.{u8,s8,u16,s16,u32,s32,u64,s64}", "TF"},
    {"cvt.rn.f64.{u8,s8,u16,s16,u32,s32,u64,s64}", "TF", kDouble},
    {"cvt.{rni,rzi,rmi,rpi}.f32.f32", "TF"},
    {"cvt.{rni,rzi,rmi,rpi}.f64.f64", "TF", kDouble},
    {"cvt.rzi.{u16,s16,u32,s32,u64,s64}.f32", "TF"},
    {"cvt.rzi.{u16,s16,u32,s32,u64,s64}.f64", "TF", kDouble},
    {"cvt.f64.f32", "TF", kDouble},
    {"cvt.rn.f32.f64", "TF", kDouble},
    {"cvt.f32.f16", "Th"},
    {"abs.f16", "hh"},  // LLVM takes signs through a conversion
    {"neg.f16", "hh"},
    {"cvt.rn.f16.f32", "hF"},
    {"cvt.rn.bf16.f32", "hF", OpClass::Base, 80, 70},
    {"cvt.rna.tf32.f32", "RF", OpClass::Base, 80, 70},
    {"cvt.rn.{f16x2,bf16x2}.f32", "RFF", OpClass::Base, 80, 70},  // the first number is the upper half
    // Memory.
    {"ld.param.{u32,u64,s64,b32,b64}", "FP"},
    {"ld.global.{u8,s8,u16,s16,u32,s32,u64,s64,f32,b8,b16,b32,b64}", "FG"},
    {"ld.global.f64", "FG", kDouble},
    {"ld.global.nc.{u8,s8,u16,s16,u32,s32,u64,s64,f32,b8,b16,b32,b64}", "FG"},
    {"ld.global.nc.f64", "FG", kDouble},
    {"ld.global.v2.{u8,u16,u32,u64,f32,b8,b16,b32,b64}", "{FF}G"},
    {"ld.global.v4.{u8,u16,u32,f32,b8,b16,b32}", "{FFFF}G"},
    {"ld.global.nc.v2.{u8,u16,u32,u64,f32,b8,b16,b32,b64}", "{FF}G"},
    {"ld.global.nc.v4.{u8,u16,u32,f32,b8,b16,b32}", "{FFFF}G"},
    {"ld.global.v2.f64", "{FF}G", kDouble},
    {"ld.global.nc.v2.f64", "{FF}G", kDouble},
    {"st.global.{u8,u16,u32,u64,f32,b8,b16,b32,b64}", "GF"},
    {"st.global.f64", "GF", kDouble},
    {"st.global.v2.{u8,u16,u32,u64,f32,b8,b16,b32,b64}", "G{FF}"},
    {"st.global.v4.{u8,u16,u32,f32,b8,b16,b32}", "G{FFFF}"},
    {"st.global.v2.f64", "G{FF}", kDouble},
    {"ld.shared.{u8,s8,u16,s16,u32,s32,u64,s64,f32,f64,b8,b16,b32,b64}", "FH", kShared},
    {"ld.shared.v2.{u8,u16,u32,u64,f32,f64,b8,b16,b32,b64}", "{FF}H", kShared},
    {"ld.shared.v4.{u8,u16,u32,f32,b8,b16,b32}", "{FFFF}H", kShared},
    {"st.shared.{u8,u16,u32,u64,f32,f64,b8,b16,b32,b64}", "HF", kShared},
    {"st.shared.v2.{u8,u16,u32,u64,f32,f64,b8,b16,b32,b64}", "H{FF}", kShared},
    {"st.shared.v4.{u8,u16,u32,f32,b8,b16,b32}", "H{FFFF}", kShared},
    {"atom.global.cas.b64", "DGSS", OpClass::Atomic},
    {"shfl.sync.bfly.b32", "DSnnn"},
    // Tensor cores. All lanes of a warp do one together.
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "{DDDD}{RRRR}{RR}{DDDD}", OpClass::TensorCore, 80, 70},
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "{DDDD}{RRRR}{RR}{DDDD}", OpClass::TensorCore, 80, 70},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "{DDDD}{RRRR}{RR}{DDDD}", OpClass::TensorCore, 80, 70},
    {"mma.sync.aligned.m16n8k32.row.col.s32.{s8,u8}.{s8,u8}.s32", "{DDDD}{RRRR}{RR}{DDDD}", OpClass::TensorCore, 80, 70},
    {"ldmatrix.sync.aligned.m8n8.x4.{,trans.}shared.b16", "{RRRR}H", OpClass::TensorCore, 80, 70},  // four matrices, by rows or by columns
    // Four warps do one together: 64 rows by as many columns as n says. Factors are where descriptors say; the last two numbers: whether they lie by points.
    {"wgmma.mma_async.sync.aligned.m64n{64,128,256}k16.f32.{f16.f16,bf16.bf16}", "#EQQp11bb", OpClass::GroupProduct, 90, 80},
    {"wgmma.mma_async.sync.aligned.m64n{64,128,256}k32.s32.{s8.s8,u8.u8}", "#RQQp", OpClass::GroupProduct, 90, 80},
    {"wgmma.mma_async.sync.aligned.m64n{64,128,256}k32.s32.{s8.u8,u8.s8}", "#RQQp", OpClass::GroupProduct, 90, 84},
    {"wgmma.{fence,commit_group}.sync.aligned", "", OpClass::GroupProduct, 90, 80},
    {"wgmma.wait_group.sync.aligned", "n", OpClass::GroupProduct, 90, 80},
    {"fence.proxy.async.shared::cta", "", OpClass::GroupProduct, 90, 80},
    // Copies that go on beside their lane: so many bytes, of which some are read and the others are zero.
    {"cp.async.cg.shared.global", "HGB|HGBc", OpClass::AsyncCopy, 80, 70},
    {"cp.async.ca.shared.global", "HGC|HGCc", OpClass::AsyncCopy, 80, 70},
    {"cp.async.commit_group", "", OpClass::AsyncCopy, 80, 70},
    {"cp.async.wait_group", "n", OpClass::AsyncCopy, 80, 70},
    // Blocks of a cluster: where something of this block lies in the memory of another one, and what is there.
    {"mapa.shared::cluster.u64", "DSc", OpClass::Cluster, 90, 78},
    {"ld.shared::cluster.{u32,f32}", "DH", OpClass::Cluster, 90, 78},
    {"ld.shared::cluster.v2.{u32,f32}", "{DD}H", OpClass::Cluster, 90, 78},
    {"ld.shared::cluster.v4.{u32,f32}", "{DDDD}H", OpClass::Cluster, 90, 78},
    {"barrier.cluster.{arrive,wait}.aligned", "", OpClass::Cluster, 90, 78},
    // Control.
    {"bra", "L"},
    {"bra.uni", "L"},
    {"ret", ""},
    {"bar.sync", "0", OpClass::Barrier},
};

void expand(const Row& row, std::string prefix, std::string_view rest, std::vector<std::string>& out) {
  const size_t open = rest.find('{');
  if (open == rest.npos) {
    out.push_back(prefix + std::string(rest));
    return;
  }
  const size_t close = rest.find('}', open);
  prefix += rest.substr(0, open);
  std::string_view choices = rest.substr(open + 1, close - open - 1);
  while (!choices.empty()) {
    const size_t comma = std::min(choices.find(','), choices.size());
    expand(row, prefix + std::string(choices.substr(0, comma)), rest.substr(close + 1), out);
    choices.remove_prefix(std::min(comma + 1, choices.size()));
  }
}

// "#E" of a name with n64: "{EE..E}", 32 of them.
std::string shape_of(std::string_view shape, std::string_view name) {
  if (shape.empty() || shape[0] != '#') return std::string(shape);
  size_t columns = 0;
  for (size_t at = name.find("m64n") + 4; at < name.size() && name[at] >= '0' && name[at] <= '9'; ++at) columns = 10 * columns + static_cast<size_t>(name[at] - '0');
  return "{" + std::string(columns / 2, shape[1]) + "}" + std::string(shape.substr(2));
}

using Table = std::unordered_map<std::string_view, const Opcode*>;

Table make_table() {
  Table table;
  for (const Row& row : kRows) {
    std::vector<std::string> names;
    expand(row, "", row.names, names);
    for (std::string& name : names) {
      std::string shape = shape_of(row.shape, name);
      auto* op = new Opcode{std::move(name), {}, {}, {}, std::move(shape), row.op_class, row.sm, row.version};  // for ever
      for (std::string_view rest = op->name; !rest.empty();) {
        const size_t dot = std::min(rest.find('.'), rest.size());
        op->parts.push_back(rest.substr(0, dot));
        rest.remove_prefix(std::min(dot + 1, rest.size()));
      }
      if (bits_of_type(op->parts.back()) > 0) op->type = op->first_type = op->parts.back();
      if (op->parts[0] == "cvt") op->first_type = op->parts[op->parts.size() - 2];
      table.emplace(op->name, op);
    }
  }
  return table;
}

}  // namespace

unsigned bits_of_type(std::string_view t) {
  if (t == "pred") return 1;
  if (t == "f16" || t == "bf16") return 16;
  if (t.size() < 2 || (t[0] != 'u' && t[0] != 's' && t[0] != 'b' && t[0] != 'f')) return 0;
  const std::string_view bits = t.substr(1);
  const unsigned n = bits == "8" ? 8 : bits == "16" ? 16 : bits == "32" ? 32 : bits == "64" ? 64 : 0;
  return t[0] == 'f' && n < 32 ? 0 : n;
}

const Opcode* find_opcode(std::string_view name) {
  static const Table& table = *new Table(make_table());
  const auto row = table.find(name);
  return row == table.end() ? nullptr : row->second;
}

}  // namespace mlc::targets::ptx
