// The same in C++20: owners that free what they hold, spans, and results that are checked or thrown.
//   c++ -std=c++20 hello.cpp -loncilla && ./a.out
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <oncilla/oncilla.hpp>
#include <span>
#include <vector>

int main() try {
  // The local daemon; without one, this program is a node by itself.
  ocm::SessionOptions options;
  options.flags = OCM_SESSION_EMBEDDED_FALLBACK;
  ocm::Session session = ocm::Session::open(options).value();  // value() throws ocm::Exception

  std::vector<double> numbers(1 << 20);
  std::iota(numbers.begin(), numbers.end(), 0.0);
  const auto bytes = std::as_bytes(std::span(numbers));

  // Memory in the cluster, in chunks over every node with room. It is given back at the end of its scope.
  ocm::AllocationOptions striped;
  striped.layout = OCM_LAYOUT_STRIPED;
  ocm::Allocation table = session.allocate(bytes.size(), striped).value();
  table.put(0, bytes).check();

  // One row in, without a buffer of bytes; the errors of a result are values too.
  table.store(8 * 1000, -1.0).check();
  if (ocm::Done past_the_end = table.store(bytes.size(), 0.0); !past_the_end)
    std::printf("as it should be: %s\n", past_the_end.error().message().c_str());

  // Two gets at once, each into its half; waiting for one moves both on.
  std::vector<double> back(numbers.size());
  const auto halves = std::as_writable_bytes(std::span(back));
  const size_t half = halves.size() / 2;
  ocm::Op first = table.get_start(0, halves.first(half)).value();
  ocm::Op second = table.get_start(half, halves.last(half)).value();
  first.wait().check();
  second.wait().check();

  numbers[1000] = -1.0;
  const bool same = std::ranges::equal(numbers, back);
  std::printf("%zu numbers there and back: %s\n", numbers.size(), same ? "the same" : "different");
  return same ? 0 : 1;
} catch (const ocm::Exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
