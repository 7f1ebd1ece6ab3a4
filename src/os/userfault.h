// userfaultfd: page faults of one program that another one answers, in a memfd that both map.
//
//   program: Userfault::make, watch --descriptor--> daemon: Userfault::take, next, resolve, protect
//
// A thread that touches a page of a watched range which is not mapped yet, or stores to one that is protected, waits until
// who has the descriptor resolves that. Constants of newer kernels than the headers' are here.
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/status.h"
#include "os/fd.h"

namespace ocm::os {

class Userfault {
 public:
  Userfault() = default;

  // ---- the program
  /// Accesses of the kernel on the program's behalf, such as read(2) into the range, wait as the program's own do if it may
  /// ask for that (/dev/userfaultfd can be opened, or CAP_SYS_PTRACE); else they fail with EFAULT where a page is not mapped.
  /// Errors: kUnsupported (a kernel older than 5.19, or one that forbids it), kNoFds.
  static Result<Userfault> make();
  /// Faults in [address, address + bytes) wait from now on: a mapping of a memfd, shared if the program may store, else
  /// private, for the kernel watches no shared one of a file that was opened for reading. Errors: kUnsupported.
  Status watch(uint64_t address, uint64_t bytes, bool may_store) const;
  /// For the kernel's accesses, too.
  bool of_kernel() const { return of_kernel_; }

  // ---- the daemon
  /// A descriptor that came from a program. Errors: kInvalidArgument (it is none of these).
  static Result<Userfault> take(Fd fd);
  struct Fault {
    uint64_t address = 0;  // of the byte's system page
    bool writes = false;
  };
  /// The next one, if there is one; it does not wait. Errors: kPeerLost (the program is gone).
  Result<std::optional<Fault>> next() const;
  /// Pages that the memfd has are mapped there, and who waits for them goes on. A page that it has not got any more is left:
  /// its next access is a fault again. Whole system pages.
  void resolve(uint64_t address, uint64_t bytes, bool writable) const;
  /// No store of the program reaches these pages from now on before resolve().
  void protect(uint64_t address, uint64_t bytes) const;

  // ---- both
  /// Who waits there looks again.
  void wake(uint64_t address, uint64_t bytes) const;
  /// A page of a shared mapping can be such that it is loaded and not stored to (Linux 6.4): else resolve() there is always
  /// writable. In a private one no store reaches the memfd.
  bool can_protect() const { return can_protect_; }
  /// The daemon's: as the program says.
  void set_can_protect(bool can) { can_protect_ = can; }
  int fd() const { return fd_.get(); }

 private:
  explicit Userfault(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
  bool of_kernel_ = false, can_protect_ = false;
};

}  // namespace ocm::os
