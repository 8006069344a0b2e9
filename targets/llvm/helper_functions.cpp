// Functions that some operations call inside a module, written as LLVM assembly because they loop.
#include <llvm/AsmParser/Parser.h>
#include <llvm/Support/SourceMgr.h>

#include "targets/llvm/kernel_emitter.h"

namespace mlc::targets {

namespace {

// fmod on the integers of the operands, exact: subtract the divisor's mantissa at every power of two from the dividend's
// exponent down. W bits, M mantissa bits. (The classic algorithm, as in fdlibm and musl.)
constexpr const char* kFmod = R"(
define internal FP @NAME(FP %x, FP %y) {
entry:
  %xb = bitcast FP %x to INT
  %yb = bitcast FP %y to INT
  %ax = and INT %xb, ABSMASK
  %ay = and INT %yb, ABSMASK
  %sign = xor INT %xb, %ax
  %y0 = icmp eq INT %ay, 0
  %xinf = icmp uge INT %ax, INFBITS
  %ynan = icmp ugt INT %ay, INFBITS
  %bad0 = or i1 %y0, %xinf
  %bad = or i1 %bad0, %ynan
  br i1 %bad, label %invalid, label %valid
invalid:
  %p = fmul FP %x, %y
  %q = fdiv FP %p, %p
  ret FP %q
valid:
  %less = icmp ult INT %ax, %ay
  br i1 %less, label %small, label %big
small:
  ret FP %x
big:
  %ex0 = lshr INT %ax, M
  %ey0 = lshr INT %ay, M
  %xsub = icmp eq INT %ex0, 0
  %ysub = icmp eq INT %ey0, 0
  %xlz = call INT @llvm.ctlz.INT(INT %ax, i1 true)
  %ylz = call INT @llvm.ctlz.INT(INT %ay, i1 true)
  %xs = sub INT %xlz, EXPBITS
  %ys = sub INT %ylz, EXPBITS
  %xm1 = shl INT %ax, %xs
  %ym1 = shl INT %ay, %ys
  %xmant = and INT %ax, MANTMASK
  %ymant = and INT %ay, MANTMASK
  %xm2 = or INT %xmant, IMPLICIT
  %ym2 = or INT %ymant, IMPLICIT
  %mx0 = select i1 %xsub, INT %xm1, INT %xm2
  %my = select i1 %ysub, INT %ym1, INT %ym2
  %xe1 = sub INT 1, %xs
  %ye1 = sub INT 1, %ys
  %ex = select i1 %xsub, INT %xe1, INT %ex0
  %ey = select i1 %ysub, INT %ye1, INT %ey0
  br label %loop
loop:
  %mx = phi INT [ %mx0, %big ], [ %mnext, %step ]
  %e = phi INT [ %ex, %big ], [ %enext, %step ]
  %d = sub INT %mx, %my
  %neg = icmp slt INT %d, 0
  %m = select i1 %neg, INT %mx, INT %d
  %more = icmp sgt INT %e, %ey
  br i1 %more, label %step, label %finish
step:
  %mnext = shl INT %m, 1
  %enext = sub INT %e, 1
  br label %loop
finish:
  %none = icmp eq INT %m, 0
  br i1 %none, label %zero, label %pack
zero:
  %z = bitcast INT %sign to FP
  ret FP %z
pack:
  %lz = call INT @llvm.ctlz.INT(INT %m, i1 true)
  %s = sub INT %lz, EXPBITS
  %mn = shl INT %m, %s
  %en = sub INT %e, %s
  %normal = icmp sgt INT %en, 0
  %mant = and INT %mn, MANTMASK
  %efield = shl INT %en, M
  %bits1 = or INT %mant, %efield
  %down = sub INT 1, %en
  %amount = select i1 %normal, INT 0, INT %down
  %bits2 = lshr INT %mn, %amount
  %bits3 = select i1 %normal, INT %bits1, INT %bits2
  %bits = or INT %bits3, %sign
  %r = bitcast INT %bits to FP
  ret FP %r
}
declare INT @llvm.ctlz.INT(INT, i1)
)";

// Wrapping power; a negative exponent gives 0 unless the base is 1 or -1.
constexpr const char* kIpow = R"(
define internal i64 @NAME(i64 %base, i64 %exponent) {
entry:
  %negative = icmp slt i64 %exponent, 0
  br i1 %negative, label %reciprocal, label %loop
reciprocal:
  %is1 = icmp eq i64 %base, 1
  %ism1 = icmp eq i64 %base, -1
  %odd = and i64 %exponent, 1
  %twice = shl i64 %odd, 1
  %sign = sub i64 1, %twice
  %a = select i1 %ism1, i64 %sign, i64 0
  %b = select i1 %is1, i64 1, i64 %a
  ret i64 %b
loop:
  %r = phi i64 [ 1, %entry ], [ %rnext, %step ]
  %x = phi i64 [ %base, %entry ], [ %xnext, %step ]
  %e = phi i64 [ %exponent, %entry ], [ %enext, %step ]
  %done = icmp eq i64 %e, 0
  br i1 %done, label %exit, label %step
step:
  %bit = trunc i64 %e to i1
  %rx = mul i64 %r, %x
  %rnext = select i1 %bit, i64 %rx, i64 %r
  %xnext = mul i64 %x, %x
  %enext = lshr i64 %e, 1
  br label %loop
exit:
  ret i64 %r
}
)";

llvm::Function* add_function(llvm::Module& module, bool calls, std::string name, std::string text,
                             std::initializer_list<std::pair<std::string_view, std::string_view>> words) {
  if (llvm::Function* f = module.getFunction(name)) return f;
  auto replace = [&](std::string_view from, std::string_view to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replace("NAME", name);
  for (auto [from, to] : words) replace(from, to);
  llvm::SMDiagnostic error;
  if (llvm::parseAssemblyInto(llvm::MemoryBufferRef(text, name), &module, nullptr, error)) return nullptr;
  llvm::Function* f = module.getFunction(name);
  f->addFnAttr(calls ? llvm::Attribute::NoInline : llvm::Attribute::AlwaysInline);
  return f;
}

}  // namespace

llvm::Function* fmod_function(llvm::Module& module, bool is_f64, bool calls) {
  if (is_f64)
    return add_function(module, calls, "mlc.fmod.f64", kFmod,
                        {{"ABSMASK", "9223372036854775807"}, {"INFBITS", "9218868437227405312"},
                         {"MANTMASK", "4503599627370495"}, {"IMPLICIT", "4503599627370496"}, {"EXPBITS", "11"},
                         {", M\n", ", 52\n"}, {"INT", "i64"}, {"FP", "double"}});
  return add_function(module, calls, "mlc.fmod.f32", kFmod,
                      {{"ABSMASK", "2147483647"}, {"INFBITS", "2139095040"}, {"MANTMASK", "8388607"},
                       {"IMPLICIT", "8388608"}, {"EXPBITS", "8"}, {", M\n", ", 23\n"}, {"INT", "i32"}, {"FP", "float"}});
}

llvm::Function* ipow_function(llvm::Module& module, bool calls) { return add_function(module, calls, "mlc.ipow", kIpow, {}); }

}  // namespace mlc::targets
