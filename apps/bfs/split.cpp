#include "bfs/split.h"

#include <algorithm>

namespace ocm::bfs {

SplitGraph split(const Graph& graph, uint32_t each, Team& team) {
  SplitGraph out;
  LocalPart& local = out.local;
  local.vertices = graph.vertices();
  local.each = each;
  local.edges = graph.neighbours.size();
  local.heads.resize(uint64_t{local.vertices} * each);
  local.offsets.resize(uint64_t{local.vertices} + 1);
  local.isolated = Bitmap(local.vertices);
  for (uint32_t v = 0; v < local.vertices; ++v) {
    const uint64_t degree = graph.degree(v);
    local.offsets[v + 1] = local.offsets[v] + (degree > each ? degree - each : 0);
  }
  out.rest.resize(local.offsets.back());
  team.run([&](unsigned worker) {
    const auto [begin, end] = team.share(worker, local.vertices, 64);
    for (auto v = static_cast<uint32_t>(begin); v < end; ++v) {
      const auto row = graph.of(v);
      const size_t first = std::min<size_t>(each, row.size());
      uint32_t* heads = local.heads.data() + uint64_t{v} * each;
      std::fill(std::copy_n(row.begin(), first, heads), heads + each, kNoVertex);
      std::copy(row.begin() + first, row.end(), out.rest.begin() + local.offsets[v]);
      if (row.empty()) local.isolated.set(v);
    }
  });
  return out;
}

}  // namespace ocm::bfs
