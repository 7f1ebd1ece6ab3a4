// One fuzz target: an entry point and the inputs to begin with. With clang and OCM_FUZZ=ON libFuzzer drives
// it; otherwise replay.cpp does, with the seeds, the corpus and random mutations of both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ocm::fuzz {

/// Well-formed inputs and near misses.
std::vector<std::string> seeds();

/// What a target has to tell of the inputs that it was given, if anything: `--tell` prints it after the
/// seeds.
inline std::string (*tell)() = nullptr;

inline std::span<const std::byte> bytes_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

}  // namespace ocm::fuzz
