// What a program and its daemon say about pages that the program maps, over a socket of their own (SOCK_SEQPACKET): one of
// the structs below in each packet. The program speaks once, with the descriptor of its userfaultfd. Whoever closes it ends
// the mapping.
#pragma once

#include <cstdint>

namespace ocm::wire {

/// Program -> daemon: it mapped the whole shadow at `address`, and watches it with the descriptor that comes along.
struct MappedAt {
  static constexpr uint32_t kMagic = 0x70616D6F;  // "omap"
  static constexpr uint32_t kCanProtect = 1;      // os/userfault.h
  uint32_t magic = kMagic;
  uint32_t flags = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
};

/// Daemon -> program.
struct MappedNews {
  enum class Kind : uint32_t {
    kServed,  // the answer to MappedAt, with its code
    kDead,    // the bytes cannot be had, for `code`: who touches them gets SIGBUS
  };
  Kind kind = Kind::kServed;
  int32_t code = 0;
  uint64_t offset = 0, bytes = 0;
};

static_assert(sizeof(MappedAt) == 24 && sizeof(MappedNews) == 24);

}  // namespace ocm::wire
