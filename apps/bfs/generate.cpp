// The two graphs that are searched.
#include "bfs/graph.h"

namespace ocm::bfs {
namespace {

/// splitmix64: a stream of random numbers for each edge, whatever thread makes it.
struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
};

/// A permutation of [0, 2^scale): invertible steps with keys from the seed.
class Scramble {
 public:
  Scramble(unsigned scale, uint64_t seed) : mask_((uint64_t{1} << scale) - 1), shift_(scale / 2 + 1) {
    Random random{seed ^ 0x5851f42d4c957f2d};
    for (uint64_t& key : keys_) key = random.next() | 1;
  }
  uint32_t operator()(uint64_t label) const {
    for (const uint64_t key : keys_) {
      label = (label * key + (key >> 32)) & mask_;
      label ^= label >> shift_;
    }
    return static_cast<uint32_t>(label);
  }

 private:
  const uint64_t mask_;
  const unsigned shift_;
  uint64_t keys_[4];
};

}  // namespace

EdgeList tree(uint32_t vertices) {
  EdgeList list{vertices, {}};
  if (vertices > 1) list.edges.reserve(vertices - 1);
  for (uint32_t v = 1; v < vertices; ++v) list.edges.push_back({(v - 1) / 2, v});
  return list;
}

EdgeList kronecker(unsigned scale, unsigned edge_factor, uint64_t seed, Team& team) {
  const uint64_t vertices = uint64_t{1} << scale;
  EdgeList list{static_cast<uint32_t>(vertices), std::vector<Edge>(vertices * edge_factor)};
  // Quadrants by cumulated probability in units of 2^-32: A, A + B, A + B + C.
  constexpr auto kA = static_cast<uint64_t>(0.57 * 4294967296.0);
  constexpr auto kAB = static_cast<uint64_t>(0.76 * 4294967296.0);
  constexpr auto kABC = static_cast<uint64_t>(0.95 * 4294967296.0);
  const Scramble scramble(scale, seed);
  team.run([&](unsigned worker) {
    const Team::Share share = team.share(worker, list.edges.size());
    for (uint64_t i = share.begin; i < share.end; ++i) {
      Random random{Random{seed + i * 0xd1342543de82ef95}.next()};
      uint64_t from = 0, to = 0;
      for (unsigned level = 0; level < scale; ++level) {
        const uint64_t draw = random.next() >> 32;
        from = from << 1 | static_cast<uint64_t>(draw >= kAB);
        to = to << 1 | static_cast<uint64_t>((draw >= kA && draw < kAB) || draw >= kABC);
      }
      list.edges[i] = {scramble(from), scramble(to)};
    }
  });
  return list;
}

}  // namespace ocm::bfs
