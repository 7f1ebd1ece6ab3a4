// The seeds of node_fuzz: each message that a node may send or answer with (bodies.py), and what was found
// once.
#include "base/ids.h"
#include "fuzz.h"
#include "node_input.h"
#include "records.h"
#include "wire/version.h"

using namespace ocm;
using namespace ocm::fuzz::node_input;
using wire::Envelope;

namespace {

const std::string kFirst(1, '\0');
const std::string kSession(16, 's'), kRun(16, 'i'), kId(16, 'p');
constexpr uint32_t kPartitionB = 9, kPartitionC = 10;

uint64_t address_at(uint32_t partition, uint64_t offset = 4096) { return uint64_t{partition} << 40 | offset; }

void fill(wire::ExtentDescriptor& extent, const std::string& node) {
  extent.set_node(node);
  extent.set_address(address_at(node == "b" ? kPartitionB : kPartitionC));
  extent.set_generation(1);
  extent.set_bytes(8192);
  extent.set_capability(std::string(16, 'k'));
}
void fill(wire::Allocation& allocation) {
  allocation.set_allocation_id(kId);
  allocation.set_name("x");
  allocation.set_bytes_total(8192);
  allocation.set_access(3);
}
/// The n-th that is known.
void fill(wire::ExtentRef& ref, uint64_t extent) { ref.set_address(extent); }
/// Of the first known one and one of b.
wire::PartMoved part_after(uint64_t second_id) {
  wire::PartMoved out;
  out.mutable_was()->set_address(address_at(kPartitionB));
  out.mutable_was()->set_generation(1);
  fill(*out.add_now(), "b");
  out.mutable_now(0)->set_address(address_at(kPartitionB, 8192));
  out.add_now()->set_address(second_id);
  out.add_peers()->set_address(0);
  out.set_epoch(1);
  out.set_allocation_id(kId);
  return out;
}

Envelope hello(const std::string& resume = "") {
  Envelope out;
  out.mutable_session_hello()->set_version(wire::kControlVersions.max);
  out.mutable_session_hello()->set_resume_session(resume);
  return out;
}
Envelope free_it(const std::string& id) {
  Envelope out;
  out.mutable_free()->set_allocation_id(id);
  return out;
}
Envelope publish_own(const std::string& id) {
  Envelope out;
  out.mutable_publish()->set_allocation_id(id);
  out.mutable_publish()->set_name("own");
  return out;
}
Envelope allocate(std::initializer_list<const char*> nodes) {
  Envelope out;
  out.mutable_allocate()->set_bytes_total(8192);
  for (const char* node : nodes) out.mutable_allocate()->add_nodes(node);
  if (nodes.size() > 1) out.mutable_allocate()->set_layout(static_cast<uint32_t>(Layout::kReplicated));
  out.mutable_allocate()->set_extents(static_cast<uint32_t>(nodes.size()));
  return out;
}
Envelope beat(const std::string& node, bool with_names = false) {
  Envelope out;
  auto& request = *out.mutable_heartbeat();
  auto& self = *request.mutable_self();
  self.set_name(node);
  self.set_partition(node == "b" ? kPartitionB : kPartitionC);
  self.set_state(1);
  self.set_incarnation(kRun);
  self.set_control_address(node + ":1");
  self.set_features(wire::kControlVersions.features);
  self.add_pools()->set_bytes_total(1 << 20);
  request.mutable_council()->set_id(0);  // the present one
  if (!with_names) return out;
  fill(*request.add_published());
  fill(*request.mutable_published(0)->add_extents(), node);
  request.add_removed(std::string(16, 'r'));
  request.add_nodes_known("c");
  request.set_names_included(true);
  return out;
}
/// Two names whose replicas are the same.
Envelope beat_twice() {
  Envelope out = beat("b", true);
  auto& first = *out.mutable_heartbeat()->mutable_published(0);
  first.set_layout(static_cast<uint32_t>(Layout::kReplicated));
  wire::Allocation& second = *out.mutable_heartbeat()->add_published();
  second = first;
  second.set_name("y");
  second.set_allocation_id(std::string(16, 'q'));
  return out;
}
Envelope goodbye(const std::string& node) {
  Envelope out;
  out.mutable_goodbye()->set_node(node);
  return out;
}
Envelope reserve(Layout layout = Layout::kSingle) {
  Envelope out;
  auto& request = *out.mutable_reserve();
  request.set_session_id(kSession);
  request.set_owner_node("b");
  request.set_owner_incarnation(kRun);
  request.set_allocation_id(kId);
  request.set_bytes_total(8192);
  request.set_uid(1000);
  request.set_layout(static_cast<uint32_t>(layout));
  return out;
}
Envelope release(uint64_t extent) {
  Envelope out;
  out.mutable_release()->set_session_id(kSession);
  out.mutable_release()->set_address(extent);
  return out;
}
Envelope end_session() {
  Envelope out;
  out.mutable_session_end()->set_session_id(kSession);
  out.mutable_session_end()->set_owner_incarnation(kRun);
  return out;
}
Envelope reserve_for(const std::string& owner) {
  Envelope out = reserve();
  out.mutable_reserve()->set_session_id(std::string(16, owner.front()));
  out.mutable_reserve()->set_owner_node(owner);
  return out;
}
Envelope resume_session() {
  Envelope out;
  out.mutable_session_resume()->set_session_id(kSession);
  out.mutable_session_resume()->set_owner_node("b");
  out.mutable_session_resume()->set_owner_incarnation(std::string(16, 'j'));
  return out;
}
Envelope publish_extents(uint64_t extent, bool undo = false) {
  Envelope out;
  auto& request = *out.mutable_publish_extents();
  fill(*request.mutable_allocation());
  request.mutable_allocation()->add_extents()->set_address(extent);
  request.set_undo(undo);
  request.set_session_id(kSession);
  request.set_owner_node("b");
  request.set_owner_incarnation(kRun);
  request.set_attempt(1);
  return out;
}
Envelope publish(uint64_t extent) {
  Envelope out;
  auto& request = *out.mutable_publish();
  request.set_name("x");
  request.set_mode(0666);
  fill(*request.mutable_allocation());
  request.mutable_allocation()->set_owner_uid(1000);
  request.mutable_allocation()->add_extents()->set_address(extent);
  request.set_session_id(kSession);
  request.set_owner_node("b");
  request.set_owner_incarnation(kRun);
  return out;
}
Envelope hold(uint64_t extent) {
  Envelope out;
  auto& request = *out.mutable_hold();
  request.set_session_id(kSession);
  request.set_hold_id(std::string(16, 'h'));
  request.set_owner_node("b");
  request.set_owner_incarnation(kRun);
  fill(*request.add_extents(), extent);
  return out;
}
Envelope vote(uint32_t partition) {
  Envelope out;
  out.mutable_lease_vote()->set_partition(partition);
  return out;
}
Envelope remove_extents(uint64_t extent) {
  Envelope out = publish_extents(extent);
  out.mutable_publish_extents()->set_remove(true);
  return out;
}
/// A replica of b beside the first known extent.
Envelope lose(uint32_t phase) {
  Envelope out;
  auto& request = *out.mutable_lose_replica();
  request.set_phase(phase);
  fill(*request.add_part(), 0);
  request.add_part()->set_address(address_at(kPartitionB));
  request.mutable_part(1)->set_generation(1);
  *request.mutable_replica() = request.part(1);
  if (phase == 3) *request.add_lost() = request.part(1);
  request.mutable_ballot()->set_round(1);
  request.mutable_ballot()->set_by(7);
  return out;
}
wire::InstallCouncil next_council(std::initializer_list<const char*> voters) {
  wire::InstallCouncil out;
  out.mutable_council()->set_number(1);
  for (const char* name : voters) {
    wire::Voter& voter = *out.mutable_council()->add_voters();
    voter.set_name(name);
    if (std::string(name) == "a") continue;  // as it is known
    voter.set_incarnation(kRun);
    voter.set_address(std::string(name) + ":1");
  }
  out.add_bases();
  return out;
}
Envelope seal() {
  Envelope out;
  out.mutable_seal_council()->mutable_ballot()->set_round(9);
  out.mutable_seal_council()->set_tell(true);
  return out;
}
Envelope propose() {
  Envelope out;
  out.mutable_propose_council()->mutable_ballot()->set_round(9);
  *out.mutable_propose_council()->mutable_next() = next_council({"a", "b", "c"});
  return out;
}
Envelope leader() {
  Envelope out;
  *out.mutable_leader()->mutable_council() = next_council({"b", "a", "c"}).council();
  return out;
}
/// A name and a removal, by the coordinator of the council that is known.
Envelope note_names() {
  Envelope out;
  auto& named = *out.mutable_note_names()->add_notes();
  named.set_allocation_id(std::string(16, '1'));
  named.set_name("x");
  named.set_sequence(1);
  named.add_homes("b");
  out.mutable_note_names()->add_notes()->set_allocation_id(std::string(16, '2'));
  return out;
}
Envelope found_cluster() {
  Envelope out;
  out.mutable_found_cluster();
  return out;
}
Envelope install(std::initializer_list<const char*> voters) {
  Envelope out;
  *out.mutable_install_council() = next_council(voters);
  auto& part = *out.mutable_install_council()->mutable_state()->add_parts();
  fill(*part.add_replicas(), 0);
  part.add_replicas()->set_address(address_at(kPartitionB));
  return out;
}
/// With two parts that have a replica in common.
Envelope install_overlapping() {
  Envelope out = install({"a"});
  auto& part = *out.mutable_install_council()->mutable_state()->add_parts();
  part.add_replicas()->set_address(address_at(kPartitionB));
  part.add_replicas()->set_address(address_at(kPartitionC));
  return out;
}
Envelope share(uint64_t extent) {
  Envelope out;
  fill(*out.mutable_share_replica()->mutable_replica(), extent);
  return out;
}
Envelope give(uint64_t extent) {
  Envelope out;
  auto& request = *out.mutable_give_replica();
  fill(*request.mutable_replica(), extent);
  *request.mutable_part() = part_after(extent);
  request.set_session_id(kSession);
  request.set_owner_node("b");
  request.set_owner_incarnation(kRun);
  return out;
}
Envelope plan(uint64_t replica, uint64_t extent) {
  Envelope out;
  auto& request = *out.mutable_plan_part();
  fill(*request.mutable_replica(), replica);
  *request.mutable_give() = give(extent).give_replica();
  fill(*request.mutable_give()->mutable_part()->add_now(), "c");  // the spare home
  fill(*request.add_of(), 0);
  request.add_of()->set_address(address_at(kPartitionB));
  return out;
}
Envelope remade(uint64_t extent) {
  Envelope out;
  *out.mutable_part_moved() = part_after(extent);
  return out;
}
Envelope resolve_part(uint64_t extent) {
  Envelope out;
  fill(*out.mutable_resolve()->add_part(), extent);
  return out;
}
Envelope resolve(uint64_t extent) {
  Envelope out;
  out.mutable_resolve()->set_allocation_id(kFirst);
  fill(*out.mutable_resolve()->mutable_extent(), extent);
  return out;
}
Envelope lost(uint64_t extent) {
  Envelope out;
  out.mutable_lost_replica()->set_allocation_id(kFirst);
  out.mutable_lost_replica()->set_address(extent);
  return out;
}
Envelope digest(uint64_t extent) {
  Envelope out;
  out.mutable_digest()->mutable_extent()->set_address(extent);
  out.mutable_digest()->set_bytes_total(8192);
  return out;
}
Envelope query(uint64_t extent) {
  Envelope out;
  out.mutable_replica_query()->set_partition(kPartitionB);
  fill(*out.mutable_replica_query()->add_replicas(), extent);
  return out;
}
Envelope session_at() {
  Envelope out;
  out.mutable_session_at()->set_session_id(kFirst);
  out.mutable_session_at()->set_node("c");
  return out;
}
Envelope copy(uint64_t target, uint64_t source) {
  Envelope out;
  out.mutable_copy()->set_bytes_total(64);
  out.mutable_copy()->mutable_target()->set_address(target);
  out.mutable_copy()->mutable_source()->set_address(source);
  return out;
}
Envelope stats(const std::string& node = "") {
  Envelope out;
  out.mutable_stats()->set_node(node);
  return out;
}
Envelope cache(uint64_t extent) {
  Envelope out;
  out.mutable_cache()->set_partition(kPartitionB);
  out.mutable_cache()->add_extents()->set_address(extent);
  return out;
}
Envelope resize_cache() {
  Envelope out;
  out.mutable_resize_cache()->set_bytes(1 << 20);
  return out;
}
Envelope watch(const std::string& node, uint64_t extent) {
  Envelope out;
  out.mutable_watch()->set_node(node);
  out.mutable_watch()->set_incarnation(kRun);
  out.mutable_watch()->set_number(1);
  fill(*out.mutable_watch()->add_begin(), extent);
  return out;
}
Envelope watched(uint64_t over) {
  Envelope out;
  fill(*out.mutable_watched()->add_over(), over);
  return out;
}
Envelope extents_over(uint32_t partition, uint64_t extent) {
  Envelope out;
  out.mutable_extents_over()->set_partition(partition);
  fill(*out.mutable_extents_over()->add_over(), extent);
  fill(*out.mutable_extents_over()->add_elsewhere(), extent);
  return out;
}
Envelope view_news() {
  Envelope out;
  out.mutable_view_news()->set_epoch(~uint64_t{0});
  return out;
}
Envelope events() {
  Envelope out;
  out.mutable_events();
  return out;
}
Envelope attach() {
  Envelope out;
  out.mutable_attach()->set_name("x");
  out.mutable_attach()->set_access(1);
  out.mutable_attach()->set_hold(true);
  return out;
}
Envelope name_list() {
  Envelope out;
  out.mutable_name_list();
  return out;
}
Envelope name_remove() {
  Envelope out;
  out.mutable_name_remove()->set_name("x");
  out.mutable_name_remove()->set_allocation_id(kId);
  return out;
}
Envelope stop_check() {
  Envelope out;
  out.mutable_stop_check();
  return out;
}

// ---- what they answer

Envelope nothing() { return {}; }
Envelope reserved(const std::string& node) {
  Envelope out;
  fill(*out.mutable_reserved()->mutable_extent(), node);
  out.mutable_reserved()->mutable_pool()->set_bytes_total(1 << 20);
  return out;
}
Envelope view() {
  Envelope out;
  auto& view = *out.mutable_cluster_view();
  view.set_epoch(3);
  view.set_cluster_id(5);
  view.set_coordinator("b");
  for (const char* node : {"b", "c"}) {
    *view.add_nodes() = beat(node).heartbeat().self();
  }
  auto& council = *view.mutable_council();
  council.set_id(100);
  council.set_number(1);
  council.add_chains(5);
  *council.add_voters() = next_council({"b"}).council().voters(0);
  return out;
}
Envelope granted() {
  Envelope out;
  out.mutable_lease_granted()->set_granted(true);
  return out;
}
/// And the second replica of the part of the first known extent is lost.
Envelope granted_lost() {
  Envelope out = granted();
  auto& watched = *out.mutable_lease_granted()->add_watched();
  fill(*watched.mutable_replica(), 0);
  fill(*watched.add_part(), 0);
  fill(*watched.add_part(), 1);
  fill(*watched.add_lost(), 1);
  return out;
}
Envelope granted_dropped() {
  Envelope out = granted();
  fill(*out.mutable_lease_granted()->add_dropped(), 0);
  return out;
}
Envelope losing() {
  Envelope out;
  out.mutable_replica_losing()->set_agreed(true);
  out.mutable_replica_losing()->set_at_ns(1);
  return out;
}
Envelope promise() {
  Envelope out;
  out.mutable_council_promise()->set_agreed(true);
  return out;
}
Envelope held() {
  Envelope out;
  out.mutable_held();
  return out;
}
Envelope digests() {
  Envelope out;
  out.mutable_digests()->set_digests(std::string(16, 'd'));
  return out;
}
Envelope session_extents() {
  Envelope out;
  auto& owned = *out.mutable_session_extents()->add_extents();
  owned.set_allocation_id(kId);
  fill(*owned.mutable_extent(), "b");
  out.mutable_session_extents()->add_hold_ids(std::string(16, 'h'));
  return out;
}
/// Of another kind of memory than there is.
Envelope of_kind(Envelope answer, uint32_t kind) {
  if (answer.has_reserved()) answer.mutable_reserved()->mutable_extent()->set_kind(kind);
  if (answer.has_session_extents()) {
    auto& extent = *answer.mutable_session_extents()->mutable_extents(0)->mutable_extent();
    extent.set_kind(kind);
    extent.set_node("a");
  }
  return answer;
}
Envelope stats_reply() {
  Envelope out;
  out.mutable_stats_reply()->set_node("b");
  out.mutable_stats_reply()->add_pools()->set_bytes_total(1 << 20);
  return out;
}
Envelope published() {
  Envelope out;
  out.mutable_published()->set_owner_uid(1000);
  out.mutable_published()->set_mode(0600);
  return out;
}
Envelope stop_check_reply() {
  Envelope out;
  out.mutable_stop_check_reply()->set_node("b");
  return out;
}
Envelope replica_answer() {
  Envelope out;
  auto& part = *out.mutable_replica_answer()->add_parts();
  fill(*part.mutable_here(), 0);
  part.add_others()->set_address(address_at(kPartitionC));
  part.add_nodes("c");
  return out;
}
Envelope names() {
  Envelope out;
  fill(*out.mutable_names()->add_allocations());
  return out;
}
Envelope allocation() {
  Envelope out;
  fill(*out.mutable_allocation());
  fill(*out.mutable_allocation()->add_extents(), "b");
  return out;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  constexpr int kB = 1, kC = 0;
  const auto coordinates = [](std::initializer_list<std::pair<int, Envelope>> all) {
    return std::string(1, kCoordinator) + fuzz::say(all);
  };
  const auto is_member = [](std::initializer_list<std::pair<int, Envelope>> all) {
    return std::string(1, kMember) + fuzz::say(all);
  };
  return {
      coordinates({{kB, beat("b", true)},
                   {kProgram, hello()},
                   {kAnswer, reserved("b")},
                   {kProgram, allocate({"b"})},
                   {kAnswer, held()},
                   {kProgram, attach()},
                   {kAnswer, stats_reply()},
                   {kProgram, stats("b")},
                   {kAnswer, stop_check_reply()},
                   {kProgram + kB, stop_check()},
                   {kAnswer, stats_reply()},
                   {kProgram + kB, stats_reply()},
                   {kB + kWait, goodbye("b")}}),
      coordinates(
          {{kB, reserve()}, {kB, publish_extents(0)}, {kB, hold(0)}, {kC, release(0)}, {kB, end_session()}}),
      coordinates({{kB, reserve()},
                   {kC, resume_session()},
                   {kB, digest(0)},
                   {kB, release(0)},
                   {kB + kWait, stats()}}),
      coordinates({{kB, beat("b")},
                   {kB, reserve()},
                   {kB, publish(0)},
                   {kC, attach()},
                   {kC, name_list()},
                   {kC, name_remove()},
                   {kB, publish_extents(0, true)}}),
      coordinates({{kB, reserve_for("zz")},
                   {kB, reserve()},
                   {kB, copy(0, 1)},
                   {kC, query(0)},
                   {kProgram, hello()},
                   {kC, session_at()},
                   {kB, lost(0)},
                   {kB, remade(0)}}),
      // What is watched, here and at another home.
      coordinates(
          {{kB, reserve()}, {kB, watch("b", 0)}, {kC, release(0)}, {kB, watch("b", 0)}, {kB, view_news()}}),
      coordinates({{kB, beat("b")}, {kB, reserve()}, {kB, cache(0)}, {kC, cache(0)}, {kB, resize_cache()}}),
      coordinates({{kB, beat("b", true)},
                   {kProgram, hello()},
                   {kAnswer, reserved("b")},
                   {kProgram, allocate({"b"})},
                   {kProgram, events()},
                   {kB, extents_over(kPartitionB, 0)},
                   {kProgram, events()}}),
      coordinates({{kB, beat("b", true)},
                   {kProgram, hello()},
                   {kAnswer, reserved("b")},
                   {kProgram, allocate({"b"})},
                   {kAnswer, watched(0)},
                   {kProgram, events()},
                   {kProgram + kWait, events()}}),
      // The council: a loss, and another council in its place.
      coordinates({{kB, beat("b")},
                   {kB, reserve(Layout::kReplicated)},
                   {kB, vote(kPartitionB)},
                   {kB, note_names()},
                   {kB, lose(1)},
                   {kB, lose(2)},
                   {kC, lose(3)},
                   {kB, propose()},
                   {kB, leader()},
                   {kB, found_cluster()},
                   {kB, seal()},
                   {kB, install({"a"})},
                   {kC + kWait, vote(kPartitionC)}}),
      // Of three, which the others are asked to join, and from which one goes.
      coordinates({{kAnswer, nothing()},
                   {kAnswer, nothing()},
                   {kAnswer, granted()},
                   {kAnswer, granted()},
                   {kAnswer, promise()},
                   {kAnswer, promise()},
                   {kAnswer, nothing()},
                   {kAnswer, nothing()},
                   {kB, beat("b")},
                   {kC + kWait, beat("c")},
                   {kB, beat("b")},
                   {kC + kWait, beat("c")},
                   {kB, beat("b")},
                   {kC + kWait, goodbye("c")},
                   {kB + kWait, beat("b")},
                   {kB + kWait, beat("b")}}),
      coordinates({{kB, beat("b")},
                   {kC, beat("c")},
                   {kAnswer, granted()},
                   {kAnswer, granted()},
                   {kB, install({"a", "b", "c"})},
                   {kProgram, hello()},
                   {kAnswer, reserved("b")},
                   {kProgram, allocate({"a", "b"})},
                   {kAnswer, losing()},
                   {kAnswer, losing()},
                   {kAnswer, losing()},
                   {kProgram + kWait, lost(1)},
                   {kAnswer, granted_lost()},
                   {kAnswer + kWait, granted_dropped()}}),
      // A part that this daemon makes again at c.
      coordinates({{kB, beat("b")},
                   {kB, vote(kPartitionB)},
                   {kProgram, hello()},
                   {kAnswer, reserved("b")},
                   {kProgram, allocate({"a", "b"})},
                   {kProgram + kLong, lost(1)},  // b is dead then
                   {kAnswer, nothing()},         // c is told of another view
                   {kAnswer, reserved("c")},
                   {kAnswer, nothing()},
                   {kAnswer, nothing()},
                   {kAnswer, digests()},
                   {kAnswer, nothing()},
                   {kAnswer, digests()},
                   {kAnswer, nothing()},
                   {kAnswer, digests()},
                   {kC + kWait, beat("c")},
                   {kC + kWait, beat("c")},
                   {kC + kWait, beat("c")},
                   {kC + kWait, beat("c")},
                   {kC + kWait, beat("c")},
                   {kC + kWait, beat("c")}}),
      coordinates({{kB, beat("b")},
                   {kProgram, hello()},
                   {kAnswer, reserved("b")},
                   {kProgram, allocate({"a", "b"})},
                   {kAnswer, remade(0)},
                   {kProgram, resolve(0)},
                   {kProgram, free_it(kFirst)}}),
      // Parts that others make again: with a replica here, and with a spare one here.
      coordinates({{kB, beat("b")},
                   {kB, reserve(Layout::kReplicated)},
                   {kB, share(0)},
                   {kB, plan(0, 1)},
                   {kB, give(1)},
                   {kC, resolve_part(0)},
                   {kB, release(1)}}),
      coordinates({{kB, beat("b")},
                   {kB, reserve(Layout::kReplicated)},
                   {kB, plan(0, 0)},
                   {kB, give(0)},
                   {kC, resolve_part(0)},
                   {kB + kLong, hold(0)}}),
      coordinates({{kB, beat("b")},
                   {kB, reserve(Layout::kReplicated)},
                   {kAnswer, replica_answer()},
                   {kAnswer, replica_answer()},
                   {kC, stop_check()},
                   {kB, share(0)},
                   {kB + kLong, plan(0, 1)}}),
      // A session that goes on.
      coordinates({{kB, beat("b")},
                   {kAnswer, session_extents()},
                   {kProgram + kWait, hello(kSession)},
                   {kProgram, attach()}}),
      // Its program gives up the hello and comes again; and once it has ended.
      coordinates({{kB, beat("b")},
                   {kAnswer, session_extents()},
                   {kProgram + kEnd, hello(kSession)},
                   {kProgram + kWait, hello(kSession)},
                   {kProgram + kEnd, attach()},
                   {kProgram, hello(kSession)}}),
      is_member({{kAnswer, view()},
                 {kAnswer + kWait, granted()},
                 {kAnswer + kWait, view()},
                 {kProgram, hello()},
                 {kAnswer, allocation()},
                 {kAnswer, held()},
                 {kProgram, attach()},
                 {kAnswer, names()},
                 {kProgram, name_list()},
                 {kAnswer, allocation()},
                 {kAnswer + kAny, allocation()},
                 {kProgram, name_remove()},
                 {kB, reserve()},
                 {kB + kLong, publish_extents(0)}}),
      is_member({{kAnswer + kWait, view()},
                 {kProgram, hello()},
                 {kAnswer, reserved("b")},
                 {kProgram + kWait, allocate({"b"})},
                 {kB, install({"a"})},
                 {kAnswer + kWait, granted_dropped()},
                 {kC + kLong, reserve_for("c")}}),
      is_member({{kAnswer + kWait, view()},
                 {kProgram, hello()},
                 {kAnswer, reserved("b")},
                 {kProgram + kWait, allocate({"b"})},
                 {kAnswer, published()},
                 {kProgram, publish_own(kFirst)}}),
      // A second id of a second id.
      coordinates({{kB, beat("b")},
                   {kB, reserve(Layout::kReplicated)},
                   {kB, share(0)},
                   {kB, share(1)},
                   {kB, release(0)}}),
      // What was found. A kind of memory that there is not, in what others answer.
      coordinates({{kB, beat("b")},
                   {kProgram, hello()},
                   {kAnswer, of_kind(reserved("b"), ~0u)},
                   {kProgram, allocate({"b"})},
                   {kAnswer, nothing()},
                   {kProgram, free_it(kFirst)}}),
      coordinates({{kB, beat("b")},
                   {kAnswer, of_kind(session_extents(), ~0u)},
                   {kProgram + kWait, hello(kSession)},
                   {kProgram, free_it(kId)}}),
      // Sessions of nodes that never join, and of another run of this one.
      coordinates({{kB, reserve_for("zz")}, {kB, reserve_for("a")}}),
      is_member({{kAnswer + kWait, view()}, {kB, reserve_for("zz")}, {kB, reserve_for("a")}}),
      coordinates({{kB, beat_twice()}, {kB, name_remove()}, {kB, beat_twice()}}),
      coordinates({{kB, beat("b")}, {kB, reserve(Layout::kReplicated)}, {kB, install_overlapping()}}),
      // An allocation that is published again with other extents.
      coordinates({{kB, beat("b")},
                   {kB, reserve()},
                   {kB, reserve()},
                   {kB, publish_extents(0)},
                   {kB, publish_extents(1)}}),
      // A part that follows one which the name's record does not have.
      coordinates({{kB, beat("b")},
                   {kB, reserve(Layout::kReplicated)},
                   {kB, publish_extents(0)},
                   {kB, share(0)},
                   {kB, plan(0, 1)},
                   {kB, give(1)},
                   {kB, remove_extents(0)},
                   {kB, release(1)}}),
  };
}
