// The configuration: keys, lines of errors, and what refuses to start.
#include "node/config.h"

#include <gtest/gtest.h>

#include "fabric/registry/registry.h"

namespace ocm::node {
namespace {

Status parse(const std::string& text, Config& config) { return parse_config(text, "t.toml", config); }

TEST(Config, DefaultsAreGood) { EXPECT_TRUE(Config{}.check().is_ok()); }

TEST(Config, ReadsEverySection) {
  Config c;
  const Status status = parse(R"([node]
name = "a"
run_dir = "/tmp/x"
[cluster]
heartbeat_ms = 100
failure_deadline_ms = 600
[offer.dram]
bytes = "2 GiB"
hugepages = true
numa_node = 0
[limits]
user_bytes = "1MiB"
user_bytes_by_uid = { 1000 = "4 KiB", 0 = 5 }
[tcp]
lanes = 2
[ucx]
enabled = true
[log]
level = "warn"
format = "json"
)",
                              c);
  ASSERT_TRUE(status.is_ok()) << status.to_string();
  EXPECT_EQ(c.name, "a");
  EXPECT_EQ(c.offered_bytes(Kind::kDram), 2 * kGiB);
  EXPECT_EQ(c.heartbeat_ms, 100u);
  const memory::Entry& dram = *memory::find_entry(Kind::kDram);
  for (const Setting& setting : dram.settings) {
    const std::map<std::string_view, uint64_t> given = {
        {"bytes", 2 * kGiB}, {"hugepages", 1}, {"numa_node", 0}};
    const auto expected = given.find(setting.key);
    EXPECT_EQ(c.offers.get(Kind::kDram, setting),
              expected == given.end() ? setting.initial : expected->second);
  }
  EXPECT_EQ(c.quota_bytes(1000), 4096u);
  EXPECT_EQ(c.quota_bytes(0), 5u);
  EXPECT_EQ(c.quota_bytes(7), kMiB);
  const fabric::Entry& ucx = *fabric::find_entry(Fabric::kUcx);
  EXPECT_EQ(c.fabrics.get(Fabric::kUcx, *ucx.setting(fabric::kEnabled)), 1u);
  EXPECT_EQ(c.log_level, log::Level::kWarn);
  EXPECT_TRUE(c.check().is_ok());
}

TEST(Config, UnknownKeysAreErrorsWithTheirLine) {
  Config c;
  const Status status = parse("[node]\nname = \"a\"\nnmae = \"b\"\n", c);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("t.toml:3: unknown key node.nmae"), std::string::npos) << status.message();
}

TEST(Config, UnknownSectionsAreErrors) {
  Config c;
  EXPECT_FALSE(parse("[nodes]\nname = \"a\"\n", c).is_ok());
  EXPECT_FALSE(parse("[offer.disk]\nbytes = 1\n", c).is_ok());
  EXPECT_FALSE(parse("node = 5\n", c).is_ok());
}

TEST(Config, WrongTypesNameTheKeyAndLine) {
  Config c;
  const Status status = parse("[cluster]\nheartbeat_ms = \"soon\"\n", c);
  EXPECT_NE(status.message().find("t.toml:2: cluster.heartbeat_ms"), std::string::npos) << status.message();
  EXPECT_FALSE(parse("[cluster]\nheartbeat_ms = -1\n", c).is_ok());
  EXPECT_FALSE(parse("[offer.dram]\nbytes = \"much\"\n", c).is_ok());
}

TEST(Config, MalformedTomlSaysWhere) {
  Config c;
  EXPECT_NE(parse("[node]\nname = \n", c).message().find("t.toml:2"), std::string::npos);
}

TEST(Config, CharactersBeyondAsciiStandInQuotesAndComments) {
  Config c;
  for (const char* good : {
           "# caf\u00e9\n[node]\nname = \"a\"  # \u00e9 \"\n",
           "\xef\xbb\xbf[node]\nrun_dir = \"/\\\"\u00e9\"\n",
           "[node]\nrun_dir = '/\u00e9\\'\n",
           "[node]\nrun_dir = \"\"\"\n/\u00e9\"\"x\\\"\"\"\"\"\n",
           "[node]\nrun_dir = '''/\u00e9''\u00e9'''''\n",
           "[node]\nrun_dir = ''  # \u00e9\n",
       }) {
    const Status status = parse(good, c);
    EXPECT_TRUE(status.is_ok()) << good << status.to_string();
  }
  for (const char* bad : {
           "[node]\nname = \u00e9\n",
           "[node]\nn\u00e9 = 1\n",
           "\n[ \u00e9 ]\n",
           "[node]\nname = 'a'\u00e9\n",
           "[node]\nx = ''''''\u00e9\n",
           "[node]\nx = \"\\\\\"\u00e9\n",
           "[node]\nx = [\"\", \u00e9]\n",
       }) {
    const Status status = parse(bad, c);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << bad;
    EXPECT_TRUE(status.message().starts_with("t.toml:2: ")) << status.message();
    EXPECT_NE(status.message().find("beyond ASCII"), std::string::npos) << status.message();
  }
  for (const char* open : {"\"", "'", "\"\"\"", "'''", "\"\\", "x = '\u00e9", "x = '\u00e9\ny = \u00e9",
                           "x = 1\"\u00e9\"", "x = [1=\"\u00e9\"]"})
    EXPECT_FALSE(parse(open, c).is_ok()) << open;
}

TEST(Config, BeyondLoopbackNeedsAToken) {
  Config c;
  c.control_listen = "10.0.0.1:7600";
  EXPECT_EQ(c.check().code(), Code::kAuth);
  c.token_file = "/some/token";
  EXPECT_TRUE(c.check().is_ok());
}

TEST(Config, TlsNeedsItsFilesAndAToken) {
  Config c;
  c.token_file = "/some/token";
  c.tls_ca = "ca";
  EXPECT_EQ(c.check().code(), Code::kAuth);
  c.tls_cert = "cert";
  c.tls_key = "key";
  EXPECT_TRUE(c.check().is_ok());
  c.tls_client_cert = "program";
  EXPECT_EQ(c.check().code(), Code::kAuth);
  c.tls_client_key = "program's";
  EXPECT_TRUE(c.check().is_ok());
  c.token_file.clear();
  EXPECT_EQ(c.check().code(), Code::kAuth);
}

TEST(Config, ListeningEverywhereNeedsAnAddressForOthers) {
  for (const char* host : {"0.0.0.0", "[::]", "[0:0::0]"}) {
    for (std::string Config::*member : {&Config::control_listen, &Config::data_listen}) {
      Config c;
      c.token_file = "/some/token";
      c.*member = std::string(host) + ":7600";
      EXPECT_EQ(c.check().code(), Code::kInvalidArgument) << host;
      c.advertise = "0.0.0.0";
      EXPECT_EQ(c.check().code(), Code::kInvalidArgument) << host;
      c.advertise = "node-a";
      EXPECT_TRUE(c.check().is_ok()) << host << c.check().to_string();
    }
  }
}

TEST(Config, UsersLimitsTakeEveryUid) {
  Config c;
  EXPECT_TRUE(parse("[limits.user_bytes_by_uid]\n4294967294 = \"1 GiB\"\n", c).is_ok());
  EXPECT_EQ(c.quota_bytes(4294967294u), kGiB);
  EXPECT_FALSE(parse("[limits.user_bytes_by_uid]\n4294967295 = 1\n", c).is_ok());
  EXPECT_FALSE(parse("[limits.user_bytes_by_uid]\n42949672941 = 1\n", c).is_ok());
  EXPECT_TRUE(add_user_limit("1000=2MiB", c).is_ok());
  EXPECT_EQ(c.quota_bytes(1000), 2 * kMiB);
  for (const char* wrong : {"", "=", "1000", "1000=", "=5", "x=5", "-1=5", "1000=much"}) {
    EXPECT_EQ(add_user_limit(wrong, c).code(), Code::kInvalidArgument) << wrong;
  }
}

TEST(Config, KindsThatAreNotInThisBuildAreNamed) {
  Config c;
  for (const KindName& kind : kKinds) {
    const std::string section = std::string("[offer.") + kind.name + "]\nbytes = ";
    EXPECT_TRUE(parse(section + "0\n", c).is_ok()) << kind.name;
    const Status some = parse(section + "4096\n", c);
    EXPECT_EQ(some.code(), kind.built ? Code::kOk : Code::kUnsupported) << kind.name;
    EXPECT_TRUE(kind.built || some.message().find(kind.name) != std::string::npos) << some.message();
  }
}

TEST(Config, AddressesAndRangesAreChecked) {
  Config c;
  c.data_listen = "localhost";
  EXPECT_EQ(c.check().code(), Code::kInvalidArgument);
  c = Config{};
  c.control_listen = "127.0.0.1:70000";
  EXPECT_EQ(c.check().code(), Code::kInvalidArgument);
  c = Config{};
  c.failure_deadline_ms = c.heartbeat_ms;
  EXPECT_EQ(c.check().code(), Code::kInvalidArgument);
  c = Config{};
  c.name = "no spaces";
  EXPECT_EQ(c.check().code(), Code::kInvalidArgument);
}

TEST(Config, SeedsAreAListOfAddressesInsteadOfACoordinator) {
  Config c;
  ASSERT_TRUE(parse("[cluster]\nseeds = [\"127.0.0.1:7600\", \"127.0.0.2:7600\"]", c).is_ok());
  EXPECT_EQ(c.seeds, (std::vector<std::string>{"127.0.0.1:7600", "127.0.0.2:7600"}));
  EXPECT_TRUE(c.check().is_ok());
  const auto refused = [&c](const std::string& word) {
    const Status status = c.check();
    EXPECT_FALSE(status.is_ok());
    EXPECT_NE(status.message().find(word), std::string::npos) << status.to_string();
  };
  c.coordinator = "127.0.0.1:7600";
  refused("both coordinator and seeds");
  c.coordinator.clear();
  c.seeds.push_back("127.0.0.1:7600");
  refused("twice");
  c.seeds = {"10.0.0.1:7600"};
  refused("token_file");
  c.seeds = {"nowhere"};
  refused("[cluster] seeds");
  c.seeds.clear();
  for (int i = 0; i < 17; ++i) c.seeds.push_back("127.0.0.1:" + std::to_string(7600 + i));
  refused("how many");
  for (const char* wrong : {"seeds = \"127.0.0.1:7600\"", "seeds = [7600]"}) {
    EXPECT_NE(parse(std::string("[cluster]\n") + wrong, c).message().find("a list of strings"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace ocm::node
