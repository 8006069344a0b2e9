// Groups of nests on a device (nest/facts/group.h). Blocks of rows do not go through all nests there, as on a processor: a lane has no cache
// of its own to keep them in. Instead neighbours become one statement where there is a template for it:
//
//   attention         scores stay in the memory of a block (attention.h)
//   folds of rows     a softmax or a norm that passes took apart is one nest again, whose rows lanes share (device_lines.cpp): what
//                     a nest before wrote for each element is computed where it is read, since that costs less than memory
//
// All others are what they are on their own.
#include <algorithm>

#include "packager/lower/device/attention.h"
#include "packager/lower/device/group_values.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr double kMostRepeated = 64;  // operations of an element that are cheaper than to write and read it

class DeviceGroup {
 public:
  DeviceGroup(const Job& job, const nest::Function& f, const nest::Group& group, const schedule::Schedule* how)
      : job_(job), f_(f), g_(group), ctx_(job.ctx), how_(how) {}

  Result<std::optional<Kernels>> run() {
    bool joined = false;
    for (size_t first = 0; first < g_.nests.size();) {
      MLC_ASSIGN(const size_t count, one_statement(first));
      joined |= count > 1;
      first += count;
    }
    return joined ? std::optional(std::move(kernels_)) : std::nullopt;
  }

  // Of the first nests that are attention together.
  Result<std::vector<schedule::Schedule>> schedules() {
    for (size_t first = 0; first < g_.nests.size(); ++first)
      for (size_t last = g_.nests.size(); last-- > first + 1;) {
        MLC_ASSIGN(const std::optional<Attention> a, attention_of(ctx_, f_, g_, first, last));
        if (const auto all = a ? device_attention(job_, *a) : std::nullopt) return all->ranked;
      }
    return std::vector<schedule::Schedule>();
  }

 private:
  // From nest `first` on, as many as there is a template for; how many.
  Result<size_t> one_statement(size_t first) {
    for (size_t last = g_.nests.size(); last-- > first + 1;) {
      MLC_ASSIGN(const std::optional<Attention> a, attention_of(ctx_, f_, g_, first, last));
      if (const auto all = a ? device_attention(job_, *a) : std::nullopt) {
        Kernels one;
        MLC_ASSIGN(loop::Kernel kernel, kernel_by(job_, a->nest, *all, how_ ? *how_ : all->ranked.front()));
        one.push_back(std::move(kernel));
        take(std::move(one));
        return last + 1 - first;
      }
      if (const auto nest = joined_folds(first, last)) {
        MLC_RETURN_IF_ERROR(lower_alone(*nest));
        return last + 1 - first;
      }
    }
    MLC_RETURN_IF_ERROR(lower_alone(*g_.nests[first]));
    return size_t{1};
  }

  // Nests first .. last as the last one alone, if lanes then share its rows.
  std::optional<nest::Nest> joined_folds(size_t first, size_t last) {
    const GroupValues values(ctx_, g_, first, last);
    const nest::Nest& whole = *g_.nests[last];
    if (!values.are_private() || whole.writes.size() != 1 || whole.where || whole.scan_dim) return std::nullopt;
    Facts facts;
    for (size_t k = first; k < last; ++k) {
      const Expr* value = g_.nests[k]->writes[0].value;
      if (!facts.has_fold(value) && facts.cost(value) > kMostRepeated) return std::nullopt;
    }
    nest::Nest joined = whole;
    const Expr*& value = joined.writes[0].value;
    if (!(value = values.resolved(value)) || has_product(value, joined.dims)) return std::nullopt;
    auto flat = flatten(ctx_, f_, joined);
    if (!flat.ok()) return std::nullopt;
    collapse(ctx_, *flat);
    return device_lines(job_, *flat) ? std::optional(std::move(joined)) : std::nullopt;
  }

  // A sum over products of rows and columns.
  bool has_product(const Expr* value, const std::vector<const ir::Dim*>& dims) const {
    bool found = false;
    ir::walk(value, [&](const Expr* e) {
      const auto c = nest::contraction_of(ctx_, dims, e);
      found |= c && !c->m.empty() && !c->n.empty();
    });
    return found;
  }

  Status lower_alone(const nest::Nest& nest) {
    nest::Statement statement;
    statement.source = job_.name;
    statement.nest = std::make_unique<nest::Nest>(nest);
    MLC_ASSIGN(Kernels alone, lower(ctx_, f_, statement, job_.target, job_.expand));
    take(std::move(alone));
    return ok();
  }

  // Workspaces are numbered by statement: those of several are different ones.
  void take(Kernels more) {
    uint32_t used = workspaces_;
    for (loop::Kernel& kernel : more) {
      for (loop::Param& p : kernel.params)
        if (p.role == loop::Role::Workspace) used = std::max(used, (p.array += workspaces_) + 1);
      kernels_.push_back(std::move(kernel));
    }
    workspaces_ = used;
  }

  const Job& job_;
  const nest::Function& f_;
  const nest::Group& g_;
  ir::Context& ctx_;
  const schedule::Schedule* how_;
  Kernels kernels_;
  uint32_t workspaces_ = 0;
};

}  // namespace

Result<std::optional<Kernels>> lower_device_group(const Job& job, const nest::Function& f, const nest::Group& group, const schedule::Schedule* how) {
  return DeviceGroup(job, f, group, how).run();
}

Result<std::vector<schedule::Schedule>> device_group_schedules(const Job& job, const nest::Function& f, const nest::Group& group) {
  return DeviceGroup(job, f, group, nullptr).schedules();
}

}  // namespace mlc::lower
