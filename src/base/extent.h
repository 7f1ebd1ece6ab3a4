// What opens an extent: its id, where it lives, how to get there and the secret that proves the right to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fabrics.h"
#include "base/ids.h"
#include "base/kinds.h"

namespace ocm {

/// How to reach a node's extents over one fabric. Only the fabric reads the rest.
struct FabricAddress {
  Fabric fabric = Fabric::kAny;
  std::string address;  // of the node, as its server says it
  std::string key;      // of the extent, where one needs it
};

/// What a home gives out so that an extent can be opened.
struct ExtentDescriptor {
  ExtentId id;
  uint64_t bytes = 0;
  Capability capability;
  std::string node;
  Kind kind = kDefaultKind;
  std::vector<FabricAddress> addresses;
  uint32_t slot = 0;      // in the home's generation table
  bool unmapped = false;  // it has no file that they map: programs of its node reach it over the network, too
  /// Of the own daemon of a program, if that caches it: kAny: it does not.
  FabricAddress cached;

  const FabricAddress* address_for(Fabric fabric) const {
    for (const FabricAddress& a : addresses) {
      if (a.fabric == fabric) return &a;
    }
    return nullptr;
  }
};

}  // namespace ocm
