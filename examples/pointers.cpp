// Memory larger than memory: a sort through plain pointers, in an allocation on a device of the cluster.
//   c++ -std=c++20 pointers.cpp -loncilla && ./a.out 1GiB
// A node must offer storage ([offer.nvme] in oncillad.toml); its daemon, and the one here, cache pages of it ([cache]).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <oncilla/oncilla.hpp>
#include <span>

namespace {

/// "64MiB"
uint64_t bytes_in(const char* text) {
  char* unit = nullptr;
  const double value = std::strtod(text, &unit);
  const uint64_t scale = std::strcmp(unit, "GiB") == 0   ? 1u << 30
                         : std::strcmp(unit, "MiB") == 0 ? 1u << 20
                                                         : 1;
  return static_cast<uint64_t>(value) * scale / sizeof(uint64_t) * sizeof(uint64_t);
}

}  // namespace

int main(int count, char** arguments) try {
  ocm::SessionOptions options;
  options.flags = OCM_SESSION_EMBEDDED_FALLBACK;
  ocm::Session session = ocm::Session::open(options).value();

  ocm::AllocationOptions on_a_device;
  on_a_device.kind = OCM_KIND_NVME;
  const uint64_t bytes = bytes_in(count > 1 ? arguments[1] : "64MiB");
  auto made = session.allocate(bytes, on_a_device);
  if (!made) {
    std::printf("this needs a node that offers storage: %s\n", made.error().message().c_str());
    return 77;  // skipped
  }
  ocm::Allocation array = std::move(made).value();

  // All of it, whatever fits into memory: pages come when they are touched, and go when others need their room. Programs
  // on other nodes that attach it see each store at once.
  const std::span<std::byte> mapped = array.bytes(0, bytes).value();
  const std::span<uint64_t> words(reinterpret_cast<uint64_t*>(mapped.data()), bytes / sizeof(uint64_t));

  uint64_t next = 1, sum = 0;
  for (uint64_t& word : words) {
    next = next * 6364136223846793005u + 1442695040888963407u;
    word = next >> 16;
    sum += word;
  }
  std::ranges::sort(words);
  for (const uint64_t word : words) sum -= word;

  // put, get and atomics see the same bytes.
  const uint64_t smallest = array.load<uint64_t>(0).value();
  const bool right = std::ranges::is_sorted(words) && sum == 0 && smallest == words.front();
  std::printf("%zu numbers sorted where they lie: %s\n", words.size(), right ? "right" : "wrong");
  return right ? 0 : 1;
} catch (const ocm::Exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
