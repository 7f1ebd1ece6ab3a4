// node/service, as programs of this host reach it: three of them, of two users and root, send what they like.
//
// Afterwards a program of another user must be served, and when all have ended and root has removed the
// names, no byte, extent, session or name is left.
#include "daemon.h"

using namespace ocm;

namespace {

constexpr uint32_t kUids[] = {1000, 1001, 0};
constexpr uint8_t kEnd = 8, kWait = 16;  // bits of `who`: the program ends; a while passes

control::Task<Result<std::shared_ptr<control::Link>>> nobody(std::string, uint64_t) {
  co_return Status(Code::kPeerLost, "nobody is there");
}

void is_served(fuzz::Daemon& daemon) {
  const auto honest = daemon.program(1002);
  bool answered = false;
  wire::Envelope request;
  request.mutable_cluster();
  daemon.ask(honest, std::move(request), [&](const wire::Envelope& reply) { answered = reply.code() == 0; });
  daemon.env().run(0);
  OCM_ASSERT(answered);
  daemon.end(honest);
}

void remove_names(fuzz::Daemon& daemon) {
  const auto root = daemon.program(0);
  std::vector<std::string> names;
  wire::Envelope list;
  list.mutable_name_list();
  daemon.ask(root, std::move(list), [&](const wire::Envelope& reply) {
    for (const auto& each : reply.names().allocations()) names.push_back(each.name());
  });
  daemon.env().run(0);
  for (const std::string& name : names) {
    wire::Envelope remove;
    remove.mutable_name_remove()->set_name(name);
    daemon.ask(root, std::move(remove));
  }
  daemon.env().run(0);
  daemon.end(root);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto input = fuzz::bytes_of(data, size);
  fuzz::Daemon daemon(nobody);
  std::shared_ptr<node::Program> programs[3];
  fuzz::Record next;
  for (int i = 0; i < 64 && fuzz::take(input, next); ++i) {
    auto& program = programs[next.who % 3];
    if (!program) {
      program = std::make_shared<node::Program>();
      program->uid = kUids[next.who % 3];
    }
    wire::Envelope message;
    if (wire::parse_control(next.bytes, message).is_ok()) {
      daemon.resolve(message);
      daemon.ask(program, std::move(message));
    }
    daemon.env().run((next.who & kWait) != 0 ? 100'000'000 : 0);
    if ((next.who & kEnd) == 0) continue;
    daemon.end(program);
    program.reset();
  }
  is_served(daemon);
  for (auto& program : programs) {
    if (program) daemon.end(program);
  }
  constexpr uint64_t kDeadlinesNs = 15'000'000'000;  // every request has ended then
  daemon.env().run(kDeadlinesNs);
  remove_names(daemon);
  daemon.env().run(kDeadlinesNs);
  OCM_ASSERT(daemon.sessions() == 0);
  OCM_ASSERT(daemon.names() == 0);
  OCM_ASSERT(daemon.home().extents() == 0);
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  wire::Envelope hello, allocate, striped, free, publish, attach, join, open, copy, lost, remove, list, stats;
  hello.mutable_session_hello()->set_version(wire::kControlVersion);
  allocate.mutable_allocate()->set_bytes_total(4096);
  striped.mutable_allocate()->set_bytes_total(8192);
  striped.mutable_allocate()->set_layout(1);
  striped.mutable_allocate()->set_chunk_bytes(64);
  free.mutable_free()->set_allocation_id(std::string(1, '\0'));
  publish.mutable_publish()->set_allocation_id(std::string(1, '\0'));
  publish.mutable_publish()->set_name("x");
  publish.mutable_publish()->set_mode(0606);
  attach.mutable_attach()->set_name("x");
  attach.mutable_attach()->set_access(3);
  attach.mutable_attach()->set_hold(true);
  join.mutable_join()->add_allocation_ids(std::string(1, '\0'));
  join.mutable_join()->add_allocation_ids(std::string(1, '\1'));
  open.mutable_open_extent()->set_address(0);
  open.mutable_open_extent()->set_access(3);
  auto& request = *copy.mutable_copy();
  request.set_bytes_total(64);
  request.mutable_target()->set_node("a");
  request.mutable_source()->set_node("a");
  request.mutable_source()->set_address(1);
  lost.mutable_lost_replica()->set_allocation_id(std::string(1, '\0'));
  lost.mutable_lost_replica()->set_address(0);
  remove.mutable_name_remove()->set_name("x");
  list.mutable_name_list();
  stats.mutable_stats()->set_node("a");
  const auto say = [](std::initializer_list<std::pair<int, const wire::Envelope*>> all) {
    std::string out;
    for (const auto& [who, message] : all) out += fuzz::record(static_cast<uint8_t>(who), *message);
    return out;
  };
  return {say({{0, &hello}, {0, &allocate}, {0, &open}, {0, &free}}),
          say({{0, &hello},
               {0, &allocate},
               {0, &publish},
               {1, &hello},
               {1, &attach},
               {1, &remove},
               {0 + kEnd + 1, &list}}),
          say({{0, &hello},
               {0, &allocate},
               {0, &allocate},
               {0, &join},
               {0, &publish},
               {1, &hello},
               {1, &attach},
               {0, &remove},
               {1 + kWait, &stats}}),
          say({{2, &hello}, {2, &allocate}, {2, &striped}, {2, &copy}, {2, &lost}, {2 + kWait, &stats}}),
          say({{0, &allocate}, {0, &hello}, {0, &hello}, {0, &free}, {0, &attach}, {1, &remove}})};
}
