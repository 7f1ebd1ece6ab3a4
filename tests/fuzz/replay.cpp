// Drives a fuzz target without libFuzzer:
//   TARGET                      its seeds and 20,000 mutations of them, the same every time
//   TARGET --mutations N        N of them
//   TARGET FILE...              these inputs (a crash that libFuzzer found)
//   TARGET --write-seeds DIR    writes the seeds as a corpus for libFuzzer
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "fuzz.h"

namespace {

void run(const std::string& input) {
  // A copy of its own length, so that a sanitizer sees a read past the end.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::string mutate(std::string text, const std::vector<std::string>& seeds, std::mt19937_64& random) {
  for (uint64_t rounds = 1 + random() % 4; rounds > 0; --rounds) {
    const size_t at = text.empty() ? 0 : random() % text.size();
    switch (random() % 7) {
      case 0:
        if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
        break;
      case 1:
        if (!text.empty()) text[at] = static_cast<char>(random());
        break;
      case 2: text.insert(at, 1 + random() % 8, static_cast<char>(random())); break;
      case 3: text.erase(at, 1 + random() % 16); break;
      case 4: text.resize(at); break;
      case 5: {
        const std::string& other = seeds[random() % seeds.size()];
        text.insert(at, other.substr(other.empty() ? 0 : random() % other.size()));
        break;
      }
      default: {  // a number at its limits
        const uint64_t values[] = {0,          1,          ~0ull,      1ull << 31,
                                   1ull << 32, 1ull << 63, 0x7FFFFFFF, (8u << 20) + 1};
        const uint64_t value = values[random() % std::size(values)];
        if (text.size() >= 8) std::memcpy(text.data() + random() % (text.size() - 7), &value, 8);
        break;
      }
    }
  }
  if (text.size() > 1u << 16) text.resize(1u << 16);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> seeds = ocm::fuzz::seeds();
  uint64_t mutations = 20'000;
  if (argc == 3 && std::strcmp(argv[1], "--write-seeds") == 0) {
    for (size_t i = 0; i < seeds.size(); ++i) {
      std::ofstream(std::string(argv[2]) + "/seed" + std::to_string(i), std::ios::binary) << seeds[i];
    }
    return 0;
  }
  if (argc == 3 && std::strcmp(argv[1], "--mutations") == 0) {
    mutations = std::strtoull(argv[2], nullptr, 10);
  } else if (argc > 1) {
    for (int i = 1; i < argc; ++i) {
      std::ifstream file(argv[i], std::ios::binary);
      run({std::istreambuf_iterator<char>(file), {}});
    }
    return 0;
  }
  for (const std::string& seed : seeds) run(seed);
  std::mt19937_64 random(1);
  for (uint64_t i = 0; i < mutations; ++i) run(mutate(seeds[random() % seeds.size()], seeds, random));
  std::printf("%zu seeds, %llu mutations\n", seeds.size(), static_cast<unsigned long long>(mutations));
  return 0;
}
