#include "fabric/served.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace ocm::fabric {
namespace {

// Programs of the host and the home apply atomics to the same words: neither may take a lock of its process.
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              sizeof(std::atomic<uint64_t>) == sizeof(uint64_t));

[[maybe_unused]] bool is_word(const std::byte* word) {
  return word != nullptr && reinterpret_cast<uintptr_t>(word) % sizeof(uint64_t) == 0;
}

}  // namespace

uint64_t apply_atomic(OpCode opcode, std::byte* word, uint64_t operand, uint64_t expected) {
  OCM_DASSERT(is_word(word) && is_atomic(opcode));
  auto* p = reinterpret_cast<uint64_t*>(word);
  switch (opcode) {
    case OpCode::kFetchAdd: return __atomic_fetch_add(p, operand, __ATOMIC_SEQ_CST);
    case OpCode::kSwap: return __atomic_exchange_n(p, operand, __ATOMIC_SEQ_CST);
    case OpCode::kAnd: return __atomic_fetch_and(p, operand, __ATOMIC_SEQ_CST);
    case OpCode::kOr: return __atomic_fetch_or(p, operand, __ATOMIC_SEQ_CST);
    case OpCode::kXor: return __atomic_fetch_xor(p, operand, __ATOMIC_SEQ_CST);
    case OpCode::kCompareSwap:
      __atomic_compare_exchange_n(p, &expected, operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
      return expected;  // the old value either way
    default: break;
  }
  OCM_ASSERT(!"not an atomic");
  return 0;
}

void apply_notify(std::byte* word, uint64_t value) {
  OCM_DASSERT(is_word(word));
  __atomic_fetch_add(reinterpret_cast<uint64_t*>(word), value, __ATOMIC_SEQ_CST);
  ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void wait_for_notify(const std::byte* word, uint64_t seen, os::Deadline deadline) {
  OCM_DASSERT(is_word(word));
  // Little endian: the futex word is the low half. A change of the high half alone is caught by the cap.
  constexpr uint64_t kCapNs = 10'000'000;
  const uint64_t left = deadline.left_ns() < kCapNs ? deadline.left_ns() : kCapNs;
  timespec timeout{0, static_cast<long>(left)};
  ::syscall(SYS_futex, word, FUTEX_WAIT, static_cast<uint32_t>(seen), &timeout, nullptr, 0);
}

}  // namespace ocm::fabric
