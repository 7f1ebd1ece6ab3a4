// Where programs of this node see the pages of one extent: a sparse memfd that has each page at its own offset, while they
// may use it. Whoever takes a page out of it takes it from all programs, whatever they do: that is the kernel's hole.
//
//   cache's frame --enter--> shadow, which programs map --move_out--> frame
//
// Invariants
//   U1 a page is in the frame or in the shadow. What somebody planted in a hole is overwritten before a page is there.
//   U2 a page that moves out is stored to by nobody (viewer.h), and its frame stays until it has.
//   U3 one that was given up is used by nobody any more: its kernel file is held up by somebody.
// Threads: one at a time, but for the one that moves out: a program that may write can hold up the kernel's work on the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/status.h"
#include "os/fd.h"
#include "os/memory.h"

namespace ocm::cache {

class Shadow {
 public:
  /// `moved` is called by a thread of the shadow's when a page has moved out. Errors: kNoMemory, kNoFds.
  static Result<std::shared_ptr<Shadow>> make(uint64_t page_bytes, uint32_t pages,
                                              std::function<void(uint32_t page)> moved);
  /// No page moves; what is in it is gone.
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  uint64_t bytes() const { return mapping_.bytes(); }
  /// U1. Threads: any. It waits for as long as a program that may write works on the file there.
  void enter(uint32_t page, const std::byte* bytes);
  /// Of a page that is in it. It waits for nobody.
  void read(uint32_t page, uint64_t offset, std::span<std::byte> into) const;
  /// For a program to map. Errors: kNoFds.
  Result<os::Fd> share(bool writable) const;
  /// U2. `moved` follows. The move's number, from 1 on.
  uint64_t move_out(uint32_t page, std::byte* to);
  /// U3: no page moves out any more, and `moved` is called at most for what had moved before. The last move whose bytes
  /// have been copied.
  uint64_t give_up();

 private:
  class Mover;
  Shadow(uint64_t page_bytes, os::Mapping mapping, std::shared_ptr<os::Fd> file, std::shared_ptr<Mover> mover)
      : page_bytes_(page_bytes),
        mapping_(std::move(mapping)),
        file_(std::move(file)),
        mover_(std::move(mover)) {}

  const uint64_t page_bytes_;
  const os::Mapping mapping_;
  const std::shared_ptr<os::Fd> file_;
  const std::shared_ptr<Mover> mover_;
};

}  // namespace ocm::cache
