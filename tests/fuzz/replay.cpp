// Drives a fuzz target without libFuzzer:
//   TARGET --mutations N CORPUS its seeds, the files in the folder, and N mutations of both, the same every
//   time TARGET FILE...              these inputs (a crash that libFuzzer found) TARGET --write-seeds DIR
//   writes the seeds as a corpus for libFuzzer TARGET --tell               its seeds, and what the target has
//   to tell of them
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
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

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> read_folder(const char* folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code none;  // a target without a corpus
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (const auto& path : paths) out.push_back(read(path));
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> inputs = ocm::fuzz::seeds();
  if (argc == 3 && std::strcmp(argv[1], "--write-seeds") == 0) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::ofstream(std::string(argv[2]) + "/seed" + std::to_string(i), std::ios::binary) << inputs[i];
    }
    return 0;
  }
  if (argc == 2 && std::strcmp(argv[1], "--tell") == 0) {
    for (const std::string& input : inputs) run(input);
    std::fputs(ocm::fuzz::tell == nullptr ? "" : ocm::fuzz::tell().c_str(), stdout);
    return 0;
  }
  if (argc != 4 || std::strcmp(argv[1], "--mutations") != 0) {
    for (int i = 1; i < argc; ++i) run(read(argv[i]));
    return 0;
  }
  const uint64_t mutations = std::strtoull(argv[2], nullptr, 10);
  for (std::string& input : read_folder(argv[3])) inputs.push_back(std::move(input));
  for (const std::string& input : inputs) run(input);
  std::mt19937_64 random(1);
  for (uint64_t i = 0; i < mutations; ++i) run(mutate(inputs[random() % inputs.size()], inputs, random));
  std::printf("%zu inputs, %llu mutations\n", inputs.size(), static_cast<unsigned long long>(mutations));
  return 0;
}
