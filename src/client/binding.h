// Which extents hold the bytes of an allocation at one moment.
//
//   [A B] --A is lost, the cluster makes the part again (control/remake.h)--> [B' C]
//
// The cluster keeps the number of places; a place that nobody took keeps its lost extent.
//
// Invariants
//   B1 a binding never changes; only its extents learn that they are lost.
//   B2 an operation uses one binding for each end, from its start until it ends or starts over: a put to B' of one
//      and A of another would miss C.
//   B3 the places of one part come from one answer of the daemon, and never from an older one than they did.
//   B4 bindings end with the grant: operations may be in any. Extents too, or with what it is joined into: pointers
//      of the program may be in any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "client/extent.h"

namespace ocm::client {

class Binding {
 public:
  struct Place {
    Extent* extent = nullptr;
    uint32_t epoch = 0;  // of its part: how often it went on elsewhere
  };
  explicit Binding(std::vector<Place> places) : places_(std::move(places)) { OCM_DASSERT(is_valid()); }

  Extent& operator[](uint32_t index) const {
    OCM_DASSERT(index < places_.size());
    return *places_[index].extent;
  }
  /// Each place has an extent. Cost: the places.
  bool is_valid() const {
    return !places_.empty() && std::all_of(places_.begin(), places_.end(),
                                           [](const Place& place) { return place.extent != nullptr; });
  }
  const std::vector<Place>& places() const { return places_; }

 private:
  const std::vector<Place> places_;
};

}  // namespace ocm::client
