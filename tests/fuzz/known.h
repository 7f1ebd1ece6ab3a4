// What a daemon gave out, by short words, so that a fuzzer need not guess random numbers: the n-th
// allocation, extent, session, receipt, hold and council.
//
// In a message an id of one byte stands for that allocation's, session's or hold's; a receipt of one byte for
// the whole; an address, or a council's id, below kKnownMax for that extent's with its generation and
// capability, or that council's.
#pragma once

#include <string>
#include <vector>

#include "control.pb.h"

namespace ocm::fuzz {

class Known {
 public:
  static constexpr size_t kKnownMax = 16;

  /// Of a reply.
  void learn(const wire::Envelope& reply) {
    if (reply.has_session_welcome()) add(sessions_, reply.session_welcome());
    if (reply.has_reserved()) add(extents_, reply.reserved().extent());
    if (reply.has_cluster_view() && reply.cluster_view().council().id() != 0)
      learn(reply.cluster_view().council());
    if (!reply.has_allocation()) return;
    const wire::Allocation& allocation = reply.allocation();
    add(allocations_, allocation.allocation_id());
    if (!allocation.receipt().empty()) add(receipts_, allocation.receipt());
    if (!allocation.hold_id().empty()) add(holds_, allocation.hold_id());
    for (const auto& each : allocation.extents()) add(extents_, each);
  }
  void learn(const wire::Council& council) {
    if (councils_.empty() || councils_.back().id() != council.id()) add(councils_, council);
  }

  /// Replaces the short words.
  void resolve(wire::Envelope& message) const {
    using wire::Envelope;
    switch (message.body_case()) {
      case Envelope::kSessionHello: hello(*message.mutable_session_hello()); break;
      case Envelope::kSessionRestore:
        for (auto& each : *message.mutable_session_restore()->mutable_shown())
          word(*each.mutable_receipt(), receipts_);
        break;
      case Envelope::kFree:
        word(*message.mutable_free()->mutable_allocation_id(), allocations_);
        word(*message.mutable_free()->mutable_hold_id(), holds_);
        break;
      case Envelope::kPublish:
        word(*message.mutable_publish()->mutable_allocation_id(), allocations_);
        if (message.publish().has_allocation()) allocation(*message.mutable_publish()->mutable_allocation());
        break;
      case Envelope::kJoin:
        for (std::string& each : *message.mutable_join()->mutable_allocation_ids()) word(each, allocations_);
        break;
      case Envelope::kNameRemove:
        word(*message.mutable_name_remove()->mutable_allocation_id(), allocations_);
        break;
      case Envelope::kOpenExtent: opened(*message.mutable_open_extent()); break;
      case Envelope::kMapPages: opened(*message.mutable_map_pages()); break;
      case Envelope::kCopy:
        extent(*message.mutable_copy()->mutable_target());
        extent(*message.mutable_copy()->mutable_source());
        break;
      case Envelope::kLostReplica:
        word(*message.mutable_lost_replica()->mutable_allocation_id(), allocations_);
        ref(*message.mutable_lost_replica());
        break;
      case Envelope::kResolve:
        word(*message.mutable_resolve()->mutable_allocation_id(), allocations_);
        if (message.resolve().has_extent()) ref(*message.mutable_resolve()->mutable_extent());
        refs(*message.mutable_resolve()->mutable_part());
        break;
      case Envelope::kReserve: word(*message.mutable_reserve()->mutable_session_id(), session_ids_); break;
      case Envelope::kCache:
        for (auto& each : *message.mutable_cache()->mutable_extents()) opened(each);
        break;
      case Envelope::kRelease:
        word(*message.mutable_release()->mutable_session_id(), session_ids_);
        word(*message.mutable_release()->mutable_allocation_id(), allocations_);
        opened(*message.mutable_release());
        refs(*message.mutable_release()->mutable_more());
        break;
      case Envelope::kSessionEnd:
        word(*message.mutable_session_end()->mutable_session_id(), session_ids_);
        break;
      case Envelope::kSessionResume:
        word(*message.mutable_session_resume()->mutable_session_id(), session_ids_);
        break;
      case Envelope::kSessionAt:
        word(*message.mutable_session_at()->mutable_session_id(), session_ids_);
        break;
      case Envelope::kHold:
        word(*message.mutable_hold()->mutable_hold_id(), holds_);
        refs(*message.mutable_hold()->mutable_extents());
        break;
      case Envelope::kHeartbeat:
        council(*message.mutable_heartbeat()->mutable_council());
        for (auto& each : *message.mutable_heartbeat()->mutable_published()) allocation(each);
        for (std::string& each : *message.mutable_heartbeat()->mutable_removed()) word(each, allocations_);
        break;
      case Envelope::kPublishExtents:
        allocation(*message.mutable_publish_extents()->mutable_allocation());
        break;
      case Envelope::kLeaseVote:
        council_id(*message.mutable_lease_vote());
        refs(*message.mutable_lease_vote()->mutable_freed());
        refs(*message.mutable_lease_vote()->mutable_gone());
        break;
      case Envelope::kLeaseGranted:
        refs(*message.mutable_lease_granted()->mutable_dropped());
        for (auto& each : *message.mutable_lease_granted()->mutable_watched()) watched(each);
        if (message.lease_granted().has_council())
          council(*message.mutable_lease_granted()->mutable_council());
        break;
      case Envelope::kLoseReplica: {
        auto& lose = *message.mutable_lose_replica();
        council_id(lose);
        refs(*lose.mutable_part());
        refs(*lose.mutable_lost());
        ref(*lose.mutable_replica());
        if (lose.has_ended()) ref(*lose.mutable_ended());
        break;
      }
      case Envelope::kReplicaLosing: {
        auto& losing = *message.mutable_replica_losing();
        refs(*losing.mutable_lost());
        if (losing.has_accepted()) ref(*losing.mutable_accepted());
        if (losing.has_ended()) ref(*losing.mutable_ended());
        break;
      }
      case Envelope::kSealCouncil: council_id(*message.mutable_seal_council()); break;
      case Envelope::kNoteNames: noting(*message.mutable_note_names()); break;
      case Envelope::kProposeCouncil:
        council_id(*message.mutable_propose_council());
        next(*message.mutable_propose_council()->mutable_next());
        break;
      case Envelope::kLeader: council(*message.mutable_leader()->mutable_council()); break;
      case Envelope::kInstallCouncil: next(*message.mutable_install_council()); break;
      case Envelope::kClusterView: council(*message.mutable_cluster_view()->mutable_council()); break;
      case Envelope::kPartMoved: part(*message.mutable_part_moved()); break;
      case Envelope::kGiveReplica: give(*message.mutable_give_replica()); break;
      case Envelope::kShareReplica:
        ref(*message.mutable_share_replica()->mutable_replica());
        if (message.share_replica().has_end()) ref(*message.mutable_share_replica()->mutable_end());
        break;
      case Envelope::kPlanPart:
        ref(*message.mutable_plan_part()->mutable_replica());
        give(*message.mutable_plan_part()->mutable_give());
        refs(*message.mutable_plan_part()->mutable_of());
        refs(*message.mutable_plan_part()->mutable_lost());
        break;
      case Envelope::kDigest: extent(*message.mutable_digest()->mutable_extent()); break;
      case Envelope::kReplicaQuery: refs(*message.mutable_replica_query()->mutable_replicas()); break;
      case Envelope::kReplicaAnswer:
        refs(*message.mutable_replica_answer()->mutable_living());
        for (auto& each : *message.mutable_replica_answer()->mutable_parts()) {
          ref(*each.mutable_here());
          refs(*each.mutable_others());
        }
        break;
      default: break;
    }
  }

 private:
  template <class T>
  static void add(std::vector<T>& to, const T& what) {
    if (to.size() < kKnownMax) to.push_back(what);
  }
  void add(std::vector<wire::SessionWelcome>& to, const wire::SessionWelcome& what) {
    if (to.size() >= kKnownMax) return;
    to.push_back(what);
    session_ids_.push_back(what.session_id());
  }
  static void word(std::string& field, const std::vector<std::string>& known) {
    if (field.size() == 1 && static_cast<uint8_t>(field[0]) < known.size())
      field = known[static_cast<uint8_t>(field[0])];
  }
  /// The extent that the address stands for; null if none.
  template <class Message>
  const wire::ExtentDescriptor* ref(Message& message) const {
    const uint64_t index = message.address();
    if (index >= extents_.size()) return nullptr;
    message.set_address(extents_[index].address());
    message.set_generation(extents_[index].generation());
    return &extents_[index];
  }
  void refs(google::protobuf::RepeatedPtrField<wire::ExtentRef>& all) const {
    for (auto& each : all) ref(each);
  }
  template <class Message>
  void opened(Message& message) const {
    const wire::ExtentDescriptor* known = ref(message);
    if (known != nullptr && message.capability().empty()) message.set_capability(known->capability());
  }
  void extent(wire::ExtentDescriptor& message) const {
    const wire::ExtentDescriptor* known = ref(message);
    if (known == nullptr) return;
    if (message.capability().empty()) message.set_capability(known->capability());
    if (message.node().empty()) message.set_node(known->node());
    if (message.bytes() == 0) message.set_bytes(known->bytes());
  }
  void allocation(wire::Allocation& message) const {
    word(*message.mutable_allocation_id(), allocations_);
    for (auto& each : *message.mutable_extents()) extent(each);
  }
  void part(wire::PartMoved& message) const {
    word(*message.mutable_allocation_id(), allocations_);
    ref(*message.mutable_was());
    for (auto& each : *message.mutable_now()) extent(each);
    refs(*message.mutable_former());
    refs(*message.mutable_peers());
  }
  void give(wire::GiveReplica& message) const {
    ref(*message.mutable_replica());
    part(*message.mutable_part());
    word(*message.mutable_session_id(), session_ids_);
    if (message.has_published()) allocation(*message.mutable_published());
  }
  void watched(wire::LeaseGranted::Watched& message) const {
    ref(*message.mutable_replica());
    refs(*message.mutable_lost());
    refs(*message.mutable_part());
    if (message.has_ended()) ref(*message.mutable_ended());
  }
  void hello(wire::SessionHello& message) const {
    const std::string& field = message.resume_session();
    if (field.size() != 1 || static_cast<uint8_t>(field[0]) >= sessions_.size()) return;
    const wire::SessionWelcome& known = sessions_[static_cast<uint8_t>(field[0])];
    if (message.resume_key().empty()) message.set_resume_key(known.resume_key());
    message.set_resume_session(known.session_id());
  }
  template <class Message>
  void council_id(Message& message) const {
    if (message.council_id() < councils_.size()) message.set_council_id(councils_[message.council_id()].id());
  }
  void noting(wire::NoteNames& message) const {
    if (message.council_id() >= councils_.size()) return;
    const wire::Council& in = councils_[message.council_id()];
    message.set_council_id(in.id());
    if (message.by().empty() && in.voters_size() > 0) message.set_by(in.voters(0).incarnation());
  }
  /// `number` later than the one that it stands for. Without voters of its own it has the same; those of the
  /// known one need no incarnation.
  void council(wire::Council& message) const {
    if (message.id() >= councils_.size()) return;
    wire::Council out = councils_[message.id()];
    out.set_id(out.id() + message.number());
    out.set_number(out.number() + message.number());
    if (message.voters_size() != 0) {
      const wire::Council& known = councils_[message.id()];
      *out.mutable_voters() = message.voters();
      for (auto& voter : *out.mutable_voters()) {
        for (const auto& one : known.voters()) {
          if (one.name() == voter.name() && voter.incarnation().empty()) voter = one;
        }
      }
    }
    out.mutable_chains()->MergeFrom(message.chains());
    message = out;
  }
  void next(wire::InstallCouncil& message) const {
    council(*message.mutable_council());
    for (auto& each : *message.mutable_bases()) council(each);
    for (auto& each : *message.mutable_state()->mutable_parts()) {
      refs(*each.mutable_replicas());
      refs(*each.mutable_lost());
      if (each.has_ended()) ref(*each.mutable_ended());
      if (each.has_accepted()) ref(*each.mutable_accepted());
    }
  }

  std::vector<std::string> allocations_, session_ids_, receipts_, holds_;
  std::vector<wire::SessionWelcome> sessions_;
  std::vector<wire::ExtentDescriptor> extents_;
  std::vector<wire::Council> councils_;
};

}  // namespace ocm::fuzz
