// Of a libFuzzer program:   TARGET --write-seeds DIR    writes its seeds as a corpus, and ends.
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc != 3 || std::strcmp((*argv)[1], "--write-seeds") != 0) return 0;
  size_t number = 0;
  for (const std::string& seed : ocm::fuzz::seeds()) {
    std::ofstream(std::string((*argv)[2]) + "/seed" + std::to_string(number++), std::ios::binary) << seed;
  }
  std::exit(0);
}
