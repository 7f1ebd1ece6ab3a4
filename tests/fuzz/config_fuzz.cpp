// node/config: a daemon's TOML file.
#include "fuzz.h"
#include "node/config.h"

using namespace ocm;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  node::Config config;
  if (node::parse_config({reinterpret_cast<const char*>(data), size}, "fuzz.toml", config).is_ok()) {
    (void)config.check();
  }
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  return {"",
          "[node]\nname = \"a\"\nrun_dir = \"/tmp/x\"\n",
          "[cluster]\ncoordinator = \"10.0.0.1:7600\"\nheartbeat_ms = 500\nfailure_deadline_ms = 3000\n",
          "[offer.dram]\nbytes = \"1.5 GiB\"\nhugepages = true\nnuma_node = 0\n",
          "[limits]\nsessions = 1\nextents = 18446744073709551615\n[limits.user_bytes]\n1000 = \"4GiB\"\n",
          "[security]\ntoken_file = \"/etc/token\"\n",
          "[log]\nlevel = \"debug\"\nformat = \"json\"\n",
          "[tcp]\nthreads = -1\nspin_us = 1e3\n",
          "name = [ \u00e9 ]\nx = \"\"\"\u00e9\"\"\"\"\"\nz = '\u00e9'\n",
          "a = [[[[[[[[[[1]]]]]]]]]]\n",
          "[node\nname = 'x"};
}
