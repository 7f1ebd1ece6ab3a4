// Edges that can be read where they are: plain arrays, or cluster memory on this host.
//
// What Search needs of a source of edges (see also ClusterEdges):
//   local()    the LocalPart, or what has its members
//   stream(worker, next, each): calls next(v) until it is false, and each(v, neighbours, count) with the rest of every v that
//              it gave, in that order, in one piece or several; all in the calling thread. `neighbours` has * and ++.
//              Done: error.
#pragma once

#include <oncilla/oncilla.hpp>

#include "bfs/split.h"

namespace ocm::bfs {

template <class Local = LocalPart>
class ArrayEdges {
 public:
  /// Both must outlive this. Shapes: rest[0, local.rest_edges()).
  ArrayEdges(const Local& local, const uint32_t* rest) : local_(local), rest_(rest) {}

  const Local& local() const { return local_; }

  template <class Next, class Each>
  Done stream(unsigned, Next&& next, Each&& each) {
    uint32_t v = 0;
    while (next(v)) each(v, rest_ + local_.offsets[v], local_.rest_degree(v));
    return {};
  }

 private:
  const Local& local_;
  const uint32_t* rest_;
};

}  // namespace ocm::bfs
