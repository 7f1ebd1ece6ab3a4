#include "memory/dram/ready_files.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "os/clock.h"

namespace ocm::memory {
namespace {

constexpr uint64_t kPageBytes = 4096;              // or a part of one
constexpr uint64_t kStepBytes = 256 * 1024;        // taken at once: the thread looks around in between
constexpr uint64_t kUnmappedBytes = 64 * 1024;     // at once
constexpr uint64_t kLookBytes = 16 * 1024 * 1024;  // how much memory there is, is asked again after so many
constexpr uint64_t kMachineShare = 8;              // short: less than one in so many bytes is available

/// Step by step, too: to unmap keeps others from mapping.
void unmap(const os::Mapping& mapping) {
  for (uint64_t at = 0; at < mapping.bytes(); at += kUnmappedBytes) {
    (void)::madvise(mapping.data() + at, std::min(kUnmappedBytes, mapping.bytes() - at), MADV_DONTNEED);
  }
}

}  // namespace

ReadyFiles::ReadyFiles(Options options) : options_(std::move(options)) {
  OCM_DASSERT(options_.most_bytes == 0 || (options_.make && options_.memory));
}

ReadyFiles::~ReadyFiles() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    work_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

ReadyFiles::File ReadyFiles::take(uint64_t bytes) {
  // The thread that makes them may be kept from the processor while it holds the lock: then there is none.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return {};
  const auto found =
      std::find_if(ready_.begin(), ready_.end(), [&](const Ready& one) { return one.bytes() == bytes; });
  if (found == ready_.end()) return {};
  File file = std::move(found->file);
  ready_.erase(found);
  ready_bytes_ -= bytes;
  OCM_DASSERT(file.fd.is_open() && file.mapping.is_mapped());
  return file;
}

void ReadyFiles::want(uint64_t bytes) {
  if (bytes < kLeastBytes || bytes > options_.most_bytes) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || ends_) return;
  const uint64_t now_ns = os::now_ns();
  const auto before =
      std::find_if(used_.begin(), used_.end(), [&](const auto& one) { return one.first == bytes; });
  const bool is_used_again = before != used_.end() && now_ns - before->second <= options_.keep_ns;
  if (before != used_.end()) used_.erase(before);
  used_.emplace_back(bytes, now_ns);
  if (used_.size() > kFilesMax) used_.pop_front();
  if (!is_used_again || !may_hold(bytes) || ready_.size() + wanted_.size() >= kFilesMax) return;
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    return;  // no thread is to be had now, and nothing depends on one
  }
  wanted_.push_back(bytes);
  work_.notify_one();
}

void ReadyFiles::keep_within(uint64_t free_bytes) {
  free_bytes_.store(free_bytes, std::memory_order_relaxed);
  if (has_too_many()) work_.notify_one();  // or it looks within a second
}

bool ReadyFiles::give_back() {
  std::deque<Ready> closed;  // after the lock
  const std::lock_guard lock(mutex_);
  closed.swap(ready_);
  for (const Ready& one : closed) ready_bytes_ -= one.bytes();
  return !closed.empty();
}

bool ReadyFiles::may_hold(uint64_t bytes) const {
  const uint64_t most = std::min(options_.most_bytes, free_bytes_.load(std::memory_order_relaxed));
  const uint64_t held = held_bytes();
  return held <= most && bytes <= most - held;
}

bool ReadyFiles::is_short_of(uint64_t bytes) const {
  const os::MachineMemory memory = options_.memory();
  return memory.available < bytes || memory.available - bytes < memory.total / kMachineShare;
}

std::deque<ReadyFiles::Ready> ReadyFiles::surplus_locked(bool is_short) {
  std::deque<Ready> out;
  const uint64_t now_ns = os::now_ns();
  const auto has_surplus = [&] {
    return is_short || has_too_many() || now_ns - ready_.front().since_ns >= options_.keep_ns;
  };
  while (!ready_.empty() && has_surplus()) {
    ready_bytes_ -= ready_.front().bytes();
    out.push_back(std::move(ready_.front()));
    ready_.pop_front();
  }
  return out;
}

ReadyFiles::File ReadyFiles::populated(uint64_t bytes) {
  Result<os::Fd> made = options_.make(bytes);
  if (!made.is_ok()) return {};
  Result<os::Mapping> mapping = os::Mapping::map(made->get(), bytes, true);
  if (!mapping.is_ok()) return {};
  for (uint64_t at = 0; at < bytes; at += kStepBytes) {
    if (at % kLookBytes == 0 && is_short_of(std::min(kLookBytes, bytes - at))) return {};
    const uint64_t end = at + std::min(kStepBytes, bytes - at), begun_ns = os::now_ns();
    const auto step = static_cast<off_t>(end - at);
    if (ends_ || has_too_many() || ::fallocate(made->get(), 0, static_cast<off_t>(at), step) != 0) return {};
    // One by one: madvise() would keep others from mapping anything meanwhile.
    for (uint64_t page = at; page < end; page += kPageBytes) {
      *reinterpret_cast<volatile char*>(mapping->data() + page) = 0;
    }
    // A lower priority instead would have this thread hold the address space's lock while it waits for the processor.
    std::this_thread::sleep_for(std::chrono::nanoseconds(os::now_ns() - begun_ns));
  }
  return {std::move(*made), std::move(*mapping)};
}

void ReadyFiles::run() {
  uint64_t look_ns = 0;  // when to ask how much memory there is
  std::unique_lock lock(mutex_);
  while (!ends_) {
    bool is_short = false;
    if (!ready_.empty() && os::now_ns() >= look_ns) {
      lock.unlock();
      is_short = is_short_of(0);
      look_ns = os::now_ns() + options_.look_ns;
      lock.lock();
    }
    if (auto closed = surplus_locked(is_short); !closed.empty()) {
      lock.unlock();
      for (const Ready& one : closed) unmap(one.file.mapping);
      closed.clear();
      lock.lock();
    } else if (!wanted_.empty()) {
      const uint64_t bytes = wanted_.front();
      wanted_.pop_front();
      if (!may_hold(bytes)) continue;
      populating_bytes_ = bytes;
      lock.unlock();
      File file = populated(bytes);
      lock.lock();
      if (file.fd.is_open()) {
        ready_.push_back({std::move(file), os::now_ns()});
        ready_bytes_ += bytes;
      }
      populating_bytes_ = 0;
    } else {
      const auto has_work = [&] { return ends_ || !wanted_.empty() || has_too_many(); };
      if (ready_.empty()) {
        work_.wait(lock, has_work);
      } else {
        work_.wait_for(lock, std::chrono::nanoseconds(options_.look_ns), has_work);
      }
    }
  }
}

bool ReadyFiles::is_valid() const {
  const std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const Ready& one : ready_) {
    if (!one.file.fd.is_open() || one.bytes() < kLeastBytes) return false;
    sum += one.bytes();
  }
  const bool in_order = std::is_sorted(
      ready_.begin(), ready_.end(), [](const Ready& a, const Ready& b) { return a.since_ns < b.since_ns; });
  return sum == ready_bytes() && held_bytes() <= options_.most_bytes && in_order &&
         ready_.size() <= kFilesMax;  // R1
}

}  // namespace ocm::memory
