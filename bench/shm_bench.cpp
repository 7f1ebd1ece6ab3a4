// put, get and slab allocation on this host through the C interface, beside memcpy by one and two threads.
#include <benchmark/benchmark.h>
#include <oncilla/oncilla.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

ocm_session* open_session() {
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  options.flags = std::getenv("OCM_SOCKET") != nullptr ? 0 : OCM_SESSION_EMBEDDED;
  ocm_session* session = nullptr;
  if (ocm_session_open(&options, &session) != OCM_OK) {
    std::fprintf(stderr, "%s\n", ocm_last_error());
    std::exit(1);
  }
  return session;
}
ocm_session* session() {
  static ocm_session* const one = open_session();
  return one;
}

/// Private memory that is there already.
char* buffer(size_t bytes) {
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  std::memset(memory, 1, bytes);
  return static_cast<char*>(memory);
}
/// The same kind of memory as an extent has.
char* shared_buffer(size_t bytes) {
  const int fd = ::memfd_create("bench", MFD_CLOEXEC);
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) std::exit(1);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  ::close(fd);
  std::memset(memory, 1, bytes);
  return static_cast<char*>(memory);
}

ocm_allocation* filled(size_t bytes) {
  ocm_allocation* allocation = nullptr;
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.flags = OCM_ALLOCATION_DEDICATED;
  if (ocm_allocation_create(session(), bytes, &options, &allocation) != OCM_OK) std::exit(1);
  char* zeros = buffer(bytes);
  (void)ocm_put(allocation, 0, zeros, bytes);
  ::munmap(zeros, bytes);
  return allocation;
}

void put(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  ocm_allocation* allocation = filled(bytes);
  char* local = buffer(bytes);
  for (auto _ : state) benchmark::DoNotOptimize(ocm_put(allocation, 0, local, bytes));
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
  ::munmap(local, bytes);
  (void)ocm_allocation_free(allocation);
}
void get(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  ocm_allocation* allocation = filled(bytes);
  char* local = buffer(bytes);
  for (auto _ : state) benchmark::DoNotOptimize(ocm_get(allocation, 0, local, bytes));
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
  ::munmap(local, bytes);
  (void)ocm_allocation_free(allocation);
}
void memcpy_one(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  char* local = buffer(bytes);
  char* shared = shared_buffer(bytes);
  for (auto _ : state) {
    std::memcpy(shared, local, bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
  ::munmap(local, bytes);
  ::munmap(shared, bytes);
}
/// Two halves by two threads that are there already and spin.
void memcpy_two(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  char* local = buffer(bytes);
  char* shared = shared_buffer(bytes);
  std::atomic<uint64_t> round{0}, finished{0};
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (uint64_t seen = 0;;) {
      while (round.load(std::memory_order_acquire) == seen) {
        if (stop.load(std::memory_order_relaxed)) return;
      }
      ++seen;
      std::memcpy(shared + bytes / 2, local + bytes / 2, bytes - bytes / 2);
      finished.store(seen, std::memory_order_release);
    }
  });
  uint64_t rounds = 0;
  for (auto _ : state) {
    round.store(++rounds, std::memory_order_release);
    std::memcpy(shared, local, bytes / 2);
    while (finished.load(std::memory_order_acquire) != rounds) {
    }
  }
  stop.store(true);
  other.join();
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
  ::munmap(local, bytes);
  ::munmap(shared, bytes);
}

void slab_allocate_and_free(benchmark::State& state) {
  const auto bytes = static_cast<uint64_t>(state.range(0));
  for (auto _ : state) {
    ocm_allocation* allocation = nullptr;
    if (ocm_allocation_create(session(), bytes, nullptr, &allocation) != OCM_OK) std::abort();
    if (ocm_allocation_free(allocation) != OCM_OK) std::abort();
  }
}
/// Thousands at once, so that slabs come and go.
void slab_allocate_many(benchmark::State& state) {
  constexpr int kCount = 4000;
  ocm_allocation* all[kCount];
  for (auto _ : state) {
    for (auto& one : all) {
      if (ocm_allocation_create(session(), 200, nullptr, &one) != OCM_OK) std::abort();
    }
    for (auto& one : all) {
      if (ocm_allocation_free(one) != OCM_OK) std::abort();
    }
  }
  state.SetItemsProcessed(kCount * state.iterations());
}
void extent_allocate_and_free(benchmark::State& state) {
  for (auto _ : state) {
    ocm_allocation* allocation = nullptr;
    if (ocm_allocation_create(session(), 1 << 20, nullptr, &allocation) != OCM_OK) std::abort();
    if (ocm_allocation_free(allocation) != OCM_OK) std::abort();
  }
}
void atomic_fetch_add(benchmark::State& state) {
  ocm_allocation* allocation = filled(4096);
  for (auto _ : state) benchmark::DoNotOptimize(ocm_atomic_fetch_add(allocation, 0, 1, nullptr));
  (void)ocm_allocation_free(allocation);
}

#define SIZES \
  ->Arg(64)->Arg(4096)->Arg(64 << 10)->Arg(1 << 20)->Arg(4 << 20)->Arg(16 << 20)->Arg(64 << 20)->UseRealTime()
BENCHMARK(memcpy_one) SIZES;
BENCHMARK(memcpy_two)->Arg(1 << 20)->Arg(4 << 20)->Arg(16 << 20)->Arg(64 << 20)->UseRealTime();
BENCHMARK(put) SIZES;
BENCHMARK(get) SIZES;
BENCHMARK(slab_allocate_and_free)->Arg(64)->Arg(32 << 10)->UseRealTime();
BENCHMARK(slab_allocate_many)->UseRealTime();
BENCHMARK(extent_allocate_and_free)->UseRealTime();
BENCHMARK(atomic_fetch_add)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
