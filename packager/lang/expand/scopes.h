// Private to the library: scopes of names, running indices and conditions, undone on every way out.
#pragma once

#include "packager/lang/expand/expander.h"

namespace mlc::lang {

struct ScopedFrame {
  explicit ScopedFrame(Expander& x, bool barrier = false) : x(x) {
    x.frames_.emplace_back();
    x.frames_.back().barrier = barrier;
  }
  // The body of a function or combiner of this domain.
  ScopedFrame(Expander& x, const std::string& domain) : ScopedFrame(x, /*barrier=*/true) { x.frames_.back().domain = &domain; }
  ~ScopedFrame() { x.frames_.pop_back(); }
  ScopedFrame(const ScopedFrame&) = delete;
  Expander& x;
};

// The body of `fn`, for what is said if it does not end. Of functions that call each other the first one is named.
struct ScopedExpansion {
  ScopedExpansion(Expander& x, const FnDef& fn) : x(x), before(x.expanding_) {
    if (!before) x.expanding_ = &fn;
  }
  ~ScopedExpansion() { x.expanding_ = before; }
  ScopedExpansion(const ScopedExpansion&) = delete;
  Expander& x;
  const FnDef* before;
};

// `condition` holds inside; its conjuncts are facts for proofs.
struct ScopedConditions {
  ScopedConditions(Expander& x, Ex condition) : x(x), size(x.conditions_.size()), version(x.version_) {
    push(condition);
    x.version_ = x.next_version_++;
  }
  ~ScopedConditions() {
    x.conditions_.resize(size);
    x.version_ = version;
  }
  ScopedConditions(const ScopedConditions&) = delete;
  void push(Ex c) {
    if (!c || c->is_const()) return;
    if (c->op == ir::Op::And) {
      push(c->args[0]);
      push(c->args[1]);
    } else {
      x.conditions_.push_back(c);
    }
  }
  Expander& x;
  size_t size;
  uint64_t version;
};

// Binds dims to fresh running indices. An extent of one needs no dim: its index is 0.
struct ScopedDims {
  explicit ScopedDims(Expander& x) : x(x), saved(x.bound_), version(x.version_) { x.version_ = x.next_version_++; }
  ~ScopedDims() {
    x.bound_ = std::move(saved);
    x.version_ = version;
  }
  ScopedDims(const ScopedDims&) = delete;

  void bind(const std::string& name, Pos pos) {
    auto it = x.dims_.find(name);
    if (it == x.dims_.end()) x.fail_here(pos, "there is no dim '" + name + "'");
    const auto extents = x.extents_of(name, pos);
    auto one = [&](const std::string& base, size_t k, size_t count, Ex extent) {
      auto& places = x.bound_[base];
      if (places.size() < count) places.resize(count, nullptr);
      if (places[k]) x.fail_here(pos, "'" + name + "' is bound twice");
      if (extent->is_int(1)) {
        places[k] = x.ctx_.integer(0);
        return;
      }
      const ir::Dim* d = x.ctx_.declare_dim(count > 1 ? base + std::to_string(k) : base, extent);
      dims.push_back(d);
      places[k] = x.ctx_.dim(d);
    };
    if (it->second.alias) {
      for (const auto& ref : it->second.refs)
        if (!ref.one) {
          const auto base = x.extents_of(ref.base, pos);
          one(ref.base, ref.index, base.size(), base[ref.index]);
        }
      return;
    }
    for (size_t k = 0; k < extents.size(); ++k) one(name, k, extents.size(), extents[k]);
    x.bound_[name].resize(extents.size(), nullptr);
    x.version_ = x.next_version_++;
  }

  Expander& x;
  std::vector<const ir::Dim*> dims;
  std::map<std::string, std::vector<Ex>> saved;
  uint64_t version;
};

}  // namespace mlc::lang
