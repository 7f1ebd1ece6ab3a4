// Our tcp fabric beside the raw loop of tcp_raw.c, alternating in one run: JSON lines with both and the
// ratio.
//
// The server runs in a forked process over an anonymous mapping, as a daemon would; the client spins with
// the library's own wait loop. Options: --quick, --window BYTES, --frame BYTES, --only NAME.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "fabric/served.h"
#include "fabric/tcp/connector.h"
#include "fabric/tcp/server.h"
#include "fabric/wait.h"
#include "os/crypto.h"
#include "tcp_raw.h"

namespace {

using namespace ocm;
using namespace ocm::fabric;

constexpr uint64_t kMemoryBytes = uint64_t{64} << 20;
constexpr uint64_t kStallNs = 10'000'000'000;

class OneExtent : public ExtentDirectory {
 public:
  OneExtent(std::byte* data, const Capability& capability) : extent_(std::make_shared<ServedExtent>()) {
    extent_->id = {GlobalAddress(1, 4096), 1};
    extent_->bytes = kMemoryBytes;
    extent_->capability = capability;
    extent_->data = data;
  }
  Result<std::shared_ptr<ServedExtent>> open(ExtentId id) override {
    if (id != extent_->id) return Status(Code::kNotFound);
    return extent_;
  }
  std::array<std::byte, 32> session_key(const SessionId& session) override {
    return os::hmac_sha256(os::bytes_of("bench"), {session.bytes});
  }
  ExtentDescriptor describe() const {
    ExtentDescriptor out;
    out.id = extent_->id;
    out.bytes = extent_->bytes;
    out.capability = extent_->capability;
    return out;
  }

 private:
  std::shared_ptr<ServedExtent> extent_;
};

std::byte* map_memory(int flags) {
  void* p =
      ::mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (p == MAP_FAILED) std::abort();
  return static_cast<std::byte*>(p);
}

/// The server in a process of its own; its address comes back through a pipe.
struct ServerProcess {
  pid_t child = -1;
  std::string address;

  explicit ServerProcess(OneExtent& directory) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ServerStats stats;
      auto server = tcp::TcpServer::start({}, directory, stats);
      if (!server.is_ok()) ::_exit(1);
      const std::string text = (*server)->address();
      if (::write(ends[1], text.data(), text.size()) < 0) ::_exit(1);
      ::pause();
      ::_exit(0);
    }
    char text[64];
    const ssize_t n = ::read(ends[0], text, sizeof(text));
    if (n <= 0) std::abort();
    address.assign(text, static_cast<size_t>(n));
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~ServerProcess() {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
};

struct Client {
  std::unique_ptr<Channel> channel;
  uint32_t index = 0;

  void wait(const Op& op) {
    Channel* one = channel.get();
    if (!wait_until(
            {&one, 1}, [&] { return op.done(); }, os::Deadline::never(), kStallNs) ||
        op.code != Code::kOk) {
      std::fprintf(stderr, "op failed: %s\n", std::string(code_name(op.code)).c_str());
      std::exit(1);
    }
  }
  void post(Op& op, OpCode opcode, std::byte* local, uint64_t offset, uint64_t bytes) {
    op.opcode = opcode;
    op.index = index;
    op.offset = offset;
    op.local = local;
    op.bytes = bytes;
    channel->post(op);
  }
  void run(OpCode opcode, std::byte* local, uint64_t bytes) {
    Op op;
    post(op, opcode, local, 0, bytes);
    channel->flush();
    wait(op);
  }
  /// `total` ops, `depth` of them in flight, completed in order.
  void run_many(OpCode opcode, std::byte* local, uint64_t bytes, int depth, int total) {
    std::vector<Op> ops(static_cast<size_t>(depth));
    const uint64_t places = std::min<uint64_t>(kMemoryBytes / bytes, 8);
    for (int i = 0; i < total + depth; ++i) {
      Op& op = ops[static_cast<size_t>(i % depth)];
      if (i >= depth) wait(op);
      if (i >= total) continue;
      const uint64_t offset = static_cast<uint64_t>(i) % places * bytes;
      post(op, opcode, local + offset, offset, bytes);
      channel->flush();
    }
  }
  /// Batches: all are posted, flushed once, and waited for.
  void run_batch(OpCode opcode, std::byte* local, uint64_t bytes, std::vector<Op>& ops) {
    for (size_t i = 0; i < ops.size(); ++i) post(ops[i], opcode, local + i * bytes, i * bytes, bytes);
    channel->flush();
    wait(ops.back());
  }
};

/// A raw loop spins for ever: its process runs only while it is measured.
struct Awake {
  explicit Awake(tcp_raw& loop) : raw(loop) {
    ::kill(raw.child, SIGCONT);
    char byte[64] = {};
    for (int i = 0; i < 20; ++i) tcp_raw_put(&raw, byte, sizeof(byte));
  }
  ~Awake() { ::kill(raw.child, SIGSTOP); }
  tcp_raw& raw;
};

double seconds_of(const std::function<void()>& work) {
  const uint64_t start = os::now_ns();
  work();
  return static_cast<double>(os::now_ns() - start) * 1e-9;
}

struct Samples {
  std::vector<double> values;
  double median() {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }
  double least() const { return *std::min_element(values.begin(), values.end()); }
};

}  // namespace

int main(int argc, char** argv) {
  tcp::ChannelOptions options;
  bool quick = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--quick") quick = true;
    if (i + 1 >= argc) break;
    if (arg == "--window") options.window_bytes = std::strtoull(argv[++i], nullptr, 10);
    if (arg == "--frame") options.frame_bytes = std::strtoull(argv[++i], nullptr, 10);
    if (arg == "--only") only = argv[++i];
  }
  std::byte* const served = map_memory(MAP_SHARED);
  OneExtent directory(served, os::random_id<Capability>());
  ServerProcess server(directory);
  std::byte* local = map_memory(MAP_PRIVATE);

  tcp::TcpConnector connector(options);
  Credentials who;
  who.session = os::random_id<SessionId>();
  who.session_key = directory.session_key(who.session);
  Client client;
  auto open = [&](Client& c) {
    auto made = connector.connect({Fabric::kTcp, server.address, {}}, who, os::Deadline::after_ns(kStallNs));
    if (!made.is_ok()) std::abort();
    c.channel = std::move(made).value();
    auto index =
        c.channel->attach(directory.describe(), Access::kReadWrite, os::Deadline::after_ns(kStallNs));
    if (!index.is_ok()) std::abort();
    c.index = *index;
  };
  open(client);

  struct RawLoop {
    const char* name;
    tcp_raw raw;
  };
  RawLoop loops[4] = {{"spin default", {}}, {"spin capped", {}}, {"block default", {}}, {"block capped", {}}};
  for (int i = 0; i < 4; ++i) {
    if (tcp_raw_open(&loops[i].raw, i < 2, i % 2, reinterpret_cast<char*>(served), kMemoryBytes) != 0)
      return 1;
    ::kill(loops[i].raw.child, SIGSTOP);
  }
  auto* raw_local = reinterpret_cast<char*>(local);  // the same pages for all

  const int rounds = quick ? 9 : 41;
  const uint64_t sizes[] = {64, 4096, uint64_t{1} << 20, uint64_t{64} << 20};
  for (const uint64_t bytes : sizes) {
    for (const OpCode opcode : {OpCode::kPut, OpCode::kGet}) {
      const bool is_put = opcode == OpCode::kPut;
      const std::string name = std::string(is_put ? "put" : "get") + std::to_string(bytes);
      if (!only.empty() && only != name) continue;
      const int count = bytes <= 4096 ? 500 : bytes <= (1u << 20) ? 20 : 1;
      Samples ours, raw[4], one, eight;
      for (int r = 0; r < rounds; ++r) {
        ours.values.push_back(seconds_of([&] {
                                for (int i = 0; i < count; ++i) client.run(opcode, local, bytes);
                              }) /
                              count);
        if (bytes == (1u << 20)) {
          one.values.push_back(seconds_of([&] { client.run_many(opcode, local, bytes, 1, count); }) / count);
          eight.values.push_back(seconds_of([&] { client.run_many(opcode, local, bytes, 8, count); }) /
                                 count);
        }
        for (int k = 0; k < 4; ++k) {
          const int raw_count = k >= 2 && bytes <= 4096 ? count / 20 : count;
          const Awake awake(loops[k].raw);
          raw[k].values.push_back(seconds_of([&] {
                                    for (int i = 0; i < raw_count; ++i) {
                                      if (is_put) {
                                        tcp_raw_put(&loops[k].raw, raw_local, bytes);
                                      } else {
                                        tcp_raw_get(&loops[k].raw, raw_local, bytes);
                                      }
                                    }
                                  }) /
                                  raw_count);
        }
      }
      int best = 0;
      for (int k = 1; k < 4; ++k) {
        if (raw[k].median() < raw[best].median()) best = k;
      }
      const double scale = static_cast<double>(bytes) * 1e-9;
      std::printf(
          "{\"bench\":\"tcp\",\"direction\":\"%s\",\"bytes\":%llu,\"latency_us\":%.3f,\"latency_us_min\":%."
          "3f,"
          "\"rate_gb_s\":%.3f,\"limit\":\"%s\",\"limit_latency_us\":%.3f,\"limit_latency_us_min\":%.3f,"
          "\"limit_rate_gb_s\":%.3f,\"ratio_of_rate\":%.3f,\"ratio_of_rate_min\":%.3f",
          is_put ? "put" : "get", static_cast<unsigned long long>(bytes), ours.median() * 1e6,
          ours.least() * 1e6, scale / ours.median(), loops[best].name, raw[best].median() * 1e6,
          raw[best].least() * 1e6, scale / raw[best].median(), raw[best].median() / ours.median(),
          raw[best].least() / ours.least());
      for (int k = 0; k < 4; ++k) {
        std::printf(",\"raw %s us\":%.3f", loops[k].name, raw[k].median() * 1e6);
      }
      if (!eight.values.empty())
        std::printf(",\"eight_in_flight_ratio\":%.3f", one.median() / eight.median());
      std::printf("}\n");
      std::fflush(stdout);
    }
  }

  if (only.empty() || only == "gets") {
    Samples one, many;
    std::vector<Op> ops(256);
    for (int r = 0; r < rounds; ++r) {
      one.values.push_back(seconds_of([&] {
                             for (int i = 0; i < 2000; ++i) client.run(OpCode::kGet, local, 64);
                           }) /
                           2000);
      many.values.push_back(seconds_of([&] {
                              for (int i = 0; i < 40; ++i) client.run_batch(OpCode::kGet, local, 64, ops);
                            }) /
                            (40 * 256));
    }
    std::printf(
        "{\"bench\":\"tcp\",\"what\":\"256 concurrent 64 B gets\",\"latency_us\":%.3f,\"each_us\":%.3f,"
        "\"times_the_rate\":%.2f}\n",
        one.median() * 1e6, many.median() * 1e6, one.median() / many.median());
  }
  if (only.empty() || only == "connect") {
    Samples connects;
    for (int r = 0; r < 50; ++r) {
      ::usleep(5000);  // the server has gone to sleep
      Client fresh;
      connects.values.push_back(seconds_of([&] {
        open(fresh);
        fresh.run(OpCode::kGet, local, 64);
      }));
    }
    std::printf(
        "{\"bench\":\"tcp\",\"what\":\"connect, attach and first get\",\"latency_us\":%.1f,"
        "\"latency_us_min\":%.1f}\n",
        connects.median() * 1e6, connects.least() * 1e6);
  }
  for (RawLoop& loop : loops) tcp_raw_close(&loop.raw);
  return 0;
}
