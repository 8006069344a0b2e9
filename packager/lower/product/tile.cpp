// Which register tile: legal tiles of the target (kernels.md section 6) ranked by cycles for this number of rows and
// columns. Per step of k a tile does rows*vectors FMAs and rows + vectors loads, two of each per cycle, and cannot be
// faster than the latency of the chains it has.
#include <algorithm>
#include <cmath>

#include "packager/lower/product/tiled_product.h"
#include "packager/nest/facts/contraction.h"

namespace mlc::lower {

namespace {

constexpr size_t kMostTiles = 8;
constexpr unsigned kWide = 8;  // vectors of a tile of one row

struct Shape {
  unsigned rows, vectors;
};

std::vector<Shape> legal(const Job& job, DType acc) {
  const targets::Target& t = job.target;
  if (job.vector_bytes() >= 64 && acc == DType::F64) return {{7, 2}, {6, 4}, {12, 2}, {14, 2}, {3, 8}};
  if (job.vector_bytes() >= 64) return {{7, 2}, {6, 4}, {8, 3}, {9, 3}, {12, 2}, {14, 1}};
  if (job.vector_bytes() >= 32) {
    if (t.vector_registers >= 32) return {{7, 2}, {6, 4}, {12, 2}};
    return {{6, 2}};
  }
  if (t.vector_registers >= 32) return {{4, 4}};
  if (t.vector_registers >= 16) return {{2, 4}};
  return {{5, 1}};
}

// Accumulators, what each row has beside them, a vector of each column, one of a row and one that all use.
std::vector<Shape> legal_with_more(const Job& job, DType acc, unsigned more) {
  std::vector<Shape> shapes;
  for (const Shape& s : legal(job, acc)) {
    Shape fits = s;
    while (fits.rows > 1 && fits.rows * (fits.vectors + more) + fits.vectors + 2 > job.target.vector_registers) --fits.rows;
    shapes.push_back(fits);
  }
  return shapes;
}

// Columns of a tile that do not stay in L1 are read again from L2 for every row tile, which bounds short tiles.
double cycles(const targets::ProcessorRow& machine, unsigned rows, double vectors, unsigned more, double far_bytes) {
  const double fma = rows * (vectors + more) / machine.fmas_per_cycle, loads = (rows + std::ceil(vectors)) / machine.loads_per_cycle;
  const double latency = machine.fma_latency_cycles / chains_for(rows, static_cast<unsigned>(std::ceil(vectors)), machine.sums_in_flight());
  return std::max({fma, loads, latency, vectors * far_bytes / machine.far_bytes_per_cycle}) + machine.tile_step_cycles;
}

}  // namespace

bool a_lies_along_k(const Job& job, const TiledProduct& c) {
  return job.target.has_lane_operands && c.group == 1 && !c.along_k() && c.a_k->is_int(1);
}

unsigned chains_for(unsigned rows, unsigned vectors, unsigned wanted) {
  unsigned chains = 1;
  while (chains < 4 && rows * vectors * chains < wanted) chains *= 2;
  return chains;
}

std::vector<RegisterTile> ranked_tiles(const Job& job, DType acc, double rows, bool rows_known, double columns, double column_bytes, bool panels, unsigned more) {
  const unsigned lanes = lanes_of_sums(job, acc);
  std::vector<Shape> candidates = more ? legal_with_more(job, acc, more) : legal(job, acc);
  if (rows_known && rows >= 1) {
    // Fewer rows than a tile has: the accumulators go to columns.
    std::vector<Shape> low;
    for (const Shape& s : candidates)
      if (rows < s.rows) {
        unsigned h = static_cast<unsigned>(rows);
        for (unsigned v : {1u, 2u, 3u, 4u, 6u, 8u})
          if (h * v <= s.rows * s.vectors && (h + 1) * v + 1 <= (s.rows + 1) * s.vectors + 1 &&
              (v * lanes) % std::min(16u, lanes * v) == 0 && ((v * lanes) % 16 == 0 || 16 % (v * lanes) == 0))
            low.push_back({h, v});
      }
    candidates.insert(candidates.end(), low.begin(), low.end());
    // One row streams its weights: a single panel at a time is what DRAM likes best. Where columns are beside each other, and what is next
    // along k lies a whole row behind, several lines of a row are read together.
    if (rows < 2) {
      unsigned vectors = std::clamp(16 / lanes, 1u, kWide);
      while (!panels && job.target.vector_registers >= 16 && vectors < kWide && columns >= 2.0 * vectors * lanes) vectors *= 2;
      candidates = {{1, vectors}};
    }
  } else {
    std::erase_if(candidates, [](const Shape& s) { return s.rows > 8; });  // every height gets code
  }
  const targets::ProcessorRow& machine = job.processor();
  const auto cost_of = [&](const Shape& s) {
    double tiles = std::max(1.0, std::ceil(rows / s.rows));
    double base = std::floor(rows / tiles), extra = rows - base * tiles;
    double vectors = std::ceil(columns / lanes), groups = std::floor(vectors / s.vectors), rest = vectors - groups * s.vectors;
    // A half vector goes by on its own, behind the others.
    const double over = columns - (vectors - 1) * lanes;
    const bool half = is_wide(lanes, acc) && rest > 0 && over > 0 && over <= lanes / 2;
    if (half) --rest;
    const double far_bytes = s.vectors * lanes * column_bytes > machine.tile_bytes ? job.vector_bytes() : 0;
    auto column_cost = [&](unsigned h) {
      if (h == 0) return 0.0;
      const double of_half = half ? cycles(machine, h, 0.5, more, far_bytes) : 0.0;
      return groups * cycles(machine, h, s.vectors, more, far_bytes) + (rest > 0 ? cycles(machine, h, rest, more, far_bytes) : 0.0) + of_half;
    };
    return extra * column_cost(static_cast<unsigned>(base) + 1) + (tiles - extra) * column_cost(static_cast<unsigned>(base));
  };
  // What is better by less than 2 % stands behind what comes first in the table.
  std::vector<RegisterTile> ranked;
  while (!candidates.empty() && ranked.size() < kMostTiles) {
    size_t best = 0;
    double best_cost = 1e300;
    for (size_t k = 0; k < candidates.size(); ++k)
      if (const double cost = cost_of(candidates[k]); cost < best_cost * 0.98) best_cost = cost, best = k;
    ranked.push_back({candidates[best].rows, candidates[best].vectors});
    candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(best));
  }
  return ranked;
}

RegisterTile choose_tile_along_k(const Job& job, double rows, bool rows_known, unsigned columns) {
  constexpr unsigned kMany[nest::kFewColumns] = {12, 12, 8, 6}, kSome[nest::kFewColumns] = {8, 5, 3, 2};
  unsigned most = (job.target.vector_registers >= 32 ? kMany : kSome)[columns - 1];
  if (!rows_known) most = std::min(most, 8u);  // every height gets code
  if (rows_known && rows < most) most = std::max(1u, static_cast<unsigned>(rows));
  return {most, columns};
}

}  // namespace mlc::lower
